"""Caps on what a run may use, checked before each call, and the roll-up of what it used."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from decoevo_dspy.calls.store import Call
from decoevo_dspy.errors import BudgetExceeded, ConfigurationError
from decoevo_dspy.values import files

UNBUDGETED = ("grader", "matcher", "preflight")
"""Roles outside the caps on calls and tokens: they measure a run, they are no part of it."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Caps of one run; ``None`` is no cap. The first cap reached wins.

    ``max_calls`` and ``max_tokens`` count *logical* usage (what the method needs, also when the call store answers);
    ``max_usd`` counts money that was really paid. Tokens are prompt plus completion. A call is refused when a cap is
    already used up, so a run may pass ``max_tokens`` and ``max_usd`` by the calls in flight.

    Raises:
        ConfigurationError: for a cap that is not above 0.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None and not value > 0:
                raise ConfigurationError(f"budget.{f.name} = {value!r}: give a number above 0, or leave it out")

    @classmethod
    def from_run(cls, path: str | Path) -> "Budget":
        """The logical calls and tokens of a finished run as caps (its folder, or its ``result.json``).

        Raises:
            ConfigurationError: when there is no readable result.
        """
        file = Path(path)
        file = file / files.RESULT if file.is_dir() else file
        try:
            usage = json.loads(file.read_text("utf-8"))["usage"]
            calls = sum(int(role["calls"]) for role in usage.values())
            tokens = sum(int(role["prompt_tokens"]) + int(role["completion_tokens"]) for role in usage.values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{file}: no finished run to take a budget from ({type(error).__name__})"
            ) from error
        return cls(max_calls=max(calls, 1), max_tokens=max(tokens, 1))


@dataclass(kw_only=True)
class RoleUsage:
    """What one role used. ``calls`` and tokens are logical; ``cached_calls`` of these were paid by another run.

    ``usd`` is ``None`` when a paid call has no known price. ``latency_s`` sums the wall time of paid calls.
    """

    calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    paid_tokens: int = 0
    usd: float | None = 0.0
    failed_calls: int = 0
    truncated_calls: int = 0
    latency_s: float = 0.0


class Ledger:
    """Which calls a run needed, each counted once, rolled up by role. Thread-safe; rebuilt by replay on resume."""

    def __init__(self, run: str, budget: Budget) -> None:
        self.run, self.budget = run, budget
        self._lock = threading.Lock()
        self._calls: dict[str, Call | None] = {}
        self._started = self._tokens = 0
        self._usd = 0.0
        self._unpriced = ""

    def begin(self, key: str, role: str) -> None:
        """Ask for room for one call; a key that was already counted is free, and so are the official graders.

        Raises:
            BudgetExceeded: when a cap is used up.
            ConfigurationError: when money is capped and a paid call had no known price.
        """
        if role in UNBUDGETED:
            return
        with self._lock:
            if key in self._calls:
                return
            budget = self.budget
            if budget.max_usd is not None and self._unpriced:
                raise ConfigurationError(
                    f"budget.max_usd: {self._unpriced} has no known price, so money cannot be capped; use max_calls or "
                    "max_tokens"
                )
            if budget.max_calls is not None and self._started >= budget.max_calls:
                raise BudgetExceeded(f"the cap of {budget.max_calls} calls is reached")
            if budget.max_tokens is not None and self._tokens >= budget.max_tokens:
                raise BudgetExceeded(f"the cap of {budget.max_tokens} tokens is reached")
            if budget.max_usd is not None and self._usd >= budget.max_usd:
                raise BudgetExceeded(f"the cap of {budget.max_usd:g} USD is reached")
            self._calls[key] = None
            self._started += 1

    def add(self, call: Call) -> None:
        """Count a call that was answered, by the endpoint or by the store; once per key."""
        with self._lock:
            if self._calls.get(call.key) is not None:
                return
            self._calls[call.key] = replace(call, messages=(), outputs=[], params={})
            self._tally(call, 1)

    def forget(self, key: str) -> None:
        """Take a call back that failed and will be sent again."""
        with self._lock:
            if key not in self._calls:
                return
            call = self._calls.pop(key)
            if call is None or call.role not in UNBUDGETED:
                self._started -= 1
            if call is not None:
                self._tally(call, -1)

    def _tally(self, call: Call, sign: int) -> None:
        if call.role not in UNBUDGETED:
            self._tokens += sign * (call.prompt_tokens + call.completion_tokens)
        if call.run == self.run:
            self._usd += sign * (call.usd or 0.0)
            if call.usd is None and not call.failure:
                self._unpriced = call.model

    def by_role(self) -> dict[str, dict[str, Any]]:
        """Usage per role, in alphabetical order, as plain values."""
        with self._lock:
            calls = [call for call in self._calls.values() if call is not None]
        roles: dict[str, RoleUsage] = {}
        for call in calls:
            usage = roles.setdefault(call.role, RoleUsage())
            own = call.run == self.run
            usage.calls += 1
            usage.cached_calls += not own
            usage.prompt_tokens += call.prompt_tokens
            usage.completion_tokens += call.completion_tokens
            usage.failed_calls += bool(call.failure)
            usage.truncated_calls += call.finish_reason == "length"
            if own:
                usage.paid_tokens += call.prompt_tokens + call.completion_tokens
                usage.latency_s += call.latency_s
                usage.usd = None if usage.usd is None or call.usd is None else usage.usd + call.usd
        return {role: dict(vars(usage)) for role, usage in sorted(roles.items())}

    def totals(self) -> Mapping[str, float]:
        """Logical calls and tokens so far and money paid (known prices only); graders count in money alone."""
        with self._lock:
            return {"calls": self._started, "tokens": self._tokens, "usd": self._usd}
