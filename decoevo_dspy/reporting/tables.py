"""The tables of an experiment: for the terminal, for the page, and as one tidy CSV."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table as RichTable

from decoevo_dspy.reporting import paper
from decoevo_dspy.reporting.measures import (
    Contrast,
    accepted,
    contrast,
    family,
    gap_at_end,
    mean_sd,
    scores,
    seeds_of,
    tokens,
    trajectory,
    usage_by_role,
    usage_total,
)
from decoevo_dspy.reporting.projection import Experiment, load_experiments
from decoevo_dspy.reporting.text import interval, listed, number, p_value, printable, ratio, signed, span
from decoevo_dspy.rules.statistics import MeanSD
from decoevo_dspy.run.folder import write_atomic
from decoevo_dspy.values.methods import ABLATIONS, BASELINE, CONTROLS, COUPLED, MAIN, in_order


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table as text: the first cell of a row is its header; ``strong`` rows carry the method under study."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: tuple[int, ...] = ()
    note: str = ""


def plus_minus(moments: MeanSD) -> str:
    """Mean ± SD, or why not."""
    if moments.mean is None:
        return f"undefined: {moments.reason}"
    return number(moments.mean) if moments.sd is None else f"{number(moments.mean)} ± {number(moments.sd)}"


def difference(c: Contrast) -> str:
    """Mean difference with its interval, or why not."""
    if not c.ran:
        return "not run"
    if c.mean is None:
        return f"undefined: {c.why_undefined}"
    if c.interval is None:
        return f"{signed(c.mean)} (no interval: {c.why_undefined})"
    return f"{signed(c.mean)} {interval(c.interval)}"


def summary_table(summary: Mapping[str, Any]) -> RichTable:
    """``summary.json`` for the terminal; it is readable without colour."""
    simulated = "simulated" in str(summary.get("backbone", ""))
    seeds = summary.get("seeds") or 0
    count = seeds if isinstance(seeds, int) else len(seeds)
    title = f"Official score, 0–100 · {', '.join(map(str, summary.get('benchmarks') or ['?']))} · {count} seed(s)"
    table = RichTable(title=title, caption="simulated backbone: no evidence about real models" if simulated else None)
    table.add_column("method", no_wrap=True)
    for name in ("mean ± SD", "vs skillopt [95 % CI]", "Holm p", "proxy", "tokens"):
        table.add_column(name, justify="right")
    methods = summary.get("methods", {})
    for method in in_order(methods):
        entry = methods[method] or {}
        versus = entry.get("vs_skillopt") or {}
        mean, sd = entry.get("mean"), entry.get("sd")
        table.add_row(
            method,
            number(mean) + (f" ± {number(sd)}" if sd is not None else ""),
            f"{signed(versus.get('mean'))} {interval(versus.get('ci95'))}" if versus else "–",
            p_value(versus.get("p_holm")),
            number(entry.get("proxy_mean")),
            ratio(entry.get("tokens_vs_skillopt")),
        )
    return table


def main_table(experiment: Experiment) -> Table:
    """Official scores with their paired differences from SkillOpt."""
    several = experiment.benchmarks if len(experiment.benchmarks) > 1 else []
    methods, entries = experiment.methods, experiment.summary.get("methods", {})
    rows = []
    for method in methods:
        entry = entries.get(method) or {}
        by_seed = scores(experiment, method)
        known = sum(score is not None for score in by_seed.values())
        score = plus_minus(mean_sd(experiment, method))
        if entry.get("mean") is not None:
            score = number(entry["mean"]) + (f" ± {number(entry['sd'])}" if entry.get("sd") is not None else "")
        planned = max(len(seeds_of(experiment)), len(by_seed))
        rows.append(
            (
                method,
                *(plus_minus(mean_sd(experiment, method, name)) for name in several),
                score,
                str(known) if known == planned else f"{known} of {planned}",
                *_versus(experiment, method, entry.get("vs_skillopt")),
                " / ".join(number(accepted(experiment, method, skill)) for skill in ("solver", "generator")),
                number(entry.get("proxy_mean")),
                ratio(entry.get("tokens_vs_skillopt")),
            )
        )
    average = "Average" if several else "Official score"
    return Table(
        caption="Official scores on the test partition (0–100, mean ± sample SD over seeds)",
        columns=(
            "Method", *several, average, "Seeds", "− SkillOpt [95 % CI]", "p", "Holm p", "Accepted s / g",
            "Own proxy", "Tokens",
        ),
        rows=tuple(rows),
        strong=_strong(methods),
        note="Differences are paired by seed, with t-intervals; averages over benchmarks are taken inside a run first. "
        "Holm adjusts over all comparisons with SkillOpt. The proxy is each method's own J on V_s (0–100): it is not "
        "comparable across methods and is no performance. Accepted: solver and "
        "generator candidates per run. Tokens are logical tokens relative to SkillOpt.",
    )  # fmt: skip


def _versus(experiment: Experiment, method: str, written: Mapping[str, Any] | None) -> tuple[str, str, str]:
    if method == BASELINE:
        return "reference", "–", "–"
    if written and written.get("mean") is not None:
        why = written.get("reason") or contrast(experiment, method, BASELINE).why_undefined
        bounds = f" {interval(written['ci95'])}" if written.get("ci95") else f" (no interval: {why})"
        return f"{signed(written['mean'])}{bounds}", p_value(written.get("p")), p_value(written.get("p_holm"))
    one = contrast(experiment, method, BASELINE)
    return difference(one), p_value(one.difference.p if one.difference else None), "–"


def control_table(experiment: Experiment) -> Table:
    """Rival explanations: gain over SkillOpt and distance to DecoEvo, beside the paper's."""
    methods = [MAIN, COUPLED, *CONTROLS]
    gains = family([contrast(experiment, m, BASELINE) for m in methods])
    leads = family([contrast(experiment, MAIN, m) for m in methods if m != MAIN])
    rows = []
    for method, gain, lead in zip(methods, gains, [None, *leads], strict=True):
        reported, below = paper.OVER_SKILLOPT[method], paper.BELOW_DECOEVO.get(method)
        remark = f" ({reported.remark})" if reported.remark else ""
        rows.append(
            (
                method,
                difference(gain),
                span(reported.low, reported.high) + remark,
                "reference" if lead is None else difference(lead),
                "–" if lead is None else p_value(lead.p_holm),
                "–" if below is None else span(below.low, below.high),
            )
        )
    return Table(
        caption="Controls: what else could explain the gain (points, 0–100)",
        columns=("Method", "− SkillOpt, here", "− SkillOpt, paper", "DecoEvo −, here", "Holm p", "DecoEvo −, paper"),
        rows=tuple(rows),
        strong=(0,),
        note=f"Paper: {paper.SOURCE}. Here: paired 95 % t-intervals; Holm over the four distances to DecoEvo.",
    )


