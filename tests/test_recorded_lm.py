"""`decoevo_dspy.calls.recording`: the one door to a model replays, counts, types failures, and stops in time."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from decoevo_dspy import RoleLMs, SkillOpt, Task
from decoevo_dspy.calls.failing import CallFailed
from decoevo_dspy.calls.recording import Recorder, call_scope
from decoevo_dspy.errors import EndpointError
from decoevo_dspy.roles import RubricJudge
from decoevo_dspy.rules.replies import without_reasoning
from decoevo_dspy.run.workbench import BATCH_TRIES, Graded, Item, Workbench
from decoevo_dspy.simulation.backbone import SimulatedBackbone
from decoevo_dspy.teleprompters import base
from decoevo_dspy.values.rubric import Criterion, Rubric, Ungraded, Verdict
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.task import Question
from tests.conftest import Answer, Bench, ScriptedEndpoint

Recording = Callable[..., Bench]
TASK = Task(name="t", description="Answer.", evaluation="Be right.")
ONE = Rubric(criteria=(Criterion(text="names a dose", points=3),))
GOOD = '{"verdict": {"rationale": "it does", "score": 7}}'
ERROR = {"error": {"message": "went wrong"}}


class TestReplay:
    """The same request of the same seed and sample is sent once, ever."""

    def test_replay_makes_no_request(self, endpoint: ScriptedEndpoint, recording: Recording, tmp_path: Path):
        """Another process of the run gets the stored reply, without an endpoint."""
        endpoint.answers("one", "two", "three")
        lm = recording(tmp_path / "calls.sqlite").record(endpoint.lm())
        first = [lm("a"), lm("b"), lm("a")]
        endpoint.answers(Answer(status=500))
        again = recording(tmp_path / "calls.sqlite").record(endpoint.lm())
        assert [again("a"), again("b")] == first[:2]
        assert first == [["one"], ["two"], ["one"]]
        assert len(endpoint.sent) == 2

    @pytest.mark.parametrize("send_seed", [True, False])
    @pytest.mark.parametrize(
        "change", ["prompt", "temperature", "role", "partition", "sample", "seed", "model", "rollout_id"]
    )
    def test_whatever_makes_another_sample_makes_another_call(
        self, change: str, send_seed: bool, endpoint: ScriptedEndpoint, recording: Recording, tmp_path: Path
    ):
        """The key holds role, partition, sample, seed, model and content."""
        endpoint.answers("one", "two")

        def ask(**changed: Any) -> str:
            given: dict[str, Any] = {
                "prompt": "p", "temperature": 1.0, "role": "judge", "partition": "train", "sample": "0", "seed": 0,
                "model": "openai/test", "rollout_id": 1,
            } | changed  # fmt: skip
            bench = recording(tmp_path / "calls.sqlite", seed=given["seed"])
            lm = bench.record(endpoint.lm(given["model"]), given["role"], send_seed)
            with call_scope(partition=given["partition"], sample=given["sample"]):
                return lm(given["prompt"], temperature=given["temperature"], rollout_id=given["rollout_id"])[0]

        other = {
            "prompt": "q", "temperature": 0.9, "role": "solver", "partition": "probe", "sample": "1", "seed": 1,
            "model": "openai/other", "rollout_id": 2,
        }[change]  # fmt: skip
        assert ask() == "one"
        assert ask(**{change: other}) == "two"
        assert ask() == "one"
        assert len(endpoint.sent) == 2

    def test_account_and_patience_are_no_part_of_the_key(
        self, endpoint: ScriptedEndpoint, recording: Recording, tmp_path: Path
    ):
        """A run resumed with another API key, header or timeout replays."""
        endpoint.answers("one", "two")
        for key in ("first", "second"):
            options: dict[str, Any] = {"api_key": key, "extra_headers": {"X": key}, "timeout": 10 * len(key)}
            lm = recording(tmp_path / "c.sqlite").record(endpoint.lm(**options))
            assert lm("a") == ["one"]
        assert len(endpoint.sent) == 1

    def test_identical_concurrent_requests_are_sent_once(self, endpoint: ScriptedEndpoint, recording: Recording):
        """Single flight: eight askers, one request, one answer."""
        endpoint.answers(Answer(content="ok", delay_s=0.1))
        bench = recording(threads=8)
        lm = bench.record(endpoint.lm())
        assert bench.recorder.executor.map(lambda _: lm("same"), range(8)) == [["ok"]] * 8
        assert len(endpoint.sent) == 1
        assert bench.recorder.ledger.by_role()["judge"]["calls"] == 1

    def test_dspys_own_cache_is_bypassed(self, endpoint: ScriptedEndpoint, recording: Recording):
        """Two runs of another seed never share a reply through DSPy's cache."""
        endpoint.answers("one", "two")
        inner = dspy.LM(
            "openai/cache-test", engine="litellm", api_base=f"{endpoint.origin}/v1", api_key="x", cache=True
        )
        replies = [recording().record(inner, send_seed=False)("cached?") for _ in range(2)]
        assert replies == [["one"], ["two"]]

    def test_the_callers_lm_is_left_alone(self, endpoint: ScriptedEndpoint, recording: Recording):
        """No option is set on it, and its history stays its own."""
        endpoint.answers("ok")
        inner = endpoint.lm(temperature=0.3)
        before = dict(inner.kwargs)
        recording().record(inner)("a", rollout_id=3)
        assert inner.kwargs == before
        assert inner.history == []

    @pytest.mark.parametrize("text", ["中文 😀", "lone \ud800", "nul \x00", "\u2028"])
    def test_any_text_may_be_asked_and_answered(self, text: str, endpoint: ScriptedEndpoint, recording: Recording):
        """Lone surrogates become ``?`` on the way out and on the way in."""
        endpoint.answers(text)
        bench = recording()
        lm = bench.record(endpoint.lm())
        shown = text.encode("utf-8", "replace").decode("utf-8")
        assert lm(text) == lm(messages=None, prompt=text) == [shown]
        assert endpoint.sent[0].body["messages"][0]["content"] == shown
        (call,) = bench.recorder.store.calls()
        assert call.messages == (("user", shown),)


