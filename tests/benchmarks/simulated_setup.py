"""What the benchmarks on the simulated backbone share: world, partitions, a workbench, intervals and tables."""

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar, cast

import dspy
from scipy import stats as untyped  # pyright: ignore[reportMissingTypeStubs]

from decoevo_dspy import CoEvolutionResult, RoleLMs, Skill, simulated_lm
from decoevo_dspy.benchmarks.simulated import load_simulated, simulated_task
from decoevo_dspy.calls.budget import Budget
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.commands.build import build_student
from decoevo_dspy.run.session import Session
from decoevo_dspy.run.student import inputs_for
from decoevo_dspy.run.workbench import Item, Workbench
from decoevo_dspy.simulation.catalogue import REQUIREMENTS
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.phrasing import rule
from decoevo_dspy.simulation.world import cued, read_skill
from decoevo_dspy.values.rubric import Outcome, Rubric
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.task import Question

LABEL = "simulated backbone"
T = TypeVar("T")
R = TypeVar("R")
_stats: Any = untyped


def lms(parameters: WorldParameters | None = None) -> RoleLMs:
    """Every role on one simulated model, as in ``decoevo demo``."""
    return RoleLMs(default=simulated_lm(seed=0, parameters=parameters))


def items(questions: Iterable[Question], partition: str) -> list[Item]:
    """Questions as the loop sees them."""
    student = build_student()
    return [Item(question=q, inputs=inputs_for(q, student), partition=partition) for q in questions]


def result_of(program: dspy.Module) -> CoEvolutionResult:
    """What an optimiser attached to the program that it returned."""
    return cast(Any, program).detailed_results


@dataclass(kw_only=True)
class Sharing(Workbench):
    """A workbench that also remembers verdicts, so that several rules can be applied to the same records."""

    verdicts: dict[tuple[str, str, str, str], tuple[Outcome, ...]] = field(
        default_factory=dict[tuple[str, str, str, str], tuple[Outcome, ...]]
    )

    def judge(self, item: Item, response: str, rubric: Rubric, sample: str = "judge") -> tuple[Outcome, ...]:
        """As the product's; equal requests get equal replies, so remembering them changes nothing."""
        key = (item.id, response, rubric.numbered(), sample)
        if key not in self.verdicts:
            self.verdicts[key] = super().judge(item, response, rubric, sample)
        return self.verdicts[key]


def workbench(
    seed: int, settings: Settings, parameters: WorldParameters | None = None, store: CallStore | None = None
) -> Sharing:
    """A workbench of its own run, with roles on the simulated backbone; without a store, calls are kept in memory."""
    session = Session.open(
        run=f"benchmark-seed{seed}",
        seed=seed,
        role_lms=lms(parameters),
        num_threads=1,
        budget=Budget(),
        folder=None,
        store=store or CallStore(None),
        callbacks=(),
    )
    student = session.student(build_student(), settings, skill_target=None, response_field=None)
    bench = session.workbench(simulated_task(), settings, student)
    return Sharing(
        task=bench.task,
        settings=bench.settings,
        seed=bench.seed,
        roles=bench.roles,
        student=bench.student,
        executor=bench.executor,
        recorder=bench.recorder,
        counts=bench.counts,
    )


def missing_requirements(generator: Skill, questions: Sequence[Question]) -> list[str]:
    """Requirements that the skill does not name and that no rubric writer thinks of, weightiest first.

    Weight is gold points times the share of questions that call for it.
    """
    named = read_skill(generator.text).named
    calls = [cued(question.text) for question in questions]
    weight = {r.key: abs(r.points) * sum(r.key in keys for keys in calls) for r in REQUIREMENTS}
    return sorted((r.key for r in REQUIREMENTS if not r.obvious and r.key not in named), key=lambda k: -weight[k])


def naming(generator: Skill, keys: Iterable[str], seed: int = 0) -> Skill:
    """The skill with one rule more for each requirement, worded as the world's own rewriter would."""
    from random import Random

    rng = Random(seed)
    return Skill("\n".join([generator.text, *(rule(key, rng, False, "generator") for key in keys)]))


def wilson(hits: int, n: int) -> list[float]:
    """Wilson's 95 % interval of a proportion."""
    interval = _stats.binomtest(hits, n).proportion_ci(confidence_level=0.95, method="wilson")
    return [round(float(interval.low), 4), round(float(interval.high), 4)]


def spread(
    fn: Callable[[T], R], work: Sequence[T], jobs: int, done: Callable[[int, R], None] = lambda count, result: None
) -> list[R]:
    """``fn`` of every piece of work, in order, in ``jobs`` processes; 1 stays in this one.

    ``done(count, result)`` is told of each result, in order.
    """
    pool = ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn")) if jobs > 1 else None
    results: list[R] = []
    with pool or nullcontext():
        for result in (pool.map if pool else map)(fn, work):
            results.append(result)
            done(len(results), result)
    return results


def write(path: Path | None, report: Any) -> None:
    """The report as JSON, when a path is given."""
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table in plain text, labelled with where its figures come from."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    print(f"\n{title} [{LABEL}]")
    for index, row in enumerate(cells):
        line = [
            cell.ljust(w) if not column else cell.rjust(w)
            for column, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(line).rstrip())
        if not index:
            print("  ".join("-" * w for w in widths))


__all__ = [
    "LABEL",
    "items",
    "lms",
    "load_simulated",
    "missing_requirements",
    "naming",
    "result_of",
    "simulated_task",
    "spread",
    "table",
    "wilson",
    "workbench",
    "write",
]
