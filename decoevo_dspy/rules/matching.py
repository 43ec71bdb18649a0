"""Rubric alignment: how much of the gold criteria a generator's rubrics cover, and how much of them is covered by gold.

The paper's reading (§4.7): one-to-one pairs of criteria with the same behavioural requirement, precision, recall and F1
per question, macro-averaged. A run never uses these figures for a decision.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching


@dataclass(frozen=True, kw_only=True)
class QuestionAlignment:
    """Alignment of one question: sizes of both lists and the number of one-to-one matches (positive gold apart)."""

    question_id: str
    generated: int
    gold: int
    matched: int
    gold_positive: int
    matched_positive: int

    def figures(self, *, positive: bool = False) -> tuple[float, float, float]:
        """Precision, recall, F1 in [0, 1]; ``positive`` leaves gold criteria with negative points out."""
        matched = self.matched_positive if positive else self.matched
        gold = self.gold_positive if positive else self.gold
        return precision_recall_f1(matched, self.generated, gold)


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Macro averages in [0, 1] over ``n`` questions; ``None`` when no question could be aligned."""

    n: int
    total: int
    precision: float | None
    recall: float | None
    f1: float | None
    positive_precision: float | None
    positive_recall: float | None
    positive_f1: float | None
    failures: Mapping[str, str] = field(default_factory=dict[str, str])
    questions: Sequence[QuestionAlignment] = ()


def precision_recall_f1(matched: int, generated: int, gold: int) -> tuple[float, float, float]:
    """Precision, recall and F1 of one question; without any match all are 0.

    >>> precision_recall_f1(2, 4, 2)
    (0.5, 1.0, 0.6666666666666666)
    """
    precision = matched / generated if generated else 0.0
    recall = matched / gold if gold else 0.0
    f1 = 2 * matched / (generated + gold) if matched else 0.0
    return precision, recall, f1


def matching_size(pairs: Iterable[tuple[int, int]], generated: int, gold: int) -> int:
    """The size of a maximum one-to-one matching among index pairs (generated, gold).

    >>> matching_size([(0, 0), (0, 1), (1, 0)], 2, 2)
    2
    """
    found = sorted(set(pairs))
    if not found or not generated or not gold:
        return 0
    rows, columns = zip(*found, strict=True)
    graph = csr_matrix((np.ones(len(found), dtype=np.int8), (rows, columns)), shape=(generated, gold))
    return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())


def align_question(
    question_id: str, generated: int, gold_points: Sequence[float], pairs: Iterable[tuple[int, int]]
) -> QuestionAlignment:
    """The alignment of one question from its matching index pairs."""
    found = set(pairs)
    positive = {j for j, points in enumerate(gold_points) if points > 0}
    return QuestionAlignment(
        question_id=question_id,
        generated=generated,
        gold=len(gold_points),
        matched=matching_size(found, generated, len(gold_points)),
        gold_positive=len(positive),
        matched_positive=matching_size({p for p in found if p[1] in positive}, generated, len(gold_points)),
    )


def macro(questions: Sequence[QuestionAlignment], failures: Mapping[str, str] | None = None) -> Alignment:
    """Macro averages over questions; the positive-only figures leave out questions without positive gold."""
    lost = dict(failures or {})
    all_figures = [question.figures() for question in questions]
    positive = [question.figures(positive=True) for question in questions if question.gold_positive]
    means = [_mean([f[k] for f in all_figures]) for k in range(3)] + [_mean([f[k] for f in positive]) for k in range(3)]
    return Alignment(
        n=len(questions),
        total=len(questions) + len(lost),
        precision=means[0],
        recall=means[1],
        f1=means[2],
        positive_precision=means[3],
        positive_recall=means[4],
        positive_f1=means[5],
        failures=lost,
        questions=tuple(questions),
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
