"""The second simulated world: what each parameter says is what its replies show, measured through prompts."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import dspy
import pytest

import decoevo_dspy.signatures as S
from decoevo_dspy import simulated_lm
from decoevo_dspy.benchmarks.simulated import load_simulated, simulated_task
from decoevo_dspy.commands.build import build_role_lms
from decoevo_dspy.commands.config import load_config
from decoevo_dspy.roles.text import GENERATOR_HEADING, SOLVER_HEADING, with_skill
from decoevo_dspy.simulation import phrasing as wording
from decoevo_dspy.simulation.backbone import SimulatedBackbone
from decoevo_dspy.simulation.classes import class_of, gold_shares, tacit
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.world import (
    BY_KEY,
    SURFACE_BY_KEY,
    cued,
    is_chinese,
    read_line,
    read_response,
    read_skill,
)
from decoevo_dspy.simulation.worlds import WORLDS, named_world
from decoevo_dspy.values.leaks import passages, protected_passages
from decoevo_dspy.values.skill import GENERATOR_SKILL, SOLVER_SKILL, Edit, Skill, apply_edits

QUESTIONS = [q.text for q in load_simulated().questions]
ENGLISH = [text for text in QUESTIONS if not is_chinese(text)]
TASK = simulated_task()
TACIT = tacit(0.40)
HIDDEN = sorted(key for key in TACIT if not BY_KEY[key].harmful)
PUBLIC = sorted(key for key in BY_KEY if class_of(key, 0.40) == "public" and not BY_KEY[key].harmful)
STYLE_OUT = "- Leave style out: no points for tone or layout."
RNG = random.Random(4)


@pytest.fixture(autouse=True)
def same_wordings() -> None:
    """The wordings that a test draws do not depend on the tests before it."""
    RNG.seed(4)


def asked(p: WorldParameters, signature: type[dspy.Signature], n: int = 0, **inputs: Any) -> Any:
    """One reply as text, or the object in it."""
    messages = dspy.ChatAdapter().format(signature, [], inputs)
    text = SimulatedBackbone(3, p).reply(messages, seed=n).text
    found = text[text.index(" ## ]]") + 6 : text.rindex("[[ ## completed")].strip()
    return json.loads(found) if found.startswith("{") else found


def world(**changes: float) -> WorldParameters:
    """The second world with single parameters changed."""
    return named_world("v2", changes)


def answer(p: WorldParameters, question: str, skill: str = "", n: int = 0) -> str:
    """The solver's answer with a skill."""
    instructions = with_skill(S.AnswerQuestion.instructions, SOLVER_HEADING, skill)
    return asked(p, S.AnswerQuestion.with_instructions(instructions), n, question=question)


def rubric(p: WorldParameters, question: str, skill: str = GENERATOR_SKILL, n: int = 0) -> list[dict[str, Any]]:
    """The criteria for a question under a rubric skill."""
    instructions = with_skill(S.WriteRubric.instructions, GENERATOR_HEADING, skill)
    return asked(p, S.WriteRubric.with_instructions(instructions), n, question=question)["criteria"]


def listed(criteria: Sequence[Mapping[str, Any]]) -> str:
    """A rubric as the roles see it."""
    return "\n".join(f"c{i}. ({c['points']} points) {c['requirement']}" for i, c in enumerate(criteria, 1))


def score(p: WorldParameters, question: str, response: str, criteria: Sequence[Mapping[str, Any]], n: int = 0) -> float:
    """The judged rubric score of an answer."""
    found = asked(p, S.JudgeRubric, n, question=question, response=response, criteria=listed(criteria))
    earned = [c["points"] * v["score"] / 10 for c, v in zip(criteria, found["verdicts"], strict=True)]
    return sum(earned) / sum(c["points"] for c in criteria)


def audit(p: WorldParameters, question: str, drawn: str, n: int = 0, spec: str = TASK.specification()) -> Any:
    """The structural auditor's report on a rubric."""
    return asked(p, S.AuditStructure, n, specification=spec, question=question, rubric=drawn)


