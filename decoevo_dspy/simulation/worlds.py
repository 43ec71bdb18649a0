"""The worlds by name. Their values were committed before any method ran on them; reasons: docs/SIMULATION.md."""

from collections.abc import Mapping
from dataclasses import fields, replace

from decoevo_dspy.simulation.parameters import WorldParameters

DEFAULT = "v1"
"""The world that is meant when none is named."""

_V2 = WorldParameters(
    tacit_share=0.40,
    solver_tacit=0.15,
    generator_surface=0.25,
    generator_surface_told=0.05,
    generator_light=0.4,
    judge_false_negative=0.12,
    judge_false_positive=0.16,
    structural_style=0.64,  # = knowledge .85 · naming .75
    structural_underweight=0.5,  # as a softened criterion
    contrastive_naming=0.75,
    contrastive_crowding=0.15,
    contrastive_paraphrase=0.5,
    proposal_better=0.45,
    proposal_equal=0.15,
    proposal_easier=0.15,
    proposal_narrower=0.15,
    proposal_worse=0.10,
    rewriter_drop=0.0,  # a lost rule is a kind of proposal here,
    rewriter_soften=0.0,  # and so is a softened one
    rewriter_prune=0.3,
)

WORLDS: Mapping[str, WorldParameters] = {
    DEFAULT: WorldParameters(),
    "v2": _V2,
    "weak-structural": replace(
        _V2,
        tacit_share=0.65,
        structural_knowledge=0.4,
        structural_naming=0.5,
        structural_style=0.2,  # = knowledge .4 · naming .5
    ),
}
"""The worlds; single parameters can be changed with `named_world`."""


def named_world(name: str | None = None, changes: Mapping[str, float] | None = None) -> WorldParameters:
    """The parameters of a world (``None``: the first), with single ones changed.

    >>> named_world("v2", {"tacit_share": 0.2}).tacit_share
    0.2

    Raises:
        ValueError: for a world or a parameter that does not exist, or a value outside its range.
    """
    base, given = WORLDS[known_world(name)], dict(changes or {})
    kinds = {field.name: field.type for field in fields(WorldParameters)}
    for key, value in given.items():
        if key not in kinds:
            raise ValueError(f"world.{key}: unknown key; the keys are {', '.join(kinds)}")
        if kinds[key] in (int, "int") and value == value // 1:
            given[key] = int(value)
    try:
        return replace(base, **given)
    except ValueError as error:
        raise ValueError(f"world: {error}") from None


def known_world(name: str | None) -> str:
    """The name of a world that exists.

    Raises:
        ValueError: for another name.
    """
    if name is not None and name not in WORLDS:
        raise ValueError(f"world_name: {name!r} is not a world; use one of {', '.join(WORLDS)}")
    return name or DEFAULT
