"""Figures across runs: scores by seed, paired contrasts, trajectories and cost. Pure, on `rules.statistics`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, Literal

from decoevo_dspy.calls.budget import UNBUDGETED
from decoevo_dspy.reporting.projection import Experiment, RunReading
from decoevo_dspy.rules import statistics
from decoevo_dspy.rules.statistics import MeanSD, PairedDifference
from decoevo_dspy.run.schema import IncumbentScored, SolverDecision
from decoevo_dspy.run.standing import standings


def seeds_of(experiment: Experiment) -> list[int]:
    """The seeds that were to run."""
    written = experiment.written.get("seeds")
    if isinstance(written, int):
        return list(range(written))
    if written:
        return [int(seed) for seed in written]
    return sorted({run.seed for run in experiment.runs})


def scores(experiment: Experiment, method: str, benchmark: str | None = None) -> dict[int, float | None]:
    """Official scores (0–100) by seed: of one benchmark, or averaged over all of them inside a run.

    ``None`` is a run that failed or has no score; an average needs all of its benchmarks.
    """
    entry = experiment.written.get("methods", {}).get(method)
    if entry and benchmark and (by_benchmark := entry.get("by_benchmark")):
        entry = by_benchmark.get(benchmark)
    if entry and entry.get("per_seed") is not None:
        per_seed = entry["per_seed"]
        if isinstance(per_seed, Mapping):
            return {int(seed): score for seed, score in per_seed.items()}
        if len(per_seed) == len(seeds_of(experiment)):
            return dict(zip(seeds_of(experiment), per_seed, strict=True))
    runs = experiment.of(method)
    wanted = [benchmark] if benchmark else experiment.benchmarks
    found: dict[int, float | None] = {}
    for seed in sorted({run.seed for run in runs}):
        by = {run.benchmark: run.score for run in runs if run.seed == seed}
        values = [by.get(name) for name in wanted]
        known = [value for value in values if value is not None]
        found[seed] = fsum(known) / len(known) if known and len(known) == len(values) else None
    return found


def mean_sd(experiment: Experiment, method: str, benchmark: str | None = None) -> MeanSD:
    """Mean and sample SD over the seeds that have a score."""
    return statistics.mean_and_sd([s for s in scores(experiment, method, benchmark).values() if s is not None])


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """``method`` less ``base``, paired by seed. ``missing`` seeds lack a score on one side and are left out.

    ``p_holm`` is adjusted over the family that the contrast was asked in. ``ran``: whether there are runs of both.
    """

    method: str
    base: str
    difference: PairedDifference | None
    missing: int = 0
    p_holm: float | None = None
    reason: str | None = None
    ran: bool = True

    @property
    def mean(self) -> float | None:
        """The mean difference in points, if there is one."""
        return self.difference.mean if self.difference else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % t-interval, if there is one."""
        return self.difference.interval if self.difference else None

    @property
    def n(self) -> int:
        """Number of seeds behind it."""
        return self.difference.n if self.difference else 0

    @property
    def why_undefined(self) -> str | None:
        """Why some figure of it is missing."""
        return self.reason or (self.difference.reason if self.difference else None)

    @property
    def direction(self) -> int | None:
        """+1 or −1 when the interval lies on one side of 0, 0 when it holds 0, ``None`` without interval."""
        if self.interval is None:
            return None
        low, high = self.interval
        return 1 if low > 0 else -1 if high < 0 else 0


def contrast(experiment: Experiment, method: str, base: str, benchmark: str | None = None) -> Contrast:
    """One paired contrast, or the reason why there is none."""
    ran = experiment.methods
    for name in (method, base):
        if name not in ran:
            return Contrast(method=method, base=base, difference=None, ran=False, reason=f"{name} was not run")
    a, b = scores(experiment, method, benchmark), scores(experiment, base, benchmark)
    pairs = [(x, y) for seed, x in a.items() if x is not None and (y := b.get(seed)) is not None]
    missing = len({*a, *b}) - len(pairs)
    if not pairs:
        reason = f"no seed has a score of both {method} and {base}"
        return Contrast(method=method, base=base, difference=None, missing=missing, reason=reason)
    difference = statistics.paired_difference([x for x, _ in pairs], [y for _, y in pairs])
    return Contrast(method=method, base=base, difference=difference, missing=missing)