def rules(keys: Iterable[str], genre: Any = "generator") -> str:
    """A rule per requirement or surface quality."""
    return "\n".join(wording.rule(key, RNG, False, genre) for key in keys)


def saying(keys: Iterable[str], chinese: bool = False) -> str:
    """An answer that says exactly these requirements."""
    return "\n".join(wording.advice(key, RNG, chinese) for key in keys)


def names(text: str) -> frozenset[str]:
    """The requirements and surface qualities that a text names."""
    reading = read_skill(text)
    return reading.named | reading.lax | reading.surfaces


def rewrite(p: WorldParameters, genre: str, skill: str, found: str, n: int) -> list[dict[str, str]]:
    """The edits of one of the two rewriters."""
    inputs: dict[str, Any] = {"task": TASK.description, "skill": skill, "edit_budget": 4}
    if genre == "generator":
        return asked(p, S.RewriteGenerator, n, findings=found, **inputs)["edits"]
    return asked(p, S.RewriteSolver, n, failures=found, rejected_edits="(none)", **inputs)["edits"]


def criterion(key: str) -> str:
    """A criterion for a requirement or a surface quality."""
    if key in SURFACE_BY_KEY:
        return wording.surface_criterion(key, RNG, False)
    return wording.criterion(key, RNG, False, lax=False)


def evidence(genre: str, keys: Sequence[str]) -> str:
    """Recurring findings (generator) or failures (solver) about these requirements."""
    if genre == "generator":
        return "\n".join(f"- {wording.principle([key], RNG, False)}\n  because: so" for key in keys for _ in range(3))
    return "\n".join(f"- (5 points, score 0.00) {criterion(k)}" for k in [*keys] * 3)


def near(share: float, expected: float, n: int) -> bool:
    """Whether a share is within 3.3 standard errors of what is expected."""
    return abs(share - expected) <= 3.3 * (expected * (1 - expected) / n) ** 0.5 + 1e-9


# ---- requirements ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.2, 0.4, 0.65])
def test_share_of_tacit_points(share: float):
    """Gold points of requirements that no rule, specification or audit names come to the share that was asked for."""
    held = sum(gold_shares()[key] for key in tacit(share))
    assert held == pytest.approx(share, abs=0.02)
    assert not any(BY_KEY[key].obvious for key in tacit(share))


def test_the_classes_of_the_second_world():
    """Obvious requirements hold a quarter of the points; what the public text does not list is tacit."""
    held: dict[str, float] = {"obvious": 0.0, "public": 0.0, "tacit": 0.0}
    for key, value in gold_shares().items():
        held[class_of(key, 0.40)] += value
    assert held["obvious"] == pytest.approx(0.24, abs=0.01)
    assert sum(held.values()) == pytest.approx(1.0)
    assert {key for key in BY_KEY if BY_KEY[key].kind in ("judgement", "afterwards")} <= TACIT


@pytest.mark.parametrize("name", ["v2", "weak-structural"])
def test_the_structural_auditor_never_names_a_tacit_requirement(name: str):
    """Whatever the rubric lacks, no reply about it names a tacit requirement; it names others."""
    p, found = WORLDS[name], set[str]()
    for n, question in enumerate(QUESTIONS):
        report = audit(p, question, listed(rubric(p, question, n=n)), n)
        found |= names(report["rationale"]) | names(report["repair"])
    assert not found & tacit(p.tacit_share)
    assert found & {key for key in BY_KEY if class_of(key, p.tacit_share) == "public"}


def test_a_specification_that_names_it_makes_it_public():
    """The auditor knows what its prompt tells it, and nothing besides: no requirement is hidden by a list."""
    told = f"{TASK.specification()}\n{rules(['recheck'])}"
    questions = [q for q in ENGLISH if "recheck" in cued(q)]
    repairs = [audit(world(), q, "c1. (5 points) x", n, told)["repair"] for n, q in enumerate(questions)]
    assert any("recheck" in names(text) for text in repairs)


