"""The call store: one row per model call, committed before anything cites it, and the source of every replay.

SQLite in WAL mode. Message texts are stored once each, compressed, so that every prompt of a run can be dumped and
a system prompt that ten thousand calls share costs one row. No key, header or environment value is ever written; what
an option that must not be written is compared by, is a digest under a random key of the store's own.
"""

import hashlib
import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from decoevo_dspy.calls.secrets import mask
from decoevo_dspy.values.failures import FailureKind

SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (hash BLOB PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    run TEXT NOT NULL,
    role TEXT NOT NULL,
    partition TEXT NOT NULL,
    sample TEXT NOT NULL,
    model TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    messages TEXT NOT NULL,
    params TEXT NOT NULL,
    reply TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    error TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    usd REAL,
    latency_s REAL NOT NULL,
    at REAL NOT NULL,
    failure TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS rollouts (key TEXT PRIMARY KEY, response TEXT NOT NULL, detail TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keys (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""

FIRST_VERSION = (
    "ALTER TABLE calls ADD COLUMN failure TEXT NOT NULL DEFAULT ''",
    "UPDATE calls SET failure = CASE WHEN error LIKE 'endpoint:%' THEN 'infrastructure' WHEN error LIKE 'context "
    "overflow:%' THEN 'overflow' ELSE 'refused' END WHERE error != ''",
)
"""What a store of the first version lacks: there the kind of a failure was the beginning of its sentence."""

FENCES = "fences"


@dataclass(frozen=True, kw_only=True)
class Call:
    """One model call. ``outputs`` is what DSPy's adapter gets.

    A call that failed for good has the kind of its ``failure``, and the sentence for people as ``error``.
    ``usd`` is ``None`` when the model has no known price; ``latency_s`` is wall time in seconds, with retries.
    """

    key: str
    run: str
    role: str
    partition: str
    sample: str
    model: str
    request_hash: str
    messages: tuple[tuple[str, str], ...]
    params: Mapping[str, Any]
    outputs: list[Any]
    finish_reason: str = "stop"
    error: str = ""
    failure: FailureKind | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float | None = None
    latency_s: float = 0.0
    id: int = 0


class CallStore:
    """Calls by key, shared by the threads of a process and by the processes of an experiment.

    ``path`` ``None`` keeps the calls in memory only.
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, threading.Lock] = {}
        self._texts: set[bytes] = set()
        self._db = sqlite3.connect(str(path) if path else ":memory:", timeout=60.0, check_same_thread=False)
        self._db.isolation_level = None
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(SCHEMA)
        self._upgrade()
        self.option_key = self._key("options")
        self.fence_key = self._fence_key()

    def _upgrade(self) -> None:
        with closing(self._db.execute("SELECT 1 FROM pragma_table_info('calls') WHERE name = 'failure'")) as rows:
            if rows.fetchone():
                return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for statement in FIRST_VERSION:
                self._db.execute(statement)
        except sqlite3.OperationalError:  # another process was faster
            self._db.execute("ROLLBACK")
        else:
            self._db.execute("COMMIT")

    def _fence_key(self) -> bytes | None:
        """The key of the tags around material in prompts; ``None`` in a store whose calls were made without one."""
        with closing(
            self._db.execute("SELECT EXISTS(SELECT 1 FROM calls), EXISTS(SELECT 1 FROM keys WHERE name = ?)", (FENCES,))
        ) as rows:
            used, known = rows.fetchone()
        return None if used and not known else self._key(FENCES)

    def _key(self, name: str) -> bytes:
        """A random key that all processes of this store share."""
        self._db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (name, os.urandom(32)))
        with closing(self._db.execute("SELECT value FROM keys WHERE name = ?", (name,))) as rows:
            return bytes(rows.fetchone()[0])

    def close(self) -> None:
        """Close the database; the store cannot be used afterwards."""
        with self._lock:
            self._db.close()

    def key_lock(self, key: str) -> threading.Lock:
        """One lock per key, so that identical concurrent requests are sent once."""
        with self._lock:
            return self._keys.setdefault(key, threading.Lock())

    def get(self, key: str) -> Call | None:
        """The committed call with this key, without its message texts."""
        with self._lock, closing(self._db.execute("SELECT * FROM calls WHERE key = ?", (key,))) as rows:
            row = rows.fetchone()
        return _call(row, ()) if row else None

    def put(self, call: Call) -> Call:
        """Commit a call; when another process was faster, its call is kept and returned instead."""
        parts = [
            (role, hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest(), text)
            for role, text in call.messages
        ]
        new = [(h, _packed(text)) for _, h, text in parts if h not in self._texts]
        values = (
            call.key,
            call.run,
            call.role,
            call.partition,
            call.sample,
            call.model,
            call.request_hash,
            json.dumps([[role, h.hex()] for role, h, _ in parts]),
            json.dumps(call.params, sort_keys=True, default=str),
            json.dumps(call.outputs, ensure_ascii=True),
            call.finish_reason,
            call.error,
            call.prompt_tokens,
            call.completion_tokens,
            call.usd,
            call.latency_s,
            time.time(),
            call.failure or "",
        )
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", new)
                marks = ",".join("?" * len(values))
                cursor = self._db.execute(
                    "INSERT OR IGNORE INTO calls (key, run, role, partition, sample, model, request_hash, messages,"
                    " params, reply, finish_reason, error, prompt_tokens, completion_tokens, usd, latency_s, at,"
                    " failure)"
                    f" VALUES ({marks})",
                    values,
                )
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._texts.update(h for h, _ in new)
        if cursor.rowcount:
            return replace(call, id=cursor.lastrowid or 0)
        return self.get(call.key) or call

    def last_id(self) -> int:
        """The highest row id so far (0 for an empty store): the position that an event cites."""
        with self._lock, closing(self._db.execute("SELECT COALESCE(MAX(id), 0) FROM calls")) as rows:
            return int(rows.fetchone()[0])

    def durable_position(self) -> int:
        """`last_id`, after everything up to it has reached the disk: what an event may cite even after a power cut."""
        with self._lock:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return self.last_id()

    def forget_failures(self, run: str, *, keys: Iterable[str] | None = None, after: int = 0) -> int:
        """Delete this run's failed calls (of ``keys``, or with a row id above ``after``): they will be sent again."""
        with self._lock:
            if keys is None:
                sql = "DELETE FROM calls WHERE run = ? AND error != '' AND id > ?"
                return self._db.execute(sql, (run, after)).rowcount
            sql = "DELETE FROM calls WHERE run = ? AND error != '' AND key = ?"
            return sum(self._db.execute(sql, (run, key)).rowcount for key in keys)

    def get_rollout(self, key: str) -> tuple[str, dict[str, Any]] | None:
        """A completed rollout of the student: its response, and what it counted (call keys, reply counts)."""
        with (
            self._lock,
            closing(self._db.execute("SELECT response, detail FROM rollouts WHERE key = ?", (key,))) as rows,
        ):
            row = rows.fetchone()
        return (json.loads(row[0]), json.loads(row[1])) if row else None

    def put_rollout(self, key: str, response: str, detail: Mapping[str, Any]) -> None:
        """Commit a completed rollout; a student with tools is never run again for it."""
        with self._lock:
            self._db.execute(
                "INSERT OR IGNORE INTO rollouts VALUES (?, ?, ?)", (key, json.dumps(response), json.dumps(detail))
            )

    def calls(self, *, run: str | None = None, texts: bool = True) -> Iterator[Call]:
        """All calls in the order they were committed (of one paying run, when given), with their message texts."""
        where, args = ("WHERE run = ?", (run,)) if run is not None else ("", ())
        with self._lock, closing(self._db.execute(f"SELECT * FROM calls {where} ORDER BY id", args)) as rows:
            found = rows.fetchall()
        for row in found:
            yield _call(row, self._messages(row[8]) if texts else ())

    def _messages(self, references: str) -> tuple[tuple[str, str], ...]:
        messages: list[tuple[str, str]] = []
        for role, digest in json.loads(references):
            with (
                self._lock,
                closing(self._db.execute("SELECT body FROM texts WHERE hash = ?", (bytes.fromhex(digest),))) as r,
            ):
                messages.append((role, zlib.decompress(r.fetchone()[0]).decode("utf-8")))
        return tuple(messages)


def _packed(text: str) -> bytes:
    return zlib.compress(mask(text).encode("utf-8", "replace"), 1)


def _call(row: Sequence[Any], messages: tuple[tuple[str, str], ...]) -> Call:
    return Call(
        id=row[0],
        key=row[1],
        run=row[2],
        role=row[3],
        partition=row[4],
        sample=row[5],
        model=row[6],
        request_hash=row[7],
        messages=messages,
        params=json.loads(row[9]),
        outputs=json.loads(row[10]),
        finish_reason=row[11],
        error=row[12],
        failure=row[18] or None,
        prompt_tokens=row[13],
        completion_tokens=row[14],
        usd=row[15],
        latency_s=row[16],
    )
