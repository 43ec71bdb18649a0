"""``report.html``: one self-contained page of an experiment, every word of a model escaped."""

import base64
import struct
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from decoevo_dspy.reporting import tables
from decoevo_dspy.reporting.answer import QUESTION, answer
from decoevo_dspy.reporting.figures import DARK, LIGHT, Drawing, drawings, save
from decoevo_dspy.reporting.projection import Experiment, RunReading, load_experiments
from decoevo_dspy.reporting.show import evidence_line, levels_line
from decoevo_dspy.reporting.tables import Table
from decoevo_dspy.reporting.text import number, plural, printable
from decoevo_dspy.run.folder import report_file, write_atomic
from decoevo_dspy.values.partition import NAMES

SHOWN = 8
"""Failures and findings quoted per candidate; the others are counted and stand in the log."""


def write_report(dirs: Sequence[Path], out: Path) -> Path:
    """Write the page on experiment folders and run folders, and beside it ``tables.csv`` and ``figures/*.png``.

    ``out`` is a folder (for ``report.html`` in it) or the page's file.

    Raises:
        DataError: when a folder holds no run, or a file in it is damaged.
    """
    out = Path(out)
    path = out if out.suffix in (".html", ".htm") else report_file(out)
    experiments = load_experiments(dirs)
    drawn = [drawings(experiment) for experiment in experiments]
    write_atomic(path, html(experiments, drawn))
    tables.write_tables(dirs, path.parent)
    save(drawn, path.parent)
    return path


def html(experiments: Sequence[Experiment], drawn: Sequence[Sequence[Drawing]]) -> str:
    """The page as text; ``drawn`` holds each experiment's figures."""
    environment = Environment(autoescape=True, trim_blocks=False, keep_trailing_newline=True)
    environment.filters |= {
        "clean": printable,
        "cut": _cut,
        "points": lambda value: f"{value:g}" if isinstance(value, int | float) else "–",
        "figure": lambda value: number(value, 2),
        "levels": levels_line,
        "evidence": evidence_line,
    }
    here = resources.files("decoevo_dspy.reporting")
    template = environment.from_string((here / "report.j2.html").read_text("utf-8"))
    several = len(experiments) > 1
    chapters = [
        _chapter(experiment, figures, f"e{number}-" if several else "")
        for number, (experiment, figures) in enumerate(zip(experiments, drawn, strict=True), start=1)
    ]
    compared = any(chapter["comparative"] for chapter in chapters)
    page = template.render(
        title="Decoupled co-evolution: experiment report" if compared else "Optimisation report",
        css=Markup((here / "report.css").read_text("utf-8")),  # our own file, no data in it
        chapters=chapters,
        shown=SHOWN,
        count=sum(len(experiment.runs) for experiment in experiments),
        any_simulated=any(experiment.simulated for experiment in experiments),
    )
    return page.lstrip()


def _chapter(experiment: Experiment, drawn: Sequence[Drawing], prefix: str) -> dict[str, Any]:
    comparative, found = len(experiment.methods) > 1, answer(experiment)
    problems = experiment.problems
    contents = [
        ("answer", "Answer"),
        ("failed", "Incomplete runs") if problems else None,
        ("scores", "Main results"),
        ("controls", "Controls and ablations") if comparative else None,
        ("dynamics", "Dynamics"),
        ("cost", "Cost"),
        ("history", "History"),
        ("rubrics", "Rubrics"),
        ("provenance", "Provenance"),
    ]
    return {
        "id": prefix,
        "name": experiment.path.resolve().name or "experiment",
        "subtitle": _subtitle(experiment),
        "simulated": experiment.simulated,
        "comparative": comparative,
        "contents": [entry for entry in contents if entry],
        "question": QUESTION if comparative else "What did this optimisation do?",
        "answer": found,
        "headline": found.headline if comparative else _what_happened(experiment),
        "conclusion": found.conclusion if comparative else "",
        "problems": problems,
        "main": tables.main_table(experiment),
        "controls": tables.control_table(experiment),
        "ablations": tables.ablation_table(experiment),
        "order_note": tables.order_note(experiment),
        "gap": tables.gap_table(experiment),
        "cost": tables.cost_table(experiment),
        "roles": [tables.role_table(experiment, m) for m in experiment.methods if _has_usage(experiment, m)],
        "drawings": {drawing.name: _embedded(drawing) for drawing in drawn},
        "histories": [(m, [_run(run) for run in experiment.of(m)]) for m in experiment.methods],
        "rubrics": [(run.name, found) for run in experiment.runs if (found := _rubrics(run))],
        "partitions": _partitions(experiment),
        "ids": _ids(experiment),
        "graders": _graders(experiment),
        "settings": _settings(experiment),
        "models": _by_run(experiment, "Models by role", "Role", lambda run: run.models),
        "versions": _by_run(experiment, "Versions", "Package", lambda run: run.about.get("versions") or {}),
        "hashes": _by_run(experiment, "Prompt hashes", "Prompt", lambda run: run.about.get("prompt_hashes") or {}),
    }


