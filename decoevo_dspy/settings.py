"""Every setting of an optimisation, with its symbol, unit, range, default and source. Pure.

The same names are constructor keywords of every teleprompter and keys of ``[optimizer]`` in a config file.
"""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

from decoevo_dspy.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one run. Source: METHOD.md §8; "ours" marks what the paper leaves open.

    Attributes:
        steps: inner steps; ≥ 0, default 12 (ours). 0 optimises nothing.
        batch_size: train questions per step, |B_t|; ≥ 1, default 16 (ours).
        audit_every: K, inner steps from one audit to the next; ≥ 1, default 3 (pilot 1…6).
        patience: M, rejections in a row that trigger an audit early; ≥ 1, default 2 (pilot 1…4).
        epsilon: ε, gain in J that the solver gate asks for; in [0, 1], default 0.
        delta: δ, rise that the generator gate asks of some objective; in (0, 1], default 0.02 (pilot 0.005…0.1).
        eta: η, fall that it tolerates of any objective; in [0, 1], default 0.01 (pilot 0…0.05).
        tau_tie: τ_tie, largest score gap of a near-tie; in [0, 1], default 0.05 (pilot 0.01…0.2).
        gamma: γ, margin from which a pair counts as resolved; in (0, 1], default 0.05 (pilot 0.01…0.3).
        rollouts: L, responses per question in the contrastive audit; ≥ 2, default 4.
        pairs_per_question: near-ties kept per question, smallest gaps first; ≥ 1, default 2 (ours).
        edit_budget: edits per rewrite; 1…6, default 4.
        failure_below: a verdict below this is a failure; in (0, 1], default 0.7.
        judge_mode: "criterion" (a call per criterion), "rubric" (a call per rubric) or "logprob" (token probabilities).
        both_orders: ask for every blind preference in both orders and keep what agrees (ours), default False.
        verify_rubrics: "fresh" draws the rubrics and verdicts of both generators again for the contrastive objective
            (ours; default), "cached" is the paper's literal reading.
        contrastive_objective: "resolution" is the share of resolved pairs (the paper's; default, see docs/EVIDENCE.md),
            "net" takes the reversed share off (ours).
        verify_z: standard errors that a rise must exceed as well; ≥ 0, default 1.645 (ours), 0 is the paper's rule.
        gate_z: the same for the solver gate; ≥ 0, default 0 (ours).
        max_ungraded: largest share of a gate's items that may be ungraded; in [0, 1), default 0.1 (ours).
        max_skill_chars: length cap of a skill in characters; ≥ 200, default 8000 (ours).
        solver_temperature: sampling temperature of responses; in [0, 2], default 0.7 (ours).
        verify_temperature: sampling temperature of fresh rubrics; in (0, 2], default 0.7 (ours).
    """

    steps: int = 12
    batch_size: int = 16
    audit_every: int = 3
    patience: int = 2
    epsilon: float = 0.0
    delta: float = 0.02
    eta: float = 0.01
    tau_tie: float = 0.05
    gamma: float = 0.05
    rollouts: int = 4
    pairs_per_question: int = 2
    edit_budget: int = 4
    failure_below: float = 0.7
    judge_mode: Literal["criterion", "rubric", "logprob"] = "criterion"
    both_orders: bool = False
    verify_rubrics: Literal["fresh", "cached"] = "fresh"
    contrastive_objective: Literal["net", "resolution"] = "resolution"
    verify_z: float = 1.645
    gate_z: float = 0.0
    max_ungraded: float = 0.1
    max_skill_chars: int = 8_000
    solver_temperature: float = 0.7
    verify_temperature: float = 0.7

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name))


_RANGES: dict[str, tuple[str, Any]] = {
    "steps": ("a whole number from 0", lambda v: _whole(v) and v >= 0),
    "batch_size": ("a whole number from 1", lambda v: _whole(v) and v >= 1),
    "audit_every": ("a whole number from 1", lambda v: _whole(v) and v >= 1),
    "patience": ("a whole number from 1", lambda v: _whole(v) and v >= 1),
    "epsilon": ("a number in [0, 1]", lambda v: _number(v) and 0 <= v <= 1),
    "delta": ("a number in (0, 1]", lambda v: _number(v) and 0 < v <= 1),
    "eta": ("a number in [0, 1]", lambda v: _number(v) and 0 <= v <= 1),
    "tau_tie": ("a number in [0, 1]", lambda v: _number(v) and 0 <= v <= 1),
    "gamma": ("a number in (0, 1]", lambda v: _number(v) and 0 < v <= 1),
    "rollouts": ("a whole number from 2", lambda v: _whole(v) and v >= 2),
    "pairs_per_question": ("a whole number from 1", lambda v: _whole(v) and v >= 1),
    "edit_budget": ("a whole number from 1 to 6", lambda v: _whole(v) and 1 <= v <= 6),
    "failure_below": ("a number in (0, 1]", lambda v: _number(v) and 0 < v <= 1),
    "judge_mode": ('"criterion", "rubric" or "logprob"', lambda v: v in ("criterion", "rubric", "logprob")),
    "both_orders": ("true or false", lambda v: isinstance(v, bool)),
    "verify_rubrics": ('"fresh" or "cached"', lambda v: v in ("fresh", "cached")),
    "contrastive_objective": ('"net" or "resolution"', lambda v: v in ("net", "resolution")),
    "verify_z": ("a number from 0", lambda v: _number(v) and v >= 0),
    "gate_z": ("a number from 0", lambda v: _number(v) and v >= 0),
    "max_ungraded": ("a number in [0, 1)", lambda v: _number(v) and 0 <= v < 1),
    "max_skill_chars": ("a whole number from 200", lambda v: _whole(v) and v >= 200),
    "solver_temperature": ("a number in [0, 2]", lambda v: _number(v) and 0 <= v <= 2),
    "verify_temperature": ("a number in (0, 2]", lambda v: _number(v) and 0 < v <= 2),
}

NAMES = tuple(field.name for field in fields(Settings))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check(name: str, value: Any) -> None:
    wanted, fits = _RANGES[name]
    if not fits(value):
        raise ConfigurationError(f"{name} = {value!r}: give {wanted}")
