"""The algorithm as a whole, on the simulated backbone: equal traces, decoupling, leaks, resume, methods."""

import random
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy import Budget, DecoEvo, RoleLMs, ScoreCoupledCoEvo, SkillOpt, simulated_lm
from decoevo_dspy.audits import near_ties, net_resolution
from decoevo_dspy.audits.contrastive import random_pairs
from decoevo_dspy.benchmarks.simulated import SimulatedGrader, gold_criteria, load_simulated, simulated_task
from decoevo_dspy.calls.store import Call, CallStore
from decoevo_dspy.commands.build import parts_for
from decoevo_dspy.errors import ConfigurationError
from decoevo_dspy.evaluation.official import evaluate
from decoevo_dspy.roles.text import fence
from decoevo_dspy.rules.acceptance import Accepted, Objective
from decoevo_dspy.run.events import canonical_trace
from decoevo_dspy.run.workbench import Graded, Item, Workbench
from decoevo_dspy.signatures import AnswerQuestion
from decoevo_dspy.simulation.backbone import SimulatedBackbone
from decoevo_dspy.teleprompters import METHODS
from decoevo_dspy.teleprompters.state import State
from decoevo_dspy.teleprompters.steps import audit_is_due, batch_of
from decoevo_dspy.teleprompters.verification import AuditVerification, NoVerification, ScoreVerification
from decoevo_dspy.values.leaks import passages, protected_passages
from decoevo_dspy.values.partition import Partitions, split
from decoevo_dspy.values.rubric import Ungraded
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.skill import Skill
from decoevo_dspy.values.task import Question

SIZES = {"train": 6, "probe": 4, "solver_gate": 5, "generator_gate": 5, "diagnostic": 4, "test": 6}
QUICK: dict[str, Any] = {
    "steps": 3, "batch_size": 3, "audit_every": 1, "rollouts": 2, "tau_tie": 0.3, "verify_z": 0.0,
    "judge_mode": "rubric",
}  # fmt: skip
REWRITERS = ("solver_rewriter", "generator_rewriter")
OPTIMISERS = (*REWRITERS, "structural_auditor", "contrastive_auditor", "rubric_generator", "judge", "solver")


@lru_cache(maxsize=1)
def partitions() -> Partitions:
    """Small partitions of the simulated world."""
    return split(load_simulated().questions, SIZES, 0)


def run(method: Any, *, store: CallStore | None = None, student: dspy.Module | None = None, **options: Any) -> Any:
    """One run; the returned result carries the program as ``program``."""
    student = student or dspy.Predict(AnswerQuestion)
    given: dict[str, Any] = {**QUICK, "num_threads": 1, "role_lms": RoleLMs(default=simulated_lm(0)), **options}
    program: Any = method(simulated_task(), **given).optimise(student, parts_for(partitions(), student), store=store)
    return program.detailed_results


@cache
def made(name: str) -> tuple[Any, list[Call], dspy.Module]:
    """Each method's run with the quick settings, made once: result, stored calls, and the student it was given."""
    options: dict[str, Any] = {"budget": Budget(max_calls=200), "steps": 50} if name == "budget-matched" else {}
    student, store = dspy.Predict(AnswerQuestion), CallStore(None)
    result = run(METHODS[name], store=store, student=student, **options)
    calls = list(store.calls())
    store.close()
    return result, calls, student


def trace(result: Any) -> list[dict[str, Any]]:
    """The canonical trace."""
    return canonical_trace(result.history)


def events(result: Any, kind: str) -> list[dict[str, Any]]:
    """All events of one kind."""
    return [event for event in result.history if event["kind"] == kind]


def texts(result: Any) -> tuple[list[str], list[str]]:
    """All skills of a run."""
    return [s.text for s in result.solver_skills], [g.text for g in result.generator_skills]


class TestTraces:
    """Equal methods decide alike; a seed decides everything."""

    def test_decoevo_without_generator_evolution_is_skillopt(self):
        """The acceptance test of the family (docs/METHOD.md §11)."""
        one = run(SkillOpt, steps=5, seed=1)
        other = run(DecoEvo, steps=5, seed=1, evolve_generator=False)
        assert trace(one) == trace(other)
        assert texts(one) == texts(other)
        assert len(one.solver_skills) > 1, "nothing was accepted; the test would show little"
        assert (one.method, other.method) == ("skillopt", "decoevo")
        assert trace(run(DecoEvo, steps=5, seed=1)) != trace(one)

    def test_the_same_seed_gives_the_same_run_with_any_number_of_threads(self):
        """Twice in line, and with eight threads."""
        once, _, _ = made("decoevo")
        for threads in (1, 8):
            again = run(DecoEvo, num_threads=threads)
            assert trace(again) == trace(once)
            assert texts(again) == texts(once)
            calls = [{r: (u["calls"], u["prompt_tokens"]) for r, u in x.usage.items()} for x in (once, again)]
            assert calls[0] == calls[1]

    def test_another_seed_is_another_run(self):
        """Samples differ, hence scores do."""
        scores = {str([e["J"] for e in events(run(DecoEvo, seed=seed), "batch_graded")]) for seed in (1, 2)}
        scores.add(str([e["J"] for e in events(made("decoevo")[0], "batch_graded")]))
        assert len(scores) == 3

    def test_methods_of_one_seed_share_their_samples(self):
        """A shared store answers the second method's identical calls; its decisions are those of a run of its own."""
        store = CallStore(None)
        run(SkillOpt, store=store)
        shared, alone = run(DecoEvo, store=store), made("decoevo")[0]
        store.close()
        assert trace(shared) == trace(alone)
        assert shared.usage["solver"]["cached_calls"] > 0
        assert {r: u["calls"] for r, u in shared.usage.items()} == {r: u["calls"] for r, u in alone.usage.items()}


