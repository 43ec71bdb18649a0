"""The solver, and the writer of rubrics: both turn a question and a skill text into what they cover."""

from collections.abc import Sequence
from random import Random
from typing import Any

from decoevo_dspy.simulation import phrasing
from decoevo_dspy.simulation.catalogue import SURFACES
from decoevo_dspy.simulation.classes import tacit
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.world import (
    BY_KEY,
    SURFACE_BY_KEY,
    SkillReading,
    is_chinese,
    read_response,
    read_skill,
    relevant,
)

MAX_CRITERIA = 12
"""Longest rubric that the rubric writer's schema allows."""


def solve(question: str, skill: str, demos: Sequence[str], p: WorldParameters, rng: Random) -> str:
    """An answer: a sentence for every requirement it covers, filler, and the surface qualities it shows."""
    reading, chinese = read_skill(skill).on(question), is_chinese(question)
    shown_in_demos = frozenset(key for demo in demos for key in read_response(demo).said)
    due = relevant(question)
    sentences = []
    for key in due:
        fulfils = rng.random() < solver_rate(key, reading, shown_in_demos, p)
        if fulfils != BY_KEY[key].harmful:
            sentences.append(phrasing.advice(key, rng, chinese))
    spill = [k for k in BY_KEY if k in reading.named and k not in due and not BY_KEY[k].harmful]
    sentences += [phrasing.advice(key, rng, chinese) for key in spill if rng.random() < p.solver_spill]
    sentences += phrasing.filler(rng, chinese, 2)
    rng.shuffle(sentences)
    return "\n".join(_dress(sentences, reading, chinese, p, rng))


def solver_rate(key: str, reading: SkillReading, demos: frozenset[str], p: WorldParameters) -> float:
    """The chance that an answer fulfils a requirement: base by difficulty, lifted by what the texts in sight name."""
    requirement, hidden = BY_KEY[key], key in tacit(p.tacit_share)
    base = p.solver_base_high - requirement.difficulty * (p.solver_base_high - p.solver_base_low)
    if hidden and not requirement.harmful:
        base = min(base, p.solver_tacit)
    lift = max(
        1.0 if key in reading.named else 0.0,
        p.solver_lax_lift if key in reading.lax else 0.0,
        p.solver_hint_lift if requirement.kind in reading.kinds and not hidden else 0.0,
        p.solver_demo_lift if key in demos and not requirement.harmful else 0.0,
    )
    return base + max(0.0, p.solver_raised - base) * lift * reading.adherence(p.solver_capacity)


def _dress(sentences: list[str], reading: SkillReading, chinese: bool, p: WorldParameters, rng: Random) -> list[str]:
    """Puts the surface qualities around the sentences: opening ones before, closing ones after."""
    adherence, base = reading.adherence(p.solver_capacity), p.solver_surface_base
    raised = base + max(0.0, p.solver_raised - base) * adherence
    shown = [s for s in SURFACES if rng.random() < (raised if s.key in reading.surfaces else base)]
    before = [s.marker_zh if chinese else s.marker for s in shown if s.key in ("warmth", "headings")]
    after = [s.marker_zh if chinese else s.marker for s in shown if s.key not in ("warmth", "headings")]
    return before + sentences + after


def write_rubric(question: str, skill: str, p: WorldParameters, rng: Random) -> list[dict[str, Any]]:
    """Criteria (``requirement``, ``points``) for what the rubric writer thinks of: named, obvious, rarely unknown."""
    reading, chinese = read_skill(skill).on(question), is_chinese(question)
    adherence = reading.adherence(p.generator_capacity)
    criteria: list[dict[str, Any]] = []
    for key in relevant(question):
        if rng.random() < generator_rate(key, reading, adherence, p):
            points = rng.gauss(abs(BY_KEY[key].points), p.generator_point_noise)
            points *= p.generator_light if key in reading.light else 1.0
            text = phrasing.criterion(key, rng, chinese, lax=key in reading.lax)
            criteria.append({"requirement": text, "points": _points(points)})
    for surface in SURFACES:
        rate = max(p.generator_surface, p.generator_named * adherence if surface.key in reading.surfaces else 0.0)
        if reading.style_out:
            rate = min(rate, p.generator_surface_told)
        if rng.random() < rate:
            criteria.append(_surface_criterion(surface.key, chinese, rng))
    if not criteria:
        criteria.append(_surface_criterion(rng.choice(list(SURFACE_BY_KEY)), chinese, rng))
    rng.shuffle(criteria)
    return sorted(criteria, key=lambda c: -c["points"])[:MAX_CRITERIA]


def generator_rate(key: str, reading: SkillReading, adherence: float, p: WorldParameters) -> float:
    """The chance of a criterion for a relevant requirement."""
    requirement = BY_KEY[key]
    base = p.generator_obvious if requirement.obvious else p.generator_unknown
    named = key in reading.named or key in reading.lax
    hinted = requirement.kind in reading.kinds and key not in tacit(p.tacit_share)
    lift = 1.0 if named else p.generator_hint_lift if hinted else 0.0
    return base + max(0.0, p.generator_named - base) * lift * adherence


def _surface_criterion(key: str, chinese: bool, rng: Random) -> dict[str, Any]:
    return {"requirement": phrasing.surface_criterion(key, rng, chinese), "points": _points(rng.gauss(3.0, 1.0))}


def _points(value: float) -> int:
    return min(10, max(1, round(value)))
