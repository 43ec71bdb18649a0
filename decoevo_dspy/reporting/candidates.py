"""Every candidate of a run with what its decision rested on, from the events."""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from decoevo_dspy.run.schema import (
    AuditReported,
    BatchGraded,
    Event,
    GeneratorDecision,
    RunStarted,
    SolverDecision,
)
from decoevo_dspy.run.standing import standings

Outcome = Literal["accepted", "rejected", "discarded"]


@dataclass(frozen=True, kw_only=True)
class AuditView:
    """One audit on the probe partition: what it looked at, and what it found."""

    name: str
    audited: int
    ungraded: int
    findings: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class CandidateView:
    """One decision with everything it rested on.

    ``levels`` holds (incumbent, candidate) of J or of each audit objective, on the scale of the log; ``changes`` counts
    the gate's questions by ``up``, ``same``, ``down`` and ``ungraded``. ``batch`` is the graded train batch behind a
    solver candidate; ``audits`` are the findings that the rewriter read. ``ungraded_by`` counts the gate's ungraded
    questions by the kind of their failure.
    """

    number: int
    skill: Literal["solver", "generator"]
    step: int
    round: int | None
    outcome: Outcome
    reason: str
    parent: str
    key: str | None
    parent_text: str | None
    text: str
    summary: str
    edits: tuple[Mapping[str, Any], ...]
    deltas: Mapping[str, float | None]
    standard_errors: Mapping[str, float | None]
    levels: Mapping[str, tuple[float | None, float | None]]
    changes: Mapping[str, Mapping[str, int]]
    batch: BatchGraded | None
    audits: tuple[AuditView, ...]
    rubrics: tuple[Mapping[str, Any], ...]
    trigger: str = ""
    ungraded_by: Mapping[str, int] = field(default_factory=dict[str, int])

    def diff(self, context: int = 2) -> list[str]:
        """Unified diff from parent to candidate, without file headers; empty when either text is not in the log."""
        if self.parent_text is None or not self.text:
            return []
        old, new = self.parent_text.split("\n"), self.text.split("\n")
        return list(difflib.unified_diff(old, new, n=context, lineterm=""))[2:]

    def failing_questions(self) -> Counter[str]:
        """How many of the shown failures come from each question."""
        return Counter(str(f.get("question_id")) for f in (self.batch.failures_shown if self.batch else ()))


def candidates_of(events: Sequence[Event]) -> Iterable[CandidateView]:
    """The candidates in the order of their decisions."""
    texts: dict[str, str] = {}
    batch: BatchGraded | None = None
    audits: list[AuditView] = []
    number = 0
    for event, standing in standings(events):
        if isinstance(event, RunStarted):
            texts |= {skill.key: skill.text for skill in (standing.solver, standing.generator)}
        elif isinstance(event, BatchGraded):
            batch = event
        elif isinstance(event, AuditReported):
            audits.append(
                AuditView(
                    name=event.audit,
                    audited=event.audited,
                    ungraded=event.ungraded,
                    findings=tuple(event.findings),
                )
            )
        elif isinstance(event, SolverDecision | GeneratorDecision):
            number += 1
            solver = isinstance(event, SolverDecision)
            yield _candidate(event, number, texts, batch if solver else None, audits)
            batch, audits = (None if solver else batch), []
            if event.candidate:
                texts[event.candidate] = event.text


def _candidate(
    event: SolverDecision | GeneratorDecision,
    number: int,
    texts: Mapping[str, str],
    batch: BatchGraded | None,
    audits: Sequence[AuditView],
) -> CandidateView:
    levels, changes = _measured(event)
    generator = event if isinstance(event, GeneratorDecision) else None
    outcome: Outcome = "accepted" if event.accepted else "rejected" if event.candidate else "discarded"
    return CandidateView(
        number=number,
        skill="solver" if generator is None else "generator",
        step=event.step,
        round=generator.round if generator else None,
        outcome=outcome,
        reason=event.reason.removeprefix("discarded:").strip() if outcome == "discarded" else event.reason,
        parent=event.parent,
        key=event.candidate,
        parent_text=texts.get(event.parent),
        text=event.text,
        summary=event.summary,
        edits=tuple(event.edits),
        deltas=event.deltas,
        standard_errors=event.standard_errors,
        levels=levels,
        changes=changes,
        batch=batch,
        audits=tuple(audits),
        rubrics=tuple(generator.evidence.get("rubrics", ())) if generator else (),
        trigger=generator.trigger if generator else "",
        ungraded_by=_ungraded_by(event),
    )


def _ungraded_by(event: SolverDecision | GeneratorDecision) -> Mapping[str, int]:
    if isinstance(event, GeneratorDecision):
        return event.evidence.get("ungraded_by") or {}
    return (event.gate.ungraded_by if event.gate else None) or {}


def _measured(
    event: SolverDecision | GeneratorDecision,
) -> tuple[dict[str, tuple[float | None, float | None]], dict[str, dict[str, int]]]:
    """The compared levels and, by question, how they moved."""
    levels: dict[str, tuple[float | None, float | None]] = {}
    changes: dict[str, dict[str, int]] = {}
    if isinstance(event, SolverDecision):
        if event.gate:
            levels["J"] = (event.gate.incumbent_J, event.gate.candidate_J)
            changes["J"] = _moved(event.gate.scores.values())
        return levels, changes
    proxy = event.evidence.get("proxy") or event.evidence
    if "incumbent_J" in proxy:
        levels["J"] = (proxy["incumbent_J"], proxy["candidate_J"])
    if event.evidence.get("scores"):
        changes["J"] = _moved(event.evidence["scores"].values())
    for name, sides in (event.evidence.get("objectives") or {}).items():
        old, new = sides.get("incumbent", {}), sides.get("candidate", {})
        pairs = [(old.get(id), new.get(id)) for id in {*old, *new}]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        levels[name] = (_mean(a for a, _ in both), _mean(b for _, b in both))
        changes[name] = _moved(pairs)
    return levels, changes


def _moved(pairs: Iterable[Sequence[float | None]]) -> dict[str, int]:
    moved = {"up": 0, "same": 0, "down": 0, "ungraded": 0}
    for old, new in pairs:
        if old is None or new is None:
            moved["ungraded"] += 1
        else:
            moved["up" if new > old else "down" if new < old else "same"] += 1
    return moved


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None
