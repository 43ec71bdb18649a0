"""One run as text: every candidate with its verdict and reason. Plain text; readable without colour."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decoevo_dspy.reporting.candidates import CandidateView
from decoevo_dspy.reporting.projection import RunReading, load_run
from decoevo_dspy.reporting.text import number, plural, printable, signed

SHOWN = 4
"""Failures and findings that are quoted per candidate; the others are counted."""

IDS = 8
"""Question ids that are named per candidate, those with most failures first; the others are counted."""


def show_text(run_dir: Path, diff: bool = False) -> str:
    """Every candidate of a run in order; with ``diff`` also its text change against the parent.

    Model text is cut to one line and its control characters are escaped, so that it cannot steer the terminal.

    Raises:
        DataError: when there is no run, or its log is damaged.
    """
    run = load_run(Path(run_dir))
    lines = [*_head(run), ""]
    for candidate in run.candidates:
        lines += [*_entry(candidate, diff), ""]
    if not run.candidates:
        lines += ["No candidate: this method takes no step, or the run stopped before its first decision.", ""]
    return "\n".join(lines)


def show_json(run_dir: Path) -> dict[str, Any]:
    """The same as plain values: ``run`` (what it is and how it ended) and ``candidates``, each with its ``diff``."""
    run = load_run(Path(run_dir))
    return {
        "run": {
            "name": run.name,
            "method": run.method,
            "seed": run.seed,
            "benchmark": run.benchmark,
            "simulated": run.simulated,
            "official": dict(run.official) or None,
            "proxy": run.proxy,
            "stopped_by": (run.result or {}).get("stopped_by"),
            "problem": run.problem,
        },
        "candidates": [{**asdict(c), "diff": c.diff()} for c in run.candidates],
    }


def levels_line(candidate: CandidateView) -> str:
    """What the gate compared, on one line.

    J as ``J 0.412 → 0.478 (+0.066, SE 0.013; 24 up, 8 same, 8 down)``, audit objectives alike.
    """
    parts = []
    for name in dict.fromkeys([*candidate.levels, *candidate.deltas]):
        old, new = candidate.levels.get(name, (None, None))
        error = candidate.standard_errors.get(name)
        inside = [signed(candidate.deltas.get(name), 3)] + ([f"SE {number(error, 3)}"] if error is not None else [])
        moves = ", ".join(f"{count} {how}" for how, count in candidate.changes.get(name, {}).items() if count)
        levels = f" {number(old, 3)} → {number(new, 3)}" if old is not None or new is not None else ""
        parts.append(f"{name}{levels} ({', '.join(inside)}{f'; {moves}' if moves else ''})")
    if candidate.ungraded_by:
        parts.append(f"ungraded because of: {kinds(candidate.ungraded_by)}")
    return "; ".join(parts)


def kinds(counts: Mapping[str, int]) -> str:
    """Kinds of failure with their counts.

    >>> kinds({"overflow": 3, "truncated": 1})
    'overflow (3), truncated (1)'
    """
    return ", ".join(f"{kind} ({count})" for kind, count in counts.items())


def evidence_line(candidate: CandidateView) -> str:
    """Where a candidate came from: counts, and the ids of the questions."""
    said: list[str] = []
    if candidate.batch:
        batch = candidate.batch
        shown, by_question = len(batch.failures_shown), candidate.failing_questions()
        ids = ", ".join(f"{id} ({count})" for id, count in by_question.most_common(IDS))
        if len(by_question) > IDS:
            ids += f" and {plural(len(by_question) - IDS, 'other')}"
        graded = plural(batch.n, "response") + " graded"
        lost = f", {batch.ungraded} ungraded" if batch.ungraded else ""
        lost += f" because of {kinds(batch.ungraded_by)}" if batch.ungraded_by else ""
        count = batch.failures
        failures = f"{count} failed {'criterion' if count == 1 else 'criteria'}"
        said.append(f"{graded}{lost}; {failures}, {shown} shown to the rewriter" + (f", from {ids}" if ids else ""))
    for audit in candidate.audits:
        lost = f", {audit.ungraded} ungraded" if audit.ungraded else ""
        said.append(f"{audit.name} audit: {plural(len(audit.findings), 'finding')} in {audit.audited} audited{lost}")
    return "; ".join(said)


def _head(run: RunReading) -> list[str]:
    badge = " · simulated backbone" if run.simulated else ""
    lines = [f"{run.name}: {run.method}, seed {run.seed}{badge}"]
    result, official = run.result or {}, run.official
    if run.score is not None:
        graded = f"{official.get('n_graded', '?')} of {official.get('n_total', '?')} graded"
        lines.append(f"official {number(run.score)} of 100 ({graded}, {official.get('grader', 'unknown grader')})")
    proxy = f"own proxy {number(run.proxy)} of 100 (a model-selection score); " if run.proxy is not None else ""
    if result:
        lines.append(
            f"{proxy}{plural(result.get('steps', 0), 'step')}; accepted: {result.get('solver_accepted', 0)} solver and "
            f"{result.get('generator_accepted', 0)} generator candidates; stopped by {result.get('stopped_by')}"
        )
    if run.problem:
        lines.append(f"incomplete: {printable(run.problem)}")
    return lines


def _entry(candidate: CandidateView, diff: bool) -> Iterator[str]:
    round = f", round {candidate.round}" if candidate.round is not None else ""
    trigger = f", by {candidate.trigger}" if candidate.trigger else ""
    yield f"{candidate.number:>3}. step {candidate.step}{round}{trigger}: {candidate.skill} {candidate.outcome.upper()}"
    yield f"     reason    {_line(candidate.reason)}"
    if measured := levels_line(candidate):
        yield f"     measured  {measured}"
    if candidate.summary:
        yield f"     summary   {_line(candidate.summary)}"
    for edit in candidate.edits:
        why = f" ({_line(edit.get('reason'))})" if edit.get("reason") else ""
        text = edit.get("content") or edit.get("target")
        yield f"     edit      {edit.get('op')}, {edit.get('status')}{why}: {_line(text)}"
    if evidence := evidence_line(candidate):
        yield f"     evidence  {evidence}"
    failures = list(candidate.batch.failures_shown if candidate.batch else ())
    yield from (f"               {_failure(failure)}" for failure in failures[:SHOWN])
    if len(failures) > SHOWN:
        yield f"               and {len(failures) - SHOWN} more"
    for audit in candidate.audits:
        for finding in audit.findings[:SHOWN]:
            yield f"               {audit.name}, {finding.get('question_id')}: {_line(finding.get('principle'))}"
        if len(audit.findings) > SHOWN:
            yield f"               and {len(audit.findings) - SHOWN} more of the {audit.name} audit"
    if diff:
        lines = candidate.diff()
        yield from (f"     | {printable(line)}" for line in lines)
        if not lines:
            yield "     | no text change to show"


def _failure(failure: Mapping[str, Any]) -> str:
    score = f"score {number(failure.get('score'), 2)}, {number(failure.get('points'), 0)} points"
    return f"{failure.get('question_id')}: {_line(failure.get('criterion'))} ({score})"


def _line(text: object, most: int = 160) -> str:
    flat = printable(" ".join(str(text or "").split()))
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
