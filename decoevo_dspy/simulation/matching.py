"""The matcher: which criteria of two rubrics ask for the same thing, in whatever shape the prompt's schema has."""

import re
from collections.abc import Mapping
from random import Random
from typing import Any

from decoevo_dspy.simulation.judging import same_requirement
from decoevo_dspy.simulation.parameters import WorldParameters
from decoevo_dspy.simulation.prompts import Prompt
from decoevo_dspy.simulation.writing import Schema, field_schema, invent

OUTPUTS = frozenset({"match", "matches", "matching", "matched", "pairs", "alignment", "same", "equivalent"})
_ITEM = re.compile(r"^\s*(?:- )?([a-z]?\d+)\s*[.):]\s*(?:\([\d.-]+ points?\)\s*)?(.+)$", re.IGNORECASE)
_NO = ("no", "false", "different", "none", "0", "unmatched", "not")


def is_matcher(prompt: Prompt) -> bool:
    """Whether the prompt asks to match two texts, by the name of its one output field."""
    return len(prompt.outputs) == 1 and prompt.outputs[0].name in OUTPUTS and len(_sides(prompt)) == 2


def match_fields(prompt: Prompt, schema: Schema | None, p: WorldParameters, rng: Random) -> dict[str, Any]:
    """The matcher's output field, in the shape that its schema describes."""
    left, right = (_items(text) for text in _sides(prompt))
    field = prompt.outputs[0]
    shape = field_schema(field, schema)
    matched = [(a, b) for a, text in left for b, other in right if same_requirement(text, other, p, rng)]
    return {field.name: _shape(shape, shape.get("$defs", {}), matched)}


def _sides(prompt: Prompt) -> list[str]:
    texts = [text for name, text in prompt.values.items() if name not in ("question", "task", "specification")]
    return texts[:2]


def _items(text: str) -> list[tuple[str, str]]:
    found = [match.groups() for line in text.split("\n") if (match := _ITEM.match(line))]
    return [(key, body) for key, body in found] or [("1", text)]


def _shape(schema: Schema, defs: Mapping[str, Any], matched: list[tuple[str, str]]) -> Any:
    """The pairs as the schema wants them: a list of objects, or a single decision when it has no list."""
    schema = defs.get(str(schema["$ref"]).rsplit("/", 1)[-1], {}) if "$ref" in schema else schema
    if schema.get("type") == "array":
        item = schema.get("items", {})
        pairs = matched[: int(schema.get("maxItems", 1000))]
        return [_pair(item, defs, pair) for pair in pairs]
    if schema.get("type") == "object" and schema.get("properties"):
        return {name: _shape(value, defs, matched) for name, value in schema["properties"].items()}
    if schema.get("enum"):
        negative = [v for v in schema["enum"] if str(v).lower().startswith(_NO)]
        positive = [v for v in schema["enum"] if v not in negative]
        return (positive if matched else negative or positive)[0]
    if schema.get("type") == "boolean":
        return bool(matched)
    if schema.get("type") in ("integer", "number"):
        return int(bool(matched)) * int(schema.get("maximum", 1))
    return "They ask for the same thing." if matched else "They ask for different things."


def _pair(schema: Schema, defs: Mapping[str, Any], pair: tuple[str, str]) -> Any:
    schema = defs.get(str(schema["$ref"]).rsplit("/", 1)[-1], {}) if "$ref" in schema else schema
    if schema.get("type") != "object":
        return list(pair) if schema.get("type") == "array" else f"{pair[0]}-{pair[1]}"
    ids = iter(pair)
    found: dict[str, Any] = {}
    for name, value in schema.get("properties", {}).items():
        wants_id = value.get("type") in ("string", "integer") and not re.search(r"reason|rationale|why|explan", name)
        key = next(ids, None) if wants_id else None
        if key is None:
            found[name] = invent(value, name, lambda _: "They ask for the same thing.", defs)
        else:
            found[name] = int(re.sub(r"\D", "", key) or 0) if value.get("type") == "integer" else key
    return found
