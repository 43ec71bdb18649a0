"""`values.material`: a refusal, an error text, a web page or reasoning never becomes a skill or a rubric."""

import json
import random
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from decoevo_dspy import RoleLMs, SkillOpt, simulated_lm
from decoevo_dspy.benchmarks import preset, presets
from decoevo_dspy.benchmarks.simulated import gold_criteria, load_simulated, simulated_task
from decoevo_dspy.roles import GeneratorRewriter, RubricGenerator, SolverRewriter
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.simulation import phrasing
from decoevo_dspy.simulation.world import BY_KEY, cued
from decoevo_dspy.values.findings import Failure, Finding
from decoevo_dspy.values.material import said_instead
from decoevo_dspy.values.rubric import Rubric
from decoevo_dspy.values.skill import GENERATOR_SKILL, SOLVER_SKILL, Candidate, Skill
from decoevo_dspy.values.task import Task
from tests.conftest import Bench, ScriptedEndpoint

Recording = Callable[..., Bench]
TASK = Task(name="advice", description="Everyday advice.", evaluation="Answers must be safe.")

REFUSALS = [
    "I'm sorry, but I can't help with that.",
    "- I’m sorry, I cannot assist with this request.",
    "I am very sorry, but as a careful assistant I won't write that.",
    "I apologize, but I'm not able to provide edits to this document.",
    "Sorry, I can not comply.",
    "1. Unfortunately, I am unable to help with medical topics.",
    "> **I cannot fulfill this request.**",
    "I must respectfully decline to continue.",
    "As an AI language model, I do not have opinions.",
    "As a large language model I cannot judge this.",
    "be brief\n- I can't assist with that",
    "很抱歉，我无法回答这个问题。",
    "作为一个人工智能语言模型，我不能提供医疗建议。",
    "Lo siento, pero no puedo ayudar con eso.",
    "申し訳ありませんが、お手伝いできません。",
]
ERRORS = [
    '{"error": {"message": "Rate limit reached", "type": "requests"}}',
    '{"detail": "Not authenticated"}',
    "Error code: 429 - {'error': {'message': 'slow down'}}",
    "502 Bad Gateway",
    "HTTP/1.1 503 Service Unavailable",
    "Internal Server Error",
    "Rate limit reached for gpt-4o in organization org-x on tokens per min",
    "You exceeded your current quota, please check your plan and billing details.",
    "This model's maximum context length is 8192 tokens.",
    "upstream connect error or disconnect/reset before headers",
    "Traceback (most recent call last):\n  File ...",
    "litellm.RateLimitError: RateLimitError: OpenAIException",
    "Request timed out.",
]
PAGES = [
    "<!DOCTYPE html><html><head><title>Login</title></head></html>",
    "<html>\n<body>nginx</body>\n</html>",
    "Just a moment...",
    "something\n</body></html>",
]
THOUGHTS = [
    "<think>The skill lacks a rule.</think>Be brief.",
    "</think>\n- Be brief.",
    "Be brief. <thinking>",
    "<|channel|>analysis<|message|>We need edits.",
    "[THINK]let us see[/THINK] be brief",
    "◁think▷hm◁/think▷ be brief",
    "<|im_start|>assistant\nbe brief",
    "Okay, so the user wants edits. Let me look at the failures first.",
    "Hmm, let me think about this.",
    "The user wants me to improve the skill.",
    "Wait, I should check the criteria.",
]
BAD = {
    "refusal": REFUSALS,
    "error text": ERRORS,
    "HTML page": PAGES,
    "reasoning": THOUGHTS,
}
GOOD = [
    "Never answer with: I'm sorry, but I can't help with that.",
    "If something is dangerous, say that you cannot help with it and name who can.",
    "I'm sorry you are going through this",
    'Begins with sympathy, such as "I\'m sorry to hear that".',
    "Does not claim to be an AI language model.",
    "Explains what a 404 or a 502 Bad Gateway error means for the reader.",
    "Names the error code and the message.",
    "Uses valid HTML: an <h1> heading, then a <ul> list.",
    "Think step by step before answering, but show the answer alone.",
    "Okay is not an answer: give reasons.",
    "Let the reader choose between two options.",
    "The user wants a plan: give dates.",
    "Wait times and opening hours are named.",
    "States what the writer cannot know.",
    "We recommend is replaced by a reason.",
    "对不起等客套话最多一句。",
    "不能只给结论，要说明理由。",
]


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in BAD.items() for text in texts])
def test_what_is_said_instead_is_recognised(kind: str, text: str):
    """By its kind."""
    assert said_instead(text) == kind


