"""Grader prompts as templates: our own words, or the official text out of the user's checkout.

The official files are parsed with ``ast`` and never executed; only string constants, f-strings, ``+``,
``"…".join(name)``, and the ``strip`` family on constants are understood. A text counts as official when its SHA-256 is
the one in its benchmark's ``FINGERPRINTS``, which hold no benchmark text: three of the five repositories had no licence
at those commits, so no official text is copied into this project.
"""

import ast
import hashlib
import string
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from decoevo_dspy.errors import ConfigurationError


def sha256(text: str) -> str:
    """Hex SHA-256 of ``text`` in UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class Slot(str):
    """The name of a place in a template that a value goes into."""


@dataclass(frozen=True)
class Template:
    """A prompt as parts: literal strings and `Slot` names. ``official`` says whether its hash was verified.

    ``digest`` is the SHA-256 that ``FINGERPRINTS`` speak of, for texts out of a checkout.
    """

    parts: tuple[str, ...]
    official: bool = False
    source: str = "own words"
    digest: str = ""

    @classmethod
    def of_checkout(cls, parts: tuple[str, ...], digest: str, expected: str) -> "Template":
        """A template read from a checkout; official only when its digest is the expected one."""
        official = digest == expected
        source = "checkout" if official else "checkout, but not the pinned text"
        return cls(parts=parts, official=official, source=source, digest=digest)

    def fill(self, **values: str) -> str:
        """The prompt with every slot filled, in a single pass: a value is never searched for further slots."""
        return "".join(values[part] if isinstance(part, Slot) else part for part in self.parts)

    @property
    def text(self) -> str:
        """The template with its slots shown as ``{name}``."""
        return "".join("{" + part + "}" if isinstance(part, Slot) else part for part in self.parts)

    @property
    def hash(self) -> str:
        """The SHA-256 that every score prints: the official digest, or that of `text`."""
        return self.digest or sha256(self.text)


def marked(text: str, markers: Mapping[str, str]) -> tuple[str, ...]:
    """Split a text at its markers (marker -> slot name), e.g. ``<<conversation>>``."""
    parts: list[str] = [text]
    for marker, slot in markers.items():
        split: list[str] = []
        for part in parts:
            pieces = [part] if isinstance(part, Slot) else part.split(marker)
            for number, piece in enumerate(pieces):
                split.extend([Slot(slot), piece] if number else [piece])
        parts = split
    return tuple(part for part in parts if part)


def formatted(text: str) -> tuple[str, ...]:
    """Split a ``str.format`` text; ``{{`` and ``}}`` become single braces. Only plain ``{name}`` fields are allowed."""
    parts: list[str] = []
    try:
        for literal, name, spec, conversion in string.Formatter().parse(text):
            if literal:
                parts.append(literal)
            if name is not None:
                if spec or conversion or not name.isidentifier():
                    raise ValueError(f"field {name!r} is not a plain name")
                parts.append(Slot(name))
    except ValueError as error:
        raise ConfigurationError(f"the prompt template cannot be used ({error}); check out the pinned commit") from None
    return tuple(parts)


def require_slots(parts: Sequence[str], slots: Sequence[str], source: str) -> None:
    """Check that a template has exactly the named slots (each at least once).

    Raises:
        ConfigurationError: naming the difference.
    """
    found = {str(part) for part in parts if isinstance(part, Slot)}
    if found != set(slots):
        raise ConfigurationError(
            f"{source}: the prompt has slots {sorted(found)}, not {sorted(slots)}; check out the pinned commit"
        )


def checkout_text(checkout: Path, names: Sequence[str]) -> tuple[str, Path]:
    """The first of the named files inside an official checkout: its text (newlines as stored) and its path.

    Raises:
        ConfigurationError: when none is there or it cannot be read.
    """
    for name in names:
        path = Path(checkout) / name
        if path.is_file():
            try:
                return path.read_bytes().decode("utf-8"), path
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"{path}: cannot be read ({error}); check the checkout") from None
    raise ConfigurationError(
        f"{checkout}: no {' or '.join(names)} there; point official_checkout at the benchmark's own repository"
    )


def python_string(checkout: Path, names: Sequence[str], variable: str) -> tuple[tuple[str, ...], str]:
    """The string that an official file assigns to ``variable`` (at any depth), as template parts, and its place.

    Raises:
        ConfigurationError: when the file or the assignment is missing, or is no string that can be read unexecuted.
    """
    text, path = checkout_text(checkout, names)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unknown escapes in the official file are not our user's business
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{path}: not Python that can be read ({error}); check out the pinned commit"
        ) from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == variable for t in node.targets):
            parts = _fold(node.value)
            if parts is not None:
                return parts, f"{path}:{variable}"
    raise ConfigurationError(
        f"{path}: no string {variable!r} there that can be read unexecuted; check out the pinned commit"
    )


def _fold(node: ast.expr) -> tuple[str, ...] | None:
    """The template parts of a string expression; ``None`` when it is anything that would need executing."""
    match node:
        case ast.Constant(value=str(value)):
            return (value,) if value else ()
        case ast.JoinedStr(values=values):
            return _concatenate([_fold(value) for value in values])
        case ast.FormattedValue(value=ast.Name(id=name), conversion=-1, format_spec=None):
            return (Slot(name),)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _concatenate([_fold(left), _fold(right)])
        case ast.Call(func=ast.Attribute(value=ast.Constant(value="\n"), attr="join"), args=[ast.Name(id=name)]):
            return (Slot(name),)
        case ast.Call(
            func=ast.Attribute(value=inner, attr=("strip" | "lstrip" | "rstrip") as attr), args=[], keywords=[]
        ):
            parts = _fold(inner)
            if parts is None or any(isinstance(part, Slot) for part in parts):
                return None
            return (getattr("".join(parts), attr)(),)
    return None


def _concatenate(folded: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    parts: list[str] = []
    for piece in folded:
        if piece is None:
            return None
        parts.extend(piece)
    return tuple(parts)
