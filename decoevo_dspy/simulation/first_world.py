"""The behavioural parameters of the first simulated world, chosen a priori by plausibility and then fixed."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FirstWorld:
    """How well the simulated model does each job. All are probabilities in [0, 1] unless the comment says otherwise."""

    # solver
    solver_base_low: float = 0.25
    """Chance that an answer covers the hardest requirement when no text names it."""
    solver_base_high: float = 0.6
    """The same for the easiest requirement; others lie between by their difficulty."""
    solver_raised: float = 0.9
    """Chance of covering a requirement that the skill names, within capacity."""
    solver_capacity: int = 12
    """Rules (≥ 1) that the solver can adhere to; beyond it, adherence shrinks as capacity ÷ rules."""
    solver_hint_lift: float = 0.1
    """Share of the way from base to raised that naming only the kind of a requirement brings."""
    solver_demo_lift: float = 0.3
    """Share of the way from base to raised that one demonstration of a requirement brings."""
    solver_lax_lift: float = 0.4
    """Share of the way from base to raised that a softened rule brings."""
    solver_spill: float = 0.03
    """Chance of following a named rule where the question does not call for it."""
    solver_surface_base: float = 0.4
    """Chance of showing a surface quality unasked; named ones are raised like requirements."""

    # rubric generator
    generator_obvious: float = 0.85
    """Chance of a criterion for a relevant obvious requirement, unasked."""
    generator_unknown: float = 0.04
    """Chance of a criterion for a relevant requirement that is neither obvious nor named."""
    generator_named: float = 0.92
    """Chance of a criterion for a relevant requirement that the skill names, within capacity."""
    generator_hint_lift: float = 0.15
    """Share of the way to named that naming only the kind of a requirement brings."""
    generator_capacity: int = 16
    """Rules (≥ 1) that the rubric writer can adhere to; beyond it, adherence shrinks as capacity ÷ rules."""
    generator_surface: float = 0.15
    """Chance, for each surface quality, of a criterion for it unasked."""
    generator_point_noise: float = 1.5
    """Standard deviation (points, ≥ 0) of a criterion's points around the true ones."""

    # judge
    judge_false_positive: float = 0.05
    """Chance that an unmet criterion is judged met."""
    judge_false_negative: float = 0.08
    """Chance that a met criterion is judged unmet."""
    judge_lax_pass: float = 0.8
    """Chance that a softened criterion is judged met although the answer does not meet it."""

    # structural auditor
    structural_knowledge: float = 0.85
    """Chance of knowing, for this audit, that a relevant requirement of a kind listed in the specification is due."""
    structural_naming: float = 0.75
    """Chance that each of the (up to two) omissions reported is a true one; otherwise a surface quality is named."""
    structural_noise: float = 0.1
    """Standard deviation (≥ 0) of the adequacy on [0, 1]."""

    # contrastive auditor
    contrastive_accuracy: float = 0.85
    """In [0.5, 1]: 1 reads the true difference, 0.5 is a coin; in between, a share 2·(1 − accuracy) of coin flips."""
    contrastive_noise: float = 0.05
    """Standard deviation (≥ 0) of the utility difference as the auditor sees it."""
    contrastive_threshold: float = 0.06
    """Utility difference (share of the positive gold points, ≥ 0) below which two answers are equivalent."""
    contrastive_position_bias: float = 0.02
    """Utility credit, in [−1, 1], for the answer shown first."""
    contrastive_score_pull: float = 0.5
    """Weight of the rubric-score difference in a preference that is formed with the scores in sight."""
    contrastive_naming: float = 0.7
    """Chance that the deciding requirement is named; otherwise a surface quality is."""

    # rewriters
    rewriter_miss: float = 0.2
    """Chance that a recurring finding is overlooked."""
    rewriter_drop: float = 0.08
    """Chance, per rewrite, that an existing rule gets lost."""
    rewriter_surface: float = 0.15
    """Chance, per rewrite, that a surface quality is added."""
    rewriter_soften: float = 0.1
    """Chance, per rewrite, that the hardest rule is replaced by an easy form of it."""
    rewriter_repeat: float = 0.3
    """Weight of a finding that a rejected edit has already tried."""

    # matcher
    matcher_false_positive: float = 0.02
    """Chance that two criteria without a shared requirement are matched."""
    matcher_false_negative: float = 0.08
    """Chance that two criteria with a shared requirement are not matched."""