def family(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """The same contrasts with Holm's adjustment over all of them."""
    adjusted = statistics.holm([c.difference.p if c.difference else None for c in contrasts])
    return [replace(c, p_holm=p) for c, p in zip(contrasts, adjusted, strict=True)]


def accepted(experiment: Experiment, method: str, skill: Literal["solver", "generator"]) -> float | None:
    """Accepted candidates of one kind per run; ``None`` when the method proposed none."""
    proposed = [c.outcome for run in experiment.of(method) for c in run.candidates if c.skill == skill]
    return proposed.count("accepted") / len(experiment.of(method)) if proposed else None


# --- trajectories


@dataclass(frozen=True, kw_only=True)
class Point:
    """Where a run stood after ``step``; both on 0–100."""

    step: int
    proxy: float | None
    official: float | None


def trajectory(run: RunReading) -> list[Point]:
    """Diagnostic scores of the accepted checkpoints, in order; the last word on a step counts. Empty without notes."""
    points: dict[int, Point] = {}
    for event in run.standing.checkpoints:
        proxy = None if event.proxy is None else 100 * event.proxy
        points[event.step] = Point(step=event.step, proxy=proxy, official=event.official)
    return [points[step] for step in sorted(points)]


def proxy_trajectory(run: RunReading) -> list[Point]:
    """J on V_s of the incumbent over steps, from the decisions; what is left when there are no diagnostic notes."""
    points: dict[int, Point] = {}
    for event, standing in standings(run.events):
        if not isinstance(event, IncumbentScored | SolverDecision) or standing.J is None:
            continue
        if isinstance(event, IncumbentScored) or event.accepted:
            points[event.step] = Point(step=event.step, proxy=100 * standing.J, official=None)
    return [points[step] for step in sorted(points)]


def last_step(run: RunReading) -> int:
    """The last inner step that came to its decision."""
    return run.standing.step


def carried_forward(points: Sequence[Point], last: int) -> list[Point]:
    """One point per step from 0 to ``last``: a checkpoint stands until the next one."""
    found: list[Point] = []
    current = Point(step=0, proxy=None, official=None)
    by_step = {point.step: point for point in points}
    for step in range(last + 1):
        current = by_step.get(step, current)
        found.append(Point(step=step, proxy=current.proxy, official=current.official))
    return found


def gap_at_end(experiment: Experiment, method: str) -> dict[str, Any]:
    """Last diagnostic proxy and official score, and their gap (proxy − official), each as mean over runs."""
    ends = [points[-1] for run in experiment.of(method) if (points := trajectory(run))]
    both = [(p.proxy, p.official) for p in ends if p.proxy is not None and p.official is not None]
    gaps = statistics.mean_and_sd([proxy - official for proxy, official in both])
    return {
        "proxy": statistics.mean_and_sd([proxy for proxy, _ in both]),
        "official": statistics.mean_and_sd([official for _, official in both]),
        "gap": gaps,
    }


# --- cost

COUNTED = ("calls", "cached_calls", "prompt_tokens", "completion_tokens")


def is_counted(role: str) -> bool:
    """Whether a role is part of the optimisation: graders, matchers and the preflight measure it only."""
    return role not in UNBUDGETED


def usage_by_role(experiment: Experiment, method: str) -> dict[str, dict[str, float | None]]:
    """Mean per run of every role's figures. ``usd`` is ``None`` as soon as one run has a paid call without price."""
    runs = [run for run in experiment.of(method) if run.result is not None]
    roles = sorted({role for run in runs for role in run.usage})
    return {role: _mean_usage([run.usage.get(role, {}) for run in runs]) for role in roles}


def usage_total(experiment: Experiment, method: str) -> dict[str, float | None]:
    """Mean per run over the roles of the optimisation."""
    parts = [usage for role, usage in usage_by_role(experiment, method).items() if is_counted(role)]
    total: dict[str, float | None] = {key: fsum(part[key] or 0 for part in parts) for key in COUNTED}
    prices = [part["usd"] for part in parts]
    total["usd"] = None if not prices or None in prices else fsum(price or 0 for price in prices)
    total["paid_tokens"] = fsum(part["paid_tokens"] or 0 for part in parts)
    return total


def _mean_usage(usages: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    mean: dict[str, float | None] = {
        key: fsum(usage.get(key) or 0 for usage in usages) / len(usages) for key in (*COUNTED, "paid_tokens")
    }
    prices = [usage.get("usd", 0.0) for usage in usages]
    mean["usd"] = None if None in prices else fsum(prices) / len(usages)
    return mean


def tokens(experiment: Experiment, method: str) -> float | None:
    """Logical tokens (prompt + completion) per run of the optimisation, mean over runs; ``None`` without usage."""
    if not any(run.usage for run in experiment.of(method)):
        return None
    total = usage_total(experiment, method)
    return (total["prompt_tokens"] or 0) + (total["completion_tokens"] or 0)
