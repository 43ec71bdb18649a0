"""Direct Audit: the probe audit records go to the solver rewriter; the generator never changes."""

from decoevo_dspy.teleprompters.base import CoEvolution
from decoevo_dspy.teleprompters.method import Method


class DirectAudit(CoEvolution):
    """The control for the audit text: the solver rewriter reads the findings that DecoEvo gives to its generator."""

    method = Method(name="direct-audit", findings_to="solver")
