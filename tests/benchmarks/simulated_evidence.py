"""The evidence of docs/EVIDENCE.md: all methods over fresh seeds, controls, sensitivity, and what became of the claims.

Each seed deals its own partitions and runs all methods of docs/METHOD.md §11 on them, as a user would: `optimise`, then
`evaluate` on the 80 test questions with the world's exact grader. The parameters of the world are fixed; seeds
100–107 were not used while it was built.

    python tests/benchmarks/simulated_evidence.py --json evidence.json          # everything
    python tests/benchmarks/simulated_evidence.py --quick                       # main table, few seeds, two curves
    python tests/benchmarks/simulated_evidence.py --parts main --set eta=0.05   # another setting for every method

Every figure is from the simulated backbone. It says what the mechanisms do in a world of known truth, and nothing
about real models.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from simulated_setup import (
    LABEL,
    items,
    lms,
    load_simulated,
    naming,
    result_of,
    simulated_task,
    spread,
    table,
    workbench,
    write,
)

from decoevo_dspy.benchmarks.simulated import SIZES, SimulatedGrader
from decoevo_dspy.calls.budget import Budget
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.commands.build import build_student, parts_for, protected_text
from decoevo_dspy.evaluation.official import evaluate
from decoevo_dspy.reporting.paper import ABLATION_LOSS, OVER_SKILLOPT, Reported
from decoevo_dspy.roles.base import NoReply
from decoevo_dspy.rules.statistics import holm, mean_and_sd, paired_difference, paired_equivalence
from decoevo_dspy.run.result import CoEvolutionResult
from decoevo_dspy.simulation.catalogue import REQUIREMENTS
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.solving import generator_rate, solver_rate
from decoevo_dspy.simulation.world import BY_KEY, cued, read_skill
from decoevo_dspy.teleprompters import METHODS
from decoevo_dspy.values.partition import split
from decoevo_dspy.values.rubric import mean
from decoevo_dspy.values.settings import NAMES, Settings
from decoevo_dspy.values.skill import GENERATOR_SKILL, Skill
from decoevo_dspy.values.task import Question

MARGIN = 2.0
"""Points within which two methods count as equivalent (docs/SIMULATION.md §3)."""
CHANCE = {"contrastive_accuracy": 0.5, "contrastive_naming": 0.0, "structural_knowledge": 0.0, "structural_naming": 0.0}
"""Auditors that know nothing: a coin for a preference, adequacy without knowledge, and never a true requirement named.

