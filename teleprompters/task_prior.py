"""Task-Prior: π_str is appended to a generator skill that never changes; no audits."""

from decoevo_dspy.teleprompters.base import CoEvolution
from decoevo_dspy.teleprompters.method import Method, no_audits


class TaskPrior(CoEvolution):
    """The control for a richer prior: SkillOpt whose generator skill holds the structural-audit specification."""

    method = Method(name="task-prior", audits=no_audits, prior=True)
