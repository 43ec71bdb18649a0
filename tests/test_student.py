"""The program under optimisation: any `dspy.Module`, carried, never mutated, and what is saved loads without us."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from decoevo_dspy import DecoEvo, RoleLMs, Skill, SkillOpt, Task, simulated_lm
from decoevo_dspy.benchmarks.base import OfficialScore, SealedGold
from decoevo_dspy.benchmarks.simulated import load_simulated, simulated_task
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.errors import ConfigurationError, EndpointError
from decoevo_dspy.evaluation.official import evaluate
from decoevo_dspy.roles.base import NoReply, ReplyCounts
from decoevo_dspy.roles.text import SOLVER_HEADING
from decoevo_dspy.run.student import SkilledStudent, carried_skill, inputs_for, question_of, with_solver_skill
from decoevo_dspy.run.workbench import Item
from decoevo_dspy.values.task import Question, Turn
from tests.conftest import Bench, CapturingEngine

Capture = Callable[..., tuple[dspy.LM, CapturingEngine]]
Recording = Callable[..., Bench]
Signature: Any = dspy.Signature  # a call makes a class, which its metaclass does not tell the type checker
SKILL = Skill("# Rules\n- name a dose\n- be brief {x} \\1")
CHAT = "[[ ## {} ## ]]\nfine\n\n[[ ## completed ## ]]"
REPLY = CHAT.format("response")
ITEM = Item(question=Question.of("Why?"), inputs={"question": "Why?"}, partition="train")
TASK = Task(name="t", description="Answer.", evaluation="Be right.")


class TwoSteps(dspy.Module):
    """Drafts, then answers."""

    def __init__(self) -> None:
        super().__init__()
        self.draft = dspy.Predict(Signature("question -> draft", "Draft it."))
        self.final = dspy.Predict(Signature("question, draft -> response", "Write it."))

    def forward(self, question: str) -> dspy.Prediction:
        return self.final(question=question, draft=self.draft(question=question).draft)


def skilled(student: dspy.Module, lm: dspy.BaseLM, bench: Bench, **options: Any) -> SkilledStudent:
    """The student as a run has it."""
    given: dict[str, Any] = {
        "skill_target": None,
        "response_field": None,
        "record": lambda own: bench.record(own or lm, "solver"),
        "adapter": dspy.ChatAdapter(use_json_adapter_fallback=False),
        "counts": ReplyCounts(),
        **options,
    }
    return SkilledStudent(student, **given)


def examples(n: int) -> list[dspy.Example]:
    """Questions of the simulated world."""
    return [dspy.Example(question=q.text, id=q.id).with_inputs("question") for q in load_simulated().questions[:n]]


def optimise(student: dspy.Module, method: Any = SkillOpt, **options: Any) -> Any:
    """A short run on the simulated backbone."""
    given: dict[str, Any] = {
        "steps": 1, "batch_size": 4, "num_threads": 1, "role_lms": RoleLMs(default=simulated_lm(0)), **options,
    }  # fmt: skip
    return method(simulated_task(), **given).compile(student, trainset=examples(16))


def instructions(program: dspy.Module, name: str = "self") -> str:
    """The instructions of one predictor."""
    signature: Any = dict(program.named_predictors())[name].signature
    return signature.instructions


class TestCarrying:
    """Where the skill stands."""

    def test_the_skill_follows_the_base_instructions(self, capturing: Capture, recording: Recording):
        """One predictor: base, heading, skill, in the system message and taken literally."""
        lm, engine = capturing(REPLY)
        student = dspy.Predict(Signature("question -> response", "Answer the {question}."))
        assert skilled(student, lm, recording()).respond(ITEM, SKILL, "0") == "fine"
        system = engine.messages(0)[0]["content"]
        lines = [line.strip() for line in system.split("\n")]
        start = lines.index("Answer the {question}.")
        assert lines[start:] == ["Answer the {question}.", "", SOLVER_HEADING, *SKILL.text.split("\n")]

    def test_several_predictors_share_the_skill(self, capturing: Capture, recording: Recording):
        """Without ``skill_target`` all of them carry it."""
        lm, engine = capturing(CHAT.format("draft"), REPLY)
        skilled(TwoSteps(), lm, recording()).respond(ITEM, SKILL, "0")
        assert ["- name a dose" in engine.messages(i)[0]["content"] for i in (0, 1)] == [True, True]

    @pytest.mark.parametrize(("target", "carries"), [("draft", [True, False]), ("final", [False, True])])
    def test_a_named_target_alone_carries_it(
        self, target: str, carries: list[bool], capturing: Capture, recording: Recording
    ):
        """The other predictors stay as they are."""
        lm, engine = capturing(CHAT.format("draft"), REPLY)
        skilled(TwoSteps(), lm, recording(), skill_target=target).respond(ITEM, SKILL, "0")
        assert ["- name a dose" in engine.messages(i)[0]["content"] for i in (0, 1)] == carries

    def test_an_unknown_target_is_refused_with_the_names(self):
        """The message lists the predictors."""
        with pytest.raises(ConfigurationError, match="the student's predictors are draft, final"):
            optimise(TwoSteps(), skill_target="drat")

    def test_a_student_without_predictor_is_refused(self):
        """There is nothing to carry a skill."""
        with pytest.raises(ConfigurationError, match="no predictor"):
            optimise(dspy.Module())

    def test_chain_of_thought_carries_it(self, capturing: Capture, recording: Recording):
        """The inner predictor of a ChainOfThought is the target; the reasoning is not the response."""
        lm, engine = capturing("[[ ## reasoning ## ]]\nhm\n\n" + REPLY)
        student = dspy.ChainOfThought("question -> response")
        assert skilled(student, lm, recording()).respond(ITEM, SKILL, "0") == "fine"
        assert "- name a dose" in engine.messages(0)[0]["content"]

    def test_demos_stay(self, capturing: Capture, recording: Recording):
        """Few-shot examples of the student are still sent, and are in the returned program."""
        lm, engine = capturing(REPLY)
        student = dspy.Predict("question -> response")
        student.demos = [dspy.Example(question="DEMO-Q", response="DEMO-R")]
        skilled(student, lm, recording()).respond(ITEM, SKILL, "0")
        texts = [message["content"] for message in engine.messages(0)]
        assert any("DEMO-Q" in text for text in texts)
        assert any("DEMO-R" in text for text in texts)
        program = optimise(student)
        assert [demo.question for demo in program.demos] == ["DEMO-Q"]

    def test_chained_optimisation_replaces_the_old_skill(self):
        """A program that carries a skill starts from it, and carries one skill in the end."""
        first = optimise(dspy.Predict(Signature("question -> response", "BASE.")), steps=2)
        second = optimise(first, method=DecoEvo, steps=1, audit_every=1, seed=1)
        assert second.detailed_results.solver_skills[0] == first.detailed_results.solver_skill
        text = instructions(second)
        assert text.count(SOLVER_HEADING) == 1
        assert text == f"BASE.\n\n{SOLVER_HEADING}\n{second.detailed_results.solver_skill.text}"
        assert carried_skill(second, ["self"]) == second.detailed_results.solver_skill

    def test_an_empty_skill_leaves_the_base_alone(self):
        """No heading without a skill."""
        student = dspy.Predict(Signature("question -> response", "BASE."))
        assert instructions(with_solver_skill(student, ["self"], Skill(""))) == "BASE."


class TestUntouched:
    """The student passed in."""

    def test_the_students_state_is_the_same_afterwards(self):
        """Instructions, demos, LM objects, histories and flags."""
        lm = simulated_lm(0)
        student = TwoSteps()
        student.set_lm(lm)
        student.draft.demos = [dspy.Example(question="a", draft="b")]
        before, kwargs = json.dumps(student.dump_state(), default=str), dict(lm.kwargs)
        program = optimise(student, method=DecoEvo, audit_every=1, rollouts=2)
        assert json.dumps(student.dump_state(), default=str) == before
        assert [p.lm for _, p in student.named_predictors()] == [lm, lm]
        assert lm.kwargs == kwargs
        assert lm.history == []
        assert program is not student
        assert not hasattr(student, "detailed_results")

    def test_the_program_has_the_students_own_lm(self):
        """Not a recorded one: it works after the run's store is closed."""
        lm = simulated_lm(0)
        student = dspy.Predict("question -> response")
        student.set_lm(lm)
        program = optimise(student)
        assert program.lm is lm
        assert program(question="My kettle leaks, what now?").response

    def test_a_program_without_its_own_lm_uses_the_context(self):
        """As the student did."""
        program = optimise(dspy.Predict("question -> response"))
        assert program.lm is None
        with dspy.context(lm=simulated_lm(0)):
            assert program(question="My kettle leaks, what now?").response


