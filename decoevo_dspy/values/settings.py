"""Every setting of an optimisation, with its symbol, unit, range, default and source. Pure.

The same names are constructor keywords of every teleprompter and keys of ``[optimizer]`` in a config file.
"""

import math
from dataclasses import dataclass, fields
from typing import Literal

from decoevo_dspy.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one run. See docs/METHOD.md §13; "ours" marks what the paper leaves open.

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


@dataclass(frozen=True, kw_only=True)
class _Range:
    """Numbers from ``low`` to ``high`` (``None`` = no limit); ``above`` and ``below`` leave out that end."""

    low: float
    high: float | None = None
    whole: bool = False
    above: bool = False
    below: bool = False

    def fits(self, value: object) -> bool:
        """Whether a value is such a number; booleans, NaN and infinities are not."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        if not math.isfinite(value) or value < self.low or (self.above and value == self.low):
            return False
        return self.high is None or value < self.high or (value == self.high and not self.below)

    def __str__(self) -> str:
        if self.whole:
            return f"a whole number from {self.low:g}" + ("" if self.high is None else f" to {self.high:g}")
        if self.high is None:
            return f"a number from {self.low:g}"
        return f"a number in {'(' if self.above else '['}{self.low:g}, {self.high:g}{')' if self.below else ']'}"


@dataclass(frozen=True)
class _Choice:
    """One of some fixed values."""

    values: tuple[str | bool, ...]

    def fits(self, value: object) -> bool:
        """Whether a value is one of them (and of the same type: 1 is not True)."""
        return any(value == known and type(value) is type(known) for known in self.values)

    def __str__(self) -> str:
        names = [f'"{known}"' if isinstance(known, str) else str(known).lower() for known in self.values]
        return ", ".join(names[:-1]) + f" or {names[-1]}"


_ALLOWED: dict[str, _Range | _Choice] = {
    "steps": _Range(low=0, whole=True),
    "batch_size": _Range(low=1, whole=True),
    "audit_every": _Range(low=1, whole=True),
    "patience": _Range(low=1, whole=True),
    "epsilon": _Range(low=0, high=1),
    "delta": _Range(low=0, high=1, above=True),
    "eta": _Range(low=0, high=1),
    "tau_tie": _Range(low=0, high=1),
    "gamma": _Range(low=0, high=1, above=True),
    "rollouts": _Range(low=2, whole=True),
    "pairs_per_question": _Range(low=1, whole=True),
    "edit_budget": _Range(low=1, high=6, whole=True),
    "failure_below": _Range(low=0, high=1, above=True),
    "judge_mode": _Choice(("criterion", "rubric", "logprob")),
    "both_orders": _Choice((True, False)),
    "verify_rubrics": _Choice(("fresh", "cached")),
    "contrastive_objective": _Choice(("net", "resolution")),
    "verify_z": _Range(low=0),
    "gate_z": _Range(low=0),
    "max_ungraded": _Range(low=0, high=1, below=True),
    "max_skill_chars": _Range(low=200, whole=True),
    "solver_temperature": _Range(low=0, high=2),
    "verify_temperature": _Range(low=0, high=2, above=True),
}

NAMES = tuple(field.name for field in fields(Settings))


def _check(name: str, value: object) -> None:
    if not _ALLOWED[name].fits(value):
        raise ConfigurationError(f"{name} = {value!r}: give {_ALLOWED[name]}")
