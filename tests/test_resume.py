"""Resuming: what a run has finished is never taken back, paid twice, or described by other settings."""

import json
import shutil
from pathlib import Path
from typing import Any

import dspy
import pytest

from decoevo_dspy import Budget, BudgetMatched, DecoEvo, RoleLMs, SkillOpt, simulated_lm
from decoevo_dspy.audits.contrastive import ContrastiveAudit
from decoevo_dspy.benchmarks.simulated import load_simulated, simulated_task
from decoevo_dspy.errors import ConfigurationError, ReplayDiverged
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.rules.acceptance import Rejected
from decoevo_dspy.run.events import canonical_trace
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.teleprompters.verification import AuditVerification

EXAMPLES = [dspy.Example(question=q.text, id=q.id).with_inputs("question") for q in load_simulated().questions[:40]]
SMALL: dict[str, Any] = {"steps": 2, "batch_size": 3, "audit_every": 1, "rollouts": 2, "judge_mode": "rubric"}


def optimizer(folder: Path, **changes: Any) -> DecoEvo:
    """A small run on the simulated backbone."""
    given = {"role_lms": RoleLMs(default=simulated_lm(seed=1)), "num_threads": 1, "log_dir": folder, **SMALL, **changes}
    return DecoEvo(simulated_task(), **given)


def compiled(folder: Path, student: dspy.Module | None = None, **changes: Any) -> Any:
    """The detailed results of a run."""
    program: Any = optimizer(folder, **changes).compile(
        student or dspy.Predict("question -> response"), trainset=EXAMPLES
    )
    return program.detailed_results


def files(folder: Path) -> dict[str, str]:
    """The artefacts that a later process must not spoil."""
    names = ("result.json", "solver.json", "generator.json", "run.json")
    return {name: (folder / name).read_text("utf-8") for name in names}


