"""Opened gold as plain criteria (text, points), for rubric alignment: one reader per benchmark."""

import re
from collections.abc import Sequence
from typing import Any

from decoevo_dspy.errors import ConfigurationError
from decoevo_dspy.values.task import Question

GoldCriteria = Sequence[tuple[str, float]]

_HEADING = re.compile(r"^\s*(?:[一二三四][、.]\s*)?(?:核心需求|次要需求)\s*(?:[:：]|$)\s*")
_NUMBER = re.compile(r"^\s*(?:[-*•]|[(（]?\d+[)）.、]+)\s*")


def gold_criteria(benchmark: str, question: Question, gold: Any) -> GoldCriteria:
    """The gold criteria of one question with their points (negative = to be avoided); empty where it has none.

    Raises:
        ConfigurationError: for a benchmark without per-question criteria.
    """
    if benchmark == "simulated":
        from decoevo_dspy.benchmarks.simulated import gold_criteria as simulated

        return simulated(question, gold)
    if benchmark in ("healthbench", "jsonl"):
        return [(c.criterion, float(c.points)) for c in gold.criteria] if gold is not None else []
    if benchmark == "writingbench":
        return [(f"{c['name']}: {c['criteria_description']}", 1.0) for c in gold.checklist]
    if benchmark == "researchqa":
        return [(item, 1.0) for item in gold.items]
    if benchmark == "llmeval-med":
        text = gold.checklist or gold.sanswer or ""
        return _checklist(text) if gold.checklist or any(map(_HEADING.match, text.split("\n"))) else []
    raise ConfigurationError(f"{benchmark}: there are no criteria per question to align with")


def _checklist(text: str) -> GoldCriteria:
    """The needs of an LLMEval-Med checklist: core needs count 2, secondary needs 1 point; a line or item each.

    Safety questions have theirs inside the reference, under the same headings.
    """
    criteria: list[tuple[str, float]] = []
    points = 1.0
    for line in text.split("\n"):
        heading = _HEADING.match(line)
        if heading:
            points = 2.0 if "核心" in heading.group() else 1.0
            line = line[heading.end() :]
        body = _NUMBER.sub("", line).strip()
        if body.rstrip("。.") not in ("", "无"):
            criteria.append((body, points))
    return criteria
