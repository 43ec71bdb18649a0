"""One typed `dspy.Signature` per role. A signature's docstring is its prompt, so golden tests pin every one of them.

Each reply is one pydantic model with bounds on every string and list, because only bounds inside a nested model reach
the wire and keep small models from running into ``max_tokens``. Scores are asked for as integers 0–10 and divided.
"""

from decoevo_dspy.signatures.contrastive_auditor_blind import PreferBlind, Preference
from decoevo_dspy.signatures.contrastive_auditor_reveal import MissedDistinction, RevealMiss
from decoevo_dspy.signatures.contrastive_auditor_seeing import PreferSeeing
from decoevo_dspy.signatures.criterion_judge import CriterionVerdict, JudgeCriterion
from decoevo_dspy.signatures.generator_rewriter import RewriteGenerator
from decoevo_dspy.signatures.logprob_judge import JudgeYesNo, YesNo
from decoevo_dspy.signatures.matcher import CriterionMatches, MatchCriteria
from decoevo_dspy.signatures.rubric_generator import RubricDraft, WriteRubric
from decoevo_dspy.signatures.rubric_judge import JudgeRubric, RubricVerdicts
from decoevo_dspy.signatures.solver import AnswerQuestion
from decoevo_dspy.signatures.solver_rewriter import EditDraft, RewriteSolver, SkillRewrite
from decoevo_dspy.signatures.structural_auditor import AuditStructure, StructuralReport

__all__ = [
    "AnswerQuestion",
    "AuditStructure",
    "CriterionMatches",
    "CriterionVerdict",
    "EditDraft",
    "JudgeCriterion",
    "JudgeRubric",
    "JudgeYesNo",
    "MatchCriteria",
    "MissedDistinction",
    "PreferBlind",
    "PreferSeeing",
    "Preference",
    "RevealMiss",
    "RewriteGenerator",
    "RewriteSolver",
    "RubricDraft",
    "RubricVerdicts",
    "SkillRewrite",
    "StructuralReport",
    "WriteRubric",
    "YesNo",
]
