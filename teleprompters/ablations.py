"""The six ablations: DecoEvo with one mechanism taken out each (docs/METHOD.md §11); keywords as for DecoEvo."""

from collections.abc import Sequence
from itertools import zip_longest

from decoevo_dspy.audits import Audit, AuditReport, ContrastiveAudit, StructuralAudit
from decoevo_dspy.audits.contrastive import random_pairs
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.run.workbench import Workbench
from decoevo_dspy.teleprompters.base import CoEvolution
from decoevo_dspy.teleprompters.method import Method
from decoevo_dspy.teleprompters.verification import NoVerification
from decoevo_dspy.values.skill import Candidate, Edit, Skill, apply_edits


def _structural_only(specification: str) -> tuple[Audit, ...]:
    return (StructuralAudit(specification),)


def _contrastive_only(specification: str) -> tuple[Audit, ...]:
    return (ContrastiveAudit(),)


def _seeing(specification: str) -> tuple[Audit, ...]:
    return (StructuralAudit(specification), ContrastiveAudit(blind=False))


def _any_pairs(specification: str) -> tuple[Audit, ...]:
    return (StructuralAudit(specification), ContrastiveAudit(select=random_pairs))


def append_findings(
    bench: Workbench, generator: Skill, reports: Sequence[AuditReport], outer: int
) -> Candidate | NoReply:
    """The κ texts appended verbatim as local patches, ``edit_budget`` in all, the audits by turns."""
    in_turn = [finding for row in zip_longest(*(report.findings for report in reports)) for finding in row if finding]
    edits = [
        Edit(op="append", content=f"- {' '.join(finding.principle.split())}")
        for finding in in_turn
        if finding.principle.strip()
    ]
    skill, applied = apply_edits(generator, edits, bench.settings.edit_budget)
    return Candidate(skill=skill, parent=generator, reports=applied, summary="findings appended verbatim")


class NoStructural(CoEvolution):
    """DecoEvo without the structural audit; the gate uses the contrastive objective alone."""

    method = Method(name="no-structural", audits=_contrastive_only)


class NoContrastive(CoEvolution):
    """DecoEvo without the contrastive audit; the gate uses the structural objective alone."""

    method = Method(name="no-contrastive", audits=_structural_only)


class NoBlind(CoEvolution):
    """DecoEvo whose auditor sees rubric and scores while it forms its preference."""

    method = Method(name="no-blind", audits=_seeing)


class NoNearTie(CoEvolution):
    """DecoEvo on random pairs instead of near-ties."""

    method = Method(name="no-near-tie", audits=_any_pairs)


class NoVerificationAblation(CoEvolution):
    """DecoEvo that accepts every candidate generator."""

    method = Method(name="no-verification", verification=NoVerification())


class NoDistillation(CoEvolution):
    """DecoEvo that appends the audits' texts verbatim instead of distilling them."""

    method = Method(name="no-distillation", distil=append_findings)


ABLATIONS = (NoStructural, NoContrastive, NoBlind, NoNearTie, NoVerificationAblation, NoDistillation)