What they name instead is a surface quality, which costs capacity and earns nothing.
"""
PERFECT = dict.fromkeys(CHANCE, 1.0)
SETTINGS_SWEPT: dict[str, tuple[Any, ...]] = {
    "audit_every": (1, 2, 3, 4, 6),
    "patience": (1, 2, 3, 4),
    "delta": (0.005, 0.02, 0.05, 0.1),
    "eta": (0.0, 0.01, 0.05, 0.2, 1.0),
    "tau_tie": (0.01, 0.05, 0.1, 0.2),
    "gamma": (0.01, 0.05, 0.1, 0.3),
    "verify_z": (0.0, 1.645),
    "verify_rubrics": ("cached", "fresh"),
    "contrastive_objective": ("resolution", "net"),
}
WORLDS_SWEPT: dict[str, dict[str, dict[str, float]]] = {
    "auditor quality (0 = chance, 1 = as shipped, 2 = perfect)": {
        str(level): {
            name: CHANCE[name] + (getattr(WorldParameters(), name) - CHANCE[name]) * level
            if level <= 1
            else PERFECT[name]
            for name in CHANCE
        }
        for level in (0, 0.5, 1, 2)
    },
    "judge noise (times the shipped error rates)": {
        str(times): {name: getattr(WorldParameters(), name) * times for name in _JUDGE}
        for _JUDGE in [("judge_false_positive", "judge_false_negative")]
        for times in (0, 1, 2, 4)
    },
    "solver capacity (rules)": {str(rules): {"solver_capacity": rules} for rules in (6, 12, 18, 24)},
    "generator capacity (rules)": {str(rules): {"generator_capacity": rules} for rules in (8, 16, 32)},
}
QUICK = ("eta", "auditor quality (0 = chance, 1 = as shipped, 2 = perfect)")


@dataclass(frozen=True, kw_only=True)
class Work:
    """Runs of one seed in one world: they share a call store. ``runs`` are (name, method, settings)."""

    part: str
    seed: int
    runs: tuple[tuple[str, str, Mapping[str, Any]], ...]
    world: Mapping[str, float] = field(default_factory=dict[str, float])
    generator_skill: str = ""
    sizes: Mapping[str, int] = field(default_factory=lambda: dict(SIZES))


def run_work(work: Work) -> list[dict[str, Any]]:
    """One row per run."""
    dataset, student = load_simulated(), build_student()
    partitions = split(dataset.questions, work.sizes, work.seed)
    parts, parameters = parts_for(partitions, student), _world(work.world)
    task = replace(simulated_task(), generator_skill=work.generator_skill)
    protected = protected_text(dataset, partitions)
    rows: list[dict[str, Any]] = []
    paired: Budget | None = None
    with closing(CallStore(None)) as store:
        for name, method, settings in work.runs:
            started, role_lms = time.monotonic(), lms(parameters)
            own = dict(settings)
            if METHODS[method].method.name == "budget-matched":
                if paired is None:
                    raise ValueError("budget-matched comes after its decoevo run")
                own.pop("steps", None)
                own["budget"] = paired
            optimiser = METHODS[method](
                task, judge_mode="rubric", role_lms=role_lms, num_threads=1, seed=work.seed, **own
            )
            program = optimiser.optimise(
                student,
                parts,
                store=store,
                protected=protected,
                partitions=partitions.ids(),
            )
            result = result_of(program)
            if method == "decoevo":
                paired = budget_of(result)
            evaluation = evaluate(
                program,
                partitions.test,
                dataset.gold,
                SimulatedGrader(),
                role_lms=role_lms,
                seed=work.seed,
                store=store,
                run=f"{name}-seed{work.seed}",
                num_threads=1,
                solver_temperature=optimiser.settings.solver_temperature,
            )
            proxies = {
                key: proxy_on_test(work, generator, evaluation.responses, partitions.test, store, parameters)
                for key, generator in (
                    ("proxy_test", result.generator_skill),
                    ("proxy_test_g0", result.generator_skills[0]),
                )
            }
            official = evaluation.score.score
            calls = sum(usage["calls"] for usage in result.usage.values())
            tokens = sum(usage["prompt_tokens"] + usage["completion_tokens"] for usage in result.usage.values())
            rows.append(
                {
                    "part": work.part,
                    "name": name,
                    "method": method,
                    "seed": work.seed,
                    "official": official,
                    "proxy_gate": None if result.proxy is None else 100 * result.proxy,
                    **proxies,
                    "gap": None if None in (official, proxies["proxy_test"]) else proxies["proxy_test"] - official,  # type: ignore[operator]
                    "steps": result.steps,
                    "stopped_by": result.stopped_by,
                    "calls": calls,
                    "tokens": tokens,
                    "ungraded": evaluation.score.n_total - evaluation.score.n_graded,
                    "truth": truth(result, partitions.test, parameters),
                    "wall_s": round(time.monotonic() - started, 2),
                }
            )
    return rows


def _world(changes: Mapping[str, float]) -> WorldParameters:
    return WorldParameters(**{k: int(v) if k.endswith("_capacity") else v for k, v in changes.items()})  # type: ignore[arg-type]


def budget_of(result: CoEvolutionResult) -> Budget:
    """`Budget.from_run` of a run that was kept in memory."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "result.json").write_text(json.dumps(result.to_dict()), "utf-8")
        return Budget.from_run(folder)


