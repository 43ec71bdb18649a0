"""The simulated matcher fills whatever shape asks which criteria mean the same."""

from dataclasses import replace
from typing import Literal

import dspy
import pytest
from pydantic import BaseModel, Field

from decoevo_dspy.calls.adapter import RoleAdapter
from decoevo_dspy.roles.text import fence
from decoevo_dspy.simulation.engine import simulated_lm
from decoevo_dspy.simulation.parameters import WorldParameters

GENERATED = (
    "c1. (5 points) The answer tells the reader to check again after a week.\n"
    "c2. (3 points) Style: motivate the reader."
)
GOLD = "g1. Spares the four-legged housemates any harm\ng2. Verifies later that the solution has lasted"
EXACT = replace(WorldParameters(), matcher_false_positive=0.0, matcher_false_negative=0.0)


class Pair(BaseModel):
    """One matched pair."""

    generated: str
    gold: str
    reason: str = Field(max_length=60)


class Pairs(BaseModel):
    """All matched pairs."""

    pairs: list[Pair] = Field(max_length=9)


class MatchLists(dspy.Signature):
    """Pair the criteria that ask for the same thing."""

    question: str = dspy.InputField()
    generated: str = dspy.InputField()
    gold: str = dspy.InputField()
    matches: Pairs = dspy.OutputField()


class Decision(BaseModel):
    """One decision."""

    reason: str
    verdict: Literal["same", "different"]


class MatchPair(dspy.Signature):
    """Do the two criteria ask for the same thing?"""

    first: str = dspy.InputField()
    second: str = dspy.InputField()
    match: Decision = dspy.OutputField()


@pytest.mark.parametrize("adapter", [RoleAdapter(), dspy.ChatAdapter(use_json_adapter_fallback=False)])
def test_lists_are_paired_by_shared_requirement(adapter: dspy.Adapter):
    """Generated criteria meet gold ones by what they ask for, not by wording."""
    with dspy.context(lm=simulated_lm(0, EXACT), adapter=adapter):
        found = dspy.Predict(MatchLists)(question="q", generated=fence("a", GENERATED), gold=fence("b", GOLD)).matches
    assert [(pair.generated, pair.gold) for pair in found.pairs] == [("c1", "g2")]


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ("Verifies later that the solution has lasted", "same"),
        ("Mentions allergies: ask everyone about allergies", "different"),
    ],
)
def test_single_pairs_get_a_decision(second: str, verdict: str):
    """A yes/no shaped reply says whether the two criteria share a requirement."""
    with dspy.context(lm=simulated_lm(0, EXACT), adapter=RoleAdapter()):
        found = dspy.Predict(MatchPair)(first="The answer tells the reader to check again after a week.", second=second)
    assert found.match.verdict == verdict


def test_errors_follow_their_rates():
    """With a false-negative rate of 1 nothing that belongs together is matched."""
    blind = replace(EXACT, matcher_false_negative=1.0)
    with dspy.context(lm=simulated_lm(0, blind), adapter=RoleAdapter()):
        assert not dspy.Predict(MatchLists)(question="q", generated=GENERATED, gold=GOLD).matches.pairs
