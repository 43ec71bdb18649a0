"""Writing an answer in the asked format, and inventing admissible values for fields that no role knows."""

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from decoevo_dspy.simulation.prompts import Field, Structure

Schema = Mapping[str, Any]
Invent = Callable[[str], str]
"""Text for a string field, given the field's name."""

MAX_DEPTH = 12
"""How deep an invented value nests; beyond it, lists are empty and optional values null."""


def write(structure: Structure, values: Mapping[str, Any], schema: Schema | None) -> str:
    """The answer's text: a JSON object when a schema or the adapter asks for it, else sections, tags or plain text."""
    if schema is not None or structure.style == "json":
        return json.dumps(_fit_schema(values, schema), ensure_ascii=False)
    if structure.style == "chat":
        parts = [f"[[ ## {name} ## ]]\n{render(value)}" for name, value in values.items()]
        return "\n\n".join([*parts, "[[ ## completed ## ]]"])
    if structure.style == "xml":
        return "\n\n".join(f"<{name}>\n{render(value)}\n</{name}>" for name, value in values.items())
    return "\n\n".join(render(value) for value in values.values())


def render(value: Any) -> str:
    """One value as text: strings as they are, everything else as JSON."""
    if isinstance(value, str | bool):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _fit_schema(values: Mapping[str, Any], schema: Schema | None) -> Any:
    """The object that the schema is about: the fields themselves, or the one field's own model."""
    wanted = (schema or {}).get("properties")
    if wanted and len(values) == 1 and not set(values) & set(wanted):
        inner = next(iter(values.values()))
        if isinstance(inner, Mapping):
            return inner
    return values


def response_schema(response_format: Any) -> Schema | None:
    """The JSON schema of a ``response_format``, OpenAI's or lm15's; ``{}`` for json_object; else ``None``."""
    if not isinstance(response_format, Mapping):
        return None
    kind = response_format.get("type")
    if kind == "json_object":
        return {}
    if kind != "json_schema":
        return None
    wrapper = response_format.get("json_schema")
    found = wrapper.get("schema") if isinstance(wrapper, Mapping) else response_format.get("schema")
    return found if isinstance(found, Mapping) else {}


def field_schema(field: Field, schema: Schema | None) -> Schema:
    """The JSON schema of one output field, from the response format, the prompt's note, or its type as written."""
    declared = (schema or {}).get("properties", {}).get(field.name)
    if declared is not None:
        return {**declared, "$defs": (schema or {}).get("$defs", {})}
    if "JSON schema: " in field.note:
        try:
            found, _ = json.JSONDecoder().raw_decode(field.note.split("JSON schema: ", 1)[1].strip())
            if isinstance(found, dict):
                return found
        except ValueError:
            pass
    return _type_schema(field.type.strip())


def _type_schema(kind: str) -> Schema:
    simple = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
    if kind in simple:
        return {"type": simple[kind]}
    if match := re.fullmatch(r"(?:typing\.)?Literal\[(.*)\]", kind):
        try:
            return {"enum": list(ast.literal_eval(f"[{match.group(1)}]"))}
        except (ValueError, SyntaxError):
            return {"enum": [match.group(1).split(",")[0].strip("'\" ")]}
    if match := re.fullmatch(r"(?:list|List|set|tuple|Sequence)\[(.*?)(?:, ?\.\.\.)?\]", kind):
        return {"type": "array", "items": _type_schema(match.group(1).strip())}
    if re.match(r"(?:dict|Dict|Mapping)\b", kind):
        return {"type": "object"}
    if match := re.fullmatch(r"(?:Optional|Union)\[(.*?)(?:,.*)?\]|(.*?) ?\|.*", kind):
        return _type_schema((match.group(1) or match.group(2)).strip())
    return {"type": "string"}


def invent(schema: Schema, name: str, text: Invent, defs: Schema | None = None, depth: int = 0) -> Any:
    """A value that fits a JSON schema: first alternative of unions and enums, smallest lists, bounded strings."""
    defs = {**(defs or {}), **schema.get("$defs", {})}
    if reference := schema.get("$ref"):
        target = defs.get(str(reference).rsplit("/", 1)[-1], {})
        return None if depth > MAX_DEPTH else invent(target, name, text, defs, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for union in ("anyOf", "oneOf", "allOf"):
        if options := schema.get(union):
            plain = [o for o in options if depth <= MAX_DEPTH // 2 and o.get("type") != "null"]
            return None if not plain else invent(plain[0], name, text, defs, depth + 1)
    kind = schema.get("type") or ("object" if "properties" in schema else "string")
    return _invent_kind(kind[0] if isinstance(kind, list) else kind, schema, name, text, defs, depth)


def _invent_kind(kind: str, schema: Schema, name: str, text: Invent, defs: Schema, depth: int) -> Any:
    if kind == "object":
        properties = schema.get("properties", {})
        return {key: invent(value, key, text, defs, depth + 1) for key, value in properties.items()}
    if kind == "array":
        least = int(schema.get("minItems", 0))
        count = least if depth > MAX_DEPTH // 2 else max(1, least)
        count = min(count, int(schema.get("maxItems", count)))
        return [invent(schema.get("items", {}), name, text, defs, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        return _number(kind, schema)
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    value = text(name)[: int(schema.get("maxLength", 100_000))]
    return value.ljust(int(schema.get("minLength", 0)), ".")


def _number(kind: str, schema: Schema) -> Any:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        value = 1.0 if high is None else min(1.0, high - 1)
    else:
        value = low + 1.0 if high is None else (low + high) / 2
    return int(value) if kind == "integer" else float(value)
