"""One run's surroundings: folder, store, ledger, log, recorded LMs and roles; made before a run and closed after it."""

import hashlib
import importlib.metadata
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import dspy

from decoevo_dspy import signatures
from decoevo_dspy.calls.adapter import RoleAdapter
from decoevo_dspy.calls.budget import Budget, Ledger
from decoevo_dspy.calls.digests import identity
from decoevo_dspy.calls.dspy_seam import has_endpoint
from decoevo_dspy.calls.executor import Executor
from decoevo_dspy.calls.failing import CallFailed, Unusable
from decoevo_dspy.calls.recording import RecordedLM, Recorder, call_scope
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.errors import EndpointError
from decoevo_dspy.roles import (
    ContrastiveAuditor,
    GeneratorRewriter,
    ReplyCounts,
    Role,
    RubricGenerator,
    RubricJudge,
    SolverRewriter,
    StructuralAuditor,
)
from decoevo_dspy.roles.lms import ROLES, RoleLMs
from decoevo_dspy.run.events import Callback, EventLog
from decoevo_dspy.run.folder import Run
from decoevo_dspy.run.student import SkilledStudent
from decoevo_dspy.run.workbench import Roles, Workbench
from decoevo_dspy.values.settings import Settings
from decoevo_dspy.values.task import Task

PACKAGES = ("decoevo-dspy", "dspy", "litellm", "numpy", "scipy", "optuna", "pydantic")


