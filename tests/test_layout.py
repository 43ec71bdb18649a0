"""The tree, the package list, the built wheel and the lock file say the same thing."""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
LINKED = ("signatures", "teleprompters")
PURE = ("values", "rules")
CODE = ("decoevo_dspy", *LINKED, "tests")
EXPORTS = {
    "DecoEvo", "SkillOpt", "ScoreCoupledCoEvo", "TaskPrior", "BudgetMatched", "DirectAudit",
    "Task", "Partitions", "Skill", "Rubric", "Criterion", "Verdict",
    "RubricGenerator", "RubricJudge", "RubricMetric",
    "RoleLMs", "Budget", "CoEvolutionResult", "simulated_lm",
}  # fmt: skip


def package_files() -> dict[str, Path]:
    """Every file that belongs to the library, under the name it has when installed."""
    places = {"decoevo_dspy": ROOT / "decoevo_dspy"} | {f"decoevo_dspy/{name}": ROOT / name for name in LINKED}
    links = {ROOT / "decoevo_dspy" / name for name in LINKED}
    return {
        f"{prefix}/{path.relative_to(folder).as_posix()}": path
        for prefix, folder in places.items()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not links & {path, *path.parents} and "__pycache__" not in path.parts
    }


def modules() -> list[str]:
    """Dotted names of all modules, without ``__main__`` (importing it runs the program)."""
    files = (file.removesuffix(".py").removesuffix("/__init__") for file in package_files() if file.endswith(".py"))
    return sorted(file.replace("/", ".") for file in files if not file.endswith("/__main__"))


def sources() -> Iterator[Path]:
    """Every Python file, each once (not again through the links)."""
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(ROOT / "decoevo_dspy" / name in path.parents for name in LINKED):
                yield path


def imported(code: str) -> set[str]:
    """Absolute module names that a piece of code imports, at any depth."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    return names


def kept_files() -> list[Path]:
    """What git tracks or would add; nothing outside a checkout."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listing.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_package_list_matches_disk():
    """Each folder with modules is a listed package with an ``__init__.py``, and each listed package exists."""
    folders = {file.rpartition("/")[0] for file in package_files() if file.endswith(".py")}
    assert {folder.replace("/", ".") for folder in folders} == set(SETUPTOOLS["packages"])
    assert [folder for folder in sorted(folders) if f"{folder}/__init__.py" not in package_files()] == []
    assert SETUPTOOLS["package-dir"] == {f"decoevo_dspy.{name}": name for name in LINKED}


@pytest.mark.parametrize("name", LINKED)
def test_links_for_tools(name: str):
    """The links inside the package point at the top-level folders by a relative path."""
    link = ROOT / "decoevo_dspy" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..", name)


def test_bare_names_are_never_imported():
    """``import signatures`` would make a second copy of every class."""
    for path in sources():
        roots = {name.partition(".")[0] for name in imported(path.read_text(encoding="utf-8"))}
        assert not roots & set(LINKED), path
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        assert not re.search(rf"^\s*(?:import|from)\s+(?:{'|'.join(LINKED)})\b", text, re.MULTILINE), path


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_stay_pure(name: str):
    """Values and rules know no DSPy, no files and nothing of the library's other layers."""
    for path in sorted((ROOT / "decoevo_dspy" / name).glob("*.py")):
        names = imported(path.read_text(encoding="utf-8"))
        roots = {name.partition(".")[0] for name in names}
        assert not roots & {"dspy", "litellm", "optuna", "pathlib", "os", "sqlite3"}, path
        inside = {name for name in names if name.startswith("decoevo_dspy")} - {"decoevo_dspy.errors"}
        assert all(name.split(".")[1] in PURE for name in inside), path


def linted(tree: Path) -> str:
    """What the import contracts of pyproject.toml say about a tree; empty when all are kept."""
    run = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c(['--no-cache'])"],
        cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode in (0, 1), run.stderr
    return run.stdout if run.returncode else ""


def test_imports_point_down():
    """A folder is a layer: no upward arrow and no circle, however an import is hidden."""
    assert linted(ROOT) == ""


DODGES = {
    "values/skill.py": "import decoevo_dspy.cli.app\n",
    "calls/store.py": "def later():\n    from decoevo_dspy.roles import base\n    return base\n",
    "rules/matching.py": "import typing\nif typing.TYPE_CHECKING:\n    from decoevo_dspy.run import events\n",
    "values/task.py": "import decoevo_dspy.values.partition\n",
    "extra/__init__.py": "",
}
"""Ways round the rule: plainly upward, inside a function, for the type checker only, a circle, a folder of no layer."""


