"""Runs and experiments on the simulated backbone: what is written, resumed, shared, skipped and summarised."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.commands import experiment
from decoevo_dspy.commands.config import Config, make_config
from decoevo_dspy.commands.experiment import is_complete, run_experiment, run_one
from decoevo_dspy.errors import ConfigurationError, EndpointError
from decoevo_dspy.reporting.summary import summarise
from decoevo_dspy.rules import statistics
from decoevo_dspy.run.events import canonical_trace, read_events
from decoevo_dspy.run.folder import Run
from decoevo_dspy.simulation.backbone import SimulatedBackbone

SIZES = {"train": 8, "probe": 3, "solver_gate": 5, "generator_gate": 5, "diagnostic": 2, "test": 6}


def small(**optimizer: Any) -> Config:
    """A config that runs in about a second."""
    table = {"steps": 3, "batch_size": 4, "audit_every": 2, "judge_mode": "rubric", "num_threads": 1, **optimizer}
    return make_config(
        {
            "data": {"benchmark": "simulated", "sizes": SIZES},
            "models": {"default": {"model": "simulated"}},
            "optimizer": table,
        }
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry per request that reached the simulated backbone."""
    calls: list[int] = []
    original = SimulatedBackbone.reply

    def counted(self: SimulatedBackbone, *args: Any, **options: Any) -> Any:
        calls.append(1)
        return original(self, *args, **options)

    monkeypatch.setattr(SimulatedBackbone, "reply", counted)
    return calls


def test_one_run_writes_its_folder(tmp_path: Path):
    """Every file of the contract, the official score on the test partition, and a log that says it was opened once."""
    out = tmp_path / "run"
    result = run_one(small(), out)
    assert result == Run(out).result()
    assert result["official"]["n_total"] == SIZES["test"]
    assert 0 <= result["official"]["score"] <= 100
    assert {"run.json", "events.jsonl", "calls.sqlite", "solver.json", "generator.json"} <= {
        p.name for p in out.iterdir()
    }
    kinds = [event["kind"] for event in read_events(out / "events.jsonl")]
    assert (kinds.count("test_opened"), kinds.count("official")) == (1, 1)
    about = json.loads((out / "run.json").read_text("utf-8"))
    assert len(about["partitions"]["test"]) == SIZES["test"]
    assert about["config"]["data"]["sizes"] == SIZES


@pytest.mark.parametrize("decision", [1, 3])
def test_interrupted_run_resumes_to_the_same_end(tmp_path: Path, asked: list[int], decision: int):
    """Stopped at any decision and resumed: the same trace, skills and score, and not one request is repeated."""
    run_one(small(), tmp_path / "whole")
    undisturbed = len(asked)
    seen: list[str] = []

    def stop(event: dict[str, Any]) -> None:
        seen.append(event["kind"])
        if event["kind"].endswith("_decision") and sum(kind.endswith("_decision") for kind in seen) == decision:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_one(small(), tmp_path / "cut", callbacks=[stop])
    assert not is_complete(Run(tmp_path / "cut").result())
    assert Run(tmp_path / "cut").result()["stopped_by"] == "interrupt"  # pyright: ignore[reportOptionalSubscript]
    run_one(small(), tmp_path / "cut", resume=True)
    traces = [canonical_trace(read_events(tmp_path / name / "events.jsonl")) for name in ("whole", "cut")]
    assert traces[0] == traces[1]
    results = [Run(tmp_path / name).result() for name in ("whole", "cut")]
    for result in results:
        assert result is not None
        result.pop("wall_s")
        for usage in (*result["usage"].values(), *result["official"]["usage"].values()):
            usage.pop("latency_s")
    assert results[0] == results[1]
    assert len(asked) == 2 * undisturbed


def test_interrupted_evaluation_resumes(tmp_path: Path, asked: list[int]):
    """A run that stopped between its last decision and its score is scored on resume; no answer is asked for again."""

    def stop(event: dict[str, Any]) -> None:
        if event["kind"] == "official":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_one(small(), tmp_path / "run", callbacks=[stop])
    asked.clear()
    assert is_complete(run_one(small(), tmp_path / "run", resume=True))
    assert asked == []


def test_budget_stop_keeps_the_test_partition_closed(tmp_path: Path):
    """A run that a cap stopped has no official score; with a higher cap it goes on to the end."""
    values = small().resolved()
    tight = make_config({**values, "budget": {"max_calls": 40}})
    result = run_one(tight, tmp_path / "run")
    assert (result["stopped_by"], result["official"]) == ("budget", None)
    assert "test_opened" not in [event["kind"] for event in read_events(tmp_path / "run" / "events.jsonl")]
    assert is_complete(run_one(small(), tmp_path / "run", resume=True))


def test_changed_settings_are_refused_on_resume(tmp_path: Path):
    """Resuming with other settings is an error that says so, with exit code 2."""
    run_one(small(), tmp_path / "run")
    with pytest.raises(ConfigurationError, match=r"optimizer\.steps differs") as caught:
        run_one(small(steps=2), tmp_path / "run", resume=True)
    assert caught.value.exit_code == 2


