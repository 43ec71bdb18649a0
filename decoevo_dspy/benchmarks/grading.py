"""What all official graders share: asking with bounded retries, cleaning answers, and putting the score together."""

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from decoevo_dspy.benchmarks.base import (
    GraderClient,
    GraderFailed,
    GraderMode,
    Mapper,
    OfficialScore,
    RawReply,
    SealedGold,
)
from decoevo_dspy.benchmarks.reading import clean_text
from decoevo_dspy.benchmarks.templates import Template, sha256
from decoevo_dspy.errors import BudgetExceeded, ConfigurationError, EndpointError, ExecutionError, ReplayDiverged
from decoevo_dspy.rules.replies import without_reasoning
from decoevo_dspy.values.task import Question

Messages = Sequence[Mapping[str, str]]
MODES: tuple[GraderMode, GraderMode] = ("official", "robust")


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One thing to ask the grader model: ``key`` says for which question and part, ``first_sample`` offsets repeats."""

    key: tuple[Any, ...]
    messages: Messages
    first_sample: int = 0
    sample_step: int = 1


@dataclass(frozen=True, kw_only=True)
class Replies:
    """The replies to one `Ask` in the order they came. ``failed``: no reply was accepted, or (``lost``) the endpoint
    gave up; ``error`` is the kind of the failure.
    """

    key: tuple[Any, ...]
    replies: tuple[RawReply, ...]
    failed: bool
    lost: bool = False
    error: str = ""

    def first(self, parse: Callable[[RawReply], Any]) -> Any:
        """The first parsed value that is not ``None``; ``None`` when no reply parses."""
        return next((value for value in map(parse, self.replies) if value is not None), None)


def ask_all(
    asks: Sequence[Ask],
    client: GraderClient | None,
    mapper: Mapper,
    *,
    params: Mapping[str, Any],
    accept: Callable[[Ask, RawReply], bool],
    attempts: int,
) -> list[Replies]:
    """Ask every item until a reply is accepted, at most ``attempts`` times each, in parallel through ``mapper``.

    A reply is read as it came. One that is accepted only without the grader model's reasoning is kept in that form and
    marked, because the official codes strip nothing; `reasoning_stripped` in the figures counts these.
    An `ExecutionError` leaves that item failed; the errors that concern the whole run (endpoint unusable, budget
    reached, replay diverged) pass through.

    Raises:
        ConfigurationError: when there is no grader model.
    """
    if client is None:
        raise ConfigurationError("this benchmark's grader needs a model; set models.grader")

    def one(ask: Ask) -> Replies:
        replies: list[RawReply] = []
        for attempt in range(attempts):
            try:
                sample = ask.first_sample + attempt * ask.sample_step
                reply = client.complete(ask.messages, params=params, sample=sample)
            except (EndpointError, BudgetExceeded, ReplayDiverged):
                raise
            except ExecutionError as error:
                kind = error.kind if isinstance(error, GraderFailed) else "infrastructure"
                return Replies(key=ask.key, replies=tuple(replies), failed=True, lost=True, error=kind)
            accepted = accept(ask, reply)
            if not accepted and reply.has_reasoning and accept(ask, reply.without_reasoning()):
                reply, accepted = reply.without_reasoning(), True
            replies.append(reply)
            if accepted:
                return Replies(key=ask.key, replies=tuple(replies), failed=False)
        return Replies(key=ask.key, replies=tuple(replies), failed=True, error="unparsable")

    return mapper(one, asks)


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """What one grading is about: the questions, the cleaned answers and the opened gold by id, and how to ask."""

    questions: Sequence[Question]
    answers: Mapping[str, str]
    gold: dict[str, Any]
    client: GraderClient | None
    mapper: Mapper

    def ask(
        self,
        asks: Sequence[Ask],
        params: Mapping[str, Any],
        accept: Callable[[Ask, RawReply], bool],
        attempts: int,
    ) -> list[Replies]:
        """`ask_all` with this grading's client."""
        return ask_all(asks, self.client, self.mapper, params=params, accept=accept, attempts=attempts)


def count_words(text: str) -> int:
    """Words of an answer; a CJK character counts as one word."""
    wide = r"\u2e80-\u9fff\uf900-\ufaff"
    return len(re.findall(rf"[{wide}]|[^\W{wide}]+(?:['’-][^\W{wide}]+)*", text))


def mean(values: Sequence[float]) -> float | None:
    """The mean, ``None`` of nothing."""
    return sum(values) / len(values) if values else None


