"""Budget-Matched: SkillOpt with more solver steps, up to the calls and tokens of a paired DecoEvo run."""

from dataclasses import dataclass

from decoevo_dspy.errors import ConfigurationError
from decoevo_dspy.teleprompters.base import CoEvolution
from decoevo_dspy.teleprompters.method import Method, no_audits
from decoevo_dspy.values.settings import whole

MOST_STEPS = 1_000
"""Inner steps after which it stops even if the budget is not used up."""


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetMatched(CoEvolution):
    """The control for compute: give ``budget=Budget.from_run(path_of_the_decoevo_run)``; ``steps`` defaults to 1,000.

    It stops at the first cap reached, within one solver step of it.

    Raises:
        ConfigurationError: without a cap on calls or tokens.
    """

    method = Method(name="budget-matched", audits=no_audits)

    steps: int = whole(MOST_STEPS, 0, meaning="inner steps after which it stops even if the budget is not used up")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget.max_calls is None and self.budget.max_tokens is None:
            raise ConfigurationError(
                "budget-matched needs a budget: give budget=Budget.from_run(path of a decoevo run)"
            )
