"""Every behavioural parameter of the simulated worlds: those of the first, and what later worlds add to it."""

from dataclasses import dataclass, fields
from typing import Any

from decoevo_dspy.simulation.first_world import FirstWorld

MAX_TACIT = 0.75
"""Largest share of the gold points that can be tacit: the obvious requirements hold the rest."""
_CAPACITIES = {"solver_capacity", "generator_capacity"}
_LOWEST = {"contrastive_accuracy": 0.5, "contrastive_position_bias": -1.0, **dict.fromkeys(_CAPACITIES, 1.0)}
_HIGHEST = {"tacit_share": MAX_TACIT}
_UNBOUNDED = {
    *_CAPACITIES,
    "generator_point_noise",
    "structural_noise",
    "contrastive_noise",
    "contrastive_crowding",
    "proposal_equal",
    "proposal_easier",
    "proposal_narrower",
    "proposal_worse",
}
PROPOSALS = ("equal", "easier", "narrower", "worse")
"""The kinds of proposal that are not better."""


@dataclass(frozen=True, kw_only=True)
class WorldParameters(FirstWorld):
    """All parameters. What is added here is switched off by its default, so the defaults are the first world.

    Raises:
        ValueError: for a value outside its range.
    """

    # requirements
    tacit_share: float = 0.0
    """Share of the gold points, in [0, 0.75], whose requirement no public text names or hints at: only an answer that
    has it shows it. First come the kinds that the public text does not list, then others in a fixed order."""

    # solver
    solver_tacit: float = 0.15
    """Highest chance that an answer covers a tacit requirement when no text names it. What must be avoided keeps its
    own chance: nobody is told to do harm."""

    # rubric generator
    generator_surface_told: float = 1.0
    """Highest chance of each style criterion once the skill says to leave style out; 1: such a line is not heeded."""
    generator_light: float = 1.0
    """Share of its points that a criterion keeps when the skill says to give it few points; 1: not heeded."""

    # structural auditor
    structural_style: float = 0.0
    """Chance of saying that a rubric rewards style, where the specification says that style earns nothing."""
    structural_underweight: float = 1.0
    """What a due requirement still counts when its criterion has less than half of its points; below 1, such a
    criterion is reported as an omission is."""

    # contrastive auditor
    contrastive_crowding: float = 0.0
    """Each difference (≥ 0) beyond the first makes naming harder: chance = naming ÷ (1 + crowding · (d − 1)), where d
    is the number of requirements that one of the two answers meets and the other does not."""
    contrastive_paraphrase: float = 0.0
    """Of the cases in which the deciding requirement is not named: the share in which something is named that is there
    already; in the others it is a surface quality."""

    # rewriters
    proposal_better: float = 1.0
    """Chance that a reply of either rewriter answers the findings, as in the first world."""
    proposal_equal: float = 0.15
    """Weight (≥ 0), among the other kinds of reply, of one that says what is there in other words. With the shipped
    values of ``proposal_better`` and the four weights, each weight is the kind's rate."""
    proposal_easier: float = 0.15
    """The same for a reply that softens a demanding rule and, in a rubric skill, lowers a hard criterion's weight."""
    proposal_narrower: float = 0.15
    """The same for a reply whose rule is patched to a single question's words."""
    proposal_worse: float = 0.1
    """The same for a reply that loses a rule."""
    rewriter_prune: float = 0.0
    """Chance that the solver's rewriter, when it answers the findings, also merges two rules for the same thing, or
    deletes a style rule that no finding asks for."""

    def __post_init__(self) -> None:
        for spec in fields(self):
            value, low = getattr(self, spec.name), _LOWEST.get(spec.name, 0.0)
            high = float("inf") if spec.name in _UNBOUNDED else _HIGHEST.get(spec.name, 1.0)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ValueError(f"WorldParameters.{spec.name} must lie in [{low}, {high}], not {value!r}")
        if self.solver_base_low > self.solver_base_high:
            raise ValueError("WorldParameters.solver_base_low must not exceed solver_base_high")
        if self.proposal_better < 1.0 and not any(self.proposal_weights):
            raise ValueError("WorldParameters.proposal_better below 1 needs another kind of proposal with a weight")

    @property
    def proposal_weights(self) -> tuple[float, ...]:
        """The weights of `PROPOSALS`."""
        return tuple(getattr(self, f"proposal_{kind}") for kind in PROPOSALS)

    def state(self) -> dict[str, Any]:
        """The parameters as plain data: all of the first world's, and of the others those that are set."""
        own = {spec.name: spec.default for spec in fields(self)}
        first = {spec.name for spec in fields(FirstWorld)}
        values = {name: getattr(self, name) for name in own}
        return {name: value for name, value in values.items() if name in first or value != own[name]}
