"""The simulated backbone's door in this process: DSPy engines, and `simulated_lm`."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import dspy
from dspy.lm15 import Message, Request, Response, TextPart, TokenLogprob, TopLogprob, Usage, response_to_events

from decoevo_dspy.simulation.backbone import MODEL, SimulatedBackbone, Token
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.worlds import named_world

SUPPORTED = frozenset(
    {"temperature", "max_tokens", "top_p", "seed", "response_format", "logprobs", "top_logprobs", "stop"}
)


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
        return {"seed": self.backbone.seed, "parameters": self.backbone.parameters.state()}

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
        system = request.system
        text = system if isinstance(system, str) else "".join(getattr(part, "text", "") for part in system)
        messages.append({"role": "system", "content": text})
    messages.extend({"role": m.role, "content": m.text or ""} for m in request.messages)
    return messages


def simulated_lm(
    seed: int = 0,
    parameters: WorldParameters | None = None,
    *,
    world_name: str | None = None,
    world: Mapping[str, float] | None = None,
    **lm_kwargs: Any,
) -> dspy.LM:
    """The embedded simulated backbone as a ``dspy.LM``: offline, free, deterministic in its seed and the request.

    ``seed``: the world's seed. Samples of the same prompt differ by the *request's* ``seed`` option (an OpenAI field),
    never by a rollout id. ``world_name``: which world (``v1``, the default, ``v2`` or ``weak-structural``), ``world``:
    single parameters of it that are to be others; or ``parameters``: all of them. ``lm_kwargs`` go to ``dspy.LM``; the
    DSPy cache is off unless asked for.

    >>> simulated_lm(world_name="v2", world={"tacit_share": 0.2}).model
    'simulated'

    Raises:
        ValueError: for an unknown world or parameter, a value outside its range, or ``parameters`` beside a world.
    """
    if parameters is not None and (world_name is not None or world):
        raise ValueError("parameters are a whole world; give them, or world_name and world, not both")
    parameters = parameters or named_world(world_name, world)
    backbone = SimulatedBackbone(seed, parameters)
    options: dict[str, Any] = {"cache": False, **lm_kwargs}
    return dspy.LM(MODEL, engine=SimulatedEngine(backbone), async_engine=AsyncSimulatedEngine(backbone), **options)
