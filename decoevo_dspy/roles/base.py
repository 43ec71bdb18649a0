"""What every role shares: one typed request to its LM, bounded parse-retries, and a typed failure at the end."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import dspy
from dspy import AdapterParseError

from decoevo_dspy.calls.adapter import FRAME_TOKENS, RoleAdapter, Structured, schema_bound
from decoevo_dspy.calls.failing import CallFailed
from decoevo_dspy.calls.recording import RecordedLM, call_scope
from decoevo_dspy.calls.store import Call
from decoevo_dspy.roles.text import fence
from decoevo_dspy.rules.replies import without_reasoning
from decoevo_dspy.values.failures import FailureKind
from decoevo_dspy.values.material import said_instead
from decoevo_dspy.values.rubric import Ungraded

T = TypeVar("T")

PARSE_RETRIES = 1
"""How often an unusable reply is asked for again, with a fresh sample (docs/METHOD.md §9)."""

RETRY_TEMPERATURE = 0.7
"""Sampling temperature of such a retry: at 0 an endpoint would repeat itself."""


@dataclass(frozen=True, kw_only=True)
class NoReply:
    """A role gave no usable reply: which layer failed, and what it said. Never a score, a rubric or a skill.

    ``replied`` is false when the call itself failed, so that asking the same again at once is no use.
    """

    kind: FailureKind
    reason: str
    replied: bool = field(default=True, compare=False)

    @property
    def infrastructure(self) -> bool:
        """Whether the endpoint failed (a later try may succeed), rather than the model's answer."""
        return self.kind == "infrastructure"

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"

    def ungraded(self, what: str = "") -> Ungraded:
        """That ``what`` is missing makes its item ungraded, for the same reason."""
        return Ungraded(reason=f"{what} {self}" if what else str(self), kind=self.kind)


@dataclass
class ReplyCounts:
    """Per role: replies read (``replies``), unusable ones, final failures by kind, and inputs that were cut."""

    counts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, role: str, *names: str) -> None:
        """Count one occurrence of each name for the role."""
        with self._lock:
            self.counts.setdefault(role, Counter()).update(names)

    def by_role(self) -> dict[str, dict[str, int]]:
        """Plain counts, roles and names in alphabetical order."""
        with self._lock:
            return {role: dict(sorted(counter.items())) for role, counter in sorted(self.counts.items())}

    def __deepcopy__(self, memo: Mapping[int, Any]) -> "ReplyCounts":
        return self


class InvalidReply(ValueError):
    """A reply that fits its schema but not the request (a verdict missing, an id invented)."""

    kind: FailureKind = "unparsable"


class RefusalReply(InvalidReply):
    """A reply whose fields hold a refusal to answer."""

    kind: FailureKind = "refused"


def check_material(texts: Iterable[str]) -> None:
    """Refuse a reply that says something else in the place of the asked-for texts.

    Raises:
        RefusalReply: for a refusal to answer.
        InvalidReply: for an error text, an HTML page, or reasoning.
    """
    for text in texts:
        kind = said_instead(text)
        if kind is not None:
            error = RefusalReply if kind == "refusal" else InvalidReply
            raise error(f"{kind} in the place of a text: {' '.join(text.split())[:120]}")


