"""A generated rubric as a metric for any DSPy optimiser."""

import threading
from collections.abc import Mapping
from typing import Any

import dspy

from decoevo_dspy.errors import ExecutionError
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.roles.rubric_generator import RubricGenerator
from decoevo_dspy.roles.rubric_judge import RubricJudge
from decoevo_dspy.values.rubric import Rubric, Ungraded, Verdict


class MetricUngraded(ExecutionError):
    """The metric could not grade a prediction; an optimiser's own failure handling applies, never a score of 0."""


class RubricMetric:
    """Scores a prediction by the rubric that ``generator`` writes for its question and ``judge`` applies.

    Called as ``metric(example, prediction, trace=None)`` it returns a float in [0, 1] (``Evaluate``, ``MIPROv2``,
    ``SIMBA``, bootstrapping); called as GEPA does, with a predictor's name, it returns ``dspy.Prediction(score,
    feedback)`` with the per-criterion reasons. ``question_field`` and ``response_field`` default to the example's first
    input and the prediction's ``response`` (or last) field. One rubric per question is kept and used throughout.

    Raises:
        MetricUngraded: from the call, when rubric or verdicts could not be had.
    """

    def __init__(
        self,
        generator: RubricGenerator,
        judge: RubricJudge | None = None,
        *,
        question_field: str | None = None,
        response_field: str | None = None,
    ) -> None:
        self.generator, self.judge = generator, judge or RubricJudge()
        self.question_field, self.response_field = question_field, response_field
        self._rubrics: dict[str, Rubric] = {}
        self._lock = threading.Lock()

    def __call__(
        self,
        example: dspy.Example,
        prediction: Any,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> Any:
        question, response = self._question(example), self._response(prediction)
        rubric = self._rubric(question)
        verdicts = self.judge.judge(question, response, rubric)
        score = rubric.score(verdicts)
        if isinstance(score, Ungraded):
            raise MetricUngraded(f"not graded: {score.reason}")
        if pred_name is None:
            return score
        lines = [
            f"- {c.text}: {v.score:.1f} of 1 ({c.points:g} points). {v.rationale}"
            for c, v in zip(rubric.criteria, verdicts, strict=True)
            if isinstance(v, Verdict)
        ]
        return dspy.Prediction(score=score, feedback="Score by criterion:\n" + "\n".join(lines))

    def __deepcopy__(self, memo: Mapping[int, Any]) -> "RubricMetric":
        return self

    def _question(self, example: dspy.Example) -> str:
        if self.question_field is not None:
            return str(example[self.question_field])
        return str(next(iter(example.inputs().toDict().values())))

    def _response(self, prediction: Any) -> str:
        if self.response_field is not None:
            return str(prediction[self.response_field])
        fields = list(prediction.keys())
        return str(prediction["response" if "response" in fields else fields[-1]])

    def _rubric(self, question: str) -> Rubric:
        known = self._rubrics.get(question)
        if known is None:
            written = self.generator.generate(question)
            if isinstance(written, NoReply):
                raise MetricUngraded(f"no rubric for the question: {written}")
            with self._lock:
                known = self._rubrics.setdefault(question, written)
        return known