def test_no_gold_and_no_test_question_in_optimiser_prompts(tmp_path: Path):
    """A dump of every prompt: rewriters see no held-out question, and no optimiser role sees gold text."""
    from decoevo_dspy.commands.build import build_partitions, load_data

    config = small()
    run_one(config, tmp_path / "run")
    dataset = load_data(config)
    partitions = build_partitions(config, dataset)
    gold = [text for texts in dataset.gold._texts.values() for text in texts if len(text) > 40]
    held_out = [q.text for name, members in partitions.items() if name not in ("train", "probe") for q in members]
    store = CallStore(tmp_path / "run" / "calls.sqlite")
    checked = 0
    for call in store.calls():
        text = "\n".join(body for _, body in call.messages)
        checked += 1
        assert not any(line in text for line in gold), call.role
        if call.role.endswith("rewriter"):
            assert not any(question in text for question in held_out)
    store.close()
    assert checked > 100


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """An experiment of four methods and two seeds, in two processes."""
    out = tmp_path_factory.mktemp("experiment")
    methods = ["budget-matched", "zero-shot", "skillopt", "decoevo"]
    return out, run_experiment([small()], methods, [0, 1], out, jobs=2)


def test_summary_of_an_experiment(finished: tuple[Path, dict[str, Any]]):
    """``summary.json`` is what was returned, and its figures are those of the runs."""
    out, summary = finished
    assert summary == json.loads((out / "summary.json").read_text("utf-8")) == summarise(out)
    assert (summary["backbone"], summary["seeds"], summary["benchmarks"]) == ("simulated", [0, 1], ["simulated"])
    assert summary["failed"] == []
    assert "vs_skillopt" not in summary["methods"]["skillopt"]
    assert summary["methods"]["skillopt"]["tokens_vs_skillopt"] == 1
    for method, figures in summary["methods"].items():
        scores = []
        for seed in (0, 1):
            result = Run(out / "runs" / f"simulated-{method}-seed{seed}").result()
            assert result is not None
            scores.append(result["official"]["score"])
        assert figures["per_seed"] == pytest.approx(scores, abs=1e-4)
        assert figures["mean"] == pytest.approx(sum(scores) / 2, abs=1e-4)


def test_methods_of_a_seed_share_splits_and_calls(finished: tuple[Path, dict[str, Any]]):
    """Same partitions for every method of a seed, others for the next seed; shared calls are paid once."""
    out, _ = finished
    parts: dict[int, list[Any]] = {0: [], 1: []}
    for seed in parts:
        for method in ("zero-shot", "skillopt", "decoevo", "budget-matched"):
            about = json.loads((out / "runs" / f"simulated-{method}-seed{seed}" / "run.json").read_text("utf-8"))
            parts[seed].append(about["partitions"])
    assert all(one == parts[0][0] for one in parts[0])
    assert all(one == parts[1][0] for one in parts[1])
    assert parts[0][0] != parts[1][0]
    result = Run(out / "runs" / "simulated-decoevo-seed0").result()
    assert result is not None
    assert sum(role["cached_calls"] for role in result["usage"].values()) > 20


def test_budget_matched_follows_its_paired_run(finished: tuple[Path, dict[str, Any]]):
    """It stops at the paired decoevo run's calls or tokens, counts as complete, and is scored."""
    out, _ = finished
    paired, matched = (Run(out / "runs" / f"simulated-{m}-seed0").result() for m in ("decoevo", "budget-matched"))
    assert paired is not None
    assert matched is not None
    assert matched["stopped_by"] == "budget"
    assert matched["official"] is not None
    used, cap = (sum(role["calls"] for role in r["usage"].values()) for r in (matched, paired))
    assert used <= cap


def test_second_run_repeats_nothing(finished: tuple[Path, dict[str, Any]], asked: list[int]):
    """A finished experiment is skipped whole; a deleted run alone is made again, from the shared store."""
    out, summary = finished
    events: list[tuple[str, str]] = []
    again = run_experiment(
        [small()],
        ["zero-shot", "skillopt", "decoevo", "budget-matched"],
        [0, 1],
        out,
        jobs=1,
        report=lambda name, event: events.append((name, event["kind"])),
    )
    assert again["methods"] == summary["methods"]
    assert {kind for _, kind in events} == {"run_skipped"}
    for file in sorted((out / "runs" / "simulated-skillopt-seed1").rglob("*"), reverse=True):
        if file.is_file():
            file.unlink()
    again = run_experiment([small()], ["zero-shot", "skillopt"], [0, 1], out, jobs=1)
    assert again["methods"]["skillopt"]["per_seed"] == summary["methods"]["skillopt"]["per_seed"]
    assert asked == []


def test_another_config_in_the_same_folder_is_refused(finished: tuple[Path, dict[str, Any]]):
    """Continuing with other settings would mix two experiments."""
    with pytest.raises(ConfigurationError, match="another config"):
        run_experiment([small(steps=9)], ["skillopt"], [0], finished[0], jobs=1)


