"""The final evaluation: one pass over the test partition, scored by the benchmark's own official grader.

It stands outside the optimisation: its calls have a ledger of their own, and it alone opens the gold.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any

import dspy

from decoevo_dspy.benchmarks.base import Grader, GraderFailed, OfficialScore, RawReply, SealedGold
from decoevo_dspy.calls.budget import Budget
from decoevo_dspy.calls.failing import CallFailed
from decoevo_dspy.calls.recording import RecordedLM, Recorder, call_scope
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.errors import EndpointError
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.roles.lms import RoleLMs
from decoevo_dspy.run.session import Session
from decoevo_dspy.run.student import SkilledStudent, carried_skill, inputs_for
from decoevo_dspy.run.workbench import Item
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.skill import Skill
from decoevo_dspy.values.task import Question, Turn


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The official score with what it rests on.

    ``responses`` are the answers by question id (unanswered ones are missing), ``unanswered`` the reasons of those.
    ``usage`` is per role (solver, grader), apart from the optimisation's. ``lost`` are the ids of the questions without
    a score because the endpoint failed, and ``failure`` is what it said last.
    """

    score: OfficialScore
    responses: Mapping[str, str]
    unanswered: Mapping[str, str]
    usage: Mapping[str, Mapping[str, Any]]
    partition: str
    lost: Sequence[str] = ()
    failure: str = ""

    def check_complete(self, max_ungraded: float) -> None:
        """Refuse a score that lacks more than ``max_ungraded`` (a share in [0, 1)) of its questions by failure.

        Raises:
            EndpointError: naming how many questions were lost, and why.
        """
        if len(self.lost) > max_ungraded * self.score.n_total:
            raise EndpointError(
                f"{len(self.lost)} of {self.score.n_total} questions of the {self.partition} partition have no score, "
                f"because the endpoint failed ({self.failure or 'no reason given'}); more than max_ungraded = "
                f"{max_ungraded:g} allows"
            )

    def to_dict(self) -> dict[str, Any]:
        """The ``official`` object of ``result.json``."""
        plain = asdict(self.score)
        return {
            **plain,
            "partition": self.partition,
            "unanswered": dict(self.unanswered),
            "lost_to_endpoint": list(self.lost),
            "usage": {role: dict(usage) for role, usage in self.usage.items()},
        }


class GraderCalls:
    """Grader requests as the official code sends them: no adapter, no seed, recorded and replayed like every call."""

    def __init__(self, lm: dspy.BaseLM, recorder: Recorder, partition: str, role: str = "grader") -> None:
        bare = lm.copy()
        for option in ("temperature", "max_tokens"):  # only what the official code sends: its parameters come per call
            if option in bare.kwargs:
                bare.kwargs[option] = None
        self._lm = RecordedLM(bare, role=role, recorder=recorder, send_seed=False)
        self._partition = partition
        self.model = lm.model
        self.last_failure = ""

    def complete(
        self, messages: Sequence[Mapping[str, str]], *, params: Mapping[str, Any], sample: int = 0
    ) -> RawReply:
        """One reply; ``sample`` tells repeats of the same request apart.

        Raises:
            ExecutionError: when the call failed for good.
        """
        with call_scope(partition=self._partition, sample=str(sample)) as scope:
            try:
                outputs = self._lm(messages=[dict(message) for message in messages], **params)
            except CallFailed as error:
                self.last_failure = error.reason
                raise GraderFailed(error.reason, kind=error.kind) from error
        output = {"text": outputs[0]} if isinstance(outputs[0], str) else outputs[0] or {}
        return RawReply(
            text=output.get("text") or "",
            finish_reason=scope.calls[-1].finish_reason,
            reasoning_stripped=bool(output.get("reasoning_content")),  # by the server, or by LiteLLM on the way
        )


def evaluate(
    program: dspy.Module,
    questions: Sequence[Question],
    gold: SealedGold,
    grader: Grader,
    *,
    role_lms: RoleLMs,
    seed: int,
    store: CallStore,
    run: str,
    num_threads: int,
    partition: str = "test",
    solver_temperature: float = 0.7,
    skill_target: str | None = None,
    response_field: str | None = None,
    sample: str = "test",
) -> Evaluation:
    """Answer the questions with a program as it is, and grade the answers.

    Rounds of one conversation are answered in order, each after the program's own earlier answers.

    Raises:
        EndpointError: when no question could be answered, or no answer graded, because the endpoint failed.
    """
    session = _session(role_lms, seed, store, run, num_threads)
    recorder, settings = session.recorder, Settings(solver_temperature=solver_temperature)
    student = session.student(program, settings, skill_target=skill_target, response_field=response_field)
    skill = carried_skill(program, student.targets) or Skill("")
    answers: dict[str, str | NoReply] = {}
    least = (int(getattr(grader, "min_chars", 0)), int(getattr(grader, "max_generations", 1)))
    for done in recorder.executor.map(
        lambda group: _converse(group, program, student, skill, partition, sample, least), conversations(questions)
    ):
        answers.update(done)
    responses = {id: answer for id, answer in answers.items() if isinstance(answer, str)}
    unanswered = {id: str(answer) for id, answer in answers.items() if isinstance(answer, NoReply)}
    if questions and not responses and all(a.infrastructure for a in answers.values() if isinstance(a, NoReply)):
        raise EndpointError(f"no question of the {partition} partition could be answered: {recorder.last_failure}")
    lost = {id for id, answer in answers.items() if isinstance(answer, NoReply) and answer.infrastructure}
    return _graded(grader, questions, responses, unanswered, lost, gold, session, partition)


