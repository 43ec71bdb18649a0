"""The teleprompter behind every method: compile a student by running the one loop with one part exchanged."""

import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from inspect import cleandoc
from pathlib import Path
from typing import Any, ClassVar

import dspy
from dspy.teleprompt import Teleprompter

from decoevo_dspy.audits import Audit, ContrastiveAudit
from decoevo_dspy.calls.budget import Budget
from decoevo_dspy.calls.executor import checked_threads
from decoevo_dspy.calls.recording import RecordedLM
from decoevo_dspy.calls.saving import discreet, public_state
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.errors import (
    BudgetExceeded,
    ConfigurationError,
    DataError,
    DecoEvoError,
    EndpointError,
    ReplayDiverged,
)
from decoevo_dspy.roles.lms import RoleLMs
from decoevo_dspy.run.events import Callback
from decoevo_dspy.run.folder import Run
from decoevo_dspy.run.result import CoEvolutionResult
from decoevo_dspy.run.schema import ProcessStarted, RunFinished, RunStarted, RunStopped
from decoevo_dspy.run.session import Session, prompt_hashes
from decoevo_dspy.run.standing import fold
from decoevo_dspy.run.student import (
    SkilledStudent,
    carried_skill,
    inputs_of,
    question_of,
    targets_of,
    with_solver_skill,
)
from decoevo_dspy.run.workbench import Item
from decoevo_dspy.teleprompters.coevolution import coevolve
from decoevo_dspy.teleprompters.method import Method, no_audits
from decoevo_dspy.teleprompters.state import Parts, State
from decoevo_dspy.values.leaks import LeakGuard, Passages, protected_passages
from decoevo_dspy.values.partition import check_distinct, interleave
from decoevo_dspy.values.settings import NAMES, Settings, described, option
from decoevo_dspy.values.skill import GENERATOR_SKILL, SOLVER_SKILL, Skill
from decoevo_dspy.values.task import Task

SHARES = {"train": 0.4, "probe": 0.15, "solver_gate": 0.225, "generator_gate": 0.225}
"""How a lone trainset is dealt to the partitions (ours)."""


