"""A/A false acceptance and power of the generator gate, on the product's own audits and rule (docs/METHOD.md §7).

Each decision has a seed of its own: a V_g drawn from questions that the solver was not optimised on, a solver skill
as SkillOpt reaches it after a few steps, and the default generator skill g as incumbent. Two candidates are compared
with it on the same records:

* A/A: the text of g with an HTML comment after it. It means the same to every reader, but it is another skill (another
  key, other samples), so its rubrics are a second sample from the same g. Each acceptance is a false one.
* power: g with rules for the weightiest requirements (gold points times frequency) that g misses. It is truly better.

All combinations of settings look at the same answers, labels, rubrics and verdicts of a decision.

    python tests/benchmarks/generator_gate.py --json gate.json

Every figure is from the simulated backbone.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from simulated_setup import (
    LABEL,
    items,
    lms,
    load_simulated,
    missing_requirements,
    naming,
    result_of,
    simulated_task,
    spread,
    table,
    wilson,
    workbench,
    write,
)

from decoevo_dspy.audits import ContrastiveAudit, StructuralAudit
from decoevo_dspy.benchmarks.simulated import SIZES
from decoevo_dspy.commands.build import build_student
from decoevo_dspy.rules.acceptance import Accepted, AuditObjectives, Decision, Objective, ParetoRule
from decoevo_dspy.teleprompters import SkillOpt
from decoevo_dspy.teleprompters.state import Parts
from decoevo_dspy.values.partition import interleave, split
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.skill import GENERATOR_SKILL, Skill

COMMENT = "<!-- second sample -->"
OUTER = 1
MAIN = (40, 4)
"""|V_g| and L of the table that the default is chosen from."""
Z = 1.645
MOST_FALSE = 0.10
VIEWS = {"both": ("structural", "contrastive"), "contrastive": ("contrastive",), "structural": ("structural",)}
CASES = ("A/A", "power")
ETAS = (0.0, 0.01, 0.02, 0.05, 0.075, 0.1, 0.2, 1.0)
"""What the no-regression clause could tolerate; read off the same decisions, 1 takes the clause away."""
COMBINATIONS = tuple(product(("cached", "fresh"), ("resolution", "net"), (0.0, Z)))
"""verify_rubrics × contrastive_objective × verify_z."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One decision: its seed, the solver skill, and the cells (|V_g|, L) that it is taken in."""

    seed: int
    solver: str
    pool_seed: int
    cells: tuple[tuple[int, int], ...]
    added: int


def solver_after(pool_seed: int, steps: int) -> str:
    """A solver skill as SkillOpt reaches it after a few steps on its own train and V_s questions."""
    parts = split(load_simulated().questions, SIZES, pool_seed)
    optimiser = SkillOpt(
        simulated_task(), steps=steps, judge_mode="rubric", role_lms=lms(), num_threads=1, seed=pool_seed
    )
    program = optimiser.optimise(
        build_student(), Parts(**{name: items(getattr(parts, name), name) for name in Parts.__dataclass_fields__})
    )
    return result_of(program).solver_skill.text


def decide(work: Work) -> list[dict[str, Any]]:
    """Every combination's decision on both candidates, in every cell."""
    dataset = load_simulated()
    used = split(dataset.questions, SIZES, work.pool_seed)
    seen = {question.id for question in (*used.train, *used.solver_gate)}
    fresh = interleave([(q,) for q in dataset.questions if q.id not in seen], 10_000 + work.seed)
    gate = items([unit[0] for unit in fresh[: max(size for size, _ in work.cells)]], "generator_gate")
    solver, incumbent = Skill(work.solver), Skill(GENERATOR_SKILL)
    added = missing_requirements(incumbent, dataset.questions)[: work.added]
    candidates = {
        "A/A": Skill(f"{incumbent.text}\n{COMMENT}"),
        "power": naming(incumbent, added, seed=work.seed),
    }
    bench = workbench(work.seed, Settings(judge_mode="rubric"))
    structural, contrastive = StructuralAudit(bench.task.specification()), ContrastiveAudit()
    skills = {"g": incumbent, **candidates}
    adequacy = {
        name: structural.objective(bench, skill, structural.records(bench, solver, skill, gate, OUTER), OUTER)
        for name, skill in skills.items()
    }
    rows: list[dict[str, Any]] = []
    for size, rollouts in work.cells:
        members = gate[:size]
        ids = {item.id for item in members}
        seen_by = replace(bench, settings=replace(bench.settings, rollouts=rollouts))
        records = contrastive.records(seen_by, solver, incumbent, members, OUTER)
        for rubrics, objective in product(("cached", "fresh"), ("resolution", "net")):
            own = replace(
                seen_by,
                settings=replace(seen_by.settings, verify_rubrics=rubrics, contrastive_objective=objective),
            )
            told_apart = {name: contrastive.objective(own, skill, records, OUTER) for name, skill in skills.items()}
            for case, z in product(CASES, (0.0, Z)):
                old, new = (
                    {
                        "structural": Objective(values={k: v for k, v in adequacy[name].values.items() if k in ids}),
                        "contrastive": told_apart[name],
                    }
                    for name in ("g", case)
                )
                rows.append(
                    {
                        "seed": work.seed,
                        "size": size,
                        "rollouts": rollouts,
                        "pairs": len(records),
                        "verify_rubrics": rubrics,
                        "contrastive_objective": objective,
                        "verify_z": z,
                        "case": case,
                        "views": {view: outcome(old, new, names, z, own.settings) for view, names in VIEWS.items()},
                    }
                )
    return rows


