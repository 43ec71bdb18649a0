"""The fourteen suites of golden vectors: official functions give official results; robust differences are listed."""

from statistics import mean

import pytest

from decoevo_dspy.benchmarks import eqbench_cw, healthbench, llmeval_med, researchqa, writingbench
from decoevo_dspy.benchmarks.base import RawReply


def test_every_suite_is_used(vectors):
    """A suite that is added to the file needs a test here."""
    assert set(vectors) == {
        "healthbench_parse",
        "healthbench_score",
        "healthbench_clip",
        "healthbench_rubric_str",
        "writingbench_accept",
        "writingbench_think",
        "writingbench_aggregate",
        "researchqa_parse",
        "researchqa_levels",
        "llmeval_parse",
        "llmeval_aggregate",
        "llmeval_mtg_map",
        "eqbench_parse",
        "eqbench_aggregate",
    }


def test_healthbench_parse(vectors):
    for case in vectors["healthbench_parse"]:
        assert healthbench.parse_official(case["raw"]) == case["parsed"]
        verdict = healthbench.verdict(case["raw"], "official")
        assert (verdict is not None) == case["accepted"]
        if case["accepted"]:
            assert verdict is case["label"]


def test_healthbench_robust_only_saves_retries(vectors):
    """Robust never changes an accepted verdict; it reads these replies more."""
    more = []
    for case in vectors["healthbench_parse"]:
        robust = healthbench.verdict(case["raw"], "robust")
        if case["accepted"]:
            assert robust is case["label"]
        elif robust is not None:
            more.append(case["raw"])
    assert more == [
        '```\n{"criteria_met": true}\n```',
        '```JSON\n{"criteria_met": true}\n```',
        'Sure! {"criteria_met": true}',
        '{"criteria_met": true} trailing',
    ]


def test_healthbench_score(vectors):
    for case in vectors["healthbench_score"]:
        assert healthbench.example_score(case["points"], case["met"]) == case["score"]


def test_healthbench_clip(vectors):
    for case in vectors["healthbench_clip"]:
        assert healthbench.clipped_mean(case["values"]) == pytest.approx(case["mean_clipped"])


def test_healthbench_rubric_str(vectors):
    for case in vectors["healthbench_rubric_str"]:
        assert str(healthbench.Criterion(criterion=case["criterion"], points=case["points"])) == case["str"]


def test_writingbench_accept(vectors):
    """Official acceptance, and the two replies that robust mode judges differently."""
    different = {}
    for case in vectors["writingbench_accept"]:
        assert (writingbench.parse_official(case["raw"]) is not None) == case["accepted"], case["raw"]
        if (writingbench.parse_robust(case["raw"]) is not None) != case["accepted"]:
            different[case["raw"]] = writingbench.parse_robust(case["raw"])
    assert different == {
        '```json\n{"score": 7, "reason": "ok"}\n```\n': 7.0,
        '{"score": true, "reason": "ok"}': None,
    }


def test_writingbench_think(vectors):
    for case in vectors["writingbench_think"]:
        assert writingbench.strip_think(case["raw"]) == case["out"]


def test_writingbench_aggregate(vectors):
    suite = vectors["writingbench_aggregate"]
    names = suite["criteria_names"]
    required: dict[str, dict[str, tuple[str, ...]]] = {}
    for requirement, listed in suite["requirement_C"].items():
        for key, criteria in listed.items():
            required.setdefault(key, {})[requirement] = tuple(criteria)
    gold = {
        str(row["index"]): writingbench.Gold(
            checklist=tuple({"name": name} for name in names),
            domain1=row["domain1"],
            domain2=row["domain2"],
            requirements=required.get(str(row["index"]), {}),
        )
        for row in suite["benchmark"]
    }
    rows = [(key, dict(zip(names, scores, strict=True))) for key, scores in suite["scores"].items()]
    found = writingbench.aggregate(rows, gold)
    assert found["overall"] == suite["overall"]
    assert 10 * found["overall"] == suite["overall_0_100"]
    assert found["count"] == suite["count"]
    assert found["per_query"] == suite["per_query"]
    assert found["domain1"] == suite["domain1"]
    assert found["domain2"] == suite["domain2"]
    assert found["R"] == suite["R"]
    assert found["C"] == pytest.approx(suite["C"], abs=1e-6)
    resumed = writingbench.aggregate([*rows, rows[-1]], gold)
    assert {k: resumed[k] for k in ("overall", "count")} == suite["duplicate_last_row"]
    assert writingbench.aggregate([*rows, rows[-1]], gold, "robust")["overall"] == suite["overall"]


