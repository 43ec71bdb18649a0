"""The two rewriters, and the proposer behind other optimisers' prompts: all edit the text they are shown."""

import re
from collections import Counter
from random import Random
from typing import Any

from decoevo_dspy.simulation import phrasing
from decoevo_dspy.simulation.catalogue import SURFACES
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.phrasing import Genre
from decoevo_dspy.simulation.world import BY_KEY, SURFACE_BY_KEY, is_chinese, read_line, read_skill

MAX_EDITS = 8
RECURS = 2
"""How often a finding must occur to count as recurring."""
MAX_TARGET = 400
_BULLET = re.compile(r"^\s*[-*]\s+\S")
_FAILURE = re.compile(r"^- \((?P<points>\d+(?:\.\d+)?) points?, score (?P<score>\d+(?:\.\d+)?)\)")
_FEEDBACK = re.compile(r"^- .*: (?P<score>\d+(?:\.\d+)?) of 1 \((?P<points>\d+(?:\.\d+)?) points?\)")

Edit = dict[str, str]


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


def wanted(skill: str, evidence: str, rejected: str, p: WorldParameters, *, recurs: int = RECURS) -> list[str]:
    """Findings that the skill does not answer yet, by weight; recurring ones, or the weightiest when none recurs."""
    reading, tried, seen = read_skill(skill), read_skill(rejected), occurrences(evidence)
    known, repeated = reading.named | reading.surfaces, tried.named | tried.surfaces
    fresh = {key: value for key, value in findings(evidence).items() if key not in known}
    weights = {key: value * (p.rewriter_repeat if key in repeated else 1.0) for key, value in fresh.items()}
    ranked = sorted(weights, key=lambda k: (-weights[k], k))
    return [k for k in ranked if seen[k] >= recurs] or ranked[:1]


def rewrite(
    genre: Genre, skill: str, evidence: str, rejected: str, budget: int, p: WorldParameters, rng: Random
) -> dict[str, Any]:
    """Typed edits within the budget: rules for recurring findings, with the error model of `WorldParameters`."""
    chinese, budget = is_chinese(skill), min(max(1, budget), MAX_EDITS)
    taken = [key for key in wanted(skill, evidence, rejected, p) if rng.random() >= p.rewriter_miss][:budget]
    edits = [_answer(key, skill, chinese, genre, rng) for key in taken]
    slips = _slips(skill, chinese, genre, p, rng)
    edits = (edits[: max(0, budget - len(slips))] + slips)[:budget] or [_idle(skill, chinese, genre, rng)]
    names = "; ".join(phrasing.name(key, rng, chinese) for key in taken[:3])
    none = "没有反复出现的问题。" if chinese else "Nothing recurs."
    summary = (f"反复出现：{names}" if chinese else f"What recurs: {names}") if names else none
    return {"summary": summary[:300], "edits": edits}


def _answer(key: str, skill: str, chinese: bool, genre: Genre, rng: Random) -> Edit:
    """The edit that answers a finding: sharpens a softened rule where there is one, else appends."""
    content = phrasing.rule(key, rng, chinese, genre)
    for line in rule_lines(skill):
        if read_line(line).lax and key in read_line(line).keys:
            return {"op": "replace", "target": line, "content": content}
    return {"op": "append", "target": "", "content": content}


def _slips(skill: str, chinese: bool, genre: Genre, p: WorldParameters, rng: Random) -> list[Edit]:
    """A rewriter's errors: a lost rule, a hard rule made easy, a surface quality added."""
    lines, reading = rule_lines(skill), read_skill(skill)
    slips: list[Edit] = []
    if rng.random() < p.rewriter_drop and len(lines) > 1:
        slips.append({"op": "delete", "target": rng.choice(lines), "content": ""})
    if rng.random() < p.rewriter_soften:
        strict = [(key, line) for line in lines for key in read_line(line).keys if not read_line(line).lax]
        hard = [(BY_KEY[key].difficulty, key, line) for key, line in strict]
        if hard:
            _, key, line = max(hard)
            easy = phrasing.rule(key, rng, chinese, genre, lax=True)
            slips.append({"op": "replace", "target": line, "content": easy})
    if rng.random() < p.rewriter_surface and (fresh := [s.key for s in SURFACES if s.key not in reading.surfaces]):
        slips.append({"op": "append", "target": "", "content": phrasing.rule(rng.choice(fresh), rng, chinese, genre)})
    return slips


def _idle(skill: str, chinese: bool, genre: Genre, rng: Random) -> Edit:
    """An edit when nothing calls for one: a rule in other words, or a surface quality."""
    for line in rule_lines(skill):
        if keys := read_line(line).keys:
            return {"op": "replace", "target": line, "content": phrasing.rule(keys[0], rng, chinese, genre)}
    surface = rng.choice(list(SURFACE_BY_KEY))
    return {"op": "append", "target": "", "content": phrasing.rule(surface, rng, chinese, genre)}


def rule_lines(skill: str) -> list[str]:
    """The skill's list items, short enough to be an edit's target."""
    return [line for line in skill.split("\n") if _BULLET.match(line) and len(line) <= MAX_TARGET]


def improve(text: str, evidence: str, p: WorldParameters, rng: Random, limit: int = 3) -> str:
    """Free instructions with up to ``limit`` rules added for what the evidence speaks of; for unknown optimisers."""
    chinese = is_chinese(text)
    taken = [key for key in wanted(text, evidence, "", p, recurs=1) if rng.random() >= p.rewriter_miss][:limit]
    if not taken and rng.random() < p.rewriter_surface:
        taken = [rng.choice(list(SURFACE_BY_KEY))]
    rules = [phrasing.rule(key, rng, chinese, "solver") for key in taken]
    return "\n".join([text.strip() or "Answer the question.", *rules])
