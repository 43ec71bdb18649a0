"""The simulated backbone: a text-in, text-out model over a latent world, for offline runs and tests of mechanisms.

It is a testbed with a known truth, never evidence about real models.
"""

from typing import TYPE_CHECKING, Any

from decoevo_dspy.simulation.parameters import WorldParameters

if TYPE_CHECKING:
    from decoevo_dspy.simulation.engine import SimulatedBackbone, simulated_lm

__all__ = ["SimulatedBackbone", "WorldParameters", "simulated_lm"]

_HOMES = {
    "SimulatedBackbone": "engine",
    "simulated_lm": "engine",
}


def __getattr__(name: str) -> Any:
    """Loads the parts that import DSPy or data on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
