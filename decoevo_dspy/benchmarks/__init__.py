"""Benchmarks: loaders, sealed gold and official graders; names are those of ``data.benchmark``."""

import importlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from decoevo_dspy.benchmarks.base import Benchmark, Dataset, GoldCriteria, Grader, GraderMode
from decoevo_dspy.errors import ConfigurationError, DataError, ExecutionError
from decoevo_dspy.values.task import Question, Task

_FILES = ("healthbench", "writingbench", "researchqa", "llmeval_med", "eqbench_cw", "jsonl", "simulated")
"""The files of this folder that are benchmarks, in the order in which they are listed to users."""

NAMES = tuple(file.replace("_", "-") for file in _FILES)
"""The values of ``data.benchmark``."""


def find(benchmark: str) -> Benchmark:
    """The benchmark of this name; its file is imported when it is first asked for.

    Raises:
        ConfigurationError: unknown benchmark.
    """
    if benchmark not in NAMES:
        raise ConfigurationError(f"data.benchmark: {benchmark!r} is not known; use one of {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{benchmark.replace('-', '_')}").BENCHMARK


def presets() -> tuple[str, ...]:
    """The values of ``task.preset``: the benchmarks with a public task."""
    return tuple(name for name in NAMES if find(name).task is not None)


def preset(name: str) -> Task:
    """The public task of a benchmark.

    Raises:
        ConfigurationError: when there is no preset of that name.
    """
    task = find(name).task if name in NAMES else None
    if task is None:
        raise ConfigurationError(f"task.preset: {name!r} is not known; use one of {', '.join(presets())}")
    return task


def gold_criteria(benchmark: str, question: Question, gold: Any) -> GoldCriteria:
    """The gold criteria of one question with their points (negative = to be avoided); empty where it has none.

    Raises:
        ConfigurationError: for a benchmark without criteria per question.
    """
    read = find(benchmark).gold_criteria
    if read is None:
        raise ConfigurationError(f"{benchmark}: there are no criteria per question to align with")
    return read(question, gold)


def load(benchmark: str, path: Path | str | None = None) -> Dataset:
    """Load a benchmark from a local file (``simulated`` needs none).

    Raises:
        ConfigurationError: unknown benchmark, or no path.
        DataError: the file cannot be used; the message names row, field and fix.
    """
    found = find(benchmark)
    if path is None and found.needs_file:
        raise ConfigurationError(f"data.path: benchmark {benchmark!r} needs a local file, or data.hub with data.file")
    return found.load(Path(path or ""))


def load_hub(benchmark: str, hub: str, file: str, revision: str) -> Dataset:
    """Load one file of a Hugging Face data set at a pinned commit (40 hex digits), through the hub's own cache.

    Raises:
        ConfigurationError: unknown benchmark, a revision that is no commit, or huggingface_hub is not installed.
        DataError: no such data set, file or commit.
        ExecutionError: the hub cannot be reached.
    """
    find(benchmark)
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
    found = find(benchmark)
    allowed = sorted(set(getattr(found.grader, "__dataclass_fields__", ())) - {"templates"})
    if "mode" in allowed:
        settings["mode"] = mode
    if unknown := sorted(set(settings) - set(allowed)):
        raise ConfigurationError(
            f"grader setting {unknown[0]!r} is not known for {benchmark}; use {', '.join(allowed) or 'none'}"
        )
    if official_checkout is not None:
        if found.official_templates is None:
            raise ConfigurationError(f"official_checkout: {benchmark} has no official prompt; leave it out")
        settings["templates"] = found.official_templates(Path(official_checkout))
        if found.official_criteria is not None:
            settings.update(found.official_criteria(Path(official_checkout)))
    return found.grader(**settings)


__all__ = [
    "NAMES",
    "Benchmark",
    "Dataset",
    "Grader",
    "find",
    "gold_criteria",
    "grader",
    "load",
    "load_hub",
    "preset",
    "presets",
]