class TestFailures:
    """A student that cannot be optimised is found at once; one that fails on an item loses that item."""

    def test_a_skill_that_does_not_reach_the_prompt_is_an_error(self, capturing: Capture, recording: Recording):
        """The target is never called."""

        class Ignores(TwoSteps):
            def forward(self, question: str) -> dspy.Prediction:
                return dspy.Prediction(response=self.draft(question=question).draft)

        lm, _ = capturing(CHAT.format("draft"))
        student = skilled(Ignores(), lm, recording(), skill_target="final")
        with pytest.raises(ConfigurationError, match="the skill does not reach the student's prompt"):
            student.respond(ITEM, SKILL, "0")

    def test_a_student_that_asks_no_model_is_an_error(self, capturing: Capture, recording: Recording):
        """Nothing could be optimised."""

        class Constant(TwoSteps):
            def forward(self, question: str) -> dspy.Prediction:
                return dspy.Prediction(response="42")

        lm, _ = capturing(REPLY)
        with pytest.raises(ConfigurationError, match="the skill does not reach the student's prompt"):
            skilled(Constant(), lm, recording()).respond(ITEM, SKILL, "0")

    def test_an_adapter_that_drops_the_instructions_is_an_error(self, capturing: Capture, recording: Recording):
        """Whatever the reason, the prompt is looked at."""

        class Mute(dspy.ChatAdapter):
            def format_task_description(self, signature: Any) -> str:
                return ""

        lm, _ = capturing(REPLY)
        student = skilled(dspy.Predict("question -> response"), lm, recording(), adapter=Mute())
        with pytest.raises(ConfigurationError, match="adapter drops the instructions"):
            student.respond(ITEM, SKILL, "0")

    def test_a_program_that_raises_is_a_typed_failure(self, capturing: Capture, recording: Recording):
        """Error type and message are kept; nothing is scored."""

        class Breaks(TwoSteps):
            def forward(self, question: str) -> dspy.Prediction:
                raise ZeroDivisionError("in the student")

        lm, _ = capturing(REPLY)
        found = skilled(Breaks(), lm, recording()).respond(ITEM, SKILL, "0")
        assert found == NoReply(kind="program", reason="ZeroDivisionError: in the student")

    def test_a_program_that_always_raises_stops_the_run(self):
        """That is a bug to mend, not a bad answer."""

        class Breaks(dspy.Module):
            def __init__(self) -> None:
                super().__init__()
                self.answer = dspy.Predict("question -> response")

            def forward(self, question: str) -> dspy.Prediction:
                raise ZeroDivisionError("in the student")

        with pytest.raises(ConfigurationError, match=r"failed on every question of a batch: .*ZeroDivisionError"):
            optimise(Breaks())

    def test_an_unreadable_response_is_asked_for_once_more(self, capturing: Capture, recording: Recording):
        """One fresh sample, then unparsable; chat fallback never doubles the calls."""
        lm, engine = capturing("no markers here", REPLY)
        assert skilled(dspy.Predict("question -> response"), lm, recording()).respond(ITEM, SKILL, "0") == "fine"
        assert len({request.config.seed for request in engine.requests}) == 2
        lm, engine = capturing("no markers here")
        found = skilled(dspy.Predict("question -> response"), lm, recording()).respond(ITEM, SKILL, "0")
        assert isinstance(found, NoReply)
        assert found.kind == "unparsable"
        assert len(engine.requests) == 2

    def test_an_empty_response_is_typed_empty(self, capturing: Capture, recording: Recording):
        """An answer without text is no answer."""
        lm, engine = capturing("[[ ## response ## ]]\n\n\n[[ ## completed ## ]]")
        found = skilled(dspy.Predict("question -> response"), lm, recording()).respond(ITEM, SKILL, "0")
        assert isinstance(found, NoReply)
        assert found.kind == "empty"
        assert len(engine.requests) == 2

    def test_a_missing_response_field_is_named(self, capturing: Capture, recording: Recording):
        """The message lists what there is."""
        lm, _ = capturing(REPLY)
        student = skilled(dspy.Predict("question -> response"), lm, recording(), response_field="answer")
        with pytest.raises(ConfigurationError, match=r"no field 'answer'.*it has response.*give response_field"):
            student.respond(ITEM, SKILL, "0")


