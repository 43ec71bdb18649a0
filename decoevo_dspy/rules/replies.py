"""The one reader of replies, for roles, graders and matcher: what did the model answer, if it answered one thing?

A reply is free text around JSON: prose, code fences, drafts, the model's reasoning, quotations of what it was shown.
`json_values` finds the complete values that stand in it by themselves; `one_reading` takes a value only when exactly
one reading of the reply fits, because a quotation, a draft or a cut-off reply must not become a verdict. Nothing is
repaired, merged or guessed: what cannot be read is `Unreadable`, says why, and is asked again.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST_REPLY = 1_000_000
"""Characters of a reply that is read at all; a longer one is `Unreadable`."""

DEEPEST_VALUE = 64
"""Levels of brackets in a value; a deeper one makes the reply `Unreadable`."""

MOST_VALUES = 1000
"""Bracketed stretches of a reply; more of them make it `Unreadable`. With the other two, reading takes linear time."""

_TAG = "think|thinking|thoughts?|reasoning|reflection|scratchpad|seed:think|antthinking"
_OPENING = (
    rf"<(?P<tag>{_TAG})(?:\s[^<>\n]{{0,80}})?>|(?P<square>\[THINK\])|(?P<kimi>◁think▷)"
    r"|(?P<begin><\|begin_of_thought\|>)|(?P<channel><\|channel\|>\s*(?:analysis|commentary)\b)"
)
_FINAL = r"<\|channel\|>\s*final\s*<\|message\|>"
_CLOSING = rf"</(?:{_TAG})\s*>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|{_FINAL}"
_LEADING = re.compile(rf"[\s\ufeff]*(?:{_OPENING})", re.IGNORECASE)
_OPENS = re.compile(_OPENING, re.IGNORECASE)
_CLOSES = re.compile(_CLOSING, re.IGNORECASE)
_STOP = re.compile(rf"(?P<opening>{_OPENING})|(?P<closing>{_CLOSING})|[{{\[]", re.IGNORECASE)
_ENDS = {
    "square": re.compile(r"\[/THINK\]", re.IGNORECASE),
    "kimi": re.compile("◁/think▷", re.IGNORECASE),
    "begin": re.compile(r"<\|end_of_thought\|>", re.IGNORECASE),
    "channel": re.compile(_FINAL, re.IGNORECASE),
}
"""Families of reasoning marks that are no tags: Mistral, Kimi, Open Thoughts, gpt-oss. Each ends by its own mark."""

_LIST = re.compile(r'\[\s*[\[{"\]]')
_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]]', re.DOTALL)
_QUOTES = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»", "‘": "’", "「": "」", "『": "』"}


@dataclass(frozen=True)
class Unreadable:
    """No value: ``reason`` is a sentence for people."""

    reason: str


class Unfitting(ValueError):
    """A JSON value that is not what was asked for."""


def without_reasoning(text: str) -> str:
    """A plain-text answer without the reasoning before it; reasoning that never ends leaves nothing.

    A closing mark that was never opened ends reasoning as well: chat templates open it in the prompt. Marks further on
    belong to the answer.

    >>> without_reasoning("<think>hm</think>\\nYes"), without_reasoning("<think>hm"), without_reasoning("hm</think>Yes")
    ('Yes', '', 'Yes')
    >>> without_reasoning("[THINK]{}[/THINK] Good."), without_reasoning("Write <think> first.")
    ('Good.', 'Write <think> first.')
    """
    while opening := _LEADING.match(text):
        text = text[_end_of_reasoning(text, opening) :].lstrip()
    closing = _CLOSES.search(text)
    if closing and not _OPENS.search(text, 0, closing.start()):
        text = text[closing.end() :].lstrip()
    return text


def json_values(text: str) -> tuple[Any, ...] | Unreadable:
    """The complete JSON objects and lists that stand by themselves in ``text``, in their order.

    By themselves: not inside reasoning, another value, a broken or unfinished value, or quotation marks. Line breaks
    in strings are taken; NaN and Infinity are not JSON. An object with the same key twice, or more than the limits of
    this module, makes the whole reply unreadable.

    >>> json_values('draft {"a": 1} then ```json\\n{"a": {"b": 2}}\\n```')
    ({'a': 1}, {'a': {'b': 2}})
    >>> json_values('{"a": 1, "b": [1, 2')
    ()
    >>> json_values('{"a": 1, "a": 2}')
    Unreadable(reason="the key 'a' stands twice in one object")
    """
    if len(text) > LONGEST_REPLY:
        return Unreadable(f"the reply has {len(text)} characters; at most {LONGEST_REPLY} are read")
    try:
        return _values(text)
    except _Hopeless as error:
        return Unreadable(str(error))


def one_reading(text: str, read: Callable[[Any], T]) -> T | Unreadable:
    """What ``read`` makes of the one JSON value in ``text`` that fits; equal readings count as one.

    ``read`` raises `Unfitting` for a value that is not what was asked for. `Unreadable` when no value fits (with the
    reason of the last one), or when two fit and differ: which of them the model means cannot be known.

    >>> one_reading('I say {"a": 1}.', lambda value: value["a"])
    1
    >>> one_reading('{"a": 1} or {"a": 2}', lambda value: value["a"])
    Unreadable(reason='the reply holds 2 answers that differ')
    """
    values = json_values(text)
    if isinstance(values, Unreadable):
        return values
    readings: list[T] = []
    reason = "the reply holds no complete JSON object"
    for value in values:
        try:
            reading = read(value)
        except Unfitting as error:
            reason = str(error)
        else:
            if reading not in readings:
                readings.append(reading)
    if len(readings) > 1:
        return Unreadable(f"the reply holds {len(readings)} answers that differ")
    return readings[0] if readings else Unreadable(reason)


class _Hopeless(Exception):
    """What makes a whole reply unreadable."""


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Hopeless(f"the key {twice[:40]!r} stands twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant, strict=False)


def _values(text: str) -> tuple[Any, ...]:
    found: list[Any] = []
    at = brackets = 0
    while stop := _STOP.search(text, at):
        start = stop.start()
        if stop["closing"]:  # all up to here was reasoning
            found.clear()
            at = stop.end()
        elif stop["opening"]:
            at = _end_of_reasoning(text, stop)
        elif text[start] == "[" and not _LIST.match(text, start):  # prose: "see [1]", "[0, 1)"
            at = start + 1
        else:
            brackets += 1
            if brackets > MOST_VALUES:
                raise _Hopeless(f"the reply holds more than {MOST_VALUES} bracketed stretches")
            end = _end_of_value(text, start)
            value = _decoded(text, start, end)
            if value is None:  # no answer, nor what it encloses, unless reasoning ends in it
                closing = _CLOSES.search(text, start, end)
                at = closing.start() if closing else end
                continue
            if value is not _QUOTED:
                found.append(value)
            at = end
    return tuple(found)


_QUOTED = object()


def _decoded(text: str, start: int, end: int) -> Any:
    """The JSON value from ``start`` to ``end``; ``None`` when it is none, `_QUOTED` when it is somebody else's."""
    if _quoted(text, start, end):
        return _QUOTED
    try:
        return _DECODER.decode(text[start:end])
    except ValueError:
        return None


