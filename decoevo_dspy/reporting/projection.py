"""From files to values: runs and experiments. Reads only."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from decoevo_dspy.errors import DataError
from decoevo_dspy.reporting.candidates import CandidateView, candidates_of
from decoevo_dspy.reporting.summary import figures_of
from decoevo_dspy.reporting.text import printable
from decoevo_dspy.run.folder import ExperimentFolder, Run
from decoevo_dspy.run.schema import Event, Official, OfficialIncomplete, ProcessStarted, RunStarted, RunStopped, of
from decoevo_dspy.run.standing import Standing, fold
from decoevo_dspy.values.methods import COMPARED, in_order


@dataclass(frozen=True, kw_only=True)
class RunReading:
    """What one run's folder says. ``result`` is ``None`` for a run that has left none."""

    path: Path
    about: Mapping[str, Any]
    events: Sequence[Event]
    result: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    @cached_property
    def started(self) -> RunStarted | None:
        """What the log says the run is."""
        return next(of(self.events, RunStarted), None)

    @cached_property
    def standing(self) -> Standing:
        """Where the run stands at the end of its log."""
        return fold(self.events)

    @property
    def method(self) -> str:
        """The compared method; for a folder without any record, what its name says."""
        known = self.about.get("method") or (self.result or {}).get("method") or (self.started and self.started.method)
        return str(known or self._named("method") or "unknown")

    @property
    def seed(self) -> int:
        """The run's seed; −1 when nothing says it."""
        seed = self.about.get("seed", (self.result or {}).get("seed", self._named("seed")))
        return -1 if seed is None else int(seed)

    @property
    def benchmark(self) -> str:
        """From the folder's name, else from the config, else the task's name."""
        config = self.about.get("config")
        data = config.get("data") if isinstance(config, Mapping) else None
        configured = data.get("benchmark") if isinstance(data, Mapping) else None
        task = self.about.get("task")
        named = task.get("name") if isinstance(task, Mapping) else None
        return str(self._named("benchmark") or configured or named or (self.started and self.started.task) or "run")

    def _named(self, part: str) -> str | None:
        methods = "|".join(map(re.escape, COMPARED))
        match = re.fullmatch(rf"(?P<benchmark>.+?)-(?P<method>{methods}|[a-z]+)-seed(?P<seed>\d+)", self.name)
        return match[part] if match else None

    @cached_property
    def official(self) -> Mapping[str, Any]:
        """The official score with what belongs to it; empty when there was no evaluation."""
        noted = [event.score for event in of(self.events, Official)]
        return (self.result or {}).get("official") or (noted[-1] if noted else {})

    @property
    def score(self) -> float | None:
        """The official score, 0–100."""
        return _number(self.official.get("score"))

    @property
    def proxy(self) -> float | None:
        """J on V_s of the last solver, 0–100: a model-selection score."""
        return _number((self.result or {}).get("proxy"))

    @property
    def usage(self) -> Mapping[str, Mapping[str, Any]]:
        """Usage per role."""
        return (self.result or {}).get("usage") or {}

    @property
    def models(self) -> Mapping[str, str]:
        """Model name per role."""
        noted = next(of(self.events, ProcessStarted), None)
        return self.about.get("role_models") or (noted.models if noted else {})

    @property
    def simulated(self) -> bool:
        """Whether a simulated backbone or the simulated world had a part in it."""
        names = [*self.models.values(), self.benchmark, str(self.official.get("model", ""))]
        config = self.about.get("config")
        data = config.get("data") if isinstance(config, Mapping) else None
        names.append(str(data.get("benchmark", "")) if isinstance(data, Mapping) else "")
        return any(name.startswith("simulated") for name in names)

    @cached_property
    def problem(self) -> str | None:
        """Why this run is not a finished one with a score; ``None`` when it is."""
        stops = [event.reason for event in of(self.events, RunStopped)]
        if self.result is None:
            return stops[-1] if stops else "it has left no result.json (still running, or killed)"
        stopped_by = self.result.get("stopped_by")
        if stopped_by not in ("steps", "budget", None):
            return f"stopped by {stopped_by}" + (f": {stops[-1]}" if stops else "")
        if self.score is None:
            lost = [event.reason for event in of(self.events, OfficialIncomplete)]
            if lost and not self.official:
                return lost[-1]
            return "it has no official score" + ("" if self.official else " (no evaluation was run)")
        return None

    @cached_property
    def candidates(self) -> tuple[CandidateView, ...]:
        """Every candidate in the order of its decision."""
        return tuple(candidates_of(self.events))


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Runs that are compared with each other, and the summary that was written beside them, if any."""

    path: Path
    runs: tuple[RunReading, ...]
    written: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """The written ``summary.json``; without one, the same figures from the runs."""
        if self.written:
            return self.written
        seeds, benchmarks = sorted({run.seed for run in self.runs}), self.benchmarks
        runs = {
            (run.benchmark, run.method, run.seed): {**(run.result or {}), "official": run.official} for run in self.runs
        }
        methods = figures_of(runs, benchmarks=benchmarks, methods=self.methods, seeds=seeds)
        return {"backbone": self.backbone, "seeds": seeds, "benchmarks": benchmarks, "methods": methods}

    @property
    def methods(self) -> list[str]:
        """All methods that ran or were to run, in table order."""
        return in_order([*self.written.get("methods", {}), *(run.method for run in self.runs)])

    @property
    def benchmarks(self) -> list[str]:
        """All benchmarks, as written or in order of appearance."""
        written = self.written.get("benchmarks") or ()
        return list(dict.fromkeys([*map(str, written), *(run.benchmark for run in self.runs)]))

    @property
    def backbone(self) -> str:
        """The backbone's name; several models are joined."""
        if self.written.get("backbone"):
            return str(self.written["backbone"])
        return ", ".join(sorted({model for run in self.runs for model in run.models.values()})) or "unknown"

    @property
    def simulated(self) -> bool:
        """Whether any figure here comes from the simulated backbone or world."""
        return "simulated" in self.backbone or any(run.simulated for run in self.runs)

    def of(self, method: str) -> list[RunReading]:
        """The runs of one method, by benchmark and seed."""
        return [run for run in self.runs if run.method == method]

    @cached_property
    def problems(self) -> dict[str, str]:
        """Failed, interrupted and unscored runs by name, each with its reason."""
        found = {run.name: run.problem for run in self.runs if run.problem}
        failed = self.written.get("failed") or {}
        if isinstance(failed, Mapping):
            found |= {str(name): str(reason) for name, reason in failed.items()}
        else:
            for entry in failed:
                if isinstance(entry, Mapping):
                    name = entry.get("run") or entry.get("name") or "a run"
                    found[str(name)] = str(entry.get("reason") or entry.get("error") or "it failed")
                else:
                    found.setdefault(str(entry), "it failed")
        return found


