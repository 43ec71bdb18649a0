"""A run's folder on disk: created once, held by one process, every file written whole or not at all."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from decoevo_dspy.calls.secrets import mask, masked
from decoevo_dspy.errors import ConfigurationError, RunLocked


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


class RunFolder:
    """One run's files. Use as a context manager: it holds the folder's lock.

    Raises:
        ConfigurationError: when the folder holds a run and ``resume`` is false, or cannot be written.
        RunLocked: when another process holds it.
    """

    def __init__(self, path: str | Path, *, resume: bool = False) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self.path / ".lock")
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise RunLocked(
                f"{self.path}: another process is writing this run; wait for it, or choose another folder"
            ) from error
        except OSError as error:
            raise ConfigurationError(f"{self.path}: cannot write a run here ({error.strerror})") from error
        for left in [*self.path.glob(".*.tmp"), *self.path.glob(".*.tmp.json"), *(self.path / "skills").glob(".*.tmp")]:
            left.unlink(missing_ok=True)  # what a killed process was writing
        if self.events.exists() and self.events.stat().st_size and not resume:
            self._lock.release()
            raise ConfigurationError(
                f"{self.path} already holds a run; give --resume to go on with it, or another folder"
            )

    @property
    def events(self) -> Path:
        """The event log."""
        return self.path / "events.jsonl"

    def run_name(self) -> str:
        """The run's name in the call store: the one it was started under, else the folder's."""
        try:
            return str(json.loads((self.path / "run.json").read_text("utf-8"))["run"])
        except (OSError, ValueError, KeyError, TypeError):
            return self.path.resolve().name

    @property
    def calls(self) -> Path:
        """The call store."""
        return self.path / "calls.sqlite"

    def skill_file(self, kind: str, version: int) -> Path:
        """Where an accepted skill version is kept, such as ``skills/solver-0003.md``."""
        return self.path / "skills" / f"{kind}-{version:04d}.md"

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()
