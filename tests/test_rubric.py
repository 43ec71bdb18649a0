"""`decoevo_dspy.values.rubric`: scores are bounded, and what is ungraded never counts as 0."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy.values.rubric import Criterion, Mean, Rubric, Ungraded, Verdict, mean

points = st.floats(min_value=1e-3, max_value=1e6, allow_nan=False)
unit = st.floats(min_value=0, max_value=1, allow_nan=False)
items = st.lists(st.tuples(points, unit), min_size=1, max_size=12)
LOST = Ungraded(reason="truncated")


def rubric_of(weights: list[float]) -> Rubric:
    """A rubric with these points."""
    return Rubric(criteria=tuple(Criterion(text=f"criterion {i}", points=w) for i, w in enumerate(weights)))


def value(score: float | Ungraded) -> float:
    """A score that must be there."""
    assert isinstance(score, float)
    return score


@given(items)
def test_a_score_lies_between_its_worst_and_best_verdict(pairs: list[tuple[float, float]]):
    """S is a weighted mean, hence in [min e, max e] and in [0, 1]."""
    score = value(rubric_of([w for w, _ in pairs]).score([Verdict(score=e) for _, e in pairs]))
    verdicts = [e for _, e in pairs]
    assert min(verdicts) - 1e-12 <= score <= max(verdicts) + 1e-12
    assert 0.0 <= score <= 1.0


@given(items, st.randoms(use_true_random=False))
def test_a_score_does_not_depend_on_the_order_of_criteria(pairs: list[tuple[float, float]], rng: random.Random):
    """Permuting criteria with their verdicts changes nothing."""
    mixed = list(pairs)
    rng.shuffle(mixed)
    scores = [value(rubric_of([w for w, _ in p]).score([Verdict(score=e) for _, e in p])) for p in (pairs, mixed)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-12)


@given(items, st.floats(min_value=1e-2, max_value=1e2))
def test_only_relative_points_matter(pairs: list[tuple[float, float]], factor: float):
    """Scaling all points leaves the score."""
    verdicts = [Verdict(score=e) for _, e in pairs]
    once = value(rubric_of([w for w, _ in pairs]).score(verdicts))
    scaled = value(rubric_of([w * factor for w, _ in pairs]).score(verdicts))
    assert once == pytest.approx(scaled, abs=1e-9)


def test_a_heavier_criterion_counts_more():
    """S = Σ w e / Σ w."""
    assert rubric_of([3, 1]).score([Verdict(score=1), Verdict(score=0)]) == 0.75
    assert rubric_of([3, 1]).score([Verdict(score=0.5), Verdict(score=1)]) == 0.625


@given(items, st.data())
def test_one_missing_verdict_makes_the_item_ungraded(pairs: list[tuple[float, float]], data: st.DataObject):
    """Never a 0, never a mean of the others: the whole item is ungraded, and says why."""
    at = data.draw(st.integers(0, len(pairs) - 1))
    outcomes = [LOST if i == at else Verdict(score=e) for i, (_, e) in enumerate(pairs)]
    score = rubric_of([w for w, _ in pairs]).score(outcomes)
    assert isinstance(score, Ungraded)
    assert score.reason == f"1 of {len(pairs)} criteria ungraded: truncated"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_verdict_too_few_or_too_many_is_an_error(count: int):
    """Verdicts are never padded or dropped."""
    with pytest.raises(ValueError, match=f"{count} verdicts for 2 criteria"):
        rubric_of([1, 2]).score([Verdict(score=1)] * count)


@pytest.mark.parametrize("bad", [-0.01, 1.01, 7, 10, math.nan, math.inf, -math.inf])
def test_a_verdict_outside_the_unit_interval_cannot_exist(bad: float):
    """×10 scales, NaN and infinities are refused where they arise."""
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        Verdict(score=bad)


@pytest.mark.parametrize("bad", [0, -5, math.nan, math.inf])
def test_points_are_finite_and_positive(bad: float):
    """No zero denominator, no negative weight."""
    with pytest.raises(ValueError, match="points"):
        Criterion(text="x", points=bad)


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_a_criterion_needs_a_text(text: str):
    """Blank criteria measure nothing."""
    with pytest.raises(ValueError, match="text"):
        Criterion(text=text)


def test_a_rubric_needs_criteria_and_names_each_once():
    """Empty rubrics and duplicates (up to surrounding space) are refused."""
    with pytest.raises(ValueError, match="at least one"):
        Rubric(criteria=())
    with pytest.raises(ValueError, match="twice"):
        Rubric(criteria=(Criterion(text="names a dose"), Criterion(text=" names a dose ")))


def test_roles_read_a_rubric_as_numbered_lines():
    """The form that judges and auditors see, with whole points written whole."""
    rubric = Rubric(criteria=(Criterion(text="names a dose", points=5), Criterion(text="is brief", points=1.5)))
    assert rubric.numbered() == "c1. (5 points) names a dose\nc2. (1.5 points) is brief"


scores = st.lists(st.one_of(unit, st.just(LOST)), max_size=20)


@given(scores)
def test_a_mean_counts_the_ungraded_apart(values: list[float | Ungraded]):
    """The mean is over graded items only; both counts add up; without graded items there is no mean."""
    graded = [v for v in values if not isinstance(v, Ungraded)]
    found = mean(values)
    assert (found.n, found.ungraded, found.total) == (len(graded), len(values) - len(graded), len(values))
    if graded:
        assert found.value is not None
        assert min(graded) - 1e-12 <= found.value <= max(graded) + 1e-12
    else:
        assert found.value is None


@given(st.lists(unit, min_size=1, max_size=10), st.integers(1, 10))
def test_adding_ungraded_items_does_not_move_a_mean(values: list[float], lost: int):
    """An infrastructure failure is no 0."""
    assert mean([*values, *[LOST] * lost]).value == mean(values).value


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_mean_refuses_what_is_no_number(bad: float):
    """NaN never enters a mean."""
    with pytest.raises(ValueError, match="finite"):
        mean([0.5, bad])


@pytest.mark.parametrize(
    ("n", "ungraded", "limit", "decided"),
    [(9, 1, 0.1, True), (8, 2, 0.1, False), (10, 0, 0.0, True), (9, 1, 0.0, False), (1, 9, 0.95, True)],
)
def test_a_mean_is_decided_up_to_the_limit(n: int, ungraded: int, limit: float, decided: bool):
    """Exactly the allowed share still decides; one more does not."""
    assert Mean(value=0.5, n=n, ungraded=ungraded).decided(limit) is decided


def test_nothing_graded_decides_nothing():
    """Not even with every item allowed to be missing."""
    assert Mean(value=None, n=0, ungraded=0).decided(0.99) is False
    assert Mean(value=None, n=0, ungraded=3).decided(0.99) is False
