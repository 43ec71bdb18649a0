"""`decoevo_dspy.run.events`: append-only, replayable, and equal traces for equal decisions."""

import json
from pathlib import Path
from typing import Any

import pytest

from decoevo_dspy.errors import DataError, ReplayDiverged
from decoevo_dspy.run.events import EventLog, canonical_trace, read_events


class Free:
    """An event with any kind and fields."""

    def __init__(self, kind: str, note: bool = False, /, **fields: Any) -> None:
        self.note, self.fields = note, {"kind": kind, **({"note": True} if note else {}), **fields}

    def record(self) -> dict[str, Any]:
        """As it is written."""
        return self.fields


def emit(log: EventLog, kind: str, note: bool = False, /, **fields: Any) -> dict[str, Any]:
    """Record an event with any kind and fields."""
    return log.emit(Free(kind, note, **fields))  # pyright: ignore[reportArgumentType]


def written(path: Path, *events: tuple[str, dict[str, Any]]) -> None:
    """A log with these events, closed."""
    log = EventLog(path)
    for kind, fields in events:
        emit(log, kind, **fields)
    log.close()


STEPS = [("run_started", {"seed": 0}), ("batch_graded", {"step": 1, "J": 0.0}), ("solver_decision", {"step": 1})]


def test_events_are_numbered_and_on_disk_before_emit_returns(tmp_path: Path):
    """One JSON record a line, UTF-8, with the call-store position it cites."""
    position = 0
    log = EventLog(tmp_path / "e.jsonl", position=lambda: position)
    emit(log, "a", text="中文\n😀\u2028")
    position = 7
    emit(log, "progress", True, done=0.5)
    raw = (tmp_path / "e.jsonl").read_bytes()
    log.close()
    assert raw.count(b"\n") == 2
    first, second = (json.loads(line) for line in raw.decode("utf-8").split("\n")[:2])
    assert (first["seq"], first["kind"], first["text"], first["calls_upto"]) == (1, "a", "中文\n😀\u2028", 0)
    assert (second["seq"], second["note"], second["calls_upto"]) == (2, True, 7)
    assert read_events(tmp_path / "e.jsonl") == log.events


def test_a_log_may_live_in_memory():
    """Without a path nothing is written."""
    log = EventLog(None)
    assert emit(log, "a", x=1)["x"] == 1
    assert [event["kind"] for event in log.events] == ["a"]
    log.close()


@pytest.mark.parametrize("text", ["lone \ud800 \udfff", "nul \x00", "\u2028\u2029\x85", "😀", "\r\n"])
def test_any_text_is_recorded_and_replayed(text: str, tmp_path: Path):
    """Lone surrogates are replaced; the same event replays, also as a note."""
    path = tmp_path / "e.jsonl"
    written(path, ("finding", {"reason": text, text: [text]}))
    log = EventLog(path)
    emit(log, "finding", reason=text, **{text: [text]})
    emit(log, "said", True, text=text)
    log.close()
    assert not log.replaying
    assert len(read_events(path)) == 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_is_never_recorded(bad: float, tmp_path: Path):
    """A NaN score is an error where it arises, and leaves the log as it was."""
    log = EventLog(tmp_path / "e.jsonl")
    with pytest.raises(ValueError, match="JSON"):
        emit(log, "a", J=bad)
    log.close()
    assert (tmp_path / "e.jsonl").read_bytes() == b""


def test_the_same_decisions_replay_and_the_log_goes_on(tmp_path: Path):
    """Recorded decisions are checked, then new ones are appended; nothing is written twice."""
    path = tmp_path / "e.jsonl"
    written(path, *STEPS)
    before = path.read_bytes()
    seen: list[dict[str, Any]] = []
    log = EventLog(path, callbacks=[seen.append])
    assert log.replaying
    for kind, fields in STEPS:
        emit(log, kind, **fields)
    assert not log.replaying
    assert path.read_bytes() == before
    emit(log, "next", x=1)
    log.close()
    assert [event["kind"] for event in read_events(path)] == [*[kind for kind, _ in STEPS], "next"]
    assert [event.get("replayed", False) for event in seen] == [True, True, True, False]


def test_a_score_of_zero_replays_as_zero(tmp_path: Path):
    """0.0 stays 0.0."""
    path = tmp_path / "e.jsonl"
    written(path, ("a", {"J": 0.0, "none": None}))
    log = EventLog(path)
    assert emit(log, "a", J=0.0, none=None)["J"] == 0.0
    log.close()


