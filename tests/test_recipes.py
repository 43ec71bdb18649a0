"""The recipes of CONTRIBUTING.md: each is followed, block by block, in a copy of the repository, and leads there."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = ("A method", "An audit", "A benchmark", "A role, or another prompt", "A setting")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = (".venv", ".git", "runs", "build", "dist", "api", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis")


@dataclass(frozen=True)
class Copy:
    """A copy of the repository, used with this interpreter."""

    root: Path

    def follow(self, recipe: str, *, commands: bool = True) -> None:
        """Do what every block of a recipe says."""
        for language, text in blocks(recipe):
            if language == "python":
                head, _, body = text.partition("\n")
                assert head.startswith("# "), f"a python block begins with its file's name, not {head!r}"
                file = self.root / head.removeprefix("# ")
                assert not file.exists(), f"{file} is no new file"
                file.write_text(body, encoding="utf-8")
            elif language == "diff":
                head, _, body = text.partition("\n")
                file = self.root / head.removeprefix("--- ")
                file.write_text(patched(file.read_text(encoding="utf-8"), body), encoding="utf-8")
            elif language == "sh" and commands:
                self.shell(text)
            assert language in ("python", "diff", "sh")

    def shell(self, commands: str) -> str:
        """Run the lines of an ``sh`` block; what they print."""
        line = commands.replace(".venv/bin/python", f'"{sys.executable}"')
        return self._run(["sh", "-e", "-c", line])

    def python(self, code: str) -> Any:
        """Run a piece of Python after `LOOK`; the JSON value that it prints last."""
        return json.loads(self._run([sys.executable, "-c", f"SMALL = {SMALL!r}\n{LOOK}\n{code}"]).split("\n")[-2])

    def _run(self, command: list[str]) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        env = {
            **clean,
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "",
            "HF_HUB_OFFLINE": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def blocks(recipe: str) -> list[tuple[str, str]]:
    """The code blocks of a recipe in their order: language and text."""
    section = PAGE.split(f"\n### {recipe}\n")[1]
    return BLOCK.findall(re.split(r"^#{2,3} ", section, flags=re.MULTILINE)[0])


def patched(text: str, diff: str) -> str:
    """A text after a diff without line numbers: the lines that stay or go must stand in it exactly once."""
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines()
        assert all(line[:1] in "+- " for line in lines), f"no diff: {hunk}"
        old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] != sign) for sign in "+-")
        places = len(re.findall(rf"^{re.escape(old)}", text, re.MULTILINE))
        assert places == 1, f"these lines stand {places} times in the file:\n{old}"
        text = re.sub(rf"^{re.escape(old)}", lambda _, new=new: new, text, flags=re.MULTILINE)
    return text


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """A fresh copy."""
    copytree(ROOT, tmp_path / "copy", symlinks=True, ignore=ignore_patterns(*LEFT_OUT))
    return Copy(tmp_path / "copy")


SMALL: dict[str, Any] = {
    "data": {
        "benchmark": "simulated",
        "sizes": {"train": 4, "probe": 2, "solver_gate": 3, "generator_gate": 3, "diagnostic": 1, "test": 4},
    },
    "models": {"default": {"model": "simulated"}},
    "optimizer": {"steps": 1, "judge_mode": "rubric", "num_threads": 1},
}
LOOK = """
import json
from pathlib import Path
from decoevo_dspy.commands.config import make_config
from decoevo_dspy.commands.optimize import run_one
from decoevo_dspy.errors import ConfigurationError

def config(**tables):
    return make_config({name: {**table, **tables.get(name, {})} for name, table in SMALL.items()})

def refused(make):
    try:
        make()
    except ConfigurationError as error:
        return str(error)