def outcome(
    old: Mapping[str, Objective], new: Mapping[str, Objective], names: Sequence[str], z: float, settings: Settings
) -> dict[str, Any]:
    """The Pareto rule's decision on the named objectives, and which of its clauses spoke."""
    before, after = (AuditObjectives(by_audit={n: side[n] for n in names}) for side in (old, new))
    literal = ParetoRule(delta=settings.delta, eta=settings.eta, z=z, max_ungraded=settings.max_ungraded)
    decision = literal.decide(before, after)
    rises = isinstance(replace(literal, eta=10.0).decide(before, after), Accepted)
    return {
        "clause": clause(decision),
        "rises": rises,
        "accepted_by_tolerant": rises and not _falls_beyond_noise(decision, settings.eta),
        "deltas": {name: decision.deltas.get(name) for name in names},
        "errors": {name: decision.standard_errors.get(name) for name in names},
    }


def clause(decision: Decision) -> str:
    """``accepted``, or the clause of the rule that rejected."""
    if isinstance(decision, Accepted):
        return "accepted"
    if decision.reason.startswith("undecided"):
        return "undecided"
    return "no rise" if decision.reason.startswith("nothing rose") else "fell"


def _falls_beyond_noise(decision: Decision, eta: float) -> bool:
    """What a noise-aware no-regression clause would reject: a fall by more than η and more than z standard errors."""
    return any(
        delta is not None and delta < -eta and delta < -Z * (decision.standard_errors.get(name) or 0.0)
        for name, delta in decision.deltas.items()
    )


def tally(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Acceptance by cell, combination, case and view, with Wilson's interval and the clauses that rejected."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    keys = ("size", "rollouts", "verify_rubrics", "contrastive_objective", "verify_z", "case")
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    found: list[dict[str, Any]] = []
    for group, members in groups.items():
        for view in VIEWS:
            seen = [row["views"][view] for row in members]
            n, clauses = len(seen), [one["clause"] for one in seen]
            hits = clauses.count("accepted")
            tolerant = sum(one["accepted_by_tolerant"] for one in seen)
            found.append(
                {
                    **dict(zip(keys, group, strict=True)),
                    "view": view,
                    "n": n,
                    "accepted": hits / n,
                    "interval": wilson(hits, n),
                    "undecided": clauses.count("undecided") / n,
                    "no_rise": clauses.count("no rise") / n,
                    "fell": clauses.count("fell") / n,
                    "fell_alone": sum(one["clause"] == "fell" and one["rises"] for one in seen) / n,
                    "tolerant": tolerant / n,
                    "tolerant_interval": wilson(tolerant, n),
                    "by_eta": {str(eta): sum(_accepted_at(one, eta) for one in seen) / n for eta in ETAS},
                    "pairs": sum(row["pairs"] for row in members) / n,
                    "deltas": {name: _mean([one["deltas"][name] for one in seen]) for name in VIEWS[view]},
                    "errors": {name: _mean([one["errors"][name] for one in seen]) for name in VIEWS[view]},
                }
            )
    return found


def _accepted_at(one: Mapping[str, Any], eta: float) -> bool:
    """What the literal rule with another η would have said; a rise counts as it did."""
    return bool(one["rises"]) and all(delta is None or delta >= -eta for delta in one["deltas"].values())


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 4) if known else None


