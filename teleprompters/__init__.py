"""The compared methods: `coevolution` is the one loop, and every other file here says only how its method differs."""

from decoevo_dspy.teleprompters.ablations import ABLATIONS
from decoevo_dspy.teleprompters.base import CoEvolution
from decoevo_dspy.teleprompters.budget_matched import BudgetMatched
from decoevo_dspy.teleprompters.decoevo import DecoEvo
from decoevo_dspy.teleprompters.direct_audit import DirectAudit
from decoevo_dspy.teleprompters.score_coupled import ScoreCoupledCoEvo
from decoevo_dspy.teleprompters.skillopt import SkillOpt
from decoevo_dspy.teleprompters.task_prior import TaskPrior
from decoevo_dspy.teleprompters.zero_shot import ZeroShot

METHODS: dict[str, type[CoEvolution]] = {
    cls.method.name: cls
    for cls in (ZeroShot, SkillOpt, ScoreCoupledCoEvo, DecoEvo, TaskPrior, BudgetMatched, DirectAudit, *ABLATIONS)
}
"""The methods by their names on the command line (docs/METHOD.md §11)."""

__all__ = [
    "ABLATIONS",
    "METHODS",
    "BudgetMatched",
    "CoEvolution",
    "DecoEvo",
    "DirectAudit",
    "ScoreCoupledCoEvo",
    "SkillOpt",
    "TaskPrior",
    "ZeroShot",
]
