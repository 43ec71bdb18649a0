"""Audits: what a generator's rubrics miss. One audit per file, all of one small protocol.

An audit gives *findings* from the probe partition, which the generator rewriter reads, and an *objective* on V_g,
which the Pareto rule compares. No audit returns a solver score.
"""

from decoevo_dspy.audits.base import Audit, AuditReport
from decoevo_dspy.audits.contrastive import ContrastiveAudit, near_ties, net_resolution
from decoevo_dspy.audits.structural import StructuralAudit

__all__ = ["Audit", "AuditReport", "ContrastiveAudit", "StructuralAudit", "near_ties", "net_resolution"]
