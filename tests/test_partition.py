"""`values.partition` and `values.task`: disjoint by id and by text, stratified, deterministic, and leaks are named."""

import subprocess
import sys
from collections import Counter

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy.errors import ConfigurationError, DataError, LeakageError
from decoevo_dspy.run.student import question_of
from decoevo_dspy.teleprompters.base import parts_of
from decoevo_dspy.values.partition import NAMES, Partitions, split
from decoevo_dspy.values.seeds import derive
from decoevo_dspy.values.seeds import generator as rng_for
from decoevo_dspy.values.task import Question, Task, Turn, normalise, text_key


def questions(n: int, strata: int = 3) -> list[Question]:
    """Distinct questions over some strata."""
    return [Question.of(f"question number {i}", id=f"q{i}", stratum=f"s{i % strata}") for i in range(n)]


def conversation(group: str, rounds: int) -> list[Question]:
    """The rounds of one conversation."""
    return [
        Question(
            id=f"{group}-{r}",
            turns=(Turn(role="user", content=f"{group} asks {r}"),),
            group=group,
            round=r,
            stratum="g",
        )
        for r in range(1, rounds + 1)
    ]


sizes = st.fixed_dictionaries({name: st.integers(0, 6) for name in NAMES})


@given(sizes, st.integers(0, 10), st.integers(0, 2**31 - 1))
def test_partitions_have_their_sizes_and_share_nothing(sizes: dict[str, int], spare: int, seed: int):
    """Every partition is exactly as large as asked; no question stands twice; order is part of the result."""
    data = questions(sum(sizes.values()) + spare)
    made = split(data, sizes, seed)
    assert {name: len(members) for name, members in made.items()} == sizes
    ids = [question.id for _, members in made.items() for question in members]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= {question.id for question in data}


@given(st.integers(0, 2**31 - 1), st.permutations(range(24)))
def test_the_split_depends_on_the_seed_and_not_on_file_order(seed: int, order: list[int]):
    """The same questions in another order are dealt alike."""
    data = questions(24)
    sizes = {"train": 8, "test": 10}
    assert split(data, sizes, seed) == split([data[i] for i in order], sizes, seed)


def test_another_seed_is_another_split():
    """The seed is used."""
    data = questions(40)
    splits = [tuple(split(data, {"train": 20, "test": 20}, seed).ids()["train"]) for seed in range(5)]
    assert len(set(splits)) == 5


def test_the_split_is_the_same_in_another_process():
    """No dependence on hash randomisation."""
    code = (
        "from decoevo_dspy.values.partition import split; from decoevo_dspy.values.task import Question\n"
        "qs = [Question.of(f'question number {i}', id=f'q{i}', stratum=f's{i % 3}') for i in range(30)]\n"
        "print(split(qs, {'train': 9, 'test': 9}, 7).ids())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": salt, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for salt in ("1", "2")
    ]
    assert runs[0] == runs[1] == f"{split(questions(30), {'train': 9, 'test': 9}, 7).ids()}\n"


@given(st.integers(0, 2**31 - 1), st.integers(1, 5), st.integers(1, 6))
def test_every_partition_holds_the_strata_in_proportion(seed: int, strata: int, per_stratum: int):
    """Equal strata: counts inside one partition differ by at most two."""
    data = questions(strata * per_stratum * 4, strata)
    made = split(data, {"train": strata * per_stratum, "test": strata * per_stratum}, seed)
    for members in (made.train, made.test):
        counts = Counter(question.stratum for question in members)
        assert max(counts.values()) - min(counts.get(f"s{s}", 0) for s in range(strata)) <= 2


@given(st.integers(0, 2**31 - 1))
def test_a_rare_stratum_is_rare_everywhere(seed: int):
    """Unequal strata keep their proportion in every partition."""
    data = [Question.of(f"question {i}", id=f"q{i}", stratum="rare" if i % 4 == 0 else "common") for i in range(40)]
    made = split(data, {"train": 20, "probe": 8, "test": 12}, seed)
    counts = [sum(q.stratum == "rare" for q in members) for members in (made.train, made.probe, made.test)]
    assert all(abs(found - wanted) <= 1 for found, wanted in zip(counts, (5, 2, 3), strict=True))


def test_conversations_stay_together_and_only_test_gets_later_rounds():
    """Partitions that optimise take first rounds; the test partition takes whole conversations."""
    data = [q for i in range(12) for q in conversation(f"g{i}", 3)]
    made = split(data, {"train": 4, "probe": 2, "test": 9}, 0)
    assert [q.round for q in (*made.train, *made.probe)] == [1] * 6
    assert Counter(q.group for q in made.test) == dict.fromkeys({q.group for q in made.test}, 3)
    groups = [{q.group for q in members} for _, members in made.items() if members]
    assert len(set.union(*groups)) == sum(len(g) for g in groups)


