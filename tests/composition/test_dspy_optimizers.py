"""DecoEvo beside DSPy's own optimisers: before and after them, inside BetterTogether, and as their metric."""

from collections.abc import Iterator
from typing import Any

import dspy
import pytest

from decoevo_dspy import DecoEvo, RoleLMs, RubricGenerator, RubricJudge, RubricMetric, SkillOpt, simulated_lm
from decoevo_dspy.benchmarks.simulated import load_simulated, simulated_task
from decoevo_dspy.roles.base import signature_of
from decoevo_dspy.values.skill import GENERATOR_SKILL

pytestmark = pytest.mark.composition

SMALL: dict[str, Any] = {
    "steps": 2,
    "batch_size": 4,
    "audit_every": 1,
    "rollouts": 2,
    "judge_mode": "rubric",
    "num_threads": 2,
}


@pytest.fixture
def lm() -> Iterator[dspy.LM]:
    """The simulated backbone as the DSPy context's LM."""
    model = simulated_lm(seed=5, temperature=0.7)
    with dspy.context(lm=model, adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)):
        yield model


@pytest.fixture(scope="module")
def examples() -> list[dspy.Example]:
    """Forty questions with an answer, so that optimisers that want demonstrations have some."""
    questions = load_simulated().questions[:40]
    return [dspy.Example(question=q.text, response="Do it safely.").with_inputs("question") for q in questions]


@pytest.fixture
def metric(lm: dspy.LM) -> RubricMetric:
    """The rubric metric under the default generator skill."""
    return RubricMetric(RubricGenerator(GENERATOR_SKILL), RubricJudge("rubric"))


def optimizer(lm: dspy.LM, **changes: Any) -> DecoEvo:
    """A small DecoEvo run."""
    return DecoEvo(simulated_task(), role_lms=RoleLMs(default=lm), **{**SMALL, **changes})


def skill_of(program: dspy.Module) -> str:
    """The instructions of the program's first predictor."""
    return signature_of(program.named_predictors()[0][1]).instructions


def test_after_bootstrap_keeps_the_demonstrations(
    lm: dspy.LM, examples: list[dspy.Example], metric: RubricMetric
) -> None:
    """BootstrapFewShot's demonstrations stay in the program that DecoEvo returns."""
    bootstrap = dspy.BootstrapFewShot(
        metric=lambda e, p, t=None: metric(e, p) > 0.2, max_bootstrapped_demos=2, max_labeled_demos=0
    )
    first = bootstrap.compile(dspy.Predict("question -> response"), trainset=examples[:8])
    demos = first.named_predictors()[0][1].demos
    second = optimizer(lm).compile(first, trainset=examples)
    assert demos
    assert second.named_predictors()[0][1].demos == demos
    assert "Skill for this task" in skill_of(second)
    assert "Skill for this task" not in skill_of(first)


def test_before_bootstrap_keeps_the_skill(lm: dspy.LM, examples: list[dspy.Example], metric: RubricMetric) -> None:
    """A program optimised by DecoEvo goes through BootstrapFewShot with its skill intact."""
    first = optimizer(lm).compile(dspy.Predict("question -> response"), trainset=examples)
    bootstrap = dspy.BootstrapFewShot(
        metric=lambda e, p, t=None: metric(e, p) > 0.2, max_bootstrapped_demos=2, max_labeled_demos=0
    )
    second = bootstrap.compile(first, trainset=examples[:8])
    assert skill_of(second) == skill_of(first)


def test_inside_better_together(lm: dspy.LM, examples: list[dspy.Example], metric: RubricMetric) -> None:
    """DecoEvo is a step of BetterTogether, with its own compile arguments, and no step fails."""
    student = dspy.Predict("question -> response")
    student.set_lm(lm)
    together = dspy.BetterTogether(
        metric=metric,
        d=optimizer(lm, steps=1),
        b=dspy.BootstrapFewShot(metric=lambda e, p, t=None: metric(e, p) > 0.2, max_bootstrapped_demos=1),
    )
    program = together.compile(student, trainset=examples[:30], valset=examples[30:], strategy="d -> b")
    assert not getattr(program, "flag_compilation_error_occurred", False)
    candidates: Any = program.candidate_programs
    assert len(candidates) >= 3
    assert any("Skill for this task" in skill_of(one["program"]) for one in candidates)


def test_twice_in_a_row_carries_one_skill(lm: dspy.LM, examples: list[dspy.Example]) -> None:
    """A second optimisation goes on from the first one's skill instead of stacking another."""
    first = SkillOpt(simulated_task(), role_lms=RoleLMs(default=lm), **SMALL).compile(
        dspy.Predict("question -> response"), trainset=examples
    )
    second = optimizer(lm).compile(first, trainset=examples)
    assert skill_of(second).count("Skill for this task") == 1
    history = second.detailed_results.history  # type: ignore[attr-defined]
    assert history[0]["solver_skill"] == first.detailed_results.solver_skill.text  # type: ignore[attr-defined]


def test_metric_for_evaluate_and_mipro(lm: dspy.LM, examples: list[dspy.Example], metric: RubricMetric) -> None:
    """The rubric metric scores in Evaluate, and MIPROv2 optimises on it."""
    program = dspy.Predict("question -> response")
    result = dspy.Evaluate(devset=examples[:6], metric=metric, num_threads=2, display_progress=False)(program)
    assert 0 < result.score <= 100
    assert all(isinstance(score, float) for _, _, score in result.results)
    mipro = dspy.MIPROv2(
        metric=metric,
        auto=None,
        num_candidates=2,
        prompt_model=lm,
        task_model=lm,
        max_bootstrapped_demos=0,
        max_labeled_demos=0,
        num_threads=1,
    )
    better = mipro.compile(program, trainset=examples[:10], valset=examples[10:16], num_trials=2, minibatch=False)
    assert optimizer(lm, steps=1).compile(better, trainset=examples).named_predictors()


def test_metric_with_feedback_for_gepa(lm: dspy.LM, examples: list[dspy.Example], metric: RubricMetric) -> None:
    """GEPA gets score and per-criterion feedback, and its program goes on into DecoEvo."""
    seen: list[Any] = []

    def spy(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
        value = metric(gold, pred, trace, pred_name, pred_trace)
        seen.append(value)
        return value

    gepa = dspy.GEPA(metric=spy, max_metric_calls=16, reflection_lm=lm, num_threads=1, reflection_minibatch_size=2)
    program = gepa.compile(dspy.Predict("question -> response"), trainset=examples[:6], valset=examples[6:10])
    feedback = [value for value in seen if not isinstance(value, float)]
    assert feedback
    assert all("Score by criterion" in value.feedback for value in feedback)
    assert "Skill for this task" in skill_of(optimizer(lm, steps=1).compile(program, trainset=examples))


def test_two_predictors_share_or_aim_the_skill(lm: dspy.LM, examples: list[dspy.Example]) -> None:
    """A chain of thought followed by a polisher: the skill goes to the named predictor only."""

    class Chain(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.draft = dspy.ChainOfThought("question -> response")
            self.polish = dspy.Predict("question, draft -> response")

        def forward(self, question: str) -> dspy.Prediction:
            return self.polish(question=question, draft=self.draft(question=question).response)

    program = optimizer(lm, skill_target="polish").compile(Chain(), trainset=examples)
    instructions = {name: signature_of(p).instructions for name, p in program.named_predictors()}
    assert "Skill for this task" in instructions["polish"]
    assert not any("Skill for this task" in text for name, text in instructions.items() if name != "polish")
