"""The pages for readers say what is there: links, anchors, cited sections, named files, and the method's own tables."""

import ast
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from decoevo_dspy import benchmarks
from decoevo_dspy.commands.init import CONFIG
from decoevo_dspy.roles.lms import ROLES
from decoevo_dspy.teleprompters import METHODS
from decoevo_dspy.values.methods import COMPARED
from decoevo_dspy.values.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
LINKED = (ROOT / "decoevo_dspy" / "signatures", ROOT / "decoevo_dspy" / "teleprompters")
FENCED = re.compile(r"^(```+).*?^\1\s*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
SECTION = re.compile(r"^## (\d+)\. ", re.MULTILINE)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
QUOTED = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w.-]+(?:/[\w.-]+)*/[\w.-]+\.(?:py|md|toml|lock|jsonl?|ipynb|css|html)")
PAGE = re.compile(r"(?<![\w./-])((?:[\w.-]+/)*[A-Z][\w-]*\.md)\b(?: §(\d+)(?:[–-](\d+))?)?")
UNCITED = re.compile(r"(?<![\w/])[A-Z]{4,}(?:-[A-Z]+)* (?:§|bug case |pain |row )\d")
MADE_BY_RUNS = {"SKILL.md"}
"""Markdown files that the program writes; no page of the repository."""

Complaint = tuple[str, str]
"""(place, what is wrong)"""