"""


def test_there_is_a_recipe_for_each_kind_of_part():
    """The page has the recipes that are followed here, and no other with code."""
    headings = re.findall(r"^### (.+)$", PAGE.partition("## Adding a part")[2].partition("\n## ")[0], re.MULTILINE)
    assert [heading for heading in headings if blocks(heading)] == list(RECIPES)


def test_a_method(copy: Copy):
    """The new method is a choice of the command line, and its run on the simulated backbone has an official score."""
    copy.follow("A method")
    result = json.loads((copy.root / "runs/one-finding/result.json").read_text("utf-8"))
    assert (result["method"], result["stopped_by"]) == ("one-finding", "steps")
    assert result["official"]["n_graded"] == 6
    said = copy.python("print(json.dumps(refused(lambda: config(optimizer={'method': 'one-findin'}))))")
    assert re.search(r"use one of .*\bone-finding\b", said)


def test_an_audit(copy: Copy):
    """The new audit is exported and meets the protocol; its own test has its objective at the gate."""
    copy.follow("An audit")
    lacking = copy.python(
        "from decoevo_dspy.audits import Audit, OverlapAudit\n"
        "wanted = [name for name in {**vars(Audit), **Audit.__annotations__} if not name.startswith('_')]\n"
        "print(json.dumps([len(wanted), [name for name in wanted if not hasattr(OverlapAudit(), name)]]))"
    )
    assert lacking == [6, []]


def test_a_benchmark(copy: Copy):
    """A run on the new benchmark's rows is scored by the new grader; the preset gives its task."""
    copy.follow("A benchmark")
    rows = [{"id": f"q{i}", "question": f"My tap number {i} drips, what now?", "keywords": ["a"]} for i in range(20)]
    (copy.root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    official = copy.python(
        "data = {'benchmark': 'keywords', 'path': 'rows.jsonl'}\n"
        "print(json.dumps(run_one(config(data=data), Path('runs/x'))['official']))"
    )
    assert (official["grader"], official["n_graded"], official["score"]) == ("keywords", 4, 100.0)


def test_a_role(copy: Copy):
    """The new role is pinned, takes a model of its own from a config, and answers on the simulated backbone."""
    copy.follow("A role, or another prompt")
    golden = (copy.root / "tests/golden/overlap_auditor.txt").read_text("utf-8")
    assert "Count the criteria of a rubric" in golden
    assert "names the seal" in golden
    said, roles = copy.python(
        "import dspy\n"
        "from decoevo_dspy import Criterion, Rubric, simulated_lm\n"
        "from decoevo_dspy.roles import OverlapAuditor\n"
        "rubric = Rubric(criteria=tuple(Criterion(text=f'names thing {i}') for i in range(12)))\n"
        "with dspy.context(lm=simulated_lm(0)):\n"
        "    said = OverlapAuditor().count(rubric)\n"
        "models = {'overlap_auditor': {'model': 'simulated', 'world_seed': 7}}\n"
        "run_one(config(models=models, optimizer={'method': 'skillopt'}), Path('runs/x'))\n"
        "print(json.dumps([said, list(json.loads(Path('runs/x/run.json').read_text())['role_models'])]))"
    )
    assert 0 <= said < 12
    assert "overlap_auditor" in roles


def test_a_setting(copy: Copy):
    """The new setting is a keyword and a config key, is refused out of its range as either, and acts."""
    copy.follow("A setting")
    given, default, keyword, key = copy.python(
        "from decoevo_dspy import DecoEvo\n"
        "from decoevo_dspy.benchmarks.simulated import simulated_task\n"
        "def shown(**options):\n"
        "    return DecoEvo(simulated_task(), **options).settings.failures_shown\n"
        "bad = {'failures_shown': 0}\n"
        "run_one(config(optimizer={'failures_shown': 2}), Path('runs/x'))\n"
        "refusals = refused(lambda: shown(**bad)), refused(lambda: config(optimizer=bad))\n"
        "print(json.dumps([shown(failures_shown=3), shown(), *refusals]))"
    )
    assert (given, default) == (3, 24)
    assert keyword == "failures_shown = 0: give a whole number from 1"
    assert key.endswith("optimizer.failures_shown = 0: give a whole number from 1")
    events = [json.loads(line) for line in (copy.root / "runs/x/events.jsonl").read_text("utf-8").splitlines()]
    graded = [event for event in events if event["kind"] == "batch_graded"]
    assert [(len(event["failures_shown"]), event["failures"] > 2) for event in graded] == [(2, True)]


def test_all_recipes_together_keep_the_house_in_order(copy: Copy):
    """They do not get in each other's way, and lint, format, import contracts and the pages stay green."""
    for recipe in RECIPES:
        copy.follow(recipe, commands=False)
    copy.shell(
        ".venv/bin/python -m ruff check --no-cache .\n"
        ".venv/bin/python -m ruff format --no-cache --check .\n"
        ".venv/bin/python -c 'from importlinter.cli import lint_imports; exit(lint_imports(no_cache=True))'\n"
        ".venv/bin/python -m pytest -q tests/test_docs.py"
    )


STALE = {
    "a line that is not there": " gone\n+new\n",
    "a line that stands twice": " twice\n+new\n",
    "a line that is only a part of one": " wice\n+new\n",
    "no diff": "twice\n",
}


@pytest.mark.parametrize("diff", STALE.values(), ids=STALE.keys())
def test_a_diff_that_no_longer_fits_is_seen(diff: str):
    """A recipe whose lines have moved on fails; it is not applied somewhere else."""
    with pytest.raises(AssertionError):
        patched("once\ntwice\ntwice\n", diff)
    assert patched("once\ntwice\ntwice\n", " once\n+new\n") == "once\nnew\ntwice\ntwice\n"
