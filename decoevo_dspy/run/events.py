"""The event log: append-only, one record per decision with its evidence. Everything a user sees is projected from it.

Decision events are replayed on resume: the same program runs again, and every event it emits must equal the one in the
log, until the log ends and new events are appended. Notes (clock, progress, stops) are outside this comparison.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decoevo_dspy.calls.secrets import masked
from decoevo_dspy.errors import DataError, ReplayDiverged
from decoevo_dspy.run.schema import SCHEMA, AnyEvent, Event, check_version
from decoevo_dspy.values.settings import Settings

Callback = Callable[[Event], None]

VOLATILE = ("seq", "at", "calls_upto", "schema", "usage", "wall_s", "ungraded_by")
"""Fields that may differ between two runs that decided alike."""

UNCOMPARED = ("method", "run", "prompt_hashes", "versions", "settings", "models")
"""Fields that tell methods apart without being decisions; left out of the canonical trace."""


class EventLog:
    """A run's events in memory and, with ``path``, on disk; each record is flushed and fsynced before ``emit`` returns.

    Raises:
        ReplayDiverged: from ``emit``, when a resumed run decides otherwise than its log says.
    """

    def __init__(
        self, path: Path | None, *, callbacks: Iterable[Callback] = (), position: Callable[[], int] = lambda: 0
    ) -> None:
        self.events: list[Event] = []
        self._position, self._callbacks = position, list(callbacks)
        self._recorded = read_events(path) if path and path.exists() else []
        self._pending = [event for event in self._recorded if not event.get("note")]
        self.events.extend(self._recorded)
        self._file = open(path, "a", encoding="utf-8", newline="\n") if path else None  # noqa: SIM115
        self._replayed = 0

    @property
    def replaying(self) -> bool:
        """Whether recorded decisions are still ahead."""
        return self._replayed < len(self._pending)

    @property
    def last_call(self) -> int:
        """The call-store position that the last recorded decision cites (0 for a new log); nothing rests on a note."""
        return max((int(event.get("calls_upto", 0)) for event in self._pending), default=0)

    def emit(self, event: AnyEvent) -> Event:
        """Record one event; while replaying, a decision is checked against the log. Notes are only ever recorded."""
        return self._append(_plain(event.record())) if event.note else self._decide(_plain(event.record()))

    def _decide(self, event: Event) -> Event:
        if self.replaying:
            recorded = _completed(self._pending[self._replayed])
            if canonical(recorded) != canonical(event):
                differs = sorted(k for k in {*recorded, *event} - set(VOLATILE) if recorded.get(k) != event.get(k))
                raise ReplayDiverged(
                    f"resume: event {self._replayed + 1} ({recorded['kind']}) differs from the log in "
                    f"{', '.join(differs)}; code, settings, data or skills have changed since; start a new run folder"
                )
            self._replayed += 1
            self._notify({**recorded, "replayed": True})
            return recorded
        return self._append(event)

    def _append(self, event: Event) -> Event:
        version = {} if self.events else {"schema": SCHEMA}
        numbers = {"seq": len(self.events) + 1, "at": round(time.time(), 3), "calls_upto": self._position()}
        event = {**numbers, **version, **event}
        if self._file:
            self._file.write(json.dumps(event, ensure_ascii=False, allow_nan=False) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        self.events.append(event)
        self._notify(event)
        return event

    def _notify(self, event: Event) -> None:
        for callback in self._callbacks:
            callback(event)

    def close(self) -> None:
        """Close the file; the events stay readable."""
        if self._file:
            self._file.close()
            self._file = None


def _plain(event: Mapping[str, Any]) -> Event:
    """The event as it will be read back: JSON types only, secrets masked, lone surrogates replaced, NaN refused."""
    text = json.dumps(masked(event), ensure_ascii=False, allow_nan=False)
    return json.loads(text.encode("utf-8", "replace").decode("utf-8"))


def _completed(recorded: Event) -> Event:
    """A record with the defaults of settings that came after it was written: they are what it ran under."""
    if not isinstance(recorded.get("settings"), dict):
        return recorded
    return {**recorded, "settings": {**_plain(asdict(Settings())), **recorded["settings"]}}


def canonical(event: Mapping[str, Any]) -> Event:
    """An event without what may differ between two runs that decided alike."""
    return {key: value for key, value in event.items() if key not in VOLATILE}


def canonical_trace(events: Iterable[Mapping[str, Any]]) -> list[Event]:
    """The decisions in logical order: no clock, latency, cost, method name or call order.

    Two methods that decide alike have equal traces.
    """
    return [
        {key: value for key, value in canonical(event).items() if key not in UNCOMPARED}
        for event in events
        if not event.get("note")
    ]


def read_events(path: Path, *, mend: bool = True) -> list[Event]:
    """All records of a log. A torn last line (a killed writer) is left out, and with ``mend`` cut off the file.

    Raises:
        DataError: naming file and line, for any other bad line, and for a log of a newer version.
    """
    raw = path.read_bytes()
    whole, _, torn = raw.rpartition(b"\n")
    if torn and mend:
        with open(path, "r+b") as file:
            file.truncate(len(raw) - len(torn))
            os.fsync(file.fileno())
    events: list[Event] = []
    for number, line in enumerate(whole.split(b"\n") if whole else [], start=1):
        try:
            event = json.loads(line.decode("utf-8"))
        except ValueError as error:
            raise DataError(
                f"{path}, line {number}: not a JSON record ({error}); the log was edited or damaged"
            ) from error
        if not isinstance(event, dict) or not isinstance(event.get("kind"), str):
            raise DataError(f"{path}, line {number}: not an event")
        check_version(event, path)
        events.append(event)
    return events
