"""Canonical forms: what two requests, options or LMs must share to count as the same."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import dspy

from decoevo_dspy.calls.dspy_seam import engine_state

SECRET_OPTIONS = ("api_key", "headers", "extra_headers", "default_headers")
"""Options of an LM that are never written anywhere."""

KEY_FREE = (*SECRET_OPTIONS, "rollout_id", "cache", "timeout", "api_base", "base_url")
"""Options that do not change what is asked: an endpoint that moves keeps its calls."""


def digest(value: Any) -> str:
    """SHA-256 (hex) of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=plain).encode("utf-8", "replace")).hexdigest()


def identity(lm: dspy.BaseLM) -> str:
    """Model name and a digest of its options (and, for a custom engine, of the engine's); never address or key."""
    return f"{lm.model} {digest([visible_options(lm.kwargs), plain(engine_state(lm))])[:12]}"


def visible_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that shape a request, JSON-ready: no key, no address, nothing that is unset."""
    return {key: plain(value) for key, value in options.items() if key not in KEY_FREE and value is not None}


def encodable(value: Any) -> Any:
    """The same value with every lone surrogate replaced: no provider takes one, and no file can hold it.

    >>> encodable([{"content": "a\\ud800b"}])
    [{'content': 'a?b'}]
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {key: encodable(part) for key, part in value.items()}
    return [encodable(part) for part in value] if isinstance(value, list | tuple) else value


def plain(value: Any) -> Any:
    """JSON-ready form of an output or option; classes (response formats) by their schema."""
    if isinstance(value, type):
        schema = getattr(value, "model_json_schema", None)
        return schema() if callable(schema) else value.__qualname__
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)
