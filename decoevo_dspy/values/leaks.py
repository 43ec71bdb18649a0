"""Copied passages: what a skill shares with protected text, recognised by hashes only. Pure."""

import hashlib
from collections.abc import Iterable

from decoevo_dspy.values.skill import Candidate, Discarded
from decoevo_dspy.values.task import normalise


def shingles(text: str, size: int = 8) -> set[str]:
    """Runs of ``size`` normalised words of ``text``; a word of a script without spaces counts by its characters.

    A CJK character counts as half a word, so that ``size`` 8 means 8 words or 16 characters.
    """
    tokens: list[str] = []
    for word in normalise(text).split():
        tokens.extend(word if any("\u2e80" <= ch <= "\u9fff" or "\uac00" <= ch <= "\ud7af" for ch in word) else [word])
    found: set[str] = set()
    wide = [len(t) == 1 and t >= "\u2e80" for t in tokens]
    for start in range(len(tokens)):
        weight, end = 0.0, start
        while end < len(tokens) and weight < size:
            weight += 0.5 if wide[end] else 1.0
            end += 1
        if weight >= size:
            found.add(" ".join(tokens[start:end]))
    return found


def shingle_hashes(text: str, size: int = 8) -> set[bytes]:
    """`shingles` as 8-byte digests, so that they can be compared but not read."""
    return {hashlib.blake2b(s.encode("utf-8", "replace"), digest_size=8).digest() for s in shingles(text, size)}


class LeakGuard:
    """Recognises skills that copy protected text: questions of any partition, or gold (by hash only).

    What the public task description or the initial skills say is no leak.
    """

    def __init__(self, protected: Iterable[bytes], public: Iterable[str]) -> None:
        allowed = {digest for text in public for digest in shingle_hashes(text)}
        self._protected = frozenset(protected) - allowed

    def check(self, candidate: Candidate) -> Candidate | Discarded:
        """Discard a candidate that brings a run of 8 words (16 CJK characters) of protected text into the skill."""
        new = shingle_hashes(candidate.skill.text) - shingle_hashes(candidate.parent.text)
        if new & self._protected:
            reason = "leaking: it copies a passage of a question or of gold text"
            return Discarded(reason=reason, text=candidate.skill.text, reports=candidate.reports)
        return candidate
