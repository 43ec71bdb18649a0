"""The figures: drawn with Matplotlib's Agg canvas, light for the PNG files, light and dark for the page.

Colours are Okabe and Ito's, which stay apart for colour-blind eyes; line style and marker say the same again.
"""

import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from decoevo_dspy.reporting.measures import (
    Point,
    carried_forward,
    contrast,
    last_step,
    mean_sd,
    proxy_trajectory,
    scores,
    tokens,
    trajectory,
    usage_total,
)
from decoevo_dspy.reporting.projection import Experiment, RunReading, load_experiments
from decoevo_dspy.reporting.text import ratio, signed
from decoevo_dspy.rules.statistics import paired_difference
from decoevo_dspy.values.methods import BASELINE, MAIN

DPI = 192

WIDTH = 5.2
"""Inches of a figure with one panel: small enough for a telephone."""


@dataclass(frozen=True)
class Theme:
    """Paper, ink and grid of a figure, and its two series colours."""

    name: str
    paper: str
    ink: str
    faint: str
    official: str
    proxy: str
    mark: str


LIGHT = Theme("light", "#ffffff", "#1c2430", "#d5dae1", "#0072B2", "#D55E00", "#009E73")
DARK = Theme("dark", "#171b21", "#e3e7ec", "#3a424d", "#56B4E9", "#E69F00", "#2cc79b")


@dataclass(frozen=True)
class Drawing:
    """One figure: its file stem, a title, what it shows in words, and how to draw it."""

    name: str
    title: str
    alt: str
    draw: Callable[[Theme], Figure]
    _drawn: dict[Theme, bytes] = field(default_factory=dict[Theme, bytes], repr=False, compare=False)

    def png(self, theme: Theme = LIGHT) -> bytes:
        """The figure as PNG, without any date in it; drawn once per theme."""
        if theme not in self._drawn:
            self._drawn[theme] = self._render(theme)
        return self._drawn[theme]

    def _render(self, theme: Theme) -> bytes:
        style: dict[Any, Any] = {
            "font.family": "sans-serif",
            "font.size": 10,
            "text.parse_math": False,
            "text.color": theme.ink,
            "axes.edgecolor": theme.faint,
            "axes.labelcolor": theme.ink,
            "axes.facecolor": theme.paper,
            "axes.axisbelow": True,
            "figure.facecolor": theme.paper,
            "xtick.color": theme.ink,
            "ytick.color": theme.ink,
            "grid.color": theme.faint,
            "legend.frameon": False,
        }
        buffer = io.BytesIO()
        with rc_context(style), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
            figure = self.draw(theme)
            FigureCanvasAgg(figure)
            figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
        return buffer.getvalue()


def drawings(experiment: Experiment) -> list[Drawing]:
    """All figures that this experiment has data for."""
    found = [_dynamics(experiment), _scores(experiment), _gains(experiment), _cost(experiment)]
    return [drawing for drawing in found if drawing is not None]


def write_figures(out_dir: Path, dirs: Sequence[Path] | None = None) -> list[Path]:
    """Write ``figures/*.png`` below ``out_dir``, of the experiment in it or of the folders in ``dirs``."""
    return save([drawings(experiment) for experiment in load_experiments(dirs or [Path(out_dir)])], Path(out_dir))


def save(by_experiment: Sequence[Sequence[Drawing]], out_dir: Path) -> list[Path]:
    """Write drawings below ``out_dir``; names carry the experiment's number when there are several."""
    folder = out_dir / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for number, drawn in enumerate(by_experiment, start=1):
        prefix = f"{number}-" if len(by_experiment) > 1 else ""
        for drawing in drawn:
            path = folder / f"{prefix}{drawing.name}.png"
            path.write_bytes(drawing.png())
            written.append(path)
    return written


# --- dynamics


def _dynamics(experiment: Experiment) -> Drawing | None:
    methods = [m for m in experiment.methods if any(trajectory(run) for run in experiment.of(m))]
    if methods:
        alt = (
            "Line charts, one per method: proxy and official score on the diagnostic partition over optimisation steps,"
            " mean over runs with the range over runs as a band. The table of last checkpoints gives the same figures."
        )
        title = "Training dynamics on the diagnostic partition"
        return Drawing("dynamics", title, alt, lambda theme: _draw_dynamics(experiment, methods, theme, trajectory))
    methods = [m for m in experiment.methods if any(proxy_trajectory(run) for run in experiment.of(m))]
    if not methods:
        return None
    alt = (
        "Line charts, one per method: the method's own proxy J on the solver gate over optimisation steps. No official "
        "scores of checkpoints were recorded."
    )
    title = "Own proxy J on the solver gate"
    return Drawing("dynamics", title, alt, lambda theme: _draw_dynamics(experiment, methods, theme, proxy_trajectory))


