"""The one place that leans on DSPy's unstable side. `tests/test_dspy_seam.py` states each thing it relies on.

DSPy 3.5 removes ``lm(messages=…)`` and the message dictionaries of adapters. What has to change then is here: how a
role's messages reach an LM (`send`), how an LM stands in for another (`MessageLM`), and where an adapter lets its
response format be chosen (`FormattingAdapter`). Everything else in this library uses DSPy's public API.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import dspy
from dspy.clients._deprecation import adapter_message_call

T = TypeVar("T")
Messages = Sequence[Mapping[str, Any]]
"""Chat messages as an adapter of DSPy 3.4 makes them: dictionaries with ``role`` and ``content``."""


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What came back for one request: outputs as DSPy gives them, and what its history says about the call."""

    outputs: list[Any]
    response: Any
    usage: Mapping[str, Any]
    usd: float | None


def send(lm: dspy.BaseLM, prompt: str | None, messages: Messages | None, options: Mapping[str, Any]) -> Sent:
    """Send one request past DSPy's response cache, on a copy of the LM so that the user's history stays theirs.

    Raises:
        dspy.LMError: when the endpoint failed, after the LM's own retries.
    """
    own = lm.copy()
    own.kwargs.pop("rollout_id", None)  # it tells our samples apart and never reaches an endpoint
    own.history = []
    with dspy.context(disable_history=False, max_history_size=10, caller_modules=[]):
        if messages is None:
            outputs = own(prompt, cache=False, **options)
        else:
            with adapter_message_call(own, messages):
                outputs = own(messages=messages, cache=False, **options)
    entry = own.history[-1] if own.history else {}
    return Sent(
        outputs=list(outputs or []),
        response=entry.get("response"),
        usage=entry.get("usage") or {},
        usd=entry.get("cost"),
    )


class MessageLM(dspy.BaseLM):
    """An LM that answers an adapter's messages by itself and stands for ``inner`` in everything else."""

    def __init__(self, inner: dspy.BaseLM) -> None:
        super().__init__(model=inner.model, model_type=inner.model_type, cache=False, num_retries=inner.num_retries)
        self.kwargs = dict(inner.kwargs)
        self.inner = inner

    @abstractmethod
    def answer(self, prompt: str | None, messages: Messages | None, options: Mapping[str, Any]) -> list[Any]:
        """The outputs for one request."""

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

    def __deepcopy__(self, memo: Mapping[int, Any]) -> "MessageLM":
        return self

    def dump_state(self) -> dict[str, Any]:
        """The wrapped LM's state: what is saved with a program loads without this library."""
        return self.inner.dump_state()

    def __call__(self, prompt: str | None = None, *, messages: Any = None, **kwargs: Any) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if prompt is not None and not isinstance(prompt, str):
            raise TypeError("typed lm15 requests cannot be recorded; call the LM with text or through an adapter")
        return self.answer(prompt, messages, kwargs)

    async def acall(self, prompt: str | None = None, *, messages: Any = None, **kwargs: Any) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The same call from a worker thread, for students with an ``aforward``."""
        import asyncio

        return await asyncio.to_thread(self.__call__, prompt, messages=messages, **kwargs)


class FormattingAdapter(dspy.JSONAdapter):
    """DSPy's JSON adapter whose response format a subclass chooses, and that has no native tool calls."""

    def __init__(self) -> None:
        super().__init__(use_native_function_calling=False)

    @abstractmethod
    def response_format(
        self, lm: dspy.BaseLM, options: Mapping[str, Any], signature: type[dspy.Signature]
    ) -> dict[str, Any] | None:
        """The ``response_format`` of a request; ``None`` sends none."""

    def _prepare_response_format(
        self, lm: dspy.BaseLM, lm_kwargs: dict[str, Any], signature: type[dspy.Signature]
    ) -> None:
        chosen = self.response_format(lm, lm_kwargs, signature)
        if chosen is not None:
            lm_kwargs["response_format"] = chosen


def carried(name: str, current: Callable[[], T | None]) -> T | None:
    """A value of this library that DSPy's own threads carry in its settings, where our context variable is not set."""
    return current() or dspy.settings.get(name)


def engine_state(lm: Any) -> Any:
    """What tells two custom engines of one model name apart; empty for LiteLLM and DSPy's own."""
    engine = getattr(lm, "engine", "")
    if isinstance(engine, str):
        return ""
    dump = getattr(engine, "dump_state", None)
    return dump() if callable(dump) else f"{type(engine).__module__}.{type(engine).__qualname__}"


def has_endpoint(lm: Any) -> bool:
    """Whether the LM asks an endpoint (LiteLLM or DSPy's own engine) rather than a custom engine in this process."""
    return isinstance(getattr(lm, "engine", None), str)
