"""The reader of replies by itself: which values stand in a text, and what makes a text unreadable."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy.rules.replies import (
    DEEPEST_VALUE,
    LONGEST_REPLY,
    MOST_VALUES,
    Unfitting,
    Unreadable,
    json_values,
    one_reading,
    without_reasoning,
)

OPENINGS = [
    ("<think>", "</think>"),
    ("<THINKING>", "</thinking>"),
    ('<reasoning effort="high">', "</reasoning>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
PROSE = st.text(st.characters(exclude_characters="{}[]<>|◁▷\"'“”„«»‘’「」『』", exclude_categories=["Cs"]), max_size=20)
OBJECTS = st.dictionaries(st.text(max_size=6), VALUES, min_size=1, max_size=3)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}{"a": 2}', [{"a": 1}, {"a": 2}]),
        ('{"a": {"b": 1}} tail', [{"a": {"b": 1}}]),
        ('{"a": "}{"}', [{"a": "}{"}]),
        ('{"a": "\\"}{\\""}', [{"a": '"}{"'}]),
        ('{"a": "</think>[THINK]"}', [{"a": "</think>[THINK]"}]),
        ('{bad} {"a": 1}', [{"a": 1}]),
        ('{"a": 1, "b": [1, 2', []),
        ('{"a": {"b": 1}, "c": ', []),
        ('{"a": {"b": 1}, "c": NaN}', []),
        ("no object", []),
        ('{"a": NaN}', []),
        ('["x", {"a": 1}]', [["x", {"a": 1}]]),
        ('[{"a": 1}', []),
        ("", []),
    ],
)
def test_only_values_that_stand_by_themselves_are_found(text: str, found: list[Any]):
    """What an unfinished, broken or whole value encloses is no answer of its own."""
    assert json_values(text) == tuple(found)


@pytest.mark.parametrize(("opening", "closing"), OPENINGS, ids=[opening for opening, _ in OPENINGS])
class TestReasoning:
    """Every known family of reasoning marks."""

    def test_closed_reasoning_holds_no_answer(self, opening: str, closing: str):
        """What stands after it is the answer."""
        text = f'{opening} maybe {{"a": 1}}, a {{ or a " {closing}\n{{"a": 2}}'
        assert json_values(text) == ({"a": 2},)
        assert without_reasoning(text) == '{"a": 2}'
        assert json_values(f"Well. {text}") == ({"a": 2},)

    def test_reasoning_that_never_ends_leaves_nothing(self, opening: str, closing: str):
        """Not even after a word or a byte order mark."""
        for before in ("", "\ufeff", " \n"):
            assert json_values(f'{before}{opening} {{"a": 1}}') == ()
            assert without_reasoning(f'{before}{opening} {{"a": 1}}') == ""
        assert json_values(f'Well, {opening} {{"a": 1}}') == ()

    def test_a_closing_mark_alone_ends_reasoning(self, opening: str, closing: str):
        """Chat templates open it in the prompt."""
        assert json_values(f'{{"a": 1}} or {{ no {closing} {{"a": 2}}') == ({"a": 2},)
        assert without_reasoning(f"hm {closing} Yes") == "Yes"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 1}', "the key 'a' stands twice in one object"),
        ('{"b": {"a": 1, "a": 2}} {"a": 1}', "the key 'a' stands twice in one object"),
        ("{" * 5000, f"nested deeper than {DEEPEST_VALUE} levels"),
        ("{} " * (MOST_VALUES + 1), f"more than {MOST_VALUES} bracketed stretches"),
        ("x" * (LONGEST_REPLY + 1), f"at most {LONGEST_REPLY} are read"),
        ("nothing", "the reply holds no complete JSON object"),
        ('{"a": 1} {"a": 2}', "2 answers that differ"),
        ('{"b": 1}', "no a"),
    ],
)
def test_unreadable_says_why(text: str, reason: str):
    """A typed refusal with one sentence; never an exception, never a guess."""
    found = one_reading(text, a_of)
    assert isinstance(found, Unreadable)
    assert reason in found.reason


def a_of(value: Any) -> Any:
    """The value under "a"."""
    if not isinstance(value, dict) or "a" not in value:
        raise Unfitting("no a")
    return value["a"]


@given(PROSE, OBJECTS, PROSE)
def test_a_value_is_found_in_any_prose(before: str, value: dict[str, Any], after: str):
    """Prose without brackets and quotation marks around it changes nothing."""
    assert json_values(f"{before.lstrip('>')}\n{json.dumps(value)}\n{after}") == (value,)


@given(OBJECTS, st.integers(0, 200))
def test_a_cut_value_is_none(value: dict[str, Any], kept: int):
    """Cut anywhere, an object gives nothing, and nothing that it encloses."""
    text = json.dumps({"whole": [value, {"a": 1}]})
    assert json_values(text[: min(kept, len(text) - 1)]) == ()


@given(st.lists(st.sampled_from(['{"a": 1}', "{", "}", "[", "]", '"', ">", "\n", ":", "NaN", *sum(OPENINGS, ())])))
def test_no_text_breaks_the_reader(parts: list[str]):
    """A tuple or `Unreadable`, whatever comes."""
    text = "".join(parts)
    assert isinstance(json_values(text), tuple | Unreadable)
    assert without_reasoning(text) in text
