"""What a failed call is: typed here once, from the error that DSPy raises for it."""

from collections.abc import Mapping
from typing import Any

import dspy

from decoevo_dspy.calls.secrets import mask_error
from decoevo_dspy.errors import DecoEvoError, EndpointError
from decoevo_dspy.values.failures import FailureKind

_FATAL = (
    dspy.LMAuthError,
    dspy.LMBillingError,
    dspy.LMUnsupportedModelError,
    dspy.LMConfigurationError,
    dspy.LMUnsupportedFeatureError,
)


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


class Unusable(EndpointError):
    """No call of this role can succeed. ``said`` is the endpoint's own sentence, masked."""

    def __init__(self, model: str, role: str, said: str) -> None:
        super().__init__(f"{model} (role {role}) cannot be used: {said}")
        self.said = said


def described(error: dspy.LMError, options: Mapping[str, Any]) -> tuple[FailureKind | None, str]:
    """Kind and sentence of a failed call, as the call store keeps them; no kind where no later call can succeed.

    ``options`` are the request's, to mask what is secret in them. The error itself must not be raised, nor chained to
    what is raised: it, and what it was caused by, may quote a key.
    """
    name, line = type(error).__name__, " ".join(mask_error(str(error), options).split())[:300]
    if isinstance(error, dspy.ContextWindowExceededError):
        return "overflow", f"context overflow: {line}"
    refused = isinstance(error, dspy.LMInvalidRequestError)
    if isinstance(error, _FATAL) or (refused and error.status in (401, 403, 404)):
        return None, line
    return ("refused", f"refused request: {line}") if refused else ("infrastructure", f"endpoint: {name}: {line}")