@dataclass(frozen=True, kw_only=True)
class Session:
    """What a run needs around the algorithm. ``run`` names it in the call store; ``started`` is a monotonic time."""

    run: str
    role_lms: RoleLMs
    recorder: Recorder
    counts: ReplyCounts
    log: EventLog
    folder: Run | None
    started: float

    @classmethod
    def open(
        cls,
        *,
        run: str,
        seed: int,
        role_lms: RoleLMs,
        num_threads: int,
        budget: Budget,
        folder: Run | None,
        store: CallStore,
        callbacks: Iterable[Callback],
    ) -> "Session":
        """Open log and ledger; on resume, failed calls that no recorded decision rests on are forgotten."""
        position = store.durable_position
        log = (
            folder.log(callbacks=callbacks, position=position)
            if folder
            else EventLog(None, callbacks=callbacks, position=position)
        )
        if log.events:
            store.forget_failures(run, after=log.last_call)
        recorder = Recorder(run=run, seed=seed, store=store, ledger=Ledger(run, budget), executor=Executor(num_threads))
        return cls(
            run=run,
            role_lms=role_lms,
            recorder=recorder,
            counts=ReplyCounts(),
            log=log,
            folder=folder,
            started=time.monotonic(),
        )

    def record(self, role: str, lm: dspy.BaseLM | None = None) -> RecordedLM:
        """The recorded LM of a role."""
        inner = lm or self.role_lms.lm(role)
        if isinstance(inner, RecordedLM):
            inner = inner.inner
        return RecordedLM(inner, role=role, recorder=self.recorder, send_seed=self.role_lms.option(role).send_seed)

    def role(self, role: Role) -> Any:
        """The role with its recorded LM, its endpoint's options and the run's reply counts."""
        options = self.role_lms.option(role.name)
        role.structured, role.context_tokens, role.counts = options.structured, options.context_tokens, self.counts
        role.set_lm(self.record(role.name))
        return role

    def student(
        self, student: dspy.Module, settings: Settings, *, skill_target: str | None, response_field: str | None
    ) -> SkilledStudent:
        """The student behind recorded LMs. An LM without a temperature gets the run's solver temperature."""
        options = self.role_lms.option("solver")

        def record(lm: dspy.BaseLM | None) -> RecordedLM:
            recorded = self.record("solver", lm)
            if recorded.kwargs.get("temperature") is None and "max_completion_tokens" not in recorded.kwargs:
                recorded.kwargs["temperature"] = settings.solver_temperature
            return recorded

        return SkilledStudent(
            student,
            skill_target=skill_target,
            response_field=response_field,
            record=record,
            adapter=solver_adapter(options.adapter),
            counts=self.counts,
            context_tokens=options.context_tokens,
        )

    def workbench(self, task: Task, settings: Settings, student: SkilledStudent, pause_s: float = 5.0) -> Workbench:
        """The workbench of a run, every role bound to its LM."""
        generator_lm = self.record("rubric_generator")
        options = self.role_lms.option("rubric_generator")

        def make_rubric_generator(skill: Any) -> RubricGenerator:
            role = RubricGenerator(
                skill, structured=options.structured, context_tokens=options.context_tokens, counts=self.counts
            )
            role.set_lm(generator_lm)
            return role

        auditor = ContrastiveAuditor(both_orders=settings.both_orders, probabilities=settings.judge_mode == "logprob")
        roles = Roles(
            judge=self.role(RubricJudge(settings.judge_mode)),
            structural_auditor=self.role(StructuralAuditor()),
            contrastive_auditor=self.role(auditor),
            solver_rewriter=self.role(SolverRewriter()),
            generator_rewriter=self.role(GeneratorRewriter()),
            make_rubric_generator=make_rubric_generator,
        )
        return Workbench(
            task=task,
            settings=settings,
            seed=self.recorder.seed,
            roles=roles,
            student=student,
            executor=self.recorder.executor,
            recorder=self.recorder,
            counts=self.counts,
            pause_s=pause_s,
        )

    def preflight(self, student_lm: RecordedLM) -> None:
        """Ask every distinct endpoint for one word, so that a wrong key, model or address stops before the first batch.

        Raises:
            EndpointError: in one line, with the model and the role.
        """
        asked: set[int] = set()
        lms = [("solver", student_lm.inner)] + [
            (r, self.role_lms.lm(r)) for r in ROLES if r not in ("grader", "matcher", "solver")
        ]
        for role, inner in lms:
            if id(inner) in asked or not has_endpoint(inner):
                continue
            asked.add(id(inner))
            lm = RecordedLM(inner, role="preflight", recorder=self.recorder, send_seed=False)
            limit = (
                {}
                if inner.kwargs.get("max_tokens") or inner.kwargs.get("max_completion_tokens")
                else {"max_tokens": 16}
            )
            with call_scope(partition="", sample="preflight"):
                try:
                    lm("Reply with the word ready.", **limit)
                except CallFailed as error:
                    raise EndpointError(f"{inner.model} (role {role}) does not answer: {error.reason}") from error
                except Unusable as error:
                    raise Unusable(inner.model, role, error.said) from error

    def write_run_file(
        self, *, method: str, settings: Settings, task: Task, partitions: Mapping[str, Sequence[str]], config: Any
    ) -> None:
        """``run.json``: what this run is, without secrets."""
        if self.folder is None:
            return
        self.folder.write_about(
            {
                "method": method,
                "seed": self.recorder.seed,
                "run": self.run,
                "versions": versions(),
                "task": asdict(task),
                "settings": asdict(settings),
                "budget": asdict(self.recorder.ledger.budget),
                "config": config,
                "partitions": partitions,
                "prompt_hashes": prompt_hashes(),
                "role_models": self.models(),
            },
        )

    def identities(self) -> dict[str, str]:
        """Model name and a digest of its options for every role of the loop; where it stands may change."""
        key = self.recorder.store.option_key
        return {role: identity(self.role_lms.lm(role), key) for role in ROLES if role not in ("grader", "matcher")}

    def models(self) -> dict[str, str]:
        """The model name of every role (grader and matcher only where they have their own)."""
        own = {role: getattr(self.role_lms, role) for role in ROLES}
        return {
            role: lm.model if lm is not None else self.role_lms.lm(role).model
            for role, lm in own.items()
            if lm is not None or role not in ("grader", "matcher")
        }


def solver_adapter(name: str | None) -> dspy.Adapter:
    """The adapter the student is asked through; never one that silently asks twice."""
    if name == "json":
        return RoleAdapter()
    if name is None and dspy.settings.adapter is not None:
        return dspy.settings.adapter
    return dspy.ChatAdapter(use_json_adapter_fallback=False)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that shape a run."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def prompt_hashes() -> dict[str, str]:
    """SHA-256 of every role prompt: instructions and field descriptions."""
    hashes: dict[str, str] = {}
    for name in signatures.__all__:
        signature = getattr(signatures, name)
        if isinstance(signature, type) and issubclass(signature, dspy.Signature):
            text = json.dumps(
                [signature.instructions, {k: str(f.json_schema_extra) for k, f in signature.fields.items()}]
            )
            hashes[name] = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return hashes
