"""Reading texts as the world does: which requirements a question calls for, a skill names, an answer fulfils.

Everything here is a pure function of text, memoised because runs repeat the same lines thousands of times.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from decoevo_dspy.simulation.catalogue import (
    KINDS,
    LAX_PHRASES,
    LIGHT_PHRASES,
    REQUIREMENTS,
    STYLE_OUT_PHRASES,
    SURFACES,
    Requirement,
    Surface,
)

BY_KEY: dict[str, Requirement] = {r.key: r for r in REQUIREMENTS}
SURFACE_BY_KEY: dict[str, Surface] = {s.key: s for s in SURFACES}
FALLBACK_ACTIVE = 5
"""How many requirements a question calls for at least; beyond its cues they follow from a hash of its text."""

_PHRASES = tuple(
    (phrase.lower(), r.key)
    for r in REQUIREMENTS
    for phrase in (*r.phrases, *r.phrases_zh, r.gold, r.gold_zh)
)  # fmt: skip
_SURFACE_PHRASES = tuple((p.lower(), s.key) for s in SURFACES for p in (*s.phrases, *s.phrases_zh))
_MARKERS = tuple((m.lower(), s.key) for s in SURFACES for m in (s.marker, s.marker_zh))
_KIND_PHRASES = tuple((p.lower(), kind) for kind, phrases in KINDS.items() for p in phrases)
_CUES = tuple(
    (r.key, re.compile("|".join([rf"\b(?:{'|'.join(map(re.escape, r.cues))})\b", *map(re.escape, r.cues_zh)])))
    for r in REQUIREMENTS
)  # fmt: skip
_NEGATION = re.compile(r"\b(?:never|not|don't|avoid|avoids|without|rather than)\b|不要|避免|切勿|不能|不会|没有")
_NARROW = re.compile(r'only when the message mentions "([^"]+)"|只在提到“([^”]+)”时')
_CJK = re.compile(r"[\u4e00-\u9fff]")
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+\S", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Line:
    """What one line of text names: requirements, surface qualities (named or shown), softened or negated.

    ``light``: it lowers a weight. ``style_out``: it says that style is not graded. ``only_with``: the word without
    which it does not count, or "".
    """

    keys: tuple[str, ...]
    surfaces: tuple[str, ...]
    shown: tuple[str, ...]
    lax: bool
    negated: bool
    light: bool
    style_out: bool
    only_with: str


@lru_cache(maxsize=65536)
def read_line(line: str) -> Line:
    """One line, lower-cased and with white space collapsed, against every phrase of the catalogue."""
    text = " ".join(line.lower().replace("’", "'").split())
    narrow = _NARROW.search(text)
    return Line(
        keys=tuple(dict.fromkeys(key for phrase, key in _PHRASES if phrase in text)),
        surfaces=tuple(dict.fromkeys(key for phrase, key in _SURFACE_PHRASES if phrase in text)),
        shown=tuple(key for marker, key in _MARKERS if marker in text),
        lax=any(phrase in text for phrase in LAX_PHRASES),
        negated=_NEGATION.search(text) is not None,
        light=any(phrase in text for phrase in LIGHT_PHRASES),
        style_out=any(phrase in text for phrase in STYLE_OUT_PHRASES),
        only_with=(narrow.group(1) or narrow.group(2)) if narrow else "",
    )


@dataclass(frozen=True, kw_only=True)
class SkillReading:
    """What a skill or instruction text asks for. ``rules``: how many rules a reader has to keep in mind.

    ``narrow``: requirements that are named only for questions with a certain word, as (key, word). ``light``:
    requirements that are to have few points. ``style_out``: style is not graded.
    """

    named: frozenset[str]
    lax: frozenset[str]
    surfaces: frozenset[str]
    kinds: frozenset[str]
    rules: int
    narrow: frozenset[tuple[str, str]] = frozenset()
    light: frozenset[str] = frozenset()
    style_out: bool = False

    def adherence(self, capacity: int) -> float:
        """The share of rules that are kept: 1 up to ``capacity``, then capacity ÷ rules."""
        return min(1.0, capacity / self.rules) if self.rules else 1.0

    def on(self, question: str) -> "SkillReading":
        """What the text asks for in the face of this question: rules for other questions fall away."""
        text = question.lower().replace("’", "'")
        here = {key for key, word in self.narrow if re.search(rf"(?<![a-z]){re.escape(word)}(?![a-z])", text)}
        return replace(self, named=self.named | here, lax=self.lax - here) if here else self


@lru_cache(maxsize=4096)
def read_skill(text: str) -> SkillReading:
    """A skill text: a requirement is named iff one of its phrases occurs; a softened rule names it only laxly."""
    named, lax, light, surfaces, narrow = set[str](), set[str](), set[str](), set[str](), set[tuple[str, str]]()
    style_out = False
    for line in text.split("\n"):
        found = read_line(line)
        if found.only_with:
            narrow.update((key, found.only_with) for key in found.keys)
        else:
            (light if found.light else lax if found.lax else named).update(found.keys)
        surfaces.update(found.surfaces)
        style_out = style_out or found.style_out
    lowered = text.lower()
    kinds = frozenset(kind for phrase, kind in _KIND_PHRASES if phrase in lowered)
    rules = max(len(_BULLET.findall(text)), len(named | lax) + len(surfaces))
    return SkillReading(
        named=frozenset(named),
        lax=frozenset(lax - named),
        surfaces=frozenset(surfaces),
        kinds=kinds,
        rules=rules,
        narrow=frozenset(narrow),
        light=frozenset(light),
        style_out=style_out,
    )


@lru_cache(maxsize=8192)
def cued(question: str) -> tuple[str, ...]:
    """The requirements that the question's own words call for, in catalogue order: its gold rubric."""
    text = question.lower().replace("’", "'")
    return tuple(key for key, pattern in _CUES if pattern.search(text))


