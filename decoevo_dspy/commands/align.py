"""``decoevo align``: how far a run's rubrics agree with the gold criteria, and the matcher with human labels."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decoevo_dspy.benchmarks.base import Dataset
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.commands.build import build_role_lms, load_data
from decoevo_dspy.commands.config import Config
from decoevo_dspy.commands.evaluate import recorded_benchmark, run_partition, times_opened
from decoevo_dspy.errors import ConfigurationError
from decoevo_dspy.evaluation.alignment import Aligner, LabelledPair, read_labels
from decoevo_dspy.run.folder import Run
from decoevo_dspy.run.schema import Alignment, PartitionOpened
from decoevo_dspy.run.session import prompt_hashes
from decoevo_dspy.run.standing import fold
from decoevo_dspy.values.skill import Skill
from decoevo_dspy.values.task import Question

PARTITIONS = ("test", "diagnostic")
"""Where alignment may be measured: partitions that never decide anything in a run."""


def align_run(
    folder: Path | None,
    config: Config,
    *,
    benchmark: str | None = None,
    partition: str = "test",
    labels: Path | None = None,
) -> dict[str, Any]:
    """Alignment of a run's last generator skill with gold, beside its initial one's, on a recorded partition.

    All figures are in [0, 1]. The outcome is noted in the run's log (``alignment``), its calls in the run's store.
    ``labels`` calibrates the matcher on top; without a ``folder`` that is all that is done. ``benchmark`` replaces the
    config's; another benchmark than the run's is a transfer, as in `decoevo_dspy.commands.evaluate.score_target`.

    Raises:
        ConfigurationError: for a folder without a run, a partition without gold criteria, or bad labels.
        EndpointError: when the matcher's or the generator's endpoint failed throughout.
    """
    if partition not in PARTITIONS:
        raise ConfigurationError(f"--partition: {partition!r} cannot be aligned; use one of {', '.join(PARTITIONS)}")
    if benchmark is not None and benchmark != config.data.benchmark:
        config = config.with_benchmark(benchmark)
    pairs = read_labels(labels) if labels is not None else None
    if folder is None:
        if pairs is None:
            raise ConfigurationError("give a run's folder, or --calibrate with a file of labels, or both")
        with closing(CallStore(None)) as store:
            aligner = _aligner(config, store, config.optimizer.seed, "align")
            calibration = aligner.calibrate(pairs)
        return {"run": None, **_matcher(aligner), "calibration": calibration, "usage": aligner.usage()}
    return _align(Run(folder), config, load_data(config), partition, pairs)


def _align(
    run: Run, config: Config, dataset: Dataset, partition: str, labels: Sequence[LabelledPair] | None
) -> dict[str, Any]:
    about = run.begun()
    questions, transfer = run_partition(about, run, config, dataset, partition)
    if not questions:
        raise ConfigurationError(f"data.sizes.{partition}: the partition is empty; there is nothing to align")
    first, last = generator_skills(run)
    with run.held(), closing(run.open_store()) as store:
        log = run.log(position=store.last_id)
        with closing(log):
            store.forget_failures(run.name, after=log.last_call)
            aligner = _aligner(config, store, about["seed"], run.name)
            if partition == "test":
                opened = {"benchmark": dataset.name, "questions": len(questions), "transfer": transfer}
                log.emit(PartitionOpened(by="align", **opened))
            figures = _figures(aligner, last, questions, dataset, partition)
            initial = figures if first == last else _figures(aligner, first, questions, dataset, partition)
            found = {
                "run": str(run.path),
                "benchmark": dataset.name,
                "partition": partition,
                "transfer": transfer,
                **_matcher(aligner),
                **figures,
                "initial": initial,
            }
            if labels is not None:
                found["calibration"] = aligner.calibrate(labels)
            found["times_opened"] = times_opened(log.events, dataset.name, recorded_benchmark(about))
            found["usage"] = aligner.usage()
            log.emit(Alignment(by="align", figures={**found, "run": run.name}))
    return found


def generator_skills(run: Run) -> tuple[Skill, Skill]:
    """The generator skill a run started from and the last one it accepted, by its log.

    Raises:
        ConfigurationError: when the run has not started.
    """
    generators = fold(run.events()).generators
    if not generators:
        raise ConfigurationError(f"{run.path}: this run holds no generator skill yet; let it start first")
    return generators[0], generators[-1]


def _aligner(config: Config, store: CallStore, seed: int, run: str) -> Aligner:
    threads = config.optimizer.num_threads
    return Aligner.open(role_lms=build_role_lms(config), seed=seed, store=store, run=run, num_threads=threads)


def _matcher(aligner: Aligner) -> dict[str, Any]:
    """Who matched, by which prompt."""
    return {"matcher": aligner.role_lms.lm("matcher").model, "matcher_prompt_hash": prompt_hashes()["MatchCriteria"]}


def _figures(
    aligner: Aligner, skill: Skill, questions: Sequence[Question], dataset: Dataset, partition: str
) -> Mapping[str, Any]:
    alignment = aligner.align(skill, questions, dataset, partition=partition)
    if not alignment.total:
        raise ConfigurationError(f"none of the {len(questions)} {partition} questions has gold criteria to align with")
    plain = asdict(alignment)
    return {"skill": skill.key, **plain, "without_gold": len(questions) - alignment.total}