def test_too_few_rows_are_an_error_with_both_counts():
    """Nothing is dealt twice to fill a partition."""
    with pytest.raises(DataError, match="asks for 11 questions, the data has 10"):
        split(questions(10), {"train": 6, "test": 5}, 0)


@pytest.mark.parametrize("sizes", [{"trian": 3}, {"train": -1}, {"test": True}])
def test_impossible_sizes_are_refused_by_name(sizes: dict[str, int]):
    """Unknown partition names and negative sizes are configuration errors."""
    with pytest.raises(ConfigurationError, match=next(iter(sizes))):
        split(questions(10), sizes, 0)


SAME = [
    ("What helps against a cold?", "what helps   against a COLD"),
    ("Ｈｅｌｐ me, please", "help me please"),
    ("怎么办？", "怎么办"),
    ("line one\nline two", "line one line two"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_text_under_two_ids_is_an_error_that_names_both(one: str, other: str):
    """Equal up to case, width, punctuation and space."""
    assert normalise(one) == normalise(other)
    with pytest.raises(LeakageError) as caught:
        Partitions(train=(Question.of(one, id="first"),), test=(Question.of(other, id="second"),))
    for part in ("'first'", "'second'", "train", "test", "same text"):
        assert part in str(caught.value)


@pytest.mark.parametrize(("one", "other"), [("?", "!"), ("a b", "ab"), ("1", "2"), ("", " .")])
def test_different_texts_stay_different(one: str, other: str):
    """Normalisation does not merge questions without letters, nor glue words."""
    assert text_key(one) != text_key(other)


def test_the_same_id_in_two_partitions_is_an_error_that_names_both():
    """An overlap by id is found even when texts differ."""
    with pytest.raises(LeakageError, match=r"'q' stands in probe and in test"):
        Partitions(probe=(Question.of("a", id="q"),), test=(Question.of("b", id="q"),))


def test_a_duplicate_id_in_one_partition_is_an_error():
    """Also inside one partition."""
    with pytest.raises(LeakageError, match=r"'q' stands twice in train"):
        Partitions(train=(Question.of("a", id="q"), Question.of("b", id="q")))


@given(st.data())
def test_any_planted_duplicate_is_found(data: st.DataObject):
    """Wherever a question is repeated, the split refuses."""
    rows = questions(12)
    copied = data.draw(st.sampled_from(rows))
    at = data.draw(st.integers(0, len(rows)))
    same_id = data.draw(st.booleans())
    twin = Question.of("something else", id=copied.id) if same_id else Question.of(copied.text.upper(), id="twin")
    with pytest.raises(LeakageError, match=copied.id):
        split([*rows[:at], twin, *rows[at:]], {"train": 4, "test": 4}, 0)


def test_rounds_of_one_conversation_may_repeat_a_text():
    """A user may say the same twice; another conversation may not."""
    again = [Question(id=f"r{r}", turns=(Turn(role="user", content="go on"),), group="g", round=r) for r in (1, 2)]
    assert len(Partitions(test=tuple(again)).test) == 2
    with pytest.raises(LeakageError, match="same text"):
        Partitions(test=tuple(again), train=(Question.of("Go on.", id="x"),))


def examples(n: int, start: int = 0) -> list[dspy.Example]:
    """Examples without ids."""
    return [dspy.Example(question=f"what about {i}?").with_inputs("question") for i in range(start, start + n)]


def test_a_lone_trainset_is_dealt_to_the_four_partitions_of_the_loop():
    """40 / 15 / 22.5 / 22.5 percent, disjoint, nothing lost."""
    parts = parts_of({"train": examples(40)}, seed=3)
    assert [len(p) for p in (parts.train, parts.probe, parts.solver_gate, parts.generator_gate)] == [16, 6, 9, 9]
    everything = [i.id for p in (parts.train, parts.probe, parts.solver_gate, parts.generator_gate) for i in p]
    assert len(set(everything)) == 40
    assert {i.partition for i in parts.probe} == {"probe"}
    again = parts_of({"train": examples(40)}, seed=3)
    other = parts_of({"train": examples(40)}, seed=4)
    assert [i.id for i in again.train] == [i.id for i in parts.train] != [i.id for i in other.train]


def test_given_partitions_are_kept_as_they_are():
    """``valset`` is V_s and ``gateset`` V_g, in their order."""
    given = {"train": examples(6), "solver_gate": examples(3, 50), "generator_gate": examples(2, 60)}
    parts = parts_of(given, seed=0)
    assert [i.question.text for i in parts.solver_gate] == ["what about 50?", "what about 51?", "what about 52?"]
    assert [i.question.text for i in parts.generator_gate] == ["what about 60?", "what about 61?"]
    assert len(parts.train) + len(parts.probe) == 6


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"train": examples(3)}, "too few rows: 3 examples"),
        ({"train": []}, "too few rows"),
        ({"train": examples(9), "solver_gate": []}, "solver_gate is empty"),
    ],
)
def test_too_few_examples_are_an_error(given: dict[str, list[dspy.Example]], match: str):
    """A partition is never silently empty."""
    with pytest.raises(DataError, match=match):
        parts_of(given, seed=0)


