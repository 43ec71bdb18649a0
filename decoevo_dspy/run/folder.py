"""The folders of a run and of an experiment: they alone know their files, and read and write them by type.

Files are written whole or not at all. A folder is written by one process, which holds its lock (`held`); reading needs
no lock and changes nothing.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from decoevo_dspy.calls.secrets import mask, masked
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.errors import ConfigurationError, DataError, NewerVersion, RunLocked
from decoevo_dspy.run.events import Callback, EventLog, read_events
from decoevo_dspy.run.schema import SCHEMA, Event, check_version
from decoevo_dspy.values import files
from decoevo_dspy.values.skill import Skill


def write_atomic(path: Path, text: str) -> None:
    """Write a UTF-8 file through a temporary file, fsync and rename; a reader sees the old text or the new.

    Secrets that this process knows of are masked.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        os.chmod(name, 0o644)  # mkstemp's 0600 would keep a report from those it is written for
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(mask(text))
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """`write_atomic` of readable JSON; NaN is refused."""
    write_atomic(path, json.dumps(masked(value), ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object; ``None`` when the file is missing.

    Raises:
        DataError: when it holds something else.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not readable as JSON ({error})") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}: expected an object")
    return value


@dataclass(frozen=True)
class Folder:
    """A folder that one process at a time writes."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    @contextmanager
    def held(self) -> Iterator[Self]:
        """Make the folder, hold its lock, and clear away what a killed process was writing.

        Raises:
            ConfigurationError: when it cannot be written.
            RunLocked: when another process holds it.
        """
        lock = FileLock(self.path / ".lock")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout as error:
            raise RunLocked(
                f"{self.path}: another process is writing this run; wait for it, or choose another folder"
            ) from error
        except OSError as error:
            raise ConfigurationError(f"{self.path}: cannot write a run here ({error.strerror})") from error
        try:
            for pattern in (".*.tmp", ".*.tmp.json", f"{files.SKILLS}/.*.tmp"):
                for left in self.path.glob(pattern):
                    left.unlink(missing_ok=True)
            yield self
        finally:
            lock.release()

    @property
    def calls(self) -> Path:
        """The call store that lies in this folder."""
        return self.path / files.CALLS


class Run(Folder):
    """One run's files: what it is, what it decided, the skills it accepted, its programs, its result."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    def start(self, *, resume: bool) -> None:
        """Refuse a folder that holds a run already, unless it is to go on.

        Raises:
            ConfigurationError: naming the folder.
        """
        events = self.path / files.EVENTS
        if not resume and events.exists() and events.stat().st_size:
            raise ConfigurationError(
                f"{self.path} already holds a run; give --resume to go on with it, or another folder"
            )

    # what the run is

    def write_about(self, about: Mapping[str, Any]) -> None:
        """``run.json``: what this run is, without secrets."""
        write_json(self.path / files.RUN, {"schema": SCHEMA, **about})

    def about(self) -> dict[str, Any] | None:
        """``run.json``; ``None`` for a run that has not started.

        Raises:
            DataError: when it is damaged, or written by a newer version.
        """
        found = read_json(self.path / files.RUN)
        if found is not None:
            check_version(found, self.path / files.RUN)
        return found

    def begun(self) -> dict[str, Any]:
        """``run.json`` of a run that can be evaluated, with its ``partitions`` and ``seed`` checked.

        Raises:
            ConfigurationError: when there is no readable one.
            NewerVersion: when a newer version wrote it.
        """
        try:
            about = self.about() or {}
            return {**about, "partitions": dict(about["partitions"]), "seed": int(about["seed"])}
        except NewerVersion:
            raise
        except (DataError, KeyError, TypeError, ValueError):
            raise ConfigurationError(f"{self.path}: no run here (run.json is missing or unreadable)") from None

    def run_name(self) -> str:
        """The run's name in the call store: the one it was started under, else the folder's."""
        try:
            return str((self.about() or {})["run"])
        except (DataError, KeyError):
            return self.path.resolve().name

    # what it decided

    def log(self, *, callbacks: Iterable[Callback] = (), position: Any = lambda: 0) -> EventLog:
        """The event log, open for writing."""
        return EventLog(self.path / files.EVENTS, callbacks=callbacks, position=position)

    def events(self) -> list[Event]:
        """The records of the log, also of a run that may still be writing; empty without one.

        Raises:
            DataError: naming file and line.
        """
        path = self.path / files.EVENTS
        return read_events(path, mend=False) if path.exists() else []

    def write_skill(self, kind: str, version: int, skill: Skill) -> None:
        """An accepted version, such as ``skills/solver-0003.md``."""
        write_atomic(self.path / files.SKILLS / f"{kind}-{version:04d}.md", skill.text + "\n")

    # what it leaves

    def write_result(self, result: Mapping[str, Any]) -> None:
        """``result.json``."""
        write_json(self.path / files.RESULT, result)

    def result(self) -> dict[str, Any] | None:
        """``result.json``; ``None`` for a run that has left none.

        Raises:
            DataError: when it is damaged.
        """
        return read_json(self.path / files.RESULT)

    def readable_result(self) -> dict[str, Any] | None:
        """``result.json``; ``None`` also for a damaged one, which the run then writes again."""
        try:
            return self.result()
        except DataError:
            return None

    def write_programs(self, solver: Any, generator: Any) -> None:
        """``solver.json`` and ``generator.json``: the states of both programs as DSPy saves them."""
        write_json(self.path / files.SOLVER, solver)
        write_json(self.path / files.GENERATOR, generator)

    @property
    def solver_program(self) -> Path:
        """The optimised program, to be loaded by DSPy."""
        return self.path / files.SOLVER

    def write_failure(self, error: str, exit_code: int) -> None:
        """``failure.json``: why an experiment's run came to no score."""
        write_json(self.path / files.FAILURE, {"error": error, "exit_code": exit_code})

    def clear_failure(self) -> None:
        """The run came to a score after all."""
        (self.path / files.FAILURE).unlink(missing_ok=True)

    def failure(self) -> dict[str, Any] | None:
        """``failure.json``; ``None`` without a readable one."""
        try:
            return read_json(self.path / files.FAILURE)
        except DataError:
            return None

    @property
    def has_own_store(self) -> bool:
        """Whether the run's calls lie in its own folder rather than in its experiment's."""
        return self.calls.exists()

    def open_store(self) -> CallStore:
        """The call store of the run: its own, else its experiment's; its own when there is none yet."""
        runs = self.path.resolve().parent
        shared = runs.parent / files.CALLS
        return CallStore(
            shared if runs.name == files.RUNS and shared.exists() and not self.has_own_store else self.calls
        )

    @classmethod
    def beside(cls, program: Path) -> "Run | None":
        """The run that a saved program lies in, if it lies in one."""
        run = cls(program.parent)
        return run if (run.path / files.RUN).exists() else None


class ExperimentFolder(Folder):
    """An experiment's files: its plan, its runs, its summary."""

    def run(self, name: str) -> Run:
        """The run of this name."""
        return Run(self.path / files.RUNS / name)

    def runs(self) -> list[Run]:
        """Every run that there is a folder of, by name."""
        found = sorted((self.path / files.RUNS).glob("*"))
        return [Run(path) for path in found if path.is_dir() and not path.name.startswith(".")]

    @property
    def is_one(self) -> bool:
        """Whether this folder is an experiment's."""
        return (self.path / files.SUMMARY).exists() or (self.path / files.RUNS).is_dir()

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """``experiment.json``: configs, methods and seeds."""
        write_json(self.path / files.PLAN, plan)

    def plan(self) -> dict[str, Any] | None:
        """``experiment.json``; ``None`` without one.

        Raises:
            DataError: when it is damaged.
        """
        return read_json(self.path / files.PLAN)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """``summary.json``."""
        write_json(self.path / files.SUMMARY, summary)

    def summary(self) -> dict[str, Any] | None:
        """``summary.json``; ``None`` without one.

        Raises:
            DataError: when it is damaged.
        """
        return read_json(self.path / files.SUMMARY)

    @property
    def summary_file(self) -> Path:
        """Where the summary is."""
        return self.path / files.SUMMARY


def report_file(folder: Path) -> Path:
    """Where a folder's page goes."""
    return folder / files.REPORT
