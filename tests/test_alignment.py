"""Rubric alignment: the pure figures, the matcher role, and its calibration against labels."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy import RoleLMs, Skill, simulated_lm
from decoevo_dspy.benchmarks import gold_criteria
from decoevo_dspy.benchmarks.simulated import load_simulated
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.errors import DataError
from decoevo_dspy.evaluation.alignment import Aligner, LabelledPair, read_labels
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.rules.matching import align_question, macro, matching_size, precision_recall_f1
from decoevo_dspy.simulation.catalogue import REQUIREMENTS
from decoevo_dspy.values.skill import GENERATOR_SKILL
from decoevo_dspy.values.task import Question

PAIRS = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20)


def test_small_set_by_hand() -> None:
    """Two questions computed by hand: one-to-one, negatives apart, macro over questions."""
    first = align_question("a", 4, [5.0, 3.0, -2.0], {(0, 0), (1, 0), (2, 2)})
    assert (first.matched, first.matched_positive, first.gold_positive) == (2, 1, 2)
    second = align_question("b", 2, [1.0], set())
    result = macro([first, second])
    assert result.precision == pytest.approx((2 / 4 + 0) / 2)
    assert result.recall == pytest.approx((2 / 3 + 0) / 2)
    assert result.f1 == pytest.approx((4 / 7 + 0) / 2)
    assert result.positive_f1 == pytest.approx((2 / 6 + 0) / 2)


def test_maximum_matching_is_not_greedy() -> None:
    """A greedy pairing of (0,0) would lose a match; the maximum matching does not."""
    assert matching_size([(0, 0), (0, 1), (1, 0)], 2, 2) == 2


@given(PAIRS)
def test_matching_is_bounded_and_ignores_order(pairs: set[tuple[int, int]]) -> None:
    """A matching uses no row or column twice, whatever the order of pairs."""
    ordered = sorted(pairs)
    random.Random(0).shuffle(ordered)
    size = matching_size(ordered, 6, 6)
    assert size == matching_size(pairs, 6, 6)
    assert size <= min(len({a for a, _ in pairs}), len({b for _, b in pairs}), 6)


@given(st.integers(0, 9), st.integers(1, 9), st.integers(1, 9))
def test_f1_is_the_harmonic_mean(matched: int, generated: int, gold: int) -> None:
    """F1 is the harmonic mean of precision and recall, and 0 without a match."""
    matched = min(matched, generated, gold)
    precision, recall, f1 = precision_recall_f1(matched, generated, gold)
    assert f1 == pytest.approx(2 * precision * recall / (precision + recall) if matched else 0.0)


def test_no_question_is_undefined_not_zero() -> None:
    """Without a question there is no average."""
    assert macro([], {"q": "unparsable"}).f1 is None
    assert macro([], {"q": "unparsable"}).total == 1


def _aligner() -> Aligner:
    return Aligner.open(
        role_lms=RoleLMs(default=simulated_lm(seed=3)), seed=0, store=CallStore(None), run="align", num_threads=1
    )


def test_order_of_criteria_changes_nothing() -> None:
    """The matcher gives the same pairs of texts whatever the order of both lists."""
    dataset = load_simulated()
    question = dataset.questions[0]
    gold = list(gold_criteria("simulated", question, dataset.gold.open_for_evaluation([question.id])[question.id]))
    generated = [(text, abs(points)) for text, points in gold[:3]] + [("Is written in a friendly tone", 2.0)]
    aligner, seen = _aligner(), []
    for seed in range(4):
        left, right = generated[:], gold[:]
        random.Random(seed).shuffle(left)
        random.Random(seed + 9).shuffle(right)
        pairs = aligner.matcher.pairs(question.text, left, right)
        assert not isinstance(pairs, NoReply)
        seen.append({(left[a][0], right[b][0]) for a, b in pairs})
    assert all(one == seen[0] for one in seen)
    assert len(seen[0]) >= 2


def test_a_better_generator_aligns_better() -> None:
    """A generator skill that names requirements has a higher F1 than the default one (simulated backbone)."""
    dataset, aligner = load_simulated(), _aligner()
    questions = dataset.questions[:20]
    plain = aligner.align(Skill(GENERATOR_SKILL), questions, dataset)
    rules = "\n".join(f"- {requirement.gold}" for requirement in REQUIREMENTS[:14])
    rich = aligner.align(Skill(f"{GENERATOR_SKILL}\n{rules}"), questions, dataset)
    assert plain.n == rich.n == 20
    assert rich.f1 is not None
    assert plain.f1 is not None
    assert rich.f1 > plain.f1 + 0.1
    assert set(aligner.usage()) == {"matcher", "rubric_generator"}


def test_calibration_against_labels() -> None:
    """The calibration counts agreement, overall and by stratum, with undefined figures named."""
    labels = [
        LabelledPair(generated=a.gold, gold=b.gold, same=a is b, stratum="x")
        for a in REQUIREMENTS[:4]
        for b in REQUIREMENTS[:4]
    ] + [LabelledPair(generated=REQUIREMENTS[0].gold, gold=REQUIREMENTS[0].gold, same=True, stratum="y")]
    figures = _aligner().calibrate(labels)
    assert figures["n"] == 17
    assert figures["ungraded"] == 0
    assert figures["balanced_accuracy"] > 0.8
    assert figures["by_stratum"]["y"]["balanced_accuracy"] is None
    assert "balanced_accuracy_undefined" in figures["by_stratum"]["y"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 1: not JSON"),
        ('{"generated": "a", "gold": "b"}', "field 'same' is missing"),
        ('{"generated": "a", "gold": "b", "same": "yes"}', "wrong type"),
        ('{"generated": "a", "gold": "b", "same": true, "x": 1}', "unknown field 'x'"),
        ("", "holds no label"),
    ],
)
def test_bad_labels_get_one_clear_line(tmp_path: Path, line: str, says: str) -> None:
    """Every mistake in a label file names line and field."""
    file = tmp_path / "labels.jsonl"
    file.write_text(line, encoding="utf-8")
    with pytest.raises(DataError, match=says) as caught:
        read_labels(file)
    assert "\n" not in str(caught.value)


def test_gold_criteria_of_a_chinese_checklist() -> None:
    """Core needs weigh more than secondary ones; headings and numbers are no criteria."""

    class Gold:
        checklist = "核心需求：说明用药剂量\n\n次要需求：1. 提醒复查\n2. 语言通俗"

    question = Question.of("问题")
    assert gold_criteria("llmeval-med", question, Gold()) == [
        ("说明用药剂量", 2.0),
        ("提醒复查", 1.0),
        ("语言通俗", 1.0),
    ]
    json.dumps(gold_criteria("llmeval-med", question, Gold()))
