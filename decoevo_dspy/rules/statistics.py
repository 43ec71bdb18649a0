"""Means, paired comparisons, agreement and classification scores for the report: pure functions on SciPy.

A figure that the data leave undefined is ``None`` beside a ``reason``, never NaN and never 0. A missing (``None``),
infinite or NaN input raises ``ValueError`` naming its position, and so do unequal lengths: whoever calls drops
ungraded items first, and says how many. Paired functions match by position (``a[i]`` and ``b[i]`` share seed,
partitions and batches) and look at ``a - b``. Differences that only rounding tells apart (`ROUNDING`, relative to
the scores) count as equal; otherwise 0.3 - 0.1 and 0.4 - 0.2 would have an SD of 1e-17, and a p-value to match.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import frexp, fsum, inf, isfinite, sqrt
from numbers import Real
from typing import Any, Literal, TypeVar, cast

import numpy as np
from scipy import special  # pyright: ignore[reportMissingTypeStubs]

ROUNDING = 1e-12
LIMIT = 1e150  # squares of larger numbers overflow
_Item = TypeVar("_Item")
_special = cast(Any, special)  # SciPy carries no types


@dataclass(frozen=True, kw_only=True)
class _Result:
    """What every result has: ``n`` items behind it, and a ``reason`` exactly when one of its figures is ``None``."""

    n: int
    reason: str | None = None

    def __post_init__(self) -> None:
        figures = [getattr(self, field.name) for field in fields(self) if field.name != "reason"]
        if (None in figures) != bool(self.reason) or not all(isfinite(x) for x in figures if isinstance(x, float)):
            raise ValueError(f"reason {self.reason!r} does not fit the figures {figures}")


@dataclass(frozen=True, kw_only=True)
class Estimate(_Result):
    """One figure from ``n`` items."""

    value: float | None


@dataclass(frozen=True, kw_only=True)
class MeanSD(_Result):
    """Mean and sample standard deviation (``ddof`` 1), in the unit of the data; ``sd`` needs two values."""

    mean: float | None
    sd: float | None


@dataclass(frozen=True, kw_only=True)
class PairedDifference(_Result):
    """The mean of ``a - b`` with an ``interval`` at the given ``confidence`` and a two-sided ``p`` against 0."""

    mean: float | None
    interval: tuple[float, float] | None
    p: float | None
    confidence: float
    method: Literal["t", "bca", "percentile"]

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95 % interval; ``ValueError`` when another confidence was asked for."""
        if self.confidence != 0.95:
            raise ValueError(f"this interval has confidence {self.confidence}, not 0.95")
        return self.interval


@dataclass(frozen=True, kw_only=True)
class Equivalence(_Result):
    """Whether ``a`` and ``b`` differ by less than ``margin``: whether the 90 % interval of ``a - b`` lies inside it."""

    mean: float | None
    ci90: tuple[float, float] | None
    equivalent: bool | None
    p: float | None


@dataclass(frozen=True, kw_only=True)
class SignCounts(_Result):
    """On how many of ``n`` pairs ``a`` is above, equal to and below ``b``; ``p`` is the exact two-sided sign test."""

    wins: int
    ties: int
    losses: int
    p: float | None


def average_within_run(by_benchmark: Mapping[str, Sequence[float]]) -> list[float]:
    """Average each run over its benchmarks (docs/METHOD.md §12); position ``i`` is the same run (seed) in all of them.

    >>> average_within_run({"healthbench": [40.0, 42.0], "writingbench": [60.0, 70.0]})
    [50.0, 56.0]
    """
    if len(set(map(len, by_benchmark.values()))) != 1:
        runs = {name: len(scores) for name, scores in by_benchmark.items()}
        raise ValueError(f"every benchmark needs the same number of runs, and one benchmark at least; got {runs}")
    return [fsum(run) / len(run) for run in _zip(*(_numbers(scores, name) for name, scores in by_benchmark.items()))]


