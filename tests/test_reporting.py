"""`decoevo_dspy.reporting` on a small experiment that is written by hand: what it shows, and what it must never do."""

import csv
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import html5lib
import pytest
from rich.console import Console

from decoevo_dspy.errors import DataError
from decoevo_dspy.reporting import tables
from decoevo_dspy.reporting.answer import answer
from decoevo_dspy.reporting.figures import DARK, LIGHT, drawings, write_figures
from decoevo_dspy.reporting.measures import carried_forward, contrast, gap_at_end, proxy_trajectory, trajectory
from decoevo_dspy.reporting.projection import Experiment, load_experiments, load_run
from decoevo_dspy.reporting.report import write_report
from decoevo_dspy.reporting.show import show_json, show_text
from decoevo_dspy.reporting.text import printable
from decoevo_dspy.rules import statistics
from decoevo_dspy.values.methods import COMPARED
from decoevo_dspy.values.skill import Skill

SEEDS = (0, 1, 2)
HOSTILE = (
    "<script>alert(1)</script> & \"quotes\" </style><img src='https://evil.example/x.png' onerror='x()'> {{ 7*7 }} "
    "\x1b[31m \ud83d 说明 \u202e"
)
S0, G0 = "# How to answer\n- Answer directly.", "# How to write the rubric\n- Make it checkable."
S1, G1 = f"{S0}\n- {Skill(HOSTILE).text}", f"{G0}\n- Name the dose. 剂量"
SCORES: dict[str, list[float | None]] = {
    "zero-shot": [30.0, 31.0, 29.0],
    "skillopt": [40.0, 42.0, 38.0],
    "sc-coevo": [38.0, 41.0, 36.0],
    "decoevo": [46.0, 47.0, 45.0],
    "task-prior": [41.0, 42.5, 39.0],
    "budget-matched": [40.5, 42.2, 38.6],
    "direct-audit": [47.5, None, 44.0],
    "no-blind": [44.0, 45.0, 42.5],
}
FAILED = "healthbench-direct-audit-seed1"


def solver_decision(step: int, accepted: bool, **fields: Any) -> dict[str, Any]:
    """A decision on a solver candidate as the loop logs it."""
    return {
        "kind": "solver_decision",
        "step": step,
        "accepted": accepted,
        "reason": "J rose by +0.1000" if accepted else "J changed by -0.0200, needed more than 0",
        "parent": Skill(S0).key if accepted else Skill(S1).key,
        "candidate": Skill(S1).key if accepted else Skill("# Other").key,
        "text": S1 if accepted else "# Other",
        "summary": HOSTILE.replace("\ud83d", ""),
        "edits": [{"op": "append", "target": "", "content": "- say why", "status": "applied", "reason": ""}],
        "deltas": {"J": 0.1 if accepted else -0.02},
        "standard_errors": {"J": 0.03},
        "generator": Skill(G0).key,
        "incumbent_J": 0.4,
        "candidate_J": 0.5 if accepted else 0.38,
        "n": 3,
        "ungraded": 1,
        "scores": {"v1": [0.4, 0.6], "v2": [0.4, 0.4], "v3": [0.5, 0.2], "v4": [None, 0.4]},
    } | fields


