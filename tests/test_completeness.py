"""When a run counts as complete, and what a resumed one may change: lost test questions, one opening, one config."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from decoevo_dspy.benchmarks.simulated import SimulatedGrader
from decoevo_dspy.cli.app import main
from decoevo_dspy.commands.config import Config, make_config
from decoevo_dspy.commands.evaluate import score_target
from decoevo_dspy.commands.experiment import is_complete, run_experiment, run_one
from decoevo_dspy.errors import ConfigurationError, EndpointError
from decoevo_dspy.run.events import read_events
from decoevo_dspy.run.folder import Run
from decoevo_dspy.simulation.backbone import SimulatedBackbone

SIZES = {"train": 6, "probe": 3, "solver_gate": 4, "generator_gate": 4, "diagnostic": 1, "test": 6}


def small(**optimizer: Any) -> Config:
    """A config that runs in a moment."""
    table = {"steps": 1, "batch_size": 3, "judge_mode": "rubric", "num_threads": 1, **optimizer}
    models = {"default": {"model": "simulated"}}
    return make_config({"data": {"benchmark": "simulated", "sizes": SIZES}, "models": models, "optimizer": table})


def kinds(folder: Path) -> list[str]:
    """The kinds of a run's events."""
    return [event["kind"] for event in read_events(folder / "events.jsonl")]


class Outage:
    """Lets the first ``lost`` test questions fail at the endpoint while it is ``on``; counts what was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
        from decoevo_dspy.evaluation import official as evaluation
        from decoevo_dspy.roles.base import NoReply

        self.on, self.ids, self.asked = True, list[str](), list[str]()
        original = evaluation.SkilledStudent.respond

        def respond(student: Any, item: Any, skill: Any, sample: str) -> Any:
            if item.partition != "test":
                return original(student, item, skill, sample)
            self.asked.append(item.id)
            if self.on and (item.id in self.ids or len(self.ids) < lost):
                self.ids = list(dict.fromkeys([*self.ids, item.id]))
                return NoReply(kind="infrastructure", reason="endpoint: 503")
            return original(student, item, skill, sample)

        monkeypatch.setattr(evaluation.SkilledStudent, "respond", respond)


def test_mostly_lost_score_is_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """5 of 6 test questions lost at the endpoint: exit code 4 with the state saved; resumed, the run is whole."""
    outage = Outage(monkeypatch, lost=5)
    with pytest.raises(EndpointError, match="5 of 6 questions of the test partition") as caught:
        run_one(small(), tmp_path / "run")
    assert caught.value.exit_code == 4
    result = Run(tmp_path / "run").result()
    assert result is not None
    assert not is_complete(result)
    assert "official" not in kinds(tmp_path / "run")
    outage.on = False
    result = run_one(small(), tmp_path / "run", resume=True)
    assert (result["official"]["n_graded"], result["official"]["lost_to_endpoint"]) == (6, [])


def test_few_lost_questions_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Up to ``max_ungraded`` of the test questions may be lost; the score says which."""
    outage = Outage(monkeypatch, lost=1)
    result = run_one(small(max_ungraded=0.2, steps=0), tmp_path / "run")
    assert is_complete(result)
    assert (result["official"]["n_graded"], result["official"]["lost_to_endpoint"]) == (5, outage.ids)


def test_failed_solver_calls_of_the_evaluation_are_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The endpoint itself refuses answers to test questions; once it is back, exactly those are asked again."""
    from dspy.utils.exceptions import LMUnexpectedError

    original, lost, sent, down = SimulatedBackbone.reply, list[str](), list[str](), [True]
    opened: list[bool] = []

    def reply(self: SimulatedBackbone, messages: Any, **options: Any) -> Any:
        prompt = str(messages)
        if opened and down[0] and (prompt in lost or len(lost) < 5):
            lost.extend([prompt] if prompt not in lost else [])
            raise LMUnexpectedError("503")
        if opened:
            sent.append(prompt)
        return original(self, messages, **options)

    def watch(event: dict[str, Any]) -> None:
        opened.extend([True] if event["kind"] == "test_opened" else [])

    monkeypatch.setattr(SimulatedBackbone, "reply", reply)
    config = small(steps=0)
    with pytest.raises(EndpointError, match="5 of 6"):
        run_one(config, tmp_path / "run", callbacks=[watch])
    assert len(sent) == 1
    sent.clear()
    down[0] = False
    assert is_complete(run_one(config, tmp_path / "run", resume=True, callbacks=[watch]))
    assert sent == lost


def test_experiment_names_and_resumes_a_lost_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A run whose test questions were lost is failed with exit code 4, not skipped for ever."""
    outage = Outage(monkeypatch, lost=5)
    summary = run_experiment([small(steps=0)], ["zero-shot"], [0], tmp_path, jobs=1)
    assert [(f["run"], f["exit_code"]) for f in summary["failed"]] == [("simulated-zero-shot-seed0", 4)]
    assert summary["methods"]["zero-shot"]["per_seed"] == [None]
    assert summary["methods"]["zero-shot"]["graded_per_seed"] == [None]
    outage.on = False
    summary = run_experiment([small(steps=0)], ["zero-shot"], [0], tmp_path, jobs=1)
    assert summary["failed"] == []
    assert summary["methods"]["zero-shot"]["graded_per_seed"] == [{"n_graded": 6, "n_total": 6}]


