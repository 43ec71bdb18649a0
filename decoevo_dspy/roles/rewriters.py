"""The two rewriters: from failures or findings to typed edits of a skill document."""

from collections.abc import Sequence

import dspy

from decoevo_dspy.roles.base import InvalidReply, NoReply, Role, check_material
from decoevo_dspy.roles.text import failures_text, findings_text
from decoevo_dspy.signatures import RewriteGenerator, RewriteSolver
from decoevo_dspy.values.findings import Failure, Finding
from decoevo_dspy.values.skill import Candidate, Edit, Skill, apply_edits
from decoevo_dspy.values.task import Task


class SolverRewriter(Role):
    """Turns judge failures (and, for Direct Audit, audit findings) into edits of the solver skill."""

    name = "solver_rewriter"
    signature = RewriteSolver

    def propose(
        self,
        task: Task,
        skill: Skill,
        failures: Sequence[Failure],
        rejected: Sequence[str],
        budget: int,
        *,
        sample: str,
        findings: Sequence[tuple[str, Sequence[Finding]]] = (),
    ) -> Candidate | NoReply:
        """A candidate skill s′ from at most ``budget`` edits; ``rejected`` are earlier edits with their scores."""
        evidence = failures_text(failures) + (f"\n\n{findings_text(findings)}" if findings else "")
        rewrite = self.ask(
            _edits,
            {
                "task": self.fence("task", task.description),
                "skill": self.fence("skill", skill.text),
                "failures": self.fence("failures", evidence),
                "rejected_edits": self.fence("rejected edits", "\n".join(rejected) or "(none)"),
                "edit_budget": budget,
            },
            partition="train",
            sample=sample,
        )
        return rewrite if isinstance(rewrite, NoReply) else candidate(skill, rewrite, budget)


class GeneratorRewriter(Role):
    """Distils audit findings of the probe partition into edits of the generator skill; it sees nothing else."""

    name = "generator_rewriter"
    signature = RewriteGenerator

    def distil(
        self, task: Task, skill: Skill, findings: Sequence[tuple[str, Sequence[Finding]]], budget: int, *, sample: str
    ) -> Candidate | NoReply:
        """A candidate skill g′ from the findings, by section, with at most ``budget`` edits."""
        rewrite = self.ask(
            _edits,
            {
                "task": self.fence("task", task.description),
                "skill": self.fence("skill", skill.text),
                "findings": self.fence("findings", findings_text(findings)),
                "edit_budget": budget,
            },
            partition="probe",
            sample=sample,
        )
        return rewrite if isinstance(rewrite, NoReply) else candidate(skill, rewrite, budget)


Rewrite = tuple[str, tuple[Edit, ...]]


def _edits(prediction: dspy.Prediction) -> Rewrite:
    rewrite = prediction.rewrite
    if not rewrite.edits:
        raise InvalidReply("no edits")
    check_material(edit.content for edit in rewrite.edits)
    return rewrite.summary.strip(), tuple(Edit(op=e.op, target=e.target, content=e.content) for e in rewrite.edits)


def candidate(parent: Skill, rewrite: Rewrite, budget: int) -> Candidate:
    """The skill that a rewrite makes of its parent; whether it may go to a gate is decided elsewhere."""
    summary, edits = rewrite
    skill, reports = apply_edits(parent, edits, budget)
    return Candidate(skill=skill, parent=parent, reports=reports, summary=summary)