class TestFailures:
    """Which layer failed, and whether sending again can help."""

    @pytest.mark.parametrize("status", [401, 403, 404])
    def test_an_endpoint_that_cannot_be_used_stops_at_once(
        self, status: int, endpoint: ScriptedEndpoint, recording: Recording
    ):
        """Wrong key, no permission, unknown model: one request, one line with model and role, nothing stored."""
        endpoint.answers(Answer(status=status, body=ERROR))
        bench = recording()
        lm = bench.record(endpoint.lm(num_retries=3), "solver")
        with pytest.raises(EndpointError, match=r"openai/test \(role solver\) cannot be used") as caught:
            lm("a")
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 4
        assert len(endpoint.sent) == 1
        assert list(bench.recorder.store.calls()) == []

    def test_a_rate_limit_is_waited_out(self, endpoint: ScriptedEndpoint, recording: Recording):
        """429 with Retry-After: the wait is the server's, then the reply counts as one call."""
        busy = Answer(status=429, body=ERROR, headers={"Retry-After": "2"})
        endpoint.answers(busy, "ok")
        bench = recording()
        started = time.monotonic()
        assert bench.record(endpoint.lm(num_retries=2))("a") == ["ok"]
        assert time.monotonic() - started >= 1.9
        assert len(endpoint.sent) == 2
        assert bench.recorder.ledger.by_role()["judge"]["calls"] == 1
        assert bench.recorder.failures == []

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_a_call_that_keeps_failing_is_a_typed_infrastructure_failure(
        self, status: int, endpoint: ScriptedEndpoint, recording: Recording
    ):
        """Stored with its error; replayed as the same failure; sent again once it is forgotten."""
        endpoint.answers(Answer(status=status, body=ERROR))
        bench = recording()
        lm = bench.record(endpoint.lm())
        for _ in range(2):
            with pytest.raises(CallFailed, match=r"endpoint: LM.*went wrong") as caught:
                lm("a")
            assert caught.value.infrastructure
        assert len(endpoint.sent) == 1
        assert bench.recorder.ledger.by_role()["judge"]["failed_calls"] == 1
        endpoint.answers("fine now")
        bench.recorder.forget(key for _, key in bench.recorder.failures)
        assert lm("a") == ["fine now"]
        assert bench.recorder.ledger.by_role()["judge"] | {"latency_s": 0, "usd": 0} == {
            "calls": 1, "cached_calls": 0, "prompt_tokens": 7, "completion_tokens": 3, "paid_tokens": 10, "usd": 0,
            "failed_calls": 0, "truncated_calls": 0, "latency_s": 0,
        }  # fmt: skip

    def test_another_run_of_the_experiment_sends_a_failed_call_again(
        self, endpoint: ScriptedEndpoint, recording: Recording, tmp_path: Path
    ):
        """A failure is the run's own: a run that shares the store is not failed by it, and does not erase it."""
        endpoint.answers(Answer(status=500, body=ERROR))
        first = recording(tmp_path / "calls.sqlite", run="first")
        with pytest.raises(CallFailed):
            first.record(endpoint.lm())("a")
        endpoint.answers("fine")
        second = recording(tmp_path / "calls.sqlite", run="second")
        assert second.record(endpoint.lm())("a") == ["fine"]
        assert [call.error == "" for call in first.recorder.store.calls()] == [False, True]

    def test_a_closed_port_is_an_infrastructure_failure(self, recording: Recording):
        """Endpoint down."""
        dead = dspy.LM("openai/t", engine="litellm", api_base="http://127.0.0.1:9/v1", api_key="x", num_retries=0)
        with pytest.raises(CallFailed) as caught:
            recording().record(dead)("a")
        assert caught.value.infrastructure

    def test_a_timeout_is_an_infrastructure_failure(self, endpoint: ScriptedEndpoint, recording: Recording):
        """The item is ungraded, never a bad answer."""
        endpoint.answers(Answer(content="late", delay_s=1.0))
        with pytest.raises(CallFailed) as caught:
            recording().record(endpoint.lm(timeout=0.2))("a")
        assert caught.value.infrastructure

    def test_a_failed_call_is_an_ungraded_verdict_without_a_parse_retry(
        self, endpoint: ScriptedEndpoint, recording: Recording
    ):
        """The endpoint's failure is not asked again as if the model had misspoken."""
        endpoint.answers(Answer(status=500, body=ERROR))
        role = recording().bind(RubricJudge(), endpoint.lm())
        (found,) = role.judge("Q?", "A", ONE)
        assert isinstance(found, Ungraded)
        assert found.reason.startswith("infrastructure: endpoint: LM")
        assert len(endpoint.sent) == 1