def _draw_dynamics(
    experiment: Experiment, methods: Sequence[str], theme: Theme, points_of: Callable[[RunReading], list[Point]]
) -> Figure:
    columns = min(4, len(methods)) if len(methods) != 4 else 2
    lines = -(-len(methods) // columns)
    figure = Figure(figsize=(1.2 + 2.35 * columns if columns > 2 else 7.2, 0.9 + 2.1 * lines), layout="constrained")
    axes = figure.subplots(lines, columns, sharey=True, squeeze=False)
    usual = median(max(map(last_step, experiment.of(method))) for method in methods)
    for position, axis in enumerate(axes.flat):
        if position >= len(methods):
            axis.set_visible(False)
            continue
        method = methods[position]
        runs = [run for run in experiment.of(method) if points_of(run)]
        ends = [max(last_step(run), points_of(run)[-1].step) for run in runs]
        axis.set_xlim(-0.4, max([*ends, usual]) + 0.4)
        paths = [carried_forward(points_of(run), end) for run, end in zip(runs, ends, strict=True)]
        _band(axis, [[p.proxy for p in path] for path in paths], theme.proxy, "--", "own proxy")
        _band(axis, [[p.official for p in path] for path in paths], theme.official, "-", "official")
        axis.set_title(f"{method} ({len(runs)} runs)" if len(runs) != 1 else f"{method} (1 run)", fontsize=10)
        axis.grid(axis="y", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.xaxis.get_major_locator().set_params(integer=True)
        if position % columns == 0:
            axis.set_ylabel("score, 0–100")
        if position + columns >= len(methods):
            axis.set_xlabel("optimisation step")
            axis.tick_params(labelbottom=True)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    for axis in axes.flat:
        found, names = axis.get_legend_handles_labels()
        if len(names) > len(labels):
            handles, labels = found, names
    figure.legend(handles, labels, loc="outside upper right", ncols=2, fontsize=9)
    _footer(figure, experiment, "mean over runs; band: range over runs")
    return figure


def _band(axis: Any, paths: Sequence[Sequence[float | None]], colour: str, style: str, label: str) -> None:
    steps = range(max(map(len, paths), default=0))
    at = [[path[step] for path in paths if step < len(path)] for step in steps]
    known = [[value for value in values if value is not None] for values in at]
    if not any(known):
        return
    nan = float("nan")
    means = [fsum(v) / len(v) if v else nan for v in known]
    size = 6 if len(means) == 1 else 3
    axis.plot(steps, means, style, marker="o", markersize=size, color=colour, linewidth=1.8, label=label)
    low, high = [min(v, default=nan) for v in known], [max(v, default=nan) for v in known]
    axis.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)


# --- scores and gains


def _scores(experiment: Experiment) -> Drawing | None:
    methods = [m for m in experiment.methods if any(s is not None for s in scores(experiment, m).values())]
    panels: list[str | None] = [None]
    if len(experiment.benchmarks) > 1:
        panels = [*experiment.benchmarks, None]
    if not methods:
        return None

    def draw(theme: Theme) -> Figure:
        figure = Figure(
            figsize=(WIDTH if len(panels) == 1 else 2.2 + 2.4 * len(panels), 1.3 + 0.38 * len(methods)),
            layout="constrained",
        )
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axis, panel in zip(axes, panels, strict=True):
            for row, method in enumerate(methods):
                values = [s for s in scores(experiment, method, panel).values() if s is not None]
                colour = theme.mark if method == MAIN else theme.official
                axis.plot(
                    values, [row + 0.24] * len(values), "o", color=colour, alpha=0.6, markersize=4, markeredgewidth=0
                )
                moments = mean_sd(experiment, method, panel)
                if moments.mean is not None:
                    interval = paired_difference(values, [0.0] * len(values)).interval
                    _whisker(axis, row, moments.mean, interval, colour)
            _method_axis(axis, methods)
            axis.set_xlabel("official score, 0–100")
            if len(panels) > 1:
                axis.set_title(panel or "average", fontsize=10)
        _footer(figure, experiment, "diamond: mean; bar: 95 % t-interval; dots: seeds")
        return figure

    title = "Official scores on the test partition"
    alt = "Dot chart: official score of every seed by method, with mean and 95 % interval, as in the main table."
    return Drawing("scores", title, alt, draw)


def _gains(experiment: Experiment) -> Drawing | None:
    found = {m: contrast(experiment, m, BASELINE) for m in experiment.methods if m != BASELINE}
    found = {m: one for m, one in found.items() if one.mean is not None}
    if not found:
        return None

    def draw(theme: Theme) -> Figure:
        figure = Figure(figsize=(WIDTH, 1.3 + 0.38 * len(found)), layout="constrained")
        axis = figure.subplots()
        axis.axvline(0, color=theme.ink, linewidth=0.9)
        for row, (method, one) in enumerate(found.items()):
            colour = theme.mark if method == MAIN else theme.official
            _whisker(axis, row, one.mean or 0.0, one.interval, colour)
            right = (one.interval or (0.0, one.mean or 0.0))[1]
            axis.annotate(
                signed(one.mean, 1), (right, row), (6, 0), textcoords="offset points", va="center", fontsize=9
            )
        axis.margins(x=0.12)
        _method_axis(axis, list(found))
        axis.set_xlabel("difference from SkillOpt, official points")
        _footer(figure, experiment, "bar: paired 95 % t-interval, not adjusted")
        return figure

    alt = "Interval chart: paired difference from SkillOpt by method with 95 % intervals, as in the main table."
    return Drawing("gains", "Gains over SkillOpt", alt, draw)


def _whisker(axis: Any, row: int, mean: float, interval: tuple[float, float] | None, colour: str) -> None:
    if interval:
        axis.plot(interval, [row, row], "-", color=colour, linewidth=2.2, solid_capstyle="butt")
    axis.plot([mean], [row], "D", color=colour, markersize=6.5)


def _method_axis(axis: Any, methods: Sequence[str]) -> None:
    axis.set_yticks(range(len(methods)), methods)
    axis.set_ylim(len(methods) - 0.4, -0.6)
    axis.grid(axis="x", linewidth=0.6)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)