def events_of(method: str, seed: int) -> list[dict[str, Any]]:
    """The log of one run: a batch, three solver candidates, an audit and a generator candidate where there is one."""
    skills = {"solver": Skill(S0).key, "generator": Skill(G0).key}
    batch = {
        "kind": "batch_graded",
        "step": 1,
        **skills,
        "questions": ["t1", "t2"],
        "J": 0.4,
        "n": 2,
        "ungraded": 0,
        "failures": 7,
        "failures_shown": [
            {"question_id": "t1", "criterion": HOSTILE, "points": 5, "score": 0.0, "rationale": "<b>missing</b>"},
            {"question_id": "t1", "criterion": "names a dose", "points": 2.5, "score": None, "rationale": ""},
        ],
    }
    events = [
        {
            "kind": "run_started",
            "method": method,
            "task": "health",
            "settings": {"steps": 3, "delta": 0.02},
            "solver_skill": S0,
            "generator_skill": G0,
            "specification": "π",
            "partitions": {"train": ["t1", "t2"], "probe": ["p1"], "solver_gate": ["v1", "v2", "v3", "v4"]},
            "prompt_hashes": {"Solver": "ab" * 32},
            "models": {"solver": "simulated 0123"},
        },
        {"kind": "process_started", "note": True, "models": {"solver": "simulated"}, "threads": 2},
        {"kind": "incumbent_scored", "step": 0, **skills, "J": 0.4, "n": 3, "ungraded": 1},
    ]
    if method != "zero-shot":
        discarded = solver_decision(
            3, False, reason="discarded: leaking: it copies a passage", candidate=None, deltas={}, standard_errors={}
        )
        for name in ("incumbent_J", "candidate_J", "scores", "n", "ungraded", "generator"):
            del discarded[name]
        events += [batch, solver_decision(1, True), batch | {"step": 2}, solver_decision(2, False), discarded]
    if method in ("decoevo", "sc-coevo", "no-blind", "direct-audit"):
        findings = [{"question_id": "p1", "principle": "Ask for a dose. <i>", "reason": "the rubric omits it"}]
        events.append(
            {"kind": "audit", "step": 3, "round": 1, "audit": "structural", "audited": 4, "ungraded": 1}
            | {"generator": Skill(G0).key}
            | {"findings": findings * 10, "adequacy": 0.4}
        )
    if method in ("decoevo", "sc-coevo", "no-blind"):
        decision = solver_decision(3, True) | {
            "kind": "generator_decision",
            "round": 1,
            "parent": Skill(G0).key,
            "candidate": Skill(G1).key,
            "text": G1,
            "reason": "structural rose (structural +0.2500)",
            "deltas": {"structural": 0.25, "contrastive": None},
            "standard_errors": {"structural": 0.1, "contrastive": None},
            "findings": 10,
            "objectives": {
                "structural": {"incumbent": {"w1": 0.25, "w2": 0.5}, "candidate": {"w1": 0.75, "w2": 0.5}},
                "contrastive": {"incumbent": {"w1": None}, "candidate": {"w1": 0.5}},
            },
            "rubrics": [
                {"question_id": "p1", "before": ["c1. (1 points) brief"], "after": ["c1. (9 points) dose <u>"]}
            ],
            "trigger": "schedule",
        }
        for name in ("incumbent_J", "candidate_J", "scores", "n", "ungraded", "generator"):
            del decision[name]
        events.append(decision)
    rise = 0.3 if method == "sc-coevo" else 0.1
    for version, step in enumerate((0, 1, 3) if method != "zero-shot" else (0,)):
        official = None if (method, version) == ("skillopt", 1) else 30.0 + 5 * version + seed
        events.append(
            {"kind": "diagnostic", "note": True, "version": version, "step": step, "n_graded": 2, "n_total": 3}
            | {"proxy": 0.4 + rise * version, "official": official, **skills}
        )
    events.append({"kind": "run_finished", "steps": 3, **skills})
    return [{"seq": i, "at": 0.0, "calls_upto": i, **event} for i, event in enumerate(events, start=1)]


