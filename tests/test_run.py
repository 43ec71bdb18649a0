"""A run as an object: old folders open, newer ones are refused, and file names and event kinds stand in one place."""

import ast
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from decoevo_dspy import RoleLMs, SkillOpt, Task
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.cli.app import main
from decoevo_dspy.errors import DataError
from decoevo_dspy.reporting.report import write_report
from decoevo_dspy.reporting.show import show_text
from decoevo_dspy.run.events import canonical_trace
from decoevo_dspy.run.folder import Run
from decoevo_dspy.run.schema import KINDS, SCHEMA, GeneratorDecision, RunStarted, SolverDecision, typed
from decoevo_dspy.run.standing import fold, standings
from decoevo_dspy.simulation.backbone import SimulatedBackbone
from decoevo_dspy.values import files
from tests.conftest import Answer, ScriptedEndpoint

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden" / "run_v1.tar.xz"
"""A finished run of the first version (its config beside it): 3 steps of DecoEvo on the embedded backbone."""


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The golden run, in the working folder."""
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return Run(tmp_path / "run")


class TestFirstVersion:
    """A folder that the first version has written."""

    def test_every_record_is_known(self, old: Run):
        """Each reads as its class, and writes as it was."""
        records = old.events()
        for record in records:
            event = typed(record)
            assert event is not None
            assert event.record() == {k: v for k, v in record.items() if k not in ("seq", "at", "calls_upto")}
        kinds = {record["kind"] for record in records}
        assert {"run_started", "batch_graded", "audit", "solver_decision", "generator_decision"} <= kinds
        assert {"diagnostic", "official", "test_opened", "run_finished"} <= kinds

    @pytest.mark.parametrize(
        "command",
        [
            ["show", "run"],
            ["show", "run", "--diff"],
            ["show", "run", "--json"],
            ["report", "run"],
            ["evaluate", "run", "--config", "decoevo.toml"],
            ["align", "run", "--config", "decoevo.toml"],
        ],
        ids=" ".join,
    )
    def test_every_reading_command_opens_it(self, command: list[str], old: Run, capsys: pytest.CaptureFixture[str]):
        """Without a call that is not in its store, where it asks for what the run has asked."""
        assert main(command) == 0
        assert "accepted" in capsys.readouterr().out.lower() or command[0] != "show"

    @pytest.mark.parametrize("kept", [1, 5, 8, 13, 17, 23])
    def test_it_resumes(self, kept: int, old: Run):
        """Cut anywhere, it goes on to the same trace and the same result, and repeats no call."""
        before, result = old.events(), old.result()
        paid = _rows(old)
        log = old.path / files.EVENTS
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:kept]))
        (old.path / files.RESULT).unlink()
        assert main(["optimize", "decoevo.toml", "--out", "run", "--resume"]) == 0
        assert canonical_trace(old.events()) == canonical_trace(before)
        again = old.result()
        assert again is not None
        assert result is not None
        assert [again[k] for k in ("solver_skill", "generator_skill", "proxy")] == [
            result[k] for k in ("solver_skill", "generator_skill", "proxy")
        ]
        assert again["official"]["per_question"] == result["official"]["per_question"]
        assert _rows(old) == paid

    def test_its_log_folds_into_its_result(self, old: Run):
        """Skills, counts and score are those that the run itself wrote down."""
        standing, result = fold(old.events()), old.result()
        assert result is not None
        assert (standing.solver.text, standing.generator.text) == (result["solver_skill"], result["generator_skill"])
        assert standing.accepted == {"solver": result["solver_accepted"], "generator": result["generator_accepted"]}
        assert standing.decided == {
            "solver": result["gate_queries"]["solver_gate"],
            "generator": result["gate_queries"]["generator_gate"],
        }
        assert standing.step == result["steps"]
        assert standing.J is not None
        assert pytest.approx(result["proxy"], abs=1e-3) == 100 * standing.J
        assert standing.scores[standing.solver.key] == result["official"]
        assert standing.finished


def _rows(run: Run) -> int:
    store = CallStore(run.calls)
    try:
        return store.last_id()
    finally:
        store.close()


@pytest.mark.parametrize("where", [files.EVENTS, files.RUN])
@pytest.mark.parametrize(
    "command",
    [
        ["show", "run"],
        ["report", "run"],
        ["evaluate", "run", "--config", "decoevo.toml"],
        ["align", "run", "--config", "decoevo.toml"],
        ["optimize", "decoevo.toml", "--out", "run", "--resume"],
    ],
    ids=lambda command: command[0],
)
def test_a_newer_version_is_refused(where: str, command: list[str], old: Run, capsys: pytest.CaptureFixture[str]):
    """One line that says what to do; nothing is changed."""
    file = old.path / where
    if where == files.EVENTS:
        first, rest = file.read_text("utf-8").split("\n", 1)
        file.write_text(json.dumps({**json.loads(first), "schema": SCHEMA + 1}) + "\n" + rest, encoding="utf-8")
    else:
        file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "schema": SCHEMA + 1}), encoding="utf-8")
    before = file.read_bytes()
    assert main(command) == 2
    said = capsys.readouterr().err.strip()
    assert "newer decoevo-dspy" in said
    assert "upgrade" in said
    assert "\n" not in said
    assert file.read_bytes() == before


def test_a_record_that_lacks_a_field_is_named(old: Run):
    """Number, kind and field; an event of an unknown kind is left alone."""
    record = next(record for record in old.events() if record["kind"] == "solver_decision")
    del record["accepted"]
    with pytest.raises(DataError, match=rf"event {record['seq']} \(solver_decision\) lacks 'accepted'"):
        typed(record)
    assert typed({"kind": "of tomorrow"}) is None


def test_a_fold_stands_where_the_incumbents_are(old: Run):
    """After each decision, an accepted text is the incumbent and a rejected one is not."""
    for event, standing in standings(old.events()):
        if isinstance(event, RunStarted):
            assert (standing.solver.text, standing.generator.text) == (event.solver_skill, event.generator_skill)
        elif isinstance(event, SolverDecision):
            assert (standing.solver.text == event.text) is event.accepted
        elif isinstance(event, GeneratorDecision):
            assert (standing.generator.text == event.text) is event.accepted


OVERFLOW = {"error": {"message": "This model's maximum context length is 9 tokens.", "code": "context_length_exceeded"}}


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (Answer(status=400, body=OVERFLOW), "overflow"),
        (Answer(content="no verdict today"), "unparsable"),
        (Answer(content="", finish_reason="content_filter"), "refused"),
    ],
    ids=["overflow", "unparsable", "refused"],
)
@pytest.mark.parametrize("from_gate", [False, True], ids=["from the start", "at the gate"])
def test_a_failure_keeps_its_kind_up_to_the_report(
    from_gate: bool, broken: Answer, kind: str, endpoint: ScriptedEndpoint, tmp_path: Path
):
    """What the judge's endpoint did is named where a person asks why a step came to nothing."""
    backbone = SimulatedBackbone(0)

    def answer(body: dict[str, Any]) -> Answer:
        asked, text = str(body.get("response_format")), str(body["messages"])
        if "JudgeCriterion" in asked and (not from_gate or "problem 6?" in text):
            return broken
        reply = backbone.reply(body["messages"], seed=body.get("seed"), response_format=body.get("response_format"))
        return Answer(content=reply.text)

    endpoint.script(answer)
    examples = [dspy.Example(question=f"How do I fix problem {i}?").with_inputs("question") for i in range(8)]
    task = Task(name="t", description="Answer.", evaluation="Be right.")
    optimizer = SkillOpt(
        task, steps=1, batch_size=2, role_lms=RoleLMs(default=endpoint.lm()), num_threads=2, log_dir=tmp_path / "run"
    )
    optimizer.compile(
        dspy.Predict("question -> response"),
        trainset=examples[:3],
        valset=examples[4:7],
        probeset=examples[3:4],
        gateset=examples[7:],
    )
    assert f"because of{':' if from_gate else ''} {kind} (" in show_text(tmp_path / "run")
    page = write_report([tmp_path / "run"], tmp_path / "report").read_text("utf-8")
    assert f"{kind} (" in page


def _strings(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every string of the code that is no docstring."""
    for path in folder.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        said = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                yield path, node.value


def test_kinds_and_file_names_are_spelled_in_one_place():
    """No other module names an event's kind or a file of a run's folder."""
    names = {value for name, value in vars(files).items() if name.isupper()} - {"skills", "runs"}
    kinds = {kind for kind in KINDS if "_" in kind}
    homes = {ROOT / "decoevo_dspy/run/schema.py", ROOT / "decoevo_dspy/values/files.py"}
    spelled = {
        (str(path.relative_to(ROOT)), value)
        for folder in ("decoevo_dspy", "teleprompters", "signatures")
        for path, value in _strings(ROOT / folder)
        if path not in homes and value in names | kinds
    }
    assert spelled == set()
