"""One run from a config: partitions, optimisation, and the official evaluation on the test partition, once."""

import json
from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import dspy

from decoevo_dspy.building import (
    build_grader,
    build_optimizer,
    build_partitions,
    build_role_lms,
    build_student,
    build_task,
    load_data,
    parts_for,
    protected_text,
)
from decoevo_dspy.config import Config
from decoevo_dspy.partition import Partitions
from decoevo_dspy.running.budget import Budget
from decoevo_dspy.running.events import Callback, EventLog
from decoevo_dspy.running.folder import RunFolder, write_json
from decoevo_dspy.running.store import CallStore
from decoevo_dspy.settings import Settings

MATCHED = {"budget-matched": "decoevo"}
"""Methods whose budget is what another method's run of the same seed used."""


def run_one(
    config: Config,
    out: Path,
    *,
    resume: bool = False,
    store_path: Path | None = None,
    budget: Budget | None = None,
    data_seed: int | None = None,
    callbacks: Iterable[Callback] = (),
) -> dict[str, Any]:
    """One run of ``optimizer.method`` in the folder ``out``, then its evaluations; returns ``result.json``.

    ``official`` is missing from the result when a budget stopped the run: the test partition stays closed then.

    Raises:
        ConfigurationError: for bad config or data, or a folder that already holds a run.
        EndpointError: when the endpoint failed; the state is saved.
    """
    table, callbacks = config.optimizer, list(callbacks)
    dataset, grader, role_lms = load_data(config), build_grader(config), build_role_lms(config)
    partitions, student = build_partitions(config, dataset, data_seed), build_student()
    optimizer = build_optimizer(
        config, log_dir=out, resume=resume, callbacks=callbacks, budget=budget, role_lms=role_lms
    )
    shared = CallStore(store_path) if store_path else None
    with closing(shared) if shared else nullcontext():
        program = optimizer.optimise(
            student,
            parts_for(partitions, student),
            store=shared,
            protected=protected_text(dataset, partitions),
            partitions=partitions.ids(),
            config=config.resolved(),
        )
        result = read_result(out) or {}
        if result.get("stopped_by") == "steps" or (table.method in MATCHED and result.get("stopped_by") == "budget"):
            own = None if shared else CallStore(out / "calls.sqlite")
            with closing(own) if own else nullcontext():
                store = shared or own
                assert store is not None
                result = _evaluate(
                    config, out, program, result, store, callbacks, dataset, partitions, grader, role_lms
                )
    return result


def _evaluate(
    config: Config,
    out: Path,
    program: dspy.Module,
    result: Mapping[str, Any],
    store: CallStore,
    callbacks: Iterable[Callback],
    dataset: Any,
    partitions: Partitions,
    grader: Any,
    role_lms: Any,
) -> dict[str, Any]:
    """Score checkpoints on the diagnostic and the returned program on the test partition; write both into the run."""
    from decoevo_dspy import dynamics
    from decoevo_dspy.evaluation import evaluate

    table = config.optimizer
    with RunFolder(out, resume=True) as folder:
        log = EventLog(folder.events, callbacks=callbacks, position=store.last_id)
        with closing(log):
            known = sum(event["kind"] == "diagnostic" for event in log.events)
            if partitions.diagnostic and known < len(dynamics.checkpoints(log.events)):
                points = dynamics.measure(
                    log.events,
                    build_student(),
                    partitions.diagnostic,
                    dataset.gold,
                    grader,
                    task=build_task(config),
                    settings=Settings(**table.settings),
                    role_lms=role_lms,
                    seed=table.seed,
                    store=store,
                    run=out.name,
                    num_threads=table.num_threads,
                    skill_target=table.skill_target,
                    response_field=table.response_field,
                )
                for point in points[known:]:
                    log.note("diagnostic", **point)
            log.note("test_opened", by="optimize", questions=len(partitions.test))
            evaluation = evaluate(
                program,
                partitions.test,
                dataset.gold,
                grader,
                role_lms=role_lms,
                seed=table.seed,
                store=store,
                run=out.name,
                num_threads=table.num_threads,
                solver_temperature=table.settings.get("solver_temperature", Settings.solver_temperature),
                skill_target=table.skill_target,
                response_field=table.response_field,
            )
            official = evaluation.to_dict()
            log.note("official", by="optimize", **official)
            finished = {**result, "official": official}
            write_json(folder.path / "result.json", finished)
    return finished


def read_result(folder: Path) -> dict[str, Any] | None:
    """A run's ``result.json``; ``None`` without a readable one."""
    try:
        value = json.loads((folder / "result.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def is_complete(result: Mapping[str, Any] | None) -> bool:
    """Whether a run came to its end and was officially scored."""
    return bool(result) and isinstance(result, Mapping) and result.get("official") is not None
