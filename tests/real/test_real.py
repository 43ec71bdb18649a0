"""The whole method on real rows with a real small model: nothing breaks, nothing is lost, the numbers are true.

On demand, against any OpenAI-compatible endpoint; a 135M model behind llama.cpp is enough (it gains nothing, and no
gain is asserted):

    DECOEVO_REAL_API_BASE=http://127.0.0.1:8077/v1 DECOEVO_REAL_MODEL=openai/local .venv/bin/pytest tests/real -s

``DECOEVO_REAL_OUT`` keeps the run folders. The benchmark rows are read from ``../shared/data`` beside the repository.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from decoevo_dspy.commands.config import load_config
from decoevo_dspy.commands.optimize import run_one

HERE = Path(__file__).parent
ROLES = (
    "solver",
    "rubric_generator",
    "judge",
    "structural_auditor",
    "contrastive_auditor",
    "solver_rewriter",
    "generator_rewriter",
)

pytestmark = [
    pytest.mark.skipif("DECOEVO_REAL_API_BASE" not in os.environ, reason="needs a real endpoint"),
    pytest.mark.timeout(7200),
]


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """Calls, tokens, parse rate and final failures per role."""
    lines: dict[str, Any] = {}
    for role in ROLES:
        usage, replies = result["usage"].get(role, {}), result["replies"].get(role, {})
        failed = sum(count for name, count in replies.items() if name.startswith("failed_"))
        lines[role] = {
            "calls": usage.get("calls", 0),
            "tokens": usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0),
            "parsed": replies.get("parsed", 0) / max(replies.get("replies", 0), 1),
            "failed": failed,
            "inputs_cut": replies.get("inputs_cut", 0),
        }
    return lines


@pytest.mark.parametrize("name", ["healthbench", "llmeval_med"])
def test_a_real_run(name: str, tmp_path: Path) -> None:
    """At least 150 calls, ten in every role, and 95 % of the replies of every role parse."""
    config = load_config(HERE / f"{name}.toml")
    assert config.data.path is not None
    model = {"api_base": os.environ["DECOEVO_REAL_API_BASE"]}
    if "DECOEVO_REAL_MODEL" in os.environ:
        model["model"] = os.environ["DECOEVO_REAL_MODEL"]
    default = config.models.default.model_copy(update=model)
    config = config.model_copy(update={"models": config.models.model_copy(update={"default": default})})
    out = Path(os.environ.get("DECOEVO_REAL_OUT", tmp_path)) / name
    result = run_one(config, out, resume=True)
    lines = summary(result)
    print(json.dumps({"benchmark": name, "wall_s": result["wall_s"], "roles": lines}, indent=2))
    events = [json.loads(line) for line in (out / "events.jsonl").read_text("utf-8").splitlines()]
    for event in events:
        if event["kind"].endswith("_decision"):
            print(event["step"], event["kind"], "accepted" if event["accepted"] else "rejected", event["reason"])
    assert result["stopped_by"] == "steps"
    assert sum(line["calls"] for line in lines.values()) >= 150
    assert {role: line["calls"] for role, line in lines.items() if line["calls"] < 10} == {}
    assert {role: line["parsed"] for role, line in lines.items() if line["parsed"] < 0.95} == {}
    assert sum(event["kind"] == "solver_decision" for event in events) == config.optimizer.settings["steps"]