def workbench(recorder: Recorder, judge: Any, pause_s: float = 0.0) -> Workbench:
    """A workbench of which these tests use the batches and the judge alone."""
    roles: Any = type("Roles", (), {"judge": judge})()
    return Workbench(
        task=TASK, settings=Settings(), seed=0, roles=roles, student=roles, executor=recorder.executor,
        recorder=recorder, counts=judge.counts, pause_s=pause_s,
    )  # fmt: skip


def items(n: int) -> list[Item]:
    """Questions of one partition."""
    return [Item(question=Question.of(f"question number {i}"), inputs={}, partition="train") for i in range(n)]


class TestBatches:
    """A few failures leave items ungraded; an endpoint that is down stops the run, with nothing decided on it."""

    def judged(self, bench: Bench, endpoint: ScriptedEndpoint, n: int = 8, pause_s: float = 0.0) -> list[Any]:
        """A batch of judgements."""
        judge = bench.bind(RubricJudge(), endpoint.lm())
        work = workbench(bench.recorder, judge, pause_s)
        return work.batch(lambda item: work.judge(item, f"answer to {item.question.text}", ONE)[0], items(n))

    def test_one_failed_item_of_a_batch_is_ungraded(self, endpoint: ScriptedEndpoint, recording: Recording):
        """The others are graded, and the failure is asked for once."""
        endpoint.script(lambda body: Answer(status=500, body=ERROR) if "question number 3" in str(body) else GOOD)
        found = self.judged(recording(), endpoint)
        assert [isinstance(one, Verdict) for one in found] == [i != 3 for i in range(8)]
        assert len(endpoint.sent) == 8

    def test_a_storm_is_weathered_by_sending_failed_calls_again(self, endpoint: ScriptedEndpoint, recording: Recording):
        """When half of a batch failed, the failed calls alone are sent again and the batch is whole."""
        seen: list[str] = []

        def storm(body: dict[str, Any]) -> Answer | str:
            seen.append(str(body))
            return Answer(status=503, body=ERROR) if len(seen) <= 5 else GOOD

        endpoint.script(storm)
        bench = recording()
        found = self.judged(bench, endpoint)
        assert all(isinstance(one, Verdict) for one in found)
        assert len(endpoint.sent) == 8 + 5
        assert bench.recorder.ledger.by_role()["judge"]["calls"] == 8
        assert bench.recorder.ledger.by_role()["judge"]["failed_calls"] == 0

    def test_three_failed_batches_in_a_row_stop_the_run(self, endpoint: ScriptedEndpoint, recording: Recording):
        """The last error is named; no failure stays committed, so that a resumed run asks again."""
        endpoint.answers(Answer(status=500, body=ERROR))
        bench = recording(threads=4)
        with pytest.raises(EndpointError, match=r"3 batches in a row failed at the endpoint: .*went wrong"):
            self.judged(bench, endpoint)
        assert len(endpoint.sent) == 8 * BATCH_TRIES
        assert list(bench.recorder.store.calls()) == []

    def test_there_is_a_pause_between_two_tries(self, endpoint: ScriptedEndpoint, recording: Recording):
        """Two pauses for three tries."""
        endpoint.answers(Answer(status=500, body=ERROR))
        started = time.monotonic()
        with pytest.raises(EndpointError):
            self.judged(recording(), endpoint, n=1, pause_s=0.2)
        assert 0.4 <= time.monotonic() - started < 5


