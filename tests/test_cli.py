"""The command line as its users meet it: exit codes, one clear line, JSON and nothing else, runs over HTTP."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from decoevo_dspy.cli.app import main
from decoevo_dspy.run.events import canonical_trace, read_events
from decoevo_dspy.simulation.backbone import SimulatedBackbone
from decoevo_dspy.simulation.server import SimulationServer, serve
from tests.conftest import Answer, ScriptedEndpoint

ROOT = Path(__file__).resolve().parents[1]
SIZES = "sizes = { train = 8, probe = 3, solver_gate = 5, generator_gate = 5, diagnostic = 2, test = 6 }"
SMALL = 'steps = 3\nbatch_size = 4\naudit_every = 2\njudge_mode = "rubric"\nnum_threads = 1\n'


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes a config for the simulated benchmark and returns its path; the working folder is a fresh one."""
    monkeypatch.chdir(tmp_path)

    def write(model: str = '{ model = "simulated" }', optimizer: str = SMALL, more: str = "", name: str = "c") -> str:
        file = tmp_path / f"{name}.toml"
        file.write_text(
            f'[data]\nbenchmark = "simulated"\n{SIZES}\n[models]\ndefault = {model}\n[optimizer]\n{optimizer}{more}',
            encoding="utf-8",
        )
        return str(file)

    return write


@pytest.fixture
def server() -> Iterator[SimulationServer]:
    """The simulated backbone over HTTP; it knows the model ``sim`` only."""
    with serve(0, models=("sim",)) as running:
        yield running


def over_http(server: SimulationServer, model: str = "openai/sim") -> str:
    """A models table for the server."""
    return f'{{ model = "{model}", api_base = "{server.url}", num_retries = 0 }}'


