"""The one door to a model: each call of each role passes `RecordedLM`, which replays, counts, sends and records it."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import dspy

from decoevo_dspy.calls.budget import Ledger
from decoevo_dspy.calls.digests import digest, encodable, plain, recorded_options, visible_options
from decoevo_dspy.calls.dspy_seam import MessageLM, Messages, carried, engine_state, send
from decoevo_dspy.calls.executor import Executor
from decoevo_dspy.calls.failing import CallFailed, Unusable, described
from decoevo_dspy.calls.secrets import KNOWN, masked
from decoevo_dspy.calls.store import Call, CallStore
from decoevo_dspy.rules.replies import without_reasoning
from decoevo_dspy.values.seeds import derive

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class Scope:
    """What the calls inside it belong to, and (afterwards) which calls they were."""

    partition: str = ""
    sample: str = "0"
    calls: list[Call] = field(default_factory=list[Call])


_item: ContextVar[object] = ContextVar("decoevo_item", default=None)


def for_item(index: object, fn: Callable[[T], R], value: T) -> R:
    """``fn(value)``, with the calls inside belonging to this item of a batch."""
    token = _item.set(index)
    try:
        return fn(value)
    finally:
        _item.reset(token)


_scope: ContextVar[Scope | None] = ContextVar("decoevo_scope", default=None)


@contextmanager
def call_scope(*, partition: str, sample: str) -> Iterator[Scope]:
    """Label the model calls made inside: ``partition`` of their question, and the ``sample`` they are a draw of."""
    scope = Scope(partition=partition, sample=sample)
    token = _scope.set(scope)
    try:
        with dspy.context(decoevo_scope=scope):  # DSPy's own threads carry its settings, not our context variable
            yield scope
    finally:
        _scope.reset(token)


@dataclass(frozen=True, kw_only=True)
class Recorder:
    """What all recorded LMs of a run share. ``run`` names who pays; ``seed`` enters every sampling key."""

    run: str
    seed: int
    store: CallStore
    ledger: Ledger
    executor: Executor
    failures: list[tuple[object, str]] = field(default_factory=list[tuple[object, str]])
    _reasons: list[str] = field(default_factory=list[str])

    def failure_key(self, key: str) -> str:
        """Under which key a failed call is kept: a failure is this run's own, another run sends the call again."""
        return f"{key}!{self.run}"

    def failed(self, key: str, reason: str) -> None:
        """Remember that a call failed at the endpoint, and for which item of the batch."""
        self.failures.append((_item.get(), key))
        self._reasons[:] = [reason]

    @property
    def last_failure(self) -> str:
        """What the endpoint said last."""
        return self._reasons[0] if self._reasons else ""

    def replay(self, keys: Iterable[str], role: str) -> None:
        """Count stored calls as needed by this run, without asking for them: those of a completed rollout."""
        for key in keys:
            call = self.store.get(key)
            if call is not None:
                self.ledger.begin(key, role)
                self.ledger.add(call)

    def forget(self, keys: Iterable[str]) -> None:
        """Take failed calls back, so that asking again sends them again."""
        wanted = set(keys)
        self.store.forget_failures(self.run, keys=map(self.failure_key, wanted))
        for key in wanted:
            self.ledger.forget(key)


