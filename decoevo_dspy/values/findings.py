"""What training and audits report: failed criteria to the solver's rewriter, findings to the generator's. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A criterion that a response failed: its weight, the judge's score in [0, 1] and reason."""

    question_id: str
    criterion: str
    points: float
    score: float
    rationale: str

    @property
    def weight(self) -> float:
        """Points lost: w · (1 − e)."""
        return self.points * (1.0 - self.score)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One probe record of an audit, without any score: repair or principle κ, reason ξ, the question it is about."""

    audit: str
    question_id: str
    principle: str
    reason: str
