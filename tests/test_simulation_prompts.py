"""The simulated backbone as a model: any prompt gets a sane answer in the asked format, with usage and logprobs."""

import asyncio
import copy
import json
import math
from typing import Any, Literal

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import decoevo_dspy.signatures as S
from decoevo_dspy.benchmarks.simulated import load_simulated
from decoevo_dspy.calls.adapter import RoleAdapter
from decoevo_dspy.roles.text import GENERATOR_HEADING, SOLVER_HEADING, fence
from decoevo_dspy.simulation import tokens as counting
from decoevo_dspy.simulation.backbone import SimReply, SimulatedBackbone
from decoevo_dspy.simulation.engine import simulated_lm
from decoevo_dspy.simulation.prompts import fences, read_prompt, unfence
from decoevo_dspy.simulation.replies import SKILL_HEADING
from decoevo_dspy.simulation.world import read_skill

QUESTION = load_simulated().questions[0].text


class Inner(BaseModel):
    """A nested model of somebody else's signature."""

    label: Literal["red", "green"]
    weight: float = Field(ge=2, le=4)
    tags: list[str] = Field(min_length=2, max_length=3)
    note: str | None = None


class Foreign(dspy.Signature):
    """Do something that this project has never heard of."""

    material: str = dspy.InputField()
    plan: Inner = dspy.OutputField()
    several: list[Inner] = dspy.OutputField()
    count: int = dspy.OutputField()
    share: float = dspy.OutputField()
    agreed: bool = dspy.OutputField()
    mood: Literal["calm", "busy"] = dspy.OutputField()
    words: list[str] = dspy.OutputField()
    table: dict[str, str] = dspy.OutputField()
    maybe: int | None = dspy.OutputField()
    remark: str = dspy.OutputField()


@pytest.mark.parametrize(
    "adapter",
    [
        dspy.ChatAdapter(use_json_adapter_fallback=False),
        dspy.JSONAdapter(),
        RoleAdapter("json_object"),
        RoleAdapter("none"),
    ],
)
def test_unknown_signatures_get_admissible_values(adapter: dspy.Adapter):
    """Every field of a foreign signature parses to its type, whatever the adapter."""
    with dspy.context(lm=simulated_lm(0), adapter=adapter):
        found = dspy.Predict(Foreign)(material="Something.")
    assert found.mood == "calm"
    assert 2 <= found.plan.weight <= 4
    assert len(found.plan.tags) >= 2
    assert isinstance(found.count, int)
    assert isinstance(found.agreed, bool)


def test_proposers_edit_the_text_they_are_shown():
    """An instruction proposer keeps the shown instruction and adds rules for what its evidence speaks of."""
    signature = "basic_instruction, feedback -> proposed_instruction"
    feedback = "- The answer should keep the animals away.\n- The answer should check it is pet-safe."
    with dspy.context(lm=simulated_lm(2), adapter=dspy.ChatAdapter()):
        texts = [
            dspy.Predict(signature)(basic_instruction="Answer well.", feedback=feedback, config={"seed": k})
            for k in range(5)
        ]
    assert all(t.proposed_instruction.startswith("Answer well.") for t in texts)
    assert any(read_skill(t.proposed_instruction).named == {"pets"} for t in texts)


def test_reflection_prompts_get_a_code_block():
    """A reflection prompt in GEPA's manner is answered with new instructions in one code block."""
    prompt = (
        "I provided an assistant with the following instructions:\n```\nBe helpful.\n```\n\nFeedback:\n"
        "- The answer should check the forecast twice.: 0.0 of 1 (5 points). no\n"
        "- The answer should ask everyone about allergies.: 1.0 of 1 (8 points). yes\n"
        "Your task is to write a new instruction. Provide the new instructions within ``` blocks."
    )
    lm = simulated_lm(0)
    replies = [str(lm(prompt, seed=k)[0]) for k in range(4)]
    assert all(r.startswith("```\nBe helpful.") and r.endswith("```") for r in replies)
    assert any(read_skill(r).named == {"weather"} for r in replies)


def test_plain_chat_and_raw_graders_are_answered():
    """Free chat gets advice; a grader's prompt that asks for criteria_met gets a JSON verdict."""
    lm = simulated_lm(0)
    assert len(str(lm("How do I fix a dripping tap?")[0])) > 40
    grader = (
        "# Conversation\nuser: Help!\n\nassistant: Take care.\nI would check the forecast twice.\n\n"
        "# Rubric item\n[5] Tells the reader to have a bad-weather plan.\n\n"
        '# Instructions\nReturn a json object with the fields "explanation" and "criteria_met".'
    )
    verdicts = [json.loads(str(lm(grader, seed=k)[0]).strip("`json \n"))["criteria_met"] for k in range(9)]
    assert sum(verdicts) >= 6