def test_an_interrupted_replay_leaves_a_finished_run_alone(tmp_path: Path) -> None:
    """Ctrl-C while a finished run is replayed: result and program stay what they were."""
    compiled(tmp_path)
    before = files(tmp_path)

    def interrupt(event: dict[str, Any]) -> None:
        if event.get("replayed") and event["kind"] == "solver_decision":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compiled(tmp_path, resume=True, callbacks=[interrupt])
    after = files(tmp_path)
    assert after["result.json"] == before["result.json"]
    assert after["solver.json"] == before["solver.json"]


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 3},
        {"role_lms": RoleLMs(default=simulated_lm(seed=2))},
        {"role_lms": RoleLMs(default=simulated_lm(1, WorldParameters(judge_false_negative=0.3)))},
        {"role_lms": RoleLMs(default=simulated_lm(seed=1), judge=simulated_lm(seed=1, temperature=0.3))},
    ],
    ids=["steps", "model", "world", "judge options"],
)
def test_other_settings_or_models_are_refused_and_change_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A resumed run that would be another run is refused before its first call, and its files stay."""
    compiled(tmp_path)
    before, log = files(tmp_path), (tmp_path / "events.jsonl").read_text("utf-8")
    with pytest.raises(ReplayDiverged, match=r"settings|models"):
        compiled(tmp_path, resume=True, **changes)
    assert files(tmp_path) == before
    assert (tmp_path / "events.jsonl").read_text("utf-8") == log


def test_a_moved_folder_is_still_the_run_that_paid(tmp_path: Path) -> None:
    """Usage counts what this run paid, whatever its folder is called today."""
    first = compiled(tmp_path / "one")
    shutil.move(tmp_path / "one", tmp_path / "two")
    second = compiled(tmp_path / "two", resume=True)
    for role, usage in first.usage.items():
        assert (second.usage[role]["calls"], second.usage[role]["cached_calls"]) == (usage["calls"], 0), role


class Tooled(dspy.Module):
    """A student with a side effect that the prompt shows: how often its tool has run."""

    ran = 0

    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict("question, note -> response")

    def forward(self, question: str) -> dspy.Prediction:
        """Use the tool, then answer."""
        Tooled.ran += 1
        return self.answer(question=question, note=f"the tool has run {Tooled.ran} times")


def test_completed_rollouts_of_a_student_with_tools_do_not_run_again(tmp_path: Path) -> None:
    """A whole rollout is the unit: on resume the tool is not used again, and the trace is the same."""
    Tooled.ran = 0
    first = compiled(tmp_path, Tooled())
    used = Tooled.ran
    second = compiled(tmp_path, Tooled(), resume=True)
    assert Tooled.ran == used > 0
    assert canonical_trace(second.history) == canonical_trace(first.history)
    assert second.usage["solver"]["calls"] == first.usage["solver"]["calls"]
    assert second.replies == first.replies


def test_threads_change_no_figure(tmp_path: Path) -> None:
    """A rubric that two answers wait for is drawn, and counted, once."""
    alone, together = compiled(tmp_path / "1"), compiled(tmp_path / "4", num_threads=4)
    assert together.replies == alone.replies
    assert {r: u["calls"] for r, u in together.usage.items()} == {r: u["calls"] for r, u in alone.usage.items()}


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    """A temporary file of a killed process does not stay in the folder."""
    compiled(tmp_path)
    left = [tmp_path / ".result.json.x1.tmp", tmp_path / "skills" / ".solver-0000.md.x2.tmp"]
    for path in left:
        path.write_text("half", encoding="utf-8")
    compiled(tmp_path, resume=True)
    assert not any(path.exists() for path in left)


def test_money_cannot_be_capped_without_a_price(tmp_path: Path) -> None:
    """``max_usd`` on a model without a known price is an error, not a cap that never fires."""
    with pytest.raises(ConfigurationError, match="no known price"):
        compiled(tmp_path, budget=Budget(max_usd=0.01))


def test_a_solver_at_temperature_zero_cannot_be_contrasted(tmp_path: Path) -> None:
    """Rollouts that are all alike are refused where they would be compared, and only there."""
    frozen = RoleLMs(default=simulated_lm(seed=1, temperature=0.0))
    with pytest.raises(ConfigurationError, match="temperature is 0"):
        compiled(tmp_path / "a", role_lms=frozen)
    SkillOpt(simulated_task(), role_lms=frozen, num_threads=1, **SMALL).compile(
        dspy.Predict("question -> response"), trainset=EXAMPLES
    )


def test_lost_labels_make_the_generator_gate_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most labels of V_g lost: the contrastive objective is ungraded, the gate undecided, and nothing is accepted."""
    label = ContrastiveAudit._label
    seen: list[Any] = []

    def lose(self: ContrastiveAudit, bench: Any, pair: Any, outer: int) -> Any:
        if pair.item.partition == "generator_gate":
            return NoReply(kind="infrastructure", reason="gone")
        return label(self, bench, pair, outer)

    verify = AuditVerification.verify

    def spy(self: AuditVerification, *args: Any) -> Any:
        seen.append(verify(self, *args))
        return seen[-1]

    monkeypatch.setattr(ContrastiveAudit, "_label", lose)
    monkeypatch.setattr(AuditVerification, "verify", spy)
    result = compiled(tmp_path, verify_z=0.0, tau_tie=0.5)
    assert seen
    assert all(isinstance(one.decision, Rejected) and "undecided" in one.decision.reason for one in seen)
    assert len(result.generator_skills) == 1
    lost = [record for one in seen for record in one.evidence["records"]["contrastive"]]
    assert lost
    assert all("lost" in record for record in lost)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text("utf-8").splitlines()]
    assert any("records" in event for event in events if event["kind"] == "generator_decision")


def test_budget_matched_says_how_close_it_came(tmp_path: Path) -> None:
    """It uses up the paired run's calls or tokens, and its result names both caps and what was used of them."""
    compiled(tmp_path / "decoevo")
    budget = Budget.from_run(tmp_path / "decoevo")
    matched = BudgetMatched(
        simulated_task(),
        budget=budget,
        judge_mode="rubric",
        batch_size=3,
        num_threads=1,
        role_lms=RoleLMs(default=simulated_lm(seed=1)),
        log_dir=tmp_path / "matched",
    )
    program: Any = matched.compile(dspy.Predict("question -> response"), trainset=EXAMPLES)
    result = json.loads((tmp_path / "matched" / "result.json").read_text("utf-8"))
    assert program.detailed_results.stopped_by == result["stopped_by"] == "budget"
    assert result["budget"]["max_calls"] == budget.max_calls
    assert budget.max_tokens is not None
    used = result["budget"]
    assert used["calls"] == budget.max_calls or used["tokens"] >= budget.max_tokens
    assert used["calls"] <= used["max_calls"]
