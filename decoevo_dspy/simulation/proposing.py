"""Prompts that belong to no role of this project: other optimisers' proposers, raw graders, free chat.

The answer is sane rather than clever: it edits the text it is shown, and every field gets an admissible value.
"""

import json
import re
from collections.abc import Mapping
from random import Random
from typing import Any

from decoevo_dspy.simulation import phrasing
from decoevo_dspy.simulation.evidence import findings
from decoevo_dspy.simulation.judging import judge
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.prompts import Prompt
from decoevo_dspy.simulation.rewriting import improve
from decoevo_dspy.simulation.solving import solve
from decoevo_dspy.simulation.world import is_chinese
from decoevo_dspy.simulation.writing import Schema, field_schema, invent

_BLOCK = re.compile(r"```[a-z]*\n(.*?)\n?```", re.DOTALL)
_SHOWN = ("basic_instruction", "current_instruction", "instruction", "prompt", "skill", "proposal")
_ATTEMPT = re.compile(r"«Instruction #\d+: (.*?)»", re.DOTALL)
_MODULE = re.compile(r"[A-Za-z_][\w.\[\]]*")
_RUBRIC_ITEM = re.compile(r"# Rubric item\s*\n(.*?)(?:\n# |\Z)", re.DOTALL)


def fields(prompt: Prompt, schema: Schema | None, p: WorldParameters, rng: Random) -> dict[str, Any]:
    """A value for every output field of an unknown signature."""
    evidence = "\n".join(prompt.values.values()) or prompt.user
    shown = _shown(prompt)

    def text(name: str) -> str:
        if any(part in name for part in ("instruction", "advice", "prompt", "skill")) and "prefix" not in name:
            return improve(shown, evidence, p, rng)
        if "prefix" in name:
            return "Answer:"
        return _remark(evidence, rng)

    found: dict[str, Any] = {}
    for field in prompt.outputs:
        if field.type.startswith(("dict", "Dict", "Mapping")) and not field_schema(field, schema).get("properties"):
            found[field.name] = {name: text(field.name) for name in _module_names(prompt.values)}
        else:
            found[field.name] = invent(field_schema(field, schema), field.name, text)
    return found


def _shown(prompt: Prompt) -> str:
    """The text that the prompt asks to improve: a field with a telling name, or the first code block."""
    for part in _SHOWN:
        for name, value in prompt.values.items():
            if part in name:
                tried = _ATTEMPT.findall(value)
                return tried[-1] if tried else value
    block = _BLOCK.search(prompt.user)
    return block.group(1).strip() if block else ""


def _module_names(values: Mapping[str, str]) -> list[str]:
    stated = next((text for name, text in values.items() if name in ("module_names", "modules", "names")), "")
    return list(dict.fromkeys(_MODULE.findall(stated))) or ["self"]


def _remark(evidence: str, rng: Random) -> str:
    """A sentence about what the evidence speaks of most, or a plain one."""
    top = list(findings(evidence))[:2]
    chinese = is_chinese(evidence)
    if top:
        names = " and ".join(phrasing.name(key, rng, False) for key in top)
        return f"It matters here {names}."
    plain = "The material asks for practical advice in everyday situations."
    return "这些问题都是日常生活中的求助。" if chinese else plain


def chat(prompt: Prompt, schema: Schema | None, p: WorldParameters, rng: Random) -> Any:
    """An answer to plain chat: a raw grader's JSON, a reflection in a code block, an object by schema, or advice."""
    if '"criteria_met"' in prompt.user:
        return _grade(prompt.user, p, rng)
    if schema is not None:
        return invent(schema or {"type": "object"}, "reply", lambda name: _remark(prompt.user, rng))
    if (block := _BLOCK.search(prompt.user)) and "instruction" in prompt.user.lower():
        rest = prompt.user[: block.start()] + prompt.user[block.end() :]
        return f"```\n{improve(block.group(1).strip(), rest, p, rng)}\n```"
    return solve(prompt.user, prompt.structure.instructions, prompt.demos, p, rng)


def _grade(user: str, p: WorldParameters, rng: Random) -> str:
    """The verdict of a conversation's last answer on one rubric item, as graders of the HealthBench kind want it."""
    item = _RUBRIC_ITEM.search(user)
    criterion = re.sub(r"^\[-?[\d.]+\]\s*", "", item.group(1).strip()) if item else user[-400:]
    conversation = user[: item.start()] if item else user
    answer = conversation.rsplit("assistant:", 1)[-1]
    verdict = judge(answer, criterion, p, rng)
    found = {"explanation": verdict.rationale, "criteria_met": verdict.score >= 5}
    return f"```json\n{json.dumps(found, ensure_ascii=False)}\n```"
