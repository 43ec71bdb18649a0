"""decoevo-dspy: score-decoupled co-evolution of a solver skill and a rubric-generator skill, for DSPy programs.

>>> from decoevo_dspy import DecoEvo, Task
>>> task = Task(name="advice", description="Everyday advice.", evaluation="Answers must be safe and complete.")
>>> DecoEvo(task, steps=2).settings.steps
2
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decoevo_dspy.metric import RubricMetric
    from decoevo_dspy.partition import Partitions
    from decoevo_dspy.result import CoEvolutionResult
    from decoevo_dspy.role_lms import RoleLMs
    from decoevo_dspy.roles import RubricGenerator, RubricJudge
    from decoevo_dspy.rubric import Criterion, Rubric, Verdict
    from decoevo_dspy.running.budget import Budget
    from decoevo_dspy.simulation import simulated_lm
    from decoevo_dspy.skill import Skill
    from decoevo_dspy.task import Task
    from decoevo_dspy.teleprompters import BudgetMatched, DecoEvo, DirectAudit, ScoreCoupledCoEvo, SkillOpt, TaskPrior

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "BudgetMatched",
    "CoEvolutionResult",
    "Criterion",
    "DecoEvo",
    "DirectAudit",
    "Partitions",
    "RoleLMs",
    "Rubric",
    "RubricGenerator",
    "RubricJudge",
    "RubricMetric",
    "ScoreCoupledCoEvo",
    "Skill",
    "SkillOpt",
    "Task",
    "TaskPrior",
    "Verdict",
    "simulated_lm",
]

_HOMES = {
    "Budget": "running.budget",
    "BudgetMatched": "teleprompters",
    "CoEvolutionResult": "result",
    "Criterion": "rubric",
    "DecoEvo": "teleprompters",
    "DirectAudit": "teleprompters",
    "Partitions": "partition",
    "RoleLMs": "role_lms",
    "Rubric": "rubric",
    "RubricGenerator": "roles",
    "RubricJudge": "roles",
    "RubricMetric": "metric",
    "ScoreCoupledCoEvo": "teleprompters",
    "Skill": "skill",
    "SkillOpt": "teleprompters",
    "Task": "task",
    "TaskPrior": "teleprompters",
    "Verdict": "rubric",
    "simulated_lm": "simulation",
}
"""Where each name lives. They are imported on first use: DSPy takes time, and ``decoevo --help`` needs none of it."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
