"""The two rewriters, and the proposer behind other optimisers' prompts: all edit the text they are shown."""

from random import Random
from typing import Any

from decoevo_dspy.simulation import phrasing
from decoevo_dspy.simulation.catalogue import SURFACES
from decoevo_dspy.simulation.evidence import Edit, rule_lines, wanted
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.phrasing import STYLE_OUT, Genre
from decoevo_dspy.simulation.proposals import draw, propose
from decoevo_dspy.simulation.pruning import prune
from decoevo_dspy.simulation.world import BY_KEY, SURFACE_BY_KEY, is_chinese, read_line, read_skill

MAX_EDITS = 8


def rewrite(
    genre: Genre, skill: str, evidence: str, rejected: str, budget: int, p: WorldParameters, rng: Random
) -> dict[str, Any]:
    """Typed edits within the budget: rules for recurring findings, with the error model of `WorldParameters`."""
    chinese, budget, kind = is_chinese(skill), min(max(1, budget), MAX_EDITS), draw(p, rng)
    style_out = genre == "generator" and p.generator_surface_told < 1.0
    found = wanted(skill, evidence, rejected, p, style_out=style_out)
    taken = [key for key in found if rng.random() >= p.rewriter_miss][:budget]
    if kind == "better":
        edits = _better(taken, genre, skill, evidence, budget, p, rng)
    else:
        edits = propose(kind, found, genre, skill, rng)[:budget]
    names = "; ".join(phrasing.name(key, rng, chinese) for key in taken[:3])
    none = "没有反复出现的问题。" if chinese else "Nothing recurs."
    summary = (f"反复出现：{names}" if chinese else f"What recurs: {names}") if names else none
    return {"summary": summary[:300], "edits": edits}


def _better(
    taken: list[str], genre: Genre, skill: str, evidence: str, budget: int, p: WorldParameters, rng: Random
) -> list[Edit]:
    """The edits that answer the findings, with slips; where there is nothing to answer, an idle one."""
    chinese = is_chinese(skill)
    edits = [_answer(key, skill, chinese, genre, rng) for key in taken]
    slips = _slips(skill, chinese, genre, p, rng)
    if genre == "solver" and p.rewriter_prune and rng.random() < p.rewriter_prune:
        slips = prune(skill, evidence, rng) + slips
    return (edits[: max(0, budget - len(slips))] + slips)[:budget] or [_idle(skill, chinese, genre, rng)]


def _answer(key: str, skill: str, chinese: bool, genre: Genre, rng: Random) -> Edit:
    """The edit that answers a finding: sharpens a soft, light or narrow rule where there is one, else appends."""
    content = phrasing.rule(key, rng, chinese, genre)
    for line in rule_lines(skill):
        found = read_line(line)
        weak = key in found.keys and (found.lax or found.light or found.only_with)
        if weak or (key == STYLE_OUT and found.surfaces):
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


def improve(text: str, evidence: str, p: WorldParameters, rng: Random, limit: int = 3) -> str:
    """Free instructions with up to ``limit`` rules added for what the evidence speaks of; for unknown optimisers."""
    chinese = is_chinese(text)
    taken = [key for key in wanted(text, evidence, "", p, recurs=1) if rng.random() >= p.rewriter_miss][:limit]
    if not taken and rng.random() < p.rewriter_surface:
        taken = [rng.choice(list(SURFACE_BY_KEY))]
    rules = [phrasing.rule(key, rng, chinese, "solver") for key in taken]
    return "\n".join([text.strip() or "Answer the question.", *rules])