def test_a_graded_item_with_nothing_graded_has_no_failures():
    """Failures are criteria with a verdict; missing verdicts are none."""
    lost = Ungraded(reason="x")
    item = items(1)[0]
    graded = Graded(item=item, response="a", rubric=ONE, verdicts=(lost,), score=lost)
    assert graded.failures(0.7) == []
    bad = Graded(item=item, response="a", rubric=ONE, verdicts=(Verdict(score=0.2, rationale="r"),), score=0.2)
    assert [f.weight for f in bad.failures(0.7)] == [pytest.approx(2.4)]
    assert bad.failures(0.2) == []


class TestRuns:
    """The same at the level of a run."""

    @pytest.fixture(autouse=True)
    def _no_pause(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(base, "PAUSE_S", 0.0)

    def optimise(self, endpoint: ScriptedEndpoint, folder: Path, **options: Any) -> Any:
        """A short SkillOpt run over HTTP."""
        train = [dspy.Example(question=f"How do I fix problem {i}?").with_inputs("question") for i in range(8)]
        optimizer = SkillOpt(
            TASK,
            steps=1,
            batch_size=2,
            role_lms=RoleLMs(default=endpoint.lm()),
            log_dir=folder,
            num_threads=2,
            **options,
        )
        program: Any = optimizer.compile(dspy.Predict("question -> response"), trainset=train)
        return program.detailed_results

    def simulate(self, endpoint: ScriptedEndpoint, fail: Callable[[int], bool] = lambda count: False) -> None:
        """Answer as the simulated world does; fail some requests by their number."""
        backbone, lock, count = SimulatedBackbone(0), threading.Lock(), [0]

        def answer(body: dict[str, Any]) -> Answer:
            with lock:
                count[0] += 1
                if fail(count[0]):
                    return Answer(status=500, body=ERROR)
            reply = backbone.reply(body["messages"], seed=body.get("seed"), response_format=body.get("response_format"))
            return Answer(content=reply.text)

        endpoint.script(answer)

    @pytest.mark.parametrize("status", [401, 403, 404])
    def test_a_wrong_key_or_model_stops_before_the_first_batch(
        self, status: int, endpoint: ScriptedEndpoint, tmp_path: Path
    ):
        """One request; the state is saved and says why."""
        endpoint.answers(Answer(status=status, body=ERROR))
        with pytest.raises(EndpointError):
            self.optimise(endpoint, tmp_path / "run")
        assert len(endpoint.sent) == 1
        assert '"stopped_by": "endpoint"' in (tmp_path / "run" / "result.json").read_text("utf-8")

    def test_a_run_resumes_after_its_endpoint_was_down_from_the_start(self, endpoint: ScriptedEndpoint, tmp_path: Path):
        """The failed first call is forgotten: the resumed run is like one that was never stopped."""
        endpoint.answers(Answer(status=500, body=ERROR))
        with pytest.raises(EndpointError, match="does not answer"):
            self.optimise(endpoint, tmp_path / "run")
        self.simulate(endpoint)
        resumed = self.optimise(endpoint, tmp_path / "run", resume=True)
        fresh = self.optimise(endpoint, tmp_path / "other")
        assert resumed.stopped_by == "steps"
        assert resumed.solver_skills == fresh.solver_skills
        assert resumed.usage.keys() == fresh.usage.keys()

    def test_a_run_resumes_after_its_endpoint_died_in_the_middle(self, endpoint: ScriptedEndpoint, tmp_path: Path):
        """Nothing was decided on the failures; committed calls are not repeated."""
        self.simulate(endpoint, fail=lambda count: count > 8)
        with pytest.raises(EndpointError, match="3 batches in a row"):
            self.optimise(endpoint, tmp_path / "run")
        before = len(endpoint.sent)
        self.simulate(endpoint)
        resumed = self.optimise(endpoint, tmp_path / "run", resume=True)
        after = len(endpoint.sent) - before
        fresh = self.optimise(endpoint, tmp_path / "other")
        total = len(endpoint.sent) - before - after
        assert resumed.solver_skills == fresh.solver_skills
        assert resumed.proxy == fresh.proxy
        assert after == total - 8
        assert {r: u["calls"] for r, u in resumed.usage.items()} == {r: u["calls"] for r, u in fresh.usage.items()}
        assert all(u["failed_calls"] == 0 for u in resumed.usage.values())

    def test_a_rewriter_that_the_endpoint_fails_is_no_decision(self, endpoint: ScriptedEndpoint, tmp_path: Path):
        """Its candidate is not rejected for a 503: asked again, then the run stops before the gate, and resumes."""
        backbone, down = SimulatedBackbone(0), [True]

        def answer(body: dict[str, Any]) -> Answer:
            form = str(body.get("response_format"))
            if "RewriteSolver" in form and down[0]:
                return Answer(status=503, body=ERROR)
            if "JudgeCriterion" in form:
                return Answer(content=GOOD.replace("7", "2"))
            reply = backbone.reply(body["messages"], seed=body.get("seed"), response_format=body.get("response_format"))
            return Answer(content=reply.text)

        endpoint.script(answer)
        with pytest.raises(EndpointError, match="3 batches in a row"):
            self.optimise(endpoint, tmp_path / "run")
        assert "solver_decision" not in (tmp_path / "run" / "events.jsonl").read_text("utf-8")
        down[0] = False
        resumed = self.optimise(endpoint, tmp_path / "run", resume=True)
        (decision,) = [event for event in resumed.history if event["kind"] == "solver_decision"]
        assert "infrastructure" not in decision["reason"]
        assert resumed.usage["solver_rewriter"]["failed_calls"] == 0

    def test_a_run_with_too_many_lost_items_decides_nothing(self, endpoint: ScriptedEndpoint, tmp_path: Path):
        """A few failures per batch leave the gate undecided: rejected, never accepted on what happens to be there."""
        backbone = SimulatedBackbone(0)

        def answer(body: dict[str, Any]) -> Answer:
            text = str(body["messages"])
            if "JudgeCriterion" in str(body.get("response_format")) and "problem 5?" in text:
                return Answer(content="no verdict today")
            reply = backbone.reply(body["messages"], seed=body.get("seed"), response_format=body.get("response_format"))
            return Answer(content=reply.text)

        endpoint.script(answer)
        examples = [dspy.Example(question=f"How do I fix problem {i}?").with_inputs("question") for i in range(8)]
        optimizer = SkillOpt(
            TASK, steps=2, batch_size=2, role_lms=RoleLMs(default=endpoint.lm()), num_threads=2, max_ungraded=0.1
        )
        program: Any = optimizer.compile(
            dspy.Predict("question -> response"),
            trainset=examples[:3],
            valset=examples[4:7],
            probeset=examples[3:4],
            gateset=examples[7:],
        )
        decisions = [e for e in program.detailed_results.history if e["kind"] == "solver_decision"]
        assert [d["accepted"] for d in decisions] == [False, False]
        assert any(d["reason"] == "undecided: 1 of 3 questions ungraded" for d in decisions)
        assert program.detailed_results.solver_skill == program.detailed_results.solver_skills[0]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("plain", "plain"),
        ("<think>a\nb</think>\n\nYes", "Yes"),
        ("  <THINK>a</THINK> Yes", "Yes"),
        ("<reasoning>x</reasoning>Yes", "Yes"),
        ("thoughts</think>Yes", "Yes"),
        ("<think>never ends", ""),
        ("<think></think>", ""),
        ("Yes <think>later</think>", "Yes <think>later</think>"),
        ("use the <think> tag", "use the <think> tag"),
        ("", ""),
    ],
)
def test_reasoning_is_stripped_where_it_leads(text: str, answer: str):
    """Leading reasoning goes; an answer that speaks of tags stays."""
    assert without_reasoning(text) == answer
