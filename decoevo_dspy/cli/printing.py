"""What commands print on stdout: one JSON object, or tables to read."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decoevo_dspy.calls.secrets import KNOWN, mask, masked
from decoevo_dspy.errors import DecoEvoError
from decoevo_dspy.reporting.text import printable


def safe(text: str) -> str:
    """A text that others wrote, as it may reach a terminal: no known secret, every control character escaped."""
    KNOWN.learn_environment()
    return printable(mask(text))


def print_json(value: Any) -> None:
    """One JSON object, without NaN, on stdout; what a terminal would obey stands as ``\\u001b``."""
    KNOWN.learn_environment()
    text = json.dumps(masked(value), ensure_ascii=False, indent=2, allow_nan=False)
    acting = {ord(ch): json.dumps(ch)[1:-1] for ch in set(text) if printable(ch) != ch}
    sys.stdout.write(text.translate(acting) + "\n")
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
        from decoevo_dspy.run.folder import ExperimentFolder

        console = console_for_results()
        console.print(summary_table(summary))
        for failed in summary["failed"]:
            console.print(safe(f"failed: {failed['run']}: {failed['error']}"), markup=False)
        for file in [ExperimentFolder(out).summary_file, *written]:
            console.print(safe(str(file)), markup=False, soft_wrap=True)
    methods, seeds = asked
    failed = [run for run in summary["failed"] if run["method"] in methods and run["seed"] in seeds]
    if failed:
        first = failed[0]
        error = DecoEvoError(f"{len(failed)} of the runs failed; first {first['run']}: {first['error']}")
        error.exit_code = first["exit_code"]
        raise error


def print_result(result: dict[str, Any], folder: Path) -> None:
    """The figures of one run."""
    official = result.get("official")
    rows: list[tuple[str, str]] = [
        *(official_rows(official) if official else [("official score", "–")]),
        ("proxy J", f"{result['proxy']:.2f} (a selection score, no result)" if result["proxy"] is not None else "–"),
        ("steps", f"{result['steps']}"),
        ("accepted", f"{result['solver_accepted']} solver, {result['generator_accepted']} generator skills"),
        *usage_rows(result["usage"]),
        ("stopped by", result["stopped_by"]),
        ("folder", str(folder)),
    ]
    _print_rows(f"{result['method']}, seed {result['seed']}", rows)


def print_evaluation(found: dict[str, Any]) -> None:
    """An official score with everything that belongs beside it."""
    official, transfer = found["official"], found["transfer"]
    rows = official_rows(official)
    if transfer:
        rows.append(("transfer", f"optimised on {transfer['from']}, evaluated on {transfer['to']}, nothing updated"))
    if found.get("times_opened", 1) > 1:
        rows.append(("test opened", f"{found['times_opened']} times by this run"))
    _print_rows(f"{found['target']} on {found['benchmark']}, test", [*rows, *usage_rows(official["usage"])])


def official_rows(official: dict[str, Any]) -> list[tuple[str, str]]:
    """The official score: by which grader, mode, prompt and settings, and on how many answers it rests."""
    score, words, figures = official["score"], official["answer_words"], official["figures"]
    by_model = f" ({official['model']})" if official["model"] else ""
    rows = [
        ("official score", "none" if score is None else f"{score:.2f}"),
        ("graded", f"{official['n_graded']} of {official['n_total']} test questions"),
        ("grader", f"{official['grader']}{by_model}, {official['mode']} mode"),
        ("prompt", f"{official['prompt_hash'][:16]}{'' if official['official_prompt'] else ', not the official text'}"),
        ("retries", f"{official['retries']}, {official['failures']} failures"),
        ("answer length", "–" if words is None else f"{words:.1f} words on average"),
    ]
    if settings := official["settings"]:
        rows.append(("settings", ", ".join(f"{name} = {_setting(value)}" for name, value in settings.items())))
    if other := figures.get("other_mode"):
        value = "none" if other["score"] is None else f"{other['score']:.2f}"
        differ = len(figures["mode_differences"])
        rows.append((f"{other['mode']} mode", f"{value} on {other['n_graded']} graded; {differ} questions differ"))
    if note := figures.get("note"):
        rows.append(("note", str(note)))
    return rows


def usage_rows(usage: dict[str, Any]) -> list[tuple[str, str]]:
    """Calls, tokens and cost over all roles."""
    roles = list(usage.values())
    tokens = sum(role["prompt_tokens"] + role["completion_tokens"] for role in roles)
    costs = [role["usd"] for role in roles]
    return [
        ("calls", f"{sum(role['calls'] for role in roles):,}, {tokens:,} tokens"),
        ("cost", "unknown price" if None in costs else f"${sum(costs):.2f}"),
    ]


def print_alignment(found: dict[str, Any]) -> None:
    """Alignment of the last and the initial generator skill, the matcher's calibration, failures by name, and usage."""
    from rich.markup import escape
    from rich.table import Table

    console = console_for_results()
    if found["run"] is not None:
        title = escape(safe(f"{found['run']} on {found['benchmark']}, {found['partition']}"))
        table = Table(title=title, title_justify="left")
        names = ("precision", "recall", "f1", "positive_precision", "positive_recall", "positive_f1")
        for name in ("generator skill", "precision", "recall", "F1", "P (positive)", "R (positive)", "F1 (positive)"):
            table.add_column(name)
        table.add_column("aligned")
        same = found["initial"]["skill"] == found["skill"]
        for label, figures in (("last = initial" if same else "last", found), ("initial", found["initial"])):
            if label != "initial" or not same:
                counted = f"{figures['n']} of {figures['total']}"
                table.add_row(label, *(_fraction(figures[name]) for name in names), counted)
        console.print(table)
        for label, figures in (("last", found), ("initial", found["initial"])):
            for id, reason in () if label == "initial" and same else figures["failures"].items():
                console.print(safe(f"not aligned ({label}): {id}: {reason}"), markup=False)
    rows = [("matcher", f"{found['matcher']}, prompt {found['matcher_prompt_hash'][:16]}")]
    if found.get("transfer"):
        rows.append(("transfer", f"optimised on {found['transfer']['from']}, aligned on {found['transfer']['to']}"))
    if found.get("without_gold"):
        rows.append(("left out", f"{found['without_gold']} questions without gold criteria"))
    _print_rows("", [*rows, *usage_rows(found["usage"])])
    if "calibration" in found:
        _print_calibration(found["calibration"])


def _print_calibration(figures: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="the matcher against human labels", title_justify="left")
    for name in ("stratum", "balanced accuracy", "macro-F1", "Cohen's κ", "pairs"):
        table.add_column(name)
    for name, part in {"all": figures, **figures["by_stratum"]}.items():
        measures = (part[measure] for measure in ("balanced_accuracy", "macro_f1", "cohen_kappa"))
        table.add_row(escape(safe(name)) or "(none)", *map(_fraction, measures), str(part["n"]))
    console = console_for_results()
    console.print(table)
    if figures["ungraded"]:
        console.print(f"{figures['ungraded']} pairs could not be matched and are left out")


def _fraction(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _setting(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _print_rows(title: str, rows: Sequence[tuple[str, str]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None, title=escape(safe(title)) or None, title_justify="left")
    for name, value in rows:
        table.add_row(name, escape(safe(value)))
    console_for_results().print(table)