def proxy_on_test(
    work: Work,
    generator: Skill,
    responses: Mapping[str, str],
    test: Sequence[Question],
    store: CallStore,
    parameters: WorldParameters,
) -> float | None:
    """The score (0–100) of the very responses that were officially graded, under a generator's rubrics."""
    bench = workbench(work.seed, Settings(judge_mode="rubric"), parameters, store)
    scores: list[Any] = []
    for item in items([q for q in test if q.id in responses], "test"):
        rubric = bench.rubric(item, generator)
        if not isinstance(rubric, NoReply):
            scores.append(rubric.score(bench.judge(item, responses[item.id], rubric)))
    value = mean(scores).value
    return None if value is None else 100 * value


# The world's truth about texts, to find causes. No method sees any of it.


def coverage(generator: Skill, questions: Sequence[Question], p: WorldParameters) -> float:
    """Expected share of gold weight that the skill's rubrics ask for, strictly (softened rules do not count)."""
    reading = read_skill(generator.text)
    adherence, asked, total = reading.adherence(p.generator_capacity), 0.0, 0.0
    for question in questions:
        for key in cued(question.text):
            total += abs(BY_KEY[key].points)
            if key not in reading.lax:
                asked += abs(BY_KEY[key].points) * generator_rate(key, reading, adherence, p)
    return asked / total


def expected(solver: Skill, questions: Sequence[Question], p: WorldParameters) -> float:
    """Expected official score (0–100, unclipped) of a solver skill."""
    reading, values = read_skill(solver.text), list[float]()
    for question in questions:
        keys = cued(question.text)
        positive = sum(BY_KEY[k].points for k in keys if not BY_KEY[k].harmful)
        rates = {k: solver_rate(k, reading, frozenset(), p) for k in keys}
        got = sum(BY_KEY[k].points * (1 - rates[k] if BY_KEY[k].harmful else rates[k]) for k in keys)
        values.append(got / positive if positive else 0.0)
    return 100 * sum(values) / len(values)


def truth(result: CoEvolutionResult, test: Sequence[Question], p: WorldParameters) -> dict[str, Any]:
    """What the decisions of a run were worth, by the world's own expectation."""
    everything = load_simulated().questions
    solver, generator = read_skill(result.solver_skill.text), read_skill(result.generator_skill.text)
    texts = {skill.key: skill for skill in (*result.solver_skills, *result.generator_skills)}
    decisions: list[dict[str, Any]] = []
    for event in result.history:
        if event["kind"] not in ("solver_decision", "generator_decision"):
            continue
        parent, text = texts[event["parent"]], event["text"]
        one: dict[str, Any] = {
            "kind": event["kind"].removesuffix("_decision"),
            "step": event["step"],
            "accepted": event["accepted"],
            "clause": clause(event),
            "deltas": event["deltas"],
            "errors": event["standard_errors"],
        }
        if text:
            candidate, before, after = Skill(text), read_skill(parent.text), read_skill(text)
            value = expected if one["kind"] == "solver" else coverage
            scale = 1 if one["kind"] == "solver" else 100
            one["gain"] = scale * (value(candidate, everything, p) - value(parent, everything, p))
            one["added"] = sorted(after.named - before.named)
            one["lost"] = sorted(before.named - after.named)
            one["surfaces"] = sorted(after.surfaces - before.surfaces)
        decisions.append(one)
    obvious = frozenset(r.key for r in REQUIREMENTS if r.obvious)
    return {
        "expected_test": expected(result.solver_skill, test, p),
        "coverage": 100 * coverage(result.generator_skill, everything, p),
        "solver_named": len(solver.named),
        "solver_hidden": len(solver.named - obvious),
        "solver_surfaces": len(solver.surfaces),
        "solver_lax": len(solver.lax),
        "solver_adherence": solver.adherence(p.solver_capacity),
        "generator_hidden": len(generator.named - obvious),
        "generator_surfaces": len(generator.surfaces),
        "generator_lax": len(generator.lax),
        "unused": sorted(generator.named - solver.named),
        "decisions": decisions,
    }


def clause(event: Mapping[str, Any]) -> str:
    """What decided: ``accepted``, ``discarded``, ``undecided``, ``fell (which)`` or ``no rise``."""
    reason = str(event["reason"])
    if event["accepted"]:
        return "accepted"
    for word in ("discarded", "undecided"):
        if reason.startswith(word):
            return word
    return f"fell ({reason.split(' fell')[0]})" if " fell by more" in reason else "no rise"


