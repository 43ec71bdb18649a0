"""The simulated backbone behind an OpenAI-compatible endpoint, with latency, failures and rate limits on request."""

import hashlib
import json
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from decoevo_dspy.simulation.backbone import MODEL, SimReply, SimulatedBackbone
from decoevo_dspy.simulation.parameters import WorldParameters

MAX_BODY = 32 * 1024 * 1024
"""Longest request body in bytes."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What the endpoint adds to the model.

    ``latency_ms`` ≥ 0 for each answer. ``fail_rate`` in [0, 1]: share of requests answered with 500, decided by
    (seed, request, how often this request has come), so that a retry may pass. ``rate_limit``: requests per second
    (> 0), beyond which a request gets 429 with Retry-After. ``models``: names that are known (empty: all).
    ``api_key``: the key that is required (``None``: any or none).
    """

    latency_ms: float = 0.0
    fail_rate: float = 0.0
    rate_limit: float | None = None
    models: tuple[str, ...] = ()
    api_key: str | None = None

    def __post_init__(self) -> None:
        if self.latency_ms < 0 or not 0.0 <= self.fail_rate <= 1.0:
            raise ValueError("latency_ms must be at least 0 and fail_rate in [0, 1]")
        if self.rate_limit is not None and self.rate_limit <= 0:
            raise ValueError("rate_limit must be above 0 requests per second")


class Refusal(Exception):
    """An answer other than 200: status, OpenAI error code and message."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, dict(headers or {})


class Endpoint:
    """What happens to a request, apart from HTTP. ``counts``: answers by status, and ``requests`` in all."""

    def __init__(self, backbone: SimulatedBackbone, faults: Faults) -> None:
        self.backbone, self.faults = backbone, faults
        self.counts: Counter[str] = Counter()
        self._attempts: Counter[bytes] = Counter()
        self._recent: deque[float] = deque()
        self._lock = threading.Lock()

    def count(self, name: str) -> None:
        """Add one to a counter."""
        with self._lock:
            self.counts[name] += 1

    def chat(self, body: bytes) -> tuple[dict[str, Any], bool]:
        """The completion for a request body, and whether it is to be streamed. Raises `Refusal`."""
        self._admit()
        request = _parse(body)
        self._known(str(request.get("model", MODEL)))
        if self._fails(body):
            raise Refusal(500, "server_error", "simulated failure")
        if self.faults.latency_ms:
            time.sleep(self.faults.latency_ms / 1000.0)
        limit = request.get("max_completion_tokens") or request.get("max_tokens")
        reply = self.backbone.reply(
            request["messages"],
            seed=request.get("seed"),
            response_format=request.get("response_format"),
            logprobs=int(request.get("top_logprobs") or 0) if request.get("logprobs") else None,
            max_tokens=limit,
        )
        return completion(reply, str(request.get("model", MODEL)), body), bool(request.get("stream"))

    def authorise(self, header: str | None) -> None:
        """Raises `Refusal` unless the Authorization header carries the required key."""
        if self.faults.api_key is not None and header != f"Bearer {self.faults.api_key}":
            raise Refusal(401, "invalid_api_key", "the API key is missing or wrong")

    def model_list(self) -> dict[str, Any]:
        """The answer of /v1/models."""
        names = self.faults.models or (MODEL,)
        return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "decoevo"} for name in names]}

    def _known(self, model: str) -> None:
        if self.faults.models and model not in self.faults.models:
            raise Refusal(404, "model_not_found", f"the model {model!r} does not exist")

    def _admit(self) -> None:
        """Sliding one-second window: raises 429 with the seconds until the next request may come."""
        if self.faults.rate_limit is None:
            return
        allowed, now = max(1, int(self.faults.rate_limit)), time.monotonic()
        window = allowed / self.faults.rate_limit
        with self._lock:
            while self._recent and now - self._recent[0] >= window:
                self._recent.popleft()
            if len(self._recent) < allowed:
                self._recent.append(now)
                return
            wait = window - (now - self._recent[0])
        headers = {"Retry-After": f"{max(wait, 0.01):.2f}"}
        raise Refusal(429, "rate_limit_exceeded", "simulated rate limit", headers)

    def _fails(self, body: bytes) -> bool:
        if not self.faults.fail_rate:
            return False
        key = hashlib.blake2b(body, digest_size=16).digest()
        with self._lock:
            attempt = self._attempts[key]
            self._attempts[key] += 1
        drawn = hashlib.blake2b(key + f"{self.backbone.seed}/{attempt}".encode(), digest_size=8).digest()
        return int.from_bytes(drawn, "big") < self.faults.fail_rate * 2.0**64


def _parse(body: bytes) -> dict[str, Any]:
    """The request as a mapping with plausible messages; raises 400 otherwise."""
    try:
        request = json.loads(body)
    except ValueError:
        raise Refusal(400, "invalid_json", "the body is not JSON") from None
    if not isinstance(request, dict):
        raise Refusal(400, "invalid_request", "the body must be a JSON object")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise Refusal(400, "invalid_request", "messages must be a list of at least one message")
    if request.get("n") not in (None, 1):
        raise Refusal(400, "unsupported_value", "only n = 1 is supported")
    for name in ("seed", "max_tokens", "max_completion_tokens", "top_logprobs"):
        value = request.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise Refusal(400, "invalid_type", f"{name} must be an integer")
        if value is not None and name.startswith("max_") and value < 1:
            raise Refusal(400, "invalid_value", f"{name} must be at least 1")
    return request


def completion(reply: SimReply, model: str, body: bytes) -> dict[str, Any]:
    """A reply as an OpenAI chat completion."""
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": reply.text},
        "finish_reason": reply.finish_reason,
        "logprobs": None,
    }
    if reply.logprobs is not None:
        choice["logprobs"] = {
            "content": [
                {**_token(t.text, t.logprob), "top_logprobs": [_token(*pair) for pair in t.top]} for t in reply.logprobs
            ]
        }
    return {
        "id": f"sim-{hashlib.blake2b(body, digest_size=8).hexdigest()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
            "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        },
    }


def _token(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}


def _event_stream(answer: Mapping[str, Any]) -> bytes:
    """The whole completion as one chunk, then the end mark."""
    choice = answer["choices"][0]
    chunk = {
        **{key: answer[key] for key in ("id", "created", "model", "usage")},
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": choice["message"], "finish_reason": choice["finish_reason"]}],
    }
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\ndata: [DONE]\n\n".encode("utf-8", "replace")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave in one write
    endpoint: Endpoint

    def do_GET(self) -> None:
        """/v1/models, and / as a sign of life."""
        if self.path.rstrip("/") in ("", "/v1", "/health"):
            self._send(200, {"status": "ok", "counts": dict(self.endpoint.counts)})
        elif self.path.split("?")[0].rstrip("/") in ("/v1/models", "/models"):
            self._send(200, self.endpoint.model_list())
        else:
            self._send(404, _error("not_found", f"no such path: {self.path}"))

    def do_POST(self) -> None:
        """/v1/chat/completions."""
        self.endpoint.count("requests")
        try:
            length = int(self.headers.get("Content-Length") or 0)
            if length > MAX_BODY or length < 0:
                self.close_connection = True
                raise Refusal(413, "too_large", "the body is too large")
            body = self.rfile.read(length)
            if self.path.split("?")[0].rstrip("/") not in ("/v1/chat/completions", "/chat/completions"):
                raise Refusal(404, "not_found", f"no such path: {self.path}")
            self.endpoint.authorise(self.headers.get("Authorization"))
            answer, streamed = self.endpoint.chat(body)
        except Refusal as refusal:
            self._send(refusal.status, _error(refusal.code, str(refusal)), refusal.headers)
            return
        if streamed:
            self._write(200, "text/event-stream", _event_stream(answer), {})
        else:
            self._send(200, answer)

    def _send(self, status: int, payload: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        self._write(status, "application/json", body, headers or {})

    def _write(self, status: int, kind: str, body: bytes, headers: Mapping[str, str]) -> None:
        self.endpoint.count(str(status))
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: counters tell what happened."""


