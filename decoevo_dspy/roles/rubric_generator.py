"""The rubric generator as a module: question → `Rubric`, under a generator skill."""

import dspy

from decoevo_dspy.roles.base import InvalidReply, NoReply, Role, check_material
from decoevo_dspy.roles.text import GENERATOR_HEADING, with_skill
from decoevo_dspy.signatures import WriteRubric
from decoevo_dspy.values.rubric import Criterion, Rubric
from decoevo_dspy.values.skill import GENERATOR_SKILL, Skill


class RubricGenerator(Role):
    """Writes R_q(g): the rubric of a question under the generator skill ``skill`` (g).

    Called with ``question=…`` it returns a prediction whose ``rubric`` is a `Rubric`. Saving it with DSPy keeps the
    skill, as part of the predictor's instructions.

    Raises:
        ValueError: from the call, when no usable rubric could be had (`generate` returns a `NoReply` instead).
    """

    name = "rubric_generator"
    signature = WriteRubric

    def __init__(self, skill: str | Skill = GENERATOR_SKILL, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.skill = skill if isinstance(skill, Skill) else Skill(skill)
        self.predict.signature = WriteRubric.with_instructions(
            with_skill(WriteRubric.instructions, GENERATOR_HEADING, self.skill.text)
        )

    def generate(
        self, question: str, *, partition: str = "", sample: str = "rubric", temperature: float | None = None
    ) -> Rubric | NoReply:
        """The rubric of a question; ``sample`` names the draw, so that another name is a fresh rubric."""
        return self.ask(
            _rubric,
            {"question": self.fence("question", question)},
            partition=partition,
            sample=sample,
            temperature=temperature,
        )

    def forward(self, question: str) -> dspy.Prediction:
        rubric = self.generate(question)
        if isinstance(rubric, NoReply):
            raise ValueError(f"no rubric: {rubric}")
        return dspy.Prediction(rubric=rubric)


def _rubric(prediction: dspy.Prediction) -> Rubric:
    check_material(draft.requirement for draft in prediction.rubric.criteria)
    criteria: dict[str, Criterion] = {}
    for draft in prediction.rubric.criteria:
        text = " ".join(draft.requirement.split())
        if text and text not in criteria:
            criteria[text] = Criterion(text=text, points=float(draft.points))
    if not criteria:
        raise InvalidReply("the rubric has no criterion with a text")
    return Rubric(criteria=tuple(criteria.values()))
