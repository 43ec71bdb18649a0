"""Measure rubric alignment with gold: rubrics of a generator skill, the matcher's pairs, and its calibration."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decoevo_dspy.benchmarks import gold_criteria
from decoevo_dspy.benchmarks.base import Dataset, GoldCriteria
from decoevo_dspy.calls.budget import Budget, Ledger
from decoevo_dspy.calls.executor import Executor
from decoevo_dspy.calls.recording import RecordedLM, Recorder
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.errors import DataError, EndpointError
from decoevo_dspy.roles import RubricGenerator
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.roles.lms import RoleLMs
from decoevo_dspy.roles.matcher import Matcher
from decoevo_dspy.rules.matching import Alignment, QuestionAlignment, align_question, macro
from decoevo_dspy.rules.statistics import balanced_accuracy, cohen_kappa, macro_f1
from decoevo_dspy.values.skill import Skill
from decoevo_dspy.values.task import Question


@dataclass(frozen=True, kw_only=True)
class Aligner:
    """Generator and matcher behind recorded LMs; both have a ledger apart from any run's."""

    matcher: Matcher
    recorder: Recorder
    role_lms: RoleLMs

    @classmethod
    def open(cls, *, role_lms: RoleLMs, seed: int, store: CallStore, run: str, num_threads: int) -> "Aligner":
        """An aligner that records into ``store``."""
        ledger = Ledger(run, Budget())
        recorder = Recorder(run=run, seed=seed, store=store, ledger=ledger, executor=Executor(num_threads))
        options = role_lms.option("matcher")
        matcher = Matcher(structured=options.structured, context_tokens=options.context_tokens)
        matcher.set_lm(
            RecordedLM(role_lms.lm("matcher"), role="matcher", recorder=recorder, send_seed=options.send_seed)
        )
        return cls(matcher=matcher, recorder=recorder, role_lms=role_lms)

    def align(
        self, skill: Skill, questions: Sequence[Question], dataset: Dataset, *, partition: str = "test"
    ) -> Alignment:
        """Alignment of the rubrics that ``skill`` writes; questions without gold criteria are left out.

        A question whose rubric or pairs could not be had is named in ``failures`` and in no average.

        Raises:
            ConfigurationError: for a benchmark without gold criteria per question.
            EndpointError: when the endpoint failed for every question.
        """
        opened = dataset.gold.open_for_evaluation(question.id for question in questions)
        gold = {q.id: gold_criteria(dataset.name, q, opened[q.id]) for q in questions}
        options = self.role_lms.option("rubric_generator")
        generator = RubricGenerator(skill, structured=options.structured, context_tokens=options.context_tokens)
        lm = RecordedLM(
            self.role_lms.lm("rubric_generator"),
            role="rubric_generator",
            recorder=self.recorder,
            send_seed=options.send_seed,
        )
        generator.set_lm(lm)
        asked = [question for question in questions if gold[question.id]]
        found = self.recorder.executor.map(lambda q: self._one(generator, q, gold[q.id], partition), asked)
        done = [one for one in found if isinstance(one, QuestionAlignment)]
        failures = {q.id: str(one) for q, one in zip(asked, found, strict=True) if isinstance(one, NoReply)}
        self._stop_if_down(found)
        return macro(done, failures)

    def _one(
        self, generator: RubricGenerator, question: Question, gold: GoldCriteria, partition: str
    ) -> QuestionAlignment | NoReply:
        rubric = generator.generate(question.text, partition=partition)
        if isinstance(rubric, NoReply):
            return rubric
        generated = [(criterion.text, criterion.points) for criterion in rubric.criteria]
        pairs = self.matcher.pairs(question.text, generated, gold, partition=partition)
        if isinstance(pairs, NoReply):
            unread = pairs.kind == "unparsable"  # such a reply may quote gold, and reasons go into logs
            return NoReply(kind=pairs.kind, reason="the matcher's reply cannot be read") if unread else pairs
        return align_question(question.id, len(generated), [points for _, points in gold], pairs)

    def calibrate(self, labels: Sequence["LabelledPair"]) -> dict[str, Any]:
        """The matcher against human labels: balanced accuracy, macro-F1, Cohen's κ, overall and by stratum.

        Raises:
            EndpointError: when the endpoint failed for every pair.
        """
        said = self.recorder.executor.map(self._same, labels)
        self._stop_if_down(said)
        graded = [(label, one) for label, one in zip(labels, said, strict=True) if isinstance(one, bool)]
        strata = sorted({label.stratum for label, _ in graded})
        return {
            **_agreement(graded),
            "n": len(graded),
            "ungraded": len(labels) - len(graded),
            "by_stratum": {stratum: _by_stratum([g for g in graded if g[0].stratum == stratum]) for stratum in strata},
        }

    def _same(self, label: "LabelledPair") -> bool | NoReply:
        pairs = self.matcher.pairs(
            label.question, [(label.generated, 1.0)], [(label.gold, label.points)], partition="calibration"
        )
        return pairs if isinstance(pairs, NoReply) else bool(pairs)

    def _stop_if_down(self, found: Sequence[Any]) -> None:
        if found and all(isinstance(one, NoReply) and one.infrastructure for one in found):
            raise EndpointError(f"nothing could be matched: {self.recorder.last_failure}")

    def usage(self) -> dict[str, dict[str, Any]]:
        """Calls and tokens of the alignment, per role."""
        return self.recorder.ledger.by_role()


