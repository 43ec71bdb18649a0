"""The one door to a model: each call of each role passes `RecordedLM`, which replays, counts, sends and records it."""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import dspy
from dspy.clients._deprecation import adapter_message_call
from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMError,
    LMInvalidRequestError,
    LMUnsupportedFeatureError,
    LMUnsupportedModelError,
)

from decoevo_dspy.calls.budget import Ledger
from decoevo_dspy.calls.executor import Executor
from decoevo_dspy.calls.store import Call, CallStore
from decoevo_dspy.errors import DecoEvoError, EndpointError
from decoevo_dspy.values.seeds import derive

_FATAL = (LMAuthError, LMBillingError, LMUnsupportedModelError, LMConfigurationError, LMUnsupportedFeatureError)
T = TypeVar("T")
R = TypeVar("R")

SECRET_OPTIONS = ("api_key", "headers", "extra_headers", "default_headers")
"""Options of an LM that are never written anywhere."""
_KEY_FREE = (*SECRET_OPTIONS, "rollout_id", "cache", "timeout", "api_base", "base_url")
"""Options that do not change what is asked: an endpoint that moves keeps its calls."""

_SECRETS = re.compile(r"(sk-|Bearer\s+)[\w\-.]{6,}", re.IGNORECASE)


class CallFailed(DecoEvoError):
    """One call failed for good (after its retries). The item it belonged to is ungraded, never a bad answer."""

    def __init__(self, reason: str, *, infrastructure: bool) -> None:
        super().__init__(reason)
        self.reason, self.infrastructure = reason, infrastructure


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