def ablation_table(experiment: Experiment) -> Table:
    """What is lost without one part, beside the paper's loss."""
    losses = family([contrast(experiment, MAIN, method) for method in ABLATIONS])
    rows = []
    for method, loss in zip(ABLATIONS, losses, strict=True):
        reported = paper.ABLATION_LOSS[method]
        remark = f" {reported.remark}" if reported.remark else ""
        rows.append(
            (
                method,
                difference(loss),
                p_value(loss.p_holm),
                f"{number(reported.low)} … {number(reported.high)}{remark}",
            )
        )
    return Table(
        caption="Ablations: points lost against DecoEvo when one part is taken out",
        columns=("Without", "Loss here [95 % CI]", "Holm p", "Loss in the paper"),
        rows=tuple(rows),
        note=f"Paper: {paper.SOURCE}; † one range for no-blind and no-near-tie together. A negative loss is a gain "
        "without the part. Holm over the six ablations.",
    )


def order_note(experiment: Experiment) -> str:
    """Where the measured order of methods departs from the paper's, in one paragraph; empty when nothing does."""
    said: list[str] = []
    level: list[str] = []
    above: list[str] = []
    for method in (MAIN, COUPLED, *CONTROLS):
        one, reported = contrast(experiment, method, BASELINE), paper.OVER_SKILLOPT[method]
        expected = 1 if reported.low > 0 else -1
        if one.direction is not None and one.direction == -expected:
            said.append(f"{method} {_side(one.direction)} SkillOpt, in the paper {_side(expected)} it")
    for method in (*CONTROLS, *ABLATIONS):
        direction = contrast(experiment, MAIN, method).direction
        (above if direction == -1 else level if direction == 0 else []).append(method)
    if above:
        said.append(f"{listed(above)} above DecoEvo, in the paper below it")
    if level:
        said.append(f"{listed(level)} not to be told apart from DecoEvo, in the paper below it")
    return f"Differs from the paper: {'; '.join(said)}." if said else ""


