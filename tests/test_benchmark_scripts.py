"""The benchmark scripts run at their smallest size and write JSON of the documented shape; the figures mean nothing."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "benchmarks"
TINY = {"train": 4, "probe": 3, "solver_gate": 3, "generator_gate": 3, "diagnostic": 1, "test": 4, "pilot": 1}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a script as its own folder's Python would."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module


def test_generator_gate_reports_every_combination(script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """All combinations, views and cases are there with intervals, and a default is named."""
    gate = script("generator_gate")
    report = gate.run(decisions=2, sweep=1, sizes=[4], rollouts=[2], pool=1, steps=1, main=(6, 3))
    gate.write(tmp_path / "gate.json", report)
    gate.show(report)
    read = json.loads((tmp_path / "gate.json").read_text("utf-8"))
    assert read["label"] == "simulated backbone"
    assert read["cells"] == [[6, 3], [4, 3], [6, 2]]
    assert len(read["rates"]) == 3 * 8 * 2 * 3
    assert {r["n"] for r in read["rates"]} == {1, 2}
    for rate in read["rates"]:
        low, high = rate["interval"]
        assert 0 <= low <= rate["accepted"] <= high <= 1
        assert rate["accepted"] + rate["undecided"] + rate["no_rise"] + rate["fell"] == pytest.approx(1)
        assert rate["fell_alone"] <= rate["fell"]
        assert rate["by_eta"]["0.01"] == rate["accepted"]  # the default η
        assert rate["by_eta"]["1.0"] == pytest.approx(rate["accepted"] + rate["fell_alone"])
    assert len(read["choice"]) == 8
    assert "simulated backbone" in capsys.readouterr().out


def test_second_sample_means_the_same(script: Any):
    """The A/A candidate is another skill that every reader of the world reads as the same one."""
    from decoevo_dspy.simulation.world import read_skill
    from decoevo_dspy.values.skill import GENERATOR_SKILL, Skill

    gate = script("generator_gate")
    same = Skill(f"{GENERATOR_SKILL}\n{gate.COMMENT}")
    assert same.key != Skill(GENERATOR_SKILL).key
    assert read_skill(same.text) == read_skill(GENERATOR_SKILL)


def test_simulated_evidence_reports_methods_controls_and_claims(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A row per run, comparisons with skillopt, negative controls, a curve, and a verdict on every claim."""
    evidence = script("simulated_evidence")
    settings = evidence.parse_settings(["steps=1", "audit_every=1", "batch_size=3", "rollouts=2", "eta=1.0"])
    methods = ("zero-shot", "skillopt", "sc-coevo", "decoevo", "budget-matched", "no-structural")
    work = evidence.plan([3, 4], [3], ("main",), methods, None, settings, TINY)
    work += evidence.plan([3], [3], ("controls",), methods, None, settings, TINY)
    work += [w for w in evidence.plan([3], [3], ("curves",), methods, ("eta",), settings, TINY) if "=0.2" in w.part]
    report = evidence.run(work, [3, 4], 1, tmp_path / "rows.jsonl")
    evidence.write(tmp_path / "evidence.json", report)
    evidence.show(report)
    read = json.loads((tmp_path / "evidence.json").read_text("utf-8"))
    assert read["label"] == "simulated backbone"
    assert len(read["runs"]) == 2 * len(methods) + 2 * 2 + 2
    assert len((tmp_path / "rows.jsonl").read_text("utf-8").splitlines()) == len(read["runs"])
    summary = read["summary"]
    assert list(summary["main"]) == list(methods)
    assert summary["main"]["skillopt"]["over_skillopt"] is None
    assert summary["main"]["decoevo"]["over_skillopt"]["n"] == 2
    assert len(summary["controls"]) == 2
    assert list(summary["curves"]) == ["eta"]
    assert len(summary["verdicts"]) == 7
    by_name = {(r["part"], r["name"], r["seed"]): r for r in read["runs"]}
    matched, paired = (by_name["main", name, 3]["calls"] for name in ("budget-matched", "decoevo"))
    assert matched <= paired
    assert "Claims of docs/SIMULATION.md §3 [simulated backbone]" in capsys.readouterr().out


def test_settings_are_checked(script: Any):
    """An unknown setting is refused before anything runs."""
    with pytest.raises(SystemExit, match="no such setting"):
        script("simulated_evidence").parse_settings(["etta=1"])
