"""Grader replies as they come: each with the right value in both modes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy.benchmarks import eqbench_cw, healthbench, llmeval_med, researchqa, writingbench
from decoevo_dspy.benchmarks.base import RawReply
from decoevo_dspy.benchmarks.grading import count_words
from decoevo_dspy.rules.replies import json_values, without_reasoning

REFUSAL = "I'm sorry, but I can't help with grading this content."


@pytest.mark.parametrize(
    ("raw", "official", "robust"),
    [
        ('{"criteria_met": true}', True, True),
        ('```json\n{"criteria_met": false}\n```', False, False),
        ('```\n{"criteria_met": false}\n```', None, False),
        ('Here it is:\n```json\n{"criteria_met": true}\n```\nHope it helps.', None, True),
        ('<think>{"criteria_met": true} or not?</think>{"criteria_met": false}', None, False),
        ('First {"criteria_met": true}. No, wait: {"criteria_met": false}', None, None),
        # a quoted object inside a broken one must not stand in for the grader's own verdict
        ('{"explanation": "it says {"criteria_met": true} itself", "criteria_met": false}', None, None),
        ('{"explanation": "it says {\\"criteria_met\\": true} itself", "criteria_met": fal', None, None),
        ('{"criteria_met": true, "confidence": NaN}', True, None),
        ('{"criteria_met": NaN}', None, None),
        ('{"criteria_met": "true"}', None, None),
        ('{"criteria_met": 1}', None, None),
        ('[{"criteria_met": true}]', None, None),
        ('"criteria_met"', None, None),
        ("7", None, None),
        ("{" * 5000, None, None),
        ("[" * 5000, None, None),
        (REFUSAL, None, None),
        ("", None, None),
    ],
)
def test_healthbench(raw, official, robust):
    assert healthbench.verdict(raw, "official") is official
    assert healthbench.verdict(raw, "robust") is robust


@pytest.mark.parametrize(
    ("raw", "official", "robust"),
    [
        ('{"score": 7, "reason": "r"}', 7, 7),
        ('```json\n{"score": 7, "reason": "r"}\n```', 7, 7),
        ('```json\n{"score": 7, "reason": "r"}\n```\n', None, 7),
        ('The text [1] fails at 10:15.\n{"score": 3, "reason": "r"}', None, 3),
        ('{"score": NaN, "reason": "r"}', None, None),
        ('{"score": 7.5, "reason": "r"}', None, None),
        ('{"score": "7", "reason": "r"}', None, None),
        ('{"score": "7/10", "reason": "r"}', None, None),
        ('{"score": 8, "reason": "cut of', None, None),
        ("__import__('os').system('true')", None, None),
        ("{'score': 7, 'reason': 'python, not JSON'}", None, None),
        (REFUSAL, None, None),
    ],
)
def test_writingbench(raw, official, robust):
    assert writingbench.parse_official(raw) == official
    assert writingbench.parse_robust(raw) == robust


@pytest.mark.parametrize(
    ("raw", "n", "official", "robust"),
    [
        ("Mostly\nBarely", 2, [0.75, 0.25], [0.75, 0.25]),
        ("```\nMostly\nBarely\n```", 2, None, [0.75, 0.25]),
        ("<think>\nMostly?\n</think>\nMostly\nBarely", 2, None, [0.75, 0.25]),
        ("**Mostly**\n- not at all", 2, [None, None], [0.75, 0.0]),
        ("1) Completely\n2) Barely.", 2, [None, None], [1.0, 0.25]),
        ("Labels:\nMostly\nBarely", 2, None, None),
        ("Mostly Barely", 2, None, None),
        ("Mostly\nBarely\nMostly", 2, None, None),
        ("Mostly\nQuite", 2, [0.75, None], None),
        ("3\n4", 2, [None, None], None),
        ("Not mostly\nBarely", 2, [None, 0.25], None),
        (REFUSAL, 1, [None], None),
        ("", 1, None, None),
    ],
)
def test_researchqa(raw, n, official, robust):
    labels = researchqa.parse_official(raw, n)
    assert (None if labels is None else [researchqa.LEVELS.get(label) for label in labels]) == official
    assert researchqa.parse_robust(raw, n) == robust


@pytest.mark.parametrize(
    ("raw", "finish", "official", "robust"),
    [
        ('{"判断依据"："见文献[1]","得分"："[4]"}', "stop", 1, 4),
        ('```json\n{"判断依据"："x","得分"："[5]"}\n```', "stop", 5, 5),
        ("得分点[3]缺失。得分：[2]", "stop", 3, 2),
        ("先给得分[2]，复核后得分：[4]", "stop", 2, 4),
        ("评价：好 [4]", "stop", 4, 4),
        ("参考[1]的内容，该回答", "length", 1, None),
        ('{"判断依据"："见[1]","得分"："五分"}', "stop", 1, None),
        ("得分：[10]", "stop", None, None),
        ("得分：[0]", "stop", 0, None),
        ("得分：NaN", "stop", None, None),
        ("抱歉，我无法评分。", "stop", None, None),
        ("  ", "stop", None, None),
        ("<think>得分[1]</think>得分：[3]", "stop", 1, 3),
    ],
)
def test_llmeval(raw, finish, official, robust):
    assert llmeval_med.stored_value(llmeval_med.parse_official(raw)) == official
    assert llmeval_med.parse_robust(RawReply(text=raw, finish_reason=finish)) == robust


@pytest.mark.parametrize(
    ("raw", "finish", "official", "robust"),
    [
        ("[Analysis]\nGood.\n[Scores]\nCoherent: 15\nMeandering: 4", "stop", 15.5, 15.5),
        ("[Scores]\n**Meandering**: 4", "stop", 4, 16),
        ("[Scores]\n- Tell-Don't Show: 3", "stop", 3, 17),
        ("[Scores]\n* **Tell-Don’t-Show:** 3", "stop", None, 17),
        ("At 10:15 it ends: 3\n[Scores]\nCoherent: 15", "stop", 11, 15),
        ("I'd say Coherent: 9 at first.\n[Scores]\nCoherent: [15]", "stop", 12, 15),
        ("[Scores]\nCoherent: 15/20", "stop", 15, 15),
        ("[Scores]\nCoherent: 1", "length", 1, None),
        ("[Scores]\nCoherent: 25", "stop", None, None),
        ("[Scores]\nCoherent: NaN", "stop", None, None),
        ("```\n[Scores]\nCoherent: 15\n```", "stop", 15, 15),
        (REFUSAL, "stop", None, None),
    ],
)
def test_eqbench(raw, finish, official, robust):
    assert eqbench_cw.piece_score(eqbench_cw.parse_official(raw)) == official
    strict = eqbench_cw.parse_robust(RawReply(text=raw, finish_reason=finish))
    assert (None if strict is None else eqbench_cw.piece_score(strict)) == robust


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        ("<think>a</think>\n\nB", "B"),
        ("<think>a</think>B", "B"),
        ("thoughts</think>\nB", "B"),
        ("<reasoning>a</reasoning> B", "B"),
        ("<think>never ends", ""),
        ("The tag <think> and </think> explained", "The tag <think> and </think> explained"),
        ("plain", "plain"),
    ],
)
def test_without_reasoning(raw, left):
    assert without_reasoning(raw) == left


def test_count_words_of_two_scripts():
    assert count_words("It's a well-known fact") == 4
    assert count_words("高血压 is common") == 5


@given(st.text(max_size=200))
def test_no_text_breaks_a_parser(text):
    """Parsers return a value or ``None`` on any text."""
    json_values(text)
    healthbench.verdict(text, "official")
    writingbench.parse_official(text)
    writingbench.parse_robust(text)
    researchqa.parse_robust(text, 3)
    llmeval_med.stored_value(llmeval_med.parse_official(text))
    llmeval_med.parse_robust(RawReply(text=text))
    eqbench_cw.parse_official(text)
    eqbench_cw.parse_robust(RawReply(text=text))
