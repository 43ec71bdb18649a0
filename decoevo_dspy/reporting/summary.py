"""``summary.json``: an experiment's figures, from its runs' ``result.json``. Undefined is ``None``, never NaN."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from decoevo_dspy.calls.budget import UNBUDGETED
from decoevo_dspy.errors import ConfigurationError, DataError
from decoevo_dspy.rules.statistics import average_within_run, holm, mean_and_sd, paired_difference
from decoevo_dspy.run.folder import ExperimentFolder, Run
from decoevo_dspy.values.methods import BASELINE


def summarise(out: str | Path) -> dict[str, Any]:
    """The summary of an experiment's folder.

    A method's ``per_seed`` is in the order of ``seeds``, with ``None`` for a run that has no official score, which
    ``failed`` names with the reason; ``graded_per_seed`` says on how many test questions a score rests (summed over
    benchmarks). Averages over benchmarks are taken inside a seed first, and only over seeds that have all of them
    (docs/METHOD.md §12).

    Raises:
        ConfigurationError: when ``out`` holds no experiment.
    """
    folder = ExperimentFolder(Path(out))
    try:
        plan = folder.plan()
    except DataError:
        plan = None
    if plan is None:
        raise ConfigurationError(f"{out}: holds no experiment (experiment.json is missing or unreadable)")
    benchmarks, seeds, methods = list(plan["configs"]), list(plan["seeds"]), list(plan["methods"])
    runs = {
        (benchmark, method, seed): _scored(folder.run(f"{benchmark}-{method}-seed{seed}"))
        for benchmark in benchmarks
        for method in methods
        for seed in seeds
    }
    failed = [
        {
            "run": f"{b}-{m}-seed{s}",
            "benchmark": b,
            "method": m,
            "seed": s,
            **(_failure(folder.run(f"{b}-{m}-seed{s}")) if run is None else _unscored(run["official"])),
        }
        for (b, m, s), run in runs.items()
        if run is None or run["official"].get("score") is None
    ]
    return {
        "backbone": _backbone(plan["configs"]),
        "seeds": seeds,
        "benchmarks": benchmarks,
        "methods": figures_of(runs, benchmarks=benchmarks, methods=methods, seeds=seeds),
        "failed": failed,
    }


def figures_of(
    runs: Mapping[tuple[str, str, int], Mapping[str, Any] | None],
    *,
    benchmarks: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
) -> dict[str, dict[str, Any]]:
    """The figures of every method, from results by (benchmark, method, seed); see `summarise`."""
    figures: dict[str, dict[str, Any]] = {}
    for method in methods:
        each = {b: _figures([runs.get((b, method, seed)) for seed in seeds]) for b in benchmarks}
        figures[method] = each[benchmarks[0]] if len(benchmarks) == 1 else {**_averaged(each), "by_benchmark": each}
    _compare(figures)
    return figures


def _scored(run: Run) -> dict[str, Any] | None:
    """A complete run's figures, or ``None``."""
    result = run.readable_result()
    return result if result is not None and result.get("official") is not None else None


def _failure(run: Run) -> dict[str, Any]:
    return run.failure() or {"error": "not finished", "exit_code": 130}


def _unscored(official: Mapping[str, Any]) -> dict[str, Any]:
    errors = (official.get("figures") or {}).get("errors") or {}
    why = "; ".join(f"{name}: {count}" for name, count in errors.items())
    graded = f"{official.get('n_graded', 0)} of {official.get('n_total', '?')} test questions graded"
    return {"error": f"no official score: {graded}" + (f" ({why})" if why else ""), "exit_code": 4}


def tokens_of(result: Mapping[str, Any]) -> int | None:
    """Logical tokens (prompt and completion) that a run's optimisation needed; graders are no part of it.

    ``None`` for a result that has no usage.
    """
    usage = result.get("usage")
    if not usage:
        return None
    return sum(u["prompt_tokens"] + u["completion_tokens"] for role, u in usage.items() if role not in UNBUDGETED)


def _figures(runs: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    scores = [None if run is None else run["official"].get("score") for run in runs]
    proxies = [None if run is None else run.get("proxy") for run in runs]
    graded = [None if run is None else _graded(run["official"]) for run in runs]
    return _described(scores, proxies, [None if run is None else tokens_of(run) for run in runs], graded)


def _graded(official: Mapping[str, Any]) -> dict[str, int] | None:
    """On how many of the test questions a score rests; ``None`` when the result does not say."""
    n_graded, n_total = official.get("n_graded"), official.get("n_total")
    return None if n_graded is None or n_total is None else {"n_graded": n_graded, "n_total": n_total}


def _averaged(each: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Benchmarks averaged inside each seed; a seed without one of them has no average."""

    def by_seed(name: str) -> list[float | None]:
        rows = list(zip(*(each[b][name] for b in each), strict=True))
        return [
            None if None in row else average_within_run({str(i): [x] for i, x in enumerate(row)})[0] for row in rows
        ]

    rows = zip(*(each[b]["graded_per_seed"] for b in each), strict=True)
    graded = [None if None in row else {key: sum(one[key] for one in row) for key in row[0]} for row in rows]
    return _described(by_seed("per_seed"), by_seed("proxy_per_seed"), by_seed("tokens_per_seed"), graded)


def _described(
    scores: Sequence[float | None],
    proxies: Sequence[float | None],
    tokens: Sequence[float | None],
    graded: Sequence[Mapping[str, int] | None],
) -> dict[str, Any]:
    moments = mean_and_sd(_there(scores))
    used = mean_and_sd(_there(tokens)).mean
    return {
        "mean": _round(moments.mean),
        "sd": _round(moments.sd),
        "per_seed": [_round(score) for score in scores],
        "graded_per_seed": list(graded),
        "proxy_mean": _round(mean_and_sd(_there(proxies)).mean),
        "proxy_per_seed": [_round(proxy) for proxy in proxies],
        "tokens": None if used is None else round(used),
        "tokens_per_seed": list(tokens),
    }


def _compare(figures: dict[str, dict[str, Any]]) -> None:
    """Put every method beside skillopt: relative tokens, and the paired difference over the seeds both have."""
    base = figures.get(BASELINE)
    for method in figures.values():
        tokens, reference = method["tokens"], base["tokens"] if base else None
        method["tokens_vs_skillopt"] = round(tokens / reference, 4) if tokens is not None and reference else None
    if base is None:
        return
    compared = [method for method in figures.values() if method is not base]
    tests: list[dict[str, Any]] = []
    for method in compared:
        pairs = [
            (a, b) for a, b in zip(method["per_seed"], base["per_seed"], strict=True) if a is not None and b is not None
        ]
        found = paired_difference([a for a, _ in pairs], [b for _, b in pairs])
        interval = None if found.interval is None else [_round(bound) for bound in found.interval]
        tests.append({"mean": _round(found.mean), "ci95": interval, "p": found.p, "n": found.n, "reason": found.reason})
    for method, test, adjusted in zip(compared, tests, holm([test["p"] for test in tests]), strict=True):
        method["vs_skillopt"] = {**test, "p_holm": adjusted}


def _backbone(configs: Mapping[str, Any]) -> str:
    """The model names behind the experiment, in alphabetical order."""
    names = {
        table["model"]
        for config in configs.values()
        for role, table in config["models"].items()
        if table.get("model") and role not in ("grader", "matcher")
    }
    return ", ".join(sorted(names))


def _there(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
