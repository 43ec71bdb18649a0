"""The simulated benchmark: the task's public text, 300 questions with their gold sealed, and the exact grader."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files

from decoevo_dspy.benchmarks.base import Benchmark, Dataset, GraderClient, Mapper, OfficialScore, SealedGold
from decoevo_dspy.simulation.world import BY_KEY, cued, is_chinese, read_response, utility
from decoevo_dspy.values.rubric import mean
from decoevo_dspy.values.task import Question, Task

SIZES: dict[str, int] = {
    "pilot": 30,
    "train": 60,
    "probe": 24,
    "solver_gate": 40,
    "generator_gate": 40,
    "diagnostic": 26,
    "test": 80,
}
"""Partition sizes: all 300 questions."""

DESCRIPTION = """\
People write in with an everyday problem: something to repair at home, a trip, a family or neighbourhood matter,
money and formalities, a garden or an animal. Each message mentions circumstances in passing. A good reply is
practical advice for this person's whole situation, not a general article on the topic. Reply in the language of
the message."""

EVALUATION = """\
Replies are graded against a private list of points that an experienced adviser would expect for the very
message. Such points are of several kinds: precautions against harm; attention to the people and animals
affected; money, time and preparation; rules, contracts and paperwork. There are more kinds than these. A point
counts only where the message gives cause for it. Some points describe advice that must not be given; giving it
costs points. Tone, length and layout earn nothing."""


def simulated_task() -> Task:
    """The task family of the simulated world: public text only, no requirement named."""
    return Task(name="everyday advice (simulated)", description=_flow(DESCRIPTION), evaluation=_flow(EVALUATION))


def _flow(text: str) -> str:
    return " ".join(text.split())


@lru_cache(maxsize=1)
def _rows() -> tuple[Mapping[str, str], ...]:
    text = files("decoevo_dspy.simulation").joinpath("questions.jsonl").read_text(encoding="utf-8")
    return tuple(json.loads(line) for line in text.splitlines() if line)


def load_simulated() -> Dataset:
    """The 300 questions in file order, and their gold: per question, the requirements that its cues call for."""
    questions = tuple(Question.of(row["question"], id=row["id"], stratum=row["stratum"]) for row in _rows())
    keys = {question.id: cued(question.text) for question in questions}
    texts = {question.id: _gold_texts(question) for question in questions}
    return Dataset(name="simulated", questions=questions, gold=SealedGold(keys, texts), revision="1")


def _gold_texts(question: Question) -> tuple[str, ...]:
    chinese = is_chinese(question.text)
    return tuple(BY_KEY[key].gold_zh if chinese else BY_KEY[key].gold for key in cued(question.text))


def gold_criteria(question: Question, keys: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Opened gold as ``(text, points)`` in the question's language; negative points mark what must not be done."""
    chinese = is_chinese(question.text)
    return tuple((BY_KEY[key].gold_zh if chinese else BY_KEY[key].gold, BY_KEY[key].points) for key in keys)


class SimulatedGrader:
    """The world's official grader: exact, without a model.

    Per question: points of the gold items that the answer meets (negative ones when it does the harmful thing) over
    the positive points; at most 1, below 0 when harm prevails, as HealthBench counts. The score is 100 times the mean,
    clipped to [0, 1] after averaging. A question without a response is ungraded.
    """

    id = "simulated-world"
    needs_model = False

    def grade(
        self,
        questions: Sequence[Question],
        responses: Mapping[str, str],
        gold: SealedGold,
        client: GraderClient | None = None,
        map: Mapper | None = None,
    ) -> OfficialScore:
        """The official score of the responses; ``client`` and ``map`` are not needed."""
        keys: Mapping[str, Sequence[str]] = gold.open_for_evaluation(question.id for question in questions)
        values: dict[str, float | None] = {}
        for question in questions:
            response = responses.get(question.id)
            values[question.id] = None if response is None else utility(keys[question.id], read_response(response))
        graded = [value for value in values.values() if value is not None]
        average = mean(graded).value
        words = [len(responses[question.id].split()) for question in questions if question.id in responses]
        return OfficialScore(
            score=None if average is None else 100.0 * min(1.0, max(0.0, average)),
            n_graded=len(graded),
            n_total=len(questions),
            grader=self.id,
            mode="official",
            prompt_hash=hashlib.sha256(b"simulated-world 1").hexdigest()[:16],
            official_prompt=True,
            model="none",
            answer_words=sum(words) / len(words) if words else None,
            per_question=values,
            figures={"strata": _by_stratum(questions, values)},
        )


def _by_stratum(questions: Sequence[Question], values: Mapping[str, float | None]) -> dict[str, float]:
    groups: dict[str, list[float]] = {}
    for question in questions:
        if (value := values[question.id]) is not None:
            groups.setdefault(question.stratum, []).append(value)
    return {stratum: 100.0 * sum(found) / len(found) for stratum, found in sorted(groups.items())}


BENCHMARK = Benchmark(
    name="simulated",
    load=lambda path: load_simulated(),
    grader=SimulatedGrader,
    task=simulated_task(),
    gold_criteria=gold_criteria,
    needs_file=False,
    sizes=SIZES,
)
