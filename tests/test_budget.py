"""`decoevo_dspy.calls.budget` and `executor`: caps before the call, true usage, bounded and ordered work."""

import json
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import dspy
import pytest

from decoevo_dspy import RoleLMs, SkillOpt, simulated_lm
from decoevo_dspy.benchmarks.simulated import load_simulated, simulated_task
from decoevo_dspy.calls.budget import Budget, Ledger
from decoevo_dspy.calls.executor import Executor
from decoevo_dspy.errors import BudgetExceeded, ConfigurationError
from tests.conftest import Answer, Bench, ScriptedEndpoint

Recording = Callable[..., Bench]


class TestBudget:
    """Caps."""

    @pytest.mark.parametrize("field", ["max_calls", "max_tokens", "max_usd"])
    @pytest.mark.parametrize("bad", [0, -1, float("nan")])
    def test_a_cap_is_above_zero(self, field: str, bad: Any):
        """A cap of 0 would stop everything; NaN would stop nothing."""
        with pytest.raises(ConfigurationError, match=f"budget.{field}"):
            Budget(**{field: bad})

    @pytest.mark.parametrize(
        ("budget", "calls", "named"),
        [
            (Budget(max_calls=3), 3, "3 calls"),
            (Budget(max_tokens=25), 3, "25 tokens"),
            (Budget(max_calls=2, max_tokens=1000), 2, "2 calls"),
            (Budget(max_calls=100, max_tokens=10), 1, "10 tokens"),
        ],
    )
    def test_the_first_cap_reached_stops_before_the_call(
        self, budget: Budget, calls: int, named: str, endpoint: ScriptedEndpoint, recording: Recording
    ):
        """Each call here uses 10 tokens; the refused one is never sent."""
        endpoint.answers("ok")
        lm = recording(budget=budget).record(endpoint.lm())
        for i in range(calls):
            lm(f"prompt {i}")
        with pytest.raises(BudgetExceeded, match=named):
            lm("one more")
        assert len(endpoint.sent) == calls

    def test_money_is_what_was_paid(self, recording: Recording, endpoint: ScriptedEndpoint):
        """A priced model stops at its cap; replayed calls of another run cost nothing."""
        endpoint.answers("ok")
        budget = Budget(max_usd=1e-9)
        bench = recording(budget=budget)
        lm = bench.record(endpoint.lm("openai/gpt-4o"))
        lm("first")
        assert bench.recorder.ledger.totals()["usd"] > 1e-9
        with pytest.raises(BudgetExceeded, match="USD"):
            lm("second")
        assert BudgetExceeded.exit_code == 3

    def test_a_replayed_call_of_the_same_run_is_free(self, recording: Recording, endpoint: ScriptedEndpoint):
        """Asking again for what was counted needs no room."""
        endpoint.answers("ok")
        lm = recording(budget=Budget(max_calls=1)).record(endpoint.lm())
        assert [lm("same")[0] for _ in range(3)] == ["ok"] * 3
        assert len(endpoint.sent) == 1

    def test_calls_that_another_run_paid_count_as_logical_ones(
        self, recording: Recording, endpoint: ScriptedEndpoint, tmp_path: Path
    ):
        """What the method needs is counted even when the store answers, so that budgets mean the same everywhere."""
        endpoint.answers("ok")
        first = recording(tmp_path / "calls.sqlite", run="one").record(endpoint.lm())
        for i in range(3):
            first(f"p{i}")
        second = recording(tmp_path / "calls.sqlite", run="two", budget=Budget(max_calls=2)).record(endpoint.lm())
        second("p0")
        second("p1")
        with pytest.raises(BudgetExceeded):
            second("p2")
        usage = second.recorder.ledger.by_role()["judge"]
        assert (usage["calls"], usage["cached_calls"], usage["prompt_tokens"]) == (2, 2, 14)
        assert (usage["paid_tokens"], usage["usd"], usage["latency_s"]) == (0, 0.0, 0.0)
        assert len(endpoint.sent) == 3

    @pytest.mark.parametrize("role", ["grader", "matcher"])
    def test_measuring_is_outside_the_caps(self, role: str, recording: Recording, endpoint: ScriptedEndpoint):
        """Official graders neither use up a budget nor are stopped by it, but are reported."""
        endpoint.answers("ok")
        bench = recording(budget=Budget(max_calls=1))
        grader, judge = bench.record(endpoint.lm(), role), bench.record(endpoint.lm(), "judge")
        for i in range(3):
            grader(f"g{i}")
        judge("j")
        grader("g9")
        assert bench.recorder.ledger.by_role()[role]["calls"] == 4
        assert bench.recorder.ledger.totals()["calls"] == 1

    def test_concurrent_calls_do_not_pass_the_cap(self, recording: Recording, endpoint: ScriptedEndpoint):
        """Room is taken before a call is sent."""
        endpoint.answers(Answer(content="ok", delay_s=0.05))
        bench = recording(budget=Budget(max_calls=5), threads=8)
        lm = bench.record(endpoint.lm())

        def ask(i: int) -> bool:
            try:
                return bool(lm(f"p{i}"))
            except BudgetExceeded:
                return False

        done = bench.recorder.executor.map(ask, range(20))
        assert sum(done) == len(endpoint.sent) == 5


