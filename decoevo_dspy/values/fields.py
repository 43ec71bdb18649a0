"""Parts of a reply's fields that forgive what does no harm: `Whole` takes 8.0 for 8, `clipped` shortens a reason."""

from typing import Annotated

from pydantic import BeforeValidator


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number, also when it is written 8.0; text, true and 8.5 are none."""


def clipped(limit: int) -> BeforeValidator:
    """Cuts a text at ``limit`` characters before its bound is checked: a verdict is not lost to a long reason."""
    return BeforeValidator(lambda value: value[:limit] if isinstance(value, str) else value)
