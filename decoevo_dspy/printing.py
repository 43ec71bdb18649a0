"""What commands print on stdout: one JSON object, or tables to read."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decoevo_dspy.errors import DecoEvoError


def print_json(value: Any) -> None:
    """One JSON object, without NaN, on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def console_for_results() -> Any:
    """A rich console on stdout; 120 columns where that is no terminal."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def print_summary(
    summary: dict[str, Any],
    out: Path,
    written: Sequence[Path],
    as_json: bool,
    asked: tuple[Sequence[str], Sequence[int]],
) -> None:
    """Print an experiment's figures; then the first failed run of those ``asked`` for decides the exit code."""
    if as_json:
        print_json(summary)
    else:
        from decoevo_dspy.reporting.tables import summary_table

        console = console_for_results()
        console.print(summary_table(summary))
        for failed in summary["failed"]:
            console.print(f"failed: {failed['run']}: {failed['error']}", markup=False)
        for file in [out / "summary.json", *written]:
            console.print(str(file), markup=False, soft_wrap=True)
    methods, seeds = asked
    failed = [run for run in summary["failed"] if run["method"] in methods and run["seed"] in seeds]
    if failed:
        first = failed[0]
        error = DecoEvoError(f"{len(failed)} of the runs failed; first {first['run']}: {first['error']}")
        error.exit_code = first["exit_code"]
        raise error


def print_result(result: dict[str, Any], folder: Path) -> None:
    """The figures of one run."""
    from rich.table import Table

    official = result.get("official") or {}
    usage = list(result["usage"].values())
    tokens = sum(role["prompt_tokens"] + role["completion_tokens"] for role in usage)
    costs = [role["usd"] for role in usage]
    rows: list[tuple[str, str]] = [
        ("official score", f"{official['score']:.2f}" if official.get("score") is not None else "–"),
        ("graded", f"{official['n_graded']} of {official['n_total']} test questions" if official else "–"),
        ("proxy J", f"{result['proxy']:.2f} (a selection score, no result)" if result["proxy"] is not None else "–"),
        ("steps", f"{result['steps']}"),
        ("accepted", f"{result['solver_accepted']} solver, {result['generator_accepted']} generator skills"),
        ("calls", f"{sum(role['calls'] for role in usage):,}, {tokens:,} tokens"),
        ("cost", "unknown price" if None in costs else f"${sum(costs):.2f}"),
        ("stopped by", result["stopped_by"]),
        ("folder", str(folder)),
    ]
    table = Table(show_header=False, box=None, title=f"{result['method']}, seed {result['seed']}", title_justify="left")
    for name, value in rows:
        table.add_row(name, value)
    console_for_results().print(table)