class Role(dspy.Module):
    """One role over one signature. Its LM is the predictor's own, or the one of the surrounding DSPy context.

    ``temperature`` and the token limit are defaults: an LM that was configured with its own keeps them, except where
    a draw asks for a temperature of its own (fresh rubrics).
    ``context_tokens`` (``None`` = unlimited) is the endpoint's window; longer inputs are cut in the middle, and the cut
    is counted. ``fence_key`` is the key of the fences around material; behind a recorded LM it is its store's.
    """

    fence_key: bytes | None = b""
    name = "role"
    signature: type[dspy.Signature]
    temperature = 0.0

    def __init__(
        self, *, structured: Structured = "auto", context_tokens: int | None = None, counts: ReplyCounts | None = None
    ) -> None:
        super().__init__()
        self.predict = dspy.Predict(self.signature)
        self.structured: Structured = structured
        self.context_tokens = context_tokens
        self.counts = counts or ReplyCounts()

    def fence(self, label: str, text: str) -> str:
        """``text`` as material in a prompt of this role (`decoevo_dspy.roles.text.fence`)."""
        lm = self.predict.lm or dspy.settings.lm
        key = lm.recorder.store.fence_key if isinstance(lm, RecordedLM) else self.fence_key
        return fence(label, text, key)

    def ask(
        self,
        read: Callable[[dspy.Prediction], T],
        inputs: Mapping[str, Any],
        *,
        partition: str = "",
        sample: str = "0",
        temperature: float | None = None,
        predictor: dspy.Predict | None = None,
        options: Mapping[str, Any] | None = None,
        items: int | None = None,
    ) -> T | NoReply:
        """Ask once, and once more with a fresh sample when the reply cannot be used.

        ``items`` is the exact length of the reply's list, where it is known.
        ``read`` turns the prediction into a value and raises `InvalidReply` when it does not fit the request.
        """
        chosen = predictor or self.predict
        lm = chosen.lm or dspy.settings.lm
        room = max_tokens(signature_of(chosen), self.context_tokens)
        config = {
            "max_tokens": room,
            **(options or {}),
            "temperature": _temperature(lm, self.temperature) if temperature is None else temperature,
        }
        config = {k: v for k, v in config.items() if _wanted(lm, k)}
        fitted = self._fit(chosen, inputs, room)
        adapter = RoleAdapter(self.structured, items, dense(inputs))
        failure = NoReply(kind="unparsable", reason="not asked")
        for attempt in range(1 + PARSE_RETRIES):
            if attempt and "temperature" in config:
                config["temperature"] = max(config["temperature"], RETRY_TEMPERATURE)
            label = f"{sample}~{attempt}" if attempt else sample
            outcome = self._once(chosen, adapter, config, read, partition=partition, sample=label, inputs=fitted)
            if not isinstance(outcome, NoReply):
                self.counts.add(self.name, "replies", "parsed")
                return outcome
            failure = outcome
            if not failure.replied:
                break
            self.counts.add(self.name, "replies", f"reply_{failure.kind}")
        self.counts.add(self.name, f"failed_{failure.kind}")
        return failure

    def _once(
        self,
        predictor: dspy.Predict,
        adapter: RoleAdapter,
        config: Mapping[str, Any],
        read: Callable[[dspy.Prediction], T],
        *,
        partition: str,
        sample: str,
        inputs: Mapping[str, Any],
    ) -> T | NoReply:
        with (
            call_scope(partition=partition, sample=sample) as scope,
            dspy.context(adapter=adapter, trace=None),
        ):
            try:
                prediction = predictor(config=dict(config), **inputs)
                truncated = any(call.finish_reason == "length" for call in scope.calls)
                return (
                    NoReply(kind="truncated", reason="the reply ran into max_tokens") if truncated else read(prediction)
                )
            except AdapterParseError as error:
                return unread(error, scope.calls)
            except InvalidReply as error:
                return NoReply(kind=error.kind, reason=str(error))
            except CallFailed as error:
                return no_reply(error)

    def _fit(self, predictor: dspy.Predict, inputs: Mapping[str, Any], reply_tokens: int) -> dict[str, Any]:
        if self.context_tokens is None:
            return dict(inputs)
        room = (
            self.context_tokens
            - reply_tokens
            - estimate_tokens(RoleAdapter(self.structured).format_system_message(signature_of(predictor)))
            - 40
        )
        fitted, cuts = fit(inputs, room)
        for _ in range(cuts):
            self.counts.add(self.name, "inputs_cut")
        return fitted


def signature_of(predictor: dspy.Predict) -> Any:
    """A predictor's signature class; DSPy declares the attribute more loosely than it is."""
    return predictor.signature


