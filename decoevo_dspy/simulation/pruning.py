"""How the solver's rewriter makes room: two rules for the same thing become one, a style rule nobody asks for goes."""

from random import Random

from decoevo_dspy.simulation import phrasing
from decoevo_dspy.simulation.evidence import Edit, findings, rule_lines
from decoevo_dspy.simulation.world import is_chinese, read_line


def prune(skill: str, evidence: str, rng: Random) -> list[Edit]:
    """The edits that merge or delete; none when every rule is of use."""
    lines = rule_lines(skill)
    if pair := _pair(lines):
        key, first, second = pair
        content = phrasing.rule(key, rng, is_chinese(skill), "solver")
        merged = {"op": "replace", "target": first, "content": content}
        return [merged, {"op": "delete", "target": second, "content": ""}]
    asked = findings(evidence)
    for line in lines:
        found = read_line(line)
        if found.surfaces and not found.keys and not asked.keys() & set(found.surfaces):
            return [{"op": "delete", "target": line, "content": ""}]
    return []


def _pair(lines: list[str]) -> tuple[str, str, str] | None:
    """The first requirement that two lines of their own name, with the two lines."""
    seen: dict[str, str] = {}
    for line in lines:
        keys = read_line(line).keys
        if len(keys) == 1 and keys[0] in seen and seen[keys[0]] != line:
            return keys[0], seen[keys[0]], line
        if len(keys) == 1:
            seen.setdefault(keys[0], line)
    return None