Warp = Callable[[bool, str], float]
WARPS: dict[str, Warp] = {
    "candidate perfect": lambda new, id: 1.0 if new else 0.0,
    "candidate useless": lambda new, id: 0.0 if new else 1.0,
    "all equal": lambda new, id: 0.5,
    "noise": lambda new, id: random.Random(f"{new}{id}").random(),
}


def warped(monkeypatch: pytest.MonkeyPatch, warp: Warp) -> list[int]:
    """Change what J evaluates to on V_g, for the initial generator and for all others; counts its uses."""
    first = Skill(run_first_generator())
    uses: list[int] = []
    original = Workbench.grade_all

    def altered(
        self: Workbench, items: Sequence[Item], solver: Skill, generator: Skill, sample: str = "0"
    ) -> dict[str, Graded]:
        graded = original(self, items, solver, generator, sample)
        if items[0].partition != "generator_gate":
            return graded
        uses.append(len(items))
        return {id: replace(one, score=warp(generator != first, id)) for id, one in graded.items()}

    monkeypatch.setattr(Workbench, "grade_all", altered)
    return uses


def run_first_generator() -> str:
    """g_0."""
    from decoevo_dspy.values.skill import GENERATOR_SKILL

    return simulated_task().generator_skill or GENERATOR_SKILL


class FixedAudit:
    """An audit whose records and objectives are given."""

    name = "fixed"
    heading = "Fixed"

    def __init__(self, values: dict[str, dict[str, float]]) -> None:
        self.values = values

    def findings(self, *_: Any) -> Any:
        """Not used."""
        raise AssertionError("verification needs no findings")

    def records(self, *_: Any) -> Sequence[Any]:
        """One record."""
        return ["record"]

    def describe(self, records: Sequence[Any]) -> list[dict[str, Any]]:
        """Nothing to add."""
        return []

    def objective(self, bench: Any, generator: Skill, records: Sequence[Any], outer: int) -> Objective:
        """The given values."""
        return Objective(values=self.values[generator.text])


class StubBench:
    """A bench whose J is what the test says."""

    def __init__(self, scores: dict[str, float]) -> None:
        self.settings, self.scores, self.asked = Settings(verify_z=0.0), scores, 0

    def grade_all(self, items: Sequence[Item], solver: Skill, generator: Skill) -> dict[str, Graded]:
        """J by generator."""
        self.asked += 1
        score = self.scores[generator.text]
        return {i.id: Graded(item=i, response="r", rubric=None, verdicts=(), score=score) for i in items}


class TestDecoupling:
    """Definition 1: no generator decision of DecoEvo depends on J; the score-coupled baseline's does."""

    @pytest.mark.parametrize("warp", WARPS.values(), ids=WARPS.keys())
    def test_changing_j_on_the_generator_gate_changes_no_decision_of_decoevo(
        self, warp: Warp, monkeypatch: pytest.MonkeyPatch
    ):
        """The whole trace is the same, decision by decision."""
        plain, _, _ = made("decoevo")
        uses = warped(monkeypatch, warp)
        assert trace(run(DecoEvo)) == trace(plain)
        assert uses == []
        assert any(e["candidate"] for e in events(plain, "generator_decision")), "no candidate; the test is empty"

    def test_changing_j_changes_the_decisions_of_the_score_coupled_baseline(self, monkeypatch: pytest.MonkeyPatch):
        """The same change turns the baseline's first real decision around."""

        def first(warp: Warp) -> bool:
            with monkeypatch.context() as patch:
                uses = warped(patch, warp)
                decisions = events(run(ScoreCoupledCoEvo), "generator_decision")
            assert uses
            return next(e["accepted"] for e in decisions if e["candidate"])

        assert first(WARPS["candidate perfect"]) is True
        assert first(WARPS["candidate useless"]) is False
        assert first(WARPS["all equal"]) is False

    @pytest.mark.parametrize("better", [True, False])
    def test_verification_with_fixed_audit_records(self, better: bool):
        """Audit records decide DecoEvo's verification, J decides the baseline's, each whatever the other says."""
        old, new, solver = Skill("old"), Skill("new"), Skill("solver")
        gate = [Item(question=Question.of(f"q {i}"), inputs={}, partition="generator_gate") for i in range(4)]
        values = {f"q{i}": 0.5 for i in range(4)}
        raised = dict.fromkeys(values, 0.9 if better else 0.1)
        audits: Any = [FixedAudit({"old": values, "new": raised})]
        for J in (0.0, 0.5, 1.0):
            bench: Any = StubBench({"old": 0.5, "new": J})
            by_audit = AuditVerification().verify(bench, audits, solver, old, new, gate, 1)
            assert bench.asked == 0
            by_score = ScoreVerification().verify(bench, audits, solver, old, new, gate, 1)
            assert bench.asked == 2
            assert isinstance(by_audit.decision, Accepted) is better
            assert isinstance(by_score.decision, Accepted) is (J > 0.52)
            assert isinstance(NoVerification().verify(bench, audits, solver, old, new, gate, 1).decision, Accepted)

    def test_an_undecided_score_never_accepts_in_the_baseline(self):
        """Ungraded items on V_g reject there too."""
        gate = [Item(question=Question.of(f"q {i}"), inputs={}, partition="generator_gate") for i in range(4)]
        bench: Any = StubBench({"old": 0.1, "new": 0.9})
        original = bench.grade_all

        def lossy(items: Sequence[Item], solver: Skill, generator: Skill) -> dict[str, Graded]:
            graded = original(items, solver, generator)
            return {
                id: replace(one, score=Ungraded(reason="x")) if i == 0 else one
                for i, (id, one) in enumerate(graded.items())
            }

        bench.grade_all = lossy
        decision = ScoreVerification().verify(bench, [], Skill("s"), Skill("old"), Skill("new"), gate, 1).decision
        assert decision.reason == "undecided: 1 of 4 questions ungraded"


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[Call], Path]:
    """A DecoEvo run in a folder, with all its stored prompts."""
    folder = tmp_path_factory.mktemp("dump") / "run"
    result = run(DecoEvo, log_dir=folder, num_threads=4, judge_mode="criterion")
    store = CallStore(folder / "calls.sqlite")
    calls = list(store.calls())
    store.close()
    return result, calls, folder