def _what_happened(experiment: Experiment) -> str:
    """One sentence per run of an experiment with a single method."""
    return " ".join(f"{run.name}: {_told(run)}." for run in experiment.runs)


def _has_usage(experiment: Experiment, method: str) -> bool:
    return any(run.usage for run in experiment.of(method))


def _subtitle(experiment: Experiment) -> str:
    seeds = {run.seed for run in experiment.runs}
    parts = [
        f"{plural(len(experiment.benchmarks), 'benchmark')}: {', '.join(experiment.benchmarks)}",
        plural(len(experiment.methods), "method"),
        plural(len(seeds), "seed"),
        f"backbone {experiment.backbone}",
    ]
    return " · ".join(parts)


def _embedded(drawing: Drawing) -> dict[str, Any]:
    light, dark = drawing.png(LIGHT), drawing.png(DARK)
    width, height = struct.unpack(">II", light[16:24])
    return {
        "title": drawing.title,
        "alt": drawing.alt,
        "light": _data_uri(light),
        "dark": _data_uri(dark),
        "width": width // 2,
        "height": height // 2,
        "wide": width // 2 > 600,
    }


def _data_uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def _cut(text: str, most: int = 400) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _told(run: RunReading) -> str:
    told = []
    for skill in ("solver", "generator"):
        outcomes = [c.outcome for c in run.candidates if c.skill == skill]
        if outcomes:
            told.append(f"{outcomes.count('accepted')} of {plural(len(outcomes), f'{skill} candidate')} accepted")
    if run.score is not None:
        told.append(f"official score {number(run.score)} of 100")
    if run.problem:
        told.append(f"incomplete: {run.problem}")
    return "; ".join(told) or "no candidate"


def _run(run: RunReading) -> dict[str, Any]:
    final = None
    if run.result:
        final = {
            "solver": run.result.get("solver_skill") or "(empty)",
            "generator": run.result.get("generator_skill") or "(empty)",
        }
    return {"name": run.name, "told": _told(run), "candidates": run.candidates, "final": final}


def _rubrics(run: RunReading) -> list[Table]:
    """First rubric before, last rubric after the accepted generator candidates, per shown question."""
    accepted = [c for c in run.candidates if c.skill == "generator" and c.outcome == "accepted" and c.rubrics]
    if not accepted:
        return []
    first = {shown["question_id"]: shown.get("before", []) for shown in accepted[0].rubrics}
    return [
        Table(
            caption=f"Question {printable(shown['question_id'])}",
            columns=("", "Criteria"),
            rows=(
                ("Before", "\n".join(first.get(shown["question_id"], shown.get("before", [])))),
                ("After", "\n".join(shown.get("after", []))),
            ),
        )
        for shown in accepted[-1].rubrics
    ]


# --- provenance


def _partitions_of(run: RunReading) -> Mapping[str, Sequence[str]]:
    return run.about.get("partitions") or (run.started.partitions if run.started else {})