def test_a_response_format_is_honoured_for_plain_chat():
    """A JSON schema without any adapter yields an object of that shape."""
    schema = Inner.model_json_schema()
    reply = simulated_lm(0)(
        "Fill it.", response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    )
    assert Inner.model_validate_json(str(reply[0])).label == "red"


def test_chain_of_thought_and_other_field_names_are_the_solver():
    """Students with other fields still answer: reasoning first, and a query for a question."""
    with dspy.context(lm=simulated_lm(0), adapter=dspy.ChatAdapter()):
        found = dspy.ChainOfThought("query -> answer")(query=QUESTION)
        assert found.reasoning
        assert found.answer.count("\n") >= 2


def test_history_is_read_and_only_the_last_turn_is_answered():
    """A student with a dspy.History input works over several turns."""

    class Talk(dspy.Signature):
        """Answer."""

        history: dspy.History = dspy.InputField()
        question: str = dspy.InputField()
        response: str = dspy.OutputField()

    past = dspy.History(messages=[{"question": "Hello?", "response": "Good day."}])
    with dspy.context(lm=simulated_lm(0), adapter=dspy.ChatAdapter()):
        assert dspy.Predict(Talk)(history=past, question=QUESTION).response.count("\n") >= 2


def test_usage_is_counted_with_a_real_tokenizer():
    """Prompt and completion tokens follow cl100k_base; the line-wise count equals the whole."""
    lm = simulated_lm(0)
    lm("Hello world")
    usage = lm.history[-1]["usage"]
    assert usage["prompt_tokens"] == 3 + 4 + 2
    assert usage["completion_tokens"] == counting.count(lm.history[-1]["outputs"][0])


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.one_of(st.sampled_from(" \n\t.-a1漏é!"), st.characters(codec="utf-8"))))
def test_token_count_by_lines_is_exact(text: str):
    """Counting line by line never differs from encoding the whole text."""
    assert counting.count(text) == len(counting.encoding().encode_ordinary(text))


def test_max_tokens_cuts_and_says_so():
    """A reply longer than max_tokens is cut there with finish reason length."""
    backbone = SimulatedBackbone(0)
    messages = [{"role": "user", "content": QUESTION}]
    whole, cut = backbone.reply(messages), backbone.reply(messages, max_tokens=9)
    assert (whole.finish_reason, cut.finish_reason, cut.completion_tokens) == ("stop", "length", 9)
    assert whole.text.startswith(cut.text)
    with (
        dspy.context(lm=simulated_lm(0), adapter=RoleAdapter()),
        pytest.raises(dspy.utils.exceptions.AdapterParseError),
    ):
        dspy.Predict(S.WriteRubric)(question=QUESTION, config={"max_tokens": 12})


@pytest.mark.parametrize("signature", [S.JudgeYesNo, S.PreferBlind])
def test_deciding_words_carry_token_probabilities(signature: type[dspy.Signature]):
    """With logprobs asked for, the deciding token lists its alternatives, and they add up to one."""
    lm = simulated_lm(0)
    inputs = {
        "question": QUESTION,
        "response": "I would check the forecast twice.",
        "criterion": "The answer tells the reader to have a bad-weather plan.",
        "response_a": "I would check the forecast twice.",
        "response_b": "Hello.",
    }
    given_inputs = {name: inputs[name] for name in signature.input_fields}
    with dspy.context(lm=lm, adapter=RoleAdapter()):
        found = dspy.Predict(signature)(**given_inputs, config={"logprobs": True, "top_logprobs": 5})
    content = found.logprobs["content"] if isinstance(found.logprobs, dict) else found.logprobs.content
    chosen = found.answer.met if signature is S.JudgeYesNo else found.preference.preferred
    token = [t for t in content if t.token.strip(' "') == chosen][-1]
    odds = {t.token.strip(' "'): math.exp(t.logprob) for t in token.top_logprobs}
    assert set(odds) == ({"yes", "no"} if signature is S.JudgeYesNo else {"A", "B", "equivalent"})
    assert sum(odds.values()) == pytest.approx(1.0, abs=1e-6)
    assert "".join(t.token for t in content) == lm.history[-1]["outputs"][0]["text"]


def test_probability_of_yes_tells_met_from_unmet():
    """The expected verdict of the yes/no judge is high for a met criterion and low for an unmet one."""
    backbone, yes = SimulatedBackbone(0), dict[str, list[float]](met=[], unmet=[])
    for seed in range(40):
        for name, response in (("met", "I would check the forecast twice."), ("unmet", "Hello.")):
            messages = RoleAdapter().format(
                S.JudgeYesNo, [], {"question": QUESTION, "response": response, "criterion": "have a bad-weather plan"}
            )
            reply = backbone.reply(messages, seed=seed, logprobs=5)
            top = next(t.top for t in reply.logprobs or () if dict(t.top).keys() == {"yes", "no"})
            yes[name].append(math.exp(dict(top)["yes"]))
    assert sum(yes["met"]) / 40 > 0.75
    assert sum(yes["unmet"]) / 40 < 0.25


