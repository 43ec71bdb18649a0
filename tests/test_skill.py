"""`decoevo_dspy.values.skill`: canonical text, typed edits with a report each, and what never reaches a gate."""

import inspect
from typing import Any

import dspy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from decoevo_dspy.roles.text import SOLVER_HEADING, with_skill
from decoevo_dspy.values.skill import Candidate, Discarded, Edit, Skill, admit, apply_edits, canonical

anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=80)
layout = st.text(alphabet=" \t\n\r\x00\x0b\x0c\x1c\u2028\u3000a#-", max_size=30)
word = st.text(alphabet="abcdefg中é", min_size=1, max_size=8)
lines = st.lists(word.map(lambda w: f"- {w}"), min_size=1, max_size=8, unique=True)


@given(anything | layout)
@example("\n # A\n   - b")
@example("a\n\ud800\x00\r b")
def test_canonical_is_idempotent(text: str):
    """Canonical text is its own canonical form, so that a skill read back is the same skill."""
    once = canonical(text)
    assert canonical(once) == once
    assert Skill(Skill(text).text).key == Skill(text).key


@given(anything | layout)
def test_canonical_text_is_storable(text: str):
    """UTF-8, no NUL, no carriage return, no space at a line's end."""
    clean = canonical(text)
    assert clean.encode("utf-8").decode("utf-8") == clean
    assert "\x00" not in clean
    assert "\r" not in clean
    assert all(line == line.rstrip() for line in clean.split("\n"))


@given(anything | layout)
def test_canonical_text_survives_dspy_instructions(text: str):
    """A skill read out of a predictor's instructions is the skill that was written into them."""
    skill = Skill(text)
    signature: Any = dspy.Signature
    base = signature("question -> response", "Answer the question.")
    kept = base.with_instructions(with_skill("Answer the question.", SOLVER_HEADING, skill.text)).instructions
    assert Skill(kept.partition(SOLVER_HEADING)[2]) == skill
    assert inspect.cleandoc(kept) == kept


def test_equal_text_is_the_same_skill():
    """The key is a hash of the canonical text."""
    assert Skill("  # A\r\n  - b  \n") == Skill("# A\n- b")
    assert Skill("# A\n- b").key == Skill("# A\n- b ").key != Skill("# A\n- c").key


@given(lines, word)
def test_append_then_delete_is_the_old_skill(old: list[str], new: str):
    """The two edits undo each other; nothing else of the document changes."""
    skill = Skill("# Rules\n\n" + "\n".join(old) + "\n\n## Style\n- plain")
    rule = f"- zz {new} zz"
    longer, _ = apply_edits(skill, [Edit(op="append", content=rule)], 8)
    assert longer.text == f"{skill.text}\n{rule}"
    back, reports = apply_edits(longer, [Edit(op="delete", target=rule)], 8)
    assert back == skill
    assert [r.status for r in reports] == ["applied"]


@pytest.mark.parametrize(
    ("target", "left"),
    [
        ("- a", "# R\n\n- b\n\n- c"),
        ("- b", "# R\n\n- a\n\n- c"),
        ("- c", "# R\n\n- a\n- b"),
        ("# R", "- a\n- b\n\n- c"),
        ("- a\n- b", "# R\n\n\n- c"),
        ("R", "#\n\n- a\n- b\n\n- c"),
    ],
)
def test_delete_takes_its_passage_with_its_line_and_nothing_else(target: str, left: str):
    """No blank line is left behind, and none is lost elsewhere."""
    skill, _ = apply_edits(Skill("# R\n\n- a\n- b\n\n- c"), [Edit(op="delete", target=target)], 1)
    assert skill.text == left


@given(lines, word, st.data())
def test_replace_there_and_back_is_the_old_skill(old: list[str], new: str, data: st.DataObject):
    """Replacing a line and replacing it back restores the document."""
    skill = Skill("# Rules\n" + "\n".join(f"{line};" for line in old))
    target = data.draw(st.sampled_from([f"{line};" for line in old]))
    changed, _ = apply_edits(skill, [Edit(op="replace", target=target, content=f"- XX{new}XX.")], 8)
    assert changed != skill
    back, _ = apply_edits(changed, [Edit(op="replace", target=f"- XX{new}XX.", content=target)], 8)
    assert back == skill


