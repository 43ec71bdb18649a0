"""The verbs of the algorithm: each does one thing with models and records one decision with its evidence."""

from collections.abc import Mapping, Sequence
from typing import Any

from decoevo_dspy.audits import Audit, AuditReport
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.rules.acceptance import Accepted, Decision, PairedScores, Rejected, ScoreGate
from decoevo_dspy.run.events import EventLog
from decoevo_dspy.run.schema import (
    AuditReported,
    BatchGraded,
    GateEvidence,
    GeneratorDecision,
    IncumbentScored,
    SolverDecision,
)
from decoevo_dspy.run.workbench import Graded, Item, Workbench, check_students
from decoevo_dspy.teleprompters.method import Method
from decoevo_dspy.teleprompters.state import Parts, State
from decoevo_dspy.values.findings import Failure, Finding
from decoevo_dspy.values.leaks import LeakGuard
from decoevo_dspy.values.rubric import Mean, Ungraded, mean
from decoevo_dspy.values.seeds import generator as rng_for
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.skill import Candidate, Discarded, Skill, admit

FAILURES_SHOWN = 24
"""At most so many failures reach one rewriter call, weightiest first; the event says how many there were."""

REJECTED_SHOWN = 6
"""The rewriter sees the last so many rejected candidates with their scores (docs/METHOD.md §3)."""


def audit_is_due(state: State, settings: Settings) -> bool:
    """Every K inner steps since the last audit, or after M rejections in a row."""
    return state.since_audit >= settings.audit_every or state.stall >= settings.patience