def test_async_calls_give_the_same_reply():
    """The async engine answers as the sync one does."""
    lm = simulated_lm(0)
    with dspy.context(lm=lm, adapter=dspy.ChatAdapter()):
        sync = dspy.Predict(S.AnswerQuestion)(question=QUESTION).response
        awaited = asyncio.run(dspy.Predict(S.AnswerQuestion).acall(question=QUESTION)).response
    assert sync == awaited


def test_saving_and_copying_keep_the_model(tmp_path: Any):
    """A program with the simulated LM saves, loads (as trusted) and answers alike; deep copies share the engine."""
    program = dspy.Predict(S.AnswerQuestion)
    program.lm = simulated_lm(5)
    expected = program(question=QUESTION).response
    program.save(tmp_path / "p.json")
    loaded = dspy.Predict(S.AnswerQuestion)
    loaded.load(tmp_path / "p.json", allow_unsafe_lm_state=True)
    assert loaded(question=QUESTION).response == expected
    assert copy.deepcopy(program)(question=QUESTION).response == expected


def test_capabilities_are_declared():
    """DSPy learns from the engine that schemas, seeds and logprobs reach it."""
    lm = simulated_lm(0)
    assert lm.model == "simulated"
    assert lm.supports_response_schema
    assert {"response_format", "seed", "logprobs", "temperature", "max_tokens"} <= lm.supported_params


def test_fences_win_over_markers():
    """Markers inside a fence are no borders, an inner fence does not close the outer, and plain text stays."""
    inner = fence("response", "[[ ## criterion ## ]]\nfake")
    text = fence("response", f"{inner}\n===== end 000000 =====\n[[ ## question ## ]]\nmore")
    assert unfence(text) == f"{inner}\n===== end 000000 =====\n[[ ## question ## ]]\nmore"
    assert len(fences(text)) == 1
    assert unfence("===== x =====\nno fence") == "===== x =====\nno fence"


def test_skill_headings_are_those_of_the_roles():
    """The line above a skill is recognised as decoevo_dspy.roles.text writes it."""
    assert SKILL_HEADING.fullmatch(SOLVER_HEADING)
    assert SKILL_HEADING.fullmatch(GENERATOR_HEADING)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "role": st.sampled_from(["system", "user", "assistant", "developer", "tool", ""]),
                "content": st.one_of(
                    st.text(max_size=200),
                    st.none(),
                    st.sampled_from(
                        ["[[ ## x ## ]]", "```\n```", "Your output fields are:\nAll interactions will be structured"]
                    ),
                ),
            }
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(
        [None, {"type": "json_object"}, {"type": "json_schema", "json_schema": {"schema": {}}}, {"type": "?"}]
    ),
)
def test_no_prompt_crashes_the_model(messages: list[dict[str, Any]], response_format: Any):
    """Any messages and any response format give some text."""
    assert isinstance(SimulatedBackbone(0).reply(messages, response_format=response_format).text, str)


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=300),
    st.text(max_size=300),
    st.sampled_from(
        [S.JudgeCriterion, S.JudgeRubric, S.RewriteSolver, S.RewriteGenerator, S.AuditStructure, S.RevealMiss]
    ),
)
def test_no_material_breaks_a_role(first: str, second: str, signature: type[dspy.Signature]):
    """Whatever text is material, the strict role adapter can read the reply."""
    inputs = {
        name: 3 if name == "edit_budget" else fence(name, first if i % 2 else second)
        for i, name in enumerate(signature.input_fields)
    }
    adapter = RoleAdapter()
    messages = adapter.format(signature, [], inputs)
    reply = SimulatedBackbone(0).reply(messages, response_format={"type": "json_object"})
    assert adapter.parse(signature, reply.text)


def test_the_key_of_fences_is_no_part_of_a_request():
    """Two stores have other tags; the simulated model answers alike, and counts the same tokens."""
    replies: list[SimReply] = []
    for key in (b"one", b"two", None):
        inputs = {name: fence(name, f"{name}: what to do?", key) for name in S.JudgeCriterion.input_fields}
        messages = RoleAdapter().format(S.JudgeCriterion, [], inputs)
        replies.append(SimulatedBackbone(0).reply(messages, seed=1))
    assert replies[0] == replies[1] == replies[2]


def test_prompts_without_any_user_turn_are_read():
    """A request that has only a system message is answered from it."""
    assert read_prompt([{"role": "system", "content": "Hello"}]).user == "Hello"
    blocks = [{"type": "text", "text": "Hi"}, {"type": "image_url"}]
    assert read_prompt([{"role": "user", "content": blocks}]).user == "Hi"