class TestFields:
    """What is asked and what is judged."""

    def test_the_response_field_is_response_then_the_last_unless_named(self, capturing: Capture, recording: Recording):
        """Explicit, then ``response``, then the last output."""
        reply = "[[ ## response ## ]]\nR\n\n[[ ## note ## ]]\nN\n\n[[ ## completed ## ]]"
        lm, _ = capturing(reply)
        both = dspy.Predict("question -> response, note")
        assert skilled(both, lm, recording()).respond(ITEM, SKILL, "0") == "R"
        assert skilled(both, lm, recording(), response_field="note").respond(ITEM, SKILL, "0") == "N"
        lm, _ = capturing("[[ ## why ## ]]\nW\n\n[[ ## note ## ]]\nN\n\n[[ ## completed ## ]]")
        assert skilled(dspy.Predict("question -> why, note"), lm, recording()).respond(ITEM, SKILL, "0") == "N"

    TURNS = (
        Turn(role="system", content="be kind"),
        Turn(role="user", content="first"),
        Turn(role="assistant", content="reply"),
        Turn(role="user", content="last"),
    )

    def test_a_conversation_is_text_for_a_plain_student(self):
        """Turns as ``role: content``."""
        question = Question(id="q", turns=self.TURNS)
        assert inputs_for(question, dspy.Predict("question -> response")) == {
            "question": "system: be kind\n\nuser: first\n\nassistant: reply\n\nuser: last"
        }

    def test_a_conversation_is_history_and_last_turn_for_a_history_student(
        self, capturing: Capture, recording: Recording
    ):
        """Earlier turns reach the model as real chat messages."""
        signature = Signature(
            {
                "history": (dspy.History, dspy.InputField()),
                "question": (str, dspy.InputField()),
                "response": (str, dspy.OutputField()),
            },
            "Answer.",
        )
        student = dspy.Predict(signature)
        question = Question(id="q", turns=self.TURNS)
        inputs = inputs_for(question, student)
        assert inputs["question"] == "last"
        assert inputs["history"].messages == [{"question": "be kind\n\nfirst", "response": "reply"}]
        lm, engine = capturing(REPLY)
        item = Item(question=question, inputs=inputs, partition="train")
        assert skilled(student, lm, recording()).respond(item, SKILL, "0") == "fine"
        sent = engine.messages(0)
        assert [message["role"] for message in sent] == ["system", "user", "assistant", "user"]
        assert "first" in sent[1]["content"]
        assert "last" not in sent[1]["content"]
        assert "reply" in sent[2]["content"]
        assert "last" in sent[3]["content"]

    def test_an_example_with_history_is_a_conversation_for_the_text_roles(self):
        """Judge and generator read all turns."""
        history = dspy.History(messages=[{"question": "first", "response": "reply"}])
        example = dspy.Example(history=history, question="last", id="x").with_inputs("history", "question")
        assert question_of(example, 0).text == "user: first\n\nassistant: reply\n\nuser: last"

    def test_several_text_inputs_are_named_in_the_question(self):
        """``field: text`` parted by blank lines."""
        example = dspy.Example(context="C", question="Q").with_inputs("context", "question")
        assert question_of(example, 0).text == "context: C\n\nquestion: Q"

    def test_a_long_question_is_cut_for_a_small_window_and_counted(self, capturing: Capture, recording: Recording):
        """Head and tail stay; the cut is in the counts."""
        lm, engine = capturing(REPLY)
        counts = ReplyCounts()
        student = skilled(dspy.Predict("question -> response"), lm, recording(), context_tokens=2000, counts=counts)
        text = "START " + "x" * 50_000 + " END"
        student.respond(Item(question=Question.of(text), inputs={"question": text}, partition="train"), SKILL, "0")
        shown = engine.messages(0)[-1]["content"]
        assert "START" in shown
        assert "END" in shown
        assert len(shown) < 6000
        assert counts.by_role()["solver"]["inputs_cut"] == 1

    def test_a_student_with_lone_surrogates_in_its_input_answers(self, capturing: Capture, recording: Recording):
        """The question is sent with ``?`` in their place."""
        lm, engine = capturing(REPLY)
        item = Item(question=Question.of("a\ud800b"), inputs={"question": "a\ud800b"}, partition="train")
        assert skilled(dspy.Predict("question -> response"), lm, recording()).respond(item, SKILL, "0") == "fine"
        assert "a?b" in engine.messages(0)[-1]["content"]

    def test_samples_are_distinct_draws_and_the_same_sample_is_one(self, capturing: Capture, recording: Recording):
        """L rollouts are L calls; asking again is none."""
        lm, engine = capturing(REPLY)
        student = skilled(dspy.Predict("question -> response"), lm, recording())
        for sample in ("audit1-0", "audit1-1", "audit1-2", "audit1-0"):
            student.respond(ITEM, SKILL, sample)
        assert len(engine.requests) == 3
        assert len({request.config.seed for request in engine.requests}) == 3