def prompt(call: Call) -> str:
    """All message texts of a call."""
    return "\n".join(text for _, text in call.messages)


def gold_texts() -> list[str]:
    """Every gold criterion of every question of the run."""
    dataset = load_simulated()
    opened = dataset.gold.open_for_evaluation(q.id for q in dataset.questions)
    return sorted({text for q in dataset.questions for text, _ in gold_criteria(q, opened[q.id])})


class TestLeaks:
    """A dump of every prompt of a run."""

    def test_every_role_is_in_the_dump(self, dumped: tuple[Any, list[Call], Path]):
        """All calls of the run are there, with their texts."""
        result, calls, _ = dumped
        assert {call.role for call in calls} == set(OPTIMISERS)
        assert len(calls) == sum(usage["calls"] for usage in result.usage.values())
        assert all(call.messages and prompt(call).strip() for call in calls)

    def test_no_gold_text_in_any_prompt(self, dumped: tuple[Any, list[Call], Path]):
        """Gold rubrics are for the final evaluator alone."""
        _, calls, _ = dumped
        gold = gold_texts()
        assert len(gold) > 20
        found = {(call.role, text) for call in calls for text in gold if text in prompt(call)}
        assert found == set()

    def test_no_question_of_another_partition_in_a_rewriters_prompt(self, dumped: tuple[Any, list[Call], Path]):
        """Neither gate's, nor diagnostic or test ones; not even six words of them."""
        _, calls, _ = dumped
        parts = partitions()
        closed = [*parts.solver_gate, *parts.generator_gate, *parts.diagnostic, *parts.test]
        task = simulated_task()
        open_ = passages(
            "\n\n".join([*(q.text for q in (*parts.train, *parts.probe)), task.description, task.evaluation])
        )
        secret = protected_passages(q.text for q in closed) - open_
        rewriters = [call for call in calls if call.role in REWRITERS]
        assert {call.role for call in rewriters} == set(REWRITERS)
        for call in rewriters:
            assert not any(q.text in prompt(call) for q in closed)
            assert not len(passages(prompt(call)) & secret)

    def test_the_generator_rewriter_reads_probe_findings_alone(self, dumped: tuple[Any, list[Call], Path]):
        """Its prompt is task, skill and the findings that the audit events hold; no train question, no score."""
        result, calls, _ = dumped
        findings = {f["principle"] for e in events(result, "audit") for f in e["findings"]}
        for call in (call for call in calls if call.role == "generator_rewriter"):
            body = call.messages[-1][1]
            section = body.split("[[ ## findings ## ]]")[1].split("[[ ## edit_budget ## ]]")[0]
            principles = [line[2:] for line in section.split("\n") if line.startswith("- ")]
            assert principles
            assert set(principles) <= findings
            assert not any(q.text in body for q in partitions().train)
            assert not re.search(r"\d\.\d", section), "a figure, such as a score"
            assert call.partition == "probe"
        probe = {q.id for q in partitions().probe}
        assert {f["question_id"] for e in events(result, "audit") for f in e["findings"]} <= probe

    def test_stage_one_sees_the_question_and_two_responses_and_nothing_else(self, dumped: tuple[Any, list[Call], Path]):
        """Every blind prompt is rebuilt exactly from a question and two stored answers to it."""
        _, calls, folder = dumped
        with closing(CallStore(folder / "calls.sqlite")) as store:
            key = store.fence_key
        assert key is not None
        blind = [c for c in calls if c.role == "contrastive_auditor" and c.sample.startswith("pair")]
        assert blind
        answers = [_answer(call) for call in calls if call.role == "solver"]
        for call in blind:
            user = call.messages[-1][1]
            fields = [part.split(" ## ]]")[0] for part in user.split("[[ ## ")[1:]]
            assert fields == ["question", "response_a", "response_b"]
            body = user.split("\n\nRespond with a JSON object")[0]
            question = next(q for _, qs in partitions().items() for q in qs if fence("question", q.text, key) in body)
            shown = [a for a in answers if fence("response A", a, key) in body or fence("response B", a, key) in body]
            rebuilt = {
                f"[[ ## question ## ]]\n{fence('question', question.text, key)}\n\n[[ ## response_a ## ]]\n"
                f"{fence('response A', a, key)}\n\n[[ ## response_b ## ]]\n{fence('response B', b, key)}"
                for a in shown
                for b in shown
            }
            assert body in rebuilt

    def test_no_call_belongs_to_a_closed_partition(self, dumped: tuple[Any, list[Call], Path]):
        """Pilot, diagnostic and test questions are not asked during the optimisation."""
        _, calls, _ = dumped
        assert {call.partition for call in calls} == {"train", "probe", "solver_gate", "generator_gate"}
        closed = [*partitions().diagnostic, *partitions().test]
        assert not any(q.text in prompt(call) for call in calls for q in closed)

    def test_the_log_holds_no_gold_and_no_closed_question(self, dumped: tuple[Any, list[Call], Path]):
        """Also not in the folder's text files."""
        _, _, folder = dumped
        written = "".join(p.read_text("utf-8") for p in folder.rglob("*") if p.suffix in (".json", ".jsonl", ".md"))
        assert not any(text in written for text in gold_texts())
        assert not any(q.text in written for q in (*partitions().diagnostic, *partitions().test))

    def test_the_evaluation_opens_the_gold_without_showing_it_to_the_solver(self, dumped: tuple[Any, list[Call], Path]):
        """The final pass asks the test questions once each, under its own partition."""
        result, _, _ = dumped
        dataset, store = load_simulated(), CallStore(None)
        student = dspy.Predict(AnswerQuestion)
        program: Any = DecoEvo(simulated_task(), steps=0, role_lms=RoleLMs(default=simulated_lm(0))).optimise(
            student, parts_for(partitions(), student)
        )
        done = evaluate(
            program,
            partitions().test,
            dataset.gold,
            SimulatedGrader(),
            role_lms=RoleLMs(default=simulated_lm(0)),
            seed=0,
            store=store,
            run="final",
            num_threads=2,
        )
        calls = list(store.calls())
        store.close()
        assert done.score.n_graded == done.score.n_total == len(partitions().test)
        assert done.score.score is not None
        assert 0 <= done.score.score <= 100
        assert {(c.role, c.partition) for c in calls} == {("solver", "test")}
        assert not any(text in prompt(call) for call in calls for text in gold_texts())
        assert result.to_dict()["official"] is None


