"""``decoevo evaluate``: the official score of a run, a saved program, ready responses, or the initial program."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import dspy

from decoevo_dspy.benchmarks.base import Dataset
from decoevo_dspy.benchmarks.reading import jsonl_rows
from decoevo_dspy.building import (
    build_grader,
    build_partitions,
    build_role_lms,
    build_student,
    build_task,
    load_data,
)
from decoevo_dspy.config import Config
from decoevo_dspy.errors import ConfigurationError, DataError
from decoevo_dspy.evaluation import evaluate, grade_responses
from decoevo_dspy.experiment import is_complete, read_result
from decoevo_dspy.running.events import EventLog
from decoevo_dspy.running.folder import RunFolder, write_json
from decoevo_dspy.running.store import CallStore
from decoevo_dspy.settings import Settings
from decoevo_dspy.skill import SOLVER_SKILL, Skill
from decoevo_dspy.task import Question
from decoevo_dspy.teleprompters.student import targets_of, with_solver_skill


def score_target(target: Path | None, config: Config, *, benchmark: str | None = None) -> dict[str, Any]:
    """Score a target on the test partition: a run's folder, a program's JSON, responses as JSON Lines; ``None`` is
    the initial program. ``benchmark`` replaces the config's.

    A run is scored on the test questions that it recorded, and its log says that they were opened.

    Raises:
        ConfigurationError: when the target, or a question that it needs, is not there.
    """
    if benchmark is not None and benchmark != config.data.benchmark:
        config = config.with_benchmark(benchmark)
    dataset = load_data(config)
    if target is not None and not target.exists():
        raise ConfigurationError(f"{target}: no such run, program or responses file")
    if target is not None and target.is_dir():
        official = _score_run(target, config, dataset)
    else:
        test = build_partitions(config, dataset).test
        with closing(CallStore(None)) as store:
            if target is not None and target.suffix == ".jsonl":
                official = _score_responses(target, config, dataset, test, store)
            else:
                program = _initial(config) if target is None else _loaded(target)
                official = _score(program, config, dataset, test, store, config.optimizer.seed, "evaluate")
    name = "zero-shot" if target is None else str(target)
    return {"target": name, "benchmark": config.data.benchmark, "partition": "test", "official": official}


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
    return evaluate(
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
    ).to_dict()


def _score_run(folder: Path, config: Config, dataset: Dataset) -> dict[str, Any]:
    about = _run_file(folder)
    program, seed = _loaded(folder / "solver.json"), int(about["seed"])
    recorded = (about.get("config") or {}).get("data", {}).get("benchmark")
    if recorded in (None, config.data.benchmark):
        test = _recorded_test(about, folder, dataset)
    else:
        test = build_partitions(config, dataset, seed).test
    shared = folder.parent.parent / "calls.sqlite"
    path = shared if folder.parent.name == "runs" and shared.exists() else folder / "calls.sqlite"
    with RunFolder(folder, resume=True), closing(CallStore(path)) as store:
        log = EventLog(folder / "events.jsonl", position=store.last_id)
        with closing(log):
            log.note("test_opened", by="evaluate", benchmark=config.data.benchmark, questions=len(test))
            official = _score(program, config, dataset, test, store, seed, folder.name)
            log.note("evaluated", by="evaluate", benchmark=config.data.benchmark, **official)
        result = read_result(folder)
        if result and not is_complete(result) and recorded == config.data.benchmark:
            write_json(folder / "result.json", {**result, "official": official})
    return official


def _run_file(folder: Path) -> Mapping[str, Any]:
    import json

    try:
        about = json.loads((folder / "run.json").read_text("utf-8"))
        return {**about, "partitions": dict(about["partitions"]), "seed": int(about["seed"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigurationError(f"{folder}: no run here (run.json is missing or unreadable)") from None


def _recorded_test(about: Mapping[str, Any], folder: Path, dataset: Dataset) -> list[Question]:
    known = {question.id: question for question in dataset.questions}
    ids = about["partitions"].get("test") or []
    if not ids:
        raise ConfigurationError(f"{folder}: this run recorded no test partition; evaluate its solver.json instead")
    for id in ids:
        if id not in known:
            raise DataError(f"{folder}: its test question {id!r} is not in the config's data; give the data it ran on")
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
    return grade_responses(
        responses,
        test,
        dataset.gold,
        build_grader(config),
        role_lms=build_role_lms(config),
        seed=config.optimizer.seed,
        store=store,
        run="evaluate",
        num_threads=config.optimizer.num_threads,
    ).to_dict()
