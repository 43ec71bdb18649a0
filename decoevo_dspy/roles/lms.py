"""Which LM serves which role, and what its endpoint can do. The paper shares one; any role may have its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

import dspy

from decoevo_dspy.calls.adapter import Structured
from decoevo_dspy.errors import ConfigurationError

ROLES = (
    "solver",
    "rubric_generator",
    "judge",
    "structural_auditor",
    "contrastive_auditor",
    "solver_rewriter",
    "generator_rewriter",
    "grader",
    "matcher",
)


@dataclass(frozen=True, kw_only=True)
class RoleOptions:
    """What the endpoint of a role can do.

    Attributes:
        structured: the ``response_format`` it takes; "auto" sends a JSON schema with bounds (default).
        context_tokens: its window in tokens; longer inputs are cut in the middle and counted. ``None`` = unlimited.
        send_seed: whether requests carry a derived ``seed``; ``None`` asks LiteLLM whether the provider takes one.
        adapter: how the *solver* is asked: DSPy's "chat" markers or schema-constrained "json". ``None`` keeps the
            adapter of the surrounding DSPy context (chat without one). The other roles always answer in JSON.
    """

    structured: Structured = "auto"
    context_tokens: int | None = None
    send_seed: bool | None = None
    adapter: Literal["chat", "json"] | None = None


@dataclass(frozen=True, kw_only=True)
class RoleLMs:
    """One LM per role; a role without its own uses ``default``, and that one the LM of the DSPy context.

    ``options`` holds `RoleOptions` by role name or ``"default"``.
    """

    default: dspy.BaseLM | None = None
    solver: dspy.BaseLM | None = None
    rubric_generator: dspy.BaseLM | None = None
    judge: dspy.BaseLM | None = None
    structural_auditor: dspy.BaseLM | None = None
    contrastive_auditor: dspy.BaseLM | None = None
    solver_rewriter: dspy.BaseLM | None = None
    generator_rewriter: dspy.BaseLM | None = None
    grader: dspy.BaseLM | None = None
    matcher: dspy.BaseLM | None = None
    options: Mapping[str, RoleOptions] = field(default_factory=dict[str, RoleOptions])

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name != "options" and value is not None and not isinstance(value, dspy.BaseLM):
                raise ConfigurationError(f"role_lms.{f.name}: give a dspy.LM, not {type(value).__name__}")
        for name in self.options:
            if name != "default" and name not in ROLES:
                raise ConfigurationError(f"role_lms.options has no role {name!r}; the roles are {', '.join(ROLES)}")

    def lm(self, role: str) -> dspy.BaseLM:
        """The LM of a role.

        Raises:
            ConfigurationError: when there is none, neither here nor in the DSPy context.
        """
        lm = getattr(self, role) or self.default or dspy.settings.lm
        if not isinstance(lm, dspy.BaseLM):
            raise ConfigurationError(
                f"no LM for the role {role!r}: give role_lms=RoleLMs(default=dspy.LM(...)), or configure dspy with one"
            )
        return lm

    def option(self, role: str) -> RoleOptions:
        """The options of a role."""
        return self.options.get(role) or self.options.get("default") or RoleOptions()