class Fans(dspy.Module):
    """Asks twice in DSPy's own threads."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict("question -> response")

    def forward(self, question: str) -> dspy.Prediction:
        parallel = dspy.Parallel(num_threads=2, disable_progress_bar=True)
        first, _ = parallel([(self.answer, {"question": question}), (self.answer, {"question": f"{question}!"})])
        return first


def test_calls_from_dspys_own_threads_belong_to_their_draw(capturing: Capture, recording: Recording):
    """A student that uses `dspy.Parallel` gets distinct rollouts as well, stored under its partition."""
    lm, engine = capturing(REPLY)
    bench = recording()
    student = skilled(Fans(), lm, bench)
    for sample in ("0", "1", "1"):
        assert student.respond(ITEM, SKILL, sample) == "fine"
    assert len(engine.requests) == 4
    assert {(call.partition, call.sample) for call in bench.recorder.store.calls()} == {("train", "0"), ("train", "1")}


class CountingGrader:
    """Scores every answered question 1; needs no model."""

    id = "counting"
    needs_model = False

    def grade(self, questions: Any, responses: Any, gold: Any, client: Any, map: Any) -> OfficialScore:
        """The share of answered questions is not the score: unanswered ones are ungraded."""
        assert client is None
        graded = [q.id for q in questions if q.id in responses]
        return OfficialScore(
            score=100.0 if graded else None,
            n_graded=len(graded),
            n_total=len(questions),
            grader=self.id,
            mode="official",
            prompt_hash="0",
            official_prompt=True,
        )


class TestEvaluation:
    """The final pass over the test partition."""

    ROUNDS = tuple(
        Question(id=f"g-{r}", turns=(Turn(role="user", content=f"ROUND-{r}"),), group="g", round=r) for r in (2, 1)
    )

    def final(self, lm: dspy.BaseLM, questions: Any, program: dspy.Module | None = None) -> Any:
        """One evaluation in memory."""
        store = CallStore(None)
        try:
            return evaluate(
                program or dspy.Predict("question -> response"),
                questions,
                SealedGold({}, {}),
                CountingGrader(),
                role_lms=RoleLMs(default=lm),
                seed=0,
                store=store,
                run="final",
                num_threads=1,
            )
        finally:
            store.close()

    def test_rounds_are_answered_in_order_after_the_programs_own_answers(self, capturing: Capture):
        """The second round sees the first one's question and answer, whatever order the data has."""
        lm, engine = capturing("[[ ## response ## ]]\nMY FIRST ANSWER\n\n[[ ## completed ## ]]", REPLY)
        done = self.final(lm, self.ROUNDS)
        first, second = (engine.messages(i)[-1]["content"] for i in (0, 1))
        assert "ROUND-1" in first
        assert "ROUND-2" not in first
        assert "user: ROUND-1\n\nassistant: MY FIRST ANSWER\n\nuser: ROUND-2" in second
        assert done.responses == {"g-1": "MY FIRST ANSWER", "g-2": "fine"}
        assert done.usage["solver"]["calls"] == 2

    def test_an_unanswered_question_is_named_and_not_graded(self, capturing: Capture):
        """It is missing from the responses, with the reason beside it."""
        lm, _ = capturing("unreadable", "unreadable", REPLY)
        done = self.final(lm, [Question.of("one", id="a"), Question.of("two", id="b")])
        assert done.responses == {"b": "fine"}
        assert done.unanswered["a"].startswith("unparsable")
        assert (done.score.n_graded, done.score.n_total) == (1, 2)
        assert done.to_dict()["unanswered"].keys() == {"a"}

    def test_an_endpoint_that_is_down_is_no_score(self):
        """Not one answer, all for the endpoint's sake: an error, never 0 points."""
        dead = dspy.LM("openai/t", engine="litellm", api_base="http://127.0.0.1:9/v1", api_key="x", num_retries=0)
        with pytest.raises(EndpointError, match="no question of the test partition could be answered"):
            self.final(dead, [Question.of("one", id="a")])

    def test_the_program_is_asked_as_it_is(self, capturing: Capture):
        """Its instructions are sent unchanged, with or without a skill in them."""
        lm, engine = capturing(REPLY)
        bare = dspy.Predict(Signature("question -> response", "BASE."))
        self.final(lm, [Question.of("one", id="a")], bare)
        assert SOLVER_HEADING not in engine.messages(0)[0]["content"]
        self.final(lm, [Question.of("one", id="a")], with_solver_skill(bare, ["self"], SKILL))
        assert "- name a dose" in engine.messages(1)[0]["content"]


