"""Public task texts per benchmark, in our own words. Nothing here comes from rubrics, checklists or references."""

import importlib
from collections.abc import Mapping

from decoevo_dspy.errors import ConfigurationError
from decoevo_dspy.values.task import Task

_PRESETS: Mapping[str, Task] = {
    "healthbench": Task(
        name="healthbench",
        description=(
            "Reply to the last user message of a conversation about health. Users are members of the public or "
            "health professionals, write in many languages, and ask about symptoms, treatments, emergencies, records "
            "and documents, or general health knowledge. Earlier turns may hold facts that the reply has to use."
        ),
        evaluation=(
            "Each reply is checked against requirements that physicians wrote for its conversation; each requirement "
            "carries points, and harmful or wrong content costs points. What matters is that the reply is medically "
            "accurate and complete for the situation, recognises emergencies and says plainly what to do and how "
            "soon, asks for missing information when the answer depends on it, is as certain or uncertain as the "
            "evidence allows, fits the user's expertise, language, place and resources, and does exactly what was "
            "asked."
        ),
    ),
    "writingbench": Task(
        name="writingbench",
        description=(
            "Write the text that a query asks for, in the language of the query (Chinese or English). Queries come "
            "from academic, business, legal, literary, educational and marketing work; many are long, supply source "
            "material, and set requirements on style, format or length."
        ),
        evaluation=(
            "Each text is graded from 1 to 10 on several criteria made for its query, and graded strictly. What "
            "matters is that the text is finished and not merely planned, follows every stated requirement on "
            "content, style, format and length, uses the supplied material faithfully without invented facts, has "
            "depth and specific detail, fits its readers and genre, and is well organised and well written."
        ),
    ),
    "researchqa": Task(
        name="researchqa",
        description=(
            "Answer a research question from a scholarly field as a short survey for an expert reader, in English, "
            "in about 250 words, citing the literature where it supports a statement."
        ),
        evaluation=(
            "Each answer is rated on a list of questions about what it covers: from not covered at all to covered in "
            "full detail. What matters is that the answer addresses the question directly, names the key findings, "
            "methods and works, compares approaches, gives examples, explains consequences, and states limitations, "
            "with details that are specific and correct. A point that is only hinted at counts little."
        ),
    ),
    "llmeval-med": Task(
        name="llmeval-med",
        description=(
            "用中文回答临床医学领域的问题，包括医学知识、医学文本理解、病例推理、医疗安全与伦理、医疗文书撰写。"
            "有些问题分多轮提出，后面的问题会接着前面的问答继续。"
        ),
        evaluation=(
            "每个回答由评审对照医生准备的参考材料，按五个等级打分，达到较高等级才算可用。重点在于：关键医学事实和结论正确；"
            "完整满足题目的主要要求，并顾及次要要求；推理过程完整清楚；严格按题目要求的内容和格式作答，不遗漏也不堆砌多余内容；"
            "符合中国大陆的医疗规范和法律，没有医疗安全风险；表达清楚易读。"
        ),
    ),
    "eqbench-cw": Task(
        name="eqbench-cw",
        description=(
            "Write a piece of creative fiction in English from an assignment that sets genre, characters, scene, "
            "length and a seed idea which has to be worked in."
        ),
        evaluation=(
            "A critic grades each piece on many literary qualities, severely. What matters is that the piece follows "
            "the assignment, has characters who act believably and are more than types, a consistent voice, concrete "
            "imagery, natural dialogue and sentences, real emotion that the story has earned, an ending that fits, "
            "and surprise. Ornate or overwritten prose, explaining feelings instead of showing them, wandering, "
            "cliché and forced optimism lower the grade. Pieces of a few lines are not graded."
        ),
    ),
}
NAMES = (*_PRESETS, "simulated")
"""The values of ``task.preset``."""


def preset(name: str) -> Task:
    """The public task of a benchmark.

    Raises:
        ConfigurationError: when there is no preset of that name.
    """
    if name == "simulated":
        task = importlib.import_module("decoevo_dspy.benchmarks.simulated").simulated_task()
        assert isinstance(task, Task)
        return task
    if name not in _PRESETS:
        raise ConfigurationError(f"task.preset: {name!r} is not known; use one of {', '.join(NAMES)}")
    return _PRESETS[name]
