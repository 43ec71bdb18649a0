"""The task-conditioned structural audit: which requirements of the task does a rubric omit? (docs/METHOD.md §5)"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from decoevo_dspy.audits.base import AuditReport
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.roles.structural_auditor import StructuralFinding
from decoevo_dspy.rules.acceptance import Objective
from decoevo_dspy.run.workbench import Item, Workbench
from decoevo_dspy.values.findings import Finding
from decoevo_dspy.values.rubric import mean
from decoevo_dspy.values.skill import Skill


@dataclass(frozen=True)
class StructuralAudit:
    """φ_str(g; D) = mean adequacy u of the rubrics, against π_str; no response and no score is looked at."""

    specification: str
    name = "structural"
    heading = "What rubrics left out, against the public description of the task"

    def _audit(self, bench: Workbench, generator: Skill, item: Item, outer: int) -> StructuralFinding | NoReply:
        rubric = bench.rubric(item, generator)
        if isinstance(rubric, NoReply):
            return rubric
        auditor = bench.roles.structural_auditor
        return auditor.audit(
            self.specification, item.question.text, rubric, partition=item.partition, sample=f"audit{outer}"
        )

    def findings(
        self, bench: Workbench, solver: Skill, generator: Skill, probe: Sequence[Item], outer: int
    ) -> AuditReport:
        """Repairs κ with their rationale ξ; rubrics with nothing missing give no finding."""
        audited = bench.batch(lambda item: self._audit(bench, generator, item, outer), probe)
        done = [(item, one) for item, one in zip(probe, audited, strict=True) if not isinstance(one, NoReply)]
        findings = tuple(
            Finding(audit=self.name, question_id=item.id, principle=one.repair, reason=one.rationale)
            for item, one in done
            if one.repair
        )
        return AuditReport(
            audit=self.name,
            heading=self.heading,
            findings=findings,
            audited=len(probe),
            ungraded=len(probe) - len(done),
            evidence={"adequacy": mean([one.adequacy for _, one in done]).value},
        )

    def records(
        self, bench: Workbench, solver: Skill, generator: Skill, gate: Sequence[Item], outer: int
    ) -> Sequence[Item]:
        """The questions of V_g themselves."""
        return gate

    def describe(self, records: Sequence[Item]) -> list[dict[str, Any]]:
        """Nothing to add to the objective's own values."""
        return []

    def objective(self, bench: Workbench, generator: Skill, records: Sequence[Item], outer: int) -> Objective:
        """Adequacy u_q(g) by question of V_g."""
        audited = bench.batch(lambda item: self._audit(bench, generator, item, outer), records)
        return Objective(
            values={
                item.id: one.ungraded() if isinstance(one, NoReply) else one.adequacy
                for item, one in zip(records, audited, strict=True)
            }
        )