def _end_of_reasoning(text: str, opening: re.Match[str]) -> int:
    """Where a stretch of reasoning ends; the end of the text when nothing closes it."""
    tag = opening["tag"]
    if tag:
        pattern = re.compile(rf"</{re.escape(tag)}\s*>", re.IGNORECASE)
    else:
        pattern = _ENDS[next(name for name in _ENDS if opening[name])]
    closing = pattern.search(text, opening.end())
    return closing.end() if closing else len(text)


def _end_of_value(text: str, start: int) -> int:
    """Where the bracket at ``start`` is closed again (strings respected); the end of the text when it never is."""
    depth = 0
    for lexeme in _LEXEME.finditer(text, start):
        mark = lexeme[0]
        if mark in "{[":
            depth += 1
            if depth > DEEPEST_VALUE:
                raise _Hopeless(f"a value of the reply is nested deeper than {DEEPEST_VALUE} levels")
        elif mark in "}]":
            depth -= 1
            if depth == 0:
                return lexeme.end()
    return len(text)


def _quoted(text: str, start: int, end: int) -> bool:
    """Whether a value stands between quotation marks, or in a line that quotes ("> …")."""
    before, after = text[start - 1 : start], text[end : end + 1]
    line = text[text.rfind("\n", 0, start) + 1 : start]
    return (before in _QUOTES and after == _QUOTES[before]) or line.lstrip().startswith(">")
