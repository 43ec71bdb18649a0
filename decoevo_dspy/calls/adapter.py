"""The adapter of every role but the student: schema-constrained JSON, read strictly.

The schema sent to the endpoint carries a bound on every string and list. What comes back is read by
`decoevo_dspy.rules.replies`, against the same types.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import dspy
from dspy import AdapterParseError
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from decoevo_dspy.calls.dspy_seam import FormattingAdapter
from decoevo_dspy.rules.replies import Unfitting, Unreadable, one_reading

FRAME_TOKENS = 60
"""Tokens that a reply needs beside what its schema bounds: braces, quotes and field names."""

ID_PATTERN = r"^c[0-9]{1,2}$"
"""The pattern of a criterion id; where the number of items is known it becomes the list of ids."""

DENSE_TOKENS = 2.0
"""Tokens that a character of such a script (Chinese, Japanese, …) may take a small model."""

UNBOUNDED_CHARS = 4000
"""Assumed length of a string that its schema does not bound (a response), before it is fitted."""

Structured = Literal["auto", "json_schema", "json_object", "none"]
"""What ``response_format`` an endpoint gets. ``auto``: a schema; without string bounds for OpenAI's strict mode."""


class RoleAdapter(FormattingAdapter):
    """DSPy's JSON adapter with a forced response format and a strict reader.

    The schema's bounds are fitted to the call's ``max_tokens``, so that no reply that follows the schema is cut off.
    ``items`` is the exact number of list items asked for, where that is known (a verdict per criterion). ``dense``
    says that the material is in a script of which a small model spends more than a token on a character.

    Raises:
        AdapterParseError: from ``parse``, when no object of the text fits the signature, or several that differ do.
    """

    def __init__(self, structured: Structured = "auto", items: int | None = None, dense: bool = False) -> None:
        super().__init__()
        self.structured, self.items, self.dense = structured, items, dense

    def response_format(
        self, lm: dspy.BaseLM, options: Mapping[str, Any], signature: type[dspy.Signature]
    ) -> dict[str, Any] | None:
        """The schema with every bound, fitted to the call's token limit; or what the endpoint takes instead."""
        if self.structured == "none":
            return None
        if self.structured == "json_object":
            return {"type": "json_object"}
        strict = self.structured == "auto" and _is_openai(lm)
        own, configured = options.get("max_tokens"), lm.kwargs.get("max_tokens")
        limit = own or configured
        room = None if limit is None else limit - FRAME_TOKENS
        if self.dense and room is not None and not own:  # the LM's own, tight limit
            room = int(room / DENSE_TOKENS)
        return response_format(signature, strict, room, self.items)  # pyright: ignore[reportArgumentType]

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        """The system message, rendered once per signature."""
        return _system_message(self.structured, signature)  # pyright: ignore[reportArgumentType] - classes are hashable

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        """The output fields from the one JSON object of ``completion`` that has them."""
        found = one_reading(completion, lambda value: _fields(signature, value))
        if isinstance(found, Unreadable):
            raise AdapterParseError(
                adapter_name="RoleAdapter",
                signature=signature,  # pyright: ignore[reportArgumentType] - it takes the class
                lm_response=completion,
                message=found.reason,
            )
        return found


