"""The tables of ``decoevo.toml``: which keys there are, of which type. Unknown keys are errors."""

import re
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from decoevo_dspy.simulation.worlds import known_world

SIMULATED = "simulated"
"""The model name of the embedded backbone, and the name of its benchmark and preset."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Table(BaseModel):
    """A table of the config file: unknown keys and wrong types are errors, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TaskTable(Table):
    """``[task]``: a preset, or a name with the public description and evaluation instructions."""

    preset: str | None = None
    name: str | None = None
    description: str | None = None
    evaluation: str | None = None
    solver_skill: str = ""
    generator_skill: str = ""


class DataTable(Table):
    """``[data]``: a benchmark's rows, from a local file or a pinned hub commit, and how they are partitioned.

    ``seed`` ``None`` splits by the run's seed. Without ``sizes`` the rows are dealt by default shares.
    """

    benchmark: str
    path: str | None = None
    hub: str | None = None
    file: str | None = None
    revision: str | None = None
    sizes: dict[str, int] | None = None
    seed: int | None = None


class GraderTable(Table):
    """``[grader]``: how the official grader works; further keys are settings of the benchmark's own grader."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    mode: Literal["official", "robust"] = "official"
    official_checkout: str | None = None


class ModelTable(Table):
    """One model of ``[models]``.

    Attributes:
        model: a LiteLLM name, or ``simulated``. A role without it takes everything it does not say from ``default``.
        api_base: the endpoint's address; ``api_key_env``: the NAME of the environment variable with its key.
        thinking: switch a Qwen3-like model's thinking on or off (vLLM and Ollama endpoints).
        temperature, max_tokens: sampling options that win over the roles' own.
        num_retries: retries of a failed call, with backoff; timeout: seconds for one request.
        structured, context_tokens, adapter, send_seed: see `decoevo_dspy.roles.lms.RoleOptions`.
        world_name: which simulated world (``v1``, the default, ``v2`` or ``weak-structural``), world: single
            parameters of it that are to be others, world_seed: its seed; all three for ``simulated`` only.
    """

    model: str | None = None
    api_base: str | None = None
    api_key_env: str | None = None
    thinking: bool | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    num_retries: int = Field(default=3, ge=0, le=20)
    timeout: float = Field(default=600.0, gt=0)
    structured: Literal["auto", "json_schema", "json_object", "none"] = "auto"
    context_tokens: int | None = Field(default=None, ge=512)
    adapter: Literal["chat", "json"] | None = None
    send_seed: bool | None = None
    world_name: str | None = None
    world: dict[str, float] | None = None
    world_seed: int = 0

    @model_validator(mode="before")
    @classmethod
    def _no_literal_key(cls, values: Any) -> Any:
        if isinstance(values, dict) and "api_key" in values:
            provider = re.sub(r"\W", "", str(values.get("model", "")).partition("/")[0]) or "openai"
            raise ValueError(
                "api_key: a key never stands in a config file; put it into an environment variable and name that here: "
                f'api_key_env = "{provider.upper()}_API_KEY"'
            )
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.api_key_env is not None and not _VARIABLE.fullmatch(self.api_key_env):
            raise ValueError("api_key_env takes the NAME of an environment variable, not the key itself")
        if self.api_base is not None:
            parts = urlsplit(self.api_base)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError('api_base must look like "http://host:port/v1"')
            if parts.username or parts.password or parts.query or parts.fragment:
                raise ValueError(
                    "api_base must not hold a user, a password, a query or a fragment; name the key by api_key_env"
                )
        if (self.world_name or self.world or self.world_seed) and self.model not in (SIMULATED, None):
            raise ValueError(f'world_name, world and world_seed belong to model = "{SIMULATED}"')
        known_world(self.world_name)
        return self


class ModelsTable(Table):
    """``[models]``: ``default``, and roles that have a model or options of their own."""

    default: ModelTable
    solver: ModelTable | None = None
    rubric_generator: ModelTable | None = None
    judge: ModelTable | None = None
    structural_auditor: ModelTable | None = None
    contrastive_auditor: ModelTable | None = None
    solver_rewriter: ModelTable | None = None
    generator_rewriter: ModelTable | None = None
    grader: ModelTable | None = None
    matcher: ModelTable | None = None

    @model_validator(mode="after")
    def _default_has_a_model(self) -> Self:
        if not self.default.model:
            raise ValueError("default needs a model")
        return self

    def role(self, name: str) -> ModelTable | None:
        """The table of a role, completed from ``default`` when it names no model; ``None`` when it has no table."""
        table: ModelTable | None = getattr(self, name)
        if table is None or table.model:
            return table
        said = table.model_dump(exclude_unset=True)
        return ModelTable(**{**self.default.model_dump(exclude_unset=True), **said})


class OptimizerTable(Table):
    """``[optimizer]``: the method, the run's seed and threads; every other key is one of `Settings`."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    method: str = "decoevo"
    seed: int = 0
    num_threads: int = Field(default=8, ge=1, le=256)
    skill_target: str | None = None
    response_field: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the file names."""
        return dict(self.model_extra or {})


class BudgetTable(Table):
    """``[budget]``: caps on logical calls, logical tokens and paid money."""

    max_calls: int | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    max_usd: float | None = Field(default=None, gt=0)