def _side(direction: int) -> str:
    return "above" if direction > 0 else "below"


def gap_table(experiment: Experiment) -> Table | None:
    """Last diagnostic checkpoint: own proxy against the official score; ``None`` without diagnostic notes."""
    methods = [m for m in experiment.methods if any(trajectory(run) for run in experiment.of(m))]
    if not methods:
        return None
    rows = []
    for method in methods:
        end = gap_at_end(experiment, method)
        rows.append((method, plus_minus(end["proxy"]), plus_minus(end["official"]), plus_minus(end["gap"])))
    return Table(
        caption="Last checkpoint on the diagnostic partition (0–100, mean ± SD over runs)",
        columns=("Method", "Own proxy", "Official", "Gap (proxy − official)"),
        rows=tuple(rows),
        strong=_strong(methods),
        note="The proxies of different generators are on different scales; the official column is the comparable one. "
        f"In the paper SC-CoEvo ends at a proxy of {paper.FINAL_PROXY_SC_COEVO} while its official score falls.",
    )


def cost_table(experiment: Experiment) -> Table:
    """Cost per run by method."""
    base = tokens(experiment, BASELINE)
    rows = []
    for method in experiment.methods:
        total, used = usage_total(experiment, method), tokens(experiment, method)
        if used is None:
            rows.append((method, *["–"] * 8))
            continue
        reported = paper.TOKENS_VS_SKILLOPT.get(method)
        rows.append(
            (
                method,
                number(total["calls"], 0),
                number(total["cached_calls"], 0),
                number(total["prompt_tokens"], 0),
                number(total["completion_tokens"], 0),
                number(used, 0),
                ratio(used / base if base else None),
                ratio(reported),
                _money(experiment, total["usd"]),
            )
        )
    return Table(
        caption="Optimisation cost, mean per run",
        columns=(
            "Method", "Calls", "of these cached", "Prompt tokens", "Completion tokens", "All tokens",
            "Relative to SkillOpt", "the same, paper", "Money paid",
        ),
        rows=tuple(rows),
        strong=_strong(experiment.methods),
        note="Calls and tokens are logical: what the method needs. Cached calls were answered by the experiment's call "
        "store and cost nothing. The final evaluation is left out, as in the paper (HealthBench, GPT-4o).",
    )  # fmt: skip


def role_table(experiment: Experiment, method: str) -> Table:
    """Cost per run by role, of one method."""
    rows = [
        (
            role.replace("_", " "),
            *(number(usage[key], 0) for key in ("calls", "cached_calls", "prompt_tokens", "completion_tokens")),
            _money(experiment, usage["usd"]),
        )
        for role, usage in usage_by_role(experiment, method).items()
    ]
    columns = ("Role", "Calls", "of these cached", "Prompt tokens", "Completion tokens", "Money paid")
    return Table(caption=f"{method}: mean per run by role", columns=columns, rows=tuple(rows))


def _money(experiment: Experiment, usd: float | None) -> str:
    if usd is not None:
        return f"${number(usd, 2)}"
    models = {model for run in experiment.runs for model in run.models.values()}
    free = models and all(model.startswith("simulated") for model in models)
    return "none (simulated)" if free else "unknown price"


def _strong(methods: Sequence[str]) -> tuple[int, ...]:
    return tuple(i for i, method in enumerate(methods) if method == MAIN)


# --- CSV

COLUMNS: tuple[str, ...] = (
    "experiment", "simulated", "table", "benchmark", "method", "seed", "role", "measure", "value", "ci_low", "ci_high",
    "p", "p_holm", "n", "unit", "note",
)  # fmt: skip


