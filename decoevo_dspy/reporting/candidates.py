"""Every candidate of a run with what its decision rested on, from the events."""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from decoevo_dspy.values.skill import Skill

Event = dict[str, Any]
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
    solver candidate; ``audits`` are the findings that the rewriter read.
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
    batch: Mapping[str, Any] | None
    audits: tuple[AuditView, ...]
    rubrics: tuple[Mapping[str, Any], ...]
    trigger: str = ""

    def diff(self, context: int = 2) -> list[str]:
        """Unified diff from parent to candidate, without file headers; empty when either text is not in the log."""
        if self.parent_text is None or not self.text:
            return []
        old, new = self.parent_text.split("\n"), self.text.split("\n")
        return list(difflib.unified_diff(old, new, n=context, lineterm=""))[2:]

    def failing_questions(self) -> Counter[str]:
        """How many of the shown failures come from each question."""
        return Counter(str(f.get("question_id")) for f in (self.batch or {}).get("failures_shown", ()))


def candidates_of(events: Sequence[Event]) -> Iterable[CandidateView]:
    """The candidates in the order of their decisions."""
    texts: dict[str, str] = {}
    batch: Event | None = None
    audits: list[AuditView] = []
    number = 0
    for event in events:
        if event["kind"] == "run_started":
            texts |= {Skill(event[name]).key: event[name] for name in ("solver_skill", "generator_skill")}
        elif event["kind"] == "batch_graded":
            batch = event
        elif event["kind"] == "audit":
            audits.append(
                AuditView(
                    name=str(event.get("audit")),
                    audited=event.get("audited", 0),
                    ungraded=event.get("ungraded", 0),
                    findings=tuple(event.get("findings", ())),
                )
            )
        elif event["kind"] in ("solver_decision", "generator_decision"):
            number += 1
            solver = event["kind"] == "solver_decision"
            yield _candidate(event, number, texts, batch if solver else None, audits)
            batch, audits = (None if solver else batch), []
            if event.get("candidate"):
                texts[event["candidate"]] = event.get("text", "")


def _candidate(
    event: Event, number: int, texts: Mapping[str, str], batch: Event | None, audits: Sequence[AuditView]
) -> CandidateView:
    reason = str(event.get("reason", ""))
    levels, changes = _measured(event)
    outcome: Outcome = "rejected"
    if event.get("accepted"):
        outcome = "accepted"
    elif reason.startswith("discarded"):
        outcome, reason = "discarded", reason.removeprefix("discarded:").strip()
    return CandidateView(
        number=number,
        skill="solver" if event["kind"] == "solver_decision" else "generator",
        step=event.get("step", 0),
        round=event.get("round"),
        outcome=outcome,
        reason=reason,
        parent=str(event.get("parent", "")),
        key=event.get("candidate"),
        parent_text=texts.get(str(event.get("parent", ""))),
        text=event.get("text") or "",
        summary=event.get("summary") or "",
        edits=tuple(event.get("edits", ())),
        deltas=event.get("deltas") or {},
        standard_errors=event.get("standard_errors") or {},
        levels=levels,
        changes=changes,
        batch=batch,
        audits=tuple(audits),
        rubrics=tuple(event.get("rubrics", ())),
        trigger=event.get("trigger", ""),
    )


def _measured(event: Event) -> tuple[dict[str, tuple[float | None, float | None]], dict[str, dict[str, int]]]:
    """The compared levels and, by question, how they moved."""
    levels: dict[str, tuple[float | None, float | None]] = {}
    changes: dict[str, dict[str, int]] = {}
    for source in (event, event.get("proxy") or {}):
        if "incumbent_J" in source:
            levels["J"] = (source["incumbent_J"], source["candidate_J"])
    if event.get("scores"):
        changes["J"] = _moved(event["scores"].values())
    for name, sides in (event.get("objectives") or {}).items():
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