@pytest.mark.parametrize("file", DODGES)
def test_dodged_imports_are_seen(file: str, tmp_path: Path):
    """Each way round the rule breaks a contract."""
    for name in ("decoevo_dspy", *LINKED):
        copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=ignore_patterns("__pycache__"))
    copy2(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "decoevo_dspy" / file
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as code:
        code.write("\n" + DODGES[file])
    assert "BROKEN" in linted(tmp_path)


def test_top_level_needs_no_explanation():
    """Beside the layers the package holds its front door, its errors and the typing marker."""
    files = {path.name for path in (ROOT / "decoevo_dspy").iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "errors.py", "py.typed"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel made from it, of a clean copy of the tree (a stale ``build/`` hides what is missing)."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("decoevo_dspy", *LINKED):
        copytree(ROOT / name, tree / name, symlinks=True, ignore=ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            copy2(ROOT / name, tree / name)
    run = subprocess.run([sys.executable, "-m", "build", "--no-isolation"], cwd=tree, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    (sdist,) = (tree / "dist").glob("*.tar.gz")
    (wheel,) = (tree / "dist").glob("*.whl")
    return sdist, wheel


def test_sdist_and_wheel_hold_every_file(built: tuple[Path, Path]):
    """Modules and data files are all there, and nothing else of the tree is in the wheel."""
    sdist, wheel = built
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {path.relative_to(ROOT).as_posix() for path in package_files().values()} <= inside
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert inside == set(package_files())


def test_installed_wheel_imports_everything(built: tuple[Path, Path], tmp_path: Path):
    """In a fresh environment, away from the checkout, each module comes from the wheel; ``decoevo`` is installed."""
    fresh = tmp_path / "env"
    venv.create(fresh, with_pip=False, symlinks=True)
    python = fresh / "bin" / "python"
    run = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", built[1]],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    (site,) = fresh.glob("lib/python*/site-packages")
    # Dependencies are borrowed from here. A folder named in a .pth file has its own .pth files ignored, so that the
    # editable install does not come along.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    code = (
        "import importlib, json, sys\n"
        "print(json.dumps({name: importlib.import_module(name).__file__ for name in json.loads(sys.argv[1])}))"
    )
    run = subprocess.run([python, "-c", code, json.dumps(modules())], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    places = json.loads(run.stdout.splitlines()[-1])
    assert {name: place for name, place in places.items() if not Path(place).is_relative_to(site)} == {}
    assert (fresh / "bin" / "decoevo").exists()


def test_no_hosts_or_machine_paths():
    """Nothing in the tree names a package registry's host or a folder of somebody's machine."""
    hosts = "|".join(("pypi[.]org", "pythonhosted[.]org", "npmjs[.]org", "debian[.]org", "yarnpkg[.]com"))
    folders = "|".join(("work", "root", "tmp/w", "opt/wheels", "opt/pypi"))
    pattern = re.compile(rf"{hosts}|(?<![\w./~-])/(?:{folders})/".encode())
    found = {
        f"{path.relative_to(ROOT)}: {match.group().decode()}"
        for path in kept_files()
        if (match := pattern.search(path.read_bytes()))
    }
    assert found == set()


def test_lock_is_hashed_and_without_addresses():
    """Every pin has hashes, no line is an address or an option, and no accelerator stack has slipped in."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text
    pins = [entry for entry in re.split(r"\n(?=\S)", text) if not entry.startswith("#")]
    assert [pin for pin in pins if not re.match(r"[\w.-]+==\S+ .*\\\n +--hash=sha256:", pin)] == []
    assert [pin for pin in pins if re.match(r"torch|nvidia|triton|jax", pin)] == []


def test_lock_satisfies_declared_ranges():
    """What pyproject.toml asks for, the lock pins inside the range."""
    pins: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE):
        pins.setdefault(canonicalize_name(name), []).append(version)
    extras = PROJECT["project"]["optional-dependencies"].values()
    for line in [*PROJECT["project"]["dependencies"], *(line for extra in extras for line in extra)]:
        wanted = Requirement(line)
        versions = pins.get(canonicalize_name(wanted.name), [])
        assert versions, f"{line}: run `make lock`"
        assert all(version in wanted.specifier for version in versions), f"{line}: run `make lock`"


def test_readme_is_short():
    """One page: under 120 lines."""
    readme = ROOT / "README.md"
    assert len(readme.read_text(encoding="utf-8").splitlines()) < 120


def test_exported_names():
    """``decoevo_dspy`` exports exactly the names of the contract, and each is there."""
    import decoevo_dspy

    assert set(decoevo_dspy.__all__) == EXPORTS
    assert [name for name in EXPORTS if not hasattr(decoevo_dspy, name)] == []