@lru_cache(maxsize=8192)
def relevant(question: str) -> tuple[str, ...]:
    """What the model takes to matter for a question: its cues, and for a text with few cues some more by its hash."""
    found = cued(question)
    if len(found) >= FALLBACK_ACTIVE:
        return found
    rest = [r.key for r in REQUIREMENTS if r.key not in found and not r.harmful]
    rest.sort(key=lambda key: hashlib.blake2b(f"{key}\n{question}".encode("utf-8", "replace"), digest_size=8).digest())
    chosen = {*found, *rest[: FALLBACK_ACTIVE - len(found)]}
    return tuple(r.key for r in REQUIREMENTS if r.key in chosen)


@dataclass(frozen=True, kw_only=True)
class ResponseReading:
    """What an answer says: ``said`` requirements (for a harmful one: commits it) and surface qualities ``shown``."""

    said: frozenset[str]
    shown: frozenset[str]

    def meets(self, key: str) -> bool:
        """Whether the answer fulfils a requirement: says it, or leaves out the harmful thing."""
        return (key in self.said) != BY_KEY[key].harmful


@lru_cache(maxsize=16384)
def read_response(text: str) -> ResponseReading:
    """An answer, line by line; a warning against a harmful thing does not commit it."""
    said, shown = set[str](), set[str]()
    for line in text.split("\n"):
        found = read_line(line)
        said.update(key for key in found.keys if not (found.negated and BY_KEY[key].harmful))
        shown.update(found.shown)
    return ResponseReading(said=frozenset(said), shown=frozenset(shown))


def utility(keys: Iterable[str], reading: ResponseReading) -> float:
    """Points of the met gold items, harmful ones included, over the positive points: at most 1, maybe below 0."""
    chosen = [BY_KEY[key] for key in keys]
    positive = sum(r.points for r in chosen if not r.harmful)
    return sum(r.points for r in chosen if r.key in reading.said) / positive if positive else 0.0


def is_chinese(text: str) -> bool:
    """Whether a text is to be answered in Chinese: CJK characters make up a fifth of it or more."""
    return 5 * len(_CJK.findall(text)) >= max(1, len(text))
