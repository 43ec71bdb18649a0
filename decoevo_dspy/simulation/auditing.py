"""The structural auditor and both stages of the contrastive auditor."""

import math
import re
from dataclasses import dataclass
from random import Random
from typing import Any

from decoevo_dspy.simulation import phrasing
from decoevo_dspy.simulation.catalogue import KINDS, SURFACES
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.world import (
    BY_KEY,
    ResponseReading,
    is_chinese,
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
_SCORES = re.compile(r"\((\d+(?:\.\d+)?) points?\).*\| A ([01](?:\.\d+)?), B ([01](?:\.\d+)?)\s*$", re.MULTILINE)


def _weight(key: str) -> int:
    return -abs(BY_KEY[key].points)


def _mistake(rng: Random, avoid: frozenset[str] = frozenset()) -> str:
    """What an auditor names when it misses the point: a surface quality."""
    return rng.choice([s.key for s in SURFACES if s.key not in avoid] or [SURFACES[0].key])


def audit_structure(specification: str, question: str, rubric: str, p: WorldParameters, rng: Random) -> dict[str, Any]:
    """Compares the rubric with what the specification's kinds demand for this question."""
    chinese, spec, drawn = is_chinese(question), read_skill(specification), read_skill(rubric)
    kinds = spec.kinds or frozenset(KINDS)
    due = [
        key for key in relevant(question)
        if (BY_KEY[key].kind in kinds or key in spec.named) and rng.random() < p.structural_knowledge
    ]  # fmt: skip
    covered = sum(abs(BY_KEY[k].points) * (1.0 if k in drawn.named else 0.5 if k in drawn.lax else 0.0) for k in due)
    total = sum(abs(BY_KEY[k].points) for k in due)
    omitted = sorted((k for k in due if k not in drawn.named), key=_weight)[:MAX_OMISSIONS]
    adequacy = (covered / total if total else 1.0) - SURFACE_COST * len(drawn.surfaces)
    adequacy += rng.gauss(0.0, p.structural_noise)
    named = [key if rng.random() < p.structural_naming else _mistake(rng, drawn.surfaces) for key in omitted]
    named = list(dict.fromkeys(named))
    return {
        "rationale": _structural_rationale(len(due), named, rng, chinese)[:500],
        "repair": phrasing.principle(named, rng, chinese)[:300],
        "adequacy": min(10, max(0, round(10 * adequacy))),
    }


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
        key = gap[0] if gap and rng.random() < p.contrastive_naming else _mistake(rng)
        text = phrasing.name(key, rng, chinese)
        rationale = f"关键差别：{text}。" if chinese else f"What decides is {text}; one does it, the other does not."
    return Preferred(rationale=rationale, label=label, odds=_odds(seen, p.contrastive_threshold))


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
    gap = differing(relevant(question), read_response(better), read_response(other))
    missing = [key for key in gap if key not in drawn.named]
    missing.sort(key=lambda key: (key not in told.named, _weight(key)))
    key = missing[0] if missing and rng.random() < p.contrastive_naming else _mistake(rng, drawn.surfaces)
    text = phrasing.name(key, rng, chinese)
    english = f"No criterion speaks of this: {text}. So both answers score alike."
    why = f"没有一条标准提到：{text}。" if chinese else english
    return {"explanation": why[:400], "principle": phrasing.principle([key], rng, chinese)[:300]}