def pick(rates: Sequence[Mapping[str, Any]], size: int, rollouts: int) -> list[dict[str, Any]]:
    """Combinations by power among those with A/A ≤ 0.10, both objectives; the first gives the product's default."""
    cell = [r for r in rates if r["view"] == "both" and (r["size"], r["rollouts"]) == (size, rollouts)]
    found: list[dict[str, Any]] = []
    for rubrics, objective, z in COMBINATIONS:
        by_case = {
            r["case"]: r
            for r in cell
            if (r["verify_rubrics"], r["contrastive_objective"], r["verify_z"]) == (rubrics, objective, z)
        }
        found.append(
            {
                "verify_rubrics": rubrics,
                "contrastive_objective": objective,
                "verify_z": z,
                "false": by_case["A/A"]["accepted"],
                "power": by_case["power"]["accepted"],
                "allowed": by_case["A/A"]["accepted"] <= MOST_FALSE,
            }
        )
    return sorted(found, key=lambda one: (not one["allowed"], -one["power"]))


def show(report: Mapping[str, Any]) -> None:
    """Print the report."""
    rates, (size, rollouts) = report["rates"], report["main"]
    n = report["decisions"]

    def rate(case: str, view: str, combination: Sequence[Any], cell: Sequence[int]) -> Mapping[str, Any]:
        keys = ("verify_rubrics", "contrastive_objective", "verify_z", "case", "view", "size", "rollouts")
        return next(r for r in rates if tuple(r[k] for k in keys) == (*combination, case, view, *cell))

    def interval(r: Mapping[str, Any]) -> str:
        return f"{r['accepted']:.2f} [{r['interval'][0]:.2f}, {r['interval'][1]:.2f}]"

    for case in CASES:
        rows = [
            (
                f"{rubrics}, {objective}, z={z:g}",
                *(interval(rate(case, view, (rubrics, objective, z), (size, rollouts))) for view in VIEWS),
            )
            for rubrics, objective, z in COMBINATIONS
        ]
        title = f"{case}: accepted of {n} decisions, |V_g| = {size}, L = {rollouts} (Wilson 95 %)"
        table(title, ("combination", "both objectives", "contrastive alone", "structural alone"), rows)
    for case in CASES:
        rows = []
        for combination in COMBINATIONS:
            r = rate(case, "both", combination, (size, rollouts))
            name = f"{combination[0]}, {combination[1]}, z={combination[2]:g}"
            d, e = r["deltas"], r["errors"]
            rows.append(
                (
                    name,
                    *(f"{r[key]:.2f}" for key in ("undecided", "no_rise", "fell", "fell_alone", "tolerant")),
                    *(_pair(d[k], e[k]) for k in ("structural", "contrastive")),
                )
            )
        header = (
            "combination",
            "undecided",
            "no rise",
            "fell",
            "fell alone",
            "tolerant accepts",
            "Δ/SE struct",
            "Δ/SE contr",
        )
        table(f"{case}, both objectives: which clause rejected", header, rows)
    print(
        "fell alone: something rose enough, and the clause Δ ≥ −η alone rejected; "
        "tolerant: what a clause 'Δ ≥ −η or within 1.645 SE' would accept (not in the product)."
    )
    rows = []
    for combination in COMBINATIONS:
        aa, power = (rate(case, "both", combination, (size, rollouts))["by_eta"] for case in CASES)
        name = f"{combination[0]}, {combination[1]}, z={combination[2]:g}"
        rows.append((name, *(f"{aa[key]:.2f} / {power[key]:.2f}" for key in aa)))
    table("Both objectives, A/A / power by η", ("combination", *(f"η={eta:g}" for eta in ETAS)), rows)
    cells = [cell for cell in report["cells"] if cell != report["main"]]
    if cells:
        rows = []
        for combination in COMBINATIONS:
            for cell in sorted([report["main"], *cells]):
                aa, power = (rate(case, "both", combination, cell) for case in CASES)
                rows.append(
                    (
                        f"{combination[0]}, {combination[1]}, z={combination[2]:g}",
                        cell[0],
                        cell[1],
                        f"{aa['pairs']:.0f}",
                        interval(aa),
                        interval(power),
                        f"{power['fell_alone']:.2f}",
                        f"{aa['tolerant']:.2f} / {power['tolerant']:.2f}",
                    )
                )
        header = ("combination", "|V_g|", "L", "pairs", "A/A", "power", "fell alone", "tolerant A/A / power")
        n_sweep = min(r["n"] for r in rates)
        table(f"Both objectives against |V_g| and L ({n_sweep} decisions each, main cell {n})", header, rows)
    rows = [
        (
            f"{c['verify_rubrics']}, {c['contrastive_objective']}, z={c['verify_z']:g}",
            f"{c['false']:.2f}",
            f"{c['power']:.2f}",
            "yes" if c["allowed"] else "no",
        )
        for c in report["choice"]
    ]
    table(
        "The rule for the default: best power at A/A ≤ 0.10, both objectives",
        ("combination", "A/A", "power", "allowed"),
        rows,
    )
    best = report["choice"][0]
    if best["allowed"]:
        print(
            f"default: verify_rubrics={best['verify_rubrics']!r}, "
            f"contrastive_objective={best['contrastive_objective']!r}, verify_z={best['verify_z']:g}"
        )
    else:
        print("default: no combination has A/A ≤ 0.10")


