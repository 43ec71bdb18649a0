"""A scripted grader client, schema-true synthetic files, and the third-party data where it is present."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from decoevo_dspy.benchmarks.base import RawReply

HERE = Path(__file__).resolve().parent


class FakeClient:
    """Answers from a function of (user text, sample); an exception is raised. Keeps every request."""

    model = "fake/grader"

    def __init__(self, reply: Callable[[str, int], Any]) -> None:
        self.reply = reply
        self.requests: list[tuple[list[Mapping[str, str]], Mapping[str, Any], int]] = []

    def complete(
        self, messages: Sequence[Mapping[str, str]], *, params: Mapping[str, Any], sample: int = 0
    ) -> RawReply:
        self.requests.append((list(messages), params, sample))
        found = self.reply(messages[-1]["content"], sample)
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, RawReply) else RawReply(text=found)


def in_order(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """The simplest `Mapper`."""
    return [function(item) for item in items]


@pytest.fixture
def fake() -> type[FakeClient]:
    return FakeClient


@pytest.fixture
def one_by_one() -> Callable[..., list[Any]]:
    return in_order


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    return json.loads((HERE / "golden_vectors.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with third-party data; only counts of it are ever asserted."""
    folder = Path(os.environ.get("DECOEVO_SHARED") or HERE.parents[2] / "shared") / "data"
    if not folder.is_dir():
        pytest.skip("third-party data is not beside the repository")
    return folder


def healthbench_row(key: str, criteria: Sequence[tuple[int, str]], **changes: Any) -> dict[str, Any]:
    rubrics = [{"criterion": text, "points": p, "tags": ["level:example", "axis:accuracy"]} for p, text in criteria]
    row = {
        "example_tags": ["theme:hedging"],
        "ideal_completions_data": None,
        "prompt": [{"content": f"Question {key}?", "role": "user"}],
        "prompt_id": key,
        "canary": "synthetic:1",
        "rubrics": rubrics,
    }
    return {**row, **changes}


def writingbench_row(index: int, names: Sequence[str] = "ABCDE", **changes: Any) -> dict[str, Any]:
    bands = {"1-2": "a", "3-4": "b", "5-6": "c", "7-8": "d", "9-10": "e"}
    checklist = [{"name": name, "criteria_description": f"It's {name}", **bands} for name in names]
    row = {
        "index": index,
        "domain1": "Education",
        "domain2": "Essay",
        "query": f"Query {index}",
        "checklist": checklist,
    }
    return {**row, **changes}


def researchqa_row(key: str, n: int, **changes: Any) -> dict[str, Any]:
    items = [{"rubric_item": f"Item {i}?", "type": ["Other", "Example"], "citation_metadata": None} for i in range(n)]
    row = {"id": key, "general_domain": "D", "subdomain": "S", "field": "F", "query": f"Query {key}?", "rubric": items}
    return {**row, "date": "2020-01-01", **changes}


def llmeval_row(group: int, turn: int = 1, **changes: Any) -> dict[str, Any]:
    row = {"category1": "x", "category2": "y", "scene": "z", "round": turn, "problem": f"问题{group}.{turn}？"}
    return {**row, "groupCode": group, "sanswer": "参考", "checklist": "核心需求：甲", **changes}


def eqbench_row(n: int, **changes: Any) -> dict[str, Any]:
    row = {
        "category": "c",
        "title": f"t{n}",
        "writing_prompt": f"Write {n}. <SEED> End.",
        "seed_modifiers": ["s1", "s2"],
    }
    return {**row, **changes}


@pytest.fixture
def rows() -> Mapping[str, Callable[..., dict[str, Any]]]:
    """Schema-true rows, made up here."""
    return {
        "healthbench": healthbench_row,
        "writingbench": writingbench_row,
        "researchqa": researchqa_row,
        "llmeval-med": llmeval_row,
        "eqbench-cw": eqbench_row,
    }


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., Path]:
    """Write rows as JSON Lines and give the path."""

    def write(data: Sequence[Any], name: str = "data.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "\n".join(json.dumps(row, ensure_ascii=False) for row in data) + "\n"
        path.write_bytes(text.encode("utf-8", "backslashreplace"))  # a lone surrogate becomes its JSON escape
        return path

    return write


@pytest.fixture
def as_json(tmp_path: Path) -> Callable[..., Path]:
    """Write one JSON value (bare NaN and all) and give the path."""

    def write(data: Any, name: str = "data.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
        return path

    return write
