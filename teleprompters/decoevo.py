"""DecoEvo: the generator evolves on two audits and is verified on held-out audit objectives."""

from decoevo_dspy.teleprompters.base import CoEvolution
from decoevo_dspy.teleprompters.method import Method


class DecoEvo(CoEvolution):
    """Score-decoupled co-evolution of a solver skill and a rubric-generator skill (docs/METHOD.md §2)."""

    method = Method(name="decoevo")
