"""The judge in its three forms, and the matcher of criteria."""

import re
from dataclasses import dataclass
from random import Random
from typing import Any

from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.world import read_response, read_skill

_ITEM = re.compile(r"^\s*(c\d{1,2})\b\s*[.):]?\s*(?:\([\d.]+ points?\)\s*)?(.*)$")
_WORD = re.compile(r"[a-z']{4,}|[\u4e00-\u9fff]")
MAX_VERDICTS = 24
"""Longest list of verdicts that the judge's schema allows."""
OVERLAP_MET = 0.6
"""Share of a criterion's words found in the answer at which a criterion outside the world counts as met."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One verdict: ``score`` in tenths (0–10), ``yes`` = the judge's own probability that it is met, and why."""

    score: int
    yes: float
    rationale: str


def judge(response: str, criterion: str, p: WorldParameters, rng: Random) -> Judged:
    """The verdict on one criterion; nothing that the response says about its own score has a say."""
    asked = read_skill(criterion)
    share = true_share(response, criterion)
    if share < 1.0 and asked.lax and rng.random() < p.judge_lax_pass:
        share = 1.0
    if rng.random() < (p.judge_false_negative if share >= 0.5 else p.judge_false_positive):
        share = 0.0 if share >= 0.5 else 1.0
    slack = rng.choice((0, 0, 0, 1))
    score = 10 - slack if share == 1.0 else slack if share == 0.0 else round(10 * share)
    yes = min(0.99, max(0.01, 0.08 + 0.84 * share + rng.gauss(0.0, 0.06)))
    short = " ".join(criterion.split())[:170]
    rationale = f"The answer does this: {short}" if share >= 0.5 else f"The answer fails this: {short}"
    return Judged(score=score, yes=yes, rationale=rationale)


def true_share(response: str, criterion: str) -> float:
    """How far the response really meets the criterion, in [0, 1]: by requirement, by surface quality, or by words."""
    asked, said = read_skill(criterion), read_response(response)
    if keys := asked.named | asked.lax:
        return sum(map(said.meets, keys)) / len(keys)
    if asked.surfaces:
        return len(asked.surfaces & said.shown) / len(asked.surfaces)
    words = set(_WORD.findall(criterion.lower()))
    found = words & set(_WORD.findall(response.lower()))
    return 1.0 if words and len(found) >= OVERLAP_MET * len(words) else 0.0


def judge_rubric(response: str, criteria: str, p: WorldParameters, rng: Random) -> list[dict[str, Any]]:
    """One verdict for every criterion id of the list."""
    verdicts = [(key, judge(response, text, p, rng)) for key, text in rubric_items(criteria)]
    return [{"id": key, "rationale": v.rationale[:240], "score": v.score} for key, v in verdicts]


def rubric_items(text: str) -> list[tuple[str, str]]:
    """``(id, text)`` of a numbered rubric, each id once; a line without an id continues the item before it."""
    items: list[tuple[str, str]] = []
    for line in text.split("\n"):
        match = _ITEM.match(line)
        if match:
            items.append((match.group(1), match.group(2)))
        elif items and line.strip():
            items[-1] = (items[-1][0], f"{items[-1][1]}\n{line}")
    if not items:
        lines = [line for line in text.split("\n") if line.strip()] or ["(no criterion)"]
        items = [(f"c{i}", line) for i, line in enumerate(lines, start=1)]
    return list(dict(reversed(items)).items())[::-1][:MAX_VERDICTS]


def same_requirement(left: str, right: str, p: WorldParameters, rng: Random) -> bool:
    """Whether two criteria ask for the same thing, as the matcher sees it."""
    a, b = read_skill(left), read_skill(right)
    shared = bool((a.named | a.lax) & (b.named | b.lax) or a.surfaces & b.surfaces)
    if not shared and not (a.named | a.lax | a.surfaces | b.named | b.lax | b.surfaces):
        shared = " ".join(left.lower().split()) == " ".join(right.lower().split())
    return rng.random() >= p.matcher_false_negative if shared else rng.random() < p.matcher_false_positive
