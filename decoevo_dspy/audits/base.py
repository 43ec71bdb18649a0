"""The protocol of an audit, and what its probe run reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from decoevo_dspy.rules.acceptance import Objective
from decoevo_dspy.run.workbench import Item, Workbench
from decoevo_dspy.values.findings import Finding
from decoevo_dspy.values.skill import Skill


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What one audit found on the probe partition; ``evidence`` is for the event log, never for a rewriter."""

    audit: str
    heading: str
    findings: tuple[Finding, ...]
    audited: int
    ungraded: int
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Audit(Protocol):
    """One view on a generator skill.

    ``outer`` numbers the outer steps from 1, so that each draws its own samples.
    """

    name: str
    heading: str

    def findings(
        self, bench: Workbench, solver: Skill, generator: Skill, probe: Sequence[Item], outer: int
    ) -> AuditReport:
        """What the generator's rubrics miss on the probe partition."""
        ...

    def records(
        self, bench: Workbench, solver: Skill, generator: Skill, gate: Sequence[Item], outer: int
    ) -> Sequence[Any]:
        """The held-out records on V_g on which both generators will be compared."""
        ...

    def describe(self, records: Sequence[Any]) -> list[dict[str, Any]]:
        """The held-out records as the event log keeps them; never shown to a rewriter."""
        ...

    def objective(self, bench: Workbench, generator: Skill, records: Sequence[Any], outer: int) -> Objective:
        """Φ of one generator on those records, by question."""
        ...
