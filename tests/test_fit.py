"""Inputs that exceed a context window are cut by a stated rule, and the rule always comes to an end."""

from typing import Any

import dspy
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy.calls.adapter import RoleAdapter
from decoevo_dspy.roles.base import LEAST_TOKENS, dense, estimate_tokens, fit
from decoevo_dspy.signatures import JudgeCriterion

TEXTS = st.dictionaries(st.sampled_from("abcd"), st.text(max_size=3000), min_size=1)


@given(TEXTS, st.integers(-100, 3000))
def test_fit_ends_and_keeps_its_promise(inputs: dict[str, str], room: int) -> None:
    """What fits is untouched; what does not is cut once, to the room or to the least size."""
    total = sum(estimate_tokens(text) + 12 for text in inputs.values())
    fitted, cut = fit(inputs, room)
    assert fitted.keys() == inputs.keys()
    if total <= room:
        assert (fitted, cut) == (inputs, 0)
        return
    assert cut == sum(fitted[name] != inputs[name] for name in inputs)
    after = sum(estimate_tokens(text) + 12 for text in fitted.values())
    assert after <= max(room, len(inputs) * (LEAST_TOKENS + 12)) + 8 * len(inputs)


def test_head_and_tail_stay() -> None:
    """The cut is in the middle and says how much is missing; a short text beside it is left alone."""
    text = "BEGIN " + "x" * 6000 + " END"
    fitted, cut = fit({"long": text, "short": "hello", "number": 3}, 400)
    assert cut == 1
    assert fitted["long"].startswith("BEGIN ")
    assert fitted["long"].endswith(" END")
    assert "characters cut" in fitted["long"]
    assert (fitted["short"], fitted["number"]) == ("hello", 3)


def test_a_text_at_the_least_size_does_not_loop() -> None:
    """Regression: texts near the least size were cut again and again without becoming shorter."""
    texts = dict.fromkeys("abc", "word " * 46)
    fitted, _ = fit(texts, 100)
    assert all(len(text) < 400 for text in fitted.values())


def test_a_tight_limit_is_fitted_to_the_script() -> None:
    """Under an LM's own token limit, replies in a dense script get half the characters, others do not."""
    lm = dspy.LM("openai/test", api_base="http://127.0.0.1:1/v1", api_key="x", engine="litellm", max_tokens=300)
    bounds: dict[bool, int] = {}
    for text in ("a question in English", "用药需要注意什么，请详细说明。"):
        options: dict[str, Any] = {}
        adapter = RoleAdapter("auto", None, dense({"question": text}))
        adapter._prepare_response_format(lm, options, JudgeCriterion)
        schema = options["response_format"]["json_schema"]["schema"]
        bounds[dense({"question": text})] = schema["$defs"]["CriterionVerdict"]["properties"]["rationale"]["maxLength"]
    assert bounds[True] <= bounds[False] / 2
