"""The program under optimisation: a copy of the user's module that carries the skill in its instructions.

The student passed in is never mutated. Demos, tools and other predictors stay as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy
from dspy import AdapterParseError

from decoevo_dspy.calls.digests import digest, identity
from decoevo_dspy.calls.failing import CallFailed
from decoevo_dspy.calls.recording import RecordedLM, Scope, call_scope
from decoevo_dspy.calls.secrets import mask
from decoevo_dspy.calls.store import Call
from decoevo_dspy.errors import ConfigurationError, DecoEvoError
from decoevo_dspy.roles.base import NoReply, ReplyCounts, fit, no_reply, signature_of, unread
from decoevo_dspy.roles.text import SOLVER_HEADING, with_skill
from decoevo_dspy.run.workbench import Item
from decoevo_dspy.values.skill import Skill
from decoevo_dspy.values.task import Question, Turn

SOLVER_RETRIES = 1
"""How often an unreadable response is asked for again, with a fresh sample."""


def targets_of(student: dspy.Module, skill_target: str | None) -> list[str]:
    """Names of the predictors that carry the skill: the named one, or all.

    Raises:
        ConfigurationError: when the student has no predictor, or none of that name.
    """
    names = [name for name, _ in student.named_predictors()]
    if not names:
        raise ConfigurationError(
            "the student has no predictor to carry a skill; give a dspy.Module with a dspy.Predict"
        )
    if skill_target is None:
        return names
    if skill_target not in names:
        raise ConfigurationError(f"skill_target = {skill_target!r}: the student's predictors are {', '.join(names)}")
    return [skill_target]


def carried_skill(student: dspy.Module, targets: Sequence[str]) -> Skill | None:
    """The skill that an earlier optimisation left in the student's instructions, if any."""
    for name, predictor in student.named_predictors():
        if name in targets and SOLVER_HEADING in signature_of(predictor).instructions:
            return Skill(signature_of(predictor).instructions.partition(SOLVER_HEADING)[2])
    return None


def with_solver_skill(student: dspy.Module, targets: Sequence[str], skill: Skill) -> dspy.Module:
    """A copy of the student whose target predictors carry the skill after their base instructions; LMs are shared."""
    program = student.deepcopy()
    originals = dict(student.named_predictors())
    for name, predictor in program.named_predictors():
        predictor.lm = originals[name].lm
        if name in targets:
            base = signature_of(predictor).instructions.partition(SOLVER_HEADING)[0].rstrip()
            predictor.signature = signature_of(predictor).with_instructions(
                with_skill(base, SOLVER_HEADING, skill.text)
            )
    return program