LOADER = """
import sys
assert not any("decoevo" in name for name in sys.modules)
try:
    import decoevo_dspy
except ModuleNotFoundError:
    pass
else:
    sys.exit("decoevo_dspy is on the path; the test proves nothing")
import dspy
program = dspy.load(sys.argv[1]) if sys.argv[2] == "whole" else dspy.Predict("question -> response")
if sys.argv[2] != "whole":
    program.load(sys.argv[1])
lm = dspy.utils.DummyLM([{"response": "fine"}])
with dspy.context(lm=lm, adapter=dspy.ChatAdapter()):
    program(question="Why?")
print(ascii(lm.history[-1]["messages"][0]["content"]))
"""


@pytest.mark.parametrize("how", ["saved", "folder"])
def test_a_saved_program_loads_without_this_library(how: str, tmp_path: Path):
    """Plain DSPy in a process that cannot import decoevo_dspy loads it, and its prompt contains the skill."""
    program = optimise(dspy.Predict(Signature("question -> response", "BASE.")), steps=2, log_dir=tmp_path / "run")
    path = tmp_path / "run" / "solver.json"
    if how == "saved":
        path = tmp_path / "mine.json"
        program.save(str(path))
    away = tmp_path / "away"
    away.mkdir()
    site = Path(str(dspy.__file__)).resolve().parents[1]
    # a link to every installed distribution but ours: an editable or plain install of this library must not be found
    shadow = tmp_path / "site"
    shadow.mkdir()
    for entry in site.iterdir():
        if "decoevo" not in entry.name.lower() and not entry.name.endswith(".pth"):
            (shadow / entry.name).symlink_to(entry)
    env = {"PATH": os.environ["PATH"], "HOME": str(away), "PYTHONPATH": str(shadow), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-S", "-W", "ignore", "-c", LOADER, str(path), "state"],
        capture_output=True,
        text=True,
        cwd=away,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    skill = program.detailed_results.solver_skill
    assert len(program.detailed_results.solver_skills) > 1, "nothing was learnt; the test would show little"
    for line in ["BASE.", SOLVER_HEADING, *skill.text.split("\n")]:
        assert ascii(line)[1:-1] in done.stdout