def grade_responses(
    responses: Mapping[str, str],
    questions: Sequence[Question],
    gold: SealedGold,
    grader: Grader,
    *,
    role_lms: RoleLMs,
    seed: int,
    store: CallStore,
    run: str,
    num_threads: int,
    partition: str = "test",
) -> Evaluation:
    """Grade ready answers (question id → text), such as those of another system.

    Raises:
        EndpointError: when no answer could be graded because the endpoint failed.
    """
    session = _session(role_lms, seed, store, run, num_threads)
    missing = {q.id: "no response given" for q in questions if q.id not in responses}
    return _graded(grader, questions, responses, missing, set(), gold, session, partition)


def _session(role_lms: RoleLMs, seed: int, store: CallStore, run: str, num_threads: int) -> Session:
    """The evaluation's own surroundings: its calls are in no optimisation's ledger, and no budget stops it."""
    return Session.open(
        run=run,
        seed=seed,
        role_lms=role_lms,
        num_threads=num_threads,
        budget=Budget(),
        folder=None,
        store=store,
        callbacks=(),
    )


def _graded(
    grader: Grader,
    questions: Sequence[Question],
    responses: Mapping[str, str],
    unanswered: Mapping[str, str],
    lost: AbstractSet[str],
    gold: SealedGold,
    session: Session,
    partition: str,
) -> Evaluation:
    """Grade the responses; ``lost`` are the questions that the solver's endpoint left without one."""
    recorder = session.recorder
    client = grader_client(grader, session.role_lms, recorder, partition)
    score = grader.grade(questions, responses, gold, client, recorder.executor.map)
    if client is not None and not score.n_graded and score.figures["lost"] == score.failures > 0:
        raise EndpointError(f"no answer could be graded: {client.last_failure}")
    lost = lost | set(score.figures.get("endpoint_failures", ()))
    return Evaluation(
        score=score,
        responses=responses,
        unanswered=unanswered,
        usage=recorder.ledger.by_role(),
        partition=partition,
        lost=[q.id for q in questions if q.id in lost],
        failure=(client.last_failure if client else "") or recorder.last_failure,
    )


def grader_client(grader: Grader, role_lms: RoleLMs, recorder: Recorder, partition: str) -> GraderCalls | None:
    """The client of a grader that needs a model; the simulated world's exact grader needs none."""
    if not getattr(grader, "needs_model", True):
        return None
    return GraderCalls(role_lms.lm("grader"), recorder, partition)


def conversations(questions: Sequence[Question]) -> list[list[Question]]:
    """Questions by conversation, rounds in order; a single question is a conversation of its own."""
    groups: dict[str, list[Question]] = {}
    for question in questions:
        key = f"g:{question.group}" if question.group is not None else f"q:{question.id}"
        groups.setdefault(key, []).append(question)
    return [sorted(group, key=lambda q: q.round) for group in groups.values()]


def _converse(
    group: Sequence[Question],
    program: dspy.Module,
    student: SkilledStudent,
    skill: Skill,
    partition: str,
    sample: str,
    least: tuple[int, int],
) -> dict[str, str | NoReply]:
    """Answer the rounds of one conversation; an unanswered round leaves its place in the history empty.

    ``least`` is a benchmark's rule for short answers: (characters that count as an answer, how often one is asked for).
    """
    answers: dict[str, str | NoReply] = {}
    history: tuple[Turn, ...] = ()
    for question in group:
        asked = Question(
            id=question.id,
            turns=(*history, *question.turns),
            stratum=question.stratum,
            group=question.group,
            round=question.round,
        )
        item = Item(question=asked, inputs=inputs_for(asked, program), partition=partition)
        answer = student.respond(item, skill, sample)
        for again in range(2, least[1] + 1):
            if isinstance(answer, NoReply) or len(answer.strip()) >= least[0]:
                break
            answer = student.respond(item, skill, f"{sample}/{again}")
        answers[question.id] = answer
        said = answer if isinstance(answer, str) else ""
        history = (*history, *question.turns, Turn(role="assistant", content=said))
    return answers
