"""The algorithm: propose, gate; audit, distil, verify. docs/METHOD.md §2 as code; each verb is in `steps`."""

from collections.abc import Callable, Sequence

from decoevo_dspy.audits import Audit
from decoevo_dspy.rules.acceptance import Accepted
from decoevo_dspy.run.events import EventLog
from decoevo_dspy.run.workbench import Workbench
from decoevo_dspy.teleprompters import steps
from decoevo_dspy.teleprompters.method import Method
from decoevo_dspy.teleprompters.state import Parts, State
from decoevo_dspy.values.leaks import LeakGuard
from decoevo_dspy.values.skill import Skill


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
