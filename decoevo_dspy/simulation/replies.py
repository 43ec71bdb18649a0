"""From a request to the simulated model's answer: which role it is, what the role says.

It sees text only. The role follows from the names of the fields that the prompt declares.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from decoevo_dspy.simulation import proposing
from decoevo_dspy.simulation.auditing import audit_structure, prefer, reveal
from decoevo_dspy.simulation.judging import judge, judge_rubric
from decoevo_dspy.simulation.matching import is_matcher, match_fields
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.prompts import Prompt
from decoevo_dspy.simulation.rewriting import rewrite
from decoevo_dspy.simulation.solving import solve, write_rubric
from decoevo_dspy.simulation.writing import Schema, write

SKILL_HEADING = re.compile(r"^(?:Rubric-writing skill|Skill) for this task\b.*:[ \t]*$", re.MULTILINE)
"""The line above a skill in an instruction, as decoevo_dspy.roles.text writes it (a test compares them)."""
QUESTIONS = ("question", "query", "input", "problem", "conversation", "request", "message", "prompt", "text", "task")
ANSWERS = ("response", "answer", "output", "reply", "completion", "text", "advice", "final_answer")


@dataclass(frozen=True, kw_only=True)
class Said:
    """An answer's text; ``choice`` is the word that decided it, with the model's own probabilities of its ``odds``."""

    text: str
    choice: str = ""
    odds: Mapping[str, float] = field(default_factory=dict)


Values = Mapping[str, str]
Handler = Callable[[Prompt, WorldParameters, Random], dict[str, Any]]


def say(prompt: Prompt, schema: Schema | None, p: WorldParameters, rng: Random) -> Said:
    """The answer to a request, in the format it asks for."""
    outputs = prompt.output_names
    if not outputs:
        reply = proposing.chat(prompt, schema, p, rng)
        return Said(text=reply if isinstance(reply, str) else write(prompt.structure, reply, {}))
    if outputs == {"preference"} or (outputs == {"answer"} and "criterion" in prompt.values):
        return _weighed(prompt, schema, p, rng)
    if is_matcher(prompt):
        values = match_fields(prompt, schema, p, rng)
    elif handler := _role(prompt):
        values = handler(prompt, p, rng)
    else:
        values = proposing.fields(prompt, schema, p, rng)
    return Said(text=write(prompt.structure, values, schema))


def _weighed(prompt: Prompt, schema: Schema | None, p: WorldParameters, rng: Random) -> Said:
    """The two answers whose deciding word may be read from token probabilities."""
    v = prompt.values
    if "criterion" in v:
        verdict = judge(v.get("response", ""), v["criterion"], p, rng)
        choice, odds = ("yes" if verdict.yes >= 0.5 else "no"), {"yes": verdict.yes, "no": 1.0 - verdict.yes}
        values: dict[str, Any] = {"answer": {"met": choice} if "str" not in _type(prompt) else choice}
    else:
        scores = next((text for name, text in v.items() if "score" in name), "")
        found = prefer(v.get("question", ""), v.get("response_a", ""), v.get("response_b", ""), scores, p, rng)
        choice, odds = found.label, found.odds
        values = {"preference": {"rationale": found.rationale[:400], "preferred": choice}}
    return Said(text=write(prompt.structure, values, schema), choice=choice, odds=odds)


def _type(prompt: Prompt) -> str:
    return prompt.outputs[0].type


def _role(prompt: Prompt) -> Handler | None:
    """The role that a prompt's fields belong to; ``None`` for a signature of somebody else's."""
    outputs, v = prompt.output_names, prompt.values
    for name, needed, handler in _ROLES:
        if outputs == {name} and needed <= v.keys():
            return handler
    asks = any(name in v for name in QUESTIONS)
    answers = any(f.name in ANSWERS and f.type == "str" for f in prompt.outputs)
    return _solver if asks and answers and all(f.type == "str" for f in prompt.outputs) else None


def _solver(prompt: Prompt, p: WorldParameters, rng: Random) -> dict[str, Any]:
    v = prompt.values
    question = next((v[name] for name in QUESTIONS if name in v), "") or prompt.user
    reply = solve(question, _skill(prompt), prompt.demos, p, rng)
    main = next(f.name for f in prompt.outputs if f.name in ANSWERS)
    aside = "Think about what the person needs, then say it."
    return {f.name: reply if f.name == main else aside for f in prompt.outputs}


def _skill(prompt: Prompt) -> str:
    """The skill in a prompt's instructions: what follows the heading, or all of them; a ``skill`` field counts too."""
    instructions = prompt.structure.instructions
    heading = SKILL_HEADING.search(instructions)
    found = instructions[heading.end() :] if heading else instructions
    return "\n".join(filter(None, [found, prompt.values.get("skill", "")]))


def _rubric(prompt: Prompt, p: WorldParameters, rng: Random) -> dict[str, Any]:
    criteria = write_rubric(prompt.values["question"], _skill(prompt), p, rng)
    return {"rubric": {"criteria": criteria}}


def _verdict(prompt: Prompt, p: WorldParameters, rng: Random) -> dict[str, Any]:
    found = judge(prompt.values["response"], prompt.values["criterion"], p, rng)
    return {"verdict": {"rationale": found.rationale, "score": found.score}}


def _judgement(prompt: Prompt, p: WorldParameters, rng: Random) -> dict[str, Any]:
    return {"judgement": {"verdicts": judge_rubric(prompt.values["response"], prompt.values["criteria"], p, rng)}}


def _report(prompt: Prompt, p: WorldParameters, rng: Random) -> dict[str, Any]:
    v = prompt.values
    return {"report": audit_structure(v["specification"], v["question"], v["rubric"], p, rng)}


def _miss(prompt: Prompt, p: WorldParameters, rng: Random) -> dict[str, Any]:
    v = prompt.values
    difference, rubric = v.get("difference", ""), v.get("rubric_scores", "")
    return {"miss": reveal(v["question"], v["better_response"], v["other_response"], difference, rubric, p, rng)}


def _rewrite(prompt: Prompt, p: WorldParameters, rng: Random) -> dict[str, Any]:
    v = prompt.values
    digits = "".join(ch for ch in v.get("edit_budget", "4") if ch.isdigit())[:3]
    genre = "generator" if "findings" in v else "solver"
    evidence = v.get("findings") or v.get("failures") or ""
    return {"rewrite": rewrite(genre, v["skill"], evidence, v.get("rejected_edits", ""), int(digits or 4), p, rng)}


_ROLES: tuple[tuple[str, set[str], Handler], ...] = (
    ("rubric", {"question"}, _rubric),
    ("verdict", {"response", "criterion"}, _verdict),
    ("judgement", {"response", "criteria"}, _judgement),
    ("report", {"specification", "question", "rubric"}, _report),
    ("miss", {"question", "better_response", "other_response"}, _miss),
    ("rewrite", {"skill", "failures"}, _rewrite),
    ("rewrite", {"skill", "findings"}, _rewrite),
)