def write_run(folder: Path, method: str, seed: int, score: float | None) -> None:
    """One run folder as the library leaves it; without a score it has no result."""
    folder.mkdir(parents=True)
    events = events_of(method, seed)
    if score is None:
        events = [
            *events[:5],
            {"kind": "run_stopped", "note": True, "stopped_by": "endpoint", "reason": "401 <refused>"},
        ]
    text = "".join(json.dumps(event) + "\n" for event in events)
    (folder / "events.jsonl").write_text(text + ('{"kind": "torn' if score is None else ""), encoding="utf-8")
    about = {
        "method": method,
        "seed": seed,
        "versions": {"python": "3.11.2", "dspy": "3.4.1"},
        "settings": {"steps": 3 if method != "budget-matched" else 1000, "both_orders": False},
        "partitions": events[0]["partitions"],
        "prompt_hashes": {"Solver": "ab" * 32},
        "role_models": {"solver": "simulated", "judge": "simulated"},
        "config": {"data": {"benchmark": "healthbench"}},
    }
    (folder / "run.json").write_text(json.dumps(about), encoding="utf-8")
    if score is None:
        return
    factor = {"skillopt": 1, "decoevo": 1.89}.get(method, 1.5)
    spent = {"calls": 100, "cached_calls": 10, "prompt_tokens": int(1000 * factor), "completion_tokens": 0}
    usage = {
        "solver": spent | {"usd": 0.5, "paid_tokens": 5},
        "grader": spent | {"prompt_tokens": 9999, "usd": None, "paid_tokens": 5},
    }
    official = {"score": score, "n_graded": 8, "n_total": 9, "grader": "healthbench", "mode": "official"}
    official |= {"prompt_hash": "cd" * 32, "official_prompt": True, "model": "simulated"}
    result = {"method": method, "seed": seed, "solver_skill": S1, "generator_skill": G1, "official": official}
    result |= {"proxy": 70.0, "steps": 3, "solver_accepted": 1, "generator_accepted": 1, "usage": usage}
    (folder / "result.json").write_text(json.dumps(result | {"wall_s": 1, "stopped_by": "steps"}), encoding="utf-8")


