"""The contrastive auditor: a blind preference first, the reveal after the label is fixed, in two separate calls."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import dspy

from decoevo_dspy.roles.base import NoReply, Role
from decoevo_dspy.roles.rubric_judge import choice_probabilities
from decoevo_dspy.roles.text import scored_rubric_text
from decoevo_dspy.signatures import PreferBlind, PreferSeeing, RevealMiss
from decoevo_dspy.values.rubric import Outcome, Rubric

Label = Literal["first", "second", "equivalent"]
_CHOICES = ("A", "B", "equivalent")
_LABELS: tuple[Label, ...] = ("first", "second", "equivalent")


@dataclass(frozen=True, kw_only=True)
class BlindLabel:
    """The fixed label y of a pair, with its rationale ξ; ``orders`` tells which order(s) were shown."""

    label: Label
    rationale: str
    orders: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Miss:
    """Why the rubric misses the difference, and the principle κ that would have caught it."""

    explanation: str
    principle: str


class ContrastiveAuditor(Role):
    """Two stages in two calls. ``prefer`` has no argument for a rubric or a score; ``reveal`` cannot change a label.

    ``both_orders`` asks for the preference in both orders and keeps a label only when they agree; where the endpoint
    returns token probabilities (``probabilities``), the two orders are averaged in probability instead.
    """

    name = "contrastive_auditor"
    signature = PreferBlind

    def __init__(self, *, both_orders: bool = False, probabilities: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.both_orders, self.probabilities = both_orders, probabilities
        self.reveal_predict = dspy.Predict(RevealMiss)
        self.seeing_predict = dspy.Predict(PreferSeeing)

    def prefer(
        self, question: str, first: str, second: str, *, rng: random.Random, partition: str = "", sample: str = "pair"
    ) -> BlindLabel | NoReply:
        """Which of two responses serves the question better; the order shown is drawn from ``rng`` and recorded."""

        def inputs(swap: bool) -> dict[str, str]:
            return self._pair(question, first, second, swap)

        return self._settle(inputs, self.predict, rng, partition, sample)

    def prefer_seeing(
        self,
        question: str,
        first: str,
        second: str,
        rubric: Rubric,
        verdicts: tuple[Sequence[Outcome], Sequence[Outcome]],
        *,
        rng: random.Random,
        partition: str = "",
        sample: str = "pair",
    ) -> BlindLabel | NoReply:
        """The ablation without blindness: the same question, asked with the rubric and both score lists in view."""

        def inputs(swap: bool) -> dict[str, str]:
            scores = (verdicts[1], verdicts[0]) if swap else verdicts
            table = scored_rubric_text(rubric, *scores, names=("A", "B"))
            return {**self._pair(question, first, second, swap), "rubric_scores": self.fence("rubric", table)}

        return self._settle(inputs, self.seeing_predict, rng, partition, f"{sample}/seeing")

    def _pair(self, question: str, first: str, second: str, swap: bool) -> dict[str, str]:
        a, b = (second, first) if swap else (first, second)
        return {
            "question": self.fence("question", question),
            "response_a": self.fence("response A", a),
            "response_b": self.fence("response B", b),
        }

    def _settle(
        self,
        inputs: Callable[[bool], Mapping[str, str]],
        predictor: dspy.Predict,
        rng: random.Random,
        partition: str,
        sample: str,
    ) -> BlindLabel | NoReply:
        """Ask in one order or both, and fix the label."""
        swapped = rng.random() < 0.5
        orders = [swapped, not swapped] if self.both_orders else [swapped]
        shown = [self._shown(inputs(swap), predictor, swap, partition, sample) for swap in orders]
        labels = [item for item in shown if not isinstance(item, NoReply)]
        if len(labels) < len(shown):
            return next(item for item in shown if isinstance(item, NoReply))
        names = tuple("second-first" if swap else "first-second" for swap in orders)
        weights = [weight for _, _, weight in labels if weight is not None]
        if self.both_orders and len(weights) == len(labels):
            total = {label: sum(weight[label] for weight in weights) for label in _LABELS}
            best = max(_LABELS, key=lambda label: total[label])
            reasons = [rationale for label, rationale, _ in labels if label == best]
            return BlindLabel(label=best, rationale=reasons[0] if reasons else labels[0][1], orders=names)
        agreed = len({label for label, _, _ in labels}) == 1
        return BlindLabel(
            label=labels[0][0] if agreed else "equivalent",
            rationale=labels[0][1] if agreed else "the two orders disagree",
            orders=names,
        )

    def _shown(
        self, inputs: Mapping[str, str], predictor: dspy.Predict, swap: bool, partition: str, sample: str
    ) -> tuple[Label, str, dict[Label, float] | None] | NoReply:
        names: dict[str, Label] = {
            "A": "second" if swap else "first",
            "B": "first" if swap else "second",
            "equivalent": "equivalent",
        }

        def read(prediction: dspy.Prediction) -> tuple[Label, str, dict[Label, float] | None]:
            chances = choice_probabilities(prediction.get("logprobs"), _CHOICES) if self.probabilities else None
            weights: dict[Label, float] | None = {names[c]: chances[c] for c in _CHOICES} if chances else None
            return names[prediction.preference.preferred], prediction.preference.rationale.strip(), weights

        return self.ask(
            read,
            inputs,
            partition=partition,
            sample=f"{sample}/{'ba' if swap else 'ab'}",
            predictor=predictor,
            options={"logprobs": True, "top_logprobs": 10} if self.probabilities else None,
        )

    def reveal(
        self,
        question: str,
        better: str,
        other: str,
        rationale: str,
        rubric: Rubric,
        verdicts: tuple[Sequence[Outcome], Sequence[Outcome]],
        *,
        partition: str = "",
        sample: str = "reveal",
    ) -> Miss | NoReply:
        """Explain why the rubric misses a settled preference; ``verdicts`` are those of the better and the other."""
        return self.ask(
            _miss,
            {
                "question": self.fence("question", question),
                "better_response": self.fence("better response", better),
                "other_response": self.fence("other response", other),
                "difference": self.fence("difference", rationale),
                "rubric_scores": self.fence("rubric", scored_rubric_text(rubric, *verdicts)),
            },
            partition=partition,
            sample=sample,
            predictor=self.reveal_predict,
        )


def _miss(prediction: dspy.Prediction) -> Miss:
    return Miss(explanation=prediction.miss.explanation.strip(), principle=prediction.miss.principle.strip())