def test_failed_run_does_not_lose_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A run that breaks is named with its error; the others are complete, and the next try mends it."""
    original = experiment.run_one

    def broken(config: Config, out: Path, **options: Any) -> Any:
        if "skillopt" in out.name:
            raise EndpointError("the endpoint went away")
        return original(config, out, **options)

    monkeypatch.setattr(experiment, "run_one", broken)
    summary = run_experiment([small()], ["zero-shot", "skillopt"], [0], tmp_path, jobs=1)
    assert [(f["run"], f["error"], f["exit_code"]) for f in summary["failed"]] == [
        ("simulated-skillopt-seed0", "the endpoint went away", 4)
    ]
    assert summary["methods"]["zero-shot"]["mean"] is not None
    assert summary["methods"]["skillopt"]["per_seed"] == [None]
    assert summary["methods"]["skillopt"]["mean"] is None
    monkeypatch.undo()
    assert run_experiment([small()], ["zero-shot", "skillopt"], [0], tmp_path, jobs=1)["failed"] == []


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (["nothing"], "'nothing' is not known"),
        (["budget-matched"], "needs decoevo"),
        (["skillopt"] * 2, "twice"),
        ([], "one method"),
    ],
)
def test_wrong_method_lists(tmp_path: Path, methods: list[str], words: str):
    """Refused before anything runs."""
    with pytest.raises(ConfigurationError, match=words):
        run_experiment([small()], methods, [0], tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_two_configs_of_one_benchmark_are_refused(tmp_path: Path):
    """One config per benchmark, since runs are named by it."""
    with pytest.raises(ConfigurationError, match="one config per benchmark"):
        run_experiment([small(), small()], ["zero-shot"], [0], tmp_path)


def fake(out: Path, scores: dict[str, dict[str, list[float | None]]]) -> None:
    """An experiment's folder from scores: benchmark -> method -> per seed."""
    methods = list(next(iter(scores.values())))
    seeds = list(range(len(next(iter(scores[next(iter(scores))].values())))))
    model = {"models": {"default": {"model": "m"}, "judge": {"model": "j"}, "grader": {"model": "g"}}}
    out.mkdir(parents=True, exist_ok=True)
    (out / "experiment.json").write_text(
        json.dumps({"configs": dict.fromkeys(scores, model), "methods": methods, "seeds": seeds}), encoding="utf-8"
    )
    usage = {"calls": 1, "prompt_tokens": 10, "completion_tokens": 5, "usd": 0}
    for benchmark, by_method in scores.items():
        for method, values in by_method.items():
            for seed, score in zip(seeds, values, strict=True):
                if score is None:
                    continue
                folder = out / "runs" / f"{benchmark}-{method}-seed{seed}"
                folder.mkdir(parents=True, exist_ok=True)
                result = {"official": {"score": score}, "proxy": None, "usage": {"solver": usage, "grader": usage}}
                (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


def test_summary_averages_benchmarks_inside_a_run(tmp_path: Path):
    """Benchmarks first, then seeds; a seed that lacks a benchmark has no average and is left out of the pairs."""
    fake(
        tmp_path,
        {
            "a": {"skillopt": [10.0, 20.0, 30.0], "decoevo": [12.0, 26.0, 31.0]},
            "b": {"skillopt": [50.0, 60.0, 70.0], "decoevo": [54.0, 60.0, None]},
        },
    )
    summary = summarise(tmp_path)
    deco = summary["methods"]["decoevo"]
    assert deco["per_seed"] == [33.0, 43.0, None]
    assert deco["by_benchmark"]["b"]["per_seed"] == [54.0, 60.0, None]
    assert deco["vs_skillopt"]["mean"] == 3.0
    assert deco["vs_skillopt"]["n"] == 2
    assert summary["backbone"] == "j, m"
    assert [failed["run"] for failed in summary["failed"]] == ["b-decoevo-seed2"]
    assert (deco["proxy_mean"], deco["tokens"], deco["tokens_vs_skillopt"]) == (None, 15, 1.0)


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.floats(min_value=0, max_value=100))] * 3), min_size=1, max_size=6))
def test_summary_never_holds_nan(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float | None, ...]]):
    """Whatever runs are missing: plain JSON, every figure finite or null, differences as `statistics` gives them."""
    out = tmp_path_factory.mktemp("fake")
    columns = [list(column) for column in zip(*rows, strict=True)]
    fake(out, {"x": dict(zip(("skillopt", "decoevo", "sc-coevo"), columns, strict=True))})
    summary = summarise(out)
    text = json.dumps(summary, allow_nan=False)
    assert "NaN" not in text
    pairs = [(b, a) for a, b, _ in rows if a is not None and b is not None]
    found = summary["methods"]["decoevo"]["vs_skillopt"]
    expected = statistics.paired_difference([b for b, _ in pairs], [a for _, a in pairs])
    assert found["n"] == len(pairs)
    if expected.mean is not None:
        assert math.isclose(found["mean"], expected.mean, abs_tol=1e-3)
    adjusted = [m["vs_skillopt"]["p_holm"] for name, m in summary["methods"].items() if name != "skillopt"]
    assert all(p is None or 0 <= p <= 1 for p in adjusted)
