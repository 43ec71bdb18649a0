"""How a candidate generator is verified on V_g: by the audits alone, by the solver's score, or not at all.

`AuditVerification` is score-decoupled by construction: its rule takes `AuditObjectives`, and no number of a solver's
quality can be written into one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from decoevo_dspy.audits import Audit
from decoevo_dspy.rules.acceptance import (
    Accepted,
    AuditObjectives,
    Decision,
    Objective,
    PairedScores,
    ParetoRule,
    ScoreGate,
)
from decoevo_dspy.run.workbench import Item, Workbench
from decoevo_dspy.values.rubric import Ungraded, mean
from decoevo_dspy.values.skill import Skill


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A decision on a generator, with its evidence for the log."""

    decision: Decision
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Verification(Protocol):
    """Decides whether a candidate generator replaces the incumbent, on the questions of V_g."""

    def verify(
        self,
        bench: Workbench,
        audits: Sequence[Audit],
        solver: Skill,
        incumbent: Skill,
        candidate: Skill,
        gate: Sequence[Item],
        outer: int,
    ) -> Verified: ...


class AuditVerification:
    """DecoEvo's: held-out audit objectives of both generators, compared by the Pareto rule (docs/METHOD.md §7)."""

    def verify(
        self,
        bench: Workbench,
        audits: Sequence[Audit],
        solver: Skill,
        incumbent: Skill,
        candidate: Skill,
        gate: Sequence[Item],
        outer: int,
    ) -> Verified:
        """Records once, objectives of both sides, one decision."""
        records = {audit.name: audit.records(bench, solver, incumbent, gate, outer) for audit in audits}
        old, new = (
            AuditObjectives(by_audit={a.name: a.objective(bench, generator, records[a.name], outer) for a in audits})
            for generator in (incumbent, candidate)
        )
        described = {audit.name: audit.describe(records[audit.name]) for audit in audits}
        evidence = _evidence(old, new) | {"records": {name: found for name, found in described.items() if found}}
        return Verified(decision=decide_on_audits(pareto_rule(bench), old, new), evidence=evidence)


def pareto_rule(bench: Workbench) -> ParetoRule:
    """The run's Pareto rule."""
    s = bench.settings
    return ParetoRule(delta=s.delta, eta=s.eta, z=s.verify_z, eta_z=s.eta_z, max_ungraded=s.max_ungraded)


def decide_on_audits(rule: ParetoRule, incumbent: AuditObjectives, candidate: AuditObjectives) -> Decision:
    """The score-decoupled decision (Definition 1): there is no argument through which J could arrive."""
    return rule.decide(incumbent, candidate)


class ScoreVerification:
    """SC-CoEvo's: g′ is accepted iff J_{V_g}(s_t, g′) > J_{V_g}(s_t, g_t) + δ (docs/METHOD.md §11)."""

    def verify(
        self,
        bench: Workbench,
        audits: Sequence[Audit],
        solver: Skill,
        incumbent: Skill,
        candidate: Skill,
        gate: Sequence[Item],
        outer: int,
    ) -> Verified:
        """The current solver's aggregate score under both generators."""
        old, new = (bench.grade_all(gate, solver, generator) for generator in (incumbent, candidate))
        scores = PairedScores(
            incumbent={id: one.score for id, one in old.items()}, candidate={id: one.score for id, one in new.items()}
        )
        gate_rule = ScoreGate(epsilon=bench.settings.delta, max_ungraded=bench.settings.max_ungraded)
        before, after = scores.means()
        evidence = {"incumbent_J": before.value, "candidate_J": after.value, "n": before.n, "ungraded": before.ungraded}
        return Verified(decision=gate_rule.decide(scores), evidence={"proxy": evidence})


class NoVerification:
    """The ablation: every candidate that is a skill at all is accepted."""

    def verify(
        self,
        bench: Workbench,
        audits: Sequence[Audit],
        solver: Skill,
        incumbent: Skill,
        candidate: Skill,
        gate: Sequence[Item],
        outer: int,
    ) -> Verified:
        """Accept without a look."""
        return Verified(decision=Accepted(reason="accepted without verification"))


def _evidence(old: AuditObjectives, new: AuditObjectives) -> dict[str, Any]:
    values = [value for side in (old, new) for one in side.by_audit.values() for value in one.values.values()]
    kinds = mean(values).kinds
    return {
        "objectives": {
            name: {"incumbent": _plain(old.by_audit[name]), "candidate": _plain(new.by_audit[name])}
            for name in old.by_audit
        },
        **({"ungraded_by": kinds} if kinds else {}),
    }


def _plain(objective: Objective) -> dict[str, float | None]:
    return {
        id: None if isinstance(value, Ungraded) else round(value, 6) for id, value in sorted(objective.values.items())
    }
