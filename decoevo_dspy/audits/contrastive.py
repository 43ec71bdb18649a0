"""The near-tie contrastive audit: which real difference between two alike-scored responses does the rubric miss?"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from decoevo_dspy.audits.base import AuditReport
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.roles.contrastive_auditor import BlindLabel
from decoevo_dspy.rules.acceptance import Objective
from decoevo_dspy.run.workbench import Graded, Item, Workbench
from decoevo_dspy.values.failures import FailureKind
from decoevo_dspy.values.findings import Finding
from decoevo_dspy.values.rubric import Ungraded
from decoevo_dspy.values.seeds import generator as rng_for
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.skill import Skill

PairSelection = Callable[[Sequence[float | None], Sequence[str], float, int, random.Random], list[tuple[int, int]]]
"""(scores z_i or None, responses, τ_tie, most pairs, rng) → index pairs."""


def near_ties(
    scores: Sequence[float | None], responses: Sequence[str], tau: float, most: int, rng: random.Random
) -> list[tuple[int, int]]:
    """Pairs with |z_i − z_j| ≤ τ, smallest gaps first, at most ``most``; identical responses are no pair.

    >>> near_ties([0.50, 0.52, 0.90, None], ["a", "b", "c", "d"], 0.05, 2, random.Random(0))
    [(0, 1)]
    """
    gaps = [
        (round(abs(scores[i] - scores[j]), 9), i, j)  # type: ignore[operator]
        for i, j in _distinct(scores, responses)
    ]
    return [(i, j) for gap, i, j in sorted(gaps) if gap <= tau + 1e-9][:most]


def random_pairs(
    scores: Sequence[float | None], responses: Sequence[str], tau: float, most: int, rng: random.Random
) -> list[tuple[int, int]]:
    """Any graded pairs, at random: the ablation without near-tie selection."""
    pairs = _distinct(scores, responses)
    return sorted(rng.sample(pairs, min(most, len(pairs))))


def _distinct(scores: Sequence[float | None], responses: Sequence[str]) -> list[tuple[int, int]]:
    usable = [i for i, score in enumerate(scores) if score is not None]
    return [(i, j) for i, j in combinations(usable, 2) if responses[i].strip() != responses[j].strip()]


def net_resolution(margins: Sequence[float], gamma: float, objective: Literal["net", "resolution"]) -> float:
    """The share of margins m ≥ γ; for ``"net"`` less the share of m ≤ −γ (docs/METHOD.md §5). In [−1, 1].

    >>> net_resolution([0.2, -0.2, 0.0, 0.05], 0.05, "net"), net_resolution([0.2, -0.2, 0.0, 0.05], 0.05, "resolution")
    (0.25, 0.5)
    """
    resolved = sum(m >= gamma - 1e-9 for m in margins)
    reversed_ = sum(m <= -gamma + 1e-9 for m in margins) if objective == "net" else 0
    return (resolved - reversed_) / len(margins)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two responses to one question, and the gap of their scores."""

    item: Item
    first: Graded
    second: Graded
    gap: float
    index: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A record p of Γ: the better and the other response, by a label that was fixed blind."""

    pair: Pair
    better: Graded
    other: Graded
    label: BlindLabel


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A question whose near-ties could not all be found or labelled: it is ungraded for both generators."""

    item: Item
    reason: str
    kind: FailureKind | None


