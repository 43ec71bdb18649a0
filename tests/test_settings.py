"""`decoevo_dspy.values.settings`: every impossible value is refused with the range that is allowed."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy import DecoEvo, Task
from decoevo_dspy.errors import ConfigurationError
from decoevo_dspy.values.settings import NAMES, Settings

TASK = Task(name="t", description="Answer.", evaluation="Be right.")
NAN, INF = float("nan"), float("inf")

BAD: dict[str, list[Any]] = {
    "steps": [-1, 1.0, True, "3", None, NAN],
    "batch_size": [0, -2, 2.5, True],
    "audit_every": [0, 1.5, False],
    "patience": [0, "2"],
    "epsilon": [-0.01, 1.01, NAN, True, "0"],
    "delta": [0, 0.0, -0.1, 1.1, NAN, INF],
    "eta": [-1e-9, 1.5, NAN, None],
    "tau_tie": [-0.1, 1.1, NAN],
    "gamma": [0, 1.0001, NAN],
    "rollouts": [1, 0, 2.0],
    "pairs_per_question": [0, 0.5],
    "edit_budget": [0, 7, 1.0],
    "failure_below": [0, 1.1, NAN],
    "judge_mode": ["Criterion", "", None, 1],
    "both_orders": [1, "yes", None],
    "verify_rubrics": ["Fresh", None],
    "contrastive_objective": ["paper", None],
    "verify_z": [-0.1, NAN, INF, True],
    "eta_z": [-0.1, INF, True],
    "gate_z": [-1, NAN],
    "max_ungraded": [1, 1.0, -0.1, NAN],
    "max_skill_chars": [199, 1e4, True],
    "solver_temperature": [-0.1, 2.1, NAN],
    "verify_temperature": [0, 2.1, NAN],
}
EDGES: dict[str, list[Any]] = {
    "steps": [0, 10_000],
    "batch_size": [1],
    "audit_every": [1],
    "patience": [1],
    "epsilon": [0, 1],
    "delta": [1e-6, 1],
    "eta": [0, 1],
    "tau_tie": [0, 1],
    "gamma": [1e-6, 1],
    "rollouts": [2],
    "pairs_per_question": [1],
    "edit_budget": [1, 6],
    "failure_below": [1e-6, 1],
    "judge_mode": ["criterion", "rubric", "logprob"],
    "both_orders": [True, False],
    "verify_rubrics": ["fresh", "cached"],
    "contrastive_objective": ["net", "resolution"],
    "verify_z": [0, 10],
    "eta_z": [0, 10],
    "gate_z": [0, 10],
    "max_ungraded": [0, 0.99],
    "max_skill_chars": [200],
    "solver_temperature": [0, 2],
    "verify_temperature": [1e-3, 2],
}


def test_every_setting_is_covered_here():
    """No setting escapes the two tables of this file."""
    assert set(BAD) == set(EDGES) == set(NAMES) == {field.name for field in fields(Settings)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_an_impossible_value_is_refused_with_name_value_and_range(name: str, value: Any):
    """The message names the setting, repeats the value and says what to give."""
    with pytest.raises(ConfigurationError) as caught:
        Settings(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name} = {value!r}: give ")
    assert "\n" not in message


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in EDGES.items() for value in values])
def test_the_ends_of_the_ranges_are_allowed(name: str, value: Any):
    """Both ends of every range are accepted and kept as given."""
    assert getattr(Settings(**{name: value}), name) == value


def test_defaults_are_those_of_the_method():
    """Those of docs/METHOD.md §13."""
    s = Settings()
    assert (s.steps, s.batch_size, s.audit_every, s.patience) == (12, 16, 3, 2)
    assert (s.epsilon, s.delta, s.eta, s.tau_tie, s.gamma) == (0.0, 0.02, 0.01, 0.05, 0.05)
    assert (s.rollouts, s.pairs_per_question, s.edit_budget, s.failure_below) == (4, 2, 4, 0.7)
    assert (s.max_ungraded, s.max_skill_chars, s.solver_temperature) == (0.1, 8_000, 0.7)


@pytest.mark.parametrize("name", ["delta", "rollouts", "judge_mode"])
def test_teleprompters_refuse_the_same_values(name: str):
    """The constructor of a method checks like `Settings`."""
    with pytest.raises(ConfigurationError, match=f"^{name} = "):
        DecoEvo(TASK, **{name: BAD[name][0]})


@pytest.mark.parametrize("bad", [0, 257, -1, True, "4", 2.5])
def test_teleprompters_refuse_impossible_thread_counts_at_once(bad: Any):
    """An impossible ``num_threads`` is found in the constructor, not in the middle of a run."""
    with pytest.raises(ConfigurationError, match="num_threads"):
        DecoEvo(TASK, num_threads=bad)


def test_teleprompters_refuse_unknown_keywords():
    """A misspelt option is an error, never ignored."""
    with pytest.raises(TypeError, match="audit_evry"):
        DecoEvo(TASK, audit_evry=3)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("seed", [True, "0", 1.5, None])
def test_a_seed_is_a_whole_number(seed: Any):
    """Anything else would silently seed something else."""
    with pytest.raises(ConfigurationError, match="seed"):
        DecoEvo(TASK, seed=seed)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_unit_interval_setting_takes_exactly_the_unit_interval(value: float):
    """ε accepts a float iff it lies in [0, 1]."""
    if 0 <= value <= 1:
        assert Settings(epsilon=value).epsilon == value
    else:
        with pytest.raises(ConfigurationError):
            Settings(epsilon=value)