def means_by(groups: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The mean of every non-empty group, rounded to 6 decimals."""
    return {name: round(sum(values) / len(values), 6) for name, values in groups.items() if values}


def bootstrap_means(values: Sequence[float], resamples: int, seed: int = 0) -> list[float]:
    """Sorted means of ``resamples`` resamples with replacement; seeded, where the official codes are not."""
    rng = random.Random(seed)
    size = len(values)
    return sorted(sum(rng.choices(values, k=size)) / size for _ in range(resamples)) if size else []


@dataclass(kw_only=True)
class Base(ABC):
    """Fields and helpers of every official grader; each benchmark's file adds messages, parser and aggregation.

    ``mode`` is the reading that the headline score uses. ``strip_answers`` takes the solver's reasoning out of answers
    before grading, where the benchmark has no rule of its own (WritingBench and EQ-Bench do, and keep it in official
    mode). ``max_attempts`` (from 1) caps how often one thing is asked. ``templates`` are set by
    `decoevo_dspy.benchmarks.grader`.
    """

    mode: GraderMode = "official"
    strip_answers: bool = True
    max_attempts: int = 10
    templates: Mapping[str, Template] = field(default_factory=dict)

    id = ""
    default_model = ""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigurationError(f"grader mode must be 'official' or 'robust', not {self.mode!r}")
        if isinstance(self.max_attempts, bool) or not isinstance(self.max_attempts, int) or self.max_attempts < 1:
            raise ConfigurationError(f"max_attempts must be an integer of at least 1, not {self.max_attempts!r}")

    @property
    def official_prompt(self) -> bool:
        """Whether every prompt text was read from a checkout and has the pinned hash."""
        return bool(self.templates) and all(template.official for template in self.templates.values())

    @property
    def prompt_hash(self) -> str:
        """SHA-256 of the prompt template; of the joined hashes when the benchmark has several."""
        hashes = [template.hash for template in self.templates.values()]
        return hashes[0] if len(hashes) == 1 else sha256("\n".join(hashes))

    def answers(self, questions: Sequence[Question], responses: Mapping[str, str]) -> dict[str, str]:
        """The answers to grade by question id, cleaned as the settings say; unanswered questions are left out."""
        found = {q.id: responses[q.id] for q in questions if responses.get(q.id) is not None}
        return {key: self.clean(clean_text(text)) for key, text in found.items()}

    def clean(self, text: str) -> str:
        """One answer as the grader sees it: without reasoning when ``strip_answers`` says so."""
        return without_reasoning(text) if self.strip_answers else text

    def grade(
        self,
        questions: Sequence[Question],
        responses: Mapping[str, str],
        gold: SealedGold,
        client: GraderClient | None,
        map: Mapper,
    ) -> OfficialScore:
        """Grade every answered question by the benchmark's own `judge`; see `result` for what comes back."""
        answers = self.answers(questions, responses)
        items = gold.open_for_evaluation([q.id for q in questions])
        return self.judge(Sheet(questions=questions, answers=answers, gold=items, client=client, mapper=map))

    @abstractmethod
    def judge(self, sheet: Sheet) -> OfficialScore:
        """The benchmark's messages, parser and aggregation, ending in `result`."""

    def settings(self) -> dict[str, Any]:
        """The decisions that are printed with the score."""
        sources = sorted({template.source for template in self.templates.values()})
        return {
            "official_model": self.default_model,
            "strip_answers": self.strip_answers,
            "max_attempts": self.max_attempts,
            "prompt_source": sources,
        }

    def result(
        self,
        sheet: Sheet,
        *,
        asked: Sequence[Replies],
        values: Mapping[str, Mapping[str, float | None]],
        scores: Mapping[str, float | None],
        figures: Mapping[str, Any],
    ) -> OfficialScore:
        """Put the score together.

        ``values`` (per question) and ``scores`` (0–100) hold both modes' figures, computed from the same replies; a
        score without a graded question is reported as ``None``. ``endpoint_failures`` are the ids without a value (or
        with the zero that a rule puts in its place) for which the endpoint gave up.
        """
        questions, answers, client = sheet.questions, sheet.answers, sheet.client
        own = values[self.mode]
        other_mode = MODES[1 - MODES.index(self.mode)]
        other = values[other_mode]
        graded = [v for v in own.values() if v is not None]
        differences = {
            key: {self.mode: own[key], other_mode: other[key]} for key in own if not _same(own[key], other[key])
        }
        given_up = {str(r.key[0]) for r in asked if r.lost}
        shared = {
            "other_mode": {
                "mode": other_mode,
                "score": scores[other_mode] if any(v is not None for v in other.values()) else None,
                "n_graded": sum(v is not None for v in other.values()),
            },
            "mode_differences": differences,
            "unanswered": sum(q.id not in answers for q in questions),
            "lost": sum(replies.lost for replies in asked),
            "errors": _count(replies.error for replies in asked if replies.failed),
            "endpoint_failures": [q.id for q in questions if q.id in given_up and not own[q.id]],
            "reasoning_stripped": sum(r.reasoning_stripped for a in asked for r in a.replies),
            "truncated_replies": sum(r.finish_reason == "length" for a in asked for r in a.replies),
        }
        return OfficialScore(
            score=scores[self.mode] if graded else None,
            n_graded=len(graded),
            n_total=len(questions),
            grader=self.id,
            mode=self.mode,
            prompt_hash=self.prompt_hash,
            official_prompt=self.official_prompt,
            model=client.model if client is not None else "",
            retries=sum(max(0, len(a.replies) - 1) for a in asked),
            failures=sum(a.failed for a in asked),
            answer_words=mean([count_words(text) for text in answers.values()]),
            settings=self.settings(),
            per_question=dict(own),
            figures={**figures, **shared},
        )


def _same(one: float | None, two: float | None) -> bool:
    return one is two or (one is not None and two is not None and abs(one - two) < 1e-12)


def _count(names: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts
