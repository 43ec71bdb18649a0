"""Where questions are answered, rubrics written and answers judged: the impure half of the algorithm's vocabulary.

Work flows per question: a response is judged when it and its rubric are there. Results are remembered by what they
depend on: answers by (solver skill, question, sample), rubrics by (generator skill, question, sample).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from decoevo_dspy.calls.executor import Executor
from decoevo_dspy.calls.recording import Recorder, for_item
from decoevo_dspy.errors import ConfigurationError, EndpointError
from decoevo_dspy.roles.base import NoReply, ReplyCounts
from decoevo_dspy.roles.contrastive_auditor import ContrastiveAuditor
from decoevo_dspy.roles.rewriters import GeneratorRewriter, SolverRewriter
from decoevo_dspy.roles.rubric_generator import RubricGenerator
from decoevo_dspy.roles.rubric_judge import RubricJudge
from decoevo_dspy.roles.structural_auditor import StructuralAuditor
from decoevo_dspy.values.findings import Failure
from decoevo_dspy.values.rubric import Outcome, Rubric, Ungraded, Verdict
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.skill import Skill
from decoevo_dspy.values.task import Question, Task

T = TypeVar("T")
R = TypeVar("R")

BATCH_TRIES = 3
"""So many times in a row may a batch fail at the endpoint before the run stops with its state saved."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """A question with the student's inputs for it, and the partition it stands in."""

    question: Question
    inputs: Mapping[str, Any]
    partition: str

    @property
    def id(self) -> str:
        """The question's id."""
        return self.question.id


class Student(Protocol):
    """The program under optimisation, as the workbench sees it."""

    def respond(self, item: Item, skill: Skill, sample: str) -> str | NoReply:
        """The response r_q(s) of one draw."""
        ...


@dataclass(frozen=True, kw_only=True)
class Graded:
    """One response with the rubric and the verdicts it got; any of them may be missing, then ``score`` is ungraded."""

    item: Item
    response: str | None
    rubric: Rubric | None
    verdicts: tuple[Outcome, ...]
    score: float | Ungraded

    def failures(self, below: float) -> list[Failure]:
        """Criteria with a verdict under ``below``, weightiest loss first."""
        if self.rubric is None:
            return []
        found = [
            Failure(question_id=self.item.id, criterion=c.text, points=c.points, score=v.score, rationale=v.rationale)
            for c, v in zip(self.rubric.criteria, self.verdicts, strict=True)
            if isinstance(v, Verdict) and v.score < below
        ]
        return sorted(found, key=lambda failure: -failure.weight)


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The roles of a run, each already bound to its LM."""

    judge: RubricJudge
    structural_auditor: StructuralAuditor
    contrastive_auditor: ContrastiveAuditor
    solver_rewriter: SolverRewriter
    generator_rewriter: GeneratorRewriter
    make_rubric_generator: Callable[[Skill], RubricGenerator]


@dataclass(kw_only=True)
class Workbench:
    """All that a run does with models. ``pause_s`` is the wait between two tries of a failed batch, in seconds."""

    task: Task
    settings: Settings
    seed: int
    roles: Roles
    student: Student
    executor: Executor
    recorder: Recorder
    counts: ReplyCounts
    pause_s: float = 5.0
    _answers: dict[tuple[str, str, str], str] = field(default_factory=dict[tuple[str, str, str], str])
    _rubrics: dict[tuple[str, str, str], Rubric] = field(default_factory=dict[tuple[str, str, str], Rubric])
    _graded: dict[tuple[str, str, str, str], Graded] = field(default_factory=dict[tuple[str, str, str, str], Graded])
    _generators: dict[str, RubricGenerator] = field(default_factory=dict[str, RubricGenerator])

    def answer(self, item: Item, solver: Skill, sample: str = "0") -> str | NoReply:
        """r_q(s); another ``sample`` is another draw."""
        key = (solver.key, item.id, sample)
        if key not in self._answers:
            reply = self.student.respond(item, solver, sample)
            if isinstance(reply, NoReply):
                return reply
            self._answers[key] = reply
        return self._answers[key]

    def rubric(self, item: Item, generator: Skill, sample: str = "rubric") -> Rubric | NoReply:
        """R_q(g); the sample ``"rubric"`` is the one that gates share, any other is drawn with a temperature."""
        key = (generator.key, item.id, sample)
        with self.recorder.store.key_lock("rubric " + " ".join(key)):  # drawn, and counted, once
            return self._rubric(key, item, generator, sample)

    def _rubric(self, key: tuple[str, str, str], item: Item, generator: Skill, sample: str) -> Rubric | NoReply:
        if key not in self._rubrics:
            role = self._generators.get(generator.key)
            if role is None:
                role = self._generators.setdefault(generator.key, self.roles.make_rubric_generator(generator))
            temperature = None if sample == "rubric" else self.settings.verify_temperature
            reply = role.generate(item.question.text, partition=item.partition, sample=sample, temperature=temperature)
            if isinstance(reply, NoReply):
                return reply
            self._rubrics[key] = reply
        return self._rubrics[key]

    def judge(self, item: Item, response: str, rubric: Rubric, sample: str = "judge") -> tuple[Outcome, ...]:
        """The verdicts e(q, r, c_i) on one response."""
        return self.roles.judge.judge(
            item.question.text, response, rubric, partition=item.partition, sample=sample, map=self.executor.map
        )

    def grade(self, item: Item, solver: Skill, generator: Skill, sample: str = "0") -> Graded:
        """S(q, r_q(s), R_q(g)) of one draw, with all that led to it."""
        key = (solver.key, generator.key, item.id, sample)
        known = self._graded.get(key)
        if known is None:
            known = self._grade(item, solver, generator, sample)
            if not isinstance(known.score, Ungraded):
                self._graded[key] = known
        return known

    def _grade(self, item: Item, solver: Skill, generator: Skill, sample: str) -> Graded:
        steps: list[Callable[[], Any]] = [
            lambda: self.answer(item, solver, sample),
            lambda: self.rubric(item, generator),
        ]
        response, rubric = self.executor.map(lambda step: step(), steps)
        lost = [part for part in (response, rubric) if isinstance(part, NoReply)]
        if lost:
            return Graded(
                item=item,
                response=None if isinstance(response, NoReply) else response,
                rubric=None if isinstance(rubric, NoReply) else rubric,
                verdicts=tuple(lost[0].ungraded() for _ in getattr(rubric, "criteria", ())),
                score=lost[0].ungraded("response" if isinstance(response, NoReply) else "rubric"),
            )
        verdicts = self.judge(item, response, rubric)
        return Graded(item=item, response=response, rubric=rubric, verdicts=verdicts, score=rubric.score(verdicts))

    def grade_all(self, items: Sequence[Item], solver: Skill, generator: Skill, sample: str = "0") -> dict[str, Graded]:
        """`grade` of every item, by question id."""
        graded = self.batch(lambda item: self.grade(item, solver, generator, sample), items)
        return {one.item.id: one for one in graded}

    def ask(self, fn: Callable[[], R]) -> R:
        """`batch` of a single call: a rewriter that the endpoint fails is asked again, and nothing is decided on it."""
        return self.batch(lambda _: fn(), [None])[0]

    def batch(self, fn: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Map over items in parallel; when the endpoint fails at least half of them, the failed calls are sent again.

        Raises:
            EndpointError: after `BATCH_TRIES` failed tries in a row; nothing has been decided on the failures then.
        """
        for attempt in range(1, BATCH_TRIES + 1):
            mark = len(self.recorder.failures)
            results = self.executor.map(lambda pair: for_item(pair[0], fn, pair[1]), list(enumerate(items)))
            failed = self.recorder.failures[mark:]
            if not items or 2 * len({item for item, _ in failed}) < len(items):
                return results
            self.recorder.forget(key for _, key in failed)
            if attempt < BATCH_TRIES:
                time.sleep(self.pause_s)
        raise EndpointError(f"{BATCH_TRIES} batches in a row failed at the endpoint: {self.recorder.last_failure}")


def check_students(results: Sequence[str | NoReply | Graded]) -> None:
    """Stop when the student itself raised on every item: that is a bug to mend, not a bad answer.

    Raises:
        ConfigurationError: with the first error.
    """
    ungraded = [one.score for one in results if isinstance(one, Graded) and isinstance(one.score, Ungraded)]
    broken = [score.reason for score in ungraded if score.kind == "program"]
    if results and len(broken) == len(results):
        raise ConfigurationError(f"the student failed on every question of a batch: {broken[0]}")