def pages(root: Path) -> list[Path]:
    """The pages for readers."""
    top = (root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    return [page for page in top if page.is_file()] + sorted((root / "docs").glob("*.md"))


def sources(root: Path) -> Iterator[Path]:
    """All Python files, each once."""
    linked = [root / path.relative_to(ROOT) for path in LINKED]
    for folder in ("decoevo_dspy", "signatures", "teleprompters", "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            if not any(link in path.parents for link in linked) and path.name != "test_docs.py":
                yield path


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).casefold()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(slug if slug not in found else f"{slug}-1")
    return found


def prose(path: Path) -> str:
    """What a file says to readers: a page's text without code blocks, a module's strings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return FENCED.sub("", text)
    said = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    notes = [t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT]
    return "\n".join([part for part in said if isinstance(part, str)] + notes)


def broken_links(root: Path) -> list[Complaint]:
    """Relative links to files or anchors that are not there."""
    wrong: list[Complaint] = []
    for page in pages(root):
        for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = page.parent / name if name else page
            there = file.exists() and root in file.resolve().parents
            if not there or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
                wrong.append((page.name, target))
    return wrong


def broken_citations(root: Path) -> list[Complaint]:
    """Cited pages that are not in the repository, or sections that they do not have."""
    wrong: list[Complaint] = []
    for path in [*pages(root), *sources(root)]:
        text = prose(path)
        if path.suffix == ".md":
            text = LINK.sub("", text)  # links have their own check
        for name, first, last in PAGE.findall(text):
            page = root / name
            if name in MADE_BY_RUNS:
                continue
            if not page.is_file():
                wrong.append((path.name, name))
            elif first:
                there = set(SECTION.findall(page.read_text(encoding="utf-8")))
                cited = [str(n) for n in range(int(first), int(last or first) + 1)]
                wrong.extend((path.name, f"{name} §{n}") for n in cited if n not in there)
        wrong.extend((path.name, match) for match in UNCITED.findall(text))
    return wrong


def missing_files(root: Path) -> list[Complaint]:
    """Paths in backticks in the pages that are not there. A path that a reader is to create belongs in a code block."""
    wrong: list[Complaint] = []
    for page in pages(root):
        if page.name == "CHANGELOG.md":
            continue  # it may name what is gone
        for quoted in QUOTED.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
            wrong.extend(
                (page.name, name)
                for name in FILE.findall(quoted)
                if FILE.fullmatch(quoted.split()[-1]) and not name.startswith("runs/") and not (root / name).is_file()
            )
    return wrong


CHECKS: dict[str, Callable[[Path], list[Complaint]]] = {
    "links": broken_links,
    "citations": broken_citations,
    "files": missing_files,
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_pages_say_what_is_there(check: str):
    """No broken link or anchor, no citation of a page or section that a reader cannot open, no path that is gone."""
    assert CHECKS[check](ROOT) == []


MISTAKES = [
    ("links", "README.md", "[gone](docs/GONE.md)"),
    ("links", "README.md", "[gone](docs/METHOD.md#no-such-heading)"),
    ("links", "docs/METHOD.md", "[gone](#15-no-such-section)"),
    ("links", "docs/METHOD.md", "[outside](../../etc/x)"),
    ("citations", "decoevo_dspy/x.py", '"""See docs/METHOD.md §99."""'),
    ("citations", "decoevo_dspy/x.py", '"""See docs/METHOD.md §1–99."""'),
    ("citations", "decoevo_dspy/x.py", "# METHOD.md §1 without its folder"),
    ("citations", "decoevo_dspy/x.py", '"""As DESIGN.md has it."""'),
    ("citations", "decoevo_dspy/x.py", '"""As NOTES §3 has it."""'),
    ("citations", "tests/x.py", '"""It is in docs/GONE.md."""'),
    ("citations", "tests/x.py", '"""Never 0 (LESSONS bug case 8)."""'),
    ("citations", "docs/METHOD.md", "As docs/EVIDENCE.md §1 says."),
    ("files", "docs/METHOD.md", "It is in `decoevo_dspy/values/gone.py`."),
    ("files", "CONTRIBUTING.md", "Run `.venv/bin/pytest tests/test_gone.py`."),
]


@pytest.mark.parametrize(("check", "file", "line"), MISTAKES)
def test_each_kind_of_mistake_is_seen(check: str, file: str, line: str, tmp_path: Path):
    """A page or module with one mistake more has more complaints."""
    for page in pages(ROOT):
        (tmp_path / page.relative_to(ROOT)).parent.mkdir(exist_ok=True)
        (tmp_path / page.relative_to(ROOT)).write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    wrong = tmp_path / file
    wrong.parent.mkdir(exist_ok=True)
    before = len(CHECKS[check](tmp_path))
    text = wrong.read_text(encoding="utf-8") if wrong.exists() else ""
    wrong.write_text(f"{text}\n{line}\n", encoding="utf-8")
    assert len(CHECKS[check](tmp_path)) > before


METHOD = (ROOT / "docs" / "METHOD.md").read_text(encoding="utf-8")


def section(number: int) -> str:
    """The text of one section of docs/METHOD.md."""
    return re.split(r"^## ", METHOD, flags=re.MULTILINE)[number].partition("\n")[2]


def test_sections_are_numbered_without_gaps():
    """1, 2, 3, …: a citation of a section cannot be ambiguous."""
    numbers = SECTION.findall(METHOD)
    assert numbers == [str(n + 1) for n in range(len(numbers))]


def test_the_method_page_is_of_readable_length():
    """About 300 lines; whoever adds a page's worth makes another page."""
    assert METHOD.count("\n") <= 320


def test_the_screen_of_the_algorithm_names_every_verb():
    """docs/METHOD.md §2 has each step that `coevolve` and its outer step take, in their order."""
    code = (ROOT / "teleprompters" / "coevolution.py").read_text(encoding="utf-8")
    verbs = [verb for verb in re.findall(r"steps\.(\w+)\(", code) if verb != "audit_is_due"]
    shown = next(re.finditer(FENCED, section(2))).group()
    found = re.findall(rf"\b({'|'.join(sorted(set(verbs), key=len, reverse=True))})\b", shown)
    assert [verb for verb in found if verb in verbs] == [
        "score_incumbent", "propose_solver", "gate_solver", "audit", "propose_solver", "distil_generator",
        "verify_generator", "score_incumbent",
    ]  # fmt: skip
    assert set(found) == set(verbs)


def test_the_table_of_methods_is_whole():
    """docs/METHOD.md §11 lists the methods of the command line, and no other."""
    rows = [row.split("|")[1] for row in section(11).split("\n") if row.startswith("| `")]
    assert sorted(name for row in rows for name in QUOTED.findall(row)) == sorted(METHODS)


def test_the_table_of_settings_is_whole():
    """docs/METHOD.md §13 names every setting with its default, and no other."""
    rows = [row.strip("| ").split("|") for row in section(13).split("\n") if row.startswith("| `")]
    said = {name.strip(" `"): json.loads(default.strip(" `")) for name, _, default in rows}
    assert said == asdict(Settings())


README = (ROOT / "README.md").read_text(encoding="utf-8")
LISTS = {
    "methods in the README": (set(QUOTED.findall(README.partition("## What is compared")[2])), METHODS),
    "methods of the comparison": (METHODS, COMPARED),
    "benchmarks in the README": (
        set(re.findall(r"^benchmark = .*# (.+)$", README, re.MULTILINE)[0].split()),
        benchmarks.NAMES,
    ),
    "benchmarks in decoevo init": (
        re.findall(r"[\w-]+", re.findall(r"^benchmark = .*$", CONFIG, re.MULTILINE)[0]),
        benchmarks.NAMES,
    ),
    "roles in decoevo init": (re.findall(r"\w+", CONFIG), ROLES),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_for_readers_are_whole(name: str):
    """Whoever adds a method, a benchmark or a role finds it in every list that readers see."""
    shown, wanted = LISTS[name]
    assert set(wanted) - set(shown) == set()
