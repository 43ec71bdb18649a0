"""Reads benchmark files: rows with their place in the file, and one clear line when a row cannot be used.

Messages name file, row, field and fix; they never quote a value, because values may be gold.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from decoevo_dspy.errors import ConfigurationError, DataError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a data file and where it stands (``place``: file and row), for messages."""

    place: str
    values: Mapping[str, Any]

    def fail(self, what: str) -> NoReturn:
        """Raise `DataError` with this row's place in front of ``what``."""
        raise DataError(f"{self.place}: {what}")

    def require(self, name: str) -> Any:
        """The field ``name`` whatever its type. Raises `DataError` when it is missing."""
        if name not in self.values:
            self.fail(f"field {name!r} is missing; has the file the benchmark's current schema?")
        return self.values[name]

    def get(self, name: str, kind: type[T] | tuple[type, ...]) -> T:
        """The field ``name``, which must be there and be a ``kind`` (a bool is never taken for a number).

        Raises:
            DataError: naming the row and the field, when it is missing or has another type.
        """
        value = self.require(name)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            expected = " or ".join(k.__name__ for k in kinds)
            self.fail(f"field {name!r} must be {expected}, not {type(value).__name__}; correct or remove the row")
        return value  # type: ignore[return-value]

    def items(self, name: str) -> list["Row"]:
        """The non-empty list of objects in the field ``name``, each with its own place."""
        entries: list[Any] = self.get(name, list)
        if not entries:
            self.fail(f"field {name!r} is an empty list; give at least one entry or remove the row")
        rows = [Row(place=f"{self.place}, {name}[{i}]", values=v) for i, v in enumerate(entries) if isinstance(v, dict)]
        if len(rows) != len(entries):
            self.fail(f"field {name!r} must hold objects only; correct or remove the row")
        return rows


def read_text(path: Path) -> str:
    """The file as UTF-8 text without a byte order mark.

    Raises:
        DataError: when the file is missing, unreadable, not UTF-8 or empty.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check data.path") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start}); save the file as UTF-8") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check the path and its rights") from None
    if not text.strip():
        raise DataError(f"{path}: the file is empty; give it at least one row")
    return text


def parse_json(text: str, place: str, *, nan_is_none: bool = False) -> Any:
    """One JSON value. A bare ``NaN`` becomes ``None`` with ``nan_is_none``; otherwise it is an error.

    Lone surrogates, which no encoder can send, become U+FFFD.

    Raises:
        DataError: on invalid JSON, with the position.
    """

    def constant(name: str) -> None:
        if not (nan_is_none and name == "NaN"):
            raise ValueError(f"bare {name} is not JSON; write null instead")

    try:
        value = json.loads(text, parse_constant=constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise DataError(f"{place}: invalid JSON ({error.msg} at {where}); correct or remove it") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: invalid JSON ({error}); correct or remove it") from None
    return _clean(value) if "\\ud" in text.lower() else value


def clean_text(text: str) -> str:
    """``text`` with lone surrogates replaced by U+FFFD, so that it can be encoded."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(v) for v in value]
    if isinstance(value, dict):
        return {_clean(k): _clean(v) for k, v in value.items()}
    return value


def jsonl_rows(path: Path) -> Iterator[Row]:
    """The rows of a JSON Lines file (or of a Parquet file), blank lines left out; rows are numbered by line from 1.

    Raises:
        DataError: when the file or a line cannot be read, or a line is not an object.
    """
    if Path(path).suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            place = f"{path}, row {number}"
            value = parse_json(line, place)
            if not isinstance(value, dict):
                raise DataError(f"{place}: must be one JSON object per line, not {type(value).__name__}")
            yield Row(place=place, values=value)


def array_rows(path: Path) -> Iterator[Row]:
    """The rows of a file that holds one JSON array of objects; JSON Lines and Parquet files are taken as well."""
    text = "" if Path(path).suffix == ".parquet" else read_text(path)
    if not text.lstrip().startswith("["):
        yield from jsonl_rows(path)
        return
    for number, value in enumerate(parse_json(text, str(path)), start=1):
        place = f"{path}, row {number}"
        if not isinstance(value, dict):
            raise DataError(f"{place}: must be an object, not {type(value).__name__}")
        yield Row(place=place, values=value)


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ConfigurationError(f"{path}: reading Parquet needs pyarrow; pip install datasets") from None
    try:
        rows = parquet.read_table(str(path)).to_pylist()
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({type(error).__name__}); download it again") from None
    for number, values in enumerate(rows, start=1):
        yield Row(place=f"{path}, row {number}", values=values)


def check_unique(ids: Iterable[tuple[str, str]], *, name: str = "id") -> None:
    """Check that no id comes twice; ``ids`` are pairs of id and place.

    Raises:
        DataError: naming both rows.
    """
    seen: dict[str, str] = {}
    empty = True
    for key, place in ids:
        empty = False
        if key in seen:
            raise DataError(
                f"{place}: {name} {key!r} stands already at {seen[key]}; ids must be unique, remove one row"
            )
        seen[key] = place
    if empty:
        raise DataError("the data set has no rows; give it at least one")


def text_or_none(value: Any) -> str | None:
    """A gold field that is text, a number or missing: its text, ``None`` for ``None`` and NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return str(value)
