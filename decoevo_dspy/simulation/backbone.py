"""The simulated backbone itself: chat messages in, text, usage and token probabilities out."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from decoevo_dspy.simulation import tokens
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.prompts import content_text, plain_fences, read_prompt
from decoevo_dspy.simulation.replies import Said, say
from decoevo_dspy.simulation.writing import response_schema

MODEL = "simulated"
SURE = -0.01
"""Log probability of a token that nothing was at stake in."""
MESSAGE_TOKENS = 4
"""What a chat frame adds to each message; three more open the reply."""


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
    """A text-in, text-out model over the latent world. Stateless: equal requests get equal replies, in any order."""

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
        """Answer chat messages. ``logprobs``: how many alternatives per token; ``None`` = no log probabilities."""
        texts = [(str(m.get("role") or "user"), plain_fences(content_text(m.get("content")))) for m in messages]
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
        """The source of all chance in a reply: this backbone's seed, the messages (keyless fences), the request's."""
        request = json.dumps([self.seed, texts, seed]).encode("ascii")
        return Random(int.from_bytes(hashlib.blake2b(request, digest_size=8).digest(), "big"))


def token_logprobs(text: str, said: Said, top: int) -> tuple[Token, ...]:
    """Every token with its log probability; the deciding word carries the odds of its alternatives."""
    pieces = tokens.pieces(text)
    at = max((i for i, piece in enumerate(pieces) if said.choice and piece.strip(' "') == said.choice), default=-1)
    found: list[Token] = []
    for index, piece in enumerate(pieces):
        odds = {piece: math.exp(SURE)}
        if index == at:
            odds = {piece.replace(said.choice, word): p for word, p in said.odds.items()}
        ranked = sorted(((word, math.log(max(p, 1e-9))) for word, p in odds.items()), key=lambda item: -item[1])
        found.append(Token(text=piece, logprob=dict(ranked)[piece], top=tuple(ranked[:top])))
    return tuple(found)