# Figures over seeds.


def by_seed(rows: Sequence[Mapping[str, Any]], part: str, name: str, key: str) -> dict[int, float]:
    """A figure of a run by seed; runs without it are left out."""
    return {r["seed"]: r[key] for r in rows if r["part"] == part and r["name"] == name and r[key] is not None}


def expectations(rows: Sequence[Mapping[str, Any]], part: str, name: str) -> dict[int, float]:
    """Expected official score of the final solver skill on the same test questions, by seed: no sampling noise."""
    return {r["seed"]: r["truth"]["expected_test"] for r in rows if r["part"] == part and r["name"] == name}


def compare(a: Mapping[int, float], b: Mapping[int, float]) -> dict[str, Any]:
    """Mean of a − b paired by seed, with the 95 % t-interval and the equivalence test."""
    seeds = sorted(a.keys() & b.keys())
    x, y = [a[s] for s in seeds], [b[s] for s in seeds]
    difference, same = paired_difference(x, y), paired_equivalence(x, y, margin=MARGIN)
    return {
        "mean": difference.mean,
        "interval": difference.interval,
        "p": difference.p,
        "n": difference.n,
        "ci90": same.ci90,
        "equivalent": same.equivalent,
    }


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All tables of the report, from the runs."""
    summary: dict[str, Any] = {"main": {}, "controls": {}, "curves": {}}
    names = list(dict.fromkeys(r["name"] for r in rows if r["part"] == "main"))
    base = by_seed(rows, "main", "skillopt", "official")
    best = by_seed(rows, "main", "decoevo", "official")
    for name in names:
        one = by_seed(rows, "main", name, "official")
        moments = mean_and_sd([*one.values()])
        members = [r for r in rows if r["part"] == "main" and r["name"] == name]
        summary["main"][name] = {
            "official": [moments.mean, moments.sd],
            "per_seed": one,
            **{
                key: _mean(by_seed(rows, "main", name, key).values())
                for key in ("proxy_gate", "proxy_test", "proxy_test_g0", "gap", "steps", "calls", "tokens")
            },
            "over_skillopt": compare(one, base) if name != "skillopt" else None,
            "over_decoevo": compare(one, best) if name != "decoevo" else None,
            "expected_over_skillopt": compare(expectations(rows, "main", name), expectations(rows, "main", "skillopt")),
            "causes": causes(members),
        }
    others = [name for name in names if name != "skillopt"]
    adjusted = holm([summary["main"][name]["over_skillopt"]["p"] for name in others])
    for name, p in zip(others, adjusted, strict=True):
        summary["main"][name]["over_skillopt"]["p_holm"] = p
    for part in dict.fromkeys(r["part"] for r in rows if r["part"].startswith("control:")):
        a, b = (by_seed(rows, part, name, "official") for name in ("decoevo", "skillopt"))
        summary["controls"][part.removeprefix("control:")] = {
            "decoevo": _mean(a.values()),
            "skillopt": _mean(b.values()),
            **compare(a, b),
            "expected": compare(expectations(rows, part, "decoevo"), expectations(rows, part, "skillopt")),
            "causes": causes([r for r in rows if r["part"] == part and r["name"] == "decoevo"]),
        }
    for part in dict.fromkeys(r["part"] for r in rows if r["part"].startswith("curve:")):
        curve, value = part.removeprefix("curve:").rsplit("=", 1)
        a = by_seed(rows, part, "decoevo", "official")
        b = by_seed(rows, part, "skillopt", "official")
        one = compare(a, b)
        members = [r for r in rows if r["part"] == part and r["name"] == "decoevo"]
        found = causes(members)["generator"]
        summary["curves"].setdefault(curve, {})[value] = {
            **one,
            "expected": compare(expectations(rows, part, "decoevo"), expectations(rows, part, "skillopt")),
            "decoevo": _mean(a.values()),
            "accepted": found["accepted"],
            "candidates": found["candidates"],
        }
    summary["verdicts"] = verdicts(rows, summary)
    return summary


def causes(members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How candidates fared against their true worth, averaged over the runs of a method."""
    found: dict[str, Any] = {}
    for kind in ("solver", "generator"):
        all_ = [d for r in members for d in r["truth"]["decisions"] if d["kind"] == kind]
        judged = [d for d in all_ if "gain" in d]
        better, worse = [d for d in judged if d["gain"] > 0.05], [d for d in judged if d["gain"] < -0.05]
        clauses: dict[str, int] = {}
        for d in better:
            clauses[d["clause"]] = clauses.get(d["clause"], 0) + 1
        runs = max(len(members), 1)
        found[kind] = {
            "candidates": len(all_) / runs,
            "accepted": sum(d["accepted"] for d in all_) / runs,
            "better": len(better) / runs,
            "better_accepted": sum(d["accepted"] for d in better) / runs,
            "worse": len(worse) / runs,
            "worse_accepted": sum(d["accepted"] for d in worse) / runs,
            "mean_gain": _mean(d["gain"] for d in judged),
            "mean_gain_accepted": _mean(d["gain"] for d in judged if d["accepted"]),
            "better_by_clause": clauses,
            "bias": _bias(judged) if kind == "solver" else None,
            "surfaces_added": _mean(len(d["surfaces"]) for d in judged),
            "hidden_added": _mean(sum(not BY_KEY[k].obvious for k in d["added"]) for d in judged),
        }
    for key in (
        "expected_test", "coverage", "solver_named", "solver_hidden", "solver_surfaces", "solver_lax",
        "solver_adherence", "generator_hidden", "generator_surfaces", "generator_lax",
    ):  # fmt: skip
        found[key] = _mean(r["truth"][key] for r in members)
    found["unused"] = _mean(len(r["truth"]["unused"]) for r in members)
    return found


