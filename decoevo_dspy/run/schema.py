"""What a run's log may hold: one class per kind of event. It is written and read through these classes only.

``ungraded_by`` counts what is ungraded by the kind of its failure (`decoevo_dspy.values.failures.FailureKind`).

A record is one JSON object: the event's fields, its ``kind``, and what the log adds (`ENVELOPE`). Decisions are
replayed and compared on resume; notes (``note``) are not. `SCHEMA` goes up when a record changes so that an older
reader would misread it; a field that is new and has a default does not need that.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Self, TypeVar

from decoevo_dspy.errors import DataError, NewerVersion

Event = dict[str, Any]
"""A record of the log as it is stored, and as callbacks and a result's ``history`` give it."""

SCHEMA = 1
"""Version of this schema; stands in a log's first record. A log without it is of version 1."""

ENVELOPE = ("seq", "at", "calls_upto", "schema", "kind", "note", "replayed")
"""What is added to an event's own fields: number, time, position in the call store, version; for callbacks, replay."""

KINDS: dict[str, type["AnyEvent"]] = {}
"""Kind → class, of every kind there is."""


@dataclass(frozen=True, kw_only=True)
class AnyEvent:
    """An event. A subclass's kind is its name in snake case unless it says otherwise; a field with a default is left
    out of the record where it holds that default."""

    kind: ClassVar[str]
    note: ClassVar[bool] = False

    def __init_subclass__(cls, kind: str = "", note: bool = False) -> None:
        cls.kind, cls.note = kind or re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower(), note
        KINDS[cls.kind] = cls

    def record(self) -> Event:
        """The event as a record, without the envelope's numbers."""
        return {"kind": self.kind, **({"note": True} if self.note else {}), **_plain(self)}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """The event in a record of this kind.

        Raises:
            DataError: naming the field that is missing.
        """
        return _read(cls, {key: value for key, value in record.items() if key not in ENVELOPE}, record)


E = TypeVar("E", bound=AnyEvent)


FLAT = {"flat": True}
"""Marks a field whose own fields stand in the record themselves."""


@dataclass(frozen=True, kw_only=True)
class RunStarted(AnyEvent):
    """What the run is: every text and setting that its decisions rest on, and the identity of each role's LM."""

    method: str
    task: str
    settings: Mapping[str, Any]
    solver_skill: str
    generator_skill: str
    specification: str
    partitions: Mapping[str, Sequence[str]]
    prompt_hashes: Mapping[str, str]
    models: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ProcessStarted(AnyEvent, note=True):
    """A process began to work on the run, with these model names per role and so many threads."""

    models: Mapping[str, str]
    threads: int


@dataclass(frozen=True, kw_only=True)
class IncumbentScored(AnyEvent):
    """J ∈ [0, 1] of the incumbent solver on V_s under the incumbent generator; skills by key."""

    step: int
    solver: str
    generator: str
    J: float | None
    n: int
    ungraded: int
    ungraded_by: Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class BatchGraded(AnyEvent):
    """The train batch of a step: J ∈ [0, 1] on it, how many criteria failed, and those that the rewriter was shown."""

    step: int
    solver: str
    generator: str
    questions: Sequence[str]
    J: float | None
    n: int
    ungraded: int
    ungraded_by: Mapping[str, int] | None = None
    failures: int
    failures_shown: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class AuditReported(AnyEvent, kind="audit"):
    """One audit's findings on the probe partition; ``evidence`` is its own."""

    step: int
    round: int
    audit: str
    generator: str
    audited: int
    ungraded: int
    findings: Sequence[Mapping[str, str]]
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any], metadata=FLAT)


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What both decisions say: a candidate (``None``: discarded) with its text, edits and measured differences."""

    step: int
    accepted: bool
    reason: str
    parent: str
    candidate: str | None
    text: str
    summary: str
    edits: Sequence[Mapping[str, Any]]
    deltas: Mapping[str, float | None]
    standard_errors: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class GateEvidence:
    """J ∈ [0, 1] of incumbent and candidate on V_s under one generator, and both scores by question."""

    generator: str
    incumbent_J: float | None
    candidate_J: float | None
    n: int
    ungraded: int
    ungraded_by: Mapping[str, int] | None = None
    scores: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True, kw_only=True)
class SolverDecision(Decided, AnyEvent):
    """The inner gate's decision; ``gate`` is missing for a candidate that did not come to it."""

    gate: GateEvidence | None = field(default=None, metadata=FLAT)


@dataclass(frozen=True, kw_only=True)
class GeneratorDecision(Decided, AnyEvent):
    """The verification's decision. ``trigger``: "schedule" or "stall"; ``findings`` counts what the rewriter read.

    ``evidence`` is the method's own: ``objectives`` (audit → side → question → value), ``records``, ``rubrics`` (before
    and after, of a few probe questions), or ``proxy`` (score coupling).
    """

    round: int
    findings: int
    trigger: str
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any], metadata=FLAT)


