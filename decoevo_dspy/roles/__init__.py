"""The roles: one `dspy.Module` each, over the typed signatures. Here, and only here, a role meets its LM."""

from decoevo_dspy.roles.base import NoReply, ReplyCounts, Role
from decoevo_dspy.roles.contrastive_auditor import ContrastiveAuditor
from decoevo_dspy.roles.rewriters import GeneratorRewriter, SolverRewriter
from decoevo_dspy.roles.rubric_generator import RubricGenerator
from decoevo_dspy.roles.rubric_judge import RubricJudge
from decoevo_dspy.roles.structural_auditor import StructuralAuditor

__all__ = [
    "ContrastiveAuditor",
    "GeneratorRewriter",
    "NoReply",
    "ReplyCounts",
    "Role",
    "RubricGenerator",
    "RubricJudge",
    "SolverRewriter",
    "StructuralAuditor",
]
