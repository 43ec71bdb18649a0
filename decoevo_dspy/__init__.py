"""decoevo-dspy: score-decoupled co-evolution of a solver skill and a rubric-generator skill, for DSPy programs.

>>> from decoevo_dspy import DecoEvo, Task
>>> task = Task(name="advice", description="Everyday advice.", evaluation="Answers must be safe and complete.")
>>> DecoEvo(task, steps=2).settings.steps
2
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decoevo_dspy.calls.budget import Budget
    from decoevo_dspy.roles import RubricGenerator, RubricJudge
    from decoevo_dspy.roles.lms import RoleLMs
    from decoevo_dspy.roles.metric import RubricMetric
    from decoevo_dspy.run.result import CoEvolutionResult
    from decoevo_dspy.simulation.engine import simulated_lm
    from decoevo_dspy.teleprompters import BudgetMatched, DecoEvo, DirectAudit, ScoreCoupledCoEvo, SkillOpt, TaskPrior
    from decoevo_dspy.values.partition import Partitions
    from decoevo_dspy.values.rubric import Criterion, Rubric, Verdict
    from decoevo_dspy.values.skill import Skill
    from decoevo_dspy.values.task import Task

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
    "Budget": "calls.budget",
    "BudgetMatched": "teleprompters",
    "CoEvolutionResult": "run.result",
    "Criterion": "values.rubric",
    "DecoEvo": "teleprompters",
    "DirectAudit": "teleprompters",
    "Partitions": "values.partition",
    "RoleLMs": "roles.lms",
    "Rubric": "values.rubric",
    "RubricGenerator": "roles",
    "RubricJudge": "roles",
    "RubricMetric": "roles.metric",
    "ScoreCoupledCoEvo": "teleprompters",
    "Skill": "values.skill",
    "SkillOpt": "teleprompters",
    "Task": "values.task",
    "TaskPrior": "teleprompters",
    "Verdict": "values.rubric",
    "simulated_lm": "simulation.engine",
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
