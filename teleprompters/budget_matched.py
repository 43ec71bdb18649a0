"""Budget-Matched: SkillOpt with more solver steps, up to the calls and tokens of a paired DecoEvo run."""

from typing import Any

from decoevo_dspy.errors import ConfigurationError
from decoevo_dspy.teleprompters.base import CoEvolution
from decoevo_dspy.teleprompters.method import Method, no_audits
from decoevo_dspy.values.task import Task

MOST_STEPS = 1_000
"""Inner steps after which it stops even if the budget is not used up."""


class BudgetMatched(CoEvolution):
    """The control for compute: give ``budget=Budget.from_run(path_of_the_decoevo_run)``; ``steps`` defaults to 1,000.

    It stops at the first cap reached, within one solver step of it. Keywords and errors: see
    `decoevo_dspy.teleprompters.base.CoEvolution`.

    Raises:
        ConfigurationError: without a cap on calls or tokens.
    """

    method = Method(name="budget-matched", audits=no_audits)

    def __init__(self, task: Task, *, steps: int = MOST_STEPS, **keywords: Any) -> None:
        super().__init__(task, steps=steps, **keywords)
        if self.budget.max_calls is None and self.budget.max_tokens is None:
            raise ConfigurationError(
                "budget-matched needs a budget: give budget=Budget.from_run(path of a decoevo run)"
            )
