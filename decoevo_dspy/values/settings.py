"""Every setting of an optimisation, each as one annotated field. Pure.

A field holds the default, the allowed values, symbol, meaning, unit, source and, where there is one, the range of a
pilot search. Constructor keywords, keys of ``[optimizer]``, the written ``decoevo.toml``, docstrings and error messages
come from it; see `described`.
"""

import math
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal

from decoevo_dspy.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Range:
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
class Choice:
    """One of some fixed values."""

    values: tuple[str | bool, ...]

    def fits(self, value: object) -> bool:
        """Whether a value is one of them (and of the same type: 1 is not True)."""
        return any(value == known and type(value) is type(known) for known in self.values)

    def __str__(self) -> str:
        names = [f'"{known}"' if isinstance(known, str) else str(known).lower() for known in self.values]
        return ", ".join(names[:-1]) + f" or {names[-1]}"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a setting is: the values that it takes, its symbol and meaning, and the range of a pilot search.

    ``ours`` marks what the paper leaves open.
    """

    allowed: Range | Choice
    meaning: str
    symbol: str = ""
    ours: bool = False
    pilot: tuple[float, float] | None = None

    def __str__(self) -> str:
        pilot = f", pilot {self.pilot[0]:g} to {self.pilot[1]:g}" if self.pilot else ""
        said = f"{self.symbol}, {self.meaning}" if self.symbol else self.meaning
        return f"{said}; {self.allowed}{pilot}{' (ours)' if self.ours else ''}"


def whole(default: int, low: int, high: int | None = None, *, meaning: str, **more: Any) -> Any:
    """A setting that is a whole number from ``low`` to ``high``."""
    return _setting(default, Range(low=low, high=high, whole=True), meaning, more)


def number(
    default: float, low: float, high: float | None = None, *, ends: str = "[]", meaning: str, **more: Any
) -> Any:
    """A setting that is a number from ``low`` to ``high``; ``ends`` says which of the two belongs to the range."""
    allowed = Range(low=low, high=high, above=ends[0] == "(", below=ends[1] == ")")
    return _setting(default, allowed, meaning, more)


def choice(default: str | bool, *values: str | bool, meaning: str, **more: Any) -> Any:
    """A setting that is one of some values."""
    return _setting(default, Choice(values), meaning, more)


def option(default: Any = MISSING, *, default_factory: Any = MISSING, meaning: str) -> Any:
    """A keyword of a run that is no setting of its method."""
    return field(default=default, default_factory=default_factory, metadata={"meaning": meaning})


def _setting(default: Any, allowed: "Range | Choice", meaning: str, more: dict[str, Any]) -> Any:
    return field(default=default, metadata={"setting": Setting(allowed=allowed, meaning=meaning, **more)})


@dataclass(kw_only=True)
class Settings:
    """Settings of one run. See docs/METHOD.md §13."""

    steps: int = whole(12, 0, ours=True, meaning="inner steps; 0 optimises nothing")
    batch_size: int = whole(16, 1, symbol="size of B_t", ours=True, meaning="train questions per step")
    audit_every: int = whole(3, 1, symbol="K", pilot=(1, 6), meaning="inner steps from one audit to the next")
    patience: int = whole(2, 1, symbol="M", pilot=(1, 4), meaning="rejections in a row that trigger an audit early")
    epsilon: float = number(0.0, 0, 1, symbol="ε", meaning="gain in J that the solver gate asks for")
    delta: float = number(
        0.02, 0, 1, ends="(]", symbol="δ", pilot=(0.005, 0.1), meaning="rise that verification asks of an objective"
    )
    eta: float = number(
        0.01, 0, 1, symbol="η", pilot=(0, 0.05), meaning="fall that verification tolerates of any objective"
    )
    tau_tie: float = number(
        0.05, 0, 1, symbol="τ_tie", pilot=(0.01, 0.2), meaning="largest score gap of a near-tie, in [0, 1]"
    )
    gamma: float = number(
        0.05, 0, 1, ends="(]", symbol="γ", pilot=(0.01, 0.3), meaning="margin from which a pair counts as resolved"
    )
    rollouts: int = whole(4, 2, symbol="L", meaning="responses per question in the contrastive audit")
    pairs_per_question: int = whole(2, 1, ours=True, meaning="near-ties kept per question, smallest gaps first")
    edit_budget: int = whole(4, 1, 6, meaning="edits per rewrite, at most")
    failure_below: float = number(0.7, 0, 1, ends="(]", meaning="a verdict below this is a failure")
    judge_mode: Literal["criterion", "rubric", "logprob"] = choice(
        "criterion",
        "criterion",
        "rubric",
        "logprob",
        meaning="a judge call per criterion, a call per rubric, or token probabilities of yes and no",
    )
    both_orders: bool = choice(
        False, True, False, ours=True, meaning="ask every blind preference in both orders and keep what agrees"
    )
    verify_rubrics: Literal["fresh", "cached"] = choice(
        "fresh",
        "fresh",
        "cached",
        ours=True,
        meaning="verification draws rubrics and verdicts again, or takes the cached ones as the paper literally says",
    )
    contrastive_objective: Literal["net", "resolution"] = choice(
        "resolution",
        "net",
        "resolution",
        meaning="the share of resolved pairs (the paper), or that less the reversed share (ours)",
    )
    verify_z: float = number(
        1.645, 0, ours=True, meaning="standard errors that a rise must exceed as well; 0 is the paper's rule"
    )
    eta_z: float = number(
        0.0,
        0,
        ours=True,
        meaning="standard errors that a fall must exceed to veto as well; 0 is the paper's rule",
    )
    gate_z: float = number(
        0.0, 0, ours=True, meaning="standard errors that a gain at the solver gate must exceed as well"
    )
    max_ungraded: float = number(
        0.1, 0, 1, ends="[)", ours=True, meaning="largest share of a gate's questions that may be ungraded"
    )
    max_skill_chars: int = whole(8_000, 200, ours=True, meaning="longest skill, in characters")
    solver_temperature: float = number(0.7, 0, 2, ours=True, meaning="sampling temperature of responses")
    verify_temperature: float = number(0.7, 0, 2, ends="(]", ours=True, meaning="sampling temperature of fresh rubrics")

    def __post_init__(self) -> None:
        for part in fields(Settings):
            check(part.name, getattr(self, part.name))


NAMES = tuple(part.name for part in fields(Settings))

SETTINGS: dict[str, Setting] = {part.name: part.metadata["setting"] for part in fields(Settings)}
"""What each setting is, by name."""


def check(name: str, value: object) -> None:
    """Refuse a value that a setting does not take.

    Raises:
        ConfigurationError: naming setting, value and what is allowed.
    """
    if not SETTINGS[name].allowed.fits(value):
        raise ConfigurationError(f"{name} = {value!r}: give {SETTINGS[name].allowed}")


def described(owner: type, parts: Iterable[Field[Any]]) -> str:
    """A docstring's ``Args`` of dataclass fields: meaning, allowed values and the default that ``owner`` has."""
    lines: list[str] = []
    for part in sorted(parts, key=lambda part: bool(part.kw_only)):
        default: Any = getattr(owner, part.name, MISSING)
        if isinstance(default, Field):
            default = part.default if default.default is MISSING else default.default  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        meaning = str(part.metadata.get("setting") or part.metadata.get("meaning", ""))
        lines.append(f"    {part.name}: {meaning}" + (f"; default {default!r}" if default is not MISSING else ""))
    return "Args:\n" + "\n".join(lines)


Settings.__doc__ = f"{Settings.__doc__}\n\n{described(Settings, fields(Settings))}\n"
