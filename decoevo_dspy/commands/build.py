"""From a config to the things it describes: task, data, partitions, models, grader, optimiser."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy

from decoevo_dspy import benchmarks
from decoevo_dspy.benchmarks import preset, presets
from decoevo_dspy.benchmarks.base import Dataset, Grader
from decoevo_dspy.calls.budget import Budget
from decoevo_dspy.calls.secrets import KNOWN, MASK, mask_error, variable_shown
from decoevo_dspy.commands.config import SIMULATED, Config, ModelTable
from decoevo_dspy.errors import ConfigurationError, DataError
from decoevo_dspy.roles.lms import ROLES, RoleLMs, RoleOptions
from decoevo_dspy.run.events import Callback
from decoevo_dspy.run.student import inputs_for
from decoevo_dspy.run.workbench import Item
from decoevo_dspy.signatures.solver import AnswerQuestion
from decoevo_dspy.teleprompters import METHODS, CoEvolution
from decoevo_dspy.teleprompters.base import SHARES as OPTIMISED
from decoevo_dspy.teleprompters.state import Parts
from decoevo_dspy.values.leaks import Passages, protected_passages
from decoevo_dspy.values.methods import MATCHED
from decoevo_dspy.values.partition import Partitions, check_distinct, split
from decoevo_dspy.values.task import Task

SHARES = {"train": 0.27, "probe": 0.08, "solver_gate": 0.15, "generator_gate": 0.15, "diagnostic": 0.08, "test": 0.27}
"""How rows are dealt when ``data.sizes`` is missing (ours); about the proportions of the simulated world."""


KEYS: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "xai": ("XAI_API_KEY",),
}
"""Providers that answer nobody without a key, with the variables in which LiteLLM looks for it."""


def build_task(config: Config) -> Task:
    """The task: a preset's texts, replaced by those that the config gives itself."""
    table = config.task
    given = {
        key: value
        for key in ("name", "description", "evaluation", "solver_skill", "generator_skill")
        if (value := getattr(table, key))
    }
    name = table.preset or (config.data.benchmark if config.data.benchmark in presets() else None)
    return replace(preset(name), **given) if name else Task(**given)


def load_data(config: Config) -> Dataset:
    """The benchmark's rows, with the gold sealed.

    Raises:
        ConfigurationError: naming key, row and field.
    """
    data = config.data
    if data.hub:
        return benchmarks.load_hub(data.benchmark, data.hub, data.file or "", data.revision or "")
    return benchmarks.load(data.benchmark, config.path(data.path) if data.path else None)


def build_partitions(config: Config, dataset: Dataset, seed: int | None = None) -> Partitions:
    """The seven partitions, dealt by ``data.sizes`` in an order drawn from ``seed`` (else ``data.seed``, the run's).

    Questions of one family (`Dataset.kin`) never stand in two partitions.

    Raises:
        DataError: for too few rows, or duplicates.
    """
    if seed is None:
        seed = config.optimizer.seed if config.data.seed is None else config.data.seed
    check_distinct((question, "the data") for question in dataset.questions)
    kin = dataset.kin
    families = [q if q.group is not None else replace(q, group=kin.get(q.id)) for q in dataset.questions]
    sizes = config.data.sizes if config.data.sizes is not None else default_sizes(config, len(dataset.questions))
    dealt = split(families, sizes, seed)
    own = {question.id: question for question in dataset.questions}
    partitions = Partitions(**{name: tuple(own[q.id] for q in members) for name, members in dealt.items()})
    for name in (*OPTIMISED, "test"):
        if not getattr(partitions, name):
            raise DataError(f"data.sizes.{name}: the partition is empty; give it at least one question")
    return partitions


def default_sizes(config: Config, rows: int) -> dict[str, int]:
    """Partition sizes when the config names none.

    Raises:
        DataError: for fewer rows than every partition needs.
    """
    own = benchmarks.find(config.data.benchmark).sizes
    if own is not None:
        return dict(own)
    sizes = {name: int(share * rows) for name, share in SHARES.items()}
    if not all(sizes.values()):
        raise DataError(f"too few rows: {rows} cannot be dealt to {', '.join(SHARES)}; give at least 13, or data.sizes")
    return sizes


def build_student() -> dspy.Module:
    """The program under optimisation: one `dspy.Predict` over `AnswerQuestion`."""
    return dspy.Predict(AnswerQuestion)


def parts_for(partitions: Partitions, student: dspy.Module) -> Parts:
    """The partitions that the loop may touch, with the student's inputs for every question."""
    return Parts(
        **{
            name: [Item(question=q, inputs=inputs_for(q, student), partition=name) for q in getattr(partitions, name)]
            for name in OPTIMISED
        }
    )


def protected_text(dataset: Dataset, partitions: Partitions) -> Passages:
    """Hashes of what no skill may copy: the gold, and the test and diagnostic questions."""
    questions = (*partitions.test, *partitions.diagnostic)
    return dataset.gold.passages() | protected_passages(q.text for q in questions)


