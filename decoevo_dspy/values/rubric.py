"""Rubrics and verdicts: what a response is measured by, and what the judge said. Pure values."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from decoevo_dspy.values.failures import FailureKind


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """One requirement c_i with its points w_i (> 0, finite). See docs/METHOD.md §1.

    Raises:
        ValueError: for blank text, or points that are not finite and positive.
    """

    text: str
    points: float = 1.0

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("a criterion needs a text")
        if not (math.isfinite(self.points) and self.points > 0):
            raise ValueError(f"criterion points must be a finite number above 0, not {self.points!r}")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The judge's verdict e on one criterion: ``score`` in [0, 1] and why."""

    score: float
    rationale: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.score) and 0.0 <= self.score <= 1.0):
            raise ValueError(f"a verdict's score must lie in [0, 1], not {self.score!r}")


@dataclass(frozen=True, kw_only=True)
class Ungraded:
    """No verdict could be had; this is never a score of 0. ``kind`` is which layer failed, ``reason`` says it."""

    reason: str
    kind: FailureKind | None = field(default=None, compare=False, repr=False)


Outcome = Verdict | Ungraded


@dataclass(frozen=True, kw_only=True)
class Rubric:
    """The rubric R_q(g) of one question: at least one criterion, no two with the same text.

    Raises:
        ValueError: for an empty rubric or a duplicate criterion.
    """

    criteria: tuple[Criterion, ...]

    def __post_init__(self) -> None:
        if not self.criteria:
            raise ValueError("a rubric needs at least one criterion")
        texts = [criterion.text.strip() for criterion in self.criteria]
        if len(set(texts)) != len(texts):
            raise ValueError("a rubric names the same criterion twice")

    def score(self, verdicts: Sequence[Outcome]) -> float | Ungraded:
        """S(q, r, R) = Σ w_i e_i / Σ w_i in [0, 1]; `Ungraded` as soon as one criterion has no verdict.

        Raises:
            ValueError: when the number of verdicts is not the number of criteria.

        >>> rubric = Rubric(criteria=(Criterion(text="names a dose", points=3), Criterion(text="is brief")))
        >>> rubric.score([Verdict(score=1.0), Verdict(score=0.0)])
        0.75
        >>> rubric.score([Verdict(score=1.0), Ungraded(reason="truncated")])
        Ungraded(reason='1 of 2 criteria ungraded: truncated')
        """
        if len(verdicts) != len(self.criteria):
            raise ValueError(f"{len(verdicts)} verdicts for {len(self.criteria)} criteria")
        missing = [verdict for verdict in verdicts if isinstance(verdict, Ungraded)]
        if missing:
            first = missing[0]
            reason = f"{len(missing)} of {len(verdicts)} criteria ungraded: {first.reason}"
            return Ungraded(reason=reason, kind=first.kind)
        graded = [v.score for v in verdicts if isinstance(v, Verdict)]
        total = math.fsum(criterion.points for criterion in self.criteria)
        value = math.fsum(c.points * e for c, e in zip(self.criteria, graded, strict=True)) / total
        return min(1.0, max(0.0, value))

    def numbered(self) -> str:
        """The criteria as lines ``c1. (5 points) text``, the form in which roles read a rubric."""
        return "\n".join(f"c{i}. ({c.points:g} points) {c.text}" for i, c in enumerate(self.criteria, start=1))


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over items of which some may be ungraded: ``value`` is ``None`` when nothing was graded.

    ``kinds`` counts the ungraded ones by what failed, where that is known.
    """

    value: float | None
    n: int
    ungraded: int
    kinds: Mapping[str, int] = field(default_factory=dict[str, int], compare=False, repr=False)

    @property
    def total(self) -> int:
        """Graded and ungraded items together."""
        return self.n + self.ungraded

    def decided(self, max_ungraded: float) -> bool:
        """Whether enough items are graded: something is, and at most ``max_ungraded`` (share in [0, 1]) are not."""
        return self.value is not None and self.ungraded <= max_ungraded * self.total


def mean(scores: Sequence[float | Ungraded]) -> Mean:
    """The mean of the graded scores, with the count of the others; an ungraded item never counts as 0.

    >>> mean([1.0, Ungraded(reason="timeout"), 0.0])
    Mean(value=0.5, n=2, ungraded=1)
    """
    graded = [score for score in scores if not isinstance(score, Ungraded)]
    if any(not math.isfinite(score) for score in graded):
        raise ValueError("a score is not a finite number")
    value = math.fsum(graded) / len(graded) if graded else None
    kinds = Counter(score.kind for score in scores if isinstance(score, Ungraded) and score.kind)
    return Mean(value=value, n=len(graded), ungraded=len(scores) - len(graded), kinds=dict(sorted(kinds.items())))
