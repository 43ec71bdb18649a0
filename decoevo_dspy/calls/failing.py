"""What a failed call is: typed here once, from the error that DSPy raises for it."""

import re
from collections.abc import Mapping
from typing import Any

import dspy

from decoevo_dspy.calls.digests import SECRET_OPTIONS
from decoevo_dspy.errors import DecoEvoError, EndpointError
from decoevo_dspy.values.failures import FailureKind

_FATAL = (
    dspy.LMAuthError,
    dspy.LMBillingError,
    dspy.LMUnsupportedModelError,
    dspy.LMConfigurationError,
    dspy.LMUnsupportedFeatureError,
)
_SECRETS = re.compile(r"(sk-|Bearer\s+)[\w\-.]{6,}", re.IGNORECASE)
_PREFIXES: dict[str, FailureKind] = {
    "endpoint": "infrastructure",
    "context overflow": "overflow",
    "refused request": "refused",
}
"""How a failed call's kind is written before its sentence in the call store."""


class CallFailed(DecoEvoError):
    """One call failed for good (after its retries). The item it belonged to is ungraded, never a bad answer."""

    def __init__(self, reason: str, *, kind: FailureKind) -> None:
        super().__init__(reason)
        self.reason: str = reason
        self.kind: FailureKind = kind

    @property
    def infrastructure(self) -> bool:
        """Whether the endpoint failed, so that a later try may succeed."""
        return self.kind == "infrastructure"


def kind_of(error: str) -> FailureKind:
    """The kind of a stored failed call."""
    return _PREFIXES.get(error.partition(":")[0], "refused")


def described(error: dspy.LMError, *, model: str, role: str, options: Mapping[str, Any]) -> str:
    """Kind and sentence of a failed call, as the call store keeps them; ``options`` are the LM's, to mask its secrets.

    Raises:
        EndpointError: when sending it again cannot help.
    """
    line = " ".join(str(error).split())
    for name in SECRET_OPTIONS:
        for secret in _strings(options.get(name)):
            line = line.replace(secret, "…") if len(secret) > 3 else line
    line = _SECRETS.sub(r"\1…", line)[:300]
    if isinstance(error, dspy.ContextWindowExceededError):
        return f"context overflow: {line}"
    refused = isinstance(error, dspy.LMInvalidRequestError)
    if isinstance(error, _FATAL) or (refused and error.status in (401, 403, 404)):
        raise EndpointError(f"{model} (role {role}) cannot be used: {line}") from error
    return f"refused request: {line}" if refused else f"endpoint: {type(error).__name__}: {line}"


def _strings(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for part in value.values() for text in _strings(part)]
    return [value] if isinstance(value, str) else []
