"""``decoevo evaluate``: the official score of a run, a saved program, ready responses, or the initial program."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import dspy

from decoevo_dspy.benchmarks.base import Dataset
from decoevo_dspy.benchmarks.reading import jsonl_rows
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.commands.build import (
    build_grader,
    build_partitions,
    build_role_lms,
    build_student,
    build_task,
    load_data,
)
from decoevo_dspy.commands.config import Config
from decoevo_dspy.commands.optimize import is_complete, max_ungraded, read_result
from decoevo_dspy.errors import ConfigurationError, DataError
from decoevo_dspy.evaluation.official import evaluate, grade_responses
from decoevo_dspy.run.events import EventLog
from decoevo_dspy.run.folder import RunFolder, write_json
from decoevo_dspy.run.student import targets_of, with_solver_skill
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.skill import SOLVER_SKILL, Skill
from decoevo_dspy.values.task import Question


def score_target(target: Path | None, config: Config, *, benchmark: str | None = None) -> dict[str, Any]:
    """Score a target on the test partition: a run's folder, a program's JSON, responses as JSON Lines; ``None`` is
    the initial program. ``benchmark`` replaces the config's.

    A run is scored on the test questions that it recorded, and its log says that they were opened. With the config of
    another benchmark than the run's this is a transfer: the run's skill as it is, on the other one's test partition.

    Raises:
        ConfigurationError: when the target, or a question that it needs, is not there.
        EndpointError: when the endpoint left more than ``max_ungraded`` of the questions without a score.
    """
    if benchmark is not None and benchmark != config.data.benchmark:
        config = config.with_benchmark(benchmark)
    if target is not None and not target.exists():
        raise ConfigurationError(f"{target}: no such run, program or responses file")
    dataset = load_data(config)
    name = "zero-shot" if target is None else str(target)
    found: dict[str, Any] = {"target": name, "benchmark": config.data.benchmark, "partition": "test"}
    if target is not None and target.is_dir():
        return {**found, **_score_run(target, config, dataset)}
    test: Sequence[Question] = build_partitions(config, dataset).test
    seed, transfer = config.optimizer.seed, None
    with closing(CallStore(None)) as store:
        if target is not None and target.suffix == ".jsonl":
            official = _score_responses(target, config, dataset, test, store)
        else:
            program = _initial(config) if target is None else _loaded(target)
            about = run_file(target.parent) if target is not None and (target.parent / "run.json").exists() else {}
            if target is not None and about.get("partitions", {}).get("test"):
                seed = about["seed"]  # beside its run: that run's questions, whatever the config would deal
                test, transfer = run_partition(about, target.parent, config, dataset)
            official = _score(program, config, dataset, test, store, seed, "evaluate")
    return {**found, "transfer": transfer, "official": official}


def _score(
    program: dspy.Module,
    config: Config,
    dataset: Dataset,
    test: Sequence[Question],
    store: CallStore,
    seed: int,
    run: str,
) -> dict[str, Any]:
    table = config.optimizer
    evaluation = evaluate(
        program,
        test,
        dataset.gold,
        build_grader(config),
        role_lms=build_role_lms(config),
        seed=seed,
        store=store,
        run=run,
        num_threads=table.num_threads,
        solver_temperature=table.settings.get("solver_temperature", Settings.solver_temperature),
        skill_target=table.skill_target,
        response_field=table.response_field,
    )
    evaluation.check_complete(max_ungraded(config))
    return evaluation.to_dict()


def _score_run(folder: Path, config: Config, dataset: Dataset) -> dict[str, Any]:
    about = run_file(folder)
    program, benchmark = _loaded(folder / "solver.json"), config.data.benchmark
    test, transfer = run_partition(about, folder, config, dataset)
    with RunFolder(folder, resume=True), closing(CallStore(calls_of(folder))) as store:
        log = EventLog(folder / "events.jsonl", position=store.last_id)
        with closing(log):
            store.forget_failures(folder.name, after=log.last_call)
            log.note("test_opened", by="evaluate", benchmark=benchmark, questions=len(test), transfer=transfer)
            official = _score(program, config, dataset, test, store, about["seed"], folder.name)
            log.note("evaluated", by="evaluate", benchmark=benchmark, transfer=transfer, **official)
            opened = times_opened(log.events, benchmark, recorded_benchmark(about))
        result = read_result(folder)
        if result and not is_complete(result) and recorded_benchmark(about) == benchmark:
            write_json(folder / "result.json", {**result, "official": official})
    return {"transfer": transfer, "times_opened": opened, "official": official}


def run_file(folder: Path) -> dict[str, Any]:
    """A run's ``run.json``, with its ``partitions`` and ``seed`` checked.

    Raises:
        ConfigurationError: when there is no readable one.
    """
    try:
        about = json.loads((folder / "run.json").read_text("utf-8"))
        return {**about, "partitions": dict(about["partitions"]), "seed": int(about["seed"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigurationError(f"{folder}: no run here (run.json is missing or unreadable)") from None


def recorded_benchmark(about: Mapping[str, Any]) -> str | None:
    """The benchmark that a run was optimised on; ``None`` for a run without a config."""
    return (about.get("config") or {}).get("data", {}).get("benchmark")


def calls_of(folder: Path) -> Path:
    """The call store that a run's calls are in: its own, else its experiment's; its own when there is none yet."""
    own, runs = folder / "calls.sqlite", folder.resolve().parent
    shared = runs.parent / "calls.sqlite"
    return shared if runs.name == "runs" and shared.exists() and not own.exists() else own


def run_partition(
    about: Mapping[str, Any], folder: Path, config: Config, dataset: Dataset, partition: str = "test"
) -> tuple[list[Question], dict[str, str] | None]:
    """The questions of a run's recorded partition; for a run of another benchmark, those of the config's own
    partition, and both names as ``{"from", "to"}``. That split is drawn by the config's ``data.seed``, else by the
    run's seed, and always by the run's seed for a run of an experiment.

    Raises:
        ConfigurationError: when the run recorded no such questions, or the data lacks one.
    """
    recorded, benchmark = recorded_benchmark(about), config.data.benchmark
    if recorded in (None, benchmark):
        return _recorded(about, folder, dataset, partition), None
    own = config.data.seed if (folder / "calls.sqlite").exists() else None
    dealt = build_partitions(config, dataset, about["seed"] if own is None else own)
    return list(getattr(dealt, partition)), {"from": str(recorded), "to": benchmark}


def times_opened(events: Sequence[Mapping[str, Any]], benchmark: str, recorded: str | None) -> int:
    """How often the test partition of a benchmark was opened for a run, by its log."""
    return sum(e["kind"] == "test_opened" and e.get("benchmark", recorded or benchmark) == benchmark for e in events)


def _recorded(about: Mapping[str, Any], folder: Path, dataset: Dataset, partition: str) -> list[Question]:
    known = {question.id: question for question in dataset.questions}
    ids = about["partitions"].get(partition) or []
    if not ids:
        raise ConfigurationError(
            f"{folder}: this run recorded no {partition} partition; give a run of decoevo optimize, or its solver.json"
        )
    for id in ids:
        if id not in known:
            raise DataError(
                f"{folder}: its {partition} question {id!r} is not in the config's data; give the data it ran on"
            )
    return [known[id] for id in ids]


def _initial(config: Config) -> dspy.Module:
    student = build_student()
    skill = Skill(build_task(config).solver_skill or SOLVER_SKILL)
    return with_solver_skill(student, targets_of(student, config.optimizer.skill_target), skill)


def _loaded(file: Path) -> dspy.Module:
    """A program saved by ``program.save("….json")`` with the built-in student's predictors."""
    program = build_student()
    try:
        program.load(str(file))
    except FileNotFoundError:
        raise ConfigurationError(f"{file}: no such program; the run has not been saved yet") from None
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a file from outside
        line = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise ConfigurationError(f"{file}: not a program saved by program.save(….json) ({line})") from None
    return program


def _score_responses(
    file: Path, config: Config, dataset: Dataset, test: Sequence[Question], store: CallStore
) -> dict[str, Any]:
    """Rows ``{"id", "response"}``; ids outside the test partition are refused, missing ones are ungraded."""
    wanted = {question.id for question in test}
    responses: dict[str, str] = {}
    for row in jsonl_rows(file):
        id = str(row.get("id", (str, int)))
        if id in responses:
            row.fail(f"id {id!r} stands twice; keep one response for it")
        if id not in wanted:
            row.fail(f"id {id!r} is not in the test partition; remove the row")
        responses[id] = row.get("response", str)
    evaluation = grade_responses(
        responses,
        test,
        dataset.gold,
        build_grader(config),
        role_lms=build_role_lms(config),
        seed=config.optimizer.seed,
        store=store,
        run="evaluate",
        num_threads=config.optimizer.num_threads,
    )
    evaluation.check_complete(max_ungraded(config))
    return evaluation.to_dict()