def write_experiment(out: Path) -> Path:
    """All runs and, as the library writes it, the summary."""
    for method, scores in SCORES.items():
        for seed, score in zip(SEEDS, scores, strict=True):
            write_run(out / "runs" / f"healthbench-{method}-seed{seed}", method, seed, score)
    summary = {**load_experiments([out])[0].summary, "backbone": "simulated", "seeds": list(SEEDS)}
    summary["failed"] = [{"run": FAILED, "method": "direct-audit", "seed": 1, "error": "401 <refused>", "exit_code": 4}]
    (out / "summary.json").write_text(json.dumps(summary, allow_nan=False), encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment's folder."""
    return write_experiment(tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def experiment(folder: Path) -> Experiment:
    """The experiment as read."""
    return load_experiments([folder])[0]


@pytest.fixture(scope="module")
def page(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report's text."""
    return write_report([folder], tmp_path_factory.mktemp("out") / "report.html").read_text(encoding="utf-8")


def elements(page: str) -> Iterator[Any]:
    """All elements of a page, as the strict parser sees them."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    return (e for e in parser.parse(page).iter() if isinstance(e.tag, str))


def words(element: Any) -> str:
    """An element's text."""
    return "".join(element.itertext())


def run_of(folder: Path, method: str, seed: int = 0) -> Path:
    """A run's folder."""
    return folder / "runs" / f"healthbench-{method}-seed{seed}"


class TestPage:
    """``report.html``."""

    def test_parses_strictly(self, page: str):
        """The strict parser finds no error, whatever the models wrote."""
        assert sum(element.tag == "table" for element in elements(page)) > 8

    def test_model_text_is_text(self, page: str):
        """A skill with a script shows it, and runs nothing; templates in it are not evaluated."""
        found = list(elements(page))
        assert not [
            e for e in found if e.tag in ("script", "iframe", "object", "link", "base") and e.get("rel") != "icon"
        ]
        assert not [name for e in found for name in e.attrib if name.lower().startswith("on")]
        assert not [e for e in found if e.tag in ("b", "i", "u")]
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "{{ 7*7 }}" in page
        assert "\\x1b[31m" in page
        assert "说明" in page

    def test_loads_nothing(self, page: str):
        """No attribute and no style points outside the file."""
        for element in elements(page):
            for name in ("src", "href", "srcset", "action", "poster", "data"):
                value = element.get(name)
                assert value is None or value.startswith(("data:", "#")), (element.tag, name, value[:80])
            if element.tag == "style":
                assert not re.search(r"url\(|@import|https?:", words(element))
        assert not re.search(r"<[^>]+https?://", re.sub(r"&lt;.*?&gt;", "", page))

    def test_says_simulated_everywhere(self, page: str):
        """The page and every figure caption say that the backbone is simulated."""
        captions = [words(e) for e in elements(page) if e.tag == "figcaption"]
        assert len(captions) == 4
        assert all("simulated backbone" in caption for caption in captions)

    def test_is_accessible(self, page: str):
        """Images have alternative text, tables have header cells, links have targets, ids are unique."""
        found = list(elements(page))
        assert all(len(e.get("alt", "")) > 20 for e in found if e.tag == "img")
        for table in (e for e in found if e.tag == "table"):
            assert all(e.get("scope") == "col" for e in table.find("thead").iter("th"))
            assert all(row[0].tag == "th" and row[0].get("scope") == "row" for row in table.find("tbody"))
        ids = [e.get("id") for e in found if e.get("id")]
        assert len(ids) == len(set(ids))
        assert {e.get("href")[1:] for e in found if e.tag == "a"} <= set(ids)
        assert {e.get("aria-labelledby") for e in found if e.get("aria-labelledby")} <= set(ids)

    def test_main_table_has_the_figures(self, page: str, experiment: Experiment):
        """The main table's cells are the fixture's own mean, SD and paired difference."""
        table = next(e for e in elements(page) if e.tag == "table")
        rows = {row[0].text: [words(cell) for cell in row[1:]] for row in table.find("tbody")}
        assert list(rows) == [m for m in COMPARED if m in SCORES]
        assert rows["decoevo"][0] == "46.0 ± 1.0"
        assert rows["decoevo"][2] == "+6.00 [+3.52, +8.48]"
        assert rows["direct-audit"][:2] == ["45.8 ± 2.5", "2 of 3"]
        assert rows["skillopt"][2] == "reference"
        assert rows["decoevo"][-1] == "1.89×"
        assert [rows[m][5] for m in ("zero-shot", "skillopt", "decoevo")] == ["– / –", "1.0 / –", "1.0 / 1.0"]
        assert all("nan" not in cell.lower() for row in rows.values() for cell in row)

    def test_failed_runs_are_named(self, page: str):
        """A run without result stands in the list, with its reason, escaped."""
        assert FAILED in page
        assert "401 &lt;refused&gt;" in page

    def test_shows_every_candidate(self, page: str, experiment: Experiment):
        """Each decision of each run has its entry."""
        shown = sum(e.tag == "details" and e.get("class") == "candidate" for e in elements(page))
        assert shown == sum(len(run.candidates) for run in experiment.runs) > 60

    def test_same_input_same_page(self, folder: Path, page: str, tmp_path: Path):
        """No clock and no order of a set shows in it."""
        assert write_report([folder], tmp_path).read_text(encoding="utf-8") == page
        assert {path.name for path in tmp_path.iterdir()} == {"report.html", "tables.csv", "figures"}

    def test_single_run(self, folder: Path, tmp_path: Path):
        """A lone run has a page, which claims no comparison."""
        page = write_report([run_of(folder, "decoevo")], tmp_path / "one.html").read_text(encoding="utf-8")
        assert "1 of 3 solver candidates accepted" in page
        assert not [e for e in elements(page) if e.get("class") == "explanations"]

    def test_two_experiments(self, folder: Path, tmp_path: Path):
        """Several folders make one page with a chapter each, and no id twice."""
        write_run(tmp_path / "other-skillopt-seed0", "skillopt", 0, 33.0)
        page = write_report([folder, tmp_path / "other-skillopt-seed0"], tmp_path).read_text(encoding="utf-8")
        ids = [e.get("id") for e in elements(page) if e.get("id")]
        assert len(ids) == len(set(ids))
        assert "2 experiments" in page

    def test_a_run_that_never_started(self, tmp_path: Path):
        """An empty folder or a damaged log of an experiment is named as failed; the others are reported."""
        write_run(tmp_path / "runs" / "x-skillopt-seed0", "skillopt", 0, 40.0)
        (tmp_path / "runs" / "x-decoevo-seed0").mkdir()
        (tmp_path / "runs" / "x-decoevo-seed1").mkdir()
        (tmp_path / "runs" / "x-decoevo-seed1" / "events.jsonl").write_text("nonsense\n", encoding="utf-8")
        page = write_report([tmp_path], tmp_path).read_text(encoding="utf-8")
        assert list(load_experiments([tmp_path])[0].problems) == ["x-decoevo-seed0", "x-decoevo-seed1"]
        assert "no seed has a score of both decoevo and skillopt" in page


class TestAnswer:
    """The question, answered from the figures and no further."""

    def test_states(self, experiment: Experiment):
        """Each rival explanation gets the state that its interval allows."""
        found = {e.control: e.state for e in answer(experiment).explanations}
        assert found == {"sc-coevo": "holds", "budget-matched": "holds", "task-prior": "holds", "direct-audit": "open"}
        assert "cannot be told apart" in answer(experiment).conclusion
        assert "above SkillOpt: +6.00 points" in answer(experiment).headline

    def test_one_seed_claims_nothing(self, folder: Path):
        """One seed leaves every interval undefined, and says so."""
        alone = load_experiments([run_of(folder, m) for m in ("skillopt", "decoevo", "sc-coevo")])[0]
        found = answer(alone)
        assert "interval undefined: one value alone has no spread" in found.headline
        assert {e.state for e in found.explanations} == {"undecided", "not measured"}

    def test_cautions(self, experiment: Experiment):
        """Simulated backbone, few seeds and failed runs are said."""
        said = " ".join(answer(experiment).cautions)
        assert "no evidence about real models" in said
        assert "3 matched seeds" in said
        assert "1 run did not finish" in said

    def test_differences_from_the_paper(self, experiment: Experiment):
        """A control that is level with DecoEvo is called a difference from the paper."""
        assert "direct-audit not to be told apart from DecoEvo" in tables.order_note(experiment)


class TestFigures:
    """Trajectories, contrasts, tables and PNG files."""

    def test_contrast_is_the_paired_difference(self, experiment: Experiment):
        """Pairs are matched by seed; a seed without a score on one side is left out and counted."""
        one = contrast(experiment, "direct-audit", "skillopt")
        assert one.difference == statistics.paired_difference([47.5, 44.0], [40.0, 38.0])
        assert one.missing == 1
        assert contrast(experiment, "no-near-tie", "decoevo").reason == "no-near-tie was not run"

    def test_several_benchmarks_are_averaged_inside_a_run(self, tmp_path: Path):
        """An average needs all benchmarks of its seed."""
        for benchmark, scores in {"a": (10.0, 20.0), "b": (30.0, None)}.items():
            for seed, score in enumerate(scores):
                write_run(tmp_path / "runs" / f"{benchmark}-skillopt-seed{seed}", "skillopt", seed, score)
        experiment = load_experiments([tmp_path])[0]
        assert experiment.summary["methods"]["skillopt"]["per_seed"] == [20.0, None]
        table = tables.main_table(experiment)
        assert table.columns[1:4] == ("a", "b", "Average")
        assert table.rows[0][1:5] == ("15.0 ± 7.1", "30.0", "20.0", "1 of 2")

    def test_trajectory(self, folder: Path):
        """Notes become points on 0–100, a missing score stays missing, and a checkpoint stands until the next one."""
        points = trajectory(load_run(run_of(folder, "skillopt")))
        assert [(p.step, p.official) for p in points] == [(0, 30.0), (1, None), (3, 40.0)]
        assert [p.proxy for p in points] == pytest.approx([40.0, 50.0, 60.0])
        assert [p.official for p in carried_forward(points, 4)] == [30.0, None, None, 40.0, 40.0]

    def test_trajectory_without_notes(self, folder: Path):
        """J of the incumbent is what remains: the accepted candidates."""
        points = proxy_trajectory(load_run(run_of(folder, "skillopt")))
        assert [(p.step, p.proxy, p.official) for p in points] == [(0, 40.0, None), (1, 50.0, None)]

    def test_gap(self, experiment: Experiment):
        """The score-coupled run's proxy ends further above its official score."""
        gaps = {m: gap_at_end(experiment, m)["gap"].mean for m in ("sc-coevo", "decoevo")}
        assert gaps == {"sc-coevo": pytest.approx(59.0), "decoevo": pytest.approx(19.0)}

    def test_cost_leaves_graders_out(self, experiment: Experiment):
        """Totals hold the optimisation's roles; an unpriced grader does not hide their price."""
        row = next(row for row in tables.cost_table(experiment).rows if row[0] == "decoevo")
        assert row == ("decoevo", "100", "10", "1,890", "0", "1,890", "1.89×", "1.89×", "$0.50")
        assert ("grader", "100", "10", "9,999", "0", "none (simulated)") in tables.role_table(
            experiment, "decoevo"
        ).rows

    def test_files(self, folder: Path, tmp_path: Path):
        """Four PNG files, the same bytes each time."""
        written = write_figures(tmp_path, [folder])
        assert [path.name for path in written] == ["dynamics.png", "scores.png", "gains.png", "cost.png"]
        first = [path.read_bytes() for path in written]
        assert all(data.startswith(b"\x89PNG") and len(data) > 5_000 for data in first)
        assert [path.read_bytes() for path in write_figures(tmp_path, [folder])] == first

    def test_themes_and_names_with_markup(self, tmp_path: Path):
        """Dark differs from light; dollars and unknown scripts in a benchmark's name do not matter."""
        write_run(tmp_path / "runs" / "$a_{b}$ 测-skillopt-seed0", "skillopt", 0, 40.0)
        write_run(tmp_path / "runs" / "c$-skillopt-seed0", "skillopt", 0, 42.0)
        for drawing in drawings(load_experiments([tmp_path])[0]):
            assert drawing.png(LIGHT) != drawing.png(DARK)

    def test_csv(self, folder: Path, tmp_path: Path):
        """One tidy file whose figures are the fixture's; no NaN, no formula."""
        path = tables.write_tables([folder], tmp_path)
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        scores = [r for r in rows if (r["table"], r["method"], r["measure"]) == ("scores", "direct-audit", "official")]
        assert [r["value"] for r in scores] == ["47.5", "", "44.0"]
        gain = next(r for r in rows if (r["table"], r["method"]) == ("vs_skillopt", "decoevo"))
        assert math.isclose(float(gain["value"]), 6.0)
        assert next(r for r in rows if r["table"] == "failed")["value"] == FAILED
        assert not [v for r in rows for v in r.values() if v.lower() == "nan" or v[:1] in ("=", "@")]

    def test_summary_table(self, folder: Path):
        """The terminal's table has the summary's figures, and says what backbone they come from."""
        console = Console(width=120, no_color=True)
        with console.capture() as capture:
            console.print(tables.summary_table(json.loads((folder / "summary.json").read_text(encoding="utf-8"))))
        text = capture.get()
        assert re.search(r"decoevo\s.*46\.0 ± 1\.0\s.*\+6\.00 \[\+3\.52, \+8\.48\]", text)
        assert "simulated backbone" in text

    def test_summary_table_of_nothing(self):
        """Missing figures are dashes."""
        console = Console(width=120, no_color=True)
        empty = {"mean": None, "sd": None, "proxy_mean": None, "tokens_vs_skillopt": None}
        with console.capture() as capture:
            console.print(
                tables.summary_table({"methods": {"skillopt": empty, "decoevo": empty | {"vs_skillopt": None}}})
            )
        assert "None" not in capture.get()


class TestShow:
    """One run as text and as JSON."""

    def test_order_and_verdicts(self, folder: Path):
        """Solver and generator candidates come in the order of their decisions, each with outcome and reason."""
        text = show_text(run_of(folder, "decoevo"))
        heads = re.findall(r"^ +(\d)\. (step \d.*)$", text, re.MULTILINE)
        assert heads == [
            ("1", "step 1: solver ACCEPTED"),
            ("2", "step 2: solver REJECTED"),
            ("3", "step 3: solver DISCARDED"),
            ("4", "step 3, round 1, by schedule: generator ACCEPTED"),
        ]
        assert "J 0.400 → 0.500 (+0.100, SE 0.030; 1 up, 1 same, 1 down, 1 ungraded)" in text
        assert "structural 0.375 → 0.625 (+0.250, SE 0.100; 1 up, 1 same)" in text
        assert "contrastive (–; 1 ungraded)" in text
        assert "leaking: it copies a passage" in text
        assert "structural audit: 10 findings in 4 audited, 1 ungraded" in text
        assert "2 responses graded; 7 failed criteria, 2 shown to the rewriter, from t1 (2)" in text

    def test_diff(self, folder: Path):
        """``diff`` adds what changed against the parent, and nothing without it."""
        assert "     | +- Name the dose. 剂量" in show_text(run_of(folder, "decoevo"), diff=True)
        assert "     | " not in show_text(run_of(folder, "decoevo"))

    def test_terminal_is_not_steered(self, folder: Path):
        """No control or bidi character of a model reaches the terminal."""
        text = show_text(run_of(folder, "decoevo"), diff=True)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text)

    def test_unfinished_run(self, folder: Path):
        """A run that stopped says why; its torn last line is neither an error nor repaired by looking."""
        path = folder / "runs" / FAILED
        before = (path / "events.jsonl").read_bytes()
        assert "incomplete: 401 <refused>" in show_text(path)
        assert (path / "events.jsonl").read_bytes() == before

    def test_zero_shot(self, folder: Path):
        """A method without steps has no candidate."""
        assert "No candidate" in show_text(run_of(folder, "zero-shot"))

    def test_json(self, folder: Path):
        """The same as plain JSON values."""
        found = json.loads(json.dumps(show_json(run_of(folder, "decoevo")), allow_nan=False))
        assert [c["outcome"] for c in found["candidates"]] == ["accepted", "rejected", "discarded", "accepted"]
        assert found["candidates"][3]["diff"][-1] == "+- Name the dose. 剂量"
        assert found["run"]["official"]["score"] == 46.0

    def test_no_run(self, tmp_path: Path):
        """A folder without a run is refused in one line; so is a damaged log, with its line."""
        with pytest.raises(DataError, match="no run here"):
            show_text(tmp_path)
        (tmp_path / "events.jsonl").write_text('{"kind": "x"}\n[1]\n', encoding="utf-8")
        with pytest.raises(DataError, match="line 2"):
            show_text(tmp_path)


def test_printable_leaves_text_alone():
    """Ordinary text of any script stays as it is."""
    text = "Füße – 说明 ✓ 👩‍⚕️\n\tэто"
    assert printable(text) == text


def test_nothing_here_imports_dspy():
    """A view calls no model: no module of the package imports DSPy or what drives it."""
    here = Path(tables.__file__).parent
    for path in here.glob("*.py"):
        lines = [line for line in path.read_text(encoding="utf-8").split("\n") if re.match(r"\s*(from|import) ", line)]
        assert not [line for line in lines if re.search(r"\b(dspy|litellm|teleprompters|roles)\b(?!_)", line[5:])], path