def test_overlapping_sets_are_an_error():
    """The same example in trainset and valset leaks, whatever its id."""
    with pytest.raises(LeakageError, match="solver_gate"):
        parts_of({"train": examples(8), "solver_gate": examples(3, 7)}, seed=0)


@pytest.mark.parametrize("id", [0, "0", 0.0, "a:b/..\\c"])
def test_an_id_is_kept_whatever_its_type(id: object):
    """An id of 0 is an id: the same one in train and validation is an overlap."""
    one = dspy.Example(question="first text", id=id).with_inputs("question")
    other = dspy.Example(question="second text", id=id).with_inputs("question")
    assert question_of(one, 0).id == str(id)
    with pytest.raises(LeakageError, match="train and in solver_gate"):
        parts_of({"train": [one, *examples(8)], "solver_gate": [other]}, seed=0)


def test_an_example_without_inputs_or_text_is_named():
    """The message carries the example's number and the fix."""
    with pytest.raises(ConfigurationError, match=r"example 3: no inputs are marked; use dspy\.Example"):
        question_of(dspy.Example(question="x"), 3)
    with pytest.raises(ConfigurationError, match="example 4: its inputs hold no text"):
        question_of(dspy.Example(image=[1, 2]).with_inputs("image"), 4)


@pytest.mark.parametrize("field", ["name", "description", "evaluation"])
def test_a_task_has_no_blank_text(field: str):
    """π_str is built from these texts."""
    texts = {"name": "n", "description": "d", "evaluation": "e", field: " \n"}
    with pytest.raises(ValueError, match=f"Task.{field} is blank"):
        Task(**texts)


def test_the_specification_is_public_text_only():
    """π_str holds description and evaluation, and no skill."""
    task = Task(name="n", description="DESC", evaluation="EVAL", solver_skill="SOLVER", generator_skill="GEN")
    assert task.specification() == "Task family: n\n\nWhat the task is:\nDESC\n\nHow answers are evaluated:\nEVAL"


def test_a_conversation_reads_as_turns():
    """``role: content`` parted by blank lines; a single turn as it is."""
    turns = (Turn(role="system", content="s"), Turn(role="assistant", content="a"), Turn(role="user", content="u"))
    assert Question(id="q", turns=turns).text == "system: s\n\nassistant: a\n\nuser: u"
    assert Question.of("u").text == "u"
    with pytest.raises(ValueError, match="last turn must be the user's"):
        Question(id="q", turns=turns[:2])


def test_inputs_reach_the_student_as_they_are():
    """A `dspy.History` stays one: a plain dict would not reach the model as turns."""
    history = dspy.History(messages=[{"question": "first", "response": "reply"}])
    rows = [
        dspy.Example(history=history, question=f"last {i}", label=i).with_inputs("history", "question")
        for i in range(8)
    ]
    parts = parts_of({"train": rows}, seed=0)
    assert all(item.inputs.keys() == {"history", "question"} for item in parts.train)
    assert all(item.inputs["history"] is history for item in parts.train)


parts_of_a_purpose = st.lists(st.one_of(st.text("ab0", max_size=5), st.integers()), max_size=4).map(tuple)


@given(st.integers(), parts_of_a_purpose, parts_of_a_purpose)
def test_derived_seeds_depend_on_seed_and_purpose(seed: int, one: tuple[object, ...], other: tuple[object, ...]):
    """31 bits, repeatable, and another purpose or seed is another stream."""
    assert 0 <= derive(seed, *one) < 2**31
    assert derive(seed, *one) == derive(seed, *one) != derive(seed + 1, *one)
    if [str(part) for part in one] != [str(part) for part in other]:
        assert rng_for(seed, *one).random() != rng_for(seed, *other).random()