def write_tables(dirs: Sequence[Path], out: Path) -> Path:
    """One tidy CSV of all figures: a row per figure. ``out`` is a folder (``tables.csv`` in it) or a ``.csv`` file."""
    out = Path(out)
    path = out if out.suffix == ".csv" else out / "tables.csv"
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for experiment in load_experiments(dirs):
        common = {"experiment": experiment.path.resolve().name, "simulated": str(experiment.simulated).lower()}
        for row in _tidy(experiment):
            writer.writerow({key: _cell(value) for key, value in {**common, **row}.items()})
    write_atomic(path, buffer.getvalue())
    return path


def _cell(value: Any) -> Any:
    """Text that a spreadsheet must not take for a formula gets an apostrophe."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t"):
        return f"'{value}"
    return value if value is not None else ""


def _tidy(experiment: Experiment) -> Iterator[dict[str, Any]]:
    benchmarks = experiment.benchmarks
    for method in experiment.methods:
        for name in dict.fromkeys([*benchmarks, "average"] if len(benchmarks) > 1 else benchmarks):
            yield from _score_rows(experiment, method, name, None if name == "average" else name)
        yield from _cost_rows(experiment, method)
        yield from _checkpoint_rows(experiment, method)
    base = benchmarks[0] if len(benchmarks) == 1 else "average"
    over = [m for m in experiment.methods if m != BASELINE]
    for table, contrasts in (
        ("vs_skillopt", [contrast(experiment, m, BASELINE) for m in over]),
        ("controls", [contrast(experiment, MAIN, m) for m in (COUPLED, *CONTROLS)]),
        ("ablations", [contrast(experiment, MAIN, m) for m in ABLATIONS]),
    ):
        for one in family(contrasts):
            yield _contrast_row(table, base, one)
    for run, problem in experiment.problems.items():
        yield {"table": "failed", "measure": "run", "value": run, "note": printable(problem)}


def _score_rows(experiment: Experiment, method: str, label: str, benchmark: str | None) -> Iterator[dict[str, Any]]:
    shared = {"table": "scores", "benchmark": label, "method": method, "unit": "points 0-100"}
    for seed, score in scores(experiment, method, benchmark).items():
        note = "" if score is not None else "failed or ungraded"
        yield {**shared, "seed": seed, "measure": "official", "value": score, "note": note}
    moments = mean_sd(experiment, method, benchmark)
    yield {**shared, "measure": "mean", "value": moments.mean, "n": moments.n, "note": moments.reason}
    yield {**shared, "measure": "sd", "value": moments.sd, "n": moments.n, "note": moments.reason}


def _contrast_row(table: str, benchmark: str, one: Contrast) -> dict[str, Any]:
    low, high = one.interval or (None, None)
    return {
        "table": table,
        "benchmark": benchmark,
        "method": one.method,
        "measure": f"minus {one.base}",
        "value": one.mean,
        "ci_low": low,
        "ci_high": high,
        "p": one.difference.p if one.difference else None,
        "p_holm": one.p_holm,
        "n": one.n,
        "unit": "points",
        "note": one.why_undefined,
    }


def _cost_rows(experiment: Experiment, method: str) -> Iterator[dict[str, Any]]:
    for role, usage in usage_by_role(experiment, method).items():
        for measure, value in usage.items():
            unit = "USD" if measure == "usd" else measure.rpartition("_")[2]
            note = "unknown price" if value is None else ""
            row = {"table": "cost", "method": method, "role": role, "measure": measure, "value": value}
            yield {**row, "unit": f"{unit} per run", "note": note}


def _checkpoint_rows(experiment: Experiment, method: str) -> Iterator[dict[str, Any]]:
    for run in experiment.of(method):
        for point in trajectory(run):
            for measure in ("proxy", "official"):
                row = {"table": "dynamics", "benchmark": run.benchmark, "method": method, "seed": run.seed}
                value = getattr(point, measure)
                yield {**row, "measure": f"{measure} after step {point.step}", "value": value, "unit": "points 0-100"}
