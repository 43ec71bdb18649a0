"""The structural auditor and both stages of the contrastive auditor."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from decoevo_dspy.simulation import phrasing
from decoevo_dspy.simulation.catalogue import KINDS, SURFACES
from decoevo_dspy.simulation.classes import tacit
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.world import (
    BY_KEY,
    ResponseReading,
    is_chinese,
    read_line,
    read_response,
    read_skill,
    relevant,
    utility,
)

MAX_OMISSIONS = 2
SURFACE_COST = 0.02
"""Adequacy lost for each criterion that rewards a surface quality."""
SOFTNESS = 0.04
"""Utility difference at which a preference read from token probabilities has odds e : 1."""
_POINTS = re.compile(r"\((\d+(?:\.\d+)?) points?\)")
_SCORES = re.compile(r"\((\d+(?:\.\d+)?) points?\).*\| A ([01](?:\.\d+)?), B ([01](?:\.\d+)?)\s*$", re.MULTILINE)


def _weight(key: str) -> int:
    return -abs(BY_KEY[key].points)


def _mistake(rng: Random, avoid: frozenset[str] = frozenset()) -> str:
    """What an auditor names when it misses the point: a surface quality."""
    return rng.choice([s.key for s in SURFACES if s.key not in avoid] or [SURFACES[0].key])


def audit_structure(specification: str, question: str, rubric: str, p: WorldParameters, rng: Random) -> dict[str, Any]:
    """Compares the rubric with what the specification demands for this question: by name, or by kind if not tacit."""
    chinese, spec, drawn = is_chinese(question), read_skill(specification), read_skill(rubric)
    kinds, hidden = spec.kinds or frozenset(KINDS), tacit(p.tacit_share)
    due = [
        key for key in relevant(question)
        if ((BY_KEY[key].kind in kinds and key not in hidden) or key in spec.named)
        and rng.random() < p.structural_knowledge
    ]  # fmt: skip
    light = underweight(rubric) if p.structural_underweight < 1.0 else frozenset[str]()
    strict = {key: p.structural_underweight if key in light else 1.0 for key in drawn.named}
    covered = sum(abs(BY_KEY[k].points) * strict.get(k, 0.5 if k in drawn.lax else 0.0) for k in due)
    total = sum(abs(BY_KEY[k].points) for k in due)
    omitted = sorted((k for k in due if k not in drawn.named or k in light), key=_weight)[:MAX_OMISSIONS]
    adequacy = (covered / total if total else 1.0) - SURFACE_COST * len(drawn.surfaces)
    adequacy += rng.gauss(0.0, p.structural_noise)
    named = [key if rng.random() < p.structural_naming else _mistake(rng, drawn.surfaces) for key in omitted]
    named = list(dict.fromkeys(named))
    styled = bool(drawn.surfaces) and spec.style_out and p.structural_style > 0.0
    if styled and rng.random() < p.structural_style:
        named.append(phrasing.STYLE_OUT)
    return {
        "rationale": _structural_rationale(len(due), named, rng, chinese)[:500],
        "repair": phrasing.principle(named, rng, chinese)[:300],
        "adequacy": min(10, max(0, round(10 * adequacy))),
    }


def underweight(rubric: str) -> frozenset[str]:
    """The requirements whose criterion has less than half of the points that are due."""
    found = set[str]()
    for line in rubric.split("\n"):
        points = _POINTS.search(line)
        found.update(k for k in read_line(line).keys if points and 2.0 * float(points[1]) < abs(BY_KEY[k].points))
    return frozenset(found)


def _structural_rationale(due: int, named: list[str], rng: Random, chinese: bool) -> str:
    parts = [phrasing.name(key, rng, chinese) for key in named]
    if chinese:
        tail = f"标准遗漏了：{'；'.join(parts)}。" if parts else "标准没有重要遗漏。"
        return f"任务对这个问题有{due}项要求。{tail}"
    tail = f"The rubric leaves out {' and '.join(parts)}." if parts else "Nothing of importance is missing."
    return f"The task makes {due} demands on an answer to this question. {tail}"


@dataclass(frozen=True, kw_only=True)
class Preferred:
    """A preference with the auditor's own probabilities of the three labels."""

    rationale: str
    label: str
    odds: dict[str, float]