NO_CHANGE = 0.5
"""Points of true gain, either way, within which a solver candidate counts as no change."""


def _bias(judged: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the solver gate measures where nothing changed: 100 ΔJ of candidates whose true gain is about 0.

    An unbiased gate gives about 0 here (above it, when surface qualities were added that the rubrics reward).
    ``mean_better`` is the same for candidates that are truly better by more: it should be well above 0.
    """
    seen = [(d["gain"], 100 * d["deltas"]["J"]) for d in judged if d["deltas"].get("J") is not None]
    same = [delta for gain, delta in seen if abs(gain) <= NO_CHANGE]
    better = [delta for gain, delta in seen if gain > NO_CHANGE]
    return {"n": len(same), "mean": _mean(same), "n_better": len(better), "mean_better": _mean(better)}


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def verdicts(rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The four claims of docs/SIMULATION.md §3, each with what was measured."""
    found: list[dict[str, Any]] = []

    def above(one: Mapping[str, Any] | None) -> bool | None:
        return None if not one or not one["interval"] else one["interval"][0] > 0

    def claim(text: str, came_out: bool | None, measured: str) -> None:
        word = "not measured" if came_out is None else "came out" if came_out else "did not come out"
        found.append({"claim": text, "came_out": came_out, "verdict": word, "measured": measured})

    main = summary["main"]
    if {"skillopt", "zero-shot"} <= main.keys():
        zero, skill = (by_seed(rows, "main", name, "official") for name in ("zero-shot", "skillopt"))
        one = compare(skill, zero)
        claim("skillopt improves on zero-shot", above(one), difference(one))
    if {"skillopt", "budget-matched"} <= main.keys():
        one = main["budget-matched"]["over_skillopt"]
        hidden = main["budget-matched"]["causes"]["solver_hidden"]
        claim(
            "… and then stalls (budget-matched − skillopt within ±2 points)",
            one["equivalent"],
            f"{difference(one)}, 90 % interval {_interval(one['ci90'])}; it names {hidden:.1f} of "
            f"{sum(not r.obvious for r in REQUIREMENTS)} requirements that its rubrics omit",
        )
    if {"skillopt", "decoevo"} <= main.keys():
        one = main["decoevo"]["over_skillopt"]
        claim("decoevo − skillopt has a 95 % interval above 0", above(one), difference(one))
    if {"sc-coevo", "decoevo", "zero-shot"} <= main.keys():
        sc = {key: by_seed(rows, "main", "sc-coevo", key) for key in ("gap", "official", "proxy_test")}
        zero = {key: by_seed(rows, "main", "zero-shot", key) for key in ("official", "proxy_test")}
        one = compare(sc["gap"], by_seed(rows, "main", "decoevo", "gap"))
        claim("sc-coevo's proxy–official gap is larger than decoevo's", above(one), difference(one))
        rise, real = (compare(sc[key], zero[key]) for key in ("proxy_test", "official"))
        flat = compare(sc["official"], by_seed(rows, "main", "skillopt", "official"))
        claim(
            "sc-coevo's proxy rises while its official score does not",
            None if above(rise) is None else bool(above(rise)) and not above(real),
            f"over zero-shot: proxy {difference(rise)}, official {difference(real)}; "
            f"official over skillopt {difference(flat)}",
        )
    for name, one in summary["controls"].items():
        claim(
            f"{name}: decoevo − skillopt is equivalent to 0 within ±{MARGIN:g}",
            one["equivalent"],
            f"{difference(one)}, 90 % interval {_interval(one['ci90'])}",
        )
    return found


def difference(one: Mapping[str, Any] | None) -> str:
    """``+3.10 [2.88, 3.32]``."""
    if not one or one["mean"] is None:
        return "–"
    return f"{one['mean']:+.2f} {_interval(one['interval'])}"


def _interval(interval: Sequence[float] | None) -> str:
    return "[–]" if interval is None else f"[{interval[0]:.2f}, {interval[1]:.2f}]"


def _number(value: float | None, form: str = ".1f") -> str:
    return "–" if value is None else f"{value:{form}}"


def _paper(reported: Reported | None) -> str:
    if reported is None:
        return "–"
    low, high = f"{reported.low:+.1f}", f"{reported.high:+.1f}"
    return low if low == high else f"{low}…{high}"


def show(report: Mapping[str, Any]) -> None:
    """Print the report."""
    summary, seeds = report["summary"], report["seeds"]
    main = summary["main"]
    if main:
        rows = []
        for name, one in main.items():
            over, gain = one["over_skillopt"], OVER_SKILLOPT.get(name)
            rows.append(
                (
                    name,
                    f"{_number(one['official'][0])} ± {_number(one['official'][1])}",
                    difference(over),
                    "–" if not over or over.get("p_holm") is None else f"{over['p_holm']:.3g}",
                    _paper(gain),
                    difference(one["expected_over_skillopt"]) if name != "skillopt" else "–",
                    *(_number(one[key]) for key in ("proxy_gate", "proxy_test", "gap", "steps")),
                    f"{one['calls']:.0f}",
                    f"{one['tokens'] / main['skillopt']['tokens']:.2f}" if "skillopt" in main else "–",
                )
            )
        header = (
            "method", "official", "− skillopt [95 %]", "p Holm", "paper (HealthBench)", "expected [95 %]", "proxy V_s",
            "proxy test", "gap", "steps", "calls", "× tokens",
        )  # fmt: skip
        table(f"All methods, {len(seeds)} seeds {seeds[0]}–{seeds[-1]}, official on the test questions", header, rows)
        rows = []
        losses = [n for n in ABLATION_LOSS if n in main and main[n]["over_decoevo"]]
        for name in losses:
            one, paper = main[name]["over_decoevo"], ABLATION_LOSS[name]
            loses = one["mean"] is not None and one["mean"] < 0
            rows.append(
                (name, difference(one), f"−{paper.low}…−{paper.high}", "yes" if loses else "no: it does not lose")
            )
        if rows:
            header = ("ablation", "− decoevo [95 %]", "paper", "sign as in the paper")
            table("Ablations against decoevo", header, rows)
            own = sorted(losses, key=lambda n: main[n]["over_decoevo"]["mean"] or 0.0)
            paper = sorted(losses, key=lambda n: -ABLATION_LOSS[n].low - ABLATION_LOSS[n].high)
            print(f"worst first, here: {', '.join(own)}\nworst first, paper: {', '.join(paper)}")
        _show_causes(main)
    if summary["controls"]:
        rows = [
            (
                name,
                _number(one["decoevo"]),
                _number(one["skillopt"]),
                difference(one),
                _interval(one["ci90"]),
                difference(one["expected"]),
                {True: "yes", False: "no", None: "–"}[one["equivalent"]],
                f"{one['causes']['generator']['accepted']:.1f} of {one['causes']['generator']['candidates']:.1f}",
            )
            for name, one in summary["controls"].items()
        ]
        header = ("control", "decoevo", "skillopt", "difference [95 %]", "90 %", "expected", "within ±2", "g′ accepted")
        table("Negative controls", header, rows)
    for curve, values in summary["curves"].items():
        rows = [
            (
                value,
                _number(one["decoevo"]),
                difference(one),
                difference(one["expected"]),
                f"{one['accepted']:.1f} of {one['candidates']:.1f}",
                one["n"],
            )
            for value, one in values.items()
        ]
        table(
            f"Sensitivity: {curve}", ("value", "decoevo", "− skillopt [95 %]", "expected", "g′ accepted", "seeds"), rows
        )
    print("\nClaims of docs/SIMULATION.md §3 [simulated backbone]")
    for one in summary["verdicts"]:
        print(f"- {one['claim']}: {one['verdict'].upper()} ({one['measured']})")


def _show_causes(main: Mapping[str, Any]) -> None:
    rows, more = [], []
    for name, one in main.items():
        c = one["causes"]
        g, s = c["generator"], c["solver"]
        rows.append(
            (
                name,
                f"{g['accepted']:.1f} / {g['candidates']:.1f}",
                f"{g['better_accepted']:.1f} / {g['better']:.1f}",
                f"{g['worse_accepted']:.1f} / {g['worse']:.1f}",
                ", ".join(f"{k} {v}" for k, v in sorted(g["better_by_clause"].items()) if k != "accepted") or "–",
                _number(g["hidden_added"]),
                _number(g["surfaces_added"]),
            )
        )
        more.append(
            (
                name,
                _number(c["coverage"]),
                *(_number(c[k]) for k in ("generator_hidden", "generator_surfaces")),
                *(_number(c[k]) for k in ("solver_named", "solver_hidden", "solver_surfaces")),
                _number(c["solver_adherence"], ".2f"),
                _number(c["unused"]),
                _number(c["expected_test"]),
                f"{s['accepted']:.1f} / {s['candidates']:.1f}",
                f"{s['better_accepted']:.1f} / {s['better']:.1f}",
                f"{s['worse_accepted']:.1f} / {s['worse']:.1f}",
                f"{_number(s['bias']['mean'], '+.1f')} ({s['bias']['n']})",
                f"{_number(s['bias']['mean_better'], '+.1f')} ({s['bias']['n_better']})",
            )
        )
    header = (
        "method", "g′ accepted", "truly better", "truly worse", "better ones rejected by", "+hidden", "+surface",
    )  # fmt: skip
    table("Generator candidates by true worth (accepted / all, per run)", header, rows)
    header = (
        "method", "g coverage %", "g hidden", "g surface", "s named", "s hidden", "s surface", "s adherence",
        "in g, not in s", "expected test", "s′ accepted", "better", "worse", "ΔJ no change (n)", "ΔJ better (n)",
    )  # fmt: skip
    table("Final skills and solver candidates by true worth", header, more)
    print(
        "expected: the world's expectation for the final skills on the same test questions, without sampling noise; "
        f"no change: |true gain| ≤ {NO_CHANGE:g} points"
    )


def plan(
    seeds: Sequence[int],
    curve_seeds: Sequence[int],
    parts: Sequence[str],
    methods: Sequence[str],
    curves: Sequence[str] | None,
    settings: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> list[Work]:
    """All the work, a piece per seed and world; ``curves`` ``None`` = all."""
    work: list[Work] = []
    if "main" in parts:
        runs = tuple((method, method, settings) for method in methods)
        work += [Work(part="main", seed=seed, runs=runs, sizes=sizes) for seed in seeds]
    two = (("decoevo", "decoevo", settings), ("skillopt", "skillopt", settings))
    if "controls" in parts:
        first = Skill(GENERATOR_SKILL)
        informed = naming(first, [r.key for r in REQUIREMENTS]).text
        work += [
            Work(part=f"control:{name}", seed=seed, runs=two, world=world, generator_skill=skill, sizes=sizes)
            for name, world, skill in (
                ("auditors at chance", CHANCE, ""),
                ("generator skill that names everything", {}, informed),
            )
            for seed in seeds
        ]
    if "curves" in parts:
        for name, values in SETTINGS_SWEPT.items():
            if curves is None or name in curves:
                work += [
                    Work(
                        part=f"curve:{name}={value}",
                        seed=seed,
                        runs=tuple((m, m, {**settings, name: value}) for m in ("decoevo", "skillopt")),
                        sizes=sizes,
                    )
                    for value in values
                    for seed in curve_seeds
                ]
        for name, worlds in WORLDS_SWEPT.items():
            if curves is None or name in curves:
                work += [
                    Work(part=f"curve:{name}={value}", seed=seed, runs=two, world=world, sizes=sizes)
                    for value, world in worlds.items()
                    for seed in curve_seeds
                ]
    return work


def run(work: Sequence[Work], seeds: Sequence[int], jobs: int, partial: Path | None = None) -> dict[str, Any]:
    """Do the work; rows are kept in ``partial`` as they come, when it is given."""
    started, rows = time.monotonic(), list[dict[str, Any]]()

    def done(count: int, found: list[dict[str, Any]]) -> None:
        rows.extend(found)
        line = f"{count}/{len(work)} {work[count - 1].part} seed {work[count - 1].seed}"
        print(f"{line}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        if partial:
            with partial.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in found)

    spread(run_work, work, jobs, done)
    return {
        "label": LABEL,
        "seeds": list(seeds),
        "world": {f.name: getattr(WorldParameters(), f.name) for f in fields(WorldParameters)},
        "summary": summarise(rows),
        "runs": rows,
        "wall_s": round(time.monotonic() - started, 1),
    }


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """``key=value`` pairs as settings; values are JSON, or plain words."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key not in NAMES:
            raise SystemExit(f"--set {pair}: no such setting; the names are {', '.join(NAMES)}")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    Settings(**found)
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(100, 108)), help="default 100 … 107")
    parser.add_argument("--curve-seeds", type=int, default=4, help="so many of the seeds for the curves (default 4)")
    parser.add_argument("--parts", nargs="+", choices=("main", "controls", "curves"), default=None)
    parser.add_argument("--methods", nargs="+", choices=tuple(METHODS), default=list(METHODS))
    parser.add_argument("--curves", nargs="+", default=None, help="names of curves; default all")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of every run")
    parser.add_argument("--quick", action="store_true", help="4 seeds, 2 of them for the curves, two curves")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--json", type=Path, help="write everything there, and rows as they come beside it")
    parser.add_argument("--show", type=Path, help="run nothing: print the tables of rows written before")
    given = parser.parse_args(arguments)
    if given.show:
        rows = [json.loads(line) for line in given.show.read_text("utf-8").splitlines()]
        report = {"label": LABEL, "seeds": sorted({r["seed"] for r in rows}), "summary": summarise(rows), "runs": rows}
        write(given.json, report)
        show(report)
        return report
    seeds = given.seeds[:4] if given.quick else given.seeds
    work = plan(
        seeds,
        seeds[: 2 if given.quick else given.curve_seeds],
        given.parts or ("main", "controls", "curves"),
        sorted(given.methods, key=list(METHODS).index),
        given.curves or (QUICK if given.quick else None),
        parse_settings(given.set),
        SIZES,
    )
    partial = given.json.with_suffix(".rows.jsonl") if given.json else None
    if partial:
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
    report = run(work, seeds, given.jobs, partial)
    write(given.json, report)
    show(report)
    return report


if __name__ == "__main__":
    main()