def test_adequacy_does_not_rise_with_a_tacit_criterion():
    """Adding criteria for all tacit requirements leaves the structural view as it is; public ones lift it."""
    p = world(structural_noise=0.0)

    def adequacy(keys: Sequence[str]) -> float:
        drawn = "\n".join(f"c{i}. (9 points) {criterion(k)}" for i, k in enumerate(keys))
        return sum(audit(p, q, drawn or "c1. (5 points) x", n)["adequacy"] for n, q in enumerate(ENGLISH[:80])) / 800

    assert adequacy(HIDDEN) == pytest.approx(adequacy([]), abs=0.03)
    assert adequacy(PUBLIC) > adequacy([]) + 0.3


def test_rollouts_meet_a_tacit_requirement_rarely_and_a_rule_changes_that():
    """Without a rule an answer has a tacit requirement at the set rate; the public text's kinds do not help."""
    p, n, met, told = world(), 0, 0, 0
    for question in QUESTIONS:
        hidden = [key for key in cued(question) if key in HIDDEN]
        plain, hinted = answer(p, question), answer(p, question, TASK.specification(), 1)
        ruled = answer(p, question, rules(hidden, "solver"))
        n += 2 * len(hidden)
        met += sum(read_response(text).meets(key) for key in hidden for text in (plain, hinted))
        told += sum(read_response(ruled).meets(key) for key in hidden)
    assert near(met / n, p.solver_tacit, n)
    assert near(2 * told / n, p.solver_raised, n // 2)


def test_rollouts_of_one_skill_differ_in_tacit_requirements():
    """Two answers to one question often differ in one, so a near-tie can carry news."""
    p = world()
    pairs = [(answer(p, q, n=1), answer(p, q, n=2)) for q in QUESTIONS]
    differ = [
        any(read_response(a).meets(k) != read_response(b).meets(k) for k in cued(q) if k in HIDDEN)
        for q, (a, b) in zip(QUESTIONS, pairs, strict=True)
    ]
    assert 0.25 < sum(differ) / len(differ) < 0.6


def test_rubric_writers_think_of_tacit_requirements_no_more_than_of_other_unknown_ones():
    """Unnamed, a tacit criterion is rare even when the skill repeats the public text; named, it is there."""
    p = world()
    due = [(q, key) for q in ENGLISH for key in cued(q) if key in HIDDEN]
    plain = [key in names(listed(rubric(p, q, TASK.specification()))) for q, key in due]
    ruled = [key in names(listed(rubric(p, q, rules([key])))) for q, key in due]
    assert near(sum(plain) / len(due), p.generator_unknown, len(due))
    assert near(sum(ruled) / len(due), p.generator_named, len(due))


# ---- contrastive auditor ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0.5, 0.75, 0.9])
@pytest.mark.parametrize("differences", [1, 3, 5])
def test_naming_falls_with_the_number_of_differences(differences: int, first: float):
    """In both stages the deciding requirement is named at first ÷ (1 + .15 (d − 1)), whichever answer has the rest."""
    p = world(contrastive_naming=first, contrastive_accuracy=1.0, contrastive_noise=0.0, contrastive_threshold=0.0)
    blind, reveal, n = 0, 0, 0
    for question in ENGLISH:
        keys = sorted((k for k in cued(question) if not BY_KEY[k].harmful), key=lambda k: -BY_KEY[k].points)
        if len(keys) < 5:
            continue
        better, other = saying([keys[0], *keys[5:]]), saying([*keys[1:differences], *keys[5:]])
        weightiest = BY_KEY[keys[0]].points
        if weightiest <= sum(BY_KEY[k].points for k in keys[1:differences]):
            better, other = saying(keys), saying(keys[differences:])
        n += 1
        seen = asked(p, S.PreferBlind, n, question=question, response_a=better, response_b=other)
        assert seen["preferred"] == "A"
        blind += keys[0] in names(seen["rationale"])
        miss = asked(
            p,
            S.RevealMiss,
            n,
            question=question,
            better_response=better,
            other_response=other,
            difference=seen["rationale"],
            rubric_scores="c1. (5 points) x | better 1.00, other 1.00",
        )
        reveal += bool(names(miss["principle"]) & set(keys[:differences]))
    expected = first / (1 + 0.15 * (differences - 1))
    assert n > 150
    assert near(blind / n, expected, n)
    assert near(reveal / n, expected, n)


def test_contrastive_findings_name_tacit_requirements_too():
    """A tacit requirement that decides between two answers is named like any other."""
    p = world(contrastive_accuracy=1.0, contrastive_noise=0.0, contrastive_threshold=0.0)
    due = [(q, key) for q in ENGLISH for key in cued(q) if key in HIDDEN]
    named = [
        key in names(asked(p, S.PreferBlind, n, question=q, response_a=saying([key]), response_b="x")["rationale"])
        for n, (q, key) in enumerate(due)
    ]
    assert near(sum(named) / len(due), 0.75, len(due))


def test_what_is_named_instead_sounds_alike():
    """Half of the wrong names are surface qualities, half something that both answers, or the rubric, have."""
    p = world(contrastive_naming=0.0, contrastive_accuracy=1.0, contrastive_noise=0.0, contrastive_threshold=0.0)
    kinds, others = Counter[str](), Counter[str]()
    for n, question in enumerate(ENGLISH):
        key, *rest = (k for k in cued(question) if not BY_KEY[k].harmful)
        a, b = saying([key, *rest]), saying(rest)
        seen = names(asked(p, S.PreferBlind, n, question=question, response_a=a, response_b=b)["rationale"])
        both = {*rest, *(k for k in cued(question) if BY_KEY[k].harmful)}
        kinds["style" if seen & set(SURFACE_BY_KEY) else "there" if seen <= both else "?"] += 1
        drawn = f"c1. (5 points) {criterion(rest[0])} | better 1.00, other 1.00"
        given = {"better_response": a, "other_response": b, "difference": "x", "rubric_scores": drawn}
        told = names(asked(p, S.RevealMiss, n, question=question, **given)["principle"])
        others["style" if told & set(SURFACE_BY_KEY) else "there" if told == {rest[0]} else "?"] += 1
    assert kinds["?"] == others["?"] == 0
    assert near(kinds["style"] / len(ENGLISH), 0.5, len(ENGLISH))
    assert near(others["style"] / len(ENGLISH), 0.5, len(ENGLISH))


# ---- style -----------------------------------------------------------------------------------------------------


def test_style_criteria_before_and_after_the_line_that_leaves_style_out():
    """Each of the six style criteria appears at .25; at .05 once the skill says so, also beside a style rule."""
    p, n = world(), 6 * len(ENGLISH)

    def rate(skill: str) -> float:
        drawn = [listed(rubric(p, q, skill)) for q in ENGLISH]
        return sum(len(read_skill(text).surfaces) for text in drawn) / n

    named = f"{GENERATOR_SKILL}\n{rules(PUBLIC[:4])}"
    assert near(rate(named), 0.25, n)
    assert near(rate(f"{named}\n{STYLE_OUT}"), 0.05, n)
    assert near(rate(f"{named}\n{rules(['warmth'])}\n{STYLE_OUT}"), 0.05, n)
    assert rate(f"{named}\n{rules(['warmth'])}") > 0.3


def test_the_structural_auditor_reports_style_where_the_specification_says_that_it_earns_nothing():
    """It says so at the set rate, never of a rubric without style, never without such a line in the specification."""
    p = world(structural_naming=1.0)
    plain = f"c1. (8 points) {criterion('cost')}"
    styled = f"{plain}\nc2. (3 points) {criterion('warmth')}"

    def reported(drawn: str, spec: str = TASK.specification()) -> int:
        return sum(read_skill(audit(p, q, drawn, n, spec)["repair"]).style_out for n, q in enumerate(ENGLISH))

    assert near(reported(styled) / len(ENGLISH), 0.64, len(ENGLISH))
    assert reported(plain) == reported(styled, TASK.description) == 0


def test_recurring_reports_of_style_become_the_line_that_leaves_style_out():
    """The generator's rewriter writes the line in place of a style rule; the solver's rewriter does not."""
    p = world(proposal_better=1.0, rewriter_miss=0.0, rewriter_surface=0.0)
    found = "\n".join(["- Leave style out: no points for tone or layout.\n  because: so"] * 3)
    style = rules(["warmth"])
    for start in (GENERATOR_SKILL, f"{GENERATOR_SKILL}\n{style}"):
        edits = rewrite(p, "generator", start, found, 1)
        new, _ = apply_edits(Skill(start), [Edit(**cast(Any, e)) for e in edits], 4)
        assert read_skill(new.text).style_out
        assert not read_skill(new.text).surfaces
    solver = [edit["content"] for n in range(20) for edit in rewrite(p, "solver", SOLVER_SKILL, found, n)]
    assert not any("style out" in text for text in solver)
    settled = rewrite(p, "generator", f"{STYLE_OUT}\n{rules(['cost'])}", evidence("generator", ["warmth"]), 1)
    assert not any("warmth" in names(edit["content"]) for edit in settled)


def test_style_takes_from_what_the_solver_can_follow():
    """Six style rules beside thirteen rules of substance lower what the answers fulfil: one capacity for both."""
    p, keys = world(), [key for key in BY_KEY if not BY_KEY[key].harmful and key not in TACIT]
    due = [(q, [k for k in cued(q) if k in keys]) for q in ENGLISH]

    def met(skill: str) -> float:
        said = [(read_response(answer(p, q, skill)), ks) for q, ks in due]
        return sum(reading.meets(k) for reading, ks in said for k in ks) / sum(len(ks) for _, ks in said)

    assert met(rules(keys, "solver")) - met(rules([*keys, *SURFACE_BY_KEY], "solver")) > 0.04


# ---- proposals -------------------------------------------------------------------------------------------------

KINDS = ("better", "equal", "easier", "narrower", "worse")
START: dict[str, str] = {
    "solver": f"{SOLVER_SKILL}\n{rules(['permits', 'warning_signs'], 'solver')}",
    "generator": f"{GENERATOR_SKILL}\n{rules(['permits', 'warning_signs'])}",
}


def kind_of(edits: Sequence[Mapping[str, str]]) -> str:
    """What a reader of the edits would call the proposal."""
    added = [read_line(e["content"]) for e in edits]
    if any(line.only_with for line in added):
        return "narrower"
    if any(line.lax or line.light for line in added):
        return "easier"
    if any(e["op"] == "delete" for e in edits):
        return "worse"
    if all(e["op"] == "replace" and read_line(e["target"]).keys == read_line(e["content"]).keys for e in edits):
        return "equal"
    return "better"


@pytest.mark.parametrize("genre", ["solver", "generator"])
@pytest.mark.parametrize("better", [0.30, 0.45, 1.0])
def test_rates_of_the_kinds_of_proposal(genre: str, better: float):
    """Both rewriters: .45 better, .15 equal, .15 easier, .15 narrower, .10 worse; another share of better keeps the
    proportions of the rest."""
    p, n = world(proposal_better=better, rewriter_miss=0.0, rewriter_surface=0.0, rewriter_prune=0.0), 600
    found = evidence(genre, ["official", "evidence"])
    kinds = Counter(kind_of(rewrite(p, genre, START[genre], found, k)) for k in range(n))
    rest = {"equal": 0.15, "easier": 0.15, "narrower": 0.15, "worse": 0.10}
    for kind, rate in {"better": better, **{k: v * (1 - better) / 0.55 for k, v in rest.items()}}.items():
        assert near(kinds[kind] / n, rate, n), (kind, kinds)


def only(kind: str) -> WorldParameters:
    """A world in which every reply of a rewriter is of one kind."""
    rest = {f"proposal_{k}": float(k == kind) for k in ("equal", "easier", "narrower", "worse")}
    return world(proposal_better=float(kind == "better"), rewriter_miss=0.0, rewriter_surface=0.0, **rest)


def proposed(kind: str, genre: str, skill: str, keys: Sequence[str], n: int = 0) -> str:
    """The skill after one proposal of a kind."""
    edits = rewrite(only(kind), genre, skill, evidence(genre, keys), n)
    return apply_edits(Skill(skill), [Edit(**cast(Any, e)) for e in edits], 4)[0].text


@pytest.mark.parametrize("genre", ["solver", "generator"])
def test_what_each_kind_of_proposal_leaves(genre: str):
    """Better names the findings; equal, easier, narrower and worse do not, and each differs from the skill it edits."""
    before = read_skill(START[genre]).named
    for n in range(12):
        after = {kind: proposed(kind, genre, START[genre], ["official"], n) for kind in KINDS}
        assert all(text != START[genre] for text in after.values())
        reading = {kind: read_skill(text) for kind, text in after.items()}
        assert reading["better"].named == before | {"official"}
        assert reading["equal"].named == reading["narrower"].named == before
        assert (reading["easier"].named, reading["easier"].lax) == (before - {"warning_signs"}, {"warning_signs"})
        assert reading["easier"].light == ({"permits"} if genre == "generator" else set())
        assert len(reading["worse"].named) == 1
        assert {key for key, _ in reading["narrower"].narrow} == {"official"}


@pytest.mark.parametrize("genre", ["solver", "generator"])
@pytest.mark.parametrize("kind", ["equal", "easier", "narrower", "worse"])
@pytest.mark.parametrize("skill", ["", "# 技能\n- 回答要清楚，写给提问的人看。"])
def test_a_proposal_can_be_made_of_a_skill_without_rules(genre: str, kind: str, skill: str):
    """A skill that names nothing yet, in either language, gets an edit too, and the findings stay unanswered."""
    after = proposed(kind, genre, skill, ["official"])
    assert after != skill
    assert "official" not in read_skill(after).named


def test_a_rule_patched_to_one_question_counts_there_only():
    """Its requirement is raised where its word occurs and not in other questions that call for it."""
    rule = '- Only when the message mentions "passport": tell the reader to confirm it on the official site.'
    p, due = world(), [q for q in ENGLISH if "official" in cued(q)]
    here = [q for q in due if re.search(r"\bpassport\b", q.lower())]
    there = [q for q in due if q not in here]

    def met(questions: Sequence[str]) -> float:
        said = [read_response(answer(p, q, rule, n)).meets("official") for q in questions for n in range(10)]
        return sum(said) / len(said)

    assert here
    assert met(here) > 0.8
    assert met(there) < 0.55


def test_an_easier_generator_raises_the_score_of_the_same_answers():
    """Two easier proposals lift the judged score of unchanged answers; a softened and a lightened rule each do."""
    p = world()
    start = f"{GENERATOR_SKILL}\n{rules(['permits', 'warning_signs', 'evidence', 'official'])}"
    answers = {q: answer(p, q, n=7) for q in ENGLISH}

    def judged(skill: str, questions: Sequence[str], times: int = 1) -> float:
        pairs = [(q, n) for q in questions for n in range(times)]
        return sum(score(p, q, answers[q], rubric(p, q, skill, n), n) for q, n in pairs) / len(pairs)

    once = proposed("easier", "generator", start, ["official"])
    assert judged(proposed("easier", "generator", once, ["official"], 1), ENGLISH) > judged(start, ENGLISH) + 0.03
    hard = ["permits", "warning_signs", "evidence"]
    due = [q for q in ENGLISH if len({*hard} & {*cued(q)}) >= 2]
    base = judged(start, due, 4)
    strict, lax = "- Require that the answer tells the reader to", "- Accept what at least loosely touches on how to"
    assert judged(start.replace(strict, lax), due, 4) > base + 0.1
    light = "\n".join([start, *(wording.light_rule(key, RNG, False) for key in hard)])
    assert judged(light, due, 4) > base + 0.02


def test_a_light_rule_lowers_the_points_and_the_auditor_sees_it():
    """The criterion keeps .4 of its points, counts half for adequacy and is named as an omission."""
    due = [q for q in ENGLISH if "warning_signs" in cued(q)]
    start = rules(["warning_signs"])

    def points(skill: str) -> float:
        drawn = [c for q in due for c in rubric(world(), q, skill) if "warning_signs" in names(c["requirement"])]
        return sum(c["points"] for c in drawn) / len(drawn)

    light = f"{start}\n{wording.light_rule('warning_signs', RNG, False)}"
    assert points(light) / points(start) == pytest.approx(0.4, abs=0.05)
    p, text = world(structural_naming=1.0, structural_noise=0.0), criterion("warning_signs")
    full, low = ([audit(p, q, f"c1. ({n} points) {text}", k) for k, q in enumerate(due)] for n in (10, 4))
    assert sum(r["adequacy"] for r in low) < sum(r["adequacy"] for r in full)
    assert not any("warning_signs" in names(r["repair"]) for r in full)
    assert sum("warning_signs" in names(r["repair"]) for r in low) > len(due) / 2


def test_the_solvers_rewriter_merges_and_deletes_at_its_rate():
    """Two rules for one thing become one, a style rule nobody asks for goes, at the set rate; the generator's does
    neither, and a style rule that failures ask for stays."""
    p, n = world(proposal_better=1.0, rewriter_miss=0.0, rewriter_surface=0.0), 300
    patched = "".join(
        f'\n- Only when the message mentions "{word}": tell the reader to check the local rules.' for word in "ab"
    )
    double, styled = SOLVER_SKILL + patched, f"{SOLVER_SKILL}\n{rules(['warmth'], 'solver')}"

    def outcomes(genre: str, skill: str, keys: Sequence[str]) -> list[Skill]:
        found = evidence(genre, keys)
        replies = (rewrite(p, genre, skill, found, k) for k in range(n))
        return [apply_edits(Skill(skill), [Edit(**cast(Any, e)) for e in edits], 4)[0] for edits in replies]

    wanted = {"permits", "official"}
    merged = [s for s in outcomes("solver", double, ["official"]) if read_skill(s.text).named == wanted]
    assert near(len(merged) / n, 0.3, n)
    assert all(not read_skill(s.text).narrow for s in merged)
    gone = [s for s in outcomes("solver", styled, ["official"]) if not read_skill(s.text).surfaces]
    assert near(len(gone) / n, 0.3, n)
    assert all(read_skill(s.text).surfaces for s in outcomes("solver", styled, ["official", "warmth"]))
    assert all(read_skill(s.text).surfaces for s in outcomes("generator", styled, ["official"]))


def test_no_rule_of_the_second_world_copies_gold_or_questions():
    """The leak guard never rejects a narrow or a light rule."""
    written = [
        text
        for key in BY_KEY
        for chinese in (False, True)
        for _ in range(8)
        for text in (
            wording.narrow_rule(key, RNG, chinese, "solver"),
            wording.narrow_rule(key, RNG, chinese, "generator"),
            wording.light_rule(key, RNG, chinese),
        )
    ]
    protected = load_simulated().gold.passages() | protected_passages(QUESTIONS)
    assert not [text for text in written if passages(text) & protected]
    assert max(map(len, written)) <= 240


@pytest.mark.parametrize("chinese", [False, True])
def test_what_the_second_world_writes_is_what_it_reads(chinese: bool):
    """Narrow, light and style-out lines are recognised in both languages and never as a plain rule."""
    for key in BY_KEY:
        narrow = read_skill(wording.narrow_rule(key, RNG, chinese, "generator"))
        assert {k for k, _ in narrow.narrow} == {key}
        assert not narrow.named
        light = read_skill(wording.light_rule(key, RNG, chinese))
        assert (light.light, light.named) == ({key}, frozenset())
    assert read_skill(wording.rule(wording.STYLE_OUT, RNG, chinese, "generator")).style_out


# ---- judge -----------------------------------------------------------------------------------------------------


def test_the_judge_errs_at_the_noisy_rates():
    """.12 of the met criteria are missed and .16 of the unmet ones found met; a plain override gives the first
    world's judge."""
    text = "The answer tells the reader to check the local rules."

    def met(p: WorldParameters, response: str) -> float:
        verdicts = [asked(p, S.JudgeCriterion, n, question="q", response=response, criterion=text) for n in range(900)]
        return sum(v["score"] >= 5 for v in verdicts) / 900

    good, bad = saying(["permits"]), "No."
    assert near(met(world(), good), 0.88, 900)
    assert near(met(world(), bad), 0.16, 900)
    assert near(met(world(judge_false_positive=0.05), bad), 0.05, 900)


# ---- choosing a world ------------------------------------------------------------------------------------------


def test_the_worlds_and_how_they_differ():
    """The first is the default; weak-structural is the second with a weaker auditor and more that is tacit."""
    assert list(WORLDS) == ["v1", "v2", "weak-structural"]
    assert named_world() == WORLDS["v1"] == WorldParameters()
    v2, weak = WORLDS["v2"], WORLDS["weak-structural"]
    changed = {k: v for k, v in weak.state().items() if v != v2.state()[k]}
    assert changed == {
        "tacit_share": 0.65,
        "structural_knowledge": 0.4,
        "structural_naming": 0.5,
        "structural_style": 0.2,
    }


def parameters_of(lm: Any) -> WorldParameters:
    """What an LM's engine says that it is."""
    return WorldParameters(**lm.engine.dump_state()["parameters"])


def test_a_world_is_chosen_in_python():
    """`simulated_lm` takes the name and single parameters; a whole set of parameters beside them is refused."""
    assert parameters_of(simulated_lm(1)) == WORLDS["v1"]
    assert parameters_of(simulated_lm(1, world_name="weak-structural")) == WORLDS["weak-structural"]
    assert parameters_of(simulated_lm(1, world_name="v2", world={"tacit_share": 0.2})) == world(tacit_share=0.2)
    for wrong, words in (
        ({"world_name": "v3"}, r"^world_name: 'v3' is not a world; use one of v1, v2, weak-structural$"),
        ({"world": {"luck": 1.0}}, r"^world\.luck: unknown key"),
        ({"world_name": "v2", "parameters": WorldParameters()}, "not both"),
    ):
        with pytest.raises(ValueError, match=words):
            simulated_lm(1, **cast(Any, wrong))


def test_a_world_is_chosen_in_a_config(tmp_path: Path):
    """``world_name`` stands beside ``world`` and ``world_seed``; roles take it from the default."""
    file = tmp_path / "c.toml"
    file.write_text(
        '[data]\nbenchmark = "simulated"\n[models]\n'
        'default = { model = "simulated", world_name = "v2", world = { solver_capacity = 9 }, world_seed = 4 }\n'
        "judge = { world = { judge_false_positive = 0.05 } }\n"
    )
    lms = build_role_lms(load_config(file))
    assert parameters_of(lms.lm("solver")) == world(solver_capacity=9)
    assert parameters_of(lms.lm("judge")) == world(judge_false_positive=0.05)
    assert cast(Any, lms.lm("judge")).engine.dump_state()["seed"] == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tacit_share", 0.8),
        ("solver_tacit", -0.1),
        ("generator_light", 1.5),
        ("structural_style", 2.0),
        ("contrastive_crowding", -1.0),
        ("proposal_better", 1.1),
        ("proposal_worse", -0.1),
        ("rewriter_prune", float("nan")),
    ],
)
def test_new_parameters_are_checked(name: str, value: float):
    """A value outside its range is refused in one sentence that names parameter, range and value."""
    with pytest.raises(ValueError, match=rf"^world: WorldParameters\.{name} must lie in \[.*\], not {value!r}$"):
        world(**{name: value})


def test_proposals_that_are_not_better_need_a_kind():
    """All four weights at nothing leave no reply to draw."""
    with pytest.raises(ValueError, match="needs another kind"):
        world(proposal_equal=0, proposal_easier=0, proposal_narrower=0, proposal_worse=0)


@pytest.mark.parametrize("name", ["v2", "weak-structural"])
def test_equal_requests_get_equal_replies(name: str):
    """The new worlds are as deterministic as the first: same request, same reply; another seed, another sample."""
    first, again = ([answer(WORLDS[name], QUESTIONS[0], n=n) for n in range(5)] for _ in range(2))
    assert first == again
    assert len(set(first)) == 5
