"""What an optimisation returns beside the program: skills, history, usage, partitions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decoevo_dspy.roles.rubric_generator import RubricGenerator
from decoevo_dspy.run.events import Event
from decoevo_dspy.values.skill import Skill


@dataclass(frozen=True, kw_only=True)
class CoEvolutionResult:
    """Everything a run leaves behind; attached to the returned program as ``detailed_results``.

    Attributes:
        method: the compared method, as on the command line.
        seed: the run's seed.
        solver_skills: s_0 and every accepted solver skill; the last is the one deployed.
        generator_skills: g_0 and every accepted generator skill.
        proxy: J on V_s of the last solver under the last generator, in [0, 1]. A model-selection score: never report it
            as performance, and never compare it across generators.
        steps: inner steps that ran to their decision.
        history: the event log.
        usage: per role: calls, cached_calls, prompt_tokens, completion_tokens, usd, and more.
        replies: per role: replies read, parsed, unusable by kind, final failures.
        partitions: the question ids of every partition.
        stopped_by: "steps", "budget", "endpoint", "interrupt" or "error".
        wall_s: seconds from start to end of this process's part.
        budget: caps that were set, and logical calls and tokens and paid money used against them.
        folder: the run's folder, when it has one.
    """

    method: str
    seed: int
    solver_skills: Sequence[Skill]
    generator_skills: Sequence[Skill]
    proxy: float | None
    steps: int
    history: Sequence[Event]
    usage: Mapping[str, Mapping[str, Any]]
    replies: Mapping[str, Mapping[str, int]]
    partitions: Mapping[str, Sequence[str]]
    stopped_by: str
    wall_s: float
    folder: Path | None = None
    budget: Mapping[str, float] = field(default_factory=dict[str, float])
    gate_queries: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def solver_skill(self) -> Skill:
        """The last accepted solver skill."""
        return self.solver_skills[-1]

    @property
    def generator_skill(self) -> Skill:
        """The last accepted generator skill."""
        return self.generator_skills[-1]

    @property
    def rubric_generator(self) -> RubricGenerator:
        """A module question → rubric with the last accepted generator skill."""
        return RubricGenerator(self.generator_skill)

    def to_dict(self) -> dict[str, Any]:
        """The figures of ``result.json``; ``official`` is added by the evaluation. ``proxy`` is on 0–100 there."""
        return {
            "method": self.method,
            "seed": self.seed,
            "solver_skill": self.solver_skill.text,
            "generator_skill": self.generator_skill.text,
            "official": None,
            "proxy": None if self.proxy is None else round(100 * self.proxy, 4),
            "steps": self.steps,
            "solver_accepted": len(self.solver_skills) - 1,
            "generator_accepted": len(self.generator_skills) - 1,
            "usage": {role: dict(usage) for role, usage in self.usage.items()},
            "replies": {role: dict(counts) for role, counts in self.replies.items()},
            "gate_queries": dict(self.gate_queries),
            "budget": dict(self.budget),
            "wall_s": round(self.wall_s, 3),
            "stopped_by": self.stopped_by,
        }
