"""Replies of the rewriters that do not answer the findings: equal, easier, narrower or worse than what was there."""

from collections.abc import Sequence
from random import Random

from decoevo_dspy.simulation import phrasing
from decoevo_dspy.simulation.catalogue import REQUIREMENTS, SURFACES
from decoevo_dspy.simulation.evidence import Edit, rule_lines
from decoevo_dspy.simulation.parameters import PROPOSALS, WorldParameters
from decoevo_dspy.simulation.phrasing import Genre
from decoevo_dspy.simulation.world import BY_KEY, is_chinese, read_line, read_skill

_EMPTY = (
    "- Keep to what matters for this person.",
    "- Be specific to the message at hand.",
    "- Read the message twice first.",
)
_EMPTY_ZH = ("- 抓住对这个人要紧的事。", "- 针对这条消息，不要泛泛而谈。", "- 先把消息读两遍。")
"""Rules that ask for nothing in particular."""


def draw(p: WorldParameters, rng: Random) -> str:
    """The kind of the next reply: ``better`` or one of `PROPOSALS`."""
    if p.proposal_better >= 1.0 or rng.random() < p.proposal_better:
        return "better"
    return rng.choices(PROPOSALS, p.proposal_weights)[0]


def propose(kind: str, found: Sequence[str], genre: Genre, skill: str, rng: Random) -> list[Edit]:
    """The edits of a reply of this kind; ``found``: what the evidence asks for, weightiest first."""
    due = [key for key in found if key in BY_KEY and not BY_KEY[key].harmful] or _obvious()
    if kind == "equal":
        return [_reworded(genre, skill, rng)]
    if kind == "easier":
        return _easier(due[0], genre, skill, rng)
    if kind == "narrower":
        return [_append(phrasing.narrow_rule(due[0], rng, is_chinese(skill), genre))]
    return [_worse(genre, skill, rng)]


def _append(content: str) -> Edit:
    return {"op": "append", "target": "", "content": content}


def _obvious() -> list[str]:
    """What any rubric asks for, hardest first."""
    return [r.key for r in sorted(REQUIREMENTS, key=lambda r: (-r.difficulty, r.key)) if r.obvious]


def strict_rules(skill: str) -> list[tuple[str, str]]:
    """The skill's demanding rules as (requirement, line): neither soft nor light nor for one word only."""
    lines = ((line, read_line(line)) for line in rule_lines(skill))
    return [
        (key, line) for line, found in lines if not (found.lax or found.light or found.only_with) for key in found.keys
    ]


def _reworded(genre: Genre, skill: str, rng: Random) -> Edit:
    """A demanding rule in other words; a rule that asks for nothing in particular where there is none."""
    chinese, rules = is_chinese(skill), strict_rules(skill)
    if rules:
        key, line = rng.choice(rules)
        wordings = [text for _ in range(12) if (text := phrasing.rule(key, rng, chinese, genre)) != line.strip()]
        if wordings and len(read_line(line).keys) == 1:
            return {"op": "replace", "target": line, "content": wordings[0]}
    empty = _EMPTY_ZH if chinese else _EMPTY
    return _append(rng.choice([rule for rule in empty if rule not in skill] or empty))


def _easier(due: str, genre: Genre, skill: str, rng: Random) -> list[Edit]:
    """The hardest demanding rule softened (the finding itself where there is none), and a hard criterion made light."""
    chinese, light = is_chinese(skill), read_skill(skill).light
    rules = [(BY_KEY[key].difficulty, key, line) for key, line in strict_rules(skill) if not BY_KEY[key].harmful]
    if rules:
        _, softened, line = max(rules)
        soft = phrasing.rule(softened, rng, chinese, genre, lax=True)
        edits = [{"op": "replace", "target": line, "content": soft}]
    else:
        softened, edits = due, [_append(phrasing.rule(due, rng, chinese, genre, lax=True))]
    asked = {key for _, key, _ in rules} | set(_obvious())
    hard = [(BY_KEY[key].difficulty, key) for key in asked if key != softened and key not in light]
    if genre == "generator" and hard:
        edits.append(_append(phrasing.light_rule(max(hard)[1], rng, chinese)))
    return edits


def _worse(genre: Genre, skill: str, rng: Random) -> Edit:
    """A demanding rule lost; a style rule added where there is none to lose."""
    if rules := strict_rules(skill):
        return {"op": "delete", "target": rng.choice(rules)[1], "content": ""}
    fresh = [s.key for s in SURFACES if s.key not in read_skill(skill).surfaces] or [SURFACES[0].key]
    return _append(phrasing.rule(rng.choice(fresh), rng, is_chinese(skill), genre))
