"""Live progress on stderr: fed by a run's events, with calls, tokens and cost read from the call store."""

import sqlite3
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from decoevo_dspy.calls.budget import UNBUDGETED
from decoevo_dspy.cli.printing import safe
from decoevo_dspy.run.schema import (
    AnyEvent,
    AuditReported,
    BatchGraded,
    Event,
    GeneratorDecision,
    IncumbentScored,
    Official,
    PartitionOpened,
    RunFailed,
    RunSkipped,
    SolverDecision,
    typed,
)
from decoevo_dspy.run.standing import START, Artefact, Standing, after

POLL_S = 1.0
"""Seconds between two looks into the call store."""

_ENDS = (Official, RunFailed, RunSkipped)


class StoreMeter:
    """Counts calls, tokens and money in a call store, reading only the rows that are new since the last look."""

    def __init__(self, path: Path) -> None:
        self.path, self._last, self._at = path, 0, 0.0
        self.calls = self.tokens = 0
        self.usd, self.priced = 0.0, True

    def read(self, *, now: bool = False) -> None:
        """Catch up with the store, at most once per `POLL_S` unless ``now``; a store that is not there yet is empty."""
        if not now and time.monotonic() - self._at < POLL_S:
            return
        self._at = time.monotonic()
        try:
            uri = f"{self.path.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=0.2)) as db:
                rows = db.execute(
                    "SELECT id, role, prompt_tokens + completion_tokens, usd FROM calls WHERE id > ? ORDER BY id",
                    (self._last,),
                ).fetchall()
        except sqlite3.Error:
            return
        for id, role, tokens, usd in rows:
            self._last = id
            self.usd += usd or 0.0
            self.priced = self.priced and usd is not None
            if role not in UNBUDGETED:
                self.calls += 1
                self.tokens += tokens

    def __str__(self) -> str:
        cost = f" · ${self.usd:.2f}" if self.usd else ""
        return f"{self.calls:,} calls · {_short(self.tokens)} tokens{cost}"


@dataclass
class RunView:
    """Where one run stands."""

    name: str
    standing: Standing = START
    step: int = 0
    phase: str = "starting"
    ended: bool = False

    @property
    def J(self) -> float | None:
        """The incumbent on the solver gate, in [0, 1]."""
        return self.standing.J

    @property
    def accepted(self) -> Mapping[Artefact, int]:
        """Accepted candidates by artefact."""
        return self.standing.accepted

    @property
    def rejected(self) -> Mapping[Artefact, int]:
        """The other decisions by artefact."""
        return {artefact: count - self.accepted[artefact] for artefact, count in self.standing.decided.items()}

    def take(self, event: AnyEvent) -> str | None:
        """Take an event in; returns a line when it is worth one."""
        self.standing = after(self.standing, event)
        if isinstance(event, IncumbentScored):
            self.phase = "rolling out"
            return f"J = {_points(self.J)} on the solver gate" if not event.step else None
        if isinstance(event, BatchGraded):
            self.step, self.phase = event.step, "gating"
        elif isinstance(event, SolverDecision | GeneratorDecision):
            self.step, self.phase = event.step, "rolling out"
            artefact = "solver" if isinstance(event, SolverDecision) else "generator"
            return f"{artefact} {'accepted' if event.accepted else 'rejected'}: {event.reason}"
        elif isinstance(event, AuditReported):
            self.phase = "distilling and verifying"
        elif isinstance(event, PartitionOpened):
            self.phase = "official evaluation"
        elif isinstance(event, _ENDS):
            self.ended = True
            return _end(event)
        return None


def _end(event: Official | RunFailed | RunSkipped) -> str:
    if isinstance(event, RunFailed):
        return f"failed: {event.error}"
    if isinstance(event, RunSkipped):
        return "complete already"
    score = event.score.get("score")
    return (
        f"official score {score:.2f} ({event.score.get('n_graded')} of {event.score.get('n_total')} graded)"
        if isinstance(score, float | int)
        else "no official score"
    )