@pytest.mark.parametrize("text", GOOD)
def test_a_rule_about_such_texts_is_none(text: str):
    """A line that quotes, forbids or mentions them is a rule."""
    assert said_instead(f"- {text}") is None


def test_no_text_of_this_library_is_mistaken():
    """Initial skills, presets, and every rule and criterion of the simulated world."""
    rng = random.Random(0)
    rules = [
        phrasing.rule(key, rng, zh, genre, lax=lax)
        for key in BY_KEY
        for zh in (False, True)
        for genre in ("solver", "generator")
        for lax in (False, True)
        for _ in range(4)
    ]
    gold = [text for q in load_simulated().questions for text, _ in gold_criteria(q, cued(q.text))]
    tasks = [text for name in presets() for text in (preset(name).description, preset(name).evaluation)]
    texts = [SOLVER_SKILL, GENERATOR_SKILL, *rules, *gold, *tasks]
    assert [text for text in texts if said_instead(text)] == []


def edits(*contents: str) -> str:
    """A rewriter's reply."""
    made = [{"op": "append", "target": "", "content": content} for content in contents]
    return json.dumps({"rewrite": {"summary": "s", "edits": made}})


def rubric(*texts: str) -> str:
    """A rubric generator's reply."""
    return json.dumps({"rubric": {"criteria": [{"requirement": text, "points": 3} for text in texts]}})


FAILURE = Failure(question_id="q", criterion="names the seal", points=2, score=0.1, rationale="no")
FINDING = Finding(audit="structural", question_id="q", principle="ask for a safety step", reason="none")
ROLES: dict[str, tuple[Callable[..., str], Callable[[], Any], Callable[[Any], Any]]] = {
    "solver_rewriter": (
        edits,
        SolverRewriter,
        lambda role: role.propose(TASK, Skill("# R"), [FAILURE], [], 4, sample="s"),
    ),
    "generator_rewriter": (
        edits,
        GeneratorRewriter,
        lambda role: role.distil(TASK, Skill("# R"), [("Omitted", [FINDING])], 4, sample="s"),
    ),
    "rubric_generator": (rubric, RubricGenerator, lambda role: role.generate("Q?")),
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", BAD)
def test_it_is_asked_again(kind: str, role: str, endpoint: ScriptedEndpoint, recording: Recording):
    """One such text among good ones: the reply is not used, and a fresh one is."""
    write, make, call = ROLES[role]
    endpoint.answers(write("Be brief.", BAD[kind][0]), write("Name the seal."))
    bench = recording()
    bound = bench.bind(make(), endpoint.lm())
    found = call(bound)
    assert isinstance(found, Candidate | Rubric)
    text = found.skill.text if isinstance(found, Candidate) else found.numbered()
    assert "Name the seal." in text
    assert "Be brief." not in text
    assert len(endpoint.sent) == 2
    counted = bound.counts.by_role()[role]
    assert counted == {"replies": 2, "parsed": 1, f"reply_{'refused' if kind == 'refusal' else 'unparsable'}": 1}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", BAD)
def test_in_the_end_it_is_a_typed_failure(kind: str, role: str, endpoint: ScriptedEndpoint, recording: Recording):
    """Twice such a text: no skill, no rubric, and the reason says what came instead."""
    write, make, call = ROLES[role]
    endpoint.answers(*(write(text) for text in BAD[kind][-2:]))
    found = call(recording().bind(make(), endpoint.lm()))
    assert isinstance(found, NoReply)
    assert found.kind == ("refused" if kind == "refusal" else "unparsable")
    assert found.reason.startswith(kind)
    assert len(endpoint.sent) == 2


def test_a_run_on_a_model_that_refuses_keeps_its_skill(endpoint: ScriptedEndpoint):
    """A rewriter that only refuses changes nothing, and the log says why."""
    endpoint.answers(edits(REFUSALS[0]))
    train = [dspy.Example(question=q.text, id=q.id).with_inputs("question") for q in load_simulated().questions[:9]]
    lms = RoleLMs(default=simulated_lm(), solver_rewriter=endpoint.lm())
    optimizer = SkillOpt(simulated_task(), steps=1, batch_size=2, judge_mode="rubric", role_lms=lms, num_threads=1)
    program: Any = optimizer.compile(dspy.Predict("question -> response"), trainset=train)
    (decision,) = [e for e in program.detailed_results.history if e["kind"] == "solver_decision"]
    assert decision["reason"].startswith("discarded: no usable reply of the rewriter (refused: refusal in the place")
    assert len(program.detailed_results.solver_skills) == 1
