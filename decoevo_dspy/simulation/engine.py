"""The simulated backbone, and its two doors in this process: DSPy engines and `simulated_lm`."""

import hashlib
import json
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import dspy
from dspy.lm15 import Message, Request, Response, TextPart, TokenLogprob, TopLogprob, Usage, response_to_events

from decoevo_dspy.simulation import tokens
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.prompts import content_text, read_prompt
from decoevo_dspy.simulation.replies import Said, say
from decoevo_dspy.simulation.writing import response_schema

MODEL = "simulated"
SURE = -0.01
"""Log probability of a token that nothing was at stake in."""
MESSAGE_TOKENS = 4
"""What a chat frame adds to each message; three more open the reply."""
SUPPORTED = frozenset({"temperature", "max_tokens", "top_p", "seed", "response_format", "logprobs", "top_logprobs", "stop"})


@dataclass(frozen=True, kw_only=True)
class Token:
    """One token of a reply with its log probability and the alternatives, likeliest first."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class SimReply:
    """A reply. ``finish_reason`` is ``stop`` or ``length``; ``logprobs`` only when they were asked for."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    logprobs: tuple[Token, ...] | None = None


class SimulatedBackbone:
    """A text-in, text-out model over the latent world. Stateless: the same request gets the same reply, in any order."""

    def __init__(self, seed: int = 0, parameters: WorldParameters | None = None) -> None:
        self.seed = seed
        self.parameters = parameters or WorldParameters()

    def reply(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        seed: int | None = None,
        response_format: Any = None,
        logprobs: int | None = None,
        max_tokens: int | None = None,
    ) -> SimReply:
        """Answer chat messages. ``logprobs``: alternatives per token (0 = none but the chosen), ``None`` = not asked."""
        texts = [(str(m.get("role") or "user"), content_text(m.get("content"))) for m in messages]
        said = say(read_prompt(messages), response_schema(response_format), self.parameters, self._random(texts, seed))
        text, cut = tokens.truncate(said.text, max_tokens) if max_tokens is not None else (said.text, False)
        return SimReply(
            text=text,
            finish_reason="length" if cut else "stop",
            prompt_tokens=3 + sum(MESSAGE_TOKENS + tokens.count(content) for _, content in texts),
            completion_tokens=tokens.count(text),
            logprobs=None if logprobs is None else token_logprobs(text, said, logprobs),
        )

    def _random(self, texts: Sequence[tuple[str, str]], seed: int | None) -> Random:
        """The source of all chance in a reply: this backbone's seed, the messages and the request's seed field."""
        request = json.dumps([self.seed, texts, seed]).encode("ascii")
        return Random(int.from_bytes(hashlib.blake2b(request, digest_size=8).digest(), "big"))


def token_logprobs(text: str, said: Said, top: int) -> tuple[Token, ...]:
    """Every token with its log probability; the deciding word carries the odds of its alternatives."""
    pieces = tokens.pieces(text)
    at = max((i for i, piece in enumerate(pieces) if said.choice and piece.strip(' "') == said.choice), default=-1)
    found: list[Token] = []
    for index, piece in enumerate(pieces):
        odds = {piece.replace(said.choice, word): p for word, p in said.odds.items()} if index == at else {piece: math.exp(SURE)}
        ranked = sorted(((word, math.log(max(p, 1e-9))) for word, p in odds.items()), key=lambda item: -item[1])
        found.append(Token(text=piece, logprob=dict(ranked)[piece], top=tuple(ranked[:top])))
    return tuple(found)


class SimulatedEngine:
    """`SimulatedBackbone` as a DSPy engine."""

    supports_response_schema = True
    supports_function_calling = False
    supports_reasoning = False
    supported_params = SUPPORTED

    def __init__(self, backbone: SimulatedBackbone) -> None:
        self.backbone = backbone

    def complete(self, request: Request) -> Response:
        """One canonical request, one response."""
        config = request.config
        found = self.backbone.reply(
            request_messages(request),
            seed=config.seed,
            response_format=config.response_format,
            logprobs=config.logprobs,
            max_tokens=config.max_tokens,
        )
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(found.text)]),
            finish_reason="length" if found.finish_reason == "length" else "stop",
            usage=Usage(input_tokens=found.prompt_tokens, output_tokens=found.completion_tokens),
            logprobs=None if found.logprobs is None else tuple(map(_lm15_token, found.logprobs)),
        )

    def stream(self, request: Request) -> Iterator[Any]:
        """The whole reply as one stream of events."""
        yield from response_to_events(self.complete(request))

    def close(self) -> None:
        """Nothing to release."""

    def dump_state(self) -> dict[str, Any]:
        """Seed and parameters: all that the model is."""
        return {"seed": self.backbone.seed, "parameters": asdict(self.backbone.parameters)}

    @classmethod
    def load_state(cls, state: Mapping[str, Any]) -> "SimulatedEngine":
        """The engine of a saved state."""
        return cls(SimulatedBackbone(int(state["seed"]), WorldParameters(**state["parameters"])))

    def __deepcopy__(self, memo: dict[int, Any]) -> "SimulatedEngine":
        return self


class AsyncSimulatedEngine(SimulatedEngine):
    """The same for awaited calls."""

    async def complete(self, request: Request) -> Response:  # type: ignore[override]
        """One canonical request, one response."""
        return SimulatedEngine.complete(self, request)

    async def stream(self, request: Request) -> AsyncIterator[Any]:  # type: ignore[override]
        """The whole reply as one stream of events."""
        for event in response_to_events(SimulatedEngine.complete(self, request)):
            yield event

    async def aclose(self) -> None:
        """Nothing to release."""


def _lm15_token(token: Token) -> TokenLogprob:
    top = tuple(TopLogprob(token=text, logprob=value) for text, value in token.top)
    return TokenLogprob(token=token.text, logprob=token.logprob, top=top)


def request_messages(request: Request) -> list[dict[str, str]]:
    """A canonical request as chat messages with plain text."""
    messages: list[dict[str, str]] = []
    if request.system is not None:
        system = request.system if isinstance(request.system, str) else "".join(getattr(p, "text", "") for p in request.system)
        messages.append({"role": "system", "content": system})
    messages.extend({"role": m.role, "content": m.text or ""} for m in request.messages)
    return messages




def simulated_lm(seed: int = 0, parameters: WorldParameters | None = None, **lm_kwargs: Any) -> dspy.LM:
    """The embedded simulated backbone as a ``dspy.LM``: offline, free, deterministic in its seed and the request.

    ``seed``: the world's seed. Samples of the same prompt differ by the *request's* ``seed`` option (an OpenAI field),
    never by a rollout id. ``lm_kwargs`` go to ``dspy.LM``; the DSPy cache is off unless asked for.
    """
    backbone = SimulatedBackbone(seed, parameters)
    options: dict[str, Any] = {"cache": False, **lm_kwargs}
    return dspy.LM(MODEL, engine=SimulatedEngine(backbone), async_engine=AsyncSimulatedEngine(backbone), **options)
