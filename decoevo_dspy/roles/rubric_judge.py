"""The judge in its three modes: a call per criterion, a call per rubric, or token probabilities of a yes/no answer."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import dspy

from decoevo_dspy.errors import ConfigurationError
from decoevo_dspy.roles.base import InvalidReply, NoReply, Role
from decoevo_dspy.signatures import JudgeCriterion, JudgeRubric, JudgeYesNo
from decoevo_dspy.values.rubric import Criterion, Outcome, Rubric, Ungraded, Verdict

JudgeMode = Literal["criterion", "rubric", "logprob"]
ROUNDING = 1e-3
"""Largest log probability that still counts as rounding of 0; a larger one is none."""

MODES: tuple[JudgeMode, ...] = ("criterion", "rubric", "logprob")
Mapper = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


def _in_line(fn: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    return [fn(item) for item in items]


class RubricJudge(Role):
    """The criterion-level judge e(q, r, c) ∈ [0, 1] over all criteria of a rubric.

    ``mode``: ``"criterion"`` asks once per criterion, ``"rubric"`` once per rubric (cheaper), ``"logprob"`` reads the
    probability of "yes" from ``top_logprobs`` (graded also on small models; `Ungraded` where the endpoint gives none).

    Raises:
        ConfigurationError: for an unknown mode.
    """

    name = "judge"
    signature = JudgeCriterion

    def __init__(self, mode: JudgeMode = "criterion", **options: Any) -> None:
        if mode not in MODES:
            raise ConfigurationError(f"judge_mode = {mode!r}: give one of {', '.join(MODES)}")
        super().__init__(**options)
        self.mode: JudgeMode = mode
        self.predict = dspy.Predict({"criterion": JudgeCriterion, "rubric": JudgeRubric, "logprob": JudgeYesNo}[mode])

    def judge(
        self,
        question: str,
        response: str,
        rubric: Rubric,
        *,
        partition: str = "",
        sample: str = "judge",
        map: Mapper = _in_line,
    ) -> tuple[Outcome, ...]:
        """One outcome per criterion, in the rubric's order; ``map`` may run the calls of a rubric in parallel."""
        texts = {"question": self.fence("question", question), "response": self.fence("response", response)}
        if self.mode == "rubric":
            return self._whole(texts, rubric, partition, sample)
        one = self._criterion if self.mode == "criterion" else self._probability
        return tuple(map(lambda criterion: one(texts, criterion, partition, sample), rubric.criteria))

    def forward(self, question: str, response: str, rubric: Rubric) -> dspy.Prediction:
        verdicts = self.judge(question, response, rubric)
        score = rubric.score(verdicts)
        return dspy.Prediction(verdicts=verdicts, score=None if isinstance(score, Ungraded) else score)

    def _criterion(self, texts: Mapping[str, str], criterion: Criterion, partition: str, sample: str) -> Outcome:
        def read(prediction: dspy.Prediction) -> Verdict:
            return Verdict(score=prediction.verdict.score / 10, rationale=prediction.verdict.rationale.strip())

        return _outcome(
            self.ask(
                read,
                {**texts, "criterion": self.fence("criterion", criterion.text)},
                partition=partition,
                sample=sample,
            )
        )

    def _whole(self, texts: Mapping[str, str], rubric: Rubric, partition: str, sample: str) -> tuple[Outcome, ...]:
        wanted = [f"c{i}" for i in range(1, len(rubric.criteria) + 1)]

        def read(prediction: dspy.Prediction) -> tuple[Outcome, ...]:
            items = prediction.judgement.verdicts
            given = [item.id for item in items]
            if sorted(given) != sorted(wanted):
                raise InvalidReply(f"verdicts for {', '.join(given)[:80]} where {', '.join(wanted)} were asked for")
            by_id = {item.id: item for item in items}
            return tuple(Verdict(score=by_id[i].score / 10, rationale=by_id[i].rationale.strip()) for i in wanted)

        inputs = {**texts, "criteria": self.fence("criteria", rubric.numbered())}
        reply = self.ask(read, inputs, partition=partition, sample=sample, items=len(wanted))
        return (reply.ungraded(),) * len(wanted) if isinstance(reply, NoReply) else reply

    def _probability(self, texts: Mapping[str, str], criterion: Criterion, partition: str, sample: str) -> Outcome:
        def read(prediction: dspy.Prediction) -> Outcome:
            weights = choice_probabilities(prediction.get("logprobs"), ("yes", "no"))
            if weights is None:
                why = 'the endpoint returned no token probabilities (judge_mode = "logprob")'
                return NoReply(kind="unparsable", reason=why).ungraded()
            return Verdict(
                score=weights["yes"], rationale="" if weights["yes"] >= 0.5 else "not met, by token probability"
            )

        options = {"logprobs": True, "top_logprobs": 10}
        reply = self.ask(
            read,
            {**texts, "criterion": self.fence("criterion", criterion.text)},
            partition=partition,
            sample=sample,
            options=options,
        )
        return _outcome(reply)


def _outcome(reply: Outcome | NoReply) -> Outcome:
    return reply.ungraded() if isinstance(reply, NoReply) else reply


def choice_probabilities(logprobs: Any, choices: Sequence[str]) -> dict[str, float] | None:
    """Probabilities of the choices where the answer's last choice word begins, normalised to sum 1; ``None`` without.

    ``logprobs`` is OpenAI's shape (``content`` with ``token``, ``logprob``, ``top_logprobs``), as mapping or object. A
    token counts for a choice when its letters begin that choice and no other, in either case. Another shape, or a
    probability above 1, gives ``None``.
    """
    tokens = _list(_get(logprobs, "content"))
    texts = [token if isinstance(token := _get(one, "token"), str) else "" for one in tokens]
    joined = "".join(texts).casefold()
    at = max((joined.rfind(f'"{choice.casefold()}"') for choice in choices), default=-1)
    at = at + 1 if at >= 0 else max((joined.rfind(choice.casefold()) for choice in choices), default=-1)
    if at < 0:
        return None
    position = 0
    for token, text in zip(tokens, texts, strict=True):
        position += len(text.casefold())
        if position > at:
            return _weights(token, choices)
    return None


def _weights(token: Any, choices: Sequence[str]) -> dict[str, float] | None:
    weights = dict.fromkeys(choices, 0.0)
    for item in _list(_get(token, "top_logprobs")) or [token]:
        said, logprob = _get(item, "token"), _get(item, "logprob")
        if not isinstance(said, str) or isinstance(logprob, bool) or not isinstance(logprob, int | float):
            continue
        if not logprob <= ROUNDING:  # NaN too
            return None
        letters = "".join(ch for ch in said if ch.isalnum()).casefold()
        fits = [choice for choice in choices if letters and choice.casefold().startswith(letters)]
        if len(fits) == 1:
            weights[fits[0]] += math.exp(max(min(logprob, 0), -1000))
    total = math.fsum(weights.values())
    return {choice: weight / total for choice, weight in weights.items()} if total > 0 else None


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