class TestFromRun:
    """A finished run as a budget."""

    def test_it_takes_logical_calls_and_tokens(self, tmp_path: Path):
        """All roles together, by folder or by file."""
        role = {"calls": 3, "cached_calls": 2, "prompt_tokens": 10, "completion_tokens": 5, "usd": None}
        (tmp_path / "result.json").write_text(json.dumps({"usage": {"solver": role, "judge": role}}), encoding="utf-8")
        wanted = Budget(max_calls=6, max_tokens=30)
        assert Budget.from_run(tmp_path) == Budget.from_run(str(tmp_path / "result.json")) == wanted

    @pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"usage": {"solver": {}}}', '{"usage": 3}'])
    def test_without_a_finished_run_it_is_one_clear_line(self, text: str | None, tmp_path: Path):
        """Missing, empty or foreign files."""
        if text is not None:
            (tmp_path / "result.json").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match="no finished run to take a budget from"):
            Budget.from_run(tmp_path)

    def test_a_real_run_can_be_taken(self, tmp_path: Path):
        """The caps are the usage of result.json."""
        train = [dspy.Example(question=q.text).with_inputs("question") for q in load_simulated().questions[:9]]
        optimizer = SkillOpt(
            simulated_task(),
            steps=1,
            batch_size=2,
            role_lms=RoleLMs(default=simulated_lm(0)),
            log_dir=tmp_path / "run",
            num_threads=1,
        )
        program: Any = optimizer.compile(dspy.Predict("question -> response"), trainset=train)
        budget = Budget.from_run(tmp_path / "run")
        usage = program.detailed_results.usage.values()
        assert budget.max_calls == sum(role["calls"] for role in usage)
        assert budget.max_tokens == sum(role["prompt_tokens"] + role["completion_tokens"] for role in usage)


