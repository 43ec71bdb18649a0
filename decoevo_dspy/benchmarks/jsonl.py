"""Plain JSON Lines data, with or without gold criteria. It has no official grader.

Rows: ``{"id"?, "question": str}`` or ``{"id"?, "prompt": [turns]}``, with ``"stratum"?`` and, as gold,
``"rubric": [{"criterion": str, "points": number}]?``. With gold, answers are scored like HealthBench's
(points-weighted, clipped mean), with our own prompt.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decoevo_dspy.benchmarks.base import Benchmark, Dataset, OfficialScore, SealedGold
from decoevo_dspy.benchmarks.grading import Sheet
from decoevo_dspy.benchmarks.healthbench import (
    Criterion,
    Gold,
    HealthBenchGrader,
    gold_criteria,
    read_criteria,
    read_turns,
)
from decoevo_dspy.benchmarks.reading import check_unique, jsonl_rows
from decoevo_dspy.values.task import Question

NO_GRADER = "plain JSONL rows without a rubric have no official grader; add a 'rubric' to score them"


def load(path: Path) -> Dataset:
    """Load plain rows; a row without ``id`` gets one derived from its text.

    Raises:
        DataError: naming row and field.
    """
    rows = list(jsonl_rows(path))
    questions: list[Question] = []
    gold: dict[str, Gold] = {}
    for row in rows:
        if ("question" in row.values) == ("prompt" in row.values):
            row.fail("give either field 'question' (text) or field 'prompt' (list of turns)")
        stratum = row.get("stratum", str) if "stratum" in row.values else ""
        key = str(row.get("id", (str, int))) if "id" in row.values else ""
        if "id" in row.values and not key:
            row.fail("field 'id' is blank; give it a value or leave it out")
        if "question" in row.values:
            question = Question.of(row.get("question", str), id=key, stratum=stratum)
        else:
            turns = read_turns(row)
            derived = Question.of("\n\n".join(f"{turn.role}: {turn.content}" for turn in turns)).id
            question = Question(id=key or derived, turns=turns, stratum=stratum)
        questions.append(question)
        criteria = read_criteria(row, "rubric") if row.values.get("rubric") is not None else ()
        gold.setdefault(question.id, Gold(criteria=criteria))
    check_unique((q.id, row.place) for q, row in zip(questions, rows, strict=True))
    texts = {key: [c.criterion for c in value.criteria] for key, value in gold.items()}
    return Dataset(name="jsonl", questions=tuple(questions), gold=SealedGold(gold, texts))


@dataclass(kw_only=True)
class JsonlGrader(HealthBenchGrader):
    """Points-weighted judging of the rows' own criteria; without any, a score of ``None`` that says why.

    ``official_prompt`` is always false. The conversation is shown as the row has it.
    """

    conversation: Any = "dataset"

    id = "jsonl-criteria"

    def judge(self, sheet: Sheet) -> OfficialScore:
        """Grade the answered questions that have criteria; see `HealthBenchGrader.judge`."""
        items: dict[str, Gold] = sheet.gold
        if any(item.criteria for item in items.values()):
            return super().judge(sheet)
        return self.result(
            sheet,
            asked=(),
            values={"official": {q.id: None for q in sheet.questions}, "robust": {q.id: None for q in sheet.questions}},
            scores={"official": None, "robust": None},
            figures={"note": NO_GRADER},
        )


BENCHMARK = Benchmark(
    name="jsonl",
    load=load,
    grader=JsonlGrader,
    gold_criteria=gold_criteria,
)

__all__ = ["NO_GRADER", "Criterion", "JsonlGrader", "load"]
