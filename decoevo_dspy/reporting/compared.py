"""The compared methods as reports speak of them, from what each says of itself."""

from collections.abc import Iterable

from decoevo_dspy.teleprompters import METHODS


def _part(part: str) -> tuple[str, ...]:
    return tuple(name for name, cls in METHODS.items() if cls.method.part == part)


ORDER = tuple(METHODS)
"""All of them, in the order in which tables show them."""

MAIN, BASELINE, COUPLED = _part("main")[0], _part("baseline")[0], _part("coupled")[0]
"""The method in question, the one whose score and cost are the unit, and the score-coupled one."""

CONTROLS, ABLATIONS = _part("control"), _part("ablation")

RIVALS = {
    name: cls.method.rival
    for name, cls in sorted(METHODS.items(), key=lambda item: (item[0] != COUPLED, not item[1].method.budget_of))
    if cls.method.rival
}
"""Rival explanations of a gain: method → (title, what it does instead). The decoupling first, then the cost."""


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods, each once: the known ones in table order, then others by name."""
    names = set(methods)
    return [name for name in ORDER if name in names] + sorted(names - set(ORDER))