def _fields(signature: type[dspy.Signature], value: Any) -> dict[str, Any]:
    """The output fields in one JSON value: an object with these fields, or the only field's own value."""
    if not isinstance(value, dict):
        raise Unfitting("the reply is a list where an object was asked for")
    fields = signature.output_fields
    if len(fields) == 1 and next(iter(fields)) not in value:
        value = {next(iter(fields)): value}
    found: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in value:
            raise Unfitting(f"the reply lacks the field {name!r}")
        try:
            found[name] = _reader(field.annotation).validate_json(json.dumps(value[name]), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join([name, *map(str, first["loc"])])
            raise Unfitting(f"{where}: {first['msg']}") from error
    return found


class _Base(RoleAdapter):
    """Renders system messages without the cache (used by the cache itself)."""

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        return dspy.JSONAdapter.format_system_message(self, signature)


@lru_cache(maxsize=512)
def _system_message(structured: Structured, signature: type[dspy.Signature]) -> str:
    return _Base(structured).format_system_message(signature)


@lru_cache(maxsize=256)
def _reader(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


@lru_cache(maxsize=256)
def response_format(
    signature: type[dspy.Signature], strict: bool, room: int | None = None, items: int | None = None
) -> dict[str, Any]:
    """The ``response_format`` of a signature: a JSON schema with every bound, or OpenAI's strict subset of it.

    ``room`` is the longest reply in characters (a token each, at worst); ``items`` the exact length of its list.
    """
    schema = output_schema(signature)
    if items is not None:
        schema = _scaled(schema, 1.0, items)
    if strict:
        schema = _without(schema, {"minLength", "maxLength"})
    elif room is not None:
        schema = fit_schema(schema, room)
    return {"type": "json_schema", "json_schema": {"name": signature.__name__, "schema": schema, "strict": True}}


def output_schema(signature: type[dspy.Signature]) -> dict[str, Any]:
    """The JSON schema of a signature's outputs: one object with exactly these fields, each of them required."""
    fields: dict[str, Any] = {
        name: (field.annotation, field.default if field.default is not None else ...)
        for name, field in signature.output_fields.items()
    }
    schema = create_model("DSPyProgramOutputs", __config__=ConfigDict(extra="forbid"), **fields).model_json_schema()
    return _closed(schema)


def _closed(value: Any) -> Any:
    """Every object of a schema with all its properties required and no others allowed."""
    if isinstance(value, list):
        return [_closed(item) for item in value]
    if not isinstance(value, dict):
        return value
    closed = {key: _closed(item) for key, item in value.items() if key != "json_schema_extra"}
    if closed.get("type") == "object" and "properties" in closed:
        closed |= {"required": list(closed["properties"]), "additionalProperties": False}
    return closed


def fit_schema(schema: dict[str, Any], room: int) -> dict[str, Any]:
    """The schema with string and list bounds scaled down until its longest reply fits into ``room`` characters.

    Strings keep at least 16 characters and lists their ``minItems``, so a very small room may still be passed.
    """
    for percent in range(100, 0, -4):
        fitted = _scaled(schema, percent / 100)
        if _bound(fitted, fitted.get("$defs", {})) <= room:
            return fitted
    return _scaled(schema, 0.0)


def _scaled(value: Any, factor: float, items: int | None = None) -> Any:
    if isinstance(value, list):
        return [_scaled(item, factor, items) for item in value]
    if not isinstance(value, dict):
        return value
    scaled = {key: _scaled(item, factor, items) for key, item in value.items()}
    if scaled.get("type") == "string" and factor < 1 and not {"enum", "const", "maxLength"} & set(scaled):
        scaled["maxLength"] = UNBOUNDED_CHARS
    if isinstance(scaled.get("maxLength"), int):
        least = max(int(scaled.get("minLength", 0)), min(16, scaled["maxLength"]))
        scaled["maxLength"] = max(least, int(scaled["maxLength"] * factor))
    if isinstance(scaled.get("maxItems"), int):
        least = max(int(scaled.get("minItems", 0)), 1)
        scaled["maxItems"] = max(least, -int(-scaled["maxItems"] * factor // 1))
        if items is not None:
            scaled["minItems"] = scaled["maxItems"] = items
    if items is not None and scaled.get("pattern") == ID_PATTERN:
        return {"type": "string", "enum": [f"c{i}" for i in range(1, items + 1)]}
    return scaled


def _without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {k: _without(v, keys) for k, v in value.items() if k not in keys or not isinstance(v, int)}
    return [_without(v, keys) for v in value] if isinstance(value, list) else value


def _is_openai(lm: Any) -> bool:
    """Whether requests go to OpenAI itself, whose strict mode refuses string bounds."""
    options = getattr(lm, "kwargs", {})
    return str(lm.model).startswith(("openai/", "azure/")) and not (options.get("api_base") or options.get("base_url"))


def schema_bound(model: type[BaseModel] | Any) -> int:
    """Upper bound in characters of a reply by its schema: string bounds times list bounds, with some syntax."""
    schema = TypeAdapter(model).json_schema()
    return _bound(schema, schema.get("$defs", {}))


def _bound(schema: dict[str, Any], defs: dict[str, Any]) -> int:
    if "$ref" in schema:
        return _bound(defs[schema["$ref"].rsplit("/", 1)[-1]], defs)
    if "enum" in schema or "const" in schema:
        return max(len(str(v)) for v in schema.get("enum", [schema.get("const")])) + 4
    kind = schema.get("type")
    if kind == "object":
        return 4 + sum(len(k) + 6 + _bound(v, defs) for k, v in schema.get("properties", {}).items())
    if kind == "array":
        return 4 + int(schema.get("maxItems", 16)) * (2 + _bound(schema.get("items", {}), defs))
    return int(schema.get("maxLength", UNBOUNDED_CHARS)) + 4 if kind == "string" else 12