@dataclass(kw_only=True, eq=False, repr=False)
class CoEvolution(Settings, Teleprompter):
    """Base of every compared method; use one of its subclasses.

    Raises:
        ConfigurationError: for an impossible value, with the allowed range.
    """

    method: ClassVar[Method]

    task: Task = field(
        kw_only=False,
        metadata={"meaning": "the public description from which π_str is built, and the initial skills"},
    )
    role_lms: RoleLMs = option(
        default_factory=RoleLMs, meaning="LMs by role; a role without one uses the LM of the DSPy context"
    )
    num_threads: int = option(8, meaning="largest number of concurrent model calls, 1 to 256")
    budget: Budget = option(
        default_factory=Budget,
        meaning="caps on logical calls, tokens and paid money; the first one reached stops the run, its state saved",
    )
    seed: int = option(0, meaning="from which all randomness is derived")
    log_dir: str | Path | None = option(None, meaning="the run's folder; None keeps log and calls in memory")
    resume: bool = option(
        False, meaning="go on with the run in log_dir: it replays what is committed and repeats no call"
    )
    callbacks: Iterable[Callback] = option((), meaning="called with every event of the run")
    skill_target: str | None = option(
        None, meaning="the predictor that carries the skill; None lets all of them share it"
    )
    response_field: str | None = option(
        None, meaning='the field of the student\'s prediction that is judged; None is "response", else the last'
    )
    evolve_generator: bool = option(True, meaning="False switches the outer loop off, which makes any method SkillOpt")

    def __init_subclass__(cls) -> None:
        cls.__doc__ = f"{cleandoc(cls.__doc__ or '')}\n\n{described(cls, fields(CoEvolution))}\n"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.task, Task):
            raise ConfigurationError(f"task: give a decoevo_dspy.Task, not {type(self.task).__name__}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise ConfigurationError(f"seed = {self.seed!r}: give a whole number")
        checked_threads(self.num_threads)
        self.role_lms, self.budget = self.role_lms or RoleLMs(), self.budget or Budget()
        self.log_dir = Path(self.log_dir) if self.log_dir is not None else None
        self.callbacks = list(self.callbacks or ())

    @property
    def settings(self) -> Settings:
        """The settings alone."""
        return Settings(**{name: getattr(self, name) for name in NAMES})

    def compile(  # pyright: ignore[reportIncompatibleMethodOverride] - unknown keywords must raise
        self,
        student: dspy.Module,
        *,
        trainset: list[dspy.Example],
        teacher: dspy.Module | None = None,
        valset: list[dspy.Example] | None = None,
        probeset: list[dspy.Example] | None = None,
        gateset: list[dspy.Example] | None = None,
    ) -> dspy.Module:
        """Optimise the student's skill; the student itself is not changed.

        ``valset`` is V_s, ``gateset`` V_g, ``probeset`` the probe partition; what is not given is dealt out of
        ``trainset`` (40 % train, 15 % probe, 22.5 % for each gate) and named in ``detailed_results.partitions``.

        Raises:
            ConfigurationError: for a teacher, a student without predictor, or bad data.
            EndpointError: when an endpoint cannot be used; the state is saved.
        """
        if teacher is not None:
            raise ConfigurationError("teacher: this optimiser has none; leave it out")
        given = {"train": trainset, "probe": probeset, "solver_gate": valset, "generator_gate": gateset}
        parts = parts_of({name: examples for name, examples in given.items() if examples is not None}, self.seed)
        return self.optimise(student, parts)

    def optimise(
        self,
        student: dspy.Module,
        parts: Parts,
        *,
        store: CallStore | None = None,
        protected: Passages | None = None,
        partitions: Mapping[str, Sequence[str]] | None = None,
        config: Any = None,
    ) -> dspy.Module:
        """`compile` on ready partitions.

        ``store`` is an experiment's shared call store; ``protected`` are hashes of text that no skill may copy (gold,
        test questions); ``partitions`` are the id lists to record; ``config`` is what ``run.json`` quotes.
        """
        folder = Run(Path(self.log_dir)) if self.log_dir else None
        own_store = None
        with folder.held() if folder else nullcontext():
            if folder:
                folder.start(resume=self.resume)
            if store is None:
                store = own_store = CallStore(folder.calls if folder else None)
            with closing(own_store) if own_store else nullcontext():
                return self._optimise(student, parts, folder, store, protected, partitions, config)

    def _optimise(
        self,
        student: dspy.Module,
        parts: Parts,
        folder: Run | None,
        store: CallStore,
        protected: Passages | None,
        partitions: Mapping[str, Sequence[str]] | None,
        config: Any,
    ) -> dspy.Module:
        session = Session.open(
            run=folder.run_name() if folder else f"{self.method.name}-seed{self.seed}",
            seed=self.seed,
            role_lms=self.role_lms,
            num_threads=self.num_threads,
            budget=self.budget,
            folder=folder,
            store=store,
            callbacks=self.callbacks,
        )
        with closing(session.log):
            return self._run(student, parts, session, protected, partitions, config)

    def _run(
        self,
        student: dspy.Module,
        parts: Parts,
        session: Session,
        protected: Passages | None,
        partitions: Mapping[str, Sequence[str]] | None,
        config: Any,
    ) -> dspy.Module:
        method = self.method if self.evolve_generator else _without_generator(self.method)
        targets = targets_of(student, self.skill_target)
        skilled = session.student(
            student, self.settings, skill_target=self.skill_target, response_field=self.response_field
        )
        bench = session.workbench(self.task, self.settings, skilled, pause_s=PAUSE_S)
        state = State(solvers=[self._first_solver(student, targets)], generators=[self._first_generator(method)])
        ids = partitions or {name: [item.id for item in getattr(parts, name)] for name in SHARES}
        _check_temperature(method.audits(self.task.specification()), skilled.lm)
        started = RunStarted(
            method=method.name,
            task=self.task.name,
            settings=asdict(self.settings),
            solver_skill=state.solver.text,
            generator_skill=state.generator.text,
            specification=self.task.specification(),
            partitions={name: list(members) for name, members in ids.items()},
            prompt_hashes=prompt_hashes(),
            models=session.identities(),
        )
        session.log.emit(started)
        session.write_run_file(
            method=method.name, settings=self.settings, task=self.task, partitions=ids, config=config
        )
        session.log.emit(ProcessStarted(models=session.models(), threads=self.num_threads))

        def keep(kind: str, version: int, skill: Skill) -> None:
            if session.folder:
                session.folder.write_skill(kind, version, skill)

        keep("solver", 0, state.solver)
        keep("generator", 0, state.generator)
        guard = self._guard(parts, state, protected)
        stopped_by = "steps"
        try:
            session.preflight(skilled.lm)
            coevolve(bench, method, parts, state, session.log, guard, keep)
            finished = RunFinished(steps=state.step, solver=state.solver.key, generator=state.generator.key)
            session.log.emit(finished)
        except BudgetExceeded as error:
            if session.log.replaying:  # the saved state is ahead of this replay: leave it alone
                raise
            stopped_by = "budget"
            session.log.emit(RunStopped(stopped_by=stopped_by, reason=str(error)))
        except (DecoEvoError, KeyboardInterrupt) as error:
            if session.log.replaying or isinstance(error, ReplayDiverged):
                raise
            stopped_by = "endpoint" if isinstance(error, EndpointError) else "interrupt"
            if isinstance(error, ConfigurationError):
                stopped_by = "error"
            session.log.emit(RunStopped(stopped_by=stopped_by, reason=str(error) or "interrupted"))
            self._save(session, self._result(session, method, state, ids, stopped_by), student, targets)
            raise
        return self._save(session, self._result(session, method, state, ids, stopped_by), student, targets)

    def _first_solver(self, student: dspy.Module, targets: Sequence[str]) -> Skill:
        return carried_skill(student, targets) or Skill(self.task.solver_skill or SOLVER_SKILL)

    def _first_generator(self, method: Method) -> Skill:
        skill = Skill(self.task.generator_skill or GENERATOR_SKILL)
        if method.prior:
            return Skill(f"{skill.text}\n\n# What the task asks of an answer\n{self.task.specification()}")
        return skill

    def _guard(self, parts: Parts, state: State, protected: Passages | None) -> LeakGuard:
        questions = [item.question.text for name in SHARES for item in getattr(parts, name)]
        own = protected_passages(questions)
        public = [self.task.description, self.task.evaluation, state.solver.text, state.generator.text]
        return LeakGuard(own if protected is None else own | protected, public)

    def _result(
        self, session: Session, method: Method, state: State, ids: Mapping[str, Sequence[str]], stopped_by: str
    ) -> CoEvolutionResult:
        events = session.log.events
        decided = fold(events).decided
        return CoEvolutionResult(
            method=method.name,
            seed=self.seed,
            solver_skills=tuple(state.solvers),
            generator_skills=tuple(state.generators),
            proxy=state.proxy,
            steps=decided["solver"],
            history=tuple(events),
            usage=session.recorder.ledger.by_role(),
            replies=session.counts.by_role(),
            partitions={name: tuple(members) for name, members in ids.items()},
            stopped_by=stopped_by,
            wall_s=time.monotonic() - session.started,
            folder=session.folder.path if session.folder else None,
            budget={
                **{cap: value for cap, value in asdict(session.recorder.ledger.budget).items() if value is not None},
                **session.recorder.ledger.totals(),
            },
            gate_queries={
                "solver_gate": decided["solver"],
                "generator_gate": decided["generator"],
            },
        )

    def _save(
        self, session: Session, result: CoEvolutionResult, student: dspy.Module, targets: Sequence[str]
    ) -> dspy.Module:
        program = discreet(with_solver_skill(student, targets, result.solver_skill))
        if session.folder:
            session.folder.write_programs(_state(program), _state(result.rubric_generator))
            session.folder.write_result(result.to_dict())
        program.detailed_results = result  # pyright: ignore[reportAttributeAccessIssue] - as GEPA does
        return program


PAUSE_S = 5.0
"""Seconds between two tries of a batch that failed at the endpoint."""


def _check_temperature(audits: Sequence[Audit], lm: RecordedLM) -> None:
    """Refuse a solver at temperature 0 where its own rollouts are to be compared: they would all be the same."""
    if lm.kwargs.get("temperature") == 0 and any(isinstance(audit, ContrastiveAudit) for audit in audits):
        raise ConfigurationError(
            "the solver's temperature is 0, so all rollouts of the contrastive audit would be alike; give one "
            "above 0 (default 0.7), or a method without that audit"
        )


def _without_generator(method: Method) -> Method:
    """The same method with generator evolution switched off."""
    return replace(method, audits=no_audits)


def _state(program: dspy.Module) -> Any:
    """DSPy's own JSON of a program, with nothing of an LM that may not be shown."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / "program.json"
        program.save(str(temporary))
        return public_state(json.loads(temporary.read_text("utf-8")))


def parts_of(given: Mapping[str, Sequence[dspy.Example]], seed: int) -> Parts:
    """Items of the four partitions of the loop; those that are not given are dealt out of ``train``.

    Raises:
        DataError: for too few examples.
        LeakageError: for duplicates, within a partition or across.
    """
    items: dict[str, list[Item]] = {}
    for name, examples in given.items():
        items[name] = []
        for index, example in enumerate(examples):
            question = question_of(example, index)
            items[name].append(Item(question=question, inputs=inputs_of(example), partition=name))
    check_distinct((item.question, name) for name, members in items.items() for item in members)
    missing = [name for name in SHARES if name not in items]
    if missing:
        pool = {item.id: item for item in items["train"]}
        total = sum(SHARES[name] for name in ["train", *missing])
        sizes = {name: max(1, int(len(pool) * SHARES[name] / total)) for name in missing}
        if len(pool) <= sum(sizes.values()):
            raise DataError(
                f"too few rows: {len(pool)} examples cannot be dealt to train, {', '.join(missing)}; give at least "
                f"{2 * (1 + len(missing))}"
            )
        units = interleave([(item.question,) for item in pool.values()], seed)
        order = [pool[unit[0].id] for unit in units]
        for name in missing:
            dealt, order = order[: sizes[name]], order[sizes[name] :]
            items[name] = [Item(question=i.question, inputs=i.inputs, partition=name) for i in dealt]
        items["train"] = order
    empty = [name for name in SHARES if not items[name]]
    if empty:
        raise DataError(f"the partition {empty[0]} is empty; give it at least one example")
    return Parts(**items)


__all__ = ["SHARES", "CoEvolution", "SkilledStudent", "parts_of"]
