"""Methods × seeds × benchmarks with matched splits.

The runs of an experiment share one call store; those of one seed go one after another in one process, so that what
they have in common is paid once. Continuing an experiment skips complete runs and resumes the others.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

from decoevo_dspy.calls.budget import Budget
from decoevo_dspy.commands.build import build_budget, build_grader, build_partitions, build_role_lms, load_data
from decoevo_dspy.commands.config import Config
from decoevo_dspy.commands.optimize import MAY_CHANGE, differing_keys, is_complete, run_one
from decoevo_dspy.errors import ConfigurationError, DecoEvoError
from decoevo_dspy.reporting.summary import summarise
from decoevo_dspy.run.folder import ExperimentFolder, Run
from decoevo_dspy.run.schema import Event, RunFailed, RunSkipped
from decoevo_dspy.teleprompters import METHODS
from decoevo_dspy.values.methods import MATCHED

RUN_CHANGES = {"optimizer": (*MAY_CHANGE["optimizer"], "method", "seed"), "data": ("seed",)}
"""Config keys besides the budget's that may differ when an experiment goes on: its runs have their own."""

POLL_S = 0.2
"""Seconds between two looks at what the workers report."""

Report = Callable[[str, Event], None]
"""(run name, event) → None: told of every event of every run."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The runs of one benchmark and one seed: they share calls, and go in order in one process."""

    label: str
    seed: int
    methods: tuple[str, ...]
    config: Config
    out: Path

    def run_name(self, method: str) -> str:
        """Name and folder of a run."""
        return f"{self.label}-{method}-seed{self.seed}"

    def run(self, method: str) -> Run:
        """The run of a method."""
        return ExperimentFolder(self.out).run(self.run_name(method))


def run_group(group: Group, report: Report) -> None:
    """Run every method of a group; a failure is written into the run's folder and does not stop the next method."""
    for method in group.methods:
        run = group.run(method)
        name = run.name
        if is_complete(run.readable_result()):
            report(name, RunSkipped().record())
            continue
        failure: RunFailed | None = None
        try:
            result = run_one(
                group.config.changed(method=method, seed=group.seed),
                run.path,
                resume=True,
                store_path=ExperimentFolder(group.out).calls,
                budget=_budget(group, method),
                data_seed=group.seed,
                callbacks=[lambda event, name=name: report(name, event)],
            )
            if not is_complete(result):
                failure = RunFailed(error="stopped by the budget before its last step", exit_code=3)
        except DecoEvoError as error:
            failure = RunFailed(error=str(error), exit_code=error.exit_code)
        except Exception as error:  # noqa: BLE001 - the boundary of a run: named in the table, the others go on
            failure = RunFailed(error=f"{type(error).__name__}: {error}", exit_code=1)
        if failure:
            run.write_failure(failure.error, failure.exit_code)
            report(name, failure.record())
        else:
            run.clear_failure()


def _budget(group: Group, method: str) -> Budget:
    own = build_budget(group.config)
    if method not in MATCHED:
        return own
    paired = Budget.from_run(group.run(MATCHED[method]).path)
    return Budget(max_calls=paired.max_calls, max_tokens=paired.max_tokens, max_usd=own.max_usd)


def run_experiment(
    configs: Sequence[Config],
    methods: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    jobs: int = 2,
    report: Report = lambda name, event: None,
) -> dict[str, Any]:
    """Methods × seeds × configs (one per benchmark) in ``out``; returns what ``summary.json`` holds.

    Run seed and split seed are both the seed, so that every method of a seed sees the same partitions. At most ``jobs``
    processes work at a time; 1 runs everything in this process.

    Raises:
        ConfigurationError: for bad configs, data or method names, before anything runs.
        KeyboardInterrupt: when interrupted; every run has saved its state.
    """
    out = Path(out)
    groups = _groups(configs, methods, seeds, out)
    for config in configs:
        dataset = load_data(config)
        build_grader(config)
        build_role_lms(config)
        for seed in seeds:
            build_partitions(config, dataset, seed)
    with ExperimentFolder(out).held() as folder:
        _write_plan(folder, groups, methods, seeds)
        if jobs == 1 or len(groups) == 1:
            for group in groups:
                run_group(group, report)
        else:
            _in_processes(groups, min(jobs, len(groups)), report)
        summary = summarise(out)
        folder.write_summary(summary)
    return summary


