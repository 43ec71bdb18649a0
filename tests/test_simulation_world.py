"""The simulated world: its catalogue, its questions, its parameters and its exact grader."""

import random
from collections import Counter
from dataclasses import asdict, replace

import pytest

from decoevo_dspy.benchmarks.simulated import SIZES, SimulatedGrader, gold_criteria, load_simulated, simulated_task
from decoevo_dspy.simulation import phrasing as wording
from decoevo_dspy.simulation.catalogue import REQUIREMENTS, SURFACES
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.world import BY_KEY, cued, is_chinese, read_response, read_skill, relevant, utility
from decoevo_dspy.values.leaks import passages, protected_passages
from decoevo_dspy.values.task import normalise, text_key

QUESTIONS = load_simulated().questions


def test_catalogue_has_the_documented_size_and_points():
    """24 requirements worth 2–10 points, some negative, six known unasked, and six surface qualities."""
    assert len(REQUIREMENTS) == len(BY_KEY) == 24
    assert len(SURFACES) == 6
    assert all(2 <= abs(r.points) <= 10 and 0 <= r.difficulty <= 1 for r in REQUIREMENTS)
    assert sum(r.harmful for r in REQUIREMENTS) == 3
    assert sum(r.obvious for r in REQUIREMENTS) == 6


def test_every_phrase_names_its_own_requirement_only():
    """No wording of one requirement is found in the wording of another, in either language."""
    for r in REQUIREMENTS:
        for text in (*r.phrases, *r.phrases_zh, r.gold, r.gold_zh):
            assert read_skill(text).named == {r.key}
            assert not read_skill(text).surfaces
    for s in SURFACES:
        for text in (*s.phrases, *s.phrases_zh):
            assert read_skill(text).surfaces == {s.key}


@pytest.mark.parametrize("chinese", [False, True])
def test_what_the_model_writes_is_what_it_reads(chinese: bool):
    """Advice, criteria and rules of every requirement are recognised again, softened ones as softened."""
    rng = random.Random(1)
    for key in BY_KEY:
        assert read_response(wording.advice(key, rng, chinese)).said == {key}
        assert read_skill(wording.criterion(key, rng, chinese, lax=False)).named == {key}
        for genre in ("solver", "generator"):
            assert read_skill(wording.rule(key, rng, chinese, genre)).named == {key}
            if not BY_KEY[key].harmful:
                assert read_skill(wording.rule(key, rng, chinese, genre, lax=True)).lax == {key}


def test_a_warning_is_no_harmful_advice():
    """A sentence that warns against the harmful thing does not commit it."""
    assert read_response("You can mix bleach with other cleaners.").said == {"mixing"}
    assert read_response("Never mix bleach with other cleaners.").said == set()


def test_questions_are_distinct_and_share_no_long_run():
    """300 ids and texts; no two questions share a run of 8 words or 16 Chinese characters."""
    assert len({q.id for q in QUESTIONS}) == len({text_key(q.text) for q in QUESTIONS}) == 300
    runs: Counter[str] = Counter()
    for q in QUESTIONS:
        text, size = (normalise(q.text).replace(" ", ""), 16) if is_chinese(q.text) else (normalise(q.text).split(), 8)
        runs.update({" ".join(text[i : i + size]) for i in range(len(text) - size + 1)})
    assert [run for run, n in runs.items() if n > 1] == []


def test_questions_have_strata_languages_and_gold_of_the_documented_shape():
    """Five strata of 60, one question in ten Chinese, five to nine gold requirements each, with positive points."""
    assert set(Counter(q.stratum for q in QUESTIONS).values()) == {60}
    assert sum(is_chinese(q.text) for q in QUESTIONS) == 30
    assert all(5 <= len(cued(q.text)) <= 9 for q in QUESTIONS)
    assert all(relevant(q.text) == cued(q.text) for q in QUESTIONS)
    assert all(sum(points for _, points in gold_criteria(q, cued(q.text)) if points > 0) > 0 for q in QUESTIONS)
    assert set().union(*(cued(q.text) for q in QUESTIONS)) == set(BY_KEY)


def test_sizes_use_every_question_once():
    """The partition sizes are those of the design and add up to 300."""
    assert SIZES == {
        "pilot": 30,
        "train": 60,
        "probe": 24,
        "solver_gate": 40,
        "generator_gate": 40,
        "diagnostic": 26,
        "test": 80,
    }
    assert sum(SIZES.values()) == 300