def _answer(call: Call) -> str:
    """The response in a stored solver reply."""
    text = call.outputs[0] if isinstance(call.outputs[0], str) else call.outputs[0]["text"]
    return text.split("[[ ## response ## ]]")[1].split("[[ ## completed ## ]]")[0].strip()


class Counted:
    """Counts what the simulated backbone is asked, and may interrupt at one call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.stop_at = 0, 0
        original, lock = SimulatedBackbone.reply, threading.Lock()

        def reply(backbone: SimulatedBackbone, *args: Any, **options: Any) -> Any:
            with lock:
                self.calls += 1
                if self.calls == self.stop_at:
                    raise KeyboardInterrupt
            return original(backbone, *args, **options)

        monkeypatch.setattr(SimulatedBackbone, "reply", reply)


class TestResume:
    """An interrupted run, resumed, is the run that was never interrupted."""

    def test_an_interrupt_after_any_event_loses_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Same trace, same skills, not one repeated call, whichever event it followed."""
        counted = Counted(monkeypatch)
        whole = run(DecoEvo, log_dir=tmp_path / "whole", steps=2)
        total, decided = counted.calls, len(trace(whole))
        for k in sorted({1, 2, 3, decided // 2, decided - 1, decided}):
            counted.calls = 0
            seen: list[str] = []

            def interrupt(event: dict[str, Any], k: int = k, seen: list[str] = seen) -> None:
                seen.append("" if event.get("note") else event["kind"])
                if len([kind for kind in seen if kind]) == k and seen[-1]:
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                run(DecoEvo, log_dir=tmp_path / f"k{k}", steps=2, callbacks=[interrupt])
            resumed = run(DecoEvo, log_dir=tmp_path / f"k{k}", steps=2, resume=True)
            assert trace(resumed) == trace(whole), k
            assert texts(resumed) == texts(whole), k
            assert counted.calls == total, k
            assert resumed.stopped_by == "steps"
            assert {r: u["calls"] for r, u in resumed.usage.items()} == {r: u["calls"] for r, u in whole.usage.items()}
            for name in ("solver.json", "generator.json"):
                files = [(tmp_path / run_ / name).read_bytes() for run_ in ("whole", f"k{k}")]
                assert files[0] == files[1]

    def test_an_interrupt_inside_any_call_sends_only_that_call_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """Committed calls are replayed; the one in flight is asked again."""
        counted = Counted(monkeypatch)
        whole = run(DecoEvo, log_dir=tmp_path / "whole", steps=2)
        total = counted.calls
        for k in (1, 7, total // 2, total - 1, total):
            counted.calls, counted.stop_at = 0, k
            with pytest.raises(KeyboardInterrupt):
                run(DecoEvo, log_dir=tmp_path / f"k{k}", steps=2)
            counted.stop_at = 0
            resumed = run(DecoEvo, log_dir=tmp_path / f"k{k}", steps=2, resume=True)
            assert trace(resumed) == trace(whole), k
            assert texts(resumed) == texts(whole), k
            assert counted.calls == total + 1, k

    def test_an_interrupt_among_threads_sends_only_calls_in_flight_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """With four threads at most four calls are asked twice, and the run is the same."""
        counted = Counted(monkeypatch)
        whole = run(DecoEvo, log_dir=tmp_path / "whole", steps=2, num_threads=4)
        total = counted.calls
        for k in (total // 4, total // 2):
            counted.calls, counted.stop_at = 0, k
            with pytest.raises(KeyboardInterrupt):
                run(DecoEvo, log_dir=tmp_path / f"k{k}", steps=2, num_threads=4)
            counted.stop_at = 0
            resumed = run(DecoEvo, log_dir=tmp_path / f"k{k}", steps=2, num_threads=4, resume=True)
            assert trace(resumed) == trace(whole), k
            assert texts(resumed) == texts(whole), k
            assert total < counted.calls <= total + 4, k

    def test_a_finished_run_resumes_without_a_call(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Everything is replayed."""
        counted = Counted(monkeypatch)
        whole = run(SkillOpt, log_dir=tmp_path / "run")
        counted.calls = 0
        again = run(SkillOpt, log_dir=tmp_path / "run", resume=True)
        assert counted.calls == 0
        assert trace(again) == trace(whole)
        assert texts(again) == texts(whole)

    def test_a_budget_stop_resumes_with_more_budget(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Stopped before the call, resumed without repeating one."""
        counted = Counted(monkeypatch)
        whole = run(SkillOpt, log_dir=tmp_path / "whole")
        total, counted.calls = counted.calls, 0
        stopped = run(SkillOpt, log_dir=tmp_path / "run", budget=Budget(max_calls=total // 2))
        assert stopped.stopped_by == "budget"
        assert counted.calls == total // 2
        resumed = run(SkillOpt, log_dir=tmp_path / "run", resume=True)
        assert counted.calls == total
        assert trace(resumed) == trace(whole)

    def test_resuming_with_other_data_or_settings_that_matter_is_refused(self, tmp_path: Path):
        """A decision that comes out otherwise stops the run."""
        from decoevo_dspy.errors import ReplayDiverged

        run(SkillOpt, log_dir=tmp_path / "run")
        with pytest.raises(ReplayDiverged):
            run(SkillOpt, log_dir=tmp_path / "run", resume=True, batch_size=2)

    def test_accepted_skills_are_files(self, tmp_path: Path):
        """One file per version, numbered from 0."""
        result = run(DecoEvo, log_dir=tmp_path / "run")
        for kind, skills in (("solver", result.solver_skills), ("generator", result.generator_skills)):
            found = sorted((tmp_path / "run" / "skills").glob(f"{kind}-*.md"))
            assert [p.read_text("utf-8") for p in found] == [f"{skill.text}\n" for skill in skills]


def garble(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[str, str], bool], text: str = "no object here") -> None:
    """Replace the replies of some calls, chosen by system and user text."""
    original = SimulatedBackbone.reply

    def reply(backbone: SimulatedBackbone, messages: Any, **options: Any) -> Any:
        said = original(backbone, messages, **options)
        spoilt = spoil(str(messages[0]["content"]), str(messages[-1]["content"]))
        return replace(said, text=text, logprobs=None) if spoilt else said

    monkeypatch.setattr(SimulatedBackbone, "reply", reply)


class TestGates:
    """Gates that cannot decide reject."""

    def test_an_undecided_solver_gate_rejects(self, monkeypatch: pytest.MonkeyPatch):
        """Judges that fail on some V_s questions: every step is rejected as undecided, none accepted."""
        closed = [q.text for q in partitions().solver_gate[:2]]
        garble(
            monkeypatch,
            lambda system, user: (
                "Judge a response by every criterion" in system and any(text in user for text in closed)
            ),
        )
        result = run(SkillOpt)
        decisions = events(result, "solver_decision")
        assert [e["accepted"] for e in decisions] == [False] * 3
        assert {e["reason"] for e in decisions if e["candidate"]} == {"undecided: 2 of 5 questions ungraded"}
        assert result.solver_skill == result.solver_skills[0]

    def test_an_undecided_generator_gate_rejects(self, monkeypatch: pytest.MonkeyPatch):
        """Structural audits that fail on some V_g questions reject every candidate generator."""
        closed = [q.text for q in partitions().generator_gate[:2]]
        garble(
            monkeypatch,
            lambda system, user: "Audit a rubric before it is used" in system and any(t in user for t in closed),
        )
        result = run(DecoEvo)
        decisions = [e for e in events(result, "generator_decision") if e["candidate"]]
        assert decisions
        assert all(e["reason"].startswith("undecided: structural: 2 of 5") for e in decisions)
        assert len(result.generator_skills) == 1

    def test_a_rewriter_that_says_nothing_usable_is_a_rejection_with_its_reason(self, monkeypatch: pytest.MonkeyPatch):
        """The step goes on; stall counts, so that an audit follows after M rejections."""
        garble(monkeypatch, lambda system, user: "Improve a skill document" in system and "answer questions" in system)
        result = run(DecoEvo, audit_every=6, patience=2, steps=4)
        decisions = events(result, "solver_decision")
        assert all(not e["accepted"] for e in decisions)
        assert all(e["reason"].startswith("discarded: no usable reply of the rewriter (unparsable") for e in decisions)
        assert [e["step"] for e in events(result, "generator_decision")] == [2, 4]
        assert {e["trigger"] for e in events(result, "generator_decision")} == {"stall"}

    def test_a_skill_that_copies_a_question_is_discarded_as_leaking(self, monkeypatch: pytest.MonkeyPatch):
        """Of any partition, here of V_s: it never reaches the gate."""
        secret = " ".join(partitions().solver_gate[0].text.split()[:12])
        rewrite = (
            '{"rewrite": {"summary": "s", "edits": [{"op": "append", "target": "", "content": "- If asked: '
            f'{secret}"}}]}}}}'
        )
        garble(monkeypatch, lambda system, user: "Improve a skill document" in system, rewrite)
        result = run(SkillOpt, steps=1)
        (decision,) = events(result, "solver_decision")
        assert decision["accepted"] is False
        assert decision["reason"].startswith("discarded: leaking")
        assert result.solver_skill == result.solver_skills[0]

    def test_an_accepted_generator_has_the_incumbent_scored_again(self):
        """Proxies under different generators are not comparable."""
        result, _, _ = made("no-verification")
        decisions = trace(result)
        accepted = [i for i, e in enumerate(decisions) if e["kind"] == "generator_decision" and e["accepted"]]
        assert accepted
        for i in accepted:
            after = decisions[i + 1]
            assert after["kind"] == "incumbent_scored"
            assert after["generator"] == decisions[i]["candidate"]
        gates = [e for e in decisions if e["kind"] == "solver_decision" and e["candidate"]]
        assert len({e["generator"] for e in gates}) > 1

    @pytest.mark.parametrize("choice", ["fresh", "cached"])
    def test_fresh_verification_draws_rubrics_again_and_cached_does_not(self, choice: str):
        """``verify_rubrics``: samples of their own on V_g for both generators, or none."""
        store = CallStore(None)
        run(DecoEvo, store=store, verify_rubrics=choice)
        drawn = {
            (c.partition, c.params["temperature"])
            for c in store.calls(texts=False)
            if c.role == "rubric_generator" and c.sample.startswith("verify")
        }
        store.close()
        assert drawn == ({("generator_gate", 0.7)} if choice == "fresh" else set())


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.floats(0, 1)), st.sampled_from("abcdef")), max_size=8),
    st.floats(0, 1),
    st.integers(1, 5),
    st.integers(),
)
def test_pair_selection(draws: list[tuple[float | None, str]], tau: float, most: int, seed: int):
    """Near-ties: graded, distinct, within τ, smallest gaps first, none better left out. Random pairs: any graded."""
    scores, responses = [s for s, _ in draws], [r for _, r in draws]

    def gap(i: int, j: int) -> float:
        a, b = scores[i], scores[j]
        assert a is not None
        assert b is not None
        return abs(a - b)

    usable = [
        (i, j)
        for i in range(len(draws))
        for j in range(i + 1, len(draws))
        if scores[i] is not None and scores[j] is not None and responses[i] != responses[j]
    ]
    found = near_ties(scores, responses, tau, most, random.Random(seed))
    gaps = [gap(i, j) for i, j in found]
    within = sorted(gap(i, j) for i, j in usable if gap(i, j) <= tau)
    assert set(found) <= set(usable)
    assert len(found) >= min(most, len(within))
    assert all(g <= tau + 1e-8 for g in gaps)
    assert gaps == pytest.approx(sorted(gaps), abs=1e-8)
    assert gaps[: len(within)] == pytest.approx(within[: len(gaps)], abs=1e-8)
    drawn = random_pairs(scores, responses, tau, most, random.Random(seed))
    assert set(drawn) <= set(usable)
    assert len(set(drawn)) == len(drawn) == min(most, len(usable))
    assert drawn == random_pairs(scores, responses, 0.0, most, random.Random(seed))


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12), st.floats(0.01, 1))
def test_resolution(margins: list[float], gamma: float):
    """Resolution counts m ≥ γ; net takes the reversed ones away, and is odd in the margins."""
    resolution = net_resolution(margins, gamma, "resolution")
    net = net_resolution(margins, gamma, "net")
    assert 0 <= resolution <= 1
    assert -1 <= net <= resolution
    assert net == pytest.approx(-net_resolution([-m for m in margins], gamma, "net"))
    assert net == pytest.approx(resolution - net_resolution([-m for m in margins], gamma, "resolution"))


