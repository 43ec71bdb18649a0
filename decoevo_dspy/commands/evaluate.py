"""``decoevo evaluate``: the official score of a run, a saved program, ready responses, or the initial program."""

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
from decoevo_dspy.commands.optimize import is_complete, max_ungraded
from decoevo_dspy.errors import ConfigurationError, DataError
from decoevo_dspy.evaluation.official import evaluate, grade_responses
from decoevo_dspy.run.folder import Run
from decoevo_dspy.run.schema import Evaluated, PartitionOpened, of
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
        return {**found, **_score_run(Run(target), config, dataset)}
    test: Sequence[Question] = build_partitions(config, dataset).test
    seed, transfer = config.optimizer.seed, None
    with closing(CallStore(None)) as store:
        if target is not None and target.suffix == ".jsonl":
            official = _score_responses(target, config, dataset, test, store)
        else:
            program = _initial(config) if target is None else _loaded(target)
            run = None if target is None else Run.beside(target)
            about = {} if run is None else run.begun()
            if run is not None and about["partitions"].get("test"):
                seed = about["seed"]  # beside its run: that run's questions, whatever the config would deal
                test, transfer = run_partition(about, run, config, dataset)
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


def _score_run(run: Run, config: Config, dataset: Dataset) -> dict[str, Any]:
    about = run.begun()
    program, benchmark = _loaded(run.solver_program), config.data.benchmark
    test, transfer = run_partition(about, run, config, dataset)
    with run.held(), closing(run.open_store()) as store:
        log = run.log(position=store.last_id)
        with closing(log):
            store.forget_failures(run.name, after=log.last_call)
            log.emit(PartitionOpened(by="evaluate", benchmark=benchmark, questions=len(test), transfer=transfer))
            official = _score(program, config, dataset, test, store, about["seed"], run.name)
            log.emit(Evaluated(by="evaluate", benchmark=benchmark, transfer=transfer, score=official))
            opened = times_opened(log.events, benchmark, recorded_benchmark(about))
        result = run.readable_result()
        if result and not is_complete(result) and recorded_benchmark(about) == benchmark:
            run.write_result({**result, "official": official})
    return {"transfer": transfer, "times_opened": opened, "official": official}


def recorded_benchmark(about: Mapping[str, Any]) -> str | None:
    """The benchmark that a run was optimised on; ``None`` for a run without a config."""
    return (about.get("config") or {}).get("data", {}).get("benchmark")


def run_partition(
    about: Mapping[str, Any], run: Run, config: Config, dataset: Dataset, partition: str = "test"
) -> tuple[list[Question], dict[str, str] | None]:
    """The questions of a run's recorded partition; for a run of another benchmark, those of the config's own
    partition, and both names as ``{"from", "to"}``. That split is drawn by the config's ``data.seed``, else by the
    run's seed, and always by the run's seed for a run of an experiment.

    Raises:
        ConfigurationError: when the run recorded no such questions, or the data lacks one.
    """
    recorded, benchmark = recorded_benchmark(about), config.data.benchmark
    if recorded in (None, benchmark):
        return _recorded(about, run, dataset, partition), None
    own = config.data.seed if run.has_own_store else None
    dealt = build_partitions(config, dataset, about["seed"] if own is None else own)
    return list(getattr(dealt, partition)), {"from": str(recorded), "to": benchmark}


def times_opened(events: Sequence[Mapping[str, Any]], benchmark: str, recorded: str | None) -> int:
    """How often the test partition of a benchmark was opened for a run, by its log."""
    opened = of(events, PartitionOpened)
    return sum((event.benchmark or recorded or benchmark) == benchmark for event in opened)


def _recorded(about: Mapping[str, Any], run: Run, dataset: Dataset, partition: str) -> list[Question]:
    known = {question.id: question for question in dataset.questions}
    ids = about["partitions"].get(partition) or []
    if not ids:
        raise ConfigurationError(
            f"{run.path}: this run recorded no {partition} partition; give a run of decoevo optimize, or its program"
        )
    for id in ids:
        if id not in known:
            raise DataError(
                f"{run.path}: its {partition} question {id!r} is not in the config's data; give the data it ran on"
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