@pytest.mark.parametrize(
    ("kind", "fields", "named"),
    [
        ("batch_graded", {"step": 1, "J": 0.1}, "J"),
        ("batch_graded", {"step": 1}, "J"),
        ("batch_graded", {"step": 1, "J": 0.0, "extra": 1}, "extra"),
        ("solver_decision", {"step": 1, "J": 0.0}, "kind"),
    ],
)
def test_another_decision_on_resume_stops_the_run(kind: str, fields: dict[str, Any], named: str, tmp_path: Path):
    """The message counts the event and names what differs; nothing is appended."""
    path = tmp_path / "e.jsonl"
    written(path, *STEPS)
    before = path.read_bytes()
    log = EventLog(path)
    emit(log, STEPS[0][0], **STEPS[0][1])
    with pytest.raises(ReplayDiverged, match=rf"event 2 \(batch_graded\) differs from the log in .*{named}"):
        emit(log, kind, **fields)
    log.close()
    assert path.read_bytes() == before
    assert ReplayDiverged.exit_code == 2


def test_notes_are_never_compared_nor_replayed(tmp_path: Path):
    """Clock, progress and stops may differ between two runs that decide alike."""
    path = tmp_path / "e.jsonl"
    log = EventLog(path)
    emit(log, "process_started", True, threads=8)
    emit(log, "a", x=1)
    emit(log, "run_stopped", True, reason="interrupted")
    log.close()
    again = EventLog(path)
    emit(again, "process_started", True, threads=1)
    emit(again, "a", x=1)
    emit(again, "b", x=2)
    again.close()
    assert [event["kind"] for event in canonical_trace(read_events(path))] == ["a", "b"]


def test_the_last_call_is_that_of_the_last_decision(tmp_path: Path):
    """A note that tells of a stop is nothing a failed call could rest on."""
    path = tmp_path / "e.jsonl"
    position = 3
    log = EventLog(path, position=lambda: position)
    emit(log, "a")
    position = 9
    emit(log, "run_stopped", True)
    log.close()
    again = EventLog(path)
    again.close()
    assert again.last_call == 3
    assert EventLog(None).last_call == 0


def test_a_torn_last_line_is_cut_off_and_only_that(tmp_path: Path):
    """Cutting the log at every byte keeps every whole record and loses at most the torn one."""
    whole = tmp_path / "whole.jsonl"
    written(whole, *STEPS, ("text", {"value": "中文 😀"}))
    raw = whole.read_bytes()
    for cut in range(len(raw) + 1):
        path = tmp_path / "torn.jsonl"
        path.write_bytes(raw[:cut])
        complete = raw[:cut].count(b"\n")
        assert len(read_events(path)) == complete
        assert path.read_bytes() == raw[: raw[:cut].rfind(b"\n") + 1]


def test_a_repaired_log_goes_on(tmp_path: Path):
    """The record that was torn is written again, whole."""
    path = tmp_path / "e.jsonl"
    written(path, *STEPS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    log = EventLog(path)
    for kind, fields in STEPS:
        emit(log, kind, **fields)
    log.close()
    assert canonical_trace(read_events(path)) == canonical_trace(json.loads(line) for line in whole.splitlines())


@pytest.mark.parametrize("line", [b"not json", b'{"no": "kind"}', b"[1]", b"", b"\xff\xfe", b'{"kind": "x"'])
def test_any_other_bad_line_is_an_error_that_names_it(line: bytes, tmp_path: Path):
    """A damaged middle is never skipped silently, and the file is left as it is."""
    path = tmp_path / "e.jsonl"
    raw = b'{"kind": "a"}\n' + line + b'\n{"kind": "b"}\n'
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"e\.jsonl, line 2"):
        read_events(path)
    assert path.read_bytes() == raw


def test_a_canonical_trace_holds_decisions_alone():
    """No clock, position, cost, method name or settings; order and content of decisions stay."""
    events = [
        {"kind": "run_started", "method": "decoevo", "settings": {"delta": 1}, "seed": 0, "at": 1.0, "seq": 1},
        {"kind": "progress", "note": True},
        {"kind": "decision", "accepted": True, "calls_upto": 9, "usage": {}, "wall_s": 3, "reason": "J rose"},
    ]
    assert canonical_trace(events) == [
        {"kind": "run_started", "seed": 0},
        {"kind": "decision", "accepted": True, "reason": "J rose"},
    ]


def test_a_callback_that_raises_finds_the_event_already_written(tmp_path: Path):
    """An interrupt inside a callback loses nothing."""

    def interrupt(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    log = EventLog(tmp_path / "e.jsonl", callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        emit(log, "a")
    log.close()
    assert [event["kind"] for event in read_events(tmp_path / "e.jsonl")] == ["a"]
