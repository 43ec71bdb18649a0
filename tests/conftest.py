"""Shared fixtures: a scripted OpenAI-compatible endpoint on loopback, recorded LMs, and a small simulated world."""

import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import settings

from decoevo_dspy.calls.budget import Budget, Ledger
from decoevo_dspy.calls.executor import Executor
from decoevo_dspy.calls.recording import RecordedLM, Recorder
from decoevo_dspy.calls.store import CallStore

# no time limit for an example: machines are shared; and the same examples every time: a red test is red for everybody
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One HTTP answer: ``content`` of the assistant message, or a whole ``body`` with its ``status``."""

    content: str | None = None
    status: int = 200
    finish_reason: str = "stop"
    headers: Mapping[str, str] = field(default_factory=dict)
    logprobs: Any = None
    message: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    delay_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """All message texts."""
        return "\n".join(str(message["content"]) for message in self.body["messages"])


Script = Callable[[dict[str, Any]], Answer | str]


class ScriptedEndpoint:
    """A local endpoint that records every request and answers from a list (the last one repeats) or a callable."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.most_at_once = 0
        self._script: Script = lambda body: Answer(status=500, body={"error": {"message": "nothing scripted"}})
        self._lock = threading.Lock()
        self._now = 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.handle(self, json.loads(raw))

            def do_GET(self) -> None:
                self.send_error(404)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        """Stop serving."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answers(self, *answers: Answer | str) -> "ScriptedEndpoint":
        """Answer with these in turn; the last one repeats."""
        left = list(answers)
        self._script = lambda body: left.pop(0) if len(left) > 1 else left[0]
        return self

    def script(self, script: Script) -> "ScriptedEndpoint":
        """Answer by a function of the request body."""
        self._script = script
        return self

    def lm(self, model: str = "openai/test", **options: Any) -> dspy.LM:
        """A DSPy LM at this endpoint, through LiteLLM, without retries unless asked for."""
        base = self.origin if model.startswith("ollama") else f"{self.origin}/v1"
        given: dict[str, Any] = {"api_base": base, "api_key": "x", "num_retries": 0, **options}
        return dspy.LM(model, engine="litellm", cache=False, **given)

    def handle(self, request: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        """Record a request and answer it."""
        with self._lock:
            if not request.path.endswith("/show"):
                self.sent.append(
                    Sent(
                        path=request.path,
                        headers={name.lower(): value for name, value in request.headers.items()},
                        body=body,
                    )
                )
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            answer = self._script(body)
        answer = Answer(content=answer) if isinstance(answer, str) else answer
        if answer.delay_s:
            threading.Event().wait(answer.delay_s)
        payload = json.dumps(answer.body if answer.body is not None else completion(request.path, answer)).encode()
        with self._lock:
            self._now -= 1
        request.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(payload)))
        request.end_headers()
        request.wfile.write(payload)


def completion(path: str, answer: Answer) -> dict[str, Any]:
    """A chat completion in OpenAI's form, or in Ollama's where that was asked."""
    message = {"role": "assistant", "content": answer.content, **answer.message}
    if path.startswith("/api/"):
        return {
            "model": "test",
            "created_at": "2025-01-01T00:00:00Z",
            "message": message,
            "done": True,
            "done_reason": answer.finish_reason,
            "prompt_eval_count": 7,
            "eval_count": 3,
        }
    choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason, "logprobs": answer.logprobs}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "test",
        "choices": [choice],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    """A scripted endpoint of the test's own."""
    server = ScriptedEndpoint()
    yield server
    server.close()


@dataclass
class Bench:
    """Recorded LMs over one call store, as a run has them."""

    recorder: Recorder

    def record(self, lm: dspy.BaseLM, role: str = "judge", send_seed: bool | None = None) -> RecordedLM:
        """The LM behind the store."""
        return RecordedLM(lm, role=role, recorder=self.recorder, send_seed=send_seed)

    def bind(self, role: Any, lm: dspy.BaseLM) -> Any:
        """A role with its recorded LM."""
        role.set_lm(self.record(lm, role.name))
        return role


@pytest.fixture
def recording() -> Iterator[Callable[..., Bench]]:
    """Makes a `Bench`; its stores are closed after the test."""
    stores: list[CallStore] = []

    def make(
        path: Path | None = None, *, run: str = "run", seed: int = 0, budget: Budget | None = None, threads: int = 1
    ) -> Bench:
        store = CallStore(path)
        stores.append(store)
        ledger = Ledger(run, budget or Budget())
        return Bench(Recorder(run=run, seed=seed, store=store, ledger=ledger, executor=Executor(threads)))

    yield make
    for store in stores:
        store.close()


class CapturingEngine:
    """A DSPy engine that remembers what it was asked and answers from a list, the last answer again and again."""

    supports_response_schema = True
    supports_function_calling = False
    supports_reasoning = False
    supported_params = frozenset({"temperature", "max_tokens", "seed", "response_format", "logprobs", "top_logprobs"})

    def __init__(self, replies: Sequence[str]) -> None:
        self.replies = list(replies)
        self.requests: list[Any] = []

    def complete(self, request: Any) -> Any:
        """One reply."""
        from dspy.lm15 import Message, Response, TextPart, Usage

        self.requests.append(request)
        text = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(text)]),
            finish_reason="stop",
            usage=Usage(input_tokens=5, output_tokens=2),
        )

    def close(self) -> None:
        """Nothing to release."""

    def __deepcopy__(self, memo: Any) -> "CapturingEngine":
        return self

    def messages(self, index: int = -1) -> list[dict[str, str]]:
        """A request as chat messages."""
        from decoevo_dspy.simulation.engine import request_messages

        return request_messages(self.requests[index])


@pytest.fixture
def capturing() -> Callable[..., tuple[dspy.LM, CapturingEngine]]:
    """Makes an in-process LM that captures its requests: ``lm, engine = capturing(reply, …)``."""

    def make(*replies: str, **options: Any) -> tuple[dspy.LM, CapturingEngine]:
        engine = CapturingEngine(replies)
        return dspy.LM("local/capturing", engine=engine, cache=False, num_retries=0, **options), engine

    return make