# --- cost


def _cost(experiment: Experiment) -> Drawing | None:
    methods = [m for m in experiment.methods if tokens(experiment, m)]
    if not methods:
        return None

    def draw(theme: Theme) -> Figure:
        figure = Figure(figsize=(WIDTH, 1.5 + 0.34 * len(methods)), layout="constrained")
        axis = figure.subplots()
        base = tokens(experiment, BASELINE)
        most = max(tokens(experiment, m) or 0.0 for m in methods)
        unit, label = (1e6, "million tokens") if most >= 2e6 else (1e3, "thousand tokens")
        for row, method in enumerate(methods):
            total = usage_total(experiment, method)
            prompt, reply = (total["prompt_tokens"] or 0) / unit, (total["completion_tokens"] or 0) / unit
            names = ("prompt", "completion") if row == 0 else (None, None)
            axis.barh(row, prompt, 0.62, color=theme.official, label=names[0])
            axis.barh(
                row, reply, 0.62, left=prompt, color=theme.proxy, hatch="////", edgecolor=theme.paper, linewidth=0,
                label=names[1],
            )  # fmt: skip
            if base:
                text = ratio((prompt + reply) * unit / base)
                axis.annotate(text, (prompt + reply, row), (5, 0), textcoords="offset points", va="center", fontsize=9)
        axis.margins(x=0.12)
        _method_axis(axis, methods)
        axis.set_xlabel(f"{label} per run (logical)")
        figure.legend(loc="outside upper right", ncols=2, fontsize=9)
        _footer(figure, experiment, "at the bars: multiple of SkillOpt's tokens")
        return figure

    alt = "Bar chart: prompt and completion tokens per run by method, with the multiple of SkillOpt's tokens."
    return Drawing("cost", "Optimisation cost", alt, draw)


def _footer(figure: Figure, experiment: Experiment, note: str) -> None:
    where = "simulated backbone" if experiment.simulated else experiment.backbone
    figure.supxlabel(f"{where} · {note}", fontsize=8, x=0.01, ha="left", alpha=0.85)
