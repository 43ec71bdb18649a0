"""Skill documents, their typed edits, and what disqualifies a candidate before any gate. Pure."""

import hashlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

MAX_SKILL_CHARS = 8_000
"""Length cap of a skill in characters (docs/METHOD.md §13)."""

SOLVER_SKILL = """# How to answer
- Answer the question that was asked, directly and completely."""
"""s_0 when the task brings none: a document to edit, without any domain knowledge."""

GENERATOR_SKILL = """# How to write the rubric
- State each requirement so that a reader of the answer can check it.
- Give more points to what matters more for this question."""
"""g_0 when the task brings none."""


def canonical(text: str) -> str:
    """The text as a DSPy instruction would keep it: cleandoc'd, ``\\n`` line ends, no trailing space, no NUL.

    Lone surrogates become ``?``. Canonical text survives ``with_instructions`` and saving unchanged.
    """
    clean = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    clean = clean.encode("utf-8", "replace").decode("utf-8")
    return inspect.cleandoc("\n".join(line.rstrip() for line in clean.split("\n")).strip()).strip()


@dataclass(frozen=True)
class Skill:
    """One version of a skill document, in canonical form. ``key`` is its hash: equal text is the same skill.

    >>> Skill("  # Rules\\n  - be brief  ").text
    '# Rules\\n- be brief'
    """

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", canonical(self.text))

    @property
    def key(self) -> str:
        """The first 16 hex digits of the text's SHA-256."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()[:16]


EditOp = Literal["append", "insert_after", "replace", "delete"]


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One typed edit: ``target`` is an exact passage of the skill (unused by ``append``), ``content`` the new text."""

    op: EditOp
    target: str = ""
    content: str = ""


@dataclass(frozen=True, kw_only=True)
class EditReport:
    """What became of one edit: ``applied``, ``appended`` (its target was missing) or ``skipped``, and why."""

    edit: Edit
    status: Literal["applied", "appended", "skipped"]
    reason: str = ""


def apply_edits(skill: Skill, edits: Sequence[Edit], budget: int) -> tuple[Skill, tuple[EditReport, ...]]:
    """Apply at most ``budget`` (≥ 0) edits in order, and report on every one of them.

    ``target`` is found as an exact passage, first hit. An ``insert_after`` without its target is appended instead;
    a ``replace`` or ``delete`` without its target is skipped; so is any edit beyond the budget, without content, or
    that would repeat a line the skill already has (as SkillOpt does; the last rule is ours).

    >>> new, reports = apply_edits(Skill("# Rules\\n- be brief"), [Edit(op="append", content="- cite")], budget=4)
    >>> new.text, reports[0].status
    ('# Rules\\n- be brief\\n- cite', 'applied')
    """
    text, reports, used = skill.text, list[EditReport](), 0
    for edit in edits:
        if used >= budget:
            reports.append(EditReport(edit=edit, status="skipped", reason=f"over the edit budget of {budget}"))
            continue
        text, report = _apply(text, edit)
        used += report.status != "skipped"
        reports.append(report)
    return Skill(text), tuple(reports)


def _apply(text: str, edit: Edit) -> tuple[str, EditReport]:
    content, target = canonical(edit.content), canonical(edit.target)
    if edit.op != "delete" and not content:
        return text, EditReport(edit=edit, status="skipped", reason="no content")
    if edit.op in ("append", "insert_after") and content in text.split("\n"):
        return text, EditReport(edit=edit, status="skipped", reason="the skill already says this")
    if edit.op == "append":
        return f"{text}\n{content}", EditReport(edit=edit, status="applied")
    found = bool(target) and target in text
    if edit.op == "insert_after":
        if not found:
            return f"{text}\n{content}", EditReport(edit=edit, status="appended", reason="target not found")
        return text.replace(target, f"{target}\n{content}", 1), EditReport(edit=edit, status="applied")
    if not found:
        return text, EditReport(edit=edit, status="skipped", reason="target not found")
    if edit.op == "replace":
        return text.replace(target, content, 1), EditReport(edit=edit, status="applied")
    head, _, tail = text.partition(target)
    whole_lines = head.endswith("\n") and tail[:1] in ("", "\n")
    return (head[:-1] if whole_lines else head) + tail, EditReport(edit=edit, status="applied")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A proposed skill with the edits that made it from its parent."""

    skill: Skill
    parent: Skill
    reports: tuple[EditReport, ...] = ()
    summary: str = ""


@dataclass(frozen=True, kw_only=True)
class Discarded:
    """A proposal that never reached a gate. ``text`` is what was thrown away, when there was any."""

    reason: str
    text: str = ""
    reports: tuple[EditReport, ...] = ()


def admit(candidate: Candidate, *, max_chars: int = MAX_SKILL_CHARS) -> Candidate | Discarded:
    """Refuse a candidate that is empty, unchanged or longer than ``max_chars`` characters; leaks are checked elsewhere.

    >>> admit(Candidate(skill=Skill("# A"), parent=Skill("# A"))).reason
    'unchanged'
    """
    text, reports = candidate.skill.text, candidate.reports
    if not text:
        return Discarded(reason="empty", reports=reports)
    if candidate.skill == candidate.parent:
        return Discarded(reason="unchanged", reports=reports)
    if len(text) > max_chars:
        return Discarded(reason=f"too long: {len(text)} of at most {max_chars} characters", text=text, reports=reports)
    return candidate
