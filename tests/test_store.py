"""`decoevo_dspy.calls.store` and `folder`: nothing is asked twice, and files are whole or absent."""

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decoevo_dspy.calls.store import SCHEMA, Call, CallStore
from decoevo_dspy.errors import ConfigurationError, RunLocked
from decoevo_dspy.run.folder import Run, write_atomic, write_json
from decoevo_dspy.values.skill import Skill


def call(key: str = "k", **changes: Any) -> Call:
    """A stored call."""
    made = Call(
        key=key,
        run="run",
        role="judge",
        partition="train",
        sample="0",
        model="openai/test",
        request_hash="h",
        messages=(("system", "be fair"), ("user", f"judge {key}")),
        params={"temperature": 0.0, "seed": 3},
        outputs=["ok"],
        prompt_tokens=5,
        completion_tokens=2,
        usd=0.25,
        latency_s=0.5,
    )
    return replace(made, **changes)


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A call store of either kind."""
    made = CallStore(tmp_path / "calls.sqlite" if request.param == "file" else None)
    yield made
    made.close()


def test_a_call_comes_back_as_it_was(store: CallStore):
    """All fields, and the messages in a listing."""
    put = store.put(call(usd=None, finish_reason="length", outputs=[{"text": "x", "logprobs": {"content": []}}]))
    assert store.get("k") == replace(put, messages=())
    assert list(store.calls()) == [put]
    assert put.id == store.last_id() == 1
    assert store.get("other") is None


def test_a_store_of_an_older_version_keeps_its_short_fences(tmp_path: Path):
    """Calls that were made before there was a key are replayed: no key is made for them, however often it is opened."""
    with closing(CallStore(tmp_path / "calls.sqlite")) as made:
        assert made.fence_key is not None
        made.put(call())
    with closing(sqlite3.connect(tmp_path / "calls.sqlite")) as db:
        db.execute("DROP TABLE keys")
        db.commit()
    for _ in range(2):
        with closing(CallStore(tmp_path / "calls.sqlite")) as old:
            assert old.fence_key is None
            old.put(call("another"))


def test_the_key_of_fences_is_the_stores_own(tmp_path: Path):
    """Random, and the same for whoever opens the store later."""
    keys: list[bytes | None] = []
    for path in (tmp_path / "a.sqlite", tmp_path / "a.sqlite", tmp_path / "b.sqlite", None):
        with closing(CallStore(path)) as made:
            keys.append(made.fence_key)
            made.put(call())
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_the_first_answer_stays(store: CallStore):
    """A second writer of the same key gets the first one's answer."""
    first = store.put(call(outputs=["first"], run="a"))
    second = store.put(call(outputs=["second"], run="b"))
    assert (second.outputs, second.run, second.id) == (["first"], "a", first.id)
    assert len(list(store.calls())) == 1


TEXTS = [
    "中文 😀 العربية",
    "lone \ud800 surrogate \udfff",
    "nul \x00 inside",
    "line\u2028sep\r\n\t",
    "",
    "'; DROP TABLE calls; --",
]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_is_stored(text: str, store: CallStore):
    """Outputs come back exactly; message texts with lone surrogates replaced."""
    store.put(call(messages=(("user", text),), outputs=[text], error=text.encode("utf-8", "replace").decode()))
    (found,) = store.calls()
    assert found.outputs == [text]
    assert found.messages == (("user", text.encode("utf-8", "replace").decode("utf-8")),)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=40), st.floats(0, 1e6))
def test_round_trip(text: str, usd: float):
    """Any text and any figure survive; a score or price of 0.0 stays 0.0."""
    made = CallStore(None)
    made.put(call(outputs=[text, {"text": text}], usd=usd, latency_s=0.0))
    found = made.get("k")
    made.close()
    assert found is not None
    assert (found.outputs, found.usd, found.latency_s) == ([text, {"text": text}], usd, 0.0)


def test_a_store_is_read_by_the_next_process(tmp_path: Path):
    """Committed calls are on disk without closing the store."""
    open_store = CallStore(tmp_path / "calls.sqlite")
    open_store.put(call(outputs=["中文"]))
    code = (
        "import sys; from pathlib import Path; from decoevo_dspy.calls.store import CallStore\n"
        f"store = CallStore(Path({str(tmp_path / 'calls.sqlite')!r}))\n"
        "print(ascii(store.get('k').outputs), ascii(next(iter(store.calls())).messages)); store.close()"
    )
    env = {"PYTHONPATH": ":".join(sys.path), "PYTHONUTF8": "0", "LC_ALL": "C", "PATH": os.environ["PATH"]}
    seen = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, env=env
    )
    open_store.close()
    assert seen.stdout.strip() == ascii(["中文"]) + " " + ascii(call().messages)


def test_a_text_that_many_calls_share_is_stored_once(tmp_path: Path):
    """One row for the system prompt of all calls."""
    made = CallStore(tmp_path / "calls.sqlite")
    for i in range(20):
        made.put(call(f"k{i}"))
    made.close()
    db = sqlite3.connect(tmp_path / "calls.sqlite")
    assert db.execute("SELECT COUNT(*) FROM texts").fetchone() == (21,)
    db.close()


def test_failures_are_forgotten_by_key_and_by_position_and_nothing_else(store: CallStore):
    """Only this run's failed calls; successes and other runs' failures stay."""
    store.put(call("good"))
    store.put(call("bad1", error="endpoint: x"))
    mark = store.last_id()
    store.put(call("bad2", error="endpoint: x"))
    store.put(call("bad3", error="endpoint: x"))
    store.put(call("theirs", error="endpoint: x", run="other"))
    store.put(call("late"))
    assert store.forget_failures("run", keys=["bad2", "good", "theirs", "unknown"]) == 1
    assert [c.key for c in store.calls()] == ["good", "bad1", "bad3", "theirs", "late"]
    assert store.forget_failures("run", after=mark) == 1
    assert [c.key for c in store.calls()] == ["good", "bad1", "theirs", "late"]
    assert [c.key for c in store.calls(run="other")] == ["theirs"]


