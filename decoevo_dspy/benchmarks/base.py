"""What a benchmark is here: questions for the optimiser, gold behind a seal, and one official grader.

Everything that optimises gets `Question` values. The gold (rubrics, checklists, references, criteria) is inside
`SealedGold`, which only the final evaluator opens. Graders send the official messages verbatim through a
`GraderClient`, never through a DSPy adapter.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from decoevo_dspy.errors import ExecutionError
from decoevo_dspy.rules.replies import without_reasoning
from decoevo_dspy.values.failures import FailureKind
from decoevo_dspy.values.leaks import Passages, protected_passages
from decoevo_dspy.values.task import Question, Task

GraderMode = Literal["official", "robust"]
Mapper = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""A bounded parallel map that keeps the order of its items, such as ``executor.map``."""


class SealedGold:
    """Gold material by question id. It has no readable representation and opens only through `open_for_evaluation`.

    ``passages`` lets the leakage guard recognise copied gold text without being able to read it.
    """

    __slots__ = ("_items", "_opened", "_texts")

    def __init__(self, items: Mapping[str, Any], texts: Mapping[str, Iterable[str]]) -> None:
        """``items``: question id -> the grader's own gold value. ``texts``: question id -> the gold's plain strings."""
        self._items = dict(items)
        self._texts = {key: tuple(value) for key, value in texts.items()}
        self._opened = 0

    def __repr__(self) -> str:
        return f"<SealedGold of {len(self._items)} questions>"

    def __reduce__(self) -> Any:
        raise TypeError("sealed gold is never pickled")

    @property
    def times_opened(self) -> int:
        """How often an evaluator has opened the seal in this process."""
        return self._opened

    def open_for_evaluation(self, ids: Iterable[str]) -> dict[str, Any]:
        """The gold of the named questions, for the final evaluator only. Raises ``KeyError`` on an unknown id."""
        self._opened += 1
        return {key: self._items[key] for key in ids}

    def passages(self) -> Passages:
        """The passages of the gold that nobody may copy, as hashes."""
        return protected_passages(text for texts in self._texts.values() for text in texts)


@dataclass(frozen=True, kw_only=True)
class RawReply:
    """What a grader model answered: ``text`` as it came, and its ``finish_reason`` (``"stop"``, ``"length"``, …).

    ``reasoning_stripped`` marks a reply from whose text the model's reasoning was taken out: to make it readable, or
    before it came here (LiteLLM moves ``<think>`` out of every text).
    """

    text: str
    finish_reason: str = "stop"
    reasoning_stripped: bool = False

    @property
    def has_reasoning(self) -> bool:
        """Whether the text begins with reasoning that the model marked as such."""
        return without_reasoning(self.text) != self.text

    def without_reasoning(self) -> "RawReply":
        """The same reply with its reasoning taken out, and marked so."""
        return replace(self, text=without_reasoning(self.text), reasoning_stripped=True)


class GraderFailed(ExecutionError):
    """One grader request failed for good; ``kind`` is what failed."""

    def __init__(self, reason: str, *, kind: FailureKind) -> None:
        super().__init__(reason)
        self.kind: FailureKind = kind


class GraderClient(Protocol):
    """Sends one grader request verbatim. ``sample`` tells repeats of the same request apart (never sent).

    Raises `GraderFailed` when the endpoint failed after its bounded retries.
    """

    model: str

    def complete(
        self, messages: Sequence[Mapping[str, str]], *, params: Mapping[str, Any], sample: int = 0
    ) -> RawReply: ...


@dataclass(frozen=True, kw_only=True)
class OfficialScore:
    """A benchmark's official scalar on 0–100, with everything that must be printed beside it.

    ``score`` is ``None`` when nothing could be graded. ``per_question`` holds the benchmark's own per-question value
    (``None`` = ungraded, never 0 by failure). ``figures`` holds the grader's further figures (per theme, per domain,
    differences between the two modes, …).
    """

    score: float | None
    n_graded: int
    n_total: int
    grader: str
    mode: GraderMode
    prompt_hash: str
    official_prompt: bool
    model: str = ""
    retries: int = 0
    failures: int = 0
    answer_words: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    per_question: Mapping[str, float | None] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)


class Grader(Protocol):
    """A benchmark's official grader. ``responses`` maps question id -> answer text (missing = not answered)."""

    id: str

    def grade(
        self,
        questions: Sequence[Question],
        responses: Mapping[str, str],
        gold: SealedGold,
        client: GraderClient | None,
        map: Mapper,
    ) -> OfficialScore: ...


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A loaded benchmark: its questions in file order, the sealed gold, and its name as in ``data.benchmark``.

    ``revision`` is the hub commit it came from, empty for a local file. ``kin`` maps a question id to a family key:
    questions of one family (EQ-Bench's seeded variants of one prompt, rounds of one conversation) belong in one
    partition. Questions without an entry stand alone.
    """

    name: str
    questions: tuple[Question, ...]
    gold: SealedGold
    revision: str = ""
    kin: Mapping[str, str] = field(default_factory=dict)


GoldCriteria = Sequence[tuple[str, float]]
"""Opened gold as plain criteria: text and points, negative for what must be avoided."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Everything that tells a benchmark apart; each stands at the end of its file as ``BENCHMARK``.

    Attributes:
        name: the value of ``data.benchmark``; also the file's name, with ``_`` for ``-``.
        load: from the rows' file to questions and sealed gold.
        grader: the official grader's class; its fields are the keys of ``[grader]``.
        task: the public task (``task.preset``); ``None`` where every config brings its own.
        gold_criteria: (question, its opened gold) → criteria, for rubric alignment; ``None`` where there are none.
        official_templates: from the user's clone of the benchmark's repository to its prompts.
        official_criteria: further grader settings out of that clone.
        needs_file: whether ``data.path`` or ``data.hub`` has to be given.
        sizes: partition sizes, where the benchmark has its own.
    """

    name: str
    load: Callable[[Path], Dataset]
    grader: Callable[..., Grader]
    task: Task | None = None
    gold_criteria: Callable[[Question, Any], GoldCriteria] | None = None
    official_templates: Callable[[Path], dict[str, Any]] | None = None
    official_criteria: Callable[[Path], dict[str, Any]] | None = None
    needs_file: bool = True
    sizes: Mapping[str, int] | None = None
