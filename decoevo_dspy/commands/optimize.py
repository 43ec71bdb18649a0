"""One run from a config: partitions, optimisation, and the official evaluation on the test partition, once."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dspy

from decoevo_dspy.calls.budget import Budget
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.commands.build import (
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
from decoevo_dspy.commands.config import Config
from decoevo_dspy.errors import ConfigurationError, EndpointError
from decoevo_dspy.run.events import Callback
from decoevo_dspy.run.folder import Run
from decoevo_dspy.run.schema import Diagnostic, Official, OfficialIncomplete, PartitionOpened
from decoevo_dspy.run.standing import fold
from decoevo_dspy.values.methods import MATCHED
from decoevo_dspy.values.partition import Partitions
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.skill import Skill


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
        ConfigurationError: for bad config or data, or a folder that already holds a run, or one of another config.
        EndpointError: when the endpoint failed, or left more than ``max_ungraded`` of the test questions without a
            score; the state is saved, and resuming sends the failed calls again.
    """
    if resume:
        _check_same_config(config, out, dealt=data_seed is not None)
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
        run = Run(out)
        result = run.readable_result() or {}
        if result.get("stopped_by") == "steps" or (table.method in MATCHED and result.get("stopped_by") == "budget"):
            own = None if shared else CallStore(run.calls)
            with closing(own) if own else nullcontext():
                store = shared or own
                assert store is not None
                result = _evaluate(
                    config, run, program, result, store, callbacks, dataset, partitions, grader, role_lms
                )
    return result


def _evaluate(
    config: Config,
    run: Run,
    program: dspy.Module,
    result: Mapping[str, Any],
    store: CallStore,
    callbacks: Iterable[Callback],
    dataset: Any,
    partitions: Partitions,
    grader: Any,
    role_lms: Any,
) -> dict[str, Any]:
    """Score checkpoints on the diagnostic and the returned program on the test partition; write both into the run.

    A program that the log has a score of is not scored again.
    """
    from decoevo_dspy.evaluation import checkpoints
    from decoevo_dspy.evaluation.official import evaluate

    table, solver = config.optimizer, Skill(str(result["solver_skill"])).key
    with run.held():
        log = run.log(callbacks=callbacks, position=store.last_id)
        with closing(log):
            standing = fold(log.events)
            known = len(standing.checkpoints)
            if partitions.diagnostic and known < len(checkpoints.checkpoints(log.events)):
                points = checkpoints.measure(
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
                    run=run.name,
                    num_threads=table.num_threads,
                    skill_target=table.skill_target,
                    response_field=table.response_field,
                )
                for point in points[known:]:
                    log.emit(Diagnostic(**point))
            if known_score := standing.scores.get(solver):
                finished = {**result, "official": dict(known_score)}
                run.write_result(finished)
                return finished
            store.forget_failures(run.name, after=log.last_call)
            log.emit(PartitionOpened(by="optimize", questions=len(partitions.test)))
            evaluation = evaluate(
                program,
                partitions.test,
                dataset.gold,
                grader,
                role_lms=role_lms,
                seed=table.seed,
                store=store,
                run=run.name,
                num_threads=table.num_threads,
                solver_temperature=table.settings.get("solver_temperature", Settings.solver_temperature),
                skill_target=table.skill_target,
                response_field=table.response_field,
            )
            official = evaluation.to_dict()
            try:
                evaluation.check_complete(max_ungraded(config))
            except EndpointError as error:
                graded = {key: official[key] for key in ("n_graded", "n_total", "lost_to_endpoint")}
                log.emit(OfficialIncomplete(by="optimize", solver=solver, reason=str(error), **graded))
                raise EndpointError(
                    f"{error}; the state is saved in {run.path}: resuming sends those calls again"
                ) from None
            log.emit(Official(by="optimize", solver=solver, score=official))
            finished = {**result, "official": official}
            run.write_result(finished)
    return finished


def max_ungraded(config: Config) -> float:
    """The largest share of the test questions that may be lost to the endpoint."""
    return float(config.optimizer.settings.get("max_ungraded", Settings.max_ungraded))


MAY_CHANGE = {"optimizer": ("num_threads",)}
"""Config keys besides ``[budget]`` that may differ when a run goes on."""

MODEL_CHANGES = ("api_base", "api_key_env", "num_retries", "timeout")
"""The same for every table of ``[models]``: how an endpoint is reached, not what answers there."""


def differing_keys(
    old: Mapping[str, Any], new: Mapping[str, Any], may_change: Mapping[str, Sequence[str]] = MAY_CHANGE
) -> list[str]:
    """The keys, such as ``optimizer.steps``, in which two resolved configs differ, less those that may change."""
    flat = [_comparable(config, may_change) for config in (old, new)]
    return sorted(key for key in {*flat[0], *flat[1]} if flat[0].get(key) != flat[1].get(key))


def _comparable(config: Mapping[str, Any], may_change: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Dotted key → value; a setting that is not named counts with its default."""
    found: dict[str, Any] = {}
    for name, table in config.items():
        if name == "models":
            for role, model in table.items():
                found |= {f"models.{role}.{k}": v for k, v in model.items() if k not in MODEL_CHANGES}
        elif name != "budget":
            values = {**asdict(Settings()), **table} if name == "optimizer" else table
            found |= {f"{name}.{k}": v for k, v in values.items() if k not in may_change.get(name, ())}
    return found


def _check_same_config(config: Config, out: Path, *, dealt: bool) -> None:
    """Refuse to go on with a run under another config; ``dealt``: the split's seed was given apart from it."""
    old = (Run(out).about() or {}).get("config")
    if not isinstance(old, Mapping):
        return
    free = {**MAY_CHANGE, "data": ("seed",)} if dealt else MAY_CHANGE
    if keys := differing_keys(old, config.resolved(), free):
        raise ConfigurationError(
            f"{out} holds a run with another config: {', '.join(keys)} differ{'s' if len(keys) == 1 else ''}; "
            "change it back, or choose another folder"
        )


def is_complete(result: Mapping[str, Any] | None) -> bool:
    """Whether a run came to its end and was officially scored."""
    return bool(result) and isinstance(result, Mapping) and result.get("official") is not None