def test_researchqa_parse(vectors):
    """Count check, coverage, and the label that kills the official program; robust reads those labels."""
    rescued = {}
    for case in vectors["researchqa_parse"]:
        labels = researchqa.parse_official(case["raw"], case["n_items"])
        assert (labels is not None) == case["count_ok"]
        if case["official_error"] == "KeyError":
            assert labels is not None
            with pytest.raises(KeyError):
                researchqa.coverage(labels)
        elif labels is not None:
            assert researchqa.coverage(labels) == case["coverage"]
        robust = researchqa.parse_robust(case["raw"], case["n_items"])
        if case["coverage"] is not None:
            assert robust is not None
            assert mean(robust) == case["coverage"]
        elif robust is not None:
            rescued[case["raw"]] = robust
    assert rescued == {
        "1. Mostly\n2. Barely": [0.75, 0.25],
        "mostly\nbarely": [0.75, 0.25],
        "Mostly.\nBarely": [0.75, 0.25],
    }


def test_researchqa_levels(vectors):
    assert dict(researchqa.LEVELS) == vectors["researchqa_levels"]


def test_llmeval_parse(vectors):
    """Official storage and value; robust reads the score after 得分, full-width brackets too, and only 1–5."""
    different = {}
    for case in vectors["llmeval_parse"]:
        stored = llmeval_med.parse_official(case["raw"])
        assert stored == case["stored"]
        assert type(stored) is type(case["stored"])
        value = llmeval_med.stored_value(stored)
        assert value == case["aggregate_value"]
        robust = llmeval_med.parse_robust(RawReply(text=case["raw"]))
        if robust != value:
            different[case["raw"]] = robust
    assert different == {'依据见[1]，{"得分"："[5]"}': 5.0, "[0]": None, "[ 4 ]": 4.0, "得分【4】": 4.0}


@pytest.mark.parametrize(("expected", "runs"), [("one_run_a", "a"), ("three_runs", "abc")])
def test_llmeval_aggregate(vectors, expected, runs):
    suite = vectors["llmeval_aggregate"]
    scores: dict[str, dict[tuple[int, int], list[float]]] = {}
    for run in runs:
        for category, items in suite["runs"][run].items():
            for item in items:
                valid = scores.setdefault(category, {}).setdefault((item["groupCode"], item["round"]), [])
                value = llmeval_med.stored_value(item["model_answer_score"])
                valid.extend([] if value is None else [value])
    averages = {category: [mean(v) if v else None for v in by_key.values()] for category, by_key in scores.items()}
    assert llmeval_med.aggregate(averages) == suite[expected]


def test_llmeval_mtg_map(vectors):
    for case in vectors["llmeval_mtg_map"]:
        assert llmeval_med.mtg_score(case["B"], case["C"], case["D"], case["E"]) == case["score"]


def test_eqbench_parse(vectors):
    """Official parser and piece score; robust differs exactly on these replies."""
    different = {}
    for case in vectors["eqbench_parse"]:
        scores = eqbench_cw.parse_official(case["raw"])
        assert scores == case["scores"]
        piece = eqbench_cw.piece_score(scores)
        assert eqbench_cw.aggregate([] if piece is None else [piece]) == case["result"]
        robust = eqbench_cw.parse_robust(RawReply(text=case["raw"]))
        if robust != scores:
            different[case["raw"]] = robust
    assert different == {
        "**Meandering**: 4": {"Meandering": 4.0},
        "- Meandering: 4": {"Meandering": 4.0},
        "Tell-Don't Show: 3": {"Tell-Don't-Show": 3.0},
        "Coherent: 25": None,
        "Meandering: -3": None,
        "Coherent: -3": None,
        "The clock read 10:15 as she left.\nCoherent: 15": {"Coherent": 15.0},
        "Overall Impression:\n\n16": None,
        "Coherent：15": {"Coherent": 15.0},
        "Coherent: N/A": None,
        "Coherent: 12\nCoherent: 16": None,
    }


def test_eqbench_aggregate(vectors):
    suite = vectors["eqbench_aggregate"]
    judged = [one["judge_scores"] for task in suite["tasks"] for one in task["results_by_modifier"].values()]
    pieces = [score for scores in judged if (score := eqbench_cw.piece_score(scores)) is not None]
    assert eqbench_cw.aggregate(pieces) == suite["result"]
    assert eqbench_cw.aggregate([]) == suite["empty"]
