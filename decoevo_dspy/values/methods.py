"""What the methods of the paper's comparison are to each other: reports ask here, without loading what runs them. Pure.

A method that is not listed is compared like any other and shown after these; see docs/METHOD.md §11.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Part = Literal["reference", "baseline", "main", "coupled", "control", "ablation", "other"]
"""``main``: the method in question; ``baseline``: whose score and cost are the unit; ``coupled``: main but for the
decoupling; ``control``: what else could explain a gain; ``ablation``: main without one part."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A method's part in the comparison.

    ``rival``: what it would explain if it did as well as the main method, and what it does instead. ``budget_of``: the
    method of whose run of the same seed it gets the calls and tokens as its budget.
    """

    part: Part = "other"
    rival: tuple[str, str] | None = None
    budget_of: str = ""


COMPARED: dict[str, Compared] = {
    "zero-shot": Compared(part="reference"),
    "skillopt": Compared(part="baseline"),
    "sc-coevo": Compared(
        part="coupled",
        rival=("The decoupling", "same audits and proposals, but a generator is accepted by the solver's score"),
    ),
    "decoevo": Compared(part="main"),
    "task-prior": Compared(
        part="control",
        rival=("The richer prior", "the public task specification appended to a fixed generator"),
    ),
    "budget-matched": Compared(
        part="control",
        rival=("The extra budget", "SkillOpt with more steps, up to DecoEvo's calls and tokens"),
        budget_of="decoevo",
    ),
    "direct-audit": Compared(
        part="control",
        rival=("The audit text", "the audit findings go to the solver's rewriter; the generator stays fixed"),
    ),
    "no-structural": Compared(part="ablation"),
    "no-contrastive": Compared(part="ablation"),
    "no-blind": Compared(part="ablation"),
    "no-near-tie": Compared(part="ablation"),
    "no-verification": Compared(part="ablation"),
    "no-distillation": Compared(part="ablation"),
}
"""The methods of docs/METHOD.md §11, in the order in which tables show them."""


def part(name: Part) -> tuple[str, ...]:
    """The methods that are this in the comparison, in table order."""
    return tuple(method for method, compared in COMPARED.items() if compared.part == name)


MAIN, BASELINE, COUPLED = part("main")[0], part("baseline")[0], part("coupled")[0]
CONTROLS, ABLATIONS = part("control"), part("ablation")
MATCHED = {name: compared.budget_of for name, compared in COMPARED.items() if compared.budget_of}
"""Methods whose budget is what another method's run of the same seed used."""

RIVALS = {
    name: compared.rival
    for name, compared in sorted(COMPARED.items(), key=lambda item: (item[0] != COUPLED, not item[1].budget_of))
    if compared.rival
}
"""Rival explanations of a gain: method → (title, what it does instead). The decoupling first, then the cost."""


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods, each once: those of the comparison in table order, then others by name."""
    names = set(methods)
    return [name for name in COMPARED if name in names] + sorted(names - set(COMPARED))