def test_public_text_and_questions_name_no_requirement():
    """The task text lists kinds but no requirement, and no question contains a phrase."""
    public = read_skill(simulated_task().specification())
    assert public.kinds == {"safety", "people", "planning", "rules"}
    assert not public.named
    assert not public.surfaces
    assert not any(read_skill(q.text).named for q in QUESTIONS)


def test_rules_of_the_model_copy_neither_gold_nor_questions():
    """The leak guard never rejects a rule that the simulated rewriters write."""
    rng, gold = random.Random(2), load_simulated().gold
    rules = [
        wording.rule(k, rng, zh, genre, lax=lax)
        for k in BY_KEY
        for zh in (False, True)
        for genre in ("solver", "generator")
        for lax in (False, True)
        for _ in range(6)
    ]
    secret = gold.passages() | protected_passages(q.text for q in QUESTIONS)
    assert [rule for rule in rules if len(passages(rule) & secret)] == []


def test_gold_is_sealed_and_in_the_language_of_the_question():
    """The data set shows no gold; opened, a Chinese question has Chinese criteria."""
    data = load_simulated()
    assert data.gold.times_opened == 0
    assert "Has water" not in repr(data)
    chinese = next(q for q in data.questions if is_chinese(q.text))
    keys = data.gold.open_for_evaluation([chinese.id])[chinese.id]
    assert all(is_chinese(text) for text, _ in gold_criteria(chinese, keys))


def _perfect(text: str) -> str:
    rng, chinese = random.Random(0), is_chinese(text)
    return "\n".join(wording.advice(k, rng, chinese) for k in cued(text) if not BY_KEY[k].harmful)


def test_grader_is_exact_at_both_ends():
    """Saying everything due and nothing harmful is 100; silence is 0; harm alone is below 0 per question, 0 in all."""
    data, grader = load_simulated(), SimulatedGrader()
    full = grader.grade(data.questions, {q.id: _perfect(q.text) for q in data.questions}, data.gold, None, None)
    assert full.score == 100.0
    assert set(full.per_question.values()) == {1.0}
    empty = grader.grade(data.questions, {q.id: "" for q in data.questions}, data.gold, None, None)
    assert empty.score == 0.0
    harmful = [q for q in data.questions if "mixing" in cued(q.text)]
    harm = {q.id: "You can mix bleach with other cleaners." for q in harmful}
    bad = grader.grade(harmful, harm, data.gold, None, None)
    assert bad.score == 0.0
    assert all(value is not None and value < 0 for value in bad.per_question.values())


def test_grader_counts_points():
    """One met positive item of a known question earns its points over the positive points."""
    data = load_simulated()
    question = data.questions[0]
    positive = [k for k in cued(question.text) if not BY_KEY[k].harmful]
    said = wording.advice(positive[0], random.Random(0), is_chinese(question.text))
    expected = BY_KEY[positive[0]].points / sum(BY_KEY[k].points for k in positive)
    score = SimulatedGrader().grade([question], {question.id: said}, data.gold, None, None)
    assert score.per_question[question.id] == pytest.approx(expected)
    assert score.score == pytest.approx(100 * expected)
    assert (score.grader, score.n_graded, score.n_total) == ("simulated-world", 1, 1)


def test_missing_responses_are_ungraded_never_zero():
    """A question without a response is left out of the mean; nothing graded gives no score."""
    data = load_simulated()
    two = data.questions[:2]
    half = SimulatedGrader().grade(two, {two[0].id: _perfect(two[0].text)}, data.gold)
    assert (half.score, half.n_graded, half.per_question[two[1].id]) == (100.0, 1, None)
    assert SimulatedGrader().grade(two, {}, data.gold).score is None


def test_a_text_without_cues_still_calls_for_something():
    """Any question, also outside the world, has requirements; they depend on its text alone."""
    assert len(relevant("Explain photosynthesis")) == 5
    assert relevant("Explain photosynthesis") == relevant("Explain photosynthesis")
    assert utility([], read_response("x")) == 0.0


@pytest.mark.parametrize(
    ("name", "value"),
    [("solver_raised", 1.2), ("contrastive_accuracy", 0.4), ("solver_capacity", 0), ("judge_false_positive", -0.1)],
)
def test_parameters_are_checked(name: str, value: float):
    """A value outside its range raises with the range."""
    with pytest.raises(ValueError, match=f"{name} must lie in"):
        WorldParameters(**{**asdict(WorldParameters()), name: value})


def test_parameters_check_their_order():
    """The hardest requirement's base rate cannot exceed the easiest one's."""
    with pytest.raises(ValueError, match="solver_base_low"):
        replace(WorldParameters(), solver_base_low=0.9)