def _error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no event."""


class SimulationServer:
    """A running endpoint, and a context manager that stops it. ``counts``: answers by status and ``requests``."""

    def __init__(self, endpoint: Endpoint, port: int) -> None:
        handler = type("Handler", (_Handler,), {"endpoint": endpoint})
        self.endpoint = endpoint
        self._http = _Server(("127.0.0.1", port), handler)
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The API base, for ``api_base``."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def counts(self) -> dict[str, int]:
        """Answers by status code, and ``requests`` for chat completions asked for."""
        return dict(self.endpoint.counts)

    def wait(self) -> None:
        """Block until the server stops."""
        self._thread.join()

    def stop(self) -> None:
        """Stop listening; idle connections end with the process or the client."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> "SimulationServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def serve(
    port: int = 0,
    *,
    seed: int = 0,
    parameters: WorldParameters | None = None,
    latency_ms: float = 0.0,
    fail_rate: float = 0.0,
    rate_limit: float | None = None,
    models: Sequence[str] = (),
    api_key: str | None = None,
) -> SimulationServer:
    """Start the endpoint on 127.0.0.1 in a thread; port 0 takes a free one. See `Faults` for the options.

    Raises:
        OSError: when the port is taken.
        ValueError: for an option outside its range.
    """
    faults = Faults(
        latency_ms=latency_ms, fail_rate=fail_rate, rate_limit=rate_limit, models=tuple(models), api_key=api_key
    )
    return SimulationServer(Endpoint(SimulatedBackbone(seed, parameters), faults), port)
