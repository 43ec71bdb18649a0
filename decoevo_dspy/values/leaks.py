"""Copied passages: what a skill shares with protected text, recognised by hashes only. Pure.

A passage is compared as a reader sees it (`decoevo_dspy.values.folding`), word by word. What is recognised:

- six words in a row (twelve characters of a script without spaces), whatever their case, accents, width, punctuation,
  line breaks, invisible, combining or look-alike characters;
- eight words of which any one was exchanged (the same in sixteen characters);
- a protected text of three to five words as a whole, one of one or two words where it is a whole line.

What is not claimed: a paraphrase, a translation, another order, words put in or left out, two of eight words
exchanged, or a passage that is spelt out letter by letter. Such copies pass.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from decoevo_dspy.values.folding import skeletons
from decoevo_dspy.values.skill import Candidate, Discarded

WINDOW, SPAN, SHORT = 6, 8, 3
"""Words of a passage; words of one with a word exchanged; words from which a short text is looked for anywhere."""

Codes = np.ndarray[Any, np.dtype[np.uint64]]

_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_LINE = 0xD1B54A32D192ED03
"""Added to the code of a one- or two-word text, which counts as a whole line only."""


def _wide(ch: str) -> bool:
    return "\u2e80" <= ch <= "\u9fff" or "\uac00" <= ch <= "\ud7af" or "\U00020000" <= ch <= "\U0003ffff"


def _tokens(skeleton: str) -> list[str]:
    """Words; a word of a script without spaces counts by its characters."""
    tokens: list[str] = []
    for word in skeleton.split():
        tokens.extend(word if any(map(_wide, word)) else [word])
    return tokens


@lru_cache(maxsize=1 << 16)
def _code(token: str) -> int:
    return int.from_bytes(hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=8).digest(), "big") | 1


class _Words:
    """The tokens of a text as numbers, and codes of any run of them; a CJK character weighs half a word."""

    def __init__(self, tokens: list[str]) -> None:
        self.size = len(tokens)
        weights = np.fromiter((1 if len(t) == 1 and _wide(t) else 2 for t in tokens), np.int64, self.size)
        codes = np.fromiter(map(_code, tokens), np.uint64, self.size)
        self.weight = np.concatenate([[0], np.cumsum(weights)])
        self.halves = bool((weights == 1).any())
        self._inverse = _powers(_INVERSE, self.size + 1)
        self._sums = np.concatenate(
            [np.zeros(1, np.uint64), np.cumsum(codes * _powers(_BASE, self.size), dtype=np.uint64)]
        )

    @property
    def words(self) -> float:
        """The text's length in words."""
        return float(self.weight[-1]) / 2

    def runs(self, words: float) -> Codes:
        """Codes of every run that is just as long."""
        starts, ends = self._runs(words)
        return (self._sums[ends] - self._sums[starts]) * self._inverse[starts]

    def runs_with_a_gap(self, words: int) -> Codes:
        """Codes of every such run with any one word of it left open, where not six in a row stay together."""
        starts, ends = self._runs(words)
        whole = self._sums[ends] - self._sums[starts]
        found: list[Codes] = []
        least, most = (2 * (SPAN - WINDOW) - 1, 2 * WINDOW) if self.halves else (2 * (SPAN - WINDOW), 2 * WINDOW - 1)
        for offset in range(least, most, 1 if self.halves else 2):  # halves of a word that stay before the gap
            first, last = self._at(starts, offset), self._at(starts, offset + 2)
            found.append((whole - (self._sums[last] - self._sums[first])) * self._inverse[starts])
        return np.concatenate(found) if found else np.zeros(0, np.uint64)

    def _runs(self, words: float) -> tuple[Any, Any]:
        starts = np.flatnonzero(self.weight[:-1] + round(2 * words) <= self.weight[-1])
        return starts, self._at(starts, round(2 * words))

    def _at(self, starts: Any, halves: int) -> Any:
        return np.searchsorted(self.weight, self.weight[starts] + halves)


@lru_cache(maxsize=64)
def _power_table(base: int, size: int) -> Codes:
    factors = np.full(size, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def _powers(base: int, size: int) -> Codes:
    return _power_table(base, 1 << max(size - 1, 1).bit_length())[:size]


class Passages:
    """A set of passages that can be compared but not read: sorted 64-bit codes."""

    __slots__ = ("codes",)

    def __init__(self, parts: Iterable[Codes] = ()) -> None:
        found = list(parts)
        self.codes = np.unique(np.concatenate(found)) if found else np.zeros(0, np.uint64)

    def __repr__(self) -> str:
        return f"<{len(self)} passages>"

    def __len__(self) -> int:
        return len(self.codes)

    def __or__(self, other: "Passages") -> "Passages":
        return Passages([self.codes, other.codes])

    def __sub__(self, other: "Passages") -> "Passages":
        return Passages([np.setdiff1d(self.codes, other.codes, assume_unique=True)])

    def __le__(self, other: "Passages") -> bool:
        return not len(self - other)

    def __and__(self, other: "Passages") -> "Passages":
        return Passages([np.intersect1d(self.codes, other.codes, assume_unique=True)])


def protected_passages(texts: Iterable[str]) -> Passages:
    """The passages of texts that nobody may copy; a text that is shorter than a passage is one as a whole."""
    return Passages(codes for text in texts for words in _readings(text) for codes in _protected(words))


def passages(text: str) -> Passages:
    """Every passage of a text that might be a copied one."""
    found: list[Codes] = []
    for words in _readings(text):
        found += [words.runs(WINDOW), words.runs_with_a_gap(SPAN)]
        found += [words.runs(halves / 2) for halves in range(2 * SHORT, 2 * WINDOW)]
    for line in text.split("\n"):
        for words in _readings(line):
            if words.words < SHORT:
                found.append(words.runs(words.words) + np.uint64(_LINE))
    return Passages(found)


def _readings(text: str) -> Iterator[_Words]:
    for skeleton in skeletons(text):
        tokens = _tokens(skeleton)
        if tokens:
            yield _Words(tokens)


def _protected(words: _Words) -> Iterator[Codes]:
    if words.words < SHORT:
        yield words.runs(words.words) + np.uint64(_LINE)
    elif words.words < WINDOW:
        yield words.runs(words.words)
    else:
        yield words.runs(WINDOW)
        yield words.runs_with_a_gap(SPAN)


class LeakGuard:
    """Recognises skills that copy protected text: questions of any partition, or gold (by hash only).

    What the public task description or the initial skills say is no leak. The module's docstring says what is
    recognised and what is not claimed.
    """

    def __init__(self, protected: Passages, public: Iterable[str] = ()) -> None:
        self._protected = protected
        for text in public:
            self._protected = self._protected - passages(text)

    def check(self, candidate: Candidate) -> Candidate | Discarded:
        """Discard a candidate that brings a passage of protected text into the skill."""
        new = passages(candidate.skill.text) - passages(candidate.parent.text)
        if len(new & self._protected):
            reason = "leaking: it copies a passage of a question or of gold text"
            return Discarded(reason=reason, text=candidate.skill.text, reports=candidate.reports)
        return candidate