def prefer(question: str, a: str, b: str, scores: str, p: WorldParameters, rng: Random) -> Preferred:
    """Which answer is better by latent utility, with noise and bias; ``scores`` (empty when blind) pull the view."""
    due, first, second = relevant(question), read_response(a), read_response(b)
    seen = utility(due, first) - utility(due, second)
    if scores:
        seen = (1.0 - p.contrastive_score_pull) * seen + p.contrastive_score_pull * _score_difference(scores)
    seen += p.contrastive_position_bias + rng.gauss(0.0, p.contrastive_noise)
    guessing = rng.random() < 2.0 * (1.0 - p.contrastive_accuracy)
    if guessing:
        seen = rng.choice((-1.0, 1.0)) * (2.0 * p.contrastive_threshold + 0.05)
    label = "equivalent" if abs(seen) < p.contrastive_threshold else "A" if seen > 0 else "B"
    chinese = is_chinese(question)
    if label == "equivalent":
        rationale = "两个回答没有实质差别。" if chinese else "Neither is better in a way that matters."
    else:
        better, other = (first, second) if label == "A" else (second, first)
        gap = [] if guessing else differing(due, better, other)
        rate, both = naming_rate(due, first, second, p), [k for k in due if first.meets(k) and second.meets(k)]
        key = gap[0] if gap and rng.random() < rate else _alike(both, frozenset(), p, rng)
        text = phrasing.name(key, rng, chinese)
        rationale = f"关键差别：{text}。" if chinese else f"What decides is {text}; one does it, the other does not."
    return Preferred(rationale=rationale, label=label, odds=_odds(seen, p.contrastive_threshold))


def naming_rate(due: Iterable[str], first: ResponseReading, second: ResponseReading, p: WorldParameters) -> float:
    """The chance that the deciding requirement is named: it falls with the number of differences."""
    differences = sum(first.meets(key) != second.meets(key) for key in due)
    return p.contrastive_naming / (1.0 + p.contrastive_crowding * max(0, differences - 1))


def _alike(known: Sequence[str], avoid: frozenset[str], p: WorldParameters, rng: Random) -> str:
    """What is named in place of the deciding requirement: one that is there already, or a surface quality."""
    if p.contrastive_paraphrase and known and rng.random() < p.contrastive_paraphrase:
        return rng.choice(known)
    return _mistake(rng, avoid)


def differing(due: tuple[str, ...], better: ResponseReading, other: ResponseReading) -> list[str]:
    """Relevant requirements that one answer meets and the other does not, weightiest first."""
    return sorted((k for k in due if better.meets(k) and not other.meets(k)), key=_weight)


def _odds(seen: float, threshold: float) -> dict[str, float]:
    strengths = {"A": seen / SOFTNESS, "B": -seen / SOFTNESS, "equivalent": (threshold - abs(seen)) / SOFTNESS}
    strengths = {key: math.exp(max(-6.0, min(6.0, value))) for key, value in strengths.items()}
    total = sum(strengths.values())
    return {key: value / total for key, value in strengths.items()}


def _score_difference(scores: str) -> float:
    """Rubric score of A less that of B, from lines ``(5 points) … | A 0.80, B 0.60``; 0 when there are none."""
    rows = [(float(points), float(a) - float(b)) for points, a, b in _SCORES.findall(scores)]
    total = sum(points for points, _ in rows)
    return sum(points * difference for points, difference in rows) / total if total else 0.0


def reveal(
    question: str, better: str, other: str, difference: str, rubric: str, p: WorldParameters, rng: Random
) -> dict[str, str]:
    """Why the rubric misses the difference: a requirement that it lacks and only the better answer meets."""
    chinese, drawn, told = is_chinese(question), read_skill(rubric), read_skill(difference)
    due, first, second = relevant(question), read_response(better), read_response(other)
    gap, rate = differing(due, first, second), naming_rate(due, first, second, p)
    missing = [key for key in gap if key not in drawn.named]
    missing.sort(key=lambda key: (key not in told.named, _weight(key)))
    there = sorted(drawn.named)
    key = missing[0] if missing and rng.random() < rate else _alike(there, drawn.surfaces, p, rng)
    text = phrasing.name(key, rng, chinese)
    english = f"No criterion speaks of this: {text}. So both answers score alike."
    why = f"没有一条标准提到：{text}。" if chinese else english
    return {"explanation": why[:400], "principle": phrasing.principle([key], rng, chinese)[:300]}
