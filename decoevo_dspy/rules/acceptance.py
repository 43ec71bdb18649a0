"""Every rule that accepts or rejects a candidate. Pure: numbers in, a decision out.

Score decoupling is the type of `ParetoRule.decide`: it takes audit objectives and nothing else, so there is no
argument through which a solver score could arrive. The score-coupled baseline needs, and gets, another type.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from decoevo_dspy.values.rubric import Mean, Ungraded, mean


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """The candidate replaces the incumbent. ``deltas`` are the improvements that were compared with the thresholds."""

    reason: str
    deltas: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    standard_errors: Mapping[str, float | None] = field(default_factory=dict[str, float | None])


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """The incumbent stays. ``undecided``: because too little could be measured."""

    reason: str
    undecided: bool = False
    deltas: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    standard_errors: Mapping[str, float | None] = field(default_factory=dict[str, float | None])


Decision = Accepted | Rejected


@dataclass(frozen=True, kw_only=True)
class PairedScores:
    """J of incumbent and candidate on the same questions with the same rubrics; scores in [0, 1] by question id."""

    incumbent: Mapping[str, float | Ungraded]
    candidate: Mapping[str, float | Ungraded]

    def __post_init__(self) -> None:
        if self.incumbent.keys() != self.candidate.keys():
            raise ValueError("incumbent and candidate must be scored on the same questions")

    def means(self) -> tuple[Mean, Mean]:
        """J(incumbent) and J(candidate) over the questions that both sides have graded; the others are ungraded."""
        pairs = [(self.incumbent[key], self.candidate[key]) for key in self.incumbent]
        both: list[tuple[float | Ungraded, float | Ungraded]] = []
        for a, b in pairs:
            missing = next((side for side in (a, b) if isinstance(side, Ungraded)), None)
            if missing is not None:
                a = b = Ungraded(reason="not graded on both sides", kind=missing.kind)
            both.append((a, b))
        return mean([a for a, _ in both]), mean([b for _, b in both])

    def deltas(self) -> list[float]:
        """Per-question differences candidate − incumbent, where both are graded."""
        pairs = [(self.incumbent[key], self.candidate[key]) for key in self.incumbent]
        return [b - a for a, b in pairs if not isinstance(a, Ungraded) and not isinstance(b, Ungraded)]


def standard_error(deltas: Sequence[float]) -> float | None:
    """Standard error of the mean of paired differences (ddof 1); ``None`` for fewer than two.

    >>> standard_error([0.0, 1.0])
    0.5
    """
    if len(deltas) < 2:
        return None
    centre = math.fsum(deltas) / len(deltas)
    variance = math.fsum((d - centre) ** 2 for d in deltas) / (len(deltas) - 1)
    return math.sqrt(variance / len(deltas))


def _clears(delta: float, threshold: float, z: float, error: float | None) -> bool:
    """delta > threshold, and with z > 0 also delta > z · SE; an unknown SE clears nothing then."""
    if not delta > threshold:
        return False
    return z == 0 or (error is not None and delta > z * error)


def _no_floats() -> dict[str, float | None]:
    return {}


@dataclass(frozen=True, kw_only=True)
class ScoreGate:
    """The solver gate: accept iff J(s') − J(s) > ``epsilon``, and > ``z`` standard errors when ``z`` > 0.

    ``max_ungraded`` is the largest share in [0, 1] of questions without a score; beyond it the gate is undecided and
    rejects. See docs/METHOD.md §4; ``z`` is ours (``gate_z``, 0 = the paper).
    """

    epsilon: float = 0.0
    z: float = 0.0
    max_ungraded: float = 0.1

    def decide(self, scores: PairedScores) -> Decision:
        """Compare the two sides; see the class."""
        old, new = scores.means()
        if old.value is None or new.value is None or not old.decided(self.max_ungraded):
            reason = f"undecided: {old.ungraded} of {old.total} questions ungraded"
            return Rejected(reason=reason, undecided=True, deltas={"J": None})
        delta, error = new.value - old.value, standard_error(scores.deltas())
        evidence: dict[str, Any] = {"deltas": {"J": delta}, "standard_errors": {"J": error}}
        if _clears(delta, self.epsilon, self.z, error):
            return Accepted(reason=f"J rose by {delta:+.4f}", **evidence)
        wanted = f"more than {self.epsilon:g}" + (f" and {self.z:g} standard errors" if self.z else "")
        return Rejected(reason=f"J changed by {delta:+.4f}, needed {wanted}", **evidence)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """One audit objective Φ_k of a generator, by question: ``values`` in [−1, 1] or ungraded.

    An empty objective is absent: the audit had no records (docs/METHOD.md §7).
    """

    values: Mapping[str, float | Ungraded] = field(default_factory=dict[str, "float | Ungraded"])

    @property
    def available(self) -> bool:
        """Whether the audit had any record at all."""
        return bool(self.values)


@dataclass(frozen=True, kw_only=True)
class AuditObjectives:
    """All audit objectives of one generator skill, by audit name. This is all that `ParetoRule` can see."""

    by_audit: Mapping[str, Objective]


@dataclass(frozen=True, kw_only=True)
class ParetoRule:
    """Accept iff some available objective rises by more than ``delta`` and none falls by more than ``eta``.

    ``delta`` > 0, ``eta`` ≥ 0, in units of the objectives. With ``z`` > 0 a rise counts only beyond ``z`` standard
    errors (paired by question), and with ``eta_z`` > 0 a fall vetoes only beyond ``eta_z`` of them: an objective that
    did not change falls by more than ``eta`` in nearly half of all comparisons when its noise is large. Objectives with
    more than ``max_ungraded`` of their questions ungraded on either side make the decision undecided. See
    docs/METHOD.md §7; ``z`` (``verify_z``) and ``eta_z`` are ours.
    """

    delta: float = 0.02
    eta: float = 0.01
    z: float = 0.0
    eta_z: float = 0.0
    max_ungraded: float = 0.1

    def decide(self, incumbent: AuditObjectives, candidate: AuditObjectives) -> Decision:
        """Compare the two generators on the audit objectives alone; see the class."""
        if incumbent.by_audit.keys() != candidate.by_audit.keys():
            raise ValueError("incumbent and candidate must be audited alike")
        deltas, errors, undecided = _no_floats(), _no_floats(), list[str]()
        for name, old in incumbent.by_audit.items():
            new = candidate.by_audit[name]
            if not old.available or not new.available:
                continue
            pair = PairedScores(incumbent=old.values, candidate=new.values)
            before, after = pair.means()
            if before.value is None or after.value is None or not before.decided(self.max_ungraded):
                undecided.append(f"{name}: {before.ungraded} of {before.total} questions ungraded")
                deltas[name] = errors[name] = None
                continue
            deltas[name], errors[name] = after.value - before.value, standard_error(pair.deltas())
        evidence: dict[str, Any] = {"deltas": deltas, "standard_errors": errors}
        if undecided:
            return Rejected(reason="undecided: " + "; ".join(undecided), undecided=True, **evidence)
        if not deltas:
            return Rejected(reason="undecided: no audit objective is available", undecided=True, **evidence)
        known = {name: delta for name, delta in deltas.items() if delta is not None}
        worse = [name for name, delta in known.items() if self._fell(delta, errors[name])]
        better = [name for name, delta in known.items() if _clears(delta, self.delta, self.z, errors[name])]
        figures = ", ".join(f"{name} {delta:+.4f}" for name, delta in known.items())
        if worse:
            margin = f"{self.eta:g}" + (f" and {self.eta_z:g} standard errors" if self.eta_z else "")
            return Rejected(reason=f"{', '.join(worse)} fell by more than {margin} ({figures})", **evidence)
        if not better:
            margin = f"{self.delta:g}" + (f" and {self.z:g} standard errors" if self.z else "")
            return Rejected(reason=f"nothing rose by more than {margin} ({figures})", **evidence)
        return Accepted(reason=f"{', '.join(better)} rose ({figures})", **evidence)

    def _fell(self, delta: float, error: float | None) -> bool:
        """Whether a fall vetoes; with ``eta_z`` > 0 an unknown standard error excuses nothing."""
        return not delta >= -self.eta and (not self.eta_z or error is None or -delta > self.eta_z * error)
