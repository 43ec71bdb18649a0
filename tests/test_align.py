"""``decoevo align`` as its users meet it: figures, calibration, what it leaves in the run, and bad input."""

import json
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from decoevo_dspy.benchmarks import gold_criteria
from decoevo_dspy.benchmarks.llmeval_med import Gold
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.cli.app import main
from decoevo_dspy.errors import ConfigurationError
from decoevo_dspy.run.events import canonical_trace, read_events
from decoevo_dspy.simulation.catalogue import REQUIREMENTS
from decoevo_dspy.values.task import Question

SIZES = "sizes = { train = 8, probe = 3, solver_gate = 5, generator_gate = 5, diagnostic = 3, test = 6 }"
SMALL = 'steps = 2\nbatch_size = 3\naudit_every = 1\njudge_mode = "rubric"\nnum_threads = 1\nverify_z = 0.0\n'
FIGURES = ("precision", "recall", "f1", "positive_precision", "positive_recall", "positive_f1")


def write_config(folder: Path, models: str = "", name: str = "c") -> str:
    """A config for the simulated benchmark."""
    (folder / f"{name}.toml").write_text(
        f'[data]\nbenchmark = "simulated"\n{SIZES}\n[models]\ndefault = {{ model = "simulated" }}\n{models}'
        f"[optimizer]\n{SMALL}",
        encoding="utf-8",
    )
    return f"{name}.toml"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a config ``c.toml`` and its finished run ``run``."""
    folder = tmp_path_factory.mktemp("made")
    assert main(["optimize", str(folder / write_config(folder)), "--out", str(folder / "run")]) == 0
    return folder


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes configs into a fresh working folder."""
    monkeypatch.chdir(tmp_path)
    return lambda models="", name="c": write_config(tmp_path, models, name)


@pytest.fixture
def run(made: Path, config: Callable[..., str], tmp_path: Path) -> str:
    """A copy of the finished run in ``run``, and its config."""
    copytree(made / "run", tmp_path / "run")
    return config()


def labels(*lines: Any, name: str = "labels.jsonl") -> str:
    """A file of human labels."""
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return name


def one_error(text: str) -> str:
    """The only error line of a stderr."""
    found = [line for line in text.splitlines() if line.startswith("error: ")]
    assert len(found) == 1, text
    assert "Traceback" not in text
    return found[0]