def test_run_without_a_score_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Evaluated, but nothing could be graded: listed under ``failed`` with the reason."""
    original = SimulatedGrader.grade

    def nothing(self: SimulatedGrader, questions: Any, responses: Any, *rest: Any) -> Any:
        return original(self, questions, {}, *rest)

    monkeypatch.setattr(SimulatedGrader, "grade", nothing)
    summary = run_experiment([small(steps=0)], ["zero-shot"], [0], tmp_path, jobs=1)
    assert summary["methods"]["zero-shot"]["graded_per_seed"] == [{"n_graded": 0, "n_total": 6}]
    (failed,) = summary["failed"]
    assert (failed["run"], failed["exit_code"]) == ("simulated-zero-shot-seed0", 4)
    assert "no official score: 0 of 6 test questions graded" in failed["error"]


def test_evaluate_command_refuses_a_mostly_lost_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``decoevo evaluate`` follows the same rule, and a run it could not score stays unscored."""
    config = small(steps=0)
    run_one(config, tmp_path / "run")
    Outage(monkeypatch, lost=5)
    for target in (tmp_path / "run", tmp_path / "run" / "solver.json", None):
        with pytest.raises(EndpointError, match="of 6 questions of the test partition"):
            score_target(target, config)
    assert "evaluated" not in kinds(tmp_path / "run")


