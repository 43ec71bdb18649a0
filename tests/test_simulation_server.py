"""The simulated backbone behind HTTP: OpenAI's protocol, through LiteLLM and by hand, with faults on request."""

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import LMError

import decoevo_dspy.signatures as S
from decoevo_dspy.benchmarks.simulated import load_simulated
from decoevo_dspy.calls.adapter import RoleAdapter
from decoevo_dspy.simulation.engine import simulated_lm
from decoevo_dspy.simulation.server import SimulationServer, serve

QUESTION = load_simulated().questions[0].text
HELLO: dict[str, Any] = {"model": "simulated", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM uses its bundled price map."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def remote(server: SimulationServer, engine: Any = "litellm", **options: Any) -> dspy.LM:
    """A DSPy LM on the endpoint."""
    return dspy.LM("openai/simulated", api_base=server.url, api_key="x", engine=engine, cache=False, **options)


def post(server: SimulationServer, body: Any, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], Any]:
    """One raw request: status, headers, parsed body (text for a stream)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(
            "POST", "/v1/chat/completions", data, {"Content-Type": "application/json", **(headers or {})}
        )
        response = connection.getresponse()
        text = response.read().decode()
        parsed = json.loads(text) if text.startswith("{") else text
        return response.status, dict(response.getheaders()), parsed
    finally:
        connection.close()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("engine", ["litellm", "lm15"])
def test_http_and_embedded_give_the_same_reply(engine: str):
    """The same request and seed yield the same text and usage through HTTP as in process."""
    config = {"seed": 7, "temperature": 0.7}
    with serve(seed=3) as server, dspy.context(adapter=dspy.ChatAdapter()):
        over_http, embedded = remote(server, engine), simulated_lm(3)
        texts = []
        for lm in (over_http, embedded):
            with dspy.context(lm=lm):
                texts.append(dspy.Predict(S.AnswerQuestion)(question=QUESTION, config=config).response)
        assert texts[0] == texts[1]
        ours, theirs = (lm.history[-1]["usage"] for lm in (embedded, over_http))
        assert ours["prompt_tokens"] == theirs["prompt_tokens"]
        assert ours["completion_tokens"] == theirs["completion_tokens"]
        assert server.counts == {"requests": 1, "200": 1}


@pytest.mark.filterwarnings("default")
def test_structured_roles_work_over_http():
    """The strict role adapter sends its schema and reads the reply through LiteLLM."""
    with serve() as server, dspy.context(lm=remote(server), adapter=RoleAdapter()):
        assert dspy.Predict(S.WriteRubric)(question=QUESTION).rubric.criteria
        found = dspy.Predict(S.JudgeYesNo)(
            question="q", response="r", criterion="c", config={"logprobs": True, "top_logprobs": 3}
        )
        assert found.logprobs.content


def test_protocol_details():
    """Usage, finish reason, model echo, logprobs, keep-alive and the model list are those of the protocol."""
    with serve() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        for _ in range(2):
            connection.request("GET", "/v1/models")
            assert json.loads(connection.getresponse().read())["data"][0]["id"] == "simulated"
        connection.close()
        status, _, answer = post(server, {**HELLO, "max_tokens": 3, "logprobs": True, "top_logprobs": 2})
        choice = answer["choices"][0]
        assert (status, choice["finish_reason"], answer["model"]) == (200, "length", "simulated")
        assert len(choice["logprobs"]["content"]) == answer["usage"]["completion_tokens"] == 3
        assert "".join(t["token"] for t in choice["logprobs"]["content"]) == choice["message"]["content"]
        first, second = (post(server, {**HELLO, "seed": 1})[2]["choices"] for _ in range(2))
        assert first == second
        assert first != post(server, {**HELLO, "seed": 2})[2]["choices"]


def test_a_stream_is_one_chunk_and_the_end_mark():
    """A streaming client gets the whole answer in one event, then [DONE]."""
    with serve() as server:
        _, headers, text = post(server, {**HELLO, "stream": True})
        whole = post(server, HELLO)[2]["choices"][0]["message"]["content"]
    events = [line.removeprefix("data: ") for line in text.split("\n") if line]
    assert headers["Content-Type"] == "text/event-stream"
    assert events[1] == "[DONE]"
    assert json.loads(events[0])["choices"][0]["delta"]["content"] == whole


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        ({"model": "simulated"}, 400),
        ({"messages": []}, 400),
        ({**HELLO, "n": 2}, 400),
        ({**HELLO, "seed": "x"}, 400),
        ({**HELLO, "max_tokens": 0}, 400),
        ({**HELLO, "model": "unknown"}, 404),
        ({**HELLO, "messages": [{"role": "user", "content": "\ud800 lone"}]}, 200),
    ],
)
def test_bad_requests_get_their_status(body: Any, status: int):
    """Malformed requests are 400 with an OpenAI error, an unknown model is 404; odd text is answered."""
    with serve(models=["simulated"]) as server:
        found, _, answer = post(server, body)
    assert found == status
    assert ("error" in answer) == (status != 200)


def test_a_required_key_is_checked():
    """Without the right key the endpoint answers 401, with it 200."""
    with serve(api_key="secret") as server:
        assert post(server, HELLO)[0] == 401
        assert post(server, HELLO, {"Authorization": "Bearer secret"})[0] == 200
        assert server.counts == {"requests": 2, "401": 1, "200": 1}


def test_failures_are_deterministic_and_a_retry_may_pass():
    """The same seed fails the same attempts; about the stated share fails; repeating a request draws anew."""

    def statuses(seed: int) -> list[int]:
        with serve(seed=seed, fail_rate=0.3) as server:
            bodies = [{**HELLO, "seed": k} for k in range(40)]
            return [post(server, body)[0] for body in bodies for _ in range(2)]

    first = statuses(1)
    assert first == statuses(1)
    assert first != statuses(2)
    assert 8 <= first.count(500) <= 40
    assert any(a == 500 and b == 200 for a, b in zip(first[::2], first[1::2], strict=True))


@pytest.mark.filterwarnings("default")
def test_failures_reach_dspy_as_errors():
    """An endpoint that always fails raises DSPy's retryable error after the retries."""
    with serve(fail_rate=1.0) as server:
        lm = remote(server, num_retries=0)
        with pytest.raises(LMError):
            lm("Hello")
    assert server.counts == {"requests": 1, "500": 1}


