"""Where a run stands after each of its events: the one fold of a log into state."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from decoevo_dspy.run.schema import (
    AnyEvent,
    Diagnostic,
    GeneratorDecision,
    IncumbentScored,
    Official,
    RunFinished,
    RunStarted,
    RunStopped,
    SolverDecision,
    typed,
)
from decoevo_dspy.values.skill import Skill

Artefact = Literal["solver", "generator"]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A run's state by its log.

    Attributes:
        solvers: s_0 and every accepted solver skill; the last is the incumbent. Empty before the start.
        generators: g_0 and every accepted generator skill, alike.
        step: the last inner step that came to its decision.
        round: the last outer step that came to its decision.
        J: the incumbent's score on V_s under the incumbent generator, in [0, 1].
        decided: decisions by artefact, accepted or not.
        scores: official scores by the key of the solver skill that they are of; the last word counts.
        checkpoints: accepted checkpoints that were measured on the diagnostic partition.
        finished: whether the last step was decided.
        stopped: why the run stopped before that, if it did.
    """

    solvers: tuple[Skill, ...] = ()
    generators: tuple[Skill, ...] = ()
    step: int = 0
    round: int = 0
    J: float | None = None
    decided: Mapping[Artefact, int]
    scores: Mapping[str, Mapping[str, Any]]
    checkpoints: tuple[Diagnostic, ...] = ()
    finished: bool = False
    stopped: RunStopped | None = None

    @property
    def solver(self) -> Skill:
        """s_t."""
        return self.solvers[-1]

    @property
    def generator(self) -> Skill:
        """g_t."""
        return self.generators[-1]

    @property
    def accepted(self) -> dict[Artefact, int]:
        """Accepted candidates by artefact."""
        return {"solver": max(len(self.solvers) - 1, 0), "generator": max(len(self.generators) - 1, 0)}


START = Standing(decided={"solver": 0, "generator": 0}, scores={})
"""Before the first event."""


def after(standing: Standing, event: AnyEvent) -> Standing:
    """Where a run stands after one more event."""
    if isinstance(event, RunStarted):
        return replace(standing, solvers=(Skill(event.solver_skill),), generators=(Skill(event.generator_skill),))
    if isinstance(event, IncumbentScored):
        return replace(standing, J=event.J)
    if isinstance(event, SolverDecision):
        standing = replace(standing, step=event.step, decided=_one_more(standing, "solver"))
        if not event.accepted:
            return standing
        J = event.gate.candidate_J if event.gate else standing.J
        return replace(standing, solvers=(*standing.solvers, Skill(event.text)), J=J)
    if isinstance(event, GeneratorDecision):
        standing = replace(standing, round=event.round, decided=_one_more(standing, "generator"))
        taken = (Skill(event.text),) if event.accepted else ()
        return replace(standing, generators=(*standing.generators, *taken))
    if isinstance(event, Official):
        solver = event.solver or standing.solver.key
        return replace(standing, scores={**standing.scores, solver: event.score})
    if isinstance(event, Diagnostic):
        return replace(standing, checkpoints=(*standing.checkpoints, event))
    if isinstance(event, RunFinished):
        return replace(standing, finished=True, stopped=None)
    return replace(standing, stopped=event) if isinstance(event, RunStopped) else standing


def standings(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[AnyEvent, Standing]]:
    """Every event that this version knows, with where the run stands after it."""
    standing = START
    for record in records:
        event = typed(record)
        if event is not None:
            standing = after(standing, event)
            yield event, standing


def fold(records: Iterable[Mapping[str, Any]]) -> Standing:
    """Where a run stands at the end of its log."""
    last = deque(standings(records), maxlen=1)
    return last[0][1] if last else START


def _one_more(standing: Standing, artefact: Artefact) -> dict[Artefact, int]:
    return {**standing.decided, artefact: standing.decided[artefact] + 1}
