"""How often the leak guard refuses copies, by how they were altered, and how often honest skills.

Copies are made of the simulated world's questions and gold. Honest skills are those that runs as in ``decoevo demo``
accept while the guard is switched off; each is then judged against the parent that it was made of.

    python -m tests.benchmarks.leak_guard [seeds]
"""

import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from decoevo_dspy.benchmarks.simulated import gold_criteria, load_simulated, simulated_task
from decoevo_dspy.commands.build import build_partitions, load_data, protected_text
from decoevo_dspy.commands.config import make_config
from decoevo_dspy.commands.optimize import run_one
from decoevo_dspy.run.events import read_events
from decoevo_dspy.simulation.world import cued, is_chinese
from decoevo_dspy.values.folding import LOOK_ALIKES
from decoevo_dspy.values.leaks import LeakGuard, protected_passages
from decoevo_dspy.values.skill import Candidate, Skill

METHODS = ("skillopt", "sc-coevo", "decoevo")
Alteration = Callable[[list[str], random.Random], str]


def every(nth: int, words: Sequence[str], rng: random.Random) -> list[str]:
    """The words with one of every ``nth`` exchanged, anywhere among them."""
    found = list(words)
    for start in range(0, len(words) - nth + 1, nth):
        found[start + rng.randrange(nth)] = rng.choice(["kumquat", "zeppelin", "Oslo"])
    return found


def look_alike(text: str, rng: random.Random) -> str:
    """Every letter that has a look-alike of another script replaced by one."""
    return "".join(rng.choice(LOOK_ALIKES[ch]) if ch in LOOK_ALIKES else ch for ch in text)


ALTERATIONS: dict[str, Alteration] = {
    "as it is": lambda words, rng: " ".join(words),
    "capitals": lambda words, rng: " ".join(words).upper(),
    "punctuation": lambda words, rng: "".join(word + rng.choice([", ", "; ", " – ", "! ", " / "]) for word in words),
    "line breaks": lambda words, rng: "\n  - ".join(words),
    "zero-width characters": lambda words, rng: " ".join(
        "".join(ch + rng.choice(["\u200b", "\u200d", "\u2060", "\u00ad", "\ufeff"]) for ch in word) for word in words
    ),
    "combining characters": lambda words, rng: " ".join("".join(ch + "\u0336" for ch in word) for word in words),
    "full width": lambda words, rng: "".join(
        chr(ord(ch) + 0xFEE0) if "!" <= ch <= "~" else ch for ch in " ".join(words)
    ),
    "look-alike letters": lambda words, rng: look_alike(" ".join(words), rng),
    "one word in eight exchanged": lambda words, rng: " ".join(every(8, words, rng)),
    "all of these": lambda words, rng: look_alike("\n".join(every(8, words, rng)).title(), rng) + "\u200b",
}


def passages_of(texts: Iterable[str], rng: random.Random) -> list[list[str]]:
    """A passage of every text: eight words or more (a short text whole) from a place drawn at random."""
    found: list[list[str]] = []
    for text in texts:
        words = list(text) if is_chinese(text) else text.split()
        least = 16 if is_chinese(text) else 8
        size = min(len(words), rng.randrange(least, 2 * least))
        start = rng.randrange(len(words) - size + 1)
        found.append(words[start : start + size])
    return found


def caught(seed: int = 0) -> dict[str, float]:
    """The share of altered copies that a guard of English questions and gold refuses, by alteration."""
    rng = random.Random(seed)
    questions = [q for q in load_simulated().questions if not is_chinese(q.text)]
    gold = sorted({text for q in questions for text, _ in gold_criteria(q, cued(q.text))})
    guard = LeakGuard(protected_passages([*(q.text for q in questions), *gold]))
    copies = passages_of([*(q.text for q in questions), *gold], rng)
    parent = Skill("# How to answer\n- Be direct.")
    rates: dict[str, float] = {}
    for name, alter in ALTERATIONS.items():
        made = (Skill(f"{parent.text}\n- When asked: {alter(list(words), rng)}") for words in copies)
        refused = [not isinstance(guard.check(Candidate(skill=skill, parent=parent)), Candidate) for skill in made]
        rates[name] = sum(refused) / len(refused)
    return rates


def honest_skills(method: str, seed: int, folder: Path, steps: int = 12) -> list[Candidate]:
    """The candidates that a run accepts while the guard is off, each with its parent."""
    config = make_config(
        {
            "data": {"benchmark": "simulated"},
            "models": {"default": {"model": "simulated"}},
            "optimizer": {"judge_mode": "rubric", "num_threads": 1, "method": method, "seed": seed, "steps": steps},
        }
    )
    with patch.object(LeakGuard, "check", lambda self, candidate: candidate):
        run_one(config, folder)
    known: dict[str, Skill] = {}
    found: list[Candidate] = []
    for event in read_events(folder / "events.jsonl"):
        if event["kind"] == "run_started":
            known |= {Skill(event[name]).key: Skill(event[name]) for name in ("solver_skill", "generator_skill")}
        elif event["kind"] in ("solver_decision", "generator_decision") and event["accepted"]:
            skill = Skill(event["text"])
            found.append(Candidate(skill=skill, parent=known[event["parent"]]))
            known[skill.key] = skill
    return found


def false_alarms(seed: int, made: Sequence[Candidate]) -> list[Candidate]:
    """Those of a run's honest skills that the run's own guard refuses."""
    config = make_config({"data": {"benchmark": "simulated"}, "models": {"default": {"model": "simulated"}}})
    dataset = load_data(config)
    partitions = build_partitions(config, dataset, seed)
    own = [q.text for name in ("train", "probe", "solver_gate", "generator_gate") for q in getattr(partitions, name)]
    task: Any = simulated_task()
    guard = LeakGuard(
        protected_text(dataset, partitions) | protected_passages(own), [task.description, task.evaluation]
    )
    return [one for one in made if not isinstance(guard.check(one), Candidate)]


def main(seeds: int) -> None:
    """Print both tables."""
    print("refused copies (simulated backbone: questions and gold)")
    for name, rate in caught().items():
        print(f"  {name:<30} {rate:7.1%}")
    total, wrong = 0, list[Candidate]()
    with tempfile.TemporaryDirectory() as folder:
        for method in METHODS:
            for seed in range(seeds):
                made = honest_skills(method, seed, Path(folder) / f"{method}-{seed}")
                total, wrong = total + len(made), wrong + false_alarms(seed, made)
    print(f"refused honest skills: {len(wrong)} of {total} accepted ones ({len(wrong) / max(total, 1):.2%})")
    for one in wrong:
        print("  +", *(line for line in one.skill.text.split("\n") if line not in one.parent.text), sep="\n    ")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
