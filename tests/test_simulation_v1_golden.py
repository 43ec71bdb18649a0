"""The first world answers byte for byte as it did before the second one came."""

import hashlib
import json
from typing import Any

import dspy
import pytest

import decoevo_dspy.signatures as S
from decoevo_dspy.benchmarks.simulated import load_simulated, simulated_task
from decoevo_dspy.roles.text import GENERATOR_HEADING, SOLVER_HEADING, fence, with_skill
from decoevo_dspy.simulation.backbone import SimulatedBackbone
from decoevo_dspy.simulation.engine import simulated_lm

QUESTIONS = load_simulated().questions
SKILL = """# Skill
- Where it applies, tell the reader to watch for danger signs.
- Be content with a hint to keep receipts and messages.
- Mind the style: a warm and friendly tone."""
RUBRIC_SKILL = """# How to write the rubric
- Require that the answer tells the reader to check the local rules.
- Accept what at least loosely touches on how to keep the animals away.
- Give points for style: clear section headings."""
GOLDEN = {
    "solver": "56caeba0f75e9a3e",
    "rubric": "dcdd8f838e175b52",
    "verdict": "dfc5dc410bed6fad",
    "verdicts": "6dd37803f943ef15",
    "structure": "c63033919d348300",
    "blind": "b8b7f00b1f485f68",
    "seeing": "a9b2c4e45ac76136",
    "reveal": "e2b712ee100773ac",
    "solver_rewriter": "def11269b8412228",
    "generator_rewriter": "cfc44eea18193121",
    "chat": "12328c4754bdc3b8",
}
"""Digests of 24 replies each (chat: 12), taken before the code of the second world existed."""


def reply(signature: type[dspy.Signature], n: int, **inputs: Any) -> str:
    """The raw text of one reply of the first world."""
    messages = dspy.ChatAdapter().format(signature, [], inputs)
    return SimulatedBackbone(seed=5).reply(messages, seed=n, logprobs=2).text


def replies() -> dict[str, list[str]]:
    """Replies of every role, on questions in both languages; later roles see what earlier ones wrote."""
    found: dict[str, list[str]] = {name: [] for name in GOLDEN}
    spec, task = simulated_task().specification(), simulated_task().description
    solver = S.AnswerQuestion.with_instructions(with_skill(S.AnswerQuestion.instructions, SOLVER_HEADING, SKILL))
    prior = f"{RUBRIC_SKILL}\n{spec}"
    for n, question in enumerate(q.text for q in QUESTIONS[:240:10]):
        skill = (RUBRIC_SKILL, prior)[n % 2]
        writer = S.WriteRubric.with_instructions(with_skill(S.WriteRubric.instructions, GENERATOR_HEADING, skill))
        a, b = (reply(solver, n + k, question=question) for k in (0, 100))
        rubric = reply(writer, n, question=question)
        criteria = json.loads(rubric[rubric.index("{") : rubric.rindex("}") + 1])["criteria"]
        listed = "\n".join(f"c{i}. ({c['points']} points) {c['requirement']}" for i, c in enumerate(criteria, 1))
        scored = "\n".join(f"{line} | A 1.00, B 0.50" for line in listed.split("\n"))
        found["solver"].append(a)
        found["rubric"].append(rubric)
        found["verdict"].append(
            reply(S.JudgeCriterion, n, question=question, response=a, criterion=criteria[0]["requirement"])
        )
        found["verdicts"].append(reply(S.JudgeRubric, n, question=question, response=a, criteria=fence("r", listed)))
        report = reply(S.AuditStructure, n, specification=spec, question=question, rubric=listed)
        found["structure"].append(report)
        seen = reply(S.PreferBlind, n, question=question, response_a=a, response_b=b)
        found["blind"].append(seen)
        found["seeing"].append(
            reply(S.PreferSeeing, n, question=question, response_a=a, response_b=b, rubric_scores=scored)
        )
        miss = reply(
            S.RevealMiss,
            n,
            question=question,
            better_response=a,
            other_response=b,
            difference=seen,
            rubric_scores=scored,
        )
        found["reveal"].append(miss)
        failures = "\n".join(f"- ({c['points']} points, score 0.00) {c['requirement']}" for c in criteria)
        found["solver_rewriter"].append(
            reply(
                S.RewriteSolver,
                n,
                task=task,
                skill=SKILL,
                failures=fence("failures", failures),
                rejected_edits="(none)",
                edit_budget=4,
            )
        )
        texts = (*found["structure"][-6:], *found["reveal"][-6:])
        findings = "\n".join(f"- {' '.join(text.split())}" for text in texts)
        found["generator_rewriter"].append(
            reply(S.RewriteGenerator, n, task=task, skill=RUBRIC_SKILL, findings=findings, edit_budget=4)
        )
        if n % 2:
            chat = [{"role": "user", "content": f"{spec}\n{failures}\n{question}"}]
            found["chat"].append(SimulatedBackbone(seed=5).reply(chat, seed=n).text)
    return found


@pytest.fixture(scope="module")
def seen() -> dict[str, list[str]]:
    """All replies, asked once."""
    return replies()


def digest(value: Any) -> str:
    """A short digest of plain data."""
    return hashlib.sha256(json.dumps(value, ensure_ascii=True, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_the_first_world_is_unchanged(name: str, seen: dict[str, list[str]]):
    """Every role's replies have the digest that they had when there was one world only."""
    assert digest(seen[name]) == GOLDEN[name]


def test_the_first_worlds_state_is_unchanged():
    """What an LM of the first world says it is stays the same, so recorded runs are still theirs."""
    engine: Any = simulated_lm(3).engine
    assert digest(engine.dump_state()) == "6bf4db924480139d"
