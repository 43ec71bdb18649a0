"""What a rewriter reads: the findings in its evidence, by weight, and the lines of the skill that it may edit."""

import re
from collections import Counter

from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.phrasing import STYLE_OUT
from decoevo_dspy.simulation.world import SURFACE_BY_KEY, read_line, read_skill

RECURS = 2
"""How often a finding must occur to count as recurring."""
MAX_TARGET = 400
_BULLET = re.compile(r"^\s*[-*]\s+\S")
_FAILURE = re.compile(r"^- \((?P<points>\d+(?:\.\d+)?) points?, score (?P<score>\d+(?:\.\d+)?)\)")
_FEEDBACK = re.compile(r"^- .*: (?P<score>\d+(?:\.\d+)?) of 1 \((?P<points>\d+(?:\.\d+)?) points?\)")

Edit = dict[str, str]
"""One typed edit: ``op``, ``target``, ``content``."""


def items(evidence: str) -> list[str]:
    """The evidence's list items, without the reasons below them; all lines of a text without list items."""
    return [line for line in evidence.split("\n") if line.startswith("- ")] or evidence.split("\n")


def weight(item: str) -> float:
    """What a list item counts: points lost ÷ 5 where it states points and a score, else 1."""
    match = _FAILURE.match(item) or _FEEDBACK.match(item)
    return float(match["points"]) * (1.0 - min(1.0, float(match["score"]))) / 5.0 if match else 1.0


def findings(evidence: str) -> dict[str, float]:
    """How much each requirement or surface quality weighs in the evidence, weightiest first."""
    weights: dict[str, float] = {}
    for item in items(evidence):
        found, lost = read_line(item), weight(item)
        for key in (*found.keys, *found.surfaces) if lost > 0.0 else ():
            weights[key] = weights.get(key, 0.0) + lost
    return dict(sorted(weights.items(), key=lambda pair: (-pair[1], pair[0])))


def occurrences(evidence: str) -> Counter[str]:
    """In how many list items each requirement or surface quality occurs."""
    return Counter(key for item in items(evidence) for key in (*read_line(item).keys, *read_line(item).surfaces))


def wanted(
    skill: str, evidence: str, rejected: str, p: WorldParameters, *, recurs: int = RECURS, style_out: bool = False
) -> list[str]:
    """Findings that the skill does not answer yet, by weight; recurring ones, or the weightiest when none recurs.

    ``style_out``: that style should not be graded is a finding too, and a skill that says so wants no style rule.
    """
    reading, tried, seen = read_skill(skill), read_skill(rejected), occurrences(evidence)
    known, repeated = reading.named | reading.surfaces, tried.named | tried.surfaces
    found = findings(evidence)
    if style_out and (times := sum(read_line(item).style_out for item in items(evidence))):
        seen[STYLE_OUT], found[STYLE_OUT] = times, float(times)
    if style_out and reading.style_out:
        known = known | {STYLE_OUT, *SURFACE_BY_KEY}
    fresh = {key: value for key, value in found.items() if key not in known}
    weights = {key: value * (p.rewriter_repeat if key in repeated else 1.0) for key, value in fresh.items()}
    ranked = sorted(weights, key=lambda k: (-weights[k], k))
    return [k for k in ranked if seen[k] >= recurs] or ranked[:1]


def rule_lines(skill: str) -> list[str]:
    """The skill's list items, short enough to be an edit's target."""
    return [line for line in skill.split("\n") if _BULLET.match(line) and len(line) <= MAX_TARGET]
