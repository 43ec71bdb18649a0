"""Canonical forms: what two requests, options or LMs must share to count as the same."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

import dspy

from decoevo_dspy.calls.dspy_seam import engine_state
from decoevo_dspy.calls.secrets import key_free, shown


def digest(value: Any) -> str:
    """SHA-256 (hex) of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=plain).encode("utf-8", "replace")).hexdigest()


def keyed_digest(value: Any, key: bytes) -> str:
    """What a value that must not be written is recorded as: equal values of one store share it, nobody can read it."""
    text = json.dumps(plain(value), sort_keys=True, default=plain).encode("utf-8", "replace")
    return f"hmac:{hmac.digest(key, text, 'sha256').hex()[:32]}"


def identity(lm: dspy.BaseLM, key: bytes) -> str:
    """Model name and a digest of its options (and, for a custom engine, of the engine's); never address or key."""
    return f"{lm.model} {digest([visible_options(lm.kwargs, key), plain(engine_state(lm))])[:12]}"


def visible_options(options: Mapping[str, Any], key: bytes) -> dict[str, Any]:
    """The options that shape a request, JSON-ready: no account, no address, nothing that is unset.

    Only sampling parameters keep their values; any other stands as its digest under ``key``.
    """
    return {name: _recorded(name, value, key) for name, value in _set(options).items() if not key_free(name)}


def recorded_options(options: Mapping[str, Any], key: bytes) -> dict[str, Any]:
    """`visible_options`, and of account and address that there was one, as a digest: what the call store keeps."""
    return {name: _recorded(name, value, key) for name, value in _set(options).items() if name not in UNRECORDED}


UNRECORDED = ("rollout_id", "cache", "timeout", "num_retries")
"""Options that say nothing about what was asked, nor of whom."""


def _set(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _recorded(name: str, value: Any, key: bytes) -> Any:
    return plain(value) if shown(name, value) else keyed_digest([name, _stable(value)], key)


def _stable(value: Any) -> Any:
    """A value without what another process would not repeat: a function or client counts by its name."""
    if isinstance(value, Mapping):
        return {str(name): _stable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_stable(part) for part in value]
    if isinstance(value, str | int | float | bool | type(None)) or hasattr(value, "model_dump"):
        return value
    if isinstance(value, bytes):
        return value.hex()
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


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
