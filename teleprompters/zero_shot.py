"""Zero-shot: no optimisation; the initial skill is scored and returned."""

from decoevo_dspy.teleprompters.base import CoEvolution
from decoevo_dspy.teleprompters.method import Method, no_audits


class ZeroShot(CoEvolution):
    """The program as it is, under the same splits, so that every comparison has its origin."""

    method = Method(name="zero-shot", optimises=False, audits=no_audits)
