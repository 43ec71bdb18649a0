"""Training dynamics: every accepted checkpoint on the diagnostic partition, by its own rubrics and by official grading.

The same responses are scored twice. Neither score is used for any decision, and the calls are no part of the run's
usage. A proxy belongs to its own generator and is not comparable across checkpoints; the official score is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from decoevo_dspy.benchmarks.base import Grader, SealedGold
from decoevo_dspy.calls.budget import Budget
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.evaluation.official import grader_client
from decoevo_dspy.roles.lms import RoleLMs
from decoevo_dspy.run.schema import GeneratorDecision, RunStarted, SolverDecision
from decoevo_dspy.run.session import Session
from decoevo_dspy.run.standing import standings
from decoevo_dspy.run.student import inputs_for
from decoevo_dspy.run.workbench import Item
from decoevo_dspy.values.rubric import mean
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.skill import Skill
from decoevo_dspy.values.task import Question, Task


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The two incumbents after an accepted decision; ``step`` 0 is the start, ``version`` counts solver skills."""

    step: int
    version: int
    solver: Skill
    generator: Skill


def checkpoints(events: Sequence[Mapping[str, Any]]) -> list[Checkpoint]:
    """The start and the state after every accepted decision, in order, from a run's event log."""
    found: list[Checkpoint] = []
    for event, standing in standings(events):
        decided = isinstance(event, SolverDecision | GeneratorDecision)
        if isinstance(event, RunStarted) or (decided and event.accepted):
            found.append(
                Checkpoint(
                    step=event.step if decided else 0,
                    version=len(standing.solvers) - 1,
                    solver=standing.solver,
                    generator=standing.generator,
                )
            )
    return found


def measure(
    events: Sequence[Mapping[str, Any]],
    student: dspy.Module,
    questions: Sequence[Question],
    gold: SealedGold,
    grader: Grader,
    *,
    task: Task,
    settings: Settings,
    role_lms: RoleLMs,
    seed: int,
    store: CallStore,
    run: str,
    num_threads: int,
    skill_target: str | None = None,
    response_field: str | None = None,
) -> list[dict[str, Any]]:
    """One record per checkpoint: version, step, solver, generator, proxy (0–1), official (0–100), n_graded, n_total.

    Figures that could not be had are ``None``.

    Raises:
        EndpointError: when whole batches fail at the endpoint.
    """
    session = Session.open(
        run=run,
        seed=seed,
        role_lms=role_lms,
        num_threads=num_threads,
        budget=Budget(),
        folder=None,
        store=store,
        callbacks=(),
    )
    skilled = session.student(student, settings, skill_target=skill_target, response_field=response_field)
    bench = session.workbench(task, settings, skilled)
    client = grader_client(grader, role_lms, session.recorder, "diagnostic")
    items = [Item(question=q, inputs=inputs_for(q, student), partition="diagnostic") for q in questions]
    records: list[dict[str, Any]] = []
    for point in checkpoints(events):
        graded = bench.grade_all(items, point.solver, point.generator, sample="diagnostic")
        responses = {id: one.response for id, one in graded.items() if one.response is not None}
        proxy = mean([one.score for one in graded.values()])
        official = grader.grade(questions, responses, gold, client, session.recorder.executor.map)
        records.append(
            {
                "version": point.version,
                "step": point.step,
                "solver": point.solver.key,
                "generator": point.generator.key,
                "proxy": None if proxy.value is None else round(proxy.value, 6),
                "official": None if official.score is None else round(official.score, 4),
                "n_graded": official.n_graded,
                "n_total": official.n_total,
            }
        )
    return records