def unread(error: AdapterParseError, calls: Sequence[Call]) -> NoReply:
    """A reply that no field could be read from, as a typed failure."""
    reasons = {call.finish_reason for call in calls}
    if "length" in reasons:
        return NoReply(kind="truncated", reason="the reply ran into max_tokens")
    if "content_filter" in reasons:
        return NoReply(kind="refused", reason="the endpoint's content filter stopped the reply", replied=False)
    said = calls[-1].outputs[0] if calls and calls[-1].outputs else None if calls else error.lm_response
    text = said.get("text") if isinstance(said, Mapping) else said
    if not isinstance(text, str) or not without_reasoning(text).strip():
        return NoReply(kind="empty", reason="the reply is empty")
    return NoReply(kind="unparsable", reason=" ".join(str(getattr(error, "message", None) or error).split())[:200])


def no_reply(error: CallFailed) -> NoReply:
    """A failed call as a typed failure."""
    return NoReply(kind=error.kind, reason=error.reason, replied=False)


def _temperature(lm: Any, default: float) -> float:
    """The role's temperature, unless the LM was configured with one."""
    configured = getattr(lm, "kwargs", {}).get("temperature")
    return default if configured is None else configured


def _wanted(lm: Any, option: str) -> bool:
    """Whether the role sets this option: not over the LM's own token limit, and no sampling for reasoning models."""
    options = getattr(lm, "kwargs", {})
    if option == "max_tokens":
        return options.get("max_tokens") is None and "max_completion_tokens" not in options
    return option != "temperature" or "max_completion_tokens" not in options


@lru_cache(maxsize=128)
def _bound(fields: tuple[tuple[str, Any], ...]) -> int:
    return 4 + sum(len(name) + 6 + schema_bound(annotation) for name, annotation in fields)


def max_tokens(signature: type[dspy.Signature], context_tokens: int | None = None) -> int:
    """Tokens for the longest reply that the schema allows (a token a character, 60 for the frame).

    A known context window caps it at a third of the window.
    """
    bound = _bound(tuple((name, field.annotation) for name, field in signature.output_fields.items())) + FRAME_TOKENS
    return bound if context_tokens is None else min(bound, context_tokens // 3)


def estimate_tokens(text: str) -> int:
    """A careful estimate without a tokenizer: 3 ASCII characters a token, any other character 2.5 tokens."""
    ascii_chars = sum(ch < "\x80" for ch in text)
    return ascii_chars // 3 + int(2.5 * (len(text) - ascii_chars)) + 1


def dense(inputs: Mapping[str, Any]) -> bool:
    """Whether a fifth or more of the texts' characters are beyond ASCII, as in Chinese."""
    texts = "".join(value for value in inputs.values() if isinstance(value, str))
    return bool(texts) and 5 * sum(ch >= "\x80" for ch in texts) >= len(texts)


def fit(inputs: Mapping[str, Any], room: int) -> tuple[dict[str, Any], int]:
    """Cut the longest texts in the middle so that all inputs fit into ``room`` tokens; how many were cut.

    All cut texts get the same size. Head and tail of a text stay (two thirds and one third), with a line between that
    tells how much is missing. A text keeps at least `LEAST_TOKENS`, so a very small room may still be passed: the
    endpoint's own limit decides then.
    """
    sizes = {name: estimate_tokens(value) + 12 for name, value in inputs.items() if isinstance(value, str)}
    if sum(sizes.values()) <= room:
        return dict(inputs), 0
    cap = max(_level(list(sizes.values()), room), LEAST_TOKENS)
    fitted, cut = dict(inputs), 0
    for name, size in sizes.items():
        if size > cap:
            fitted[name] = _cut(fitted[name], (cap - MARKER_TOKENS) / size)
            cut += 1
    return fitted, cut


LEAST_TOKENS = 80
"""Tokens that a cut text keeps at least."""

MARKER_TOKENS = 24
"""Tokens that the line in the middle of a cut text takes."""


def _level(sizes: list[int], room: int) -> int:
    """The largest size t with Σ min(size, t) ≤ room; 0 when there is none.

    >>> _level([10, 50, 90], 90)
    40
    """
    left = room
    for done, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - done)
        if size > share:
            return max(share, 0)
        left -= size
    return max(sizes, default=0)


def _cut(text: str, share: float) -> str:
    keep = int(len(text) * share)
    head = keep * 2 // 3
    return f"{text[:head]}\n[… {len(text) - keep} characters cut …]\n{text[len(text) - (keep - head) :]}"