class TestSchedule:
    """Batches and triggers."""

    @given(st.integers(1, 12), st.integers(1, 15), st.integers(0, 5))
    def test_an_epoch_visits_every_train_question_once(self, n: int, size: int, seed: int):
        """Slices of a shuffle; the last one may be short; epochs differ."""
        items = [Item(question=Question.of(f"q {i}"), inputs={}, partition="train") for i in range(n)]
        settings = Settings(batch_size=size)
        per_epoch = -(-n // min(size, n))
        for epoch in range(2):
            batches = [batch_of(items, settings, seed, epoch * per_epoch + s + 1) for s in range(per_epoch)]
            assert [e for _, e in batches] == [epoch] * per_epoch
            seen = [item.id for batch, _ in batches for item in batch]
            assert sorted(seen) == sorted(item.id for item in items)
            assert all(len(batch) <= size for batch, _ in batches)

    @pytest.mark.parametrize(
        ("since", "stall", "due"), [(0, 0, False), (2, 1, False), (3, 0, True), (4, 1, True), (1, 2, True)]
    )
    def test_an_audit_is_due_after_k_steps_or_m_rejections(self, since: int, stall: int, due: bool):
        """K = 3, M = 2."""
        state = State(solvers=[Skill("s")], generators=[Skill("g")], since_audit=since, stall=stall)
        assert audit_is_due(state, Settings()) is due

    @pytest.mark.parametrize(("every", "patience"), [(2, 1), (3, 2), (5, 1), (2, 4)])
    def test_audits_come_when_the_decisions_say_so(self, every: int, patience: int):
        """The steps of all audits follow from the solver decisions before them."""
        result = run(DecoEvo, audit_every=every, patience=patience, steps=5, rollouts=2)
        due, since, stall = list[tuple[int, str]](), 0, 0
        for decision in events(result, "solver_decision"):
            since, stall = since + 1, 0 if decision["accepted"] else stall + 1
            if since >= every or stall >= patience:
                due.append((decision["step"], "stall" if stall >= patience else "schedule"))
                since = stall = 0
        assert [(e["step"], e["trigger"]) for e in events(result, "generator_decision")] == due


FIXED_GENERATOR = {"zero-shot", "skillopt", "task-prior", "budget-matched", "direct-audit"}
Finished = Callable[[str], tuple[Any, list[Call], dspy.Module]]


@pytest.fixture
def finished() -> Finished:
    """The runs of `made`."""
    return made


@pytest.mark.parametrize("name", METHODS)
class TestContract:
    """What every method keeps."""

    def test_its_events_are_shaped(self, name: str, finished: Finished):
        """It starts and ends, counts on, and every decision says what, why and from which parent."""
        result, _, _ = finished(name)
        kinds = [e["kind"] for e in trace(result)]
        assert kinds[:2] == ["run_started", "incumbent_scored"]
        assert result.stopped_by == ("budget" if name == "budget-matched" else "steps")
        assert (kinds[-1] == "run_finished") is (result.stopped_by == "steps")
        assert [e["seq"] for e in result.history] == list(range(1, len(result.history) + 1))
        positions = [e["calls_upto"] for e in result.history]
        assert positions == sorted(positions)
        assert result.history[0]["method"] == result.method == name
        for event in [*events(result, "solver_decision"), *events(result, "generator_decision")]:
            assert event["reason"]
            assert isinstance(event["accepted"], bool)
            assert {"step", "parent", "candidate", "text", "edits", "deltas", "standard_errors"} <= event.keys()
            assert event["accepted"] <= (event["candidate"] is not None)

    def test_accepted_decisions_are_the_skills_of_the_result(self, name: str, finished: Finished):
        """Each acceptance adds one version, whose parent is the version before."""
        result, _, _ = finished(name)
        for kind, skills in (("solver", result.solver_skills), ("generator", result.generator_skills)):
            accepted = [e for e in events(result, f"{kind}_decision") if e["accepted"]]
            assert [e["candidate"] for e in accepted] == [skill.key for skill in skills[1:]]
            assert [e["parent"] for e in accepted] == [skill.key for skill in skills[:-1]]
            assert [e["text"] for e in accepted] == [skill.text for skill in skills[1:]]

    def test_it_leaves_the_student_alone(self, name: str, finished: Finished):
        """The program it was given is as it was."""
        _, _, student = finished(name)
        assert student.dump_state() == dspy.Predict(AnswerQuestion).dump_state()

    def test_it_reads_four_partitions_alone(self, name: str, finished: Finished):
        """No closed question in any prompt; rewriters see no gate question; the probe is for audits."""
        result, calls, _ = finished(name)
        parts = partitions()
        assert {call.partition for call in calls} <= {"train", "probe", "solver_gate", "generator_gate"}
        closed = [*parts.diagnostic, *parts.test]
        gates = [*parts.solver_gate, *parts.generator_gate]
        for call in calls:
            assert not any(q.text in prompt(call) for q in closed)
            if call.role in REWRITERS:
                assert not any(q.text in prompt(call) for q in gates)
        assert {k: set(v) for k, v in result.partitions.items()} == {
            k: {q.id for q in v} for k, v in parts.items() if k in result.partitions
        }

    def test_its_usage_is_what_its_calls_used(self, name: str, finished: Finished):
        """The roll-up equals the store."""
        result, calls, _ = finished(name)
        for role, usage in result.usage.items():
            mine = [call for call in calls if call.role == role]
            assert usage["calls"] == len(mine)
            assert usage["prompt_tokens"] == sum(call.prompt_tokens for call in mine)
            assert usage["completion_tokens"] == sum(call.completion_tokens for call in mine)
        assert {call.role for call in calls} == set(result.usage)

    def test_its_generator_evolves_only_where_it_may(self, name: str, finished: Finished):
        """Methods with a fixed generator make no generator decision and call no generator rewriter."""
        result, calls, _ = finished(name)
        decides = bool(events(result, "generator_decision"))
        assert decides is (name not in FIXED_GENERATOR)
        rewrites = any(call.role == "generator_rewriter" for call in calls)
        assert rewrites is (name not in FIXED_GENERATOR and name != "no-distillation")
        if name in FIXED_GENERATOR:
            assert len(result.generator_skills) == 1

    def test_it_runs_its_audits_and_no_others(self, name: str, finished: Finished):
        """Which auditors are asked, and whether stage 1 is blind."""
        result, calls, _ = finished(name)
        audited = {e["audit"] for e in events(result, "audit")}
        wanted = {"structural", "contrastive"}
        if name in FIXED_GENERATOR - {"direct-audit"}:
            wanted = set()
        wanted -= {"no-structural": {"structural"}, "no-contrastive": {"contrastive"}}.get(name, set())
        assert audited == wanted
        roles = {call.role for call in calls}
        assert ("structural_auditor" in roles) is ("structural" in wanted)
        assert ("contrastive_auditor" in roles) is ("contrastive" in wanted)
        stage1 = [c for c in calls if c.role == "contrastive_auditor" and c.sample.startswith("pair")]
        seeing = [c for c in stage1 if "[[ ## rubric_scores ## ]]" in prompt(c)]
        assert len(seeing) == (len(stage1) if name == "no-blind" else 0)

    def test_its_result_is_plain_json(self, name: str, finished: Finished):
        """``result.json`` has the contract's keys."""
        import json

        result, _, _ = finished(name)
        plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert {
            "method", "seed", "solver_skill", "generator_skill", "official", "proxy", "steps", "solver_accepted",
            "generator_accepted", "usage", "wall_s", "stopped_by",
        } <= plain.keys()  # fmt: skip
        assert plain["solver_accepted"] == len(result.solver_skills) - 1
        assert 0 <= plain["proxy"] <= 100


class TestDifferences:
    """What one method does that its neighbour does not."""

    def test_zero_shot_takes_no_step(self, finished: Finished):
        """The initial skill is scored and returned."""
        result, calls, _ = finished("zero-shot")
        assert result.steps == 0
        assert [e["kind"] for e in trace(result)] == ["run_started", "incumbent_scored", "run_finished"]
        assert {call.partition for call in calls} == {"solver_gate"}

    def test_task_prior_has_the_specification_in_its_generator_skill(self, finished: Finished):
        """π_str is appended to g_0."""
        result, _, _ = finished("task-prior")
        assert Skill(simulated_task().specification()).text in result.generator_skill.text
        assert result.generator_skill.text.startswith(run_first_generator())

    def test_direct_audit_gives_its_findings_to_the_solver_rewriter(self, finished: Finished):
        """From the step after the first audit on."""
        result, calls, _ = finished("direct-audit")
        found = [f["principle"] for e in events(result, "audit") if e["step"] == 1 for f in e["findings"]]
        assert found
        prompts = {call.sample.split("~")[0]: prompt(call) for call in calls if call.role == "solver_rewriter"}
        assert all(principle in prompts["step2"] for principle in found)
        _, others, _ = finished("decoevo")
        assert not any("What rubrics left out" in prompt(c) for c in others if c.role == "solver_rewriter")

    def test_no_distillation_appends_principles_verbatim(self, finished: Finished):
        """Each new line of a candidate is a principle of the audit before it."""
        result, _, _ = finished("no-distillation")
        for event in events(result, "generator_decision"):
            principles = {
                " ".join(f["principle"].split())
                for e in events(result, "audit")
                if e["step"] == event["step"]
                for f in e["findings"]
            }
            assert {edit["content"].removeprefix("- ") for edit in event["edits"]} <= principles

    def test_no_verification_accepts_every_candidate(self, finished: Finished):
        """Without a look at V_g."""
        result, calls, _ = finished("no-verification")
        assert all(e["accepted"] for e in events(result, "generator_decision") if e["candidate"])
        assert not any(call.partition == "generator_gate" for call in calls)

    def test_budget_matched_needs_a_budget_and_uses_it_up(self, finished: Finished):
        """Its calls reach the cap and do not pass it."""
        with pytest.raises(ConfigurationError, match="needs a budget"):
            METHODS["budget-matched"](simulated_task())
        result, _, _ = finished("budget-matched")
        assert sum(usage["calls"] for usage in result.usage.values()) == 200
        assert result.steps > 3

    def test_random_pairs_are_not_only_near_ties(self, finished: Finished):
        """Gaps beyond τ_tie occur without near-tie selection, and never with it."""
        gaps = {
            name: [
                p["gap"] for e in events(finished(name)[0], "audit") if e["audit"] == "contrastive" for p in e["pairs"]
            ]
            for name in ("decoevo", "no-near-tie")
        }
        assert max(gaps["decoevo"]) <= QUICK["tau_tie"] + 1e-6
        assert max(gaps["no-near-tie"]) > QUICK["tau_tie"]