@dataclass(frozen=True)
class ContrastiveAudit:
    """φ_ctr(g; Γ) over blind-labelled near-ties of the current solver under the current generator.

    ``select`` picks the pairs; ``blind`` false is the ablation in which the auditor sees rubric and scores while it
    forms its preference.
    """

    select: PairSelection = near_ties
    blind: bool = True
    name = "contrastive"
    heading = "What rubrics failed to tell apart: real differences between answers that they scored alike"

    def _pairs(
        self, bench: Workbench, solver: Skill, generator: Skill, items: Sequence[Item], outer: int
    ) -> tuple[list[Pair], list[Lost]]:
        settings = bench.settings
        draws = [(item, k) for item in items for k in range(settings.rollouts)]
        graded = bench.batch(lambda draw: bench.grade(draw[0], solver, generator, f"audit{outer}-{draw[1]}"), draws)
        pairs: list[Pair] = []
        lost: list[Lost] = []
        for start, item in zip(range(0, len(graded), settings.rollouts), items, strict=True):
            rollouts = graded[start : start + settings.rollouts]
            ungraded = [one.score for one in rollouts if isinstance(one.score, Ungraded)]
            if ungraded:
                reason = f"{len(ungraded)} of {len(rollouts)} rollouts {ungraded[0].reason}"
                lost.append(Lost(item=item, reason=reason, kind=ungraded[0].kind))
                if len(rollouts) - len(ungraded) < 2:
                    continue
            scores = [None if isinstance(one.score, Ungraded) else one.score for one in rollouts]
            texts = [one.response or "" for one in rollouts]
            rng = rng_for(bench.seed, "pairs", outer, item.id)
            for i, j in self.select(scores, texts, settings.tau_tie, settings.pairs_per_question, rng):
                gap = abs((scores[i] or 0.0) - (scores[j] or 0.0))
                pairs.append(Pair(item=item, first=rollouts[i], second=rollouts[j], gap=gap, index=(i, j)))
        return pairs, lost

    def _label(self, bench: Workbench, pair: Pair, outer: int) -> Labelled | NoReply | None:
        """The fixed label of a pair; ``None`` when the auditor found no difference that matters."""
        auditor = bench.roles.contrastive_auditor
        rng = rng_for(bench.seed, "order", outer, pair.item.id, pair.index)
        first, second = pair.first.response or "", pair.second.response or ""
        sample = f"pair{outer}-{pair.index[0]}-{pair.index[1]}"
        if self.blind:
            label = auditor.prefer(
                pair.item.question.text, first, second, rng=rng, partition=pair.item.partition, sample=sample
            )
        else:
            assert pair.first.rubric is not None  # a graded pair has a rubric
            label = auditor.prefer_seeing(
                pair.item.question.text,
                first,
                second,
                pair.first.rubric,
                (pair.first.verdicts, pair.second.verdicts),
                rng=rng,
                partition=pair.item.partition,
                sample=sample,
            )
        if isinstance(label, NoReply):
            return label
        if label.label == "equivalent":
            return None
        better, other = (pair.first, pair.second) if label.label == "first" else (pair.second, pair.first)
        return Labelled(pair=pair, better=better, other=other, label=label)

    def records(
        self, bench: Workbench, solver: Skill, generator: Skill, gate: Sequence[Item], outer: int
    ) -> list[Labelled | Lost]:
        """Γ^{V_g}: the labelled near-ties of V_g, the same for both generators, and what of them was lost."""
        pairs, lost = self._pairs(bench, solver, generator, gate, outer)
        labels = bench.batch(lambda pair: self._label(bench, pair, outer), pairs)
        lost += [
            Lost(item=pair.item, reason=f"label {label}", kind=label.kind)
            for pair, label in zip(pairs, labels, strict=True)
            if isinstance(label, NoReply)
        ]
        return [*(label for label in labels if isinstance(label, Labelled)), *lost]

    def describe(self, records: Sequence[Labelled | Lost]) -> list[dict[str, Any]]:
        """The records for the event log: question, rollouts, gap and label, or why it was lost."""
        return [
            {"question_id": record.item.id, "lost": record.reason}
            if isinstance(record, Lost)
            else {
                "question_id": record.pair.item.id,
                "rollouts": list(record.pair.index),
                "gap": round(record.pair.gap, 6),
                "label": record.label.label,
                "orders": list(record.label.orders),
            }
            for record in records
        ]

    def findings(
        self, bench: Workbench, solver: Skill, generator: Skill, probe: Sequence[Item], outer: int
    ) -> AuditReport:
        """Label near-ties blind, then reveal the rubric and collect the principles κ that separate them."""
        pairs, missing = self._pairs(bench, solver, generator, probe, outer)

        def examine(pair: Pair) -> tuple[Labelled | NoReply | None, Finding | NoReply | None]:
            label = self._label(bench, pair, outer)
            return label, self._reveal(bench, label, outer) if isinstance(label, Labelled) else None

        examined = bench.batch(examine, pairs)
        findings = tuple(finding for _, finding in examined if isinstance(finding, Finding))
        lost = len(missing) + sum(isinstance(part, NoReply) for both in examined for part in both)
        return AuditReport(
            audit=self.name,
            heading=self.heading,
            findings=findings,
            audited=len(pairs) + len(missing),
            ungraded=lost,
            evidence={
                "pairs": [
                    {
                        "question_id": pair.item.id,
                        "rollouts": list(pair.index),
                        "gap": round(pair.gap, 6),
                        "label": label.label.label if isinstance(label, Labelled) else _word(label),
                        "orders": list(label.label.orders) if isinstance(label, Labelled) else [],
                    }
                    for pair, (label, _) in zip(pairs, examined, strict=True)
                ]
            },
        )

    def _reveal(self, bench: Workbench, label: Labelled, outer: int) -> Finding | NoReply:
        pair = label.pair
        assert label.better.rubric is not None
        miss = bench.roles.contrastive_auditor.reveal(
            pair.item.question.text,
            label.better.response or "",
            label.other.response or "",
            label.label.rationale,
            label.better.rubric,
            (label.better.verdicts, label.other.verdicts),
            partition=pair.item.partition,
            sample=f"reveal{outer}-{pair.index[0]}-{pair.index[1]}",
        )
        if isinstance(miss, NoReply):
            return miss
        return Finding(audit=self.name, question_id=pair.item.id, principle=miss.principle, reason=miss.explanation)

    def objective(
        self, bench: Workbench, generator: Skill, records: Sequence[Labelled | Lost], outer: int
    ) -> Objective:
        """Resolved (less reversed) share of each question's pairs under this generator's rubric.

        A question of which something was lost is ungraded; without any labelled pair there is no objective, unless
        more was lost than the gate may lose: then it is ungraded as a whole.
        """
        settings = bench.settings
        fresh = settings.verify_rubrics == "fresh"
        draw = f"verify{outer}" if fresh else "rubric"

        def margin(record: Labelled) -> float | Ungraded:
            item = record.pair.item
            rubric = bench.rubric(item, generator, draw)
            if isinstance(rubric, NoReply):
                return rubric.ungraded()
            judged = f"verify{outer}" if fresh else "judge"
            sides = [
                rubric.score(bench.judge(item, side.response or "", rubric, judged))
                for side in (record.better, record.other)
            ]
            lost = next((side for side in sides if isinstance(side, Ungraded)), None)
            return lost if lost is not None else sides[0] - sides[1]  # type: ignore[operator]

        margins: dict[str, list[float | Ungraded]] = {
            record.item.id: [Ungraded(reason=record.reason, kind=record.kind)]
            for record in records
            if isinstance(record, Lost)
        }
        labelled = [record for record in records if isinstance(record, Labelled)]
        for record, value in zip(labelled, bench.batch(margin, labelled), strict=True):
            margins.setdefault(record.pair.item.id, []).append(value)
        return Objective(values={id: _value(values, settings) for id, values in margins.items()})


def _value(margins: Sequence[float | Ungraded], settings: Settings) -> float | Ungraded:
    """One question's value; ungraded as soon as one of its pairs is, so that both generators see the same pairs."""
    lost = next((margin for margin in margins if isinstance(margin, Ungraded)), None)
    if lost is not None:
        return lost
    known = [margin for margin in margins if not isinstance(margin, Ungraded)]
    return net_resolution(known, settings.gamma, settings.contrastive_objective)


def _word(label: NoReply | None) -> str:
    return "equivalent" if label is None else f"ungraded ({label.kind})"
