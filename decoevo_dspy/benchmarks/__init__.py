"""Benchmarks: loaders, sealed gold and official graders; names are those of ``data.benchmark``."""

import importlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from decoevo_dspy.benchmarks.base import Dataset, Grader, GraderMode
from decoevo_dspy.errors import ConfigurationError, DataError, ExecutionError

_MODULES = {
    "healthbench": ("healthbench", "HealthBenchGrader"),
    "writingbench": ("writingbench", "WritingBenchGrader"),
    "researchqa": ("researchqa", "ResearchQAGrader"),
    "llmeval-med": ("llmeval_med", "LLMEvalMedGrader"),
    "eqbench-cw": ("eqbench_cw", "EQBenchGrader"),
    "jsonl": ("jsonl", "JsonlGrader"),
}
NAMES = (*_MODULES, "simulated")
"""The values of ``data.benchmark``."""


def _module(benchmark: str) -> Any:
    if benchmark == "simulated":
        return importlib.import_module("decoevo_dspy.benchmarks.simulated")
    if benchmark not in _MODULES:
        raise ConfigurationError(f"data.benchmark: {benchmark!r} is not known; use one of {', '.join(NAMES)}")
    return importlib.import_module(f"decoevo_dspy.benchmarks.{_MODULES[benchmark][0]}")


def load(benchmark: str, path: Path | str | None = None) -> Dataset:
    """Load a benchmark from a local file (``simulated`` needs none).

    Raises:
        ConfigurationError: unknown benchmark, or no path.
        DataError: the file cannot be used; the message names row, field and fix.
    """
    module = _module(benchmark)
    if benchmark == "simulated":
        return module.load_simulated()
    if path is None:
        raise ConfigurationError(f"data.path: benchmark {benchmark!r} needs a local file, or data.hub with data.file")
    return module.load(Path(path))


def load_hub(benchmark: str, hub: str, file: str, revision: str) -> Dataset:
    """Load one file of a Hugging Face data set at a pinned commit (40 hex digits), through the hub's own cache.

    Raises:
        ConfigurationError: unknown benchmark, a revision that is no commit, or huggingface_hub is not installed.
        DataError: no such data set, file or commit.
        ExecutionError: the hub cannot be reached.
    """
    _module(benchmark)
    if not re.fullmatch(r"[0-9a-f]{40}", revision or ""):
        raise ConfigurationError(f"data.revision: {revision!r} is no commit; pin {hub!r} to one, 40 hex digits")
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import (
            EntryNotFoundError,
            HfHubHTTPError,
            HFValidationError,
            LocalEntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ImportError:
        raise ConfigurationError("data.hub: huggingface_hub is not installed; pip install datasets") from None
    try:
        local = hf_hub_download(repo_id=hub, filename=file, repo_type="dataset", revision=revision)
    except LocalEntryNotFoundError:
        raise ExecutionError(
            f"data.hub: {hub}/{file} is not in the cache and the hub cannot be reached; try again"
        ) from None
    except (RepositoryNotFoundError, EntryNotFoundError, RevisionNotFoundError, HFValidationError) as error:
        name = type(error).__name__
        raise DataError(
            f"data.hub: {hub}/{file} at {revision} is not there ({name}); check hub, file and revision"
        ) from None
    except (HfHubHTTPError, OSError) as error:
        raise ExecutionError(f"data.hub: {hub}/{file} cannot be fetched ({type(error).__name__}); try again") from None
    return replace(load(benchmark, Path(local)), revision=revision)


def grader(
    benchmark: str, *, mode: GraderMode = "official", official_checkout: Path | str | None = None, **settings: Any
) -> Grader:
    """The benchmark's official grader.

    ``official_checkout`` is the user's clone of the benchmark's own repository: its prompt texts are read without being
    executed and verified by hash; without it our own words are used and scores say ``official_prompt: false``.
    ``settings`` are the grader class's keywords (what the official code leaves open), printed with every score.

    Raises:
        ConfigurationError: unknown benchmark or setting, impossible value, or a checkout without the prompt.
    """
    module = _module(benchmark)
    if benchmark == "simulated":
        kind = module.SimulatedGrader
    else:
        kind = getattr(module, _MODULES[benchmark][1])
        settings["mode"] = mode
        allowed = sorted(set(kind.__dataclass_fields__) - {"templates"})
        if unknown := sorted(set(settings) - set(allowed)):
            raise ConfigurationError(
                f"grader setting {unknown[0]!r} is not known for {benchmark}; use {', '.join(allowed)}"
            )
        if official_checkout is not None:
            if not hasattr(module, "official_templates"):
                raise ConfigurationError(f"official_checkout: {benchmark} has no official prompt; leave it out")
            settings["templates"] = module.official_templates(Path(official_checkout))
            if hasattr(module, "official_criteria"):
                settings.update(module.official_criteria(Path(official_checkout)))
    return kind(**settings)


__all__ = ["NAMES", "Dataset", "Grader", "grader", "load", "load_hub"]
