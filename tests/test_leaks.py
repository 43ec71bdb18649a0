"""`values.leaks`: a copied passage is refused however it is dressed up; what an honest run writes passes."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy.benchmarks.simulated import gold_criteria, load_simulated
from decoevo_dspy.simulation.world import cued
from decoevo_dspy.values.folding import LOOK_ALIKES, skeletons
from decoevo_dspy.values.leaks import LeakGuard, Passages, passages, protected_passages
from decoevo_dspy.values.skill import Candidate, Discarded, Skill
from tests.benchmarks.leak_guard import ALTERATIONS, caught, false_alarms, honest_skills

QUESTION = "my grandmother wants to repaint the old wooden balcony before the guests arrive on sunday"
CHINESE = "我的奶奶想在星期天客人到来之前重新粉刷旧木阳台请问该怎么办"
WORDS: list[str] = list(QUESTION.split())
GUARD = LeakGuard(
    protected_passages([QUESTION, CHINESE, "Take two aspirin daily", "Stay calm", "Paris"]),
    ["The public text says to repaint the old wooden balcony with care."],
)


def refused(text: str, guard: LeakGuard = GUARD, parent: str = "# R") -> bool:
    """Whether a skill with this text is discarded as leaking."""
    found = guard.check(Candidate(skill=Skill(f"{parent}\n- {text}"), parent=Skill(parent)))
    assert isinstance(found, Candidate) or found.reason.startswith("leaking")
    return isinstance(found, Discarded)


@pytest.mark.parametrize("start", range(len(WORDS) - 5))
def test_six_words_are_a_leak(start: int):
    """From any place, also inside a longer line; unless the public text says them as well."""
    copied = " ".join(WORDS[start : start + 6])
    public = copied == "to repaint the old wooden balcony"
    assert refused(copied) is not public
    assert refused(f"When {copied}!") is not public


@pytest.mark.parametrize("start", range(len(WORDS) - 4))
def test_five_words_are_not(start: int):
    """Common phrases stay possible."""
    assert not refused(" ".join(WORDS[start : start + 5]))


@pytest.mark.parametrize("place", range(8))
def test_one_word_of_eight_may_be_another(place: int):
    """Any one of them, also the first or the last; two of eight are no longer recognised, as the docstring says."""
    words: list[str] = WORDS[7:15]
    words[place] = "kumquat"
    assert refused(" ".join(words))
    assert not refused("my kumquat wants to kumquat the old")


@pytest.mark.parametrize("name", list(ALTERATIONS))
@given(seed=st.integers(0, 1000), start=st.integers(0, 7))
def test_a_copy_is_refused_however_it_is_dressed_up(name: str, seed: int, start: int):
    """Case, punctuation, line breaks, characters that cannot be seen or look alike, a word in eight exchanged."""
    guard = LeakGuard(protected_passages([QUESTION]))
    assert refused(ALTERATIONS[name](WORDS[start : start + 8], random.Random(seed)), guard)


@given(st.text(alphabet=sorted(set("".join(LOOK_ALIKES.values()))), min_size=1, max_size=8))
def test_look_alikes_fold_to_latin(text: str):
    """Every letter of the table, in one of a text's readings."""
    names = {other: latin for latin, others in LOOK_ALIKES.items() for other in others}
    assert skeletons("".join(names[ch] for ch in text))[0] in skeletons(text)


@pytest.mark.parametrize(
    "text", ["Здравствуйте, как поживает ваша бабушка в новом доме", "Η γιαγιά μου θέλει να βάψει το σπίτι"]
)
def test_capitals_of_other_alphabets(text: str):
    """A text in Russian or Greek is recognised in capitals too."""
    assert refused(text.upper(), LeakGuard(protected_passages([text])))


def test_chinese_counts_by_characters():
    """Twelve in a row, or sixteen of which a word of two is another; eleven are not."""
    assert refused(CHINESE[3:15])
    assert not refused(CHINESE[3:14])
    for at in range(0, 15):
        assert refused(f"{CHINESE[3 : 3 + at]}橘子{CHINESE[5 + at : 19]}"), at


def test_a_short_text_is_protected_whole():
    """Three to five words anywhere, one or two where they are a whole line; parts of them are free."""
    assert refused("If it hurts, TAKE two\naspirin daily and rest")
    assert not refused("take two aspirin")
    assert refused("stay calm!")
    assert refused("Paris.")
    assert not refused("When abroad, stay calm in Paris")


def test_public_text_and_the_parents_own_are_not():
    """What everybody may read is no leak; what the parent says was judged before."""
    assert not refused(QUESTION, LeakGuard(protected_passages([QUESTION]), [QUESTION]))
    assert not refused("be brief", parent=f"# R\n- {QUESTION}")


def test_a_passage_that_two_steps_put_together_is_a_leak():
    """Half of it stood in the parent: the whole of it is new."""
    parent = f"# R\n- When {' '.join(WORDS[:4])}"
    skill = Skill(f"{parent} {' '.join(WORDS[4:8])}")
    assert isinstance(GUARD.check(Candidate(skill=skill, parent=Skill(parent))), Discarded)


def test_gold_is_recognised_by_hash_alone():
    """What the guard holds cannot be read, only compared; every gold criterion is refused."""
    dataset = load_simulated()
    guard = LeakGuard(dataset.gold.passages())
    gold = {text for q in dataset.questions for text, _ in gold_criteria(q, cued(q.text))}
    assert [text for text in gold if not refused(text, guard)] == []
    assert repr(dataset.gold.passages()).startswith("<")


@given(st.lists(st.text(max_size=40), max_size=4), st.lists(st.text(max_size=40), max_size=4))
def test_passages_are_a_set(one: list[str], two: list[str]):
    """Union, difference and intersection, for any text at all; a text holds its own protected passages."""
    a, b = protected_passages(one), protected_passages(two)
    assert a <= a | b
    assert len((a | b) - b) == len(a - b) == len(a) - len(a & b)
    assert all(protected_passages([text]) <= passages(text) for text in [*one, *two])
    assert len(Passages()) == 0


def test_measured_rates_on_the_simulated_world(tmp_path: Path):
    """All altered copies are refused, and no skill that an honest run accepts (in full: tests/benchmarks)."""
    assert min(caught().values()) == 1.0
    made = honest_skills("sc-coevo", 1, tmp_path / "run", steps=6)
    assert made
    assert false_alarms(1, made) == []