class Progress:
    """Shows runs as they go: a live view on a terminal, otherwise a line per decision (per run, when there are many).

    ``steps`` is the number of inner steps of each run, ``runs`` how many there will be. Use as a context manager, and
    call it with (run name, event).
    """

    def __init__(self, store: Path, *, steps: int, runs: int = 1, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self.meter, self.steps, self.runs = StoreMeter(store), max(1, steps), runs
        self.views: dict[str, RunView] = {}
        self.started = time.monotonic()
        self._skipped = 0.0
        self._lock = threading.Lock()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            live = Live(get_renderable=self._render, console=self.console, refresh_per_second=2, transient=True)
            live.start()
            self._live = live
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, name: str, record: Event) -> None:
        """Take one event of one run in."""
        event, replayed = typed(record), bool(record.get("replayed"))
        if event is None:
            return
        with self._lock:
            view = self.views.setdefault(name, RunView(name))
            before = self._share(view)
            line = view.take(event)
            if replayed or isinstance(event, RunSkipped):
                self._skipped += self._share(view) - before
                line = None if replayed else line
        line = line if line is None else safe(line)
        if line is not None and (self.runs == 1 or isinstance(event, _ENDS)):
            self._say(view, line, event)

    def _say(self, view: RunView, line: str, event: AnyEvent) -> None:
        self.meter.read(now=self.runs == 1)
        if self.runs == 1:
            place = f"step {view.step}/{self.steps}" if view.step else "start"
        else:
            place = f"[{sum(v.ended for v in self.views.values())}/{self.runs}] {view.name}"
        text = Text(f"{place:<11} ", style="dim")
        text.append(line, style=_style(event))
        text.append(f"  ({self.meter}, {_clock(time.monotonic() - self.started)})", style="dim")
        self.console.print(text)

    def _share(self, view: RunView) -> float:
        return 1.0 if view.ended else 0.95 * min(1.0, view.step / self.steps)

    def left_s(self) -> float | None:
        """Seconds left by the pace so far; ``None`` before the first step."""
        done = sum(self._share(view) for view in self.views.values())
        paced = done - self._skipped
        if paced <= 0.02 * self.runs:
            return None
        return (time.monotonic() - self.started) * max(0.0, self.runs - done) / paced

    def _render(self) -> Any:
        self.meter.read()
        with self._lock:
            lines = [self._line(view) for view in self.views.values() if not view.ended]
            left = self.left_s()
        total = Text(f"{self.meter} · {_clock(time.monotonic() - self.started)}", style="bold")
        if self.runs > 1:
            total = Text(f"{sum(v.ended for v in self.views.values())}/{self.runs} runs · ", style="bold") + total
        if left is not None and left >= 1:
            total.append(f" · about {_clock(left)} left", style="dim")
        return Group(*lines, total)

    def _line(self, view: RunView) -> Text:
        taken, refused = view.accepted, view.rejected
        return Text(
            f"{view.name}  step {view.step}/{self.steps}  J {_points(view.J)}  "
            f"solver +{taken['solver']} −{refused['solver']}  generator +{taken['generator']} −{refused['generator']}  "
            f"{view.phase}",
            overflow="ellipsis",
            no_wrap=True,
        )


def _style(event: AnyEvent) -> str:
    if isinstance(event, RunFailed):
        return "red"
    decided = isinstance(event, SolverDecision | GeneratorDecision)
    if isinstance(event, Official) or (decided and event.accepted):
        return "green"
    return "yellow" if decided else ""


def _points(value: Any) -> str:
    return f"{100 * value:.1f}" if isinstance(value, int | float) else "–"


def _short(number: float) -> str:
    """A count in three digits or so.

    >>> _short(950), _short(12_345), _short(41_700_000)
    ('950', '12.3k', '41.7M')
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.1f}{name}"
    return f"{number:.0f}"


def _clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss.

    >>> _clock(65), _clock(3725)
    ('1:05', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
