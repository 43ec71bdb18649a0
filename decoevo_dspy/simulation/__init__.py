"""The simulated backbone: a text-in, text-out model over a latent world, for offline runs and tests of mechanisms.

It is a testbed with a known truth, never evidence about real models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from decoevo_dspy.simulation.parameters import WorldParameters

if TYPE_CHECKING:
    from decoevo_dspy.simulation.benchmark import SIZES, SimulatedGrader, load_simulated, simulated_task
    from decoevo_dspy.simulation.engine import SimulatedBackbone, simulated_lm
    from decoevo_dspy.simulation.server import SimulationServer, serve

__all__ = [
    "SIZES",
    "SimulatedBackbone",
    "SimulatedGrader",
    "SimulationServer",
    "WorldParameters",
    "load_simulated",
    "serve",
    "simulated_lm",
    "simulated_task",
]

_HOMES = {
    "SIZES": "benchmark",
    "SimulatedGrader": "benchmark",
    "load_simulated": "benchmark",
    "simulated_task": "benchmark",
    "SimulatedBackbone": "backbone",
    "simulated_lm": "engine",
    "SimulationServer": "server",
    "serve": "server",
}


def __getattr__(name: str) -> Any:
    """Loads a part on first use: the values need no DSPy, and the server needs no DSPy either."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
