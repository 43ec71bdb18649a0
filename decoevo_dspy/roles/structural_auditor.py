"""The structural auditor as a module: rubric → adequacy u, rationale ξ, repair κ; no response, no score."""

from dataclasses import dataclass

import dspy

from decoevo_dspy.roles.base import NoReply, Role
from decoevo_dspy.signatures import AuditStructure
from decoevo_dspy.values.rubric import Rubric


@dataclass(frozen=True, kw_only=True)
class StructuralFinding:
    """Adequacy u ∈ [0, 1], rationale ξ and repair κ (empty when nothing is missing) of one rubric."""

    adequacy: float
    rationale: str
    repair: str


class StructuralAuditor(Role):
    """Asks what a rubric omits, against the public specification π_str alone (docs/METHOD.md §5)."""

    name = "structural_auditor"
    signature = AuditStructure

    def audit(
        self, specification: str, question: str, rubric: Rubric, *, partition: str = "", sample: str = "audit"
    ) -> StructuralFinding | NoReply:
        """Audit the rubric of one question."""
        return self.ask(
            _finding,
            {
                "specification": self.fence("specification", specification),
                "question": self.fence("question", question),
                "rubric": self.fence("rubric", rubric.numbered()),
            },
            partition=partition,
            sample=sample,
        )


def _finding(prediction: dspy.Prediction) -> StructuralFinding:
    report = prediction.report
    return StructuralFinding(
        adequacy=report.adequacy / 10, rationale=report.rationale.strip(), repair=report.repair.strip()
    )