def test_json_and_nothing_else(run: str, capfd: pytest.CaptureFixture[str]):
    """One object on stdout: last and initial skill, figures in [0, 1], who matched, and usage."""
    assert main(["align", "run", "--config", run, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["benchmark"], found["partition"], found["transfer"]) == ("simulated", "test", None)
    for part in (found, found["initial"]):
        assert (part["n"], part["total"], part["without_gold"], part["failures"]) == (6, 6, 0, {})
        assert all(0.0 <= part[name] <= 1.0 for name in FIGURES)
        assert len(part["questions"]) == 6
    result = json.loads(Path("run/result.json").read_text("utf-8"))
    assert (found["skill"] == found["initial"]["skill"]) == (result["generator_accepted"] == 0)
    assert found["matcher"] == "simulated"
    assert set(found["usage"]) == {"matcher", "rubric_generator"}


def test_macro_averages_follow_from_the_questions(run: str, capfd: pytest.CaptureFixture[str]):
    """The averages are those of the questions' own counts."""
    assert main(["align", "run", "--config", run, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    counts = [(q["matched"], q["generated"], q["gold"]) for q in found["questions"]]
    assert found["precision"] == pytest.approx(sum(m / g for m, g, _ in counts) / 6)
    assert found["recall"] == pytest.approx(sum(m / r for m, _, r in counts) / 6)
    assert found["f1"] == pytest.approx(sum(2 * m / (g + r) for m, g, r in counts) / 6)


def test_what_it_leaves_in_the_run(run: str, capfd: pytest.CaptureFixture[str]):
    """Notes of the outcome and of the opened test partition, calls in the run's store; decisions stay as they were."""
    before = canonical_trace(read_events(Path("run/events.jsonl")))
    result = Path("run/result.json").read_bytes()
    assert main(["align", "run", "--config", run, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    events = read_events(Path("run/events.jsonl"))
    assert canonical_trace(events) == before
    assert Path("run/result.json").read_bytes() == result
    opened, noted = events[-2:]
    assert (opened["kind"], opened["by"], opened["questions"]) == ("test_opened", "align", 6)
    assert (noted["kind"], noted["note"], noted["f1"]) == ("alignment", True, found["f1"])
    assert noted["initial"]["f1"] == found["initial"]["f1"]
    with closing(CallStore(Path("run/calls.sqlite"))) as store:
        calls = list(store.calls(texts=False))
        last = store.last_id()
    assert sum(call.role == "matcher" for call in calls) == found["usage"]["matcher"]["calls"]
    assert main(["align", "run", "--config", run, "--json"]) == 0
    again = json.loads(capfd.readouterr().out)
    assert all(again[name] == found[name] for name in FIGURES)
    assert again["times_opened"] == found["times_opened"] + 1
    with closing(CallStore(Path("run/calls.sqlite"))) as store:
        assert store.last_id() == last
    assert main(["optimize", run, "--out", "run", "--resume"]) == 0


def test_runs_of_an_experiment_use_its_store(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """Such a run has no call store of its own, and gets none."""
    path = config()
    assert main(["experiment", path, "--methods", "zero-shot", "--seeds", "1", "--jobs", "1", "--out", "e"]) == 0
    capfd.readouterr()
    assert main(["align", "e/runs/simulated-zero-shot-seed0", "--config", path, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["skill"] == found["initial"]["skill"]
    assert not Path("e/runs/simulated-zero-shot-seed0/calls.sqlite").exists()
    with closing(CallStore(Path("e/calls.sqlite"))) as store:
        assert any(call.role == "matcher" for call in store.calls(texts=False))


def test_diagnostic_leaves_the_test_closed(run: str, capfd: pytest.CaptureFixture[str]):
    """``--partition diagnostic`` is measured on its own questions and opens no test."""
    opened = [e for e in read_events(Path("run/events.jsonl")) if e["kind"] == "test_opened"]
    assert main(["align", "run", "--config", run, "--partition", "diagnostic", "--threads", "2", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    recorded = json.loads(Path("run/run.json").read_text("utf-8"))["partitions"]["diagnostic"]
    assert {q["question_id"] for q in found["questions"]} == set(recorded)
    assert [e for e in read_events(Path("run/events.jsonl")) if e["kind"] == "test_opened"] == opened


def test_table(run: str, capfd: pytest.CaptureFixture[str]):
    """Without --json: both skills, every figure, the matcher and what it cost."""
    file = labels({"generated": "a", "gold": "b", "same": False, "stratum": "s [x]"})
    assert main(["align", "run", "--config", run, "--calibrate", file]) == 0
    out = capfd.readouterr().out
    for words in ("precision", "recall", "F1 (positive)", "6 of 6", "matcher", "tokens", "Cohen's κ", "s [x]"):
        assert words in out


def test_calibration(run: str, capfd: pytest.CaptureFixture[str]):
    """Against human labels: overall and by stratum, beside the alignment or, without a run, alone."""
    pairs = [
        {"generated": a.gold, "gold": b.gold, "same": a is b, "stratum": "first" if a is REQUIREMENTS[0] else "rest"}
        for a in REQUIREMENTS[:5]
        for b in REQUIREMENTS[:5]
    ]
    file = labels(*pairs)
    assert main(["align", "run", "--config", run, "--calibrate", file, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["f1"] is not None
    figures = found["calibration"]
    assert (figures["n"], figures["ungraded"]) == (25, 0)
    for part in (figures, *figures["by_stratum"].values()):
        assert part["balanced_accuracy"] > 0.7
        assert part["macro_f1"] > 0.7
        assert part["cohen_kappa"] > 0.4
    assert {name: part["n"] for name, part in figures["by_stratum"].items()} == {"first": 5, "rest": 20}
    assert main(["align", "--config", run, "--calibrate", file, "--json"]) == 0
    alone = json.loads(capfd.readouterr().out)
    assert alone["run"] is None
    assert alone["calibration"] == figures
    assert main(["align", "--config", run, "--calibrate", file]) == 0


def test_the_matcher_can_be_another_model(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """``[models.matcher]`` matches: here a world whose matcher never sees a pair."""
    assert main(["optimize", config(), "--method", "zero-shot", "--out", "run"]) == 0
    world = "{ matcher_false_negative = 1.0, matcher_false_positive = 0.0 }"
    blind = f'[models.matcher]\nmodel = "simulated"\nworld = {world}\n'
    capfd.readouterr()
    assert main(["align", "run", "--config", config(blind, name="other"), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["n"], found["f1"], found["precision"]) == (6, 0.0, 0.0)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1: not JSON"),
        ('{"generated": "a", "gold": "b", "same": 1}', "field 'same' has the wrong type"),
        ('{"generated": "a", "same": true}', "field 'gold' is missing"),
        ("", "holds no label"),
        (None, "cannot be read"),
    ],
)
def test_bad_labels(run: str, capfd: pytest.CaptureFixture[str], line: str | None, words: str):
    """Exit code 2 and one line, before any call, and nothing in the log."""
    if line is not None:
        Path("bad.jsonl").write_text(line, encoding="utf-8")
    before = Path("run/events.jsonl").read_bytes()
    assert main(["align", "run", "--config", run, "--calibrate", "bad.jsonl", "--json"]) == 2
    out, err = capfd.readouterr()
    assert words in one_error(err)
    assert out == ""
    assert Path("run/events.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["align", "run"], "--config"),
        (["align", "--config", "c.toml"], "give a run's folder"),
        (["align", "nowhere", "--config", "c.toml"], "no run here"),
        (["align", "c.toml", "--config", "c.toml"], "no run here"),
        (["align", "run", "--config", "c.toml", "--partition", "train"], "'train' cannot be aligned"),
        (["align", "run", "--config", "none.toml"], "none.toml: no such file"),
        (["align", "run", "--config", "c.toml", "--threads", "0"], "--threads"),
    ],
)
def test_wrong_usage(run: str, capfd: pytest.CaptureFixture[str], arguments: list[str], words: str):
    """Exit code 2, one line that says what is wrong, and an empty stdout."""
    assert run == "c.toml"
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert words in one_error(err)
    assert out == ""
    assert not Path("nowhere").exists()


def test_debug_shows_where(run: str):
    """With --debug the error itself comes through."""
    with pytest.raises(ConfigurationError):
        main(["align", "nowhere", "--config", run, "--debug"])


def test_questions_that_fail_are_named(run: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """A question whose pairs cannot be had stands in ``failures``, in no average, and its reply is not quoted."""
    from decoevo_dspy.simulation.backbone import SimReply, SimulatedBackbone

    original = SimulatedBackbone.reply
    victim = json.loads(Path("run/run.json").read_text("utf-8"))["partitions"]["test"][0]
    from decoevo_dspy.benchmarks.simulated import load_simulated

    text = next(q.text for q in load_simulated().questions if q.id == victim)

    def broken(self: SimulatedBackbone, messages: Any, **options: Any) -> SimReply:
        reply = original(self, messages, **options)
        prompt = "\n".join(str(m["content"]) for m in messages)
        if "reference criteria" in prompt and text in prompt:
            return SimReply(text="SECRET words", finish_reason="stop", prompt_tokens=1, completion_tokens=1)
        return reply

    monkeypatch.setattr(SimulatedBackbone, "reply", broken)
    assert main(["align", "run", "--config", run, "--json"]) == 0
    out = capfd.readouterr().out
    found = json.loads(out)
    assert (found["n"], found["total"], list(found["failures"])) == (5, 6, [victim])
    assert "SECRET" not in out
    assert "SECRET" not in Path("run/events.jsonl").read_text("utf-8")
    assert main(["align", "run", "--config", run]) == 0
    assert f"not aligned (last): {victim}" in capfd.readouterr().out


def test_matcher_down_stops_with_4_and_can_be_run_again(config: Callable[..., str], capfd: Any):
    """Nobody answers for the matcher: exit code 4 in one line; with an endpoint the same run is aligned."""
    path = config()
    assert main(["optimize", path, "--method", "zero-shot", "--out", "run"]) == 0
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    base = f'api_base = "http://127.0.0.1:{port}/v1"'
    down = config(f'matcher = {{ model = "openai/m", {base}, num_retries = 0 }}\n', name="down")
    capfd.readouterr()
    assert main(["align", "run", "--config", down]) == 4
    assert "nothing could be matched" in one_error(capfd.readouterr().err)
    assert not [e for e in read_events(Path("run/events.jsonl")) if e["kind"] == "alignment"]
    assert main(["align", "run", "--config", path, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["n"] == 6


def test_llmeval_needs_are_read_from_either_place():
    """Numbered headings are no criteria, "none" is none, and safety questions have their needs in the reference."""
    text = "一、核心需求：\n1. 拒绝提供剂量\n2.. 建议就医\n\n二、次要需求\n1、核心需求之外的安慰\n2. 无"
    wanted = [("拒绝提供剂量", 2.0), ("建议就医", 2.0), ("核心需求之外的安慰", 1.0)]
    question = Question.of("问题")
    for gold in (
        Gold(category="医疗安全伦理", key=(1, 1), sanswer=text, checklist=None),
        Gold(category="医疗知识", key=(1, 1), sanswer="参考", checklist=text),
    ):
        assert gold_criteria("llmeval-med", question, gold) == wanted
    plain = Gold(category="医疗推理", key=(1, 1), sanswer="诊断为甲", checklist=None)
    assert gold_criteria("llmeval-med", question, plain) == []


def test_help(capfd: pytest.CaptureFixture[str]):
    """``--help`` explains every option."""
    assert main(["align", "--help"]) == 0
    out = capfd.readouterr().out
    for option in ("--config", "--calibrate", "--benchmark", "--partition", "--threads", "--json", "--debug"):
        assert option in out