def batch_of(train: Sequence[Item], settings: Settings, seed: int, step: int) -> tuple[list[Item], int]:
    """B_t and its epoch: consecutive slices of a fresh shuffle per epoch; a last short slice is used as it is."""
    size = min(settings.batch_size, len(train))
    per_epoch = -(-len(train) // size)
    epoch, slot = divmod(step - 1, per_epoch)
    order = list(train)
    rng_for(seed, "epoch", epoch).shuffle(order)
    return order[slot * size : (slot + 1) * size], epoch


def score_incumbent(bench: Workbench, parts: Parts, state: State, log: EventLog) -> float | None:
    """J_{V_s}(s_t, g_t): the incumbent on the solver gate under the current generator."""
    graded = bench.grade_all(parts.solver_gate, state.solver, state.generator)
    check_students(list(graded.values()))
    J = mean([one.score for one in graded.values()])
    skills = {"solver": state.solver.key, "generator": state.generator.key}
    log.emit(IncumbentScored(step=state.step, **skills, **_J(J)))
    return J.value


def propose_solver(
    bench: Workbench, parts: Parts, state: State, log: EventLog, guard: LeakGuard
) -> Candidate | Discarded:
    """Roll out B_t, pick failures, and let the rewriter turn them into a candidate s′."""
    settings = bench.settings
    batch, epoch = batch_of(parts.train, settings, bench.seed, state.step)
    graded = bench.grade_all(batch, state.solver, state.generator, sample=f"epoch{epoch}")
    check_students(list(graded.values()))
    failures = sorted(
        (failure for one in graded.values() for failure in one.failures(settings.failure_below)),
        key=lambda failure: (-failure.weight, failure.question_id, failure.criterion),
    )
    findings, state.findings = state.findings, ()
    J = mean([one.score for one in graded.values()])
    event = BatchGraded(
        step=state.step,
        solver=state.solver.key,
        generator=state.generator.key,
        questions=[item.id for item in batch],
        **_J(J),
        failures=len(failures),
        failures_shown=[_failure(failure) for failure in failures[:FAILURES_SHOWN]],
    )
    log.emit(event)
    if not failures and not findings:
        nothing = "no response of the batch could be graded" if not _graded(graded) else "no criterion failed"
        return Discarded(reason=f"nothing to improve: {nothing}")
    proposal = bench.ask(
        lambda: bench.roles.solver_rewriter.propose(
            bench.task,
            state.solver,
            failures[:FAILURES_SHOWN],
            state.rejected_edits[-REJECTED_SHOWN:],
            settings.edit_budget,
            sample=f"step{state.step}",
            findings=[(report.heading, report.findings) for report in findings],
        )
    )
    return admitted(proposal, guard, settings)


def admitted(proposal: Candidate | NoReply, guard: LeakGuard, settings: Settings) -> Candidate | Discarded:
    """A proposal that may go to a gate, or why not: it is a skill, it changes something, it copies nothing."""
    if isinstance(proposal, NoReply):
        return Discarded(reason=f"no usable reply of the rewriter ({proposal})")
    skill = admit(proposal, max_chars=settings.max_skill_chars)
    return guard.check(skill) if isinstance(skill, Candidate) else skill


def gate_solver(
    bench: Workbench, parts: Parts, state: State, candidate: Candidate | Discarded, log: EventLog
) -> Decision:
    """The inner gate on V_s: same questions, same cached rubrics, J must rise by more than ε."""
    settings, parent = bench.settings, state.solver
    if isinstance(candidate, Discarded):
        decision: Decision = Rejected(reason=f"discarded: {candidate.reason}")
        log.emit(SolverDecision(**_decided(state, parent, candidate, decision)))
        return decision
    old = bench.grade_all(parts.solver_gate, parent, state.generator)
    new = bench.grade_all(parts.solver_gate, candidate.skill, state.generator)
    scores = PairedScores(incumbent=_scores(old), candidate=_scores(new))
    rule = ScoreGate(epsilon=settings.epsilon, z=settings.gate_z, max_ungraded=settings.max_ungraded)
    decision = rule.decide(scores)
    before, after = scores.means()
    gate = GateEvidence(
        generator=state.generator.key,
        incumbent_J=_round(before.value),
        candidate_J=_round(after.value),
        n=before.n,
        ungraded=before.ungraded,
        ungraded_by=before.kinds or None,
        scores={id: [_score(scores.incumbent[id]), _score(scores.candidate[id])] for id in scores.incumbent},
    )
    if isinstance(decision, Accepted):
        state.solvers.append(candidate.skill)
        state.proxy = after.value
    elif before.value is not None and after.value is not None and not decision.undecided:
        state.rejected_edits.append(_rejected_line(candidate, before.value, after.value))
    log.emit(SolverDecision(**_decided(state, parent, candidate, decision), gate=gate))
    return decision


def audit(
    bench: Workbench, audits: Sequence[Audit], parts: Parts, state: State, log: EventLog
) -> tuple[AuditReport, ...]:
    """Both audits on the probe partition: the only source of what the generator rewriter reads."""
    reports = tuple(one.findings(bench, state.solver, state.generator, parts.probe, state.round) for one in audits)
    for report in reports:
        event = AuditReported(
            step=state.step,
            round=state.round,
            audit=report.audit,
            generator=state.generator.key,
            audited=report.audited,
            ungraded=report.ungraded,
            findings=[_finding(finding) for finding in report.findings],
            evidence=report.evidence,
        )
        log.emit(event)
    return reports


def distil_generator(
    bench: Workbench, method: Method, reports: Sequence[AuditReport], state: State, guard: LeakGuard
) -> Candidate | Discarded:
    """From findings to a candidate g′; an audit without findings asks for nothing."""
    if not any(report.findings for report in reports):
        return Discarded(reason="the audits found nothing")
    proposal = bench.ask(lambda: method.distil(bench, state.generator, reports, state.round))
    return admitted(proposal, guard, bench.settings)


def verify_generator(
    bench: Workbench,
    method: Method,
    audits: Sequence[Audit],
    parts: Parts,
    state: State,
    candidate: Candidate | Discarded,
    reports: Sequence[AuditReport],
    log: EventLog,
) -> Decision:
    """Verify g′ on V_g, paired with the incumbent, by the method's own rule."""
    parent = state.generator
    evidence: dict[str, Any] = {}
    if isinstance(candidate, Discarded):
        decision: Decision = Rejected(reason=f"discarded: {candidate.reason}")
    else:
        verified = method.verification.verify(
            bench, audits, state.solver, parent, candidate.skill, parts.generator_gate, state.round
        )
        decision = verified.decision
        evidence = {**verified.evidence, "rubrics": _rubrics(bench, parts.probe[:2], parent, candidate.skill)}
        if isinstance(decision, Accepted):
            state.generators.append(candidate.skill)
    event = GeneratorDecision(
        **_decided(state, parent, candidate, decision),
        round=state.round,
        findings=sum(len(report.findings) for report in reports),
        trigger="stall" if state.stall >= bench.settings.patience else "schedule",
        evidence=evidence,
    )
    log.emit(event)
    return decision


def _rubrics(bench: Workbench, items: Sequence[Item], old: Skill, new: Skill) -> list[dict[str, Any]]:
    """Rubrics of a few probe questions before and after, for whoever reads the log."""

    def lines(item: Item, skill: Skill) -> list[str]:
        rubric = bench.rubric(item, skill)
        return [str(rubric)] if isinstance(rubric, NoReply) else rubric.numbered().split("\n")

    shown = bench.batch(lambda item: (item.id, lines(item, old), lines(item, new)), items)
    return [{"question_id": id, "before": before, "after": after} for id, before, after in shown]


def _decided(state: State, parent: Skill, candidate: Candidate | Discarded, decision: Decision) -> dict[str, Any]:
    """What the events of both decisions say."""
    kept = isinstance(candidate, Candidate)
    return {
        "step": state.step,
        "accepted": isinstance(decision, Accepted),
        "reason": decision.reason,
        "parent": parent.key,
        "candidate": candidate.skill.key if kept else None,
        "text": candidate.skill.text if kept else candidate.text,
        "summary": candidate.summary if kept else "",
        "edits": [
            {
                "op": r.edit.op,
                "target": r.edit.target,
                "content": r.edit.content,
                "status": r.status,
                "reason": r.reason,
            }
            for r in candidate.reports
        ],
        "deltas": {name: _round(delta) for name, delta in decision.deltas.items()},
        "standard_errors": {name: _round(error) for name, error in decision.standard_errors.items()},
    }


def _rejected_line(candidate: Candidate, before: float, after: float) -> str:
    edits = "; ".join(
        f"{r.edit.op} «{(r.edit.content or r.edit.target)[:160]}»" for r in candidate.reports if r.status != "skipped"
    )
    return f"- {edits} (score {before:.3f} → {after:.3f})"


def _J(value: Mean) -> dict[str, Any]:
    """A score on a partition, as events say it."""
    return {"J": _round(value.value), "n": value.n, "ungraded": value.ungraded, "ungraded_by": value.kinds or None}


def _scores(graded: Mapping[str, Graded]) -> dict[str, float | Ungraded]:
    return {id: one.score for id, one in graded.items()}


def _graded(graded: Mapping[str, Graded]) -> bool:
    return any(not isinstance(one.score, Ungraded) for one in graded.values())


def _score(score: float | Ungraded) -> float | None:
    return None if isinstance(score, Ungraded) else _round(score)


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "question_id": failure.question_id,
        "criterion": failure.criterion,
        "points": failure.points,
        "score": _round(failure.score),
        "rationale": failure.rationale,
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {"question_id": finding.question_id, "principle": finding.principle, "reason": finding.reason}