def _pair(delta: float | None, error: float | None) -> str:
    return f"{'–' if delta is None else f'{delta:+.3f}'} / {'–' if error is None else f'{error:.3f}'}"


def run(
    *,
    decisions: int,
    sweep: int,
    sizes: Sequence[int],
    rollouts: Sequence[int],
    pool: int,
    steps: int,
    jobs: int = 1,
    main: tuple[int, int] = MAIN,
    added: int = 5,
) -> dict[str, Any]:
    """All decisions in the main cell (|V_g|, L); the first ``sweep`` of them also in the other cells."""
    started = time.monotonic()
    others = [(size, main[1]) for size in sizes if size != main[0]]
    others += [(main[0], count) for count in rollouts if count != main[1]]
    solvers = [solver_after(seed, steps) for seed in range(min(pool, decisions))]
    work = [
        Work(
            seed=seed,
            solver=solvers[seed % len(solvers)],
            pool_seed=seed % len(solvers),
            cells=(main, *(others if seed < sweep else ())),
            added=added,
        )
        for seed in range(decisions)
    ]
    found = spread(decide, work, jobs, lambda n, _: _progress(n, len(work), started))
    rows = [row for decision in found for row in decision]
    rates = tally(rows)
    incumbent = Skill(GENERATOR_SKILL)
    return {
        "label": LABEL,
        "decisions": decisions,
        "main": list(main),
        "cells": [list(cell) for cell in dict.fromkeys((row["size"], row["rollouts"]) for row in rows)],
        "added": missing_requirements(incumbent, load_simulated().questions)[:added],
        "solver_skills": solvers,
        "rates": rates,
        "choice": pick(rates, *main),
        "wall_s": round(time.monotonic() - started, 1),
        "decided": rows,
    }


def _progress(done: int, total: int, started: float) -> None:
    if done % 10 == 0 or done == total:
        print(f"{done}/{total} decisions, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=200, help="decisions in the main cell (default 200)")
    parser.add_argument("--sweep", type=int, default=100, help="of these, also in the other cells (default 100)")
    parser.add_argument("--sizes", type=int, nargs="*", default=[20, 40, 80, 160], help="|V_g| of the other cells")
    parser.add_argument("--rollouts", type=int, nargs="*", default=[2, 4, 8], help="L of the other cells")
    parser.add_argument("--added", type=int, default=5, help="requirements that the better g' adds (default 5)")
    parser.add_argument("--pool", type=int, default=20, help="different solver skills (default 20)")
    parser.add_argument("--steps", type=int, default=3, help="SkillOpt steps behind a solver skill (default 3)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--json", type=Path, help="write everything there")
    given = parser.parse_args(arguments)
    report = run(
        decisions=given.decisions,
        sweep=given.sweep,
        sizes=given.sizes,
        rollouts=given.rollouts,
        pool=given.pool,
        steps=given.steps,
        jobs=given.jobs,
        added=given.added,
    )
    write(given.json, report)
    show(report)
    return report


if __name__ == "__main__":
    main()
