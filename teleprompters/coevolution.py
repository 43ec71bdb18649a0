"""The algorithm: propose, gate; audit, distil, verify. METHOD.md §3–4 on one screen; every verb is named elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from decoevo_dspy.acceptance import Accepted
from decoevo_dspy.audits import Audit, AuditReport
from decoevo_dspy.running.events import EventLog
from decoevo_dspy.running.workbench import Item, Workbench
from decoevo_dspy.skill import Skill
from decoevo_dspy.teleprompters import steps
from decoevo_dspy.teleprompters.method import Method
from decoevo_dspy.teleprompters.steps import LeakGuard


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The partitions that the loop may touch. Diagnostic, pilot and test questions are not among them."""

    train: Sequence[Item]
    probe: Sequence[Item]
    solver_gate: Sequence[Item]
    generator_gate: Sequence[Item]


@dataclass(kw_only=True)
class State:
    """Where a run stands. Both skill lists grow by one with every acceptance; the last of each is the incumbent."""

    solvers: list[Skill]
    generators: list[Skill]
    step: int = 0
    round: int = 0
    stall: int = 0
    since_audit: int = 0
    proxy: float | None = None
    rejected_edits: list[str] = field(default_factory=list[str])
    findings: tuple[AuditReport, ...] = ()

    @property
    def solver(self) -> Skill:
        """s_t."""
        return self.solvers[-1]

    @property
    def generator(self) -> Skill:
        """g_t."""
        return self.generators[-1]


def coevolve(
    bench: Workbench,
    method: Method,
    parts: Parts,
    state: State,
    log: EventLog,
    guard: LeakGuard,
    keep: Callable[[str, int, Skill], None],
) -> None:
    """Run the method for ``settings.steps`` inner steps from ``state``, in place.

    ``keep(kind, version, skill)`` is called for every accepted version. Whatever stops the run early is raised, and
    leaves ``state`` at the last decision.
    """
    audits = method.audits(bench.task.specification())
    state.proxy = steps.score_incumbent(bench, parts, state, log)
    for step in range(1, bench.settings.steps + 1 if method.optimises else 1):
        state.step = step
        candidate = steps.propose_solver(bench, parts, state, log, guard)
        decision = steps.gate_solver(bench, parts, state, candidate, log)
        if isinstance(decision, Accepted):
            keep("solver", len(state.solvers) - 1, state.solver)
        state.stall = 0 if isinstance(decision, Accepted) else state.stall + 1
        state.since_audit += 1
        if audits and steps.audit_is_due(state, bench.settings):
            outer_step(bench, method, audits, parts, state, log, guard, keep)
            state.stall = state.since_audit = 0


def outer_step(
    bench: Workbench,
    method: Method,
    audits: Sequence[Audit],
    parts: Parts,
    state: State,
    log: EventLog,
    guard: LeakGuard,
    keep: Callable[[str, int, Skill], None],
) -> None:
    """Audit → distil → verify; an accepted generator has the incumbent solver scored again under it."""
    state.round += 1
    reports = steps.audit(bench, audits, parts, state, log)
    if method.findings_to == "solver":
        state.findings = reports
        return
    candidate = steps.distil_generator(bench, method, reports, state, guard)
    decision = steps.verify_generator(bench, method, audits, parts, state, candidate, reports, log)
    if isinstance(decision, Accepted):
        keep("generator", len(state.generators) - 1, state.generator)
        state.proxy = steps.score_incumbent(bench, parts, state, log)