@dataclass(frozen=True, kw_only=True)
class LabelledPair:
    """A human judgement: do these two criteria express the same requirement?"""

    generated: str
    gold: str
    same: bool
    question: str = ""
    points: float = 1.0
    stratum: str = ""


def read_labels(path: Path) -> list[LabelledPair]:
    """Labels from JSON lines ``{"generated", "gold", "same": true|false, "question"?, "points"?, "stratum"?}``.

    Raises:
        DataError: naming file, line and field.
    """
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text ({type(error).__name__})") from error
    labels: list[LabelledPair] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: not JSON ({error})") from error
        labels.append(_label(row, f"{path}, line {number}"))
    if not labels:
        raise DataError(f"{path}: holds no label; give JSON lines with generated, gold and same")
    return labels


def _label(row: Any, place: str) -> LabelledPair:
    known = {"generated": str, "gold": str, "same": bool, "question": str, "points": int | float, "stratum": str}
    if not isinstance(row, dict):
        raise DataError(f"{place}: must be an object with generated, gold and same")
    for name in row:
        if name not in known:
            raise DataError(f"{place}: unknown field {name!r}; the fields are {', '.join(known)}")
    for name in ("generated", "gold", "same"):
        if name not in row:
            raise DataError(f"{place}: field {name!r} is missing")
    for name, value in row.items():
        if not isinstance(value, known[name]) or (name == "points" and isinstance(value, bool)):
            raise DataError(f"{place}: field {name!r} has the wrong type ({type(value).__name__})")
    return LabelledPair(**row)


def _by_stratum(graded: Sequence[tuple[LabelledPair, bool]]) -> dict[str, Any]:
    return {**_agreement(graded), "n": len(graded)}


def _agreement(graded: Sequence[tuple[LabelledPair, bool]]) -> Mapping[str, Any]:
    truth, said = [label.same for label, _ in graded], [one for _, one in graded]
    figures: dict[str, Any] = {}
    for name, measure in (
        ("balanced_accuracy", balanced_accuracy),
        ("macro_f1", macro_f1),
        ("cohen_kappa", cohen_kappa),
    ):
        if truth:
            result = asdict(measure(truth, said))
            figures[name] = result["value"]
            if result["reason"]:
                figures[f"{name}_undefined"] = result["reason"]
        else:
            figures[name] = None
            figures[f"{name}_undefined"] = "nothing was graded"
    return figures