def _groups(configs: Sequence[Config], methods: Sequence[str], seeds: Sequence[int], out: Path) -> list[Group]:
    if not configs or not methods or not seeds:
        raise ConfigurationError("an experiment needs at least one config, one method and one seed")
    for method in methods:
        if method not in METHODS:
            raise ConfigurationError(f"--methods: {method!r} is not known; use some of {', '.join(METHODS)}")
        if methods.count(method) > 1:
            raise ConfigurationError(f"--methods: {method!r} stands twice")
        if method in MATCHED and MATCHED[method] not in methods:
            raise ConfigurationError(f"--methods: {method} needs {MATCHED[method]} beside it; add it")
    ordered = tuple(sorted(methods, key=lambda method: method in MATCHED))
    labels = [config.data.benchmark for config in configs]
    if len(set(labels)) < len(labels):
        raise ConfigurationError(
            "two configs have the same data.benchmark; an experiment takes one config per benchmark"
        )
    return [
        Group(label=label, seed=seed, methods=ordered, config=config, out=out)
        for seed in seeds
        for label, config in zip(labels, configs, strict=True)
    ]


def _write_plan(
    folder: ExperimentFolder, groups: Sequence[Group], methods: Sequence[str], seeds: Sequence[int]
) -> None:
    """``experiment.json``: what belongs to the experiment; methods, seeds and benchmarks may be added later."""
    plan = folder.plan() or {"configs": {}}
    for group in groups:
        new = group.config.resolved()
        old = plan["configs"].setdefault(group.label, new)
        if keys := differing_keys(old, new, RUN_CHANGES):
            raise ConfigurationError(
                f"{folder.path} holds an experiment with another config for {group.label} ({', '.join(keys)}); "
                "choose another --out"
            )
    plan["methods"] = list(dict.fromkeys([*plan.get("methods", []), *methods]))
    plan["seeds"] = sorted({*plan.get("seeds", []), *seeds})
    folder.write_plan(plan)


@dataclass
class _Worker:
    """What a worker process holds: the way back to the parent."""

    queue: Any = None


_worker = _Worker()


def _start_worker(queue: Any, litellm: bool) -> None:
    from decoevo_dspy.commands.quiet import quieten, quieten_litellm

    _worker.queue = queue
    quieten()
    sys.stdout = sys.stderr  # the parent's stdout holds results only
    if litellm:
        quieten_litellm()


def _work(group: Group) -> None:
    run_group(group, lambda name, event: _worker.queue.put((name, event)))


def _in_processes(groups: Sequence[Group], jobs: int, report: Report) -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    before = {process.pid for process in multiprocessing.active_children()}
    litellm = any(group.config.needs_litellm for group in groups)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(queue, litellm))
    pending: set[Future[None]] = set()
    try:
        pending = {pool.submit(_work, group) for group in groups}
        while pending:
            done, pending = wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED)
            _drain(queue, report)
            for future in done:
                future.result()
    except BaseException:
        for future in pending:
            future.cancel()
        for process in multiprocessing.active_children():
            if process.pid is not None and process.pid not in before:
                os.kill(process.pid, signal.SIGINT)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        _drain(queue, report)
        queue.close()


def _drain(queue: Any, report: Report) -> None:
    while True:
        try:
            name, event = queue.get_nowait()
        except Empty:
            return
        report(name, event)


__all__ = ["Group", "is_complete", "run_experiment", "run_group", "run_one", "summarise"]