def test_lost_grader_calls_count(tmp_path: Path):
    """A question whose grader call failed at the endpoint is lost; one with an unusable reply is not."""
    from decoevo_dspy import benchmarks
    from decoevo_dspy.benchmarks.base import RawReply
    from decoevo_dspy.errors import ExecutionError

    file = tmp_path / "d.jsonl"
    rows = [{"id": f"q{n}", "question": f"Question {n}?", "rubric": [{"criterion": "c", "points": 1}]} for n in (1, 2)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    dataset = benchmarks.load("jsonl", file)

    class Client:
        model = "m"

        def complete(self, messages: Any, *, params: Any, sample: int = 0) -> RawReply:
            if "Question 1?" in messages[0]["content"]:
                raise ExecutionError("503")
            return RawReply(text="no verdict")

    grader = benchmarks.grader("jsonl")
    answers = {"q1": "one", "q2": "two"}
    score = grader.grade(dataset.questions, answers, dataset.gold, Client(), lambda f, items: [f(i) for i in items])
    assert (score.n_graded, score.figures["endpoint_failures"]) == (0, ["q1"])


def test_failed_grader_calls_are_sent_again(tmp_path: Path, endpoint: Any):
    """The grader's endpoint fails for 5 of 6 answers; resumed, those alone are graded, and nobody is asked twice."""
    file = tmp_path / "d.jsonl"
    rows = [{"id": f"q{n}", "question": f"How {n}?", "rubric": [{"criterion": "c", "points": 1}]} for n in range(24)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    grader = {"model": "openai/g", "api_base": f"{endpoint.origin}/v1", "num_retries": 0}
    config = make_config(
        {
            "task": {"name": "t", "description": "Advice.", "evaluation": "Correctness."},
            "data": {"benchmark": "jsonl", "path": str(file), "sizes": SIZES},
            "models": {"default": {"model": "simulated"}, "grader": grader},
            "optimizer": {"method": "zero-shot", "judge_mode": "rubric", "num_threads": 1},
        }
    )
    verdict = '{"explanation": "yes", "criteria_met": true}'
    down = [True]

    def answer(body: dict[str, Any]) -> Any:
        if down[0] and len(endpoint.sent) > 2:  # after the diagnostic question and the first test question
            return SimpleNamespace(status=500, body={"error": {"message": "down"}}, delay_s=0.0, headers={})
        return verdict

    endpoint.script(answer)
    with pytest.raises(EndpointError, match="5 of 6 questions of the test partition"):
        run_one(config, tmp_path / "run")
    assert not is_complete(Run(tmp_path / "run").result())
    down[0] = False
    endpoint.sent.clear()
    result = run_one(config, tmp_path / "run", resume=True)
    assert (result["official"]["n_graded"], len(endpoint.sent)) == (6, 5)


def test_finished_run_is_not_opened_again(tmp_path: Path):
    """Resuming a finished run returns its score and opens nothing."""
    out = tmp_path / "run"
    result = run_one(small(), out)
    again = run_one(small(), out, resume=True)
    assert again["official"] == result["official"]
    assert Run(out).result() == again
    assert (kinds(out).count("test_opened"), kinds(out).count("official")) == (1, 1)


def test_grown_run_is_scored_anew(tmp_path: Path):
    """A score of another final solver is not taken for this one's."""
    out = tmp_path / "run"
    result = run_one(small(), out)
    log = out / "events.jsonl"
    events = read_events(log)
    for event in events:
        if event["kind"] == "official":
            event["solver"] = "another"
    log.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    again = run_one(small(), out, resume=True)
    assert again["official"]["score"] == result["official"]["score"]
    assert kinds(out).count("official") == 2


def changed(**tables: Any) -> Config:
    """`small` with other tables."""
    values = small().resolved()
    return make_config({**values, **tables})


@pytest.mark.parametrize(
    ("other", "keys"),
    [
        (small(steps=2), "optimizer.steps"),
        (small(seed=4), "optimizer.seed"),
        (small(method="skillopt"), "optimizer.method"),
        (changed(data={"benchmark": "simulated"}), "data.sizes"),
        (changed(models={"default": {"model": "simulated", "temperature": 0.1}}), "models.default.temperature"),
        (changed(models={"default": {"model": "simulated"}, "judge": {"model": "simulated"}}), "models.judge"),
    ],
)
def test_another_config_is_refused_on_resume(tmp_path: Path, other: Config, keys: str):
    """Other settings, models or data: one line with the keys, exit code 2, before any call and with nothing written."""
    tight = changed(budget={"max_calls": 10})
    run_one(tight, tmp_path / "run")
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").glob("*.json*")}
    with pytest.raises(ConfigurationError, match=keys) as caught:
        run_one(other, tmp_path / "run", resume=True)
    assert caught.value.exit_code == 2
    assert {p.name: p.read_bytes() for p in (tmp_path / "run").glob("*.json*")} == before


def test_budget_threads_and_address_may_change_on_resume(tmp_path: Path):
    """What decides nothing may change; a setting that is named with its default is no change."""
    run_one(changed(budget={"max_calls": 10}), tmp_path / "run")
    values = small(num_threads=2, patience=2).resolved()
    values["models"]["default"]["timeout"] = 5.0
    assert is_complete(run_one(make_config(values), tmp_path / "run", resume=True))


def test_experiment_names_the_other_keys(tmp_path: Path):
    """An experiment's folder refuses another config by key too."""
    run_experiment([small(steps=0)], ["zero-shot"], [0], tmp_path, jobs=1)
    with pytest.raises(ConfigurationError, match=r"another config for simulated .*optimizer\.steps"):
        run_experiment([small(steps=9)], ["zero-shot"], [0], tmp_path, jobs=1)


@pytest.mark.parametrize(
    ("model", "variable"), [("openai/gpt-4o", "OPENAI_API_KEY"), ("anthropic/claude", "ANTHROPIC_API_KEY")]
)
def test_missing_key_stops_before_a_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, model: str, variable: str
):
    """A known provider without its key in the environment: exit code 2, one line with the variable, no folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(variable, raising=False)
    Path("c.toml").write_text(
        f'[data]\nbenchmark = "simulated"\n[models]\ndefault = {{ model = "{model}" }}\n', encoding="utf-8"
    )
    assert main(["optimize", "c.toml", "--out", "run"]) == 2
    assert variable in capfd.readouterr().err
    assert not Path("run").exists()


def test_starter_names_no_missing_command():
    """Every ``decoevo`` command that the starter config mentions exists."""
    import re

    from decoevo_dspy.cli.app import app
    from decoevo_dspy.commands.init import CONFIG

    names = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert set(re.findall(r"with: decoevo ([a-z]+)\b", CONFIG)) <= names


@pytest.mark.parametrize("command", ["show", "report", "evaluate"])
def test_file_where_a_run_folder_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, command: str):
    """One line that says it is a file, exit code 2."""
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("hello", encoding="utf-8")
    Path("c.toml").write_text(
        '[data]\nbenchmark = "simulated"\n[models]\ndefault = { model = "simulated" }\n', encoding="utf-8"
    )
    more = ["--config", "c.toml"] if command == "evaluate" else []
    assert main([command, "notes.txt", *more]) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "notes.txt" in lines[0]
    assert "Errno" not in lines[0]
    assert "a file" in lines[0] or "not a program" in lines[0]