def test_positions_only_grow(store: CallStore):
    """A position that an event cites is never given to another call, even after failures were forgotten."""
    assert store.last_id() == 0
    store.put(call("a", error="endpoint: x"))
    before = store.last_id()
    store.forget_failures("run")
    store.put(call("b"))
    assert store.last_id() > before


def test_many_threads_may_write(store: CallStore):
    """No lost row, no locked database."""
    threads = [threading.Thread(target=lambda t=t: [store.put(call(f"{t}-{i}")) for i in range(20)]) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(store.calls(texts=False))) == 160


def test_two_stores_on_one_file_see_each_other(tmp_path: Path):
    """As the runs of an experiment do."""
    one, two = (CallStore(tmp_path / "calls.sqlite") for _ in range(2))
    one.put(call("a"))
    two.put(call("b", messages=(("system", "be fair"),)))
    assert [c.key for c in one.calls()] == [c.key for c in two.calls()] == ["a", "b"]
    one.close()
    two.close()


def test_one_lock_per_key(store: CallStore):
    """The same key has the same lock, another key another."""
    assert store.key_lock("a") is store.key_lock("a") is not store.key_lock("b")


class TestFolder:
    """A run's folder."""

    def test_it_is_held_by_one_holder(self, tmp_path: Path):
        """A second holder is refused at once; after the first is done it may come."""
        run = Run(tmp_path / "run")
        with run.held(), pytest.raises(RunLocked, match="another process"), run.held():
            pass
        with run.held():
            pass

    def test_it_is_not_overwritten_without_resume(self, tmp_path: Path):
        """A folder with a run in it needs ``resume``; an empty log is no run."""
        run, log = Run(tmp_path / "run"), tmp_path / "run" / "events.jsonl"
        with run.held():
            log.write_text("", encoding="utf-8")
            run.start(resume=False)
            log.write_text('{"kind": "x"}\n', encoding="utf-8")
            with pytest.raises(ConfigurationError, match="already holds a run; give --resume"):
                run.start(resume=False)
            run.start(resume=True)

    def test_a_place_that_cannot_be_a_folder_is_one_clear_line(self, tmp_path: Path):
        """A file in the way is a configuration error."""
        (tmp_path / "run").write_text("x", encoding="utf-8")
        with pytest.raises(ConfigurationError, match="cannot write a run here"), Run(tmp_path / "run").held():
            pass

    def test_what_a_killed_process_was_writing_is_cleared_away(self, tmp_path: Path):
        """Half-written files beside the others and among the skills."""
        left = [tmp_path / ".result.json.abc.tmp", tmp_path / "skills" / ".solver-0001.md.abc.tmp"]
        for file in left:
            file.parent.mkdir(exist_ok=True)
            file.write_text("{", encoding="utf-8")
        with Run(tmp_path).held():
            assert not any(file.exists() for file in left)

    def test_skill_files_are_numbered(self, tmp_path: Path):
        """Names come from kind and version alone."""
        Run(tmp_path).write_skill("solver", 3, Skill("# S"))
        assert (tmp_path / "skills" / "solver-0003.md").read_text("utf-8") == "# S\n"

    def test_a_failed_write_leaves_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Old text or new, never a part, and no temporary file is left behind."""
        path = tmp_path / "result.json"
        write_json(path, {"score": 0.0})

        def fail(*_: Any) -> None:
            raise OSError("disk full")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="disk full"):
            write_json(path, {"score": 1.0})
        assert path.read_text("utf-8") == '{\n  "score": 0.0\n}\n'
        assert [p.name for p in tmp_path.iterdir()] == ["result.json"]

    def test_nan_is_refused_before_anything_is_written(self, tmp_path: Path):
        """JSON has no NaN."""
        with pytest.raises(ValueError, match="JSON"):
            write_json(tmp_path / "x.json", {"score": float("nan")})
        assert list(tmp_path.iterdir()) == []

    def test_text_files_are_utf8_whatever_the_locale(self, tmp_path: Path):
        """Lone surrogates are replaced; line ends are kept."""
        write_atomic(tmp_path / "a" / "s.md", "中文 😀\r\n\ud800\n")
        assert (tmp_path / "a" / "s.md").read_bytes() == "中文 😀\r\n?\n".encode()


def test_a_store_of_the_first_version_learns_the_kinds_of_its_failures(tmp_path: Path):
    """There the kind was the beginning of the sentence; two openings do no harm."""
    path = tmp_path / "calls.sqlite"
    sentences = {"endpoint: Timeout: slow": "infrastructure", "context overflow: long": "overflow", "other": "refused"}
    old = SCHEMA.replace(",\n    failure TEXT NOT NULL DEFAULT ''", "")
    with closing(sqlite3.connect(path)) as db:
        db.executescript(old)
        for key, sentence in enumerate(["", *sentences]):
            row = (str(key), *["x"] * 5, "[]", "{}", "[]", "error", sentence, 0, 0, None, 0.0, 0.0)
            columns = "key, run, role, partition, sample, model, messages, params, reply, finish_reason, error, "
            columns += "prompt_tokens, completion_tokens, usd, latency_s, at, request_hash"
            db.execute(f"INSERT INTO calls ({columns}) VALUES ({','.join('?' * 17)})", (*row, "h"))
        db.commit()
    for _ in range(2):
        with closing(CallStore(path)) as store:
            assert [call.failure for call in store.calls()] == [None, *sentences.values()]
