"""SC-CoEvo: the same audits, proposals, trigger and splits; the generator is accepted by the solver's own score."""

from decoevo_dspy.teleprompters.base import CoEvolution
from decoevo_dspy.teleprompters.method import Method
from decoevo_dspy.teleprompters.verification import ScoreVerification


class ScoreCoupledCoEvo(CoEvolution):
    """The score-coupled baseline: g′ is accepted iff J_{V_g}(s_t, g′) > J_{V_g}(s_t, g_t) + δ (docs/METHOD.md §11)."""

    method = Method(name="sc-coevo", verification=ScoreVerification())