@dataclass(frozen=True, kw_only=True)
class RunFinished(AnyEvent):
    """The last step was decided; skills by key."""

    steps: int
    solver: str
    generator: str


@dataclass(frozen=True, kw_only=True)
class RunStopped(AnyEvent, note=True):
    """The run stopped before its last step. ``stopped_by``: "budget", "endpoint", "interrupt" or "error"."""

    stopped_by: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Diagnostic(AnyEvent, note=True):
    """An accepted checkpoint on the diagnostic partition: ``proxy`` in [0, 1], ``official`` on 0–100."""

    version: int
    step: int
    solver: str
    generator: str
    proxy: float | None
    official: float | None
    n_graded: int
    n_total: int


@dataclass(frozen=True, kw_only=True)
class PartitionOpened(AnyEvent, kind="test_opened", note=True):
    """The gold of the test questions was opened by a command; ``transfer`` names the benchmarks where they differ."""

    by: str
    questions: int
    benchmark: str = ""
    transfer: Mapping[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Official(AnyEvent, note=True):
    """The official score of the solver skill with this key, as `decoevo_dspy.evaluation.official` gives it."""

    by: str = ""
    solver: str = ""
    score: Mapping[str, Any] = field(default_factory=dict[str, Any], metadata=FLAT)


@dataclass(frozen=True, kw_only=True)
class OfficialIncomplete(AnyEvent, note=True):
    """The official score lacks more questions than allowed; the ids of those that the endpoint lost."""

    by: str
    solver: str
    reason: str
    n_graded: int
    n_total: int
    lost_to_endpoint: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Evaluated(AnyEvent, note=True):
    """An official score from ``decoevo evaluate``; no part of the run."""

    by: str
    benchmark: str
    transfer: Mapping[str, str] | None = None
    score: Mapping[str, Any] = field(default_factory=dict[str, Any], metadata=FLAT)


@dataclass(frozen=True, kw_only=True)
class Alignment(AnyEvent, note=True):
    """Rubric alignment with gold, from ``decoevo align``."""

    by: str
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any], metadata=FLAT)


@dataclass(frozen=True, kw_only=True)
class RunFailed(AnyEvent, note=True):
    """Told to an experiment's progress, in no log: a run came to no score."""

    error: str
    exit_code: int


@dataclass(frozen=True, kw_only=True)
class RunSkipped(AnyEvent, note=True):
    """Told to an experiment's progress, in no log: a run was complete already."""


def typed(record: Mapping[str, Any]) -> AnyEvent | None:
    """A record as its class; ``None`` for a kind that this version does not know.

    Raises:
        DataError: for a record that lacks a field.
    """
    kind = KINDS.get(record["kind"])
    return None if kind is None else kind.read(record)


def of(records: Iterable[Mapping[str, Any]], kind: type[E]) -> Iterator[E]:
    """The events of one kind, in order."""
    return (kind.read(record) for record in records if record["kind"] == kind.kind)


def check_version(record: Mapping[str, Any], place: object) -> None:
    """Refuse what a newer version of this package has written.

    Raises:
        NewerVersion: naming both versions.
    """
    version = record.get("schema", 1)
    if not isinstance(version, int) or version > SCHEMA:
        raise NewerVersion(
            f"{place}: written by a newer decoevo-dspy (log version {version}; this one reads up to {SCHEMA}); "
            "upgrade decoevo-dspy"
        )


def _plain(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in fields(value):
        own = getattr(value, part.name)
        if part.metadata.get("flat"):
            found |= {} if own is None else _plain(own) if is_dataclass(own) else own
        elif part.default is MISSING or own != part.default:
            found[part.name] = own
    return found


_FLAT: dict[str, type[Any]] = {"gate": GateEvidence}
"""The class of a flat field that has one; the others are mappings and take what no field names."""


def _read(kind: type[Any], left: dict[str, Any], record: Mapping[str, Any]) -> Any:
    values: dict[str, Any] = {}
    last = ""
    for part in fields(kind):
        inner = _FLAT.get(part.name)
        if part.metadata.get("flat") and inner is None:
            last = part.name
        elif inner is not None:
            values[part.name] = _read(inner, left, record) if fields(inner)[-1].name in left else None
        elif part.name in left:
            values[part.name] = left.pop(part.name)
        elif part.default is MISSING:
            raise DataError(
                f"event {record.get('seq', '?')} ({record['kind']}) lacks {part.name!r}; the log is damaged"
            )
    if last:
        values[last] = left
    return kind(**values)
