"""What tells the compared methods apart: one frozen description each, of a loop that they all share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from decoevo_dspy.audits import Audit, AuditReport, ContrastiveAudit, StructuralAudit
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.run.workbench import Workbench
from decoevo_dspy.teleprompters.verification import AuditVerification, Verification
from decoevo_dspy.values.skill import Candidate, Skill

Distil = Callable[[Workbench, Skill, Sequence[AuditReport], int], Candidate | NoReply]
"""(bench, incumbent g, probe reports, outer step) → candidate g′."""


def distil(bench: Workbench, generator: Skill, reports: Sequence[AuditReport], outer: int) -> Candidate | NoReply:
    """The generator rewriter turns recurring findings into general rules (docs/METHOD.md §6)."""
    sections = [(report.heading, report.findings) for report in reports]
    return bench.roles.generator_rewriter.distil(
        bench.task, generator, sections, bench.settings.edit_budget, sample=f"round{outer}"
    )


def default_audits(specification: str) -> tuple[Audit, ...]:
    """DecoEvo's two views: what is omitted, and what is not told apart."""
    return (StructuralAudit(specification), ContrastiveAudit())


@dataclass(frozen=True, kw_only=True)
class Method:
    """One compared method (docs/METHOD.md §11).

    Attributes:
        name: as on the command line.
        optimises: false for zero-shot, which takes no step.
        audits: from π_str to the audits that run; an empty tuple means that the generator never changes.
        findings_to: who reads the probe findings.
        distil: from findings to a candidate generator.
        verification: how the candidate is accepted.
        prior: whether π_str is appended to the initial generator skill.
    """

    name: str
    optimises: bool = True
    audits: Callable[[str], tuple[Audit, ...]] = default_audits
    findings_to: Literal["generator", "solver"] = "generator"
    distil: Distil = distil
    verification: Verification = field(default_factory=AuditVerification)
    prior: bool = False


def no_audits(specification: str) -> tuple[Audit, ...]:
    """No outer loop: the generator stays as it is."""
    return ()