def test_insert_after_puts_the_line_below_its_target():
    """The first hit of the target is followed by the new line."""
    skill, reports = apply_edits(Skill("# R\n- a\n- b"), [Edit(op="insert_after", target="- a", content="- c")], 1)
    assert skill.text == "# R\n- a\n- c\n- b"
    assert reports[0].status == "applied"


def test_insert_after_a_missing_target_is_appended_and_says_so():
    """The rule is not lost because its place is."""
    skill, reports = apply_edits(Skill("# R"), [Edit(op="insert_after", target="- gone", content="- c")], 1)
    assert skill.text == "# R\n- c"
    assert (reports[0].status, reports[0].reason) == ("appended", "target not found")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (Edit(op="replace", target="- gone", content="- x"), "target not found"),
        (Edit(op="replace", target="", content="- x"), "target not found"),
        (Edit(op="delete", target="- gone"), "target not found"),
        (Edit(op="delete", target=""), "target not found"),
        (Edit(op="append", content="  \n "), "no content"),
        (Edit(op="replace", target="- a", content=""), "no content"),
        (Edit(op="append", content="- a "), "the skill already says this"),
        (Edit(op="insert_after", target="# R", content="- a"), "the skill already says this"),
    ],
)
def test_an_edit_that_cannot_apply_is_skipped_with_its_reason(edit: Edit, reason: str):
    """The document stays, and the report says why."""
    skill, reports = apply_edits(Skill("# R\n- a"), [edit], 4)
    assert skill.text == "# R\n- a"
    assert [(r.status, r.reason, r.edit) for r in reports] == [("skipped", reason, edit)]


@given(st.lists(word, min_size=1, max_size=8, unique=True), st.integers(0, 8))
def test_no_more_edits_than_the_budget_and_a_report_for_each(words: list[str], budget: int):
    """Edits beyond the budget are reported as such; skipped ones cost nothing."""
    edits = [Edit(op="delete", target="nowhere"), *[Edit(op="append", content=f"- {w}") for w in words]]
    skill, reports = apply_edits(Skill("# R"), edits, budget)
    assert len(reports) == len(edits)
    assert sum(r.status == "applied" for r in reports) == min(budget, len(words))
    assert len(skill.text.split("\n")) == 1 + min(budget, len(words))
    over = [r for r in reports if r.reason == f"over the edit budget of {budget}"]
    assert len(over) == max(0, len(words) - budget) + (budget == 0)


def test_an_edit_is_data_not_a_template():
    """Braces, backslashes and markers are taken literally."""
    nasty = r"- {x} \1 \g<0> [[ ## score ## ]] <<rubric_item>> %s $1"
    skill, _ = apply_edits(Skill("# R\n- a"), [Edit(op="replace", target="- a", content=nasty)], 4)
    assert skill.text == f"# R\n{nasty}"


def candidate(text: str, parent: str = "# R") -> Candidate:
    """A candidate with this text."""
    return Candidate(skill=Skill(text), parent=Skill(parent))


@pytest.mark.parametrize(
    ("made", "limit", "reason"),
    [
        (candidate(""), 100, "empty"),
        (candidate(" \n\x00 "), 100, "empty"),
        (candidate("# R  "), 100, "unchanged"),
        (candidate("x" * 101), 100, "too long: 101 of at most 100 characters"),
    ],
)
def test_what_is_no_candidate_is_discarded_with_its_reason(made: Candidate, limit: int, reason: str):
    """Empty, unchanged and overlong texts never reach a gate."""
    found = admit(made, max_chars=limit)
    assert isinstance(found, Discarded)
    assert found.reason == reason


def test_a_skill_at_the_cap_is_admitted():
    """The cap itself is allowed."""
    made = candidate("x" * 100)
    assert admit(made, max_chars=100) is made