class SkilledStudent:
    """Answers items with a given skill, through recorded LMs, and turns every failure into a typed one.

    ``record`` wraps an LM of the student into a recorded one. ``context_tokens`` is the solver endpoint's window
    (``None`` = unlimited); longer questions are cut in the middle, counted as ``inputs_cut``.
    """

    def __init__(
        self,
        student: dspy.Module,
        *,
        skill_target: str | None,
        response_field: str | None,
        record: Callable[[dspy.BaseLM | None], RecordedLM],
        adapter: dspy.Adapter,
        counts: ReplyCounts,
        context_tokens: int | None = None,
    ) -> None:
        self.targets = targets_of(student, skill_target)
        self.response_field, self.adapter, self.counts = response_field, adapter, counts
        self.context_tokens = context_tokens
        self._base = student.deepcopy()
        wrapped: dict[int, RecordedLM] = {}
        for (_, predictor), (_, original) in zip(
            self._base.named_predictors(), student.named_predictors(), strict=True
        ):
            lm = wrapped.setdefault(id(original.lm), record(original.lm))
            predictor.lm = lm
        self.lm = (
            record(None) if None in [p.lm for _, p in student.named_predictors()] else next(iter(wrapped.values()))
        )
        self._fingerprint = digest([_state(self._base), identity(self.lm.inner, self.lm.recorder.store.option_key)])
        self._programs: dict[str, dspy.Module] = {}
        self._reached: set[str] = set()

    def respond(self, item: Item, skill: Skill, sample: str) -> str | NoReply:
        """One response r_q(s); an unreadable reply is asked for once more.

        A completed rollout is the unit of replay: it is stored with its response, and neither its calls nor the
        student's tools run again for it. An incomplete one runs again from its start.
        """
        recorder = self.lm.recorder
        key = digest([recorder.seed, self._fingerprint, skill.key, item.partition, item.id, sample])
        known = recorder.store.get_rollout(key)
        if known is not None:
            response, detail = known
            recorder.replay(detail["calls"], "solver")
            self.counts.add("solver", *detail["counts"])
            return response
        made, counted = list[Call](), list[str]()
        outcome = self._answer(item, skill, sample, made, counted)
        if counted:
            self.counts.add("solver", *counted)
        if not isinstance(outcome, NoReply):
            recorder.store.put_rollout(key, outcome, {"calls": [call.key for call in made], "counts": counted})
        return outcome

    def _answer(self, item: Item, skill: Skill, sample: str, made: list[Call], counted: list[str]) -> str | NoReply:
        program = self._programs.get(skill.key)
        if program is None:
            program = self._programs.setdefault(skill.key, with_solver_skill(self._base, self.targets, skill))
        inputs, cuts = self._fit(item.inputs)
        counted.extend(["inputs_cut"] * cuts)
        failure = NoReply(kind="empty", reason="not asked")
        for attempt in range(1 + SOLVER_RETRIES):
            label = f"{sample}~{attempt}" if attempt else sample
            with call_scope(partition=item.partition, sample=label) as scope:
                outcome = self._once(program, skill, inputs, scope)
            made.extend(scope.calls)
            if not isinstance(outcome, NoReply):
                counted.extend(["replies", "parsed"])
                if any(call.finish_reason == "length" for call in scope.calls):
                    counted.append("responses_truncated")
                return outcome
            failure = outcome
            if failure.kind not in ("unparsable", "empty", "truncated"):
                break
            counted.extend(["replies", f"reply_{failure.kind}"])
        counted.append(f"failed_{failure.kind}")
        return failure

    def _once(self, program: dspy.Module, skill: Skill, inputs: Mapping[str, Any], scope: Scope) -> str | NoReply:
        with dspy.context(adapter=self.adapter, lm=self.lm, trace=[]):
            try:
                prediction = program(**inputs)
            except CallFailed as error:
                return no_reply(error)
            except AdapterParseError as error:
                return unread(error, scope.calls)
            except DecoEvoError:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary to the user's program: recorded, never a bad answer
                return NoReply(kind="program", reason=mask(f"{type(error).__name__}: {error}")[:300])
        self._check_reached(skill, [text for call in scope.calls for _, text in call.messages])
        text = self._response(prediction).strip()
        return text or NoReply(kind="empty", reason="the response is empty")

    def _check_reached(self, skill: Skill, texts: Sequence[str]) -> None:
        """Raise at the first response if the skill never reached a prompt: nothing could be optimised then."""
        if skill.key in self._reached:
            return
        lines = [line.strip() for line in skill.text.split("\n") if line.strip()]
        if lines and not all(any(line in text for text in texts) for line in lines):
            raise ConfigurationError(
                "the skill does not reach the student's prompt: its target predictor was not called, or its adapter "
                "drops the instructions; choose skill_target"
            )
        self._reached.add(skill.key)

    def _response(self, prediction: Any) -> str:
        fields = list(prediction.keys()) if hasattr(prediction, "keys") else []
        name = self.response_field or ("response" if "response" in fields else fields[-1] if fields else None)
        if name is None or name not in fields:
            raise ConfigurationError(
                f"the student's prediction has no field {name or 'to judge'!r} (it has {', '.join(fields) or 'none'}); "
                "give response_field"
            )
        return mask(str(prediction[name] if prediction[name] is not None else ""))

    def _fit(self, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """The inputs, cut to the solver's window, and how many were cut."""
        if self.context_tokens is None:
            return dict(inputs), 0
        return fit(inputs, self.context_tokens - self.context_tokens // 3 - 600)


def _state(program: dspy.Module) -> Any:
    """What a program says, without its LMs: instructions, fields and demonstrations of every predictor."""
    return {
        name: [signature_of(predictor).dump_state(), [str(demo) for demo in predictor.demos]]
        for name, predictor in program.named_predictors()
    }


def inputs_for(question: Question, student: dspy.Module) -> dict[str, Any]:
    """The student's inputs for a question: history plus last user turn where it has a `dspy.History`, else the text.

    Raises:
        ConfigurationError: when the student has no text input.
    """
    signature = signature_of(student.named_predictors()[0][1])
    history = [name for name, field in signature.input_fields.items() if field.annotation is dspy.History]
    plain = [name for name in signature.input_fields if name not in history]
    if not plain:
        raise ConfigurationError("the student has no input field for the question")
    if not history:
        return {plain[0]: question.text}
    output = list(signature.output_fields)[-1]
    return {
        plain[0]: question.turns[-1].content,
        history[0]: dspy.History(messages=_pairs(question.turns[:-1], plain[0], output)),
    }


def _pairs(turns: Sequence[Turn], user: str, assistant: str) -> list[dict[str, str]]:
    """Earlier turns as the messages of a `dspy.History`; consecutive turns of one side are joined."""
    messages: list[dict[str, str]] = []
    for turn in turns:
        field = assistant if turn.role == "assistant" else user
        if field == user and (not messages or assistant in messages[-1]):
            messages.append({user: turn.content})
        elif not messages:
            messages.append({user: "", assistant: turn.content})
        else:
            messages[-1][field] = f"{messages[-1][field]}\n\n{turn.content}" if field in messages[-1] else turn.content
    return [{user: m.get(user, ""), assistant: m.get(assistant, "")} for m in messages]


def inputs_of(example: dspy.Example) -> dict[str, Any]:
    """The marked inputs as they are (``toDict`` would turn a `dspy.History` into a plain dict)."""
    return dict(example.inputs().items())


def question_of(example: dspy.Example, index: int) -> Question:
    """The question of an example: its ``id`` when it has one, and its input fields as text.

    Raises:
        ConfigurationError: naming the example, when it has no inputs or no text.
    """
    try:
        inputs = inputs_of(example)
    except ValueError as error:
        raise ConfigurationError(
            f"example {index}: no inputs are marked; use dspy.Example(...).with_inputs(...)"
        ) from error
    given, stratum = example.get("id"), str(example.get("stratum", "") or "")
    id = "" if given is None else str(given)
    turns: list[Turn] = []
    for value in inputs.values():
        if isinstance(value, dspy.History):
            for message in value.messages:
                for position, text in enumerate(message.values()):
                    turns.append(Turn(role="assistant" if position else "user", content=str(text)))
    texts = {key: value for key, value in inputs.items() if isinstance(value, str | int | float)}
    if not texts:
        raise ConfigurationError(f"example {index}: its inputs hold no text")
    body = str(next(iter(texts.values()))) if len(texts) == 1 else "\n\n".join(f"{k}: {v}" for k, v in texts.items())
    question = Question.of(body, id=id, stratum=stratum)
    if not turns:
        return question
    return Question(id=question.id, stratum=stratum, turns=(*turns, Turn(role="user", content=body)))
