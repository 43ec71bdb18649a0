"""``decoevo.toml``: read, checked key by key, never a place for secrets. What it describes is made in `build`."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from decoevo_dspy.calls.secrets import variable_shown
from decoevo_dspy.commands.tables import (
    SIMULATED,
    BudgetTable,
    DataTable,
    GraderTable,
    ModelsTable,
    ModelTable,
    OptimizerTable,
    Table,
    TaskTable,
)
from decoevo_dspy.errors import ConfigurationError
from decoevo_dspy.values.settings import NAMES as SETTINGS
from decoevo_dspy.values.settings import Settings


class Config(Table):
    """A whole config. ``file`` is where it was read from; relative paths are relative to its folder."""

    task: TaskTable = TaskTable()
    data: DataTable
    grader: GraderTable = GraderTable()
    models: ModelsTable
    optimizer: OptimizerTable = OptimizerTable()
    budget: BudgetTable = BudgetTable()
    file: str = Field(default="", exclude=True)

    def path(self, text: str) -> Path:
        """A path of the file, relative to the file's folder."""
        folder = Path(self.file).resolve().parent if self.file else Path.cwd()
        return folder / Path(text).expanduser()

    def resolved(self) -> dict[str, Any]:
        """What ``run.json`` quotes: every key with its value. There are no secrets in a config.

        Where somebody took ``api_key_env`` for the key itself, it is left out.
        """
        found = self.model_dump(mode="json", exclude_none=True)
        for table in found["models"].values():
            if "api_key_env" in table:
                table["api_key_env"] = variable_shown(table["api_key_env"])
        return found

    def changed(self, **optimizer: Any) -> "Config":
        """A copy with other ``[optimizer]`` keys."""
        return self.model_copy(update={"optimizer": self.optimizer.model_copy(update=optimizer)})

    @property
    def needs_litellm(self) -> bool:
        """Whether any model is asked over an endpoint."""
        return any(isinstance(table, ModelTable) and table.model not in (SIMULATED, None) for _, table in self.models)

    def with_benchmark(self, benchmark: str) -> "Config":
        """A copy for another benchmark, with the rows that the config names.

        Raises:
            ConfigurationError: when those cannot be used for it.
        """
        values = self.model_dump(exclude_unset=True)
        return make_config({**values, "data": {**values["data"], "benchmark": benchmark}}, file=self.file)


def load_config(path: str | Path) -> Config:
    """Read and check a config file.

    Raises:
        ConfigurationError: one line per mistake, each with the file, the key and what is allowed.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "decoevo.toml"
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigurationError(f"{file}: no such file; `decoevo init` writes one to start from") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file}: not UTF-8 (byte {error.start}); save the file as UTF-8") from None
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read ({error.strerror})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: not TOML: {error}") from None
    return make_config(values, file=str(file))


def make_config(values: Mapping[str, Any], *, file: str = "") -> Config:
    """Check config values, as `load_config` does with a file's.

    Raises:
        ConfigurationError: see `load_config`.
    """
    place = file or "config"
    if "file" in values:
        raise ConfigurationError(f"{place}: file: unknown key; the keys are {_listed(Config, ())}")
    try:
        config = Config(**values, file=file)
    except ValidationError as error:
        raise ConfigurationError("\n".join(dict.fromkeys(f"{place}: {_line(e)}" for e in error.errors()))) from None
    if problems := list(_problems(config)):
        raise ConfigurationError("\n".join(f"{place}: {problem}" for problem in problems))
    return config


def _problems(config: Config) -> Iterable[str]:
    """What types cannot say, one line per mistake."""
    from decoevo_dspy.benchmarks import NAMES as BENCHMARKS
    from decoevo_dspy.benchmarks import find, presets
    from decoevo_dspy.teleprompters import METHODS
    from decoevo_dspy.values.partition import NAMES as PARTITIONS

    task, data, PRESETS = config.task, config.data, presets()
    if task.preset is not None and task.preset not in PRESETS:
        yield f"task.preset: {task.preset!r} is not known; use one of {', '.join(PRESETS)}"
    elif task.preset is None and data.benchmark not in PRESETS:
        for key in ("name", "description", "evaluation"):
            if not (getattr(task, key) or "").strip():
                yield f"task.{key}: is missing; give the task's public {key}, or a task.preset ({', '.join(PRESETS)})"
    if data.benchmark not in BENCHMARKS:
        yield f"data.benchmark: {data.benchmark!r} is not known; use one of {', '.join(BENCHMARKS)}"
    elif find(data.benchmark).needs_file:
        yield from _file_problems(config)
    for name, size in (data.sizes or {}).items():
        if name not in PARTITIONS:
            yield f"data.sizes.{name}: no such partition; the names are {', '.join(PARTITIONS)}"
        elif size < 0:
            yield f"data.sizes.{name}: give a whole number from 0, not {size}"
    if config.grader.official_checkout and not config.path(config.grader.official_checkout).is_dir():
        yield f"grader.official_checkout: no such folder: {config.grader.official_checkout}"
    if config.optimizer.method not in METHODS:
        yield f"optimizer.method: {config.optimizer.method!r} is not known; use one of {', '.join(METHODS)}"
    for key, value in config.optimizer.settings.items():
        if key not in SETTINGS:
            known = _listed(OptimizerTable, SETTINGS)
            yield f"optimizer.{key}: unknown key{_near(key, known.split(', '))}; the keys are {known}"
            continue
        try:
            Settings(**{key: value})
        except ConfigurationError as error:
            yield f"optimizer.{error}"


def _file_problems(config: Config) -> Iterable[str]:
    data = config.data
    if data.path is not None and (data.hub or data.file or data.revision):
        yield "data.path: give either a local path, or hub with file and revision"
    elif data.path is not None:
        if not config.path(data.path).is_file():
            yield f"data.path: no such file: {config.path(data.path)}"
    elif not data.hub:
        yield f'data.path: is missing; benchmark "{data.benchmark}" needs a local file (or data.hub, file and revision)'
    elif not (data.file and data.revision):
        yield f"data.hub: {data.hub!r} needs data.file and data.revision (a commit) as well"


_TABLES: dict[tuple[str, ...], type[Table]] = {
    (): Config,
    ("task",): TaskTable,
    ("data",): DataTable,
    ("models",): ModelsTable,
    ("budget",): BudgetTable,
}


def _line(error: Any) -> str:
    """One pydantic error as ``key.path: what is wrong; what is allowed``; never the value, which may be a secret."""
    where = tuple(str(part) for part in error["loc"])
    key, kind = ".".join(where) or "config", error["type"]
    if kind == "extra_forbidden":
        table = _TABLES.get(where[:-1], ModelTable if where[0] == "models" else Config)
        return f"{key}: unknown key{_near(where[-1], table.model_fields)}; the keys are {_listed(table, ())}"
    if kind == "missing":
        return f"{key}: is missing; give {'the table' if len(where) == 1 else 'the key'} [{where[0]}]"
    if kind == "value_error":
        return f"{key}: {error['ctx']['error']}"
    message = str(error["msg"])
    return f"{key}: {message[0].lower()}{message[1:]}, not {type(error['input']).__name__}"


def _near(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def _listed(table: type[Table], more: Iterable[str]) -> str:
    return ", ".join([name for name in table.model_fields if (table, name) != (Config, "file")] + list(more))


__all__ = ["SIMULATED", "Config", "ModelTable", "load_config", "make_config"]
