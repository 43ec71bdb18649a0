"""What is to be done (`Task`) and what is asked (`Question`). Pure values."""

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task family: its public description, and the two skills that the optimisation starts from.

    ``description`` and ``evaluation`` are public texts; the structural-audit specification (π_str) is built from
    them and from nothing else. ``solver_skill`` (s_0) and ``generator_skill`` (g_0) may be empty: the defaults of
    `decoevo_dspy.values.skill` are used then.

    Raises:
        ValueError: when ``name``, ``description`` or ``evaluation`` is blank.
    """

    name: str
    description: str
    evaluation: str
    solver_skill: str = ""
    generator_skill: str = ""

    def __post_init__(self) -> None:
        for field in ("name", "description", "evaluation"):
            if not str(getattr(self, field)).strip():
                raise ValueError(f"Task.{field} is blank; give the task's public {field}")

    def specification(self) -> str:
        """The structural-audit specification π_str: what a good answer must do, from public text only.

        Built once before optimisation and fixed for the run (docs/METHOD.md §5).
        """
        return (
            f"Task family: {self.name}\n\nWhat the task is:\n{self.description.strip()}\n\n"
            f"How answers are evaluated:\n{self.evaluation.strip()}"
        )


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of a conversation; ``content`` may be in any script."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, kw_only=True)
class Question:
    """One open-ended question, as the optimiser may see it: never with any gold text.

    ``id`` is unique in its data set. ``stratum`` is the benchmark's own tag (theme, domain, category) and only
    serves to stratify partitions. ``group`` and ``round`` (from 1) join the rounds of one conversation whose later
    rounds are answered with the model's own earlier answers (LLMEval-Med).
    """

    id: str
    turns: tuple[Turn, ...]
    stratum: str = ""
    group: str | None = None
    round: int = 1

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a question needs an id")
        if not self.turns or self.turns[-1].role != "user":
            raise ValueError(f"question {self.id!r}: the last turn must be the user's")

    @property
    def text(self) -> str:
        """What text roles read: one user turn as it is, several turns as ``role: content`` parted by blank lines."""
        if len(self.turns) == 1:
            return self.turns[0].content
        return "\n\n".join(f"{turn.role}: {turn.content}" for turn in self.turns)

    @classmethod
    def of(cls, text: str, *, id: str = "", stratum: str = "") -> "Question":
        """A single-turn question; without ``id`` it gets one derived from its normalised text."""
        return cls(id=id or f"q-{text_key(text)[:12]}", turns=(Turn(role="user", content=text),), stratum=stratum)


def normalise(text: str) -> str:
    """Text for comparison: NFKC, case-folded, punctuation and white space collapsed. Lone surrogates are replaced."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    folded = unicodedata.normalize("NFKC", clean).casefold()
    return re.sub(r"[\W_]+", " ", folded).strip()


def text_key(text: str) -> str:
    """SHA-256 of the normalised text (hex): two questions that differ only in case, width or punctuation share it.

    A text without letters or digits is hashed as it stands, so that ``"?"`` and ``"!"`` stay apart.
    """
    return hashlib.sha256((normalise(text) or text.strip()).encode("utf-8", "replace")).hexdigest()
