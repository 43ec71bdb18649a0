"""SkillOpt: the solver loop alone; the rubric generator never changes."""

from decoevo_dspy.teleprompters.base import CoEvolution
from decoevo_dspy.teleprompters.method import Method, no_audits


class SkillOpt(CoEvolution):
    """The solver-only baseline: DecoEvo without its outer loop (docs/METHOD.md §11).

    Keywords of the outer loop have no effect here, so that one configuration serves every method.
    """

    method = Method(name="skillopt", audits=no_audits)