def test_rate_limit_answers_429_with_retry_after():
    """Beyond the limit requests get 429 and a Retry-After; after that wait the next one passes."""
    with serve(rate_limit=5) as server:
        found = [post(server, HELLO) for _ in range(8)]
        refused = [headers for status, headers, _ in found if status == 429]
        assert len(refused) == 3
        wait = float(refused[-1]["Retry-After"])
        assert 0 < wait <= 1.0
        time.sleep(wait + 0.05)
        assert post(server, HELLO)[0] == 200


def test_latency_is_added_and_requests_run_in_parallel():
    """Eight requests of 150 ms each take together about as long as one."""
    with serve(latency_ms=150) as server, ThreadPoolExecutor(8) as pool:
        start = time.monotonic()
        assert set(pool.map(lambda k: post(server, {**HELLO, "seed": k})[0], range(8))) == {200}
        took = time.monotonic() - start
    assert 0.15 <= took < 1.0


def test_options_are_checked_and_the_port_is_free_again():
    """Impossible options raise; a stopped server gives its port back."""
    impossible: list[dict[str, Any]] = [{"fail_rate": 2.0}, {"latency_ms": -1.0}, {"rate_limit": 0.0}]
    for options in impossible:
        with pytest.raises(ValueError, match="must be"):
            serve(**options)
    server = serve()
    server.stop()
    with serve(server.port) as again:
        assert again.port == server.port
        with pytest.raises(OSError, match="in use"):
            serve(again.port)
