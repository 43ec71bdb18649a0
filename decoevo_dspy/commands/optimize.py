"""One run from a config: partitions, optimisation, and the official evaluation on the test partition, once."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dspy

from decoevo_dspy.benchmarks.base import Dataset, Grader
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
from decoevo_dspy.roles.lms import RoleLMs
from decoevo_dspy.run.events import Callback, EventLog
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
                result = _Evaluations(
                    config=config,
                    run=run,
                    program=program,
                    store=store,
                    dataset=dataset,
                    partitions=partitions,
                    grader=grader,
                    role_lms=role_lms,
                ).finish(result, callbacks)
    return result


@dataclass(frozen=True, kw_only=True)
class _Evaluations:
    """What is measured when the optimisation is over: checkpoints, and the returned program on the test partition."""

    config: Config
    run: Run
    program: dspy.Module
    store: CallStore
    dataset: Dataset
    partitions: Partitions
    grader: Grader
    role_lms: RoleLMs

    def finish(self, result: Mapping[str, Any], callbacks: Iterable[Callback]) -> dict[str, Any]:
        """Measure what the log lacks, and write the score into ``result.json``; a known score is not taken again."""
        solver = Skill(str(result["solver_skill"])).key
        with self.run.held(), closing(self.run.log(callbacks=callbacks, position=self.store.last_id)) as log:
            self.measure_checkpoints(log)
            official = fold(log.events).scores.get(solver) or self.score(log, solver)
            finished = {**result, "official": dict(official)}
            self.run.write_result(finished)
        return finished

    def measure_checkpoints(self, log: EventLog) -> None:
        """Score every accepted checkpoint that the log has no figures of, on the diagnostic partition."""
        from decoevo_dspy.evaluation import checkpoints

        table, known = self.config.optimizer, len(fold(log.events).checkpoints)
        if not self.partitions.diagnostic or known >= len(checkpoints.checkpoints(log.events)):
            return
        points = checkpoints.measure(
            log.events,
            build_student(),
            self.partitions.diagnostic,
            self.dataset.gold,
            self.grader,
            task=build_task(self.config),
            settings=Settings(**table.settings),
            **self._shared(),
        )
        for point in points[known:]:
            log.emit(Diagnostic(**point))

    def score(self, log: EventLog, solver: str) -> Mapping[str, Any]:
        """Open the test partition, answer and grade it once.

        Raises:
            EndpointError: when the endpoint lost more of its questions than ``max_ungraded``; the log says which.
        """
        from decoevo_dspy.evaluation.official import evaluate

        self.store.forget_failures(self.run.name, after=log.last_call)
        log.emit(PartitionOpened(by="optimize", questions=len(self.partitions.test)))
        evaluation = evaluate(
            self.program,
            self.partitions.test,
            self.dataset.gold,
            self.grader,
            solver_temperature=self.config.optimizer.settings.get("solver_temperature", Settings.solver_temperature),
            **self._shared(),
        )
        official = evaluation.to_dict()
        try:
            evaluation.check_complete(max_ungraded(self.config))
        except EndpointError as error:
            graded = {key: official[key] for key in ("n_graded", "n_total", "lost_to_endpoint")}
            log.emit(OfficialIncomplete(by="optimize", solver=solver, reason=str(error), **graded))
            saved = f"the state is saved in {self.run.path}: resuming sends those calls again"
            raise EndpointError(f"{error}; {saved}") from None
        log.emit(Official(by="optimize", solver=solver, score=official))
        return official

    def _shared(self) -> dict[str, Any]:
        table = self.config.optimizer
        return {
            "role_lms": self.role_lms,
            "seed": table.seed,
            "store": self.store,
            "run": self.run.name,
            "num_threads": table.num_threads,
            "skill_target": table.skill_target,
            "response_field": table.response_field,
        }


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
