"""Why a value is missing: the one vocabulary of failures, from the socket to the report. Pure."""

from typing import Literal

FailureKind = Literal["unparsable", "truncated", "empty", "overflow", "infrastructure", "refused", "program"]
"""``unparsable``: no readable value in the reply; ``truncated``: cut off at a token limit; ``empty``: no text;
``overflow``: the request does not fit the window; ``infrastructure``: the endpoint failed, a later try may succeed;
``refused``: the model or endpoint would not answer this; ``program``: the user's program raised."""