def start(*arguments: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    values = {**os.environ, "PYTHONPATH": str(ROOT), "LITELLM_LOCAL_MODEL_COST_MAP": "True", **environment}
    return subprocess.Popen(
        [sys.executable, "-m", "decoevo_dspy", *arguments],
        cwd=cwd,
        env=values,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def errors(text: str) -> list[str]:
    """The error lines of a stderr."""
    return [line for line in text.splitlines() if line.startswith("error: ")]


def test_optimize_prints_json_and_nothing_else(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """stdout is ``result.json``'s object alone; progress goes to stderr, a line per decision."""
    assert main(["optimize", config(), "--out", "run", "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out) == json.loads(Path("run/result.json").read_text("utf-8"))
    assert len(re.findall(r"^step \d/3 +solver (?:accepted|rejected): ", err, re.MULTILINE)) == 3
    assert "official score" in err


def test_what_libraries_print_is_no_result(config: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capfd: Any):
    """A library that prints while a run works cannot spoil the JSON on stdout."""
    from decoevo_dspy.simulation.backbone import SimulatedBackbone

    original = SimulatedBackbone.reply

    def noisy(self: SimulatedBackbone, *args: Any, **options: Any) -> Any:
        print("Give Feedback / Get Help")
        return original(self, *args, **options)

    monkeypatch.setattr(SimulatedBackbone, "reply", noisy)
    assert main(["optimize", config(), "--method", "zero-shot", "--out", "run", "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["method"] == "zero-shot"
    assert "Give Feedback" in err


def test_optimize_prints_a_table(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """Without --json: the figures that matter, and where the run is."""
    assert main(["optimize", config(), "--method", "zero-shot", "--seed", "3"]) == 0
    out = capfd.readouterr().out
    assert "official score" in out
    assert "runs/simulated-zero-shot-seed3" in out
    about = json.loads(Path("runs/simulated-zero-shot-seed3/run.json").read_text("utf-8"))
    assert (about["method"], about["seed"]) == ("zero-shot", 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["optimize", "none.toml"], "none.toml: no such file"),
        (["optimize"], "Missing argument"),
        (["optimise"], "No such command"),
        (["demo", "--seeds", "0"], "--seeds"),
        (["demo", "--frobnicate"], "No such option"),
        (["demo", "--methods", "skillopt,magic"], "'magic' is not known"),
        (["evaluate", "x"], "--config"),
        (["show", "nowhere"], "nowhere"),
        (["report", "nowhere"], "nowhere"),
        (["simulate"], "Missing option"),
        (["simulate", "--port", "1", "--fail-rate", "2"], "--fail-rate"),
        (["simulate", "--port", "0", "--world-name", "v3"], "'v3' is not a world; use one of v1, v2, weak-structural"),
        (["simulate", "--port", "0", "--world", "luck=1"], "world.luck: unknown key"),
        (["simulate", "--port", "0", "--world", "tacit_share"], "NAME=VALUE"),
        (["simulate", "--port", "0", "--world", "tacit_share=0.9"], "tacit_share must lie in [0.0, 0.75]"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any):
    """Exit code 2 and one line that says what is wrong."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert len(errors(err)) == 1
    assert words in err
    assert out == ""
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("[extra]\na = 1\n", "extra: unknown key"),
        ("stepz = 1\n", "optimizer.stepz: unknown key"),
        ('skill_target = "nobody"\n', "skill_target = 'nobody'"),
        ('[grader]\nstrictness = "high"\n', "grader"),
        ('[task]\npreset = "nothing"\n', "task.preset"),
    ],
)
def test_bad_configs(config: Callable[..., str], capfd: pytest.CaptureFixture[str], more: str, words: str):
    """Exit code 2, one line with the key, no traceback, and nothing that looks like a run."""
    assert main(["optimize", config(more=more), "--out", "run"]) == 2
    err = capfd.readouterr().err
    assert len(errors(err)) == 1
    assert words in err
    assert "Traceback" not in err


def test_debug_shows_where(config: Callable[..., str]):
    """With --debug the error itself comes through."""
    from decoevo_dspy.errors import ConfigurationError

    with pytest.raises(ConfigurationError):
        main(["optimize", config(more="stepz = 1\n"), "--debug"])


def test_existing_folder_needs_resume(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """A folder that holds a run is not written again without --resume."""
    path = config()
    assert main(["optimize", path, "--method", "zero-shot", "--out", "run"]) == 0
    before = Path("run/result.json").read_bytes()
    assert main(["optimize", path, "--method", "zero-shot", "--out", "run"]) == 2
    assert "--resume" in errors(capfd.readouterr().err)[0]
    assert Path("run/result.json").read_bytes() == before


def test_folder_in_use_is_refused(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """A second process on the same folder gets exit code 2."""
    Path("run").mkdir()
    with FileLock("run/.lock"):
        assert main(["optimize", config(), "--out", "run", "--resume"]) == 2
    assert "another process is writing this run" in capfd.readouterr().err


def test_budget_stops_and_resume_completes(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """Exit code 3 with the cap named and the state saved; with a higher cap the same command finishes."""
    assert main(["optimize", config(more="[budget]\nmax_calls = 40\n"), "--out", "run", "--json"]) == 3
    out, err = capfd.readouterr()
    assert json.loads(out)["stopped_by"] == "budget"
    assert "the cap of 40 calls is reached" in errors(err)[0]
    assert main(["optimize", config(more="[budget]\nmax_calls = 100000\n"), "--out", "run", "--resume"]) == 0
    assert main(["optimize", config(), "--out", "whole"]) == 0
    traces = [canonical_trace(read_events(Path(name) / "events.jsonl")) for name in ("run", "whole")]
    assert traces[0] == traces[1]


def test_endpoint_down(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """Nobody listens: exit code 4, one line, no traceback; the state is there to resume."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    model = f'{{ model = "openai/sim", api_base = "http://127.0.0.1:{port}/v1", num_retries = 0 }}'
    assert main(["optimize", config(model), "--out", "run"]) == 4
    out, err = capfd.readouterr()
    assert (len(errors(err)), out) == (1, "")
    assert "openai/sim" in err
    assert "Traceback" not in err
    assert json.loads(Path("run/result.json").read_text("utf-8"))["stopped_by"] == "endpoint"


def test_unknown_model(config: Callable[..., str], server: SimulationServer, capfd: pytest.CaptureFixture[str]):
    """A model that the endpoint does not know stops the run before its first batch, with exit code 4."""
    assert main(["optimize", config(over_http(server, "openai/other")), "--out", "run"]) == 4
    err = capfd.readouterr().err
    assert len(errors(err)) == 1
    assert "other" in errors(err)[0]
    assert server.counts["requests"] <= 1


def test_run_over_http(config: Callable[..., str], server: SimulationServer, capfd: pytest.CaptureFixture[str]):
    """The whole method through LiteLLM with several threads; resuming the finished run sends nothing again."""
    path = config(over_http(server), SMALL.replace("num_threads = 1", "num_threads = 6"))
    assert main(["optimize", path, "--out", "run", "--json"]) == 0
    out, err = capfd.readouterr()
    result = json.loads(out)
    assert result["official"]["n_graded"] == 6
    assert sum(role["calls"] for role in result["usage"].values()) > 100
    assert all(role["failed_calls"] == 0 for role in result["usage"].values())
    assert "WARNING" not in err
    sent = server.counts["requests"]
    assert main(["optimize", path, "--out", "run", "--resume", "--json"]) == 0
    assert server.counts["requests"] == sent
    again = json.loads(capfd.readouterr().out)
    assert (again["official"]["score"], again["solver_skill"]) == (result["official"]["score"], result["solver_skill"])


def test_interrupt_and_resume(config: Callable[..., str], server: SimulationServer, tmp_path: Path):
    """Ctrl-C in the middle: exit code 130, one line; resumed, the trace is that of an undisturbed run, and at most the
    calls in flight are sent twice."""
    threads = 2
    path = config(over_http(server), SMALL.replace("num_threads = 1", f"num_threads = {threads}"))
    assert main(["optimize", path, "--out", "whole"]) == 0
    undisturbed = server.counts["requests"]
    process = start("optimize", path, "--out", "cut", cwd=tmp_path)
    log = tmp_path / "cut" / "events.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and b'"solver_decision"' in log.read_bytes()):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert len(errors(err)) == 1
    assert "Traceback" not in err
    assert main(["optimize", path, "--out", "cut", "--resume"]) == 0
    traces = [canonical_trace(read_events(Path(name) / "events.jsonl")) for name in ("whole", "cut")]
    assert traces[0] == traces[1]
    assert server.counts["requests"] <= 2 * undisturbed + threads


def test_demo_in_a_bare_environment(tmp_path: Path):
    """``demo --json`` in a fresh process with an empty HOME and an ASCII locale: ``summary.json``'s object alone."""
    arguments = ["demo", "--out", "d", "--seeds", "1", "--methods", "zero-shot"]
    bare = {"HOME": str(tmp_path), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii:strict"}
    process = start(*arguments, cwd=tmp_path, **bare)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert "━" in out
    process = start(*arguments, "--json", cwd=tmp_path, **bare)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    summary = json.loads(out)
    assert summary == json.loads((tmp_path / "d" / "summary.json").read_text("utf-8"))
    assert summary["backbone"] == "simulated"
    assert "<html" in (tmp_path / "d" / "report.html").read_text("utf-8")
    assert list((tmp_path / "d").rglob("*.png"))


def test_help_is_quick():
    """The help comes up without DSPy: it is the first thing a newcomer types."""
    code = (
        "import sys\nfrom decoevo_dspy.cli.app import main\n"
        "code = main(['--help'])\nassert not {'dspy', 'litellm', 'numpy'} & set(sys.modules)\nsys.exit(code)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert run.returncode == 0, run.stderr
    for command in ("demo", "init", "optimize", "experiment", "evaluate", "show", "report", "simulate"):
        assert command in run.stdout


@pytest.mark.parametrize(
    "command", ["demo", "init", "optimize", "experiment", "evaluate", "show", "report", "simulate"]
)
def test_every_command_has_help(command: str, capfd: pytest.CaptureFixture[str]):
    """``--help`` explains every command and its --json."""
    assert main([command, "--help"]) == 0
    assert "--json" in capfd.readouterr().out


def test_experiment_command(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """A table with every method, and the summary beside the runs."""
    arguments = ["experiment", config(), "--methods", "zero-shot,skillopt", "--seeds", "2", "--jobs", "1", "--out", "e"]
    assert main(arguments) == 0
    out = capfd.readouterr().out
    assert "skillopt" in out
    assert "simulated" in out
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == json.loads(Path("e/summary.json").read_text("utf-8"))
    Path("e/runs/simulated-skillopt-seed1/result.json").unlink()
    only = ["experiment", config(), "--methods", "zero-shot", "--seeds", "2", "--jobs", "1", "--out", "e", "--json"]
    assert main(only) == 0  # a run that was not asked for is named, and is no failure of this command
    assert [run["run"] for run in json.loads(capfd.readouterr().out)["failed"]] == ["simulated-skillopt-seed1"]


def test_interrupted_experiment_continues(config: Callable[..., str], tmp_path: Path):
    """Ctrl-C while two processes work: exit code 130, one line, none of them left; the same command finishes."""
    path = config(optimizer=SMALL.replace("steps = 3", "steps = 6"))
    arguments = ["experiment", path, "--methods", "skillopt,decoevo", "--seeds", "2", "--jobs", "2", "--out", "e"]
    process = start(*arguments, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(tmp_path.glob("e/runs/*/events.jsonl"))) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert len(errors(err)) == 1
    assert "Traceback" not in err
    assert not list(tmp_path.glob("e/runs/*decoevo*/result.json"))
    assert main(arguments) == 0
    assert len(list(tmp_path.glob("e/runs/*/result.json"))) == 4


def test_failed_run_decides_the_exit_code(config: Callable[..., str], server: SimulationServer, capfd: Any):
    """All runs fail at the endpoint: the summary is printed, the failures are named, and the code is 4."""
    path = config(over_http(server, "openai/other"))
    assert main(["experiment", path, "--methods", "zero-shot", "--seeds", "1", "--out", "e", "--json"]) == 4
    out, err = capfd.readouterr()
    assert json.loads(out)["failed"][0]["run"] == "simulated-zero-shot-seed0"
    assert "simulated-zero-shot-seed0" in errors(err)[-1]


def test_evaluate_a_run_a_program_and_responses(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """The same score for a run's folder and for its program; ready responses by id; the run's log says who looked."""
    path = config()
    assert main(["optimize", path, "--out", "run", "--json"]) == 0
    score = json.loads(capfd.readouterr().out)["official"]["score"]
    for target in ("run", "run/solver.json"):
        assert main(["evaluate", target, "--config", path, "--json"]) == 0
        found = json.loads(capfd.readouterr().out)
        assert found["official"]["score"] == score
        assert found["official"]["n_total"] == 6
    opened = [e for e in read_events(Path("run/events.jsonl")) if e["kind"] == "test_opened"]
    assert [event["by"] for event in opened] == ["optimize", "evaluate"]
    ids = json.loads(Path("run/run.json").read_text("utf-8"))["partitions"]["test"]
    lines = [json.dumps({"id": id, "response": "Call a professional."}) for id in ids[:4]]
    Path("answers.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["evaluate", "answers.jsonl", "--config", path, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["official"]["n_graded"] == 4


def test_evaluate_zero_shot_is_the_zero_shot_run(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """``--zero-shot`` scores the program that every method starts from."""
    path = config()
    assert main(["optimize", path, "--method", "zero-shot", "--out", "run", "--json"]) == 0
    score = json.loads(capfd.readouterr().out)["official"]["score"]
    assert main(["evaluate", "--zero-shot", "--config", path, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["official"]["score"] == score


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", '{"id": "nobody", "response": "x"}\n', "not in the test partition"),
        ("a.jsonl", '{"response": "x"}\n', "'id' is missing"),
        ("p.json", "{}", "not a program"),
        ("p.json", "no json", "not a program"),
    ],
)
def test_evaluate_refuses_other_files(config: Callable[..., str], capfd: Any, name: str, text: str, words: str):
    """A file that is neither program nor responses is one line and exit code 2."""
    path = config()
    Path(name).write_text(text, encoding="utf-8")
    assert main(["evaluate", name, "--config", path]) == 2
    assert words in errors(capfd.readouterr().err)[0]


def test_show_a_run(config: Callable[..., str], capfd: pytest.CaptureFixture[str]):
    """Every decision of the run, as text and as JSON."""
    assert main(["optimize", config(), "--out", "run"]) == 0
    capfd.readouterr()
    assert main(["show", "run", "--diff"]) == 0
    text = capfd.readouterr().out
    assert re.search(r"accepted|rejected", text)
    assert main(["show", "run", "--json"]) == 0
    json.loads(capfd.readouterr().out)


def test_init_writes_what_optimize_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any):
    """The starter files load, their data is dealt as the config says, and nothing is overwritten."""
    from decoevo_dspy.commands.build import build_partitions, load_data
    from decoevo_dspy.commands.config import load_config

    monkeypatch.chdir(tmp_path)
    assert main(["init", "new", "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["files"]) == 2
    config = load_config("new/decoevo.toml")
    partitions = build_partitions(config, load_data(config))
    assert len(partitions.test) == 6
    assert main(["optimize", "new/decoevo.toml", "--method", "skillopt", "--out", "run"]) == 0
    assert main(["init", "new"]) == 2


def test_simulate_serves_until_interrupted(tmp_path: Path):
    """``simulate --json`` says where it listens, answers there, and ends with code 0 on Ctrl-C."""
    import urllib.request

    process = start("simulate", "--port", "0", "--json", cwd=tmp_path)
    assert process.stdout is not None
    base = json.loads("".join(process.stdout.readline() for _ in range(3)))["api_base"]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
    request = urllib.request.Request(f"{base}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        assert json.load(reply)["choices"][0]["message"]["content"]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 0


ACTING = "\x1b[2J\x1b]0;title\x07 \x9b31m \x7f \u202e \r rest"
"""Clears a screen, sets a title, colours, deletes, turns the direction of writing round."""


def acts(text: str) -> set[str]:
    """The characters of an output that a terminal would obey."""
    return {ch for ch in text if ch in "\x1b\x07\x9b\x7f\u202e\r"}


def test_what_an_endpoint_says_cannot_steer_the_terminal(
    endpoint: ScriptedEndpoint, config: Callable[..., str], capfd: pytest.CaptureFixture[str]
):
    """Control characters of an error body are escaped."""
    endpoint.answers(Answer(status=401, body={"error": {"message": f"no entry {ACTING}"}}))
    assert (
        main(["optimize", config(f'{{ model = "openai/x", api_base = "{endpoint.origin}/v1", num_retries = 0 }}')]) == 4
    )
    out, err = capfd.readouterr()
    assert "no entry \\x1b[2J" in err
    assert acts(out + err) == set()


def test_what_a_model_says_cannot_steer_the_terminal(
    endpoint: ScriptedEndpoint, config: Callable[..., str], capfd: pytest.CaptureFixture[str]
):
    """In results, progress, show and JSON; JSON still holds the text as it is."""
    backbone = SimulatedBackbone(0)

    def answer(body: dict[str, Any]) -> str:
        reply = backbone.reply(body["messages"], seed=body.get("seed"), response_format=body.get("response_format"))
        hostile = json.dumps(f"{ACTING}")[1:-1]
        return reply.text.replace('"content": "- ', f'"content": "- {hostile} ').replace(
            '"summary": "', f'"summary": "{hostile}'
        )

    endpoint.script(answer)
    path = config(f'{{ model = "openai/x", api_base = "{endpoint.origin}/v1", num_retries = 0 }}')
    for arguments in (
        ["optimize", path, "--out", "run"],
        ["show", "run", "--diff"],
        ["show", "run", "--json"],
        ["evaluate", "run", "--config", path, "--json"],
        ["evaluate", "run", "--config", path],
        ["align", "run", "--config", path],
    ):
        assert main(arguments) == 0
        out, err = capfd.readouterr()
        assert acts(out + err) == set(), arguments
        if arguments == ["show", "run", "--json"]:
            assert "\x9b31m" in "".join(str(one["text"]) for one in json.loads(out)["candidates"])