def mean_and_sd(values: Sequence[float]) -> MeanSD:
    """Mean ± sample standard deviation; one value has no SD."""
    numbers = _numbers(values, "values")
    return _moments(numbers, scale=max(map(abs, numbers), default=0.0))


def relative_gain(new: float, base: float) -> Estimate:
    """``(new - base) / base`` as a fraction; undefined for a base that is not above 0, where its sign misleads."""
    new, base = _numbers((new, base), "(new, base)")
    gain = (new - base) / base if base > 0 else inf
    reason = None if isfinite(gain) else f"a gain relative to {base:g} has no meaning"
    return Estimate(value=None if reason else gain, n=2, reason=reason)


def standard_error_of_mean_difference(deltas: Sequence[float]) -> Estimate:
    """SD / √n of paired per-item differences, for gates that ask for an improvement above ``z`` standard errors."""
    moments = mean_and_sd(deltas)
    error = None if moments.sd is None else moments.sd / sqrt(moments.n)
    return Estimate(value=error, n=moments.n, reason=moments.reason)


def paired_difference(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> PairedDifference:
    """Mean of ``a - b`` with the paired t-interval and t-test (``n - 1`` degrees of freedom).

    Fewer than two pairs leave interval and p undefined. When all differences are equal, the interval collapses to
    the mean and p is undefined, unless all are 0: then p is 1.
    """
    deltas, mean, error, reason = _differences(a, b)
    interval, p, n = _t_interval(mean, error, len(deltas), confidence), None, len(deltas)
    if mean is not None and error:
        p = 2 * float(_special.stdtr(n - 1, -abs(mean) / error))
    elif error == 0 and not any(deltas):
        p, reason = 1.0, None
    return PairedDifference(mean=mean, interval=interval, p=p, n=n, reason=reason, confidence=confidence, method="t")


def bootstrap_paired_difference(
    a: Sequence[float], b: Sequence[float], *, rng: np.random.Generator, confidence: float = 0.95, resamples: int = 9999
) -> PairedDifference:
    """Mean of ``a - b`` with a bootstrap interval over resampled pairs; with few seeds too narrow, so prefer t there.

    SciPy's BCa, or the percentile interval of the same resamples when no resampled mean lies below the observed one or
    none above (an infinite bias correction). ``p`` is the share of resampled means, recentred on 0, at least as far out
    as the observed one, itself counted in. Differences without spread get the result of `paired_difference`.
    """
    from scipy import stats as untyped  # pyright: ignore[reportMissingTypeStubs]  # here: it takes a second to import

    plain, (deltas, mean, error, _) = paired_difference(a, b, confidence), _differences(a, b)
    if mean is None or not error:
        return plain
    if resamples < 2:
        raise ValueError(f"resamples must be at least 2, got {resamples}")
    # Sorted, so that the order of pairs cannot matter; over a power of 2, so that no cube underflows or is rounded.
    bootstrap, unit = cast(Any, untyped).bootstrap, 2.0 ** frexp(max(map(abs, deltas)))[1]
    sample = np.array(sorted(deltas)) / unit
    options = {"confidence_level": confidence, "batch": 1 + 2_000_000 // plain.n, "rng": rng}
    drawn = bootstrap((sample,), np.mean, n_resamples=resamples, method="percentile", **options)
    shifts = np.asarray(drawn.bootstrap_distribution, dtype=np.float64) - np.mean(sample)
    p = (1 + int(np.sum(np.abs(shifts) >= abs(mean / unit) - ROUNDING))) / (resamples + 1)
    if corrected := bool(np.any(shifts < 0) and np.any(shifts > 0)):
        drawn = bootstrap((sample,), np.mean, n_resamples=0, bootstrap_result=drawn, method="BCa", **options)
    low, high = (float(bound) * unit for bound in drawn.confidence_interval)
    return replace(plain, interval=(low, high), p=p, method="bca" if corrected else "percentile")


def paired_equivalence(a: Sequence[float], b: Sequence[float], *, margin: float) -> Equivalence:
    """Two one-sided paired t-tests (TOST, level 0.05) that the mean of ``a - b`` lies strictly inside ±``margin``.

    ``p`` is the larger of the two, so ``equivalent`` says the same as ``p < 0.05``. When all differences are equal, the
    interval collapses to the mean and decides, and p is undefined.
    """
    if not 0 < margin < inf:
        raise ValueError(f"margin must be above 0 and finite, got {margin}")
    deltas, mean, error, reason = _differences(a, b)
    interval, n = _t_interval(mean, error, len(deltas), 0.9), len(deltas)
    inside = None if interval is None else -margin < interval[0] and interval[1] < margin
    p = float(_special.stdtr(n - 1, (abs(mean) - margin) / error)) if mean is not None and error else None
    return Equivalence(mean=mean, ci90=interval, equivalent=inside, p=p, n=n, reason=reason)


def sign_counts(a: Sequence[float], b: Sequence[float]) -> SignCounts:
    """Wins, ties and losses of ``a`` against ``b``; the sign test leaves ties out, and its p is 1 when all are ties."""
    deltas, _, _, reason = _differences(a, b)
    wins, losses, n = sum(delta > 0 for delta in deltas), sum(delta < 0 for delta in deltas), len(deltas)
    p = min(1.0, 2 * float(_special.bdtr(min(wins, losses), wins + losses, 0.5))) if n else None
    return SignCounts(wins=wins, ties=n - wins - losses, losses=losses, p=p, n=n, reason=None if n else reason)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjusted p-values, in place; ``None`` (no test was possible) stays and does not count as a test.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    numbers = _numbers((0.0 if p is None else p for p in p_values), "p_values")
    if outside := [p for p in numbers if not 0 <= p <= 1]:
        raise ValueError(f"p-values outside [0, 1]: {outside}")
    tested = [position for position, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(numbers)
    floor = 0.0
    for rank, position in enumerate(sorted(tested, key=numbers.__getitem__)):
        floor = adjusted[position] = max(floor, min(1.0, (len(tested) - rank) * numbers[position]))
    return adjusted


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> Estimate:
    """Cohen's κ of two raters' nominal labels (Cohen 1960); undefined when only one label was given, or one item."""
    n, counts = len(pairs := _labels(first, second)), Counter(second)
    agreed, by_chance = sum(one == other for one, other in pairs), sum(counts[one] for one in first)
    return _kappa(n * agreed, by_chance, n * n, n)


def fleiss_kappa(ratings: Sequence[Sequence[Hashable]]) -> Estimate:
    """Fleiss' κ of nominal labels (Fleiss 1971); ``ratings[i]`` holds item ``i``'s labels, two or more, in any order.

    Undefined when only one label was given, or one item: its κ is 1 / (1 - raters) whenever they differ at all.
    """
    n, raters = len(ratings), len(ratings[0]) if ratings else 2
    if raters < 2 or any(len(item) != raters for item in ratings):
        raise ValueError(f"every item needs the same number (2 or more) of labels; got {[*map(len, ratings)]}")
    _labels(*zip(*ratings, strict=True))
    agreed = sum(count * (count - 1) for item in ratings for count in Counter(item).values())
    by_chance = sum(count**2 for count in Counter(label for item in ratings for label in item).values())
    return _kappa(agreed * n * raters, by_chance * (raters - 1), (n * raters) ** 2 * (raters - 1), n)


def balanced_accuracy(truth: Sequence[Hashable], predicted: Sequence[Hashable]) -> Estimate:
    """Mean recall over the labels in ``truth``, in [0, 1]; undefined unless ``truth`` has two labels or more."""
    pairs = _labels(truth, predicted)
    right, actual = Counter(true for true, guess in pairs if true == guess), Counter(truth)
    if len(actual) < 2:
        return Estimate(value=None, n=len(pairs), reason="the truth has fewer than two labels")
    return Estimate(value=fsum(right[label] / actual[label] for label in actual) / len(actual), n=len(pairs))


def macro_f1(truth: Sequence[Hashable], predicted: Sequence[Hashable]) -> Estimate:
    """Unweighted mean of F1 = 2 TP / (2 TP + FP + FN) over all labels in ``truth`` or ``predicted``, in [0, 1]."""
    if not (pairs := _labels(truth, predicted)):
        return Estimate(value=None, n=0, reason="no items")
    right, both = Counter(true for true, guess in pairs if true == guess), Counter((*truth, *predicted))
    return Estimate(value=fsum(2 * right[label] / both[label] for label in both) / len(both), n=len(pairs))


def _differences(a: Sequence[float], b: Sequence[float]) -> tuple[list[float], float | None, float | None, str | None]:
    """``a - b``, their mean and its standard error, and why there is no t-test on them (``None``: there is one)."""
    pairs = _zip(_numbers(a, "a"), _numbers(b, "b"))
    deltas = [0.0 if abs(x - y) <= ROUNDING * max(abs(x), abs(y)) else x - y for x, y in pairs]
    moments = _moments(deltas, scale=max((abs(score) for pair in pairs for score in pair), default=0.0))
    error = None if moments.sd is None else moments.sd / sqrt(moments.n)
    return deltas, moments.mean, error, "all differences are equal" if error == 0 else moments.reason


def _moments(numbers: Sequence[float], scale: float) -> MeanSD:
    """SD is 0 within `ROUNDING` of ``scale``; sums are exact, so that order cannot matter."""
    if (n := len(numbers)) < 2:
        reason = "one value alone has no spread" if n else "there are no values"
        return MeanSD(mean=numbers[0] if n else None, sd=None, n=n, reason=reason)
    mean, spread = fsum(numbers) / n, max(numbers) - min(numbers)
    deviations = ((x - mean) / spread for x in numbers)
    sd = 0.0 if spread <= ROUNDING * scale else spread * sqrt(fsum(unit**2 for unit in deviations) / (n - 1))
    return MeanSD(mean=mean, sd=sd, n=n)


def _t_interval(mean: float | None, error: float | None, n: int, confidence: float) -> tuple[float, float] | None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    half = error * float(_special.stdtrit(n - 1, (1 + confidence) / 2)) if error is not None else None
    return None if mean is None or half is None else (mean - half, mean + half)


def _kappa(agreed: int, by_chance: int, whole: int, n: int) -> Estimate:
    """(observed - expected) / (1 - expected), in whole numbers over ``whole``: "expected is 1" is then exact."""
    if n < 2 or by_chance == whole:
        return Estimate(value=None, n=n, reason="κ needs two items" if n < 2 else "only one label was ever given")
    return Estimate(value=(agreed - by_chance) / (whole - by_chance), n=n)


def _numbers(values: Iterable[object], name: str) -> list[float]:
    numbers: list[float] = []
    for position, value in enumerate(values):
        if not isinstance(value, Real) or not -LIMIT <= (value if isinstance(value, int) else float(value)) <= LIMIT:
            raise ValueError(f"{name}[{position}] is {value!r}, not a finite number (within ±{LIMIT:g})")
        numbers.append(float(value))
    return numbers


def _labels(*raters: Sequence[Hashable]) -> list[tuple[Hashable, ...]]:
    for position, labels in enumerate(items := _zip(*raters)):
        if any(label is None or label != label for label in labels):
            raise ValueError(f"item {position} lacks a label: {labels!r}")
    return items


def _zip(*columns: Sequence[_Item]) -> list[tuple[_Item, ...]]:
    if len(set(map(len, columns))) > 1:
        raise ValueError(f"items must be paired, got {' against '.join(str(len(column)) for column in columns)}")
    return list(zip(*columns, strict=True))