class RecordedLM(MessageLM):
    """A role's LM behind the call store: the same request of the same run seed and sample is sent once, ever.

    What is sent is the LM's own options, over them this object's ``kwargs`` and over them those of the call; the store
    keeps exactly these. Retries with backoff are DSPy's (``num_retries`` of the wrapped LM); its response cache is
    bypassed, because the call store is the only replay source. A derived OpenAI ``seed`` travels with every call of an
    endpoint that takes one, so that samples are distinct at the endpoint too. The store keeps what came. The
    solver's answers are given without the model's reasoning; the other roles' readers know reasoning by themselves.
    """

    def __init__(
        self,
        inner: dspy.BaseLM,
        *,
        role: str,
        recorder: Recorder,
        send_seed: bool | None = None,
    ) -> None:
        super().__init__(inner)
        self.role, self.recorder = role, recorder
        self._identity = [self.model, plain(engine_state(inner))]
        KNOWN.learn_environment()
        KNOWN.learn(self.kwargs)
        self.send_seed = ("seed" in inner.supported_params) if send_seed is None else send_seed

    def answer(self, prompt: str | None, messages: Messages | None, options: Mapping[str, Any]) -> list[Any]:
        """The stored outputs of this very request, else those that the endpoint gives now.

        Raises:
            CallFailed: when the call failed for good.
            EndpointError: when the endpoint cannot be used at all.
            BudgetExceeded: when a cap leaves no room for it.
        """
        scope = carried("decoevo_scope", _scope.get) or Scope()
        prompt, messages = encodable(prompt), encodable(messages)
        params = {**self.kwargs, **options}
        if self.send_seed:
            params["seed"] = derive(self.recorder.seed, self.role, scope.partition, scope.sample) + int(
                params.get("rollout_id") or 0
            )
        pending = self._pending(scope, prompt, messages, params)
        key = pending.key
        with self.recorder.store.key_lock(key):
            call = self.recorder.store.get(key) or self.recorder.store.get(self.recorder.failure_key(key))
            self.recorder.ledger.begin(key, self.role)
            if call is None:
                sent = self._send(pending, prompt, messages, params)
                call = self.recorder.store.put(
                    replace(sent, key=self.recorder.failure_key(key)) if sent.failure else sent
                )
            self.recorder.ledger.add(replace(call, key=key))
        scope.calls.append(replace(call, messages=pending.messages))
        if call.failure:
            failed = CallFailed(call.error, kind=call.failure)
            if failed.infrastructure:
                self.recorder.failed(key, call.error)
            raise failed
        return [_clean(output) for output in call.outputs] if self.role == "solver" else list(call.outputs)

    def _pending(self, scope: Scope, prompt: str | None, messages: Messages | None, params: dict[str, Any]) -> Call:
        """The request as a call that has no answer yet."""
        turns: Messages = messages if messages is not None else [{"role": "user", "content": prompt}]
        key = self.recorder.store.option_key
        request_hash = digest([turns, visible_options(params, key), self._identity])
        sample = [scope.partition, scope.sample, params.get("rollout_id")]
        return Call(
            key=digest([self.recorder.seed, self.role, *sample, request_hash]),
            run=self.recorder.run,
            role=self.role,
            partition=scope.partition,
            sample=scope.sample,
            model=self.model,
            request_hash=request_hash,
            messages=tuple((str(turn["role"]), _text(turn.get("content"))) for turn in turns),
            params=recorded_options(params, key),
            outputs=[],
        )

    def _send(self, pending: Call, prompt: str | None, messages: Messages | None, params: dict[str, Any]) -> Call:
        """Send one request and describe what came back; endpoint errors that no retry can cure stop the run."""
        options = {key: value for key, value in params.items() if key not in ("rollout_id", "cache")}
        started = time.monotonic()
        kind, said, sent = None, "", None
        with self.recorder.executor.slot():
            try:
                sent = send(self.inner, prompt, messages, options)
            except dspy.LMError as error:
                kind, said = described(error, params)
        if sent is None and kind is None:  # raised out here: an error that it were chained to may quote a key
            raise Unusable(self.model, self.role, said)
        if sent is None:
            taken = time.monotonic() - started
            return replace(pending, failure=kind, error=said, latency_s=taken, finish_reason="error")
        return replace(
            pending,
            outputs=[masked(encodable(plain(output))) for output in sent.outputs],
            finish_reason=_finish_reason(sent.response),
            prompt_tokens=int(sent.usage.get("prompt_tokens") or 0),
            completion_tokens=int(sent.usage.get("completion_tokens") or 0),
            usd=sent.usd,
            latency_s=time.monotonic() - started,
        )


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)


def _clean(output: Any) -> Any:
    if isinstance(output, str):
        return without_reasoning(output)
    if isinstance(output, dict) and isinstance(output.get("text"), str):
        return {**output, "text": without_reasoning(output["text"])}
    return output


def _finish_reason(response: Any) -> str:
    """The finish reason of a provider response, whichever engine made it."""
    reason = getattr(response, "finish_reason", None)
    if reason is None and isinstance(response, list | tuple) and response:
        reason = getattr(response[0], "finish_reason", None)
    if reason is None:
        choices = getattr(response, "choices", None) or [None]
        reason = getattr(choices[0], "finish_reason", None)
    return str(reason or "stop")