class RecordedLM(dspy.BaseLM):
    """A role's LM behind the call store: the same request of the same run seed and sample is sent once, ever.

    Retries with backoff are DSPy's (``num_retries`` of the wrapped LM); its response cache is bypassed, because the
    call store is the only replay source. A derived OpenAI ``seed`` travels with every call of an endpoint that takes
    one, so that samples are distinct at the endpoint too.
    """

    def __init__(self, inner: dspy.BaseLM, *, role: str, recorder: Recorder, send_seed: bool | None = None) -> None:
        super().__init__(model=inner.model, model_type=inner.model_type, cache=False, num_retries=inner.num_retries)
        self.kwargs = dict(inner.kwargs)
        self.inner, self.role, self.recorder = inner, role, recorder
        self._identity = [self.model, _engine_state(inner)]
        self.send_seed = ("seed" in inner.supported_params) if send_seed is None else send_seed

    @property
    def supports_function_calling(self) -> bool:
        return self.inner.supports_function_calling

    @property
    def supports_reasoning(self) -> bool:
        return self.inner.supports_reasoning

    @property
    def supports_response_schema(self) -> bool:
        return self.inner.supports_response_schema

    @property
    def supported_params(self) -> set[str]:
        return self.inner.supported_params

    def __deepcopy__(self, memo: Mapping[int, Any]) -> "RecordedLM":
        return self

    def dump_state(self) -> dict[str, Any]:
        """The wrapped LM's state: what is saved with a program loads without this library."""
        return self.inner.dump_state()

    def __call__(self, prompt: str | None = None, *, messages: Any = None, **kwargs: Any) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if prompt is not None and not isinstance(prompt, str):
            raise TypeError("typed lm15 requests cannot be recorded; call the LM with text or through an adapter")
        scope = _scope.get() or dspy.settings.get("decoevo_scope") or Scope()
        prompt, messages = encodable(prompt), encodable(messages)
        turns = messages if messages is not None else [{"role": "user", "content": prompt}]
        params = {**self.kwargs, **kwargs}
        if self.send_seed:
            params["seed"] = kwargs["seed"] = derive(
                self.recorder.seed, self.role, scope.partition, scope.sample
            ) + int(params.get("rollout_id") or 0)
        visible = {k: _plain(v) for k, v in params.items() if k not in _KEY_FREE and v is not None}
        request_hash = digest([turns, visible, self._identity])
        key = digest(
            [self.recorder.seed, self.role, scope.partition, scope.sample, params.get("rollout_id"), request_hash]
        )
        pending = Call(
            key=key,
            run=self.recorder.run,
            role=self.role,
            partition=scope.partition,
            sample=scope.sample,
            model=self.model,
            request_hash=request_hash,
            messages=tuple((str(t["role"]), _text(t.get("content"))) for t in turns),
            params=visible,
            outputs=[],
        )
        with self.recorder.store.key_lock(key):
            call = self.recorder.store.get(key) or self.recorder.store.get(self.recorder.failure_key(key))
            self.recorder.ledger.begin(key, self.role)
            if call is None:
                sent = self._send(pending, messages=messages, prompt=prompt, kwargs=kwargs)
                call = self.recorder.store.put(
                    replace(sent, key=self.recorder.failure_key(key)) if sent.error else sent
                )
            self.recorder.ledger.add(replace(call, key=key))
        scope.calls.append(replace(call, messages=pending.messages))
        if call.error:
            infrastructure = call.error.startswith("endpoint")
            if infrastructure:
                self.recorder.failed(key, call.error)
            raise CallFailed(call.error, infrastructure=infrastructure)
        return [_clean(output) for output in call.outputs]

    async def acall(self, prompt: str | None = None, *, messages: Any = None, **kwargs: Any) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The same call from a worker thread, for students with an ``aforward``."""
        import asyncio

        return await asyncio.to_thread(self.__call__, prompt, messages=messages, **kwargs)

    def _send(self, pending: Call, *, messages: Any, prompt: str | None, kwargs: dict[str, Any]) -> Call:
        """Send one request and describe what came back; endpoint errors that no retry can cure stop the run."""
        lm = self.inner.copy()
        # The rollout id distinguishes samples in our key; it never reaches an endpoint.
        lm.kwargs.pop("rollout_id", None)
        options = {key: value for key, value in kwargs.items() if key not in ("rollout_id", "cache")}
        started = time.monotonic()
        with self.recorder.executor.slot(), dspy.context(disable_history=False, max_history_size=10, caller_modules=[]):
            try:
                if messages is None:
                    outputs = lm(prompt, cache=False, **options)
                else:
                    with adapter_message_call(lm, messages):
                        outputs = lm(messages=messages, cache=False, **options)
            except LMError as error:
                return replace(
                    pending, error=_failure(error, self), latency_s=time.monotonic() - started, finish_reason="error"
                )
        entry = lm.history[-1]
        usage = entry.get("usage") or {}
        return replace(
            pending,
            outputs=[encodable(_plain(output)) for output in outputs],
            finish_reason=_finish_reason(entry.get("response")),
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            completion_tokens=int(usage.get("completion_tokens") or 0),
            usd=entry.get("cost"),
            latency_s=time.monotonic() - started,
        )


def _failure(error: LMError, lm: RecordedLM) -> str:
    """One line about a failed call; raises `EndpointError` when sending it again cannot help."""
    line = " ".join(str(error).split())
    for name in SECRET_OPTIONS:
        for secret in _strings(lm.kwargs.get(name)):
            line = line.replace(secret, "…") if len(secret) > 3 else line
    line = _SECRETS.sub(r"\1…", line)[:300]
    if isinstance(error, ContextWindowExceededError):
        return f"context overflow: {line}"
    if isinstance(error, _FATAL) or (isinstance(error, LMInvalidRequestError) and error.status in (401, 403, 404)):
        raise EndpointError(f"{lm.model} (role {lm.role}) cannot be used: {line}") from error
    if isinstance(error, LMInvalidRequestError):
        return f"refused request: {line}"
    return f"endpoint: {type(error).__name__}: {line}"


def _strings(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for part in value.values() for text in _strings(part)]
    return [value] if isinstance(value, str) else []


def identity(lm: dspy.BaseLM) -> str:
    """Model name and a digest of its options (and, for a custom engine, of the engine's); never address or key."""
    options = {k: _plain(v) for k, v in lm.kwargs.items() if k not in _KEY_FREE and v is not None}
    return f"{lm.model} {digest([options, _engine_state(lm)])[:12]}"


def _engine_state(lm: Any) -> Any:
    """What tells two custom engines of one model name apart; nothing for LiteLLM and DSPy's own."""
    engine = getattr(lm, "engine", "")
    if isinstance(engine, str):
        return ""
    dump = getattr(engine, "dump_state", None)
    return _plain(dump()) if callable(dump) else f"{type(engine).__module__}.{type(engine).__qualname__}"


def digest(value: Any) -> str:
    """SHA-256 (hex) of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=_plain).encode("utf-8", "replace")).hexdigest()


def encodable(value: Any) -> Any:
    """The same value with every lone surrogate replaced: no provider takes one, and no file can hold it.

    >>> encodable([{"content": "a\\ud800b"}])
    [{'content': 'a?b'}]
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {key: encodable(part) for key, part in value.items()}
    return [encodable(part) for part in value] if isinstance(value, list | tuple) else value


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    """JSON-ready form of an output or option; classes (response formats) by their schema."""
    if isinstance(value, type):
        schema = getattr(value, "model_json_schema", None)
        return schema() if callable(schema) else value.__qualname__
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


_THINK = re.compile(r"^\s*<(think|thinking|reasoning)>.*?</\1>\s*", re.DOTALL | re.IGNORECASE)
_THINK_OPEN = re.compile(r"^\s*<(think|thinking|reasoning)>", re.IGNORECASE)
_THINK_CLOSE = re.compile(r"^.*?</(?:think|thinking|reasoning)>\s*", re.DOTALL | re.IGNORECASE)


def strip_reasoning(text: str) -> str:
    """The answer without leading reasoning tags; a reasoning block that never ends leaves nothing.

    >>> strip_reasoning("<think>hm</think>\\nYes"), strip_reasoning("<think>hm"), strip_reasoning("hm</think>Yes")
    ('Yes', '', 'Yes')
    """
    stripped = _THINK.sub("", text, count=1)
    if stripped != text:
        return stripped
    if _THINK_OPEN.match(text):
        return ""
    closing = re.search(r"</(?:think|thinking|reasoning)>", text, re.IGNORECASE)
    opening = re.search(r"<(?:think|thinking|reasoning)>", text, re.IGNORECASE)
    return _THINK_CLOSE.sub("", text, count=1) if closing and not opening else text


def _clean(output: Any) -> Any:
    if isinstance(output, str):
        return strip_reasoning(output)
    if isinstance(output, dict) and isinstance(output.get("text"), str):
        return {**output, "text": strip_reasoning(output["text"])}
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
