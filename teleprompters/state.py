"""What the loop works on: the partitions it may touch, and where a run stands."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from decoevo_dspy.audits import AuditReport
from decoevo_dspy.run.workbench import Item
from decoevo_dspy.values.skill import Skill


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The partitions that the loop may touch. Diagnostic, pilot and test questions are not among them."""

    train: Sequence[Item]
    probe: Sequence[Item]
    solver_gate: Sequence[Item]
    generator_gate: Sequence[Item]


@dataclass(kw_only=True)
class State:
    """Where a run stands. Both skill lists grow by one with every acceptance; the last of each is the incumbent."""

    solvers: list[Skill]
    generators: list[Skill]
    step: int = 0
    round: int = 0
    stall: int = 0
    since_audit: int = 0
    proxy: float | None = None
    rejected_edits: list[str] = field(default_factory=list[str])
    findings: tuple[AuditReport, ...] = ()

    @property
    def solver(self) -> Skill:
        """s_t."""
        return self.solvers[-1]

    @property
    def generator(self) -> Skill:
        """g_t."""
        return self.generators[-1]