def build_grader(config: Config) -> Grader:
    """The benchmark's official grader, as ``[grader]`` sets it up.

    Raises:
        ConfigurationError: for a setting it does not have.
    """
    table = config.grader
    checkout = config.path(table.official_checkout) if table.official_checkout else None
    settings = dict(table.model_extra or {})
    try:
        return benchmarks.grader(config.data.benchmark, mode=table.mode, official_checkout=checkout, **settings)
    except TypeError:
        raise ConfigurationError(
            f"grader.{next(iter(settings), 'mode')}: the grader of {config.data.benchmark} has no such setting"
        ) from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{config.file or 'config'}: grader: {error}") from None


def build_role_lms(config: Config) -> RoleLMs:
    """One LM per table of ``[models]``; roles without a table share the default's.

    Raises:
        ConfigurationError: when a named environment variable is not set, or a model cannot be made.
    """
    tables = {name: table for name in ("default", *ROLES) if (table := config.models.role(name)) is not None}
    lms: dict[str, Any] = {name: _lm(config, name, table) for name, table in tables.items()}
    options = {
        name: RoleOptions(
            structured=table.structured,
            context_tokens=table.context_tokens,
            send_seed=table.send_seed,
            adapter=table.adapter,
        )
        for name, table in tables.items()
    }
    return RoleLMs(**lms, options=options)


def _lm(config: Config, role: str, table: ModelTable) -> dspy.BaseLM:
    place = f"{config.file or 'config'}: models.{role}"
    sampling = {key: value for key in ("temperature", "max_tokens") if (value := getattr(table, key)) is not None}
    model = table.model or ""
    if model == SIMULATED:
        return _simulated(place, table, sampling)
    options: dict[str, Any] = {
        **sampling,
        **_thinking(place, table),
        "num_retries": table.num_retries,
        "timeout": table.timeout,
    }
    if table.api_base:
        options["api_base"] = table.api_base
    if table.api_key_env:
        key = os.environ.get(table.api_key_env)
        if not key:
            name = variable_shown(table.api_key_env)
            wrong = "the environment variable that it names" if name == MASK else f"the environment variable {name}"
            raise ConfigurationError(f"{place}.api_key_env: {wrong} is not set; it takes a NAME, not the key itself")
        KNOWN.learn_value(key)
        options["api_key"] = key
    elif table.api_base:
        options["api_key"] = "none"  # a local endpoint asks for none, but the clients insist on a value
    elif (keys := KEYS.get(model.partition("/")[0])) and not any(map(os.environ.get, keys)):
        raise ConfigurationError(
            f"{place}: {model} needs a key: set the environment variable {' or '.join(keys)}, or name another one by "
            "api_key_env"
        )
    try:
        return dspy.LM(model, engine="litellm", cache=False, **options)
    except (ValueError, dspy.LMError) as error:
        line = " ".join(mask_error(str(error), options).split())[:200]
        raise ConfigurationError(f"{place}: {model} cannot be used with these options: {line}") from None


def _simulated(place: str, table: ModelTable, sampling: Mapping[str, Any]) -> dspy.BaseLM:
    from decoevo_dspy.simulation.engine import simulated_lm
    from decoevo_dspy.simulation.worlds import named_world

    try:
        parameters = named_world(table.world_name, table.world)
    except ValueError as error:
        raise ConfigurationError(f"{place}.{error}") from None
    return simulated_lm(table.world_seed, parameters, **sampling)


def _thinking(place: str, table: ModelTable) -> dict[str, Any]:
    """How this endpoint is told to think or not: vLLM through its chat template, Ollama by an option."""
    if table.thinking is None:
        return {}
    provider = (table.model or "").partition("/")[0]
    if provider in ("ollama", "ollama_chat"):
        return {"think": table.thinking}
    if provider in ("hosted_vllm", "vllm") or (provider == "openai" and table.api_base):
        return {"extra_body": {"chat_template_kwargs": {"enable_thinking": table.thinking}}}
    raise ConfigurationError(
        f"{place}.thinking: only vLLM and Ollama endpoints are told so (hosted_vllm/…, openai/… with api_base, "
        "ollama_chat/…); leave it out"
    )


def build_budget(config: Config) -> Budget:
    """The caps of ``[budget]``."""
    return Budget(**config.budget.model_dump())


def build_optimizer(
    config: Config,
    *,
    log_dir: Path,
    resume: bool,
    callbacks: Iterable[Callback] = (),
    budget: Budget | None = None,
    role_lms: RoleLMs | None = None,
) -> CoEvolution:
    """The optimiser of ``optimizer.method``; ``budget`` replaces the config's."""
    table = config.optimizer
    settings = table.settings
    if table.method in MATCHED:
        settings.pop("steps", None)  # its budget decides
    return METHODS[table.method](
        build_task(config),
        role_lms=role_lms or build_role_lms(config),
        num_threads=table.num_threads,
        budget=budget or build_budget(config),
        seed=table.seed,
        log_dir=log_dir,
        resume=resume,
        callbacks=callbacks,
        skill_target=table.skill_target,
        response_field=table.response_field,
        **settings,
    )