class TestLedger:
    """Roll-ups."""

    def test_usage_is_by_role(self, recording: Recording, endpoint: ScriptedEndpoint):
        """Calls, tokens, truncations and failures of each role; asking again adds nothing."""
        endpoint.answers("ok", Answer(content="cut", finish_reason="length"), "ok")
        bench = recording()
        judge, solver = (bench.record(endpoint.lm(), role) for role in ("judge", "solver"))
        judge("a")
        judge("b")
        solver("a")
        solver("a")
        usage = bench.recorder.ledger.by_role()
        assert list(usage) == ["judge", "solver"]
        assert usage["judge"] | {"latency_s": 0, "usd": 0} == {
            "calls": 2,
            "cached_calls": 0,
            "prompt_tokens": 14,
            "completion_tokens": 6,
            "paid_tokens": 20,
            "usd": 0,
            "failed_calls": 0,
            "truncated_calls": 1,
            "latency_s": 0,
        }
        assert usage["solver"]["calls"] == 1
        assert usage["judge"]["latency_s"] > 0

    def test_an_unknown_price_is_unknown_and_not_zero(self, recording: Recording, endpoint: ScriptedEndpoint):
        """A paid call without a price makes the sum unknown."""
        endpoint.answers("ok")
        bench = recording()
        bench.record(endpoint.lm("openai/never-priced"))("a")
        assert bench.recorder.ledger.by_role()["judge"]["usd"] is None

    def test_a_forgotten_call_is_taken_back(self):
        """Failed calls that will be sent again are not counted twice."""
        ledger = Ledger("run", Budget(max_calls=1))
        ledger.begin("k", "judge")
        ledger.forget("k")
        ledger.begin("other", "judge")
        assert ledger.totals()["calls"] == 1
        ledger.forget("never seen")
        assert ledger.totals()["calls"] == 1


class TestExecutor:
    """Order, bounds, context, errors."""

    @pytest.mark.parametrize("bad", [0, 257, -1, True, 2.0, "4", None])
    def test_thread_counts(self, bad: Any):
        """1 to 256, whole."""
        with pytest.raises(ConfigurationError, match="num_threads"):
            Executor(bad)

    @pytest.mark.parametrize("threads", [1, 3, 16])
    def test_results_keep_the_order_of_items(self, threads: int):
        """Whatever finishes first."""

        def slow(i: int) -> int:
            time.sleep(0.002 * ((7 * i) % 5))
            return i * i

        assert Executor(threads).map(slow, range(30)) == [i * i for i in range(30)]

    def test_no_item_is_no_work(self):
        """An empty map returns an empty list."""
        assert Executor(4).map(lambda i: i, []) == []

    @pytest.mark.parametrize("threads", [1, 2, 5])
    def test_no_more_calls_at_once_than_threads(self, threads: int, endpoint: ScriptedEndpoint, recording: Recording):
        """The bound holds over nested maps, measured at the endpoint, and is used."""
        endpoint.answers(Answer(content="ok", delay_s=0.03))
        bench = recording(threads=threads)
        lm, executor = bench.record(endpoint.lm()), bench.recorder.executor
        executor.map(lambda i: executor.map(lambda j: lm(f"{i}-{j}"), range(3)), range(6))
        assert len(endpoint.sent) == 18
        assert endpoint.most_at_once == threads

    @pytest.mark.parametrize("threads", [1, 4])
    def test_the_callers_context_reaches_every_task(self, threads: int):
        """Both context variables and ``dspy.context``."""
        variable: ContextVar[str] = ContextVar("variable", default="unset")
        variable.set("mine")
        with dspy.context(rollout_marker="here"):  # pyright: ignore[reportCallIssue]
            seen = Executor(threads).map(lambda i: (variable.get(), dspy.settings.get("rollout_marker")), range(6))
        assert seen == [("mine", "here")] * 6

    def test_tasks_do_not_share_their_context(self):
        """What one task sets, no other sees."""
        variable: ContextVar[int] = ContextVar("variable", default=-1)

        def task(i: int) -> int:
            before = variable.get()
            variable.set(i)
            time.sleep(0.002)
            return before

        assert Executor(4).map(task, range(12)) == [-1] * 12

    @pytest.mark.parametrize("threads", [1, 4])
    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, BudgetExceeded])
    def test_the_first_error_is_raised_and_the_rest_cancelled(self, threads: int, error: type[BaseException]):
        """Nothing begins any more after a task has failed, and the caller gets that very error."""
        begun: list[int] = []
        lock = threading.Lock()

        def task(i: int) -> None:
            with lock:
                begun.append(i)
            if i == 2:
                raise error("item 2")
            time.sleep(0.01)

        with pytest.raises(error, match="item 2"):
            Executor(threads).map(task, range(200))
        assert len(begun) < 40
