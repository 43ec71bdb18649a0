"""What `calls.dspy_seam` relies on in DSPy's unstable side, one statement a test; run it against every new DSPy.

On DSPy 3.5 the tests marked ``legacy_messages`` are expected to fail: that release removes ``lm(messages=…)``.
"""

import json
import re
import warnings
from pathlib import Path

import dspy
import pytest
from dspy.adapters.json_adapter import (
    _get_structured_outputs_response_format,  # pyright: ignore[reportPrivateUsage]
)

from decoevo_dspy import signatures
from decoevo_dspy.calls.adapter import RoleAdapter, output_schema
from decoevo_dspy.calls.dspy_seam import FormattingAdapter, MessageLM, engine_state, has_endpoint, send
from decoevo_dspy.simulation.engine import simulated_lm
from tests.conftest import Answer, ScriptedEndpoint

ROOT = Path(__file__).resolve().parents[1]
UNSTABLE = re.compile(
    r"dspy\.(?:clients|adapters|utils|dsp|primitives|core)\b|adapter_message_call|_get_structured_outputs"
    r"|_prepare_response_format|\.history\b"
)


@pytest.fixture
def lm(endpoint: ScriptedEndpoint) -> dspy.LM:
    """A LiteLLM-routed LM that asks the scripted endpoint."""
    endpoint.answers('{"answer": "Yes"}')
    return endpoint.lm()


def test_only_the_seam_leans_on_unstable_parts():
    """No other file of the library names a private or unstable part of DSPy; the seam stays small."""
    places = [*(ROOT / "decoevo_dspy").rglob("*.py"), *(ROOT / "signatures").glob("*.py")]
    places += (ROOT / "teleprompters").glob("*.py")
    seam = ROOT / "decoevo_dspy" / "calls" / "dspy_seam.py"
    found = {str(path) for path in places if path != seam and UNSTABLE.search(path.read_text("utf-8"))}
    assert found == set()
    assert len(seam.read_text("utf-8").splitlines()) <= 150


def test_messages_of_an_adapter_are_sent_without_a_warning(lm: dspy.LM, endpoint: ScriptedEndpoint):
    """legacy_messages: dictionaries go out as they are, with the call's own options over the LM's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sent = send(lm, None, [{"role": "user", "content": "Hi"}], {"temperature": 0.3})
    assert sent.outputs == ['{"answer": "Yes"}']
    assert endpoint.sent[0].body["messages"] == [{"role": "user", "content": "Hi"}]
    assert endpoint.sent[0].body["temperature"] == 0.3


def test_history_of_a_copy_holds_usage_and_response(lm: dspy.LM):
    """One call leaves one entry on the copy, with usage and the provider's response; the user's LM keeps none."""
    sent = send(lm, "Hi", None, {})
    assert int(sent.usage["prompt_tokens"]) > 0
    assert sent.response.choices[0].finish_reason == "stop"
    assert lm.history == []


def test_failures_are_dspys_own_types(endpoint: ScriptedEndpoint):
    """An HTTP failure arrives as a ``dspy.LMError`` whose subclass and status tell what happened."""
    endpoint.answers(Answer(status=401, body={"error": {"message": "no"}}))
    lm = endpoint.lm()
    with pytest.raises(dspy.LMAuthError):
        send(lm, "Hi", None, {})


class Echo(MessageLM):
    """Answers with the last message."""

    def answer(self, prompt, messages, options):  # pyright: ignore[reportMissingParameterType] - as its base
        return [json.dumps({"answer": messages[-1]["content"][:5]}) if messages else prompt]


def test_an_adapter_asks_a_message_lm_with_messages(lm: dspy.LM):
    """legacy_messages: `dspy.Predict` with DSPy's own adapters reaches ``answer`` with role dictionaries."""
    predict = dspy.Predict("question -> answer")
    predict.set_lm(Echo(lm))
    with dspy.context(adapter=dspy.JSONAdapter()):
        assert predict(question="x").answer
    assert predict.deepcopy().lm is predict.lm


def test_a_formatting_adapter_chooses_the_response_format(lm: dspy.LM, endpoint: ScriptedEndpoint):
    """DSPy asks ``_prepare_response_format`` before each request, and sends what it put there."""

    class Plain(FormattingAdapter):
        def response_format(self, lm, options, signature):  # pyright: ignore[reportMissingParameterType]
            return {"type": "json_object"}

    predict = dspy.Predict("question -> answer")
    predict.set_lm(lm)
    with dspy.context(adapter=Plain()):
        predict(question="x")
    assert endpoint.sent[0].body["response_format"] == {"type": "json_object"}
    assert issubclass(RoleAdapter, FormattingAdapter)


@pytest.mark.parametrize("name", [n for n in signatures.__all__ if hasattr(getattr(signatures, n), "output_fields")])
def test_our_output_schema_is_dspys(name: str):
    """The schema built with pydantic's public API is the one that DSPy's JSON adapter would send."""
    signature = getattr(signatures, name)
    theirs = _get_structured_outputs_response_format(signature, False).model_json_schema()  # pyright: ignore[reportArgumentType]
    assert json.dumps(output_schema(signature)) == json.dumps(theirs)


def test_engines_are_told_apart(lm: dspy.LM):
    """A string names LiteLLM or DSPy's own engine; any other engine answers in this process and has a state."""
    assert has_endpoint(lm)
    assert engine_state(lm) == ""
    assert not has_endpoint(simulated_lm(0))
    assert engine_state(simulated_lm(0))