def _partitions(experiment: Experiment) -> Table:
    rows = []
    for benchmark in experiment.benchmarks:
        runs = [run for run in experiment.runs if run.benchmark == benchmark and _partitions_of(run)]
        splits = [{name: tuple(members) for name, members in _partitions_of(run).items()} for run in runs]
        sizes = [f"{len(splits[0].get(name, ())):,}" if splits else "–" for name in NAMES]
        rows.append(
            (benchmark, *sizes, _how_split([run.seed for run in runs], [str(sorted(s.items())) for s in splits]))
        )
    columns = ("Benchmark", *(name.replace("_", " ") for name in NAMES), "Splits")
    note = "Disjoint by id and by text. Solver gate is V_s, generator gate V_g; both select, so they report nothing."
    return Table(caption="Partitions (number of questions)", columns=columns, rows=tuple(rows), note=note)


def _how_split(seeds: Sequence[int], splits: Sequence[str]) -> str:
    """Whether runs share their split: all of them, or those of one seed, as matched runs must."""
    distinct, by_seed = len(set(splits)), len(set(zip(seeds, splits, strict=True)))
    if distinct <= 1:
        return "the same in all runs"
    matched = by_seed == len(set(seeds))
    return "one per seed, the same for all methods" if matched else f"{distinct} different: runs are not matched"


def _ids(experiment: Experiment) -> list[tuple[str, Sequence[str]]]:
    """Ids by benchmark and partition, of each distinct split once."""
    found: dict[tuple[str, str, tuple[str, ...]], set[int]] = {}
    for run in experiment.runs:
        for name, members in _partitions_of(run).items():
            if members:
                found.setdefault((run.benchmark, name, tuple(map(str, members))), set()).add(run.seed)
    labels: list[tuple[str, Sequence[str]]] = []
    for (benchmark, name, members), seeds in found.items():
        alone = sum(key[:2] == (benchmark, name) for key in found) == 1
        where = "" if alone else f", seed {', '.join(map(str, sorted(seeds)))}"
        labels.append((f"{benchmark}, {name.replace('_', ' ')} ({len(members)}){where}", members))
    return labels


def _graders(experiment: Experiment) -> Table:
    grouped: dict[tuple[str, ...], list[str]] = {}
    for run in experiment.runs:
        o = run.official
        if o:
            own = o.get("official_prompt")
            key = (
                run.benchmark,
                str(o.get("grader", "–")),
                str(o.get("mode", "–")),
                "–" if own is None else "yes" if own else "no",
                str(o.get("model") or "none"),
                str(o.get("prompt_hash", "–"))[:16] or "–",
                f"{o.get('n_graded', '–')} of {o.get('n_total', '–')}",
            )
            grouped.setdefault(key, []).append(run.name)
    rows = tuple((*key, str(len(names))) for key, names in grouped.items())
    return Table(
        caption="Official graders",
        columns=("Benchmark", "Grader", "Mode", "Official prompt", "Model", "Prompt hash", "Graded", "Runs"),
        rows=rows,
        note="" if rows else "No run has been evaluated by an official grader.",
    )


def _settings(experiment: Experiment) -> Table:
    def settings(run: RunReading) -> Mapping[str, Any]:
        return run.about.get("settings") or (run.started.settings if run.started else {})

    return _by_run(experiment, "Settings", "Setting", settings)


def _by_run(experiment: Experiment, caption: str, header: str, values_of: Any) -> Table:
    """Names and values; a value that differs between runs is listed with the methods that have it."""
    values: dict[str, dict[str, list[str]]] = {}
    for run in experiment.runs:
        for name, value in values_of(run).items():
            values.setdefault(name, {}).setdefault(_plain(value), []).append(run.method)
    rows = []
    for name, by_value in values.items():
        if len(by_value) == 1:
            rows.append((name, next(iter(by_value))))
        else:
            rows.append((name, "; ".join(f"{v} ({', '.join(dict.fromkeys(m))})" for v, m in by_value.items())))
    return Table(caption=caption, columns=(header, "Value"), rows=tuple(rows))


def _plain(value: Any) -> str:
    return (
        {True: "yes", False: "no", None: "–"}.get(value, str(value)) if isinstance(value, bool | None) else str(value)
    )