def load_run(path: Path) -> RunReading:
    """One run folder.

    Raises:
        DataError: when it is none, or a file in it is damaged.
    """
    if path.is_file():
        raise DataError(f"{path}: this is a file; give a run's folder")
    run = Run(path)
    about, result, events = run.about(), run.result(), run.events()
    if about is None and result is None and not events:
        raise DataError(f"{path}: no run here (no run.json, events.jsonl or result.json)")
    return RunReading(path=path, about=about or {}, events=events, result=result)


def load_experiments(dirs: Sequence[Path]) -> list[Experiment]:
    """Experiment folders one by one; loose run folders together as one more.

    Raises:
        DataError: for a folder that holds neither.
    """
    found: list[Experiment] = []
    loose: list[RunReading] = []
    for path in map(Path, dirs):
        if path.is_file():
            raise DataError(f"{path}: this is a file; give the folder of a run or an experiment")
        folder = ExperimentFolder(path)
        if not folder.is_one:
            loose.append(load_run(path))
            continue
        written, runs = folder.summary(), [_load_any(run.path) for run in folder.runs()]
        found.append(Experiment(path=path, runs=_sorted(runs), written=written or {}))
    if loose:
        found.append(Experiment(path=loose[0].path.parent, runs=_sorted(loose)))
    if not found:
        raise DataError("no folder was given")
    return found


def _load_any(path: Path) -> RunReading:
    """A run of an experiment, even one that broke before it wrote anything or whose files are damaged."""
    try:
        return load_run(path)
    except DataError as error:
        broken = RunStopped(stopped_by="error", reason=printable(error)).record()
        return RunReading(path=path, about={}, events=[broken], result=None)


def _sorted(runs: Iterable[RunReading]) -> tuple[RunReading, ...]:
    runs = list(runs)
    order = in_order(run.method for run in runs)
    return tuple(sorted(runs, key=lambda run: (run.benchmark, order.index(run.method), run.seed, run.name)))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
