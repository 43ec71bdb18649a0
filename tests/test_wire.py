"""What reaches an endpoint, read off the wire: schemas with their bounds, seeds, thinking switches, and no secrets."""

import json
import math
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from decoevo_dspy import DecoEvo, RoleLMs, SkillOpt, Task
from decoevo_dspy.calls import adapter
from decoevo_dspy.calls.adapter import RoleAdapter
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.errors import EndpointError
from decoevo_dspy.evaluation.official import GraderCalls
from decoevo_dspy.roles import ContrastiveAuditor, RubricGenerator, RubricJudge, StructuralAuditor
from decoevo_dspy.roles.lms import RoleOptions
from decoevo_dspy.roles.rubric_judge import choice_probabilities
from decoevo_dspy.signatures import JudgeCriterion, JudgeYesNo, WriteRubric
from decoevo_dspy.simulation.backbone import SimReply, SimulatedBackbone
from decoevo_dspy.values.rubric import Criterion, Rubric, Ungraded, Verdict
from tests.conftest import Answer, Bench, ScriptedEndpoint

Recording = Callable[..., Bench]
ONE = Rubric(criteria=(Criterion(text="names a dose", points=3),))
GOOD = '{"verdict": {"rationale": "it does", "score": 7}}'
RUBRIC = '{"rubric": {"criteria": [{"requirement": "x", "points": 3}]}}'
PREFERS = '{"preference": {"rationale": "r", "preferred": "A"}}'
MODELS = ["openai/test", "hosted_vllm/Qwen/Qwen3-8B", "openai/Qwen/Qwen3-4B"]
TASK = Task(name="advice", description="Everyday advice.", evaluation="Answers must be safe.")
response_format: Any = adapter.response_format  # its cache asks for hashable arguments; classes are
KEY = "zq-7f3Secret-KEY-0042"


def numbers(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every bound in a schema."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("maxLength", "minLength", "minItems", "maxItems", "minimum", "maximum", "enum"):
                yield key, value
            yield from numbers(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from numbers(value)


@pytest.mark.parametrize("model", MODELS)
def test_openai_compatible_endpoints_get_the_schema_with_all_bounds(
    model: str, endpoint: ScriptedEndpoint, recording: Recording
):
    """Unknown models get json_schema, not DSPy's json_object, and every bound arrives."""
    endpoint.answers(RUBRIC)
    recording().bind(RubricGenerator(), endpoint.lm(model)).generate("Q?")
    sent = endpoint.sent[0].body
    assert (
        sent["response_format"]["json_schema"]["schema"] == response_format(WriteRubric, False)["json_schema"]["schema"]
    )
    bounds = list(numbers(sent["response_format"]))
    assert {("maxLength", 240), ("minItems", 1), ("maxItems", 12), ("minimum", 1), ("maximum", 10)} <= {
        (key, value) for key, value in bounds if not isinstance(value, list)
    }


def test_ollama_gets_the_schema_as_its_format_and_the_seed_as_an_option(
    endpoint: ScriptedEndpoint, recording: Recording
):
    """LiteLLM turns the schema into Ollama's ``format``; the seed travels inside ``options``."""
    endpoint.answers(RUBRIC)
    recording().bind(RubricGenerator(), endpoint.lm("ollama_chat/qwen3:8b", think=False)).generate("Q?")
    sent = endpoint.sent[0]
    assert sent.path == "/api/chat"
    assert list(numbers(sent.body["format"])) == list(numbers(response_format(WriteRubric, False)))
    assert isinstance(sent.body["options"]["seed"], int)
    assert sent.body["think"] is False


@pytest.mark.parametrize(
    ("model", "options", "strict"),
    [
        ("openai/gpt-4o", {"api_key": "x"}, True),
        ("azure/gpt-4o", {"api_key": "x"}, True),
        ("openai/gpt-4o", {"api_key": "x", "api_base": "http://localhost:1/v1"}, False),
        ("openai/gpt-4o", {"api_key": "x", "base_url": "http://localhost:1/v1"}, False),
        ("hosted_vllm/gpt-4o", {"api_base": "http://localhost:1/v1"}, False),
        ("ollama_chat/x", {}, False),
    ],
)
def test_only_openai_itself_gets_the_schema_without_string_bounds(model: str, options: dict[str, Any], strict: bool):
    """Its strict mode refuses minLength and maxLength; every other endpoint needs them."""
    kwargs: dict[str, Any] = {}
    RoleAdapter()._prepare_response_format(dspy.LM(model, engine="litellm", **options), kwargs, JudgeCriterion)
    assert kwargs["response_format"] == response_format(JudgeCriterion, strict)


@pytest.mark.parametrize(
    ("structured", "wanted"),
    [
        ("json_object", {"type": "json_object"}),
        ("none", None),
        ("json_schema", response_format(JudgeCriterion, False)),
    ],
)
def test_an_endpoint_that_cannot_take_schemas_is_asked_otherwise(
    structured: Any, wanted: Any, endpoint: ScriptedEndpoint, recording: Recording
):
    """``structured`` says what the endpoint takes."""
    endpoint.answers(GOOD)
    recording().bind(RubricJudge(structured=structured), endpoint.lm()).judge("Q?", "A", ONE)
    assert endpoint.sent[0].body.get("response_format") == wanted


def test_seeds_are_distinct_per_sample_and_derived_from_the_runs_seed(endpoint: ScriptedEndpoint, recording: Recording):
    """Samples differ at the endpoint, runs of one seed agree, runs of other seeds do not."""
    endpoint.answers(RUBRIC)
    for seed in (0, 1, 0):
        role = recording(seed=seed).bind(RubricGenerator(), endpoint.lm())
        for sample in ("rubric", "verify1", "verify2"):
            role.generate("Q?", sample=sample)
    seeds = [sent.body["seed"] for sent in endpoint.sent]
    assert len(set(seeds)) == 6
    assert seeds[:3] == seeds[6:]
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_an_endpoint_without_seeds_gets_none(endpoint: ScriptedEndpoint, recording: Recording):
    """``send_seed`` false leaves the field out; samples are still distinct calls."""
    endpoint.answers("ok")
    lm = recording().record(endpoint.lm(), send_seed=False)
    lm("a", rollout_id=1, temperature=1.0)
    lm("a", rollout_id=2, temperature=1.0)
    assert len(endpoint.sent) == 2
    assert all("seed" not in sent.body for sent in endpoint.sent)


def test_rollout_ids_make_distinct_calls_and_are_never_sent(endpoint: ScriptedEndpoint, recording: Recording):
    """Four rollouts are four requests with four seeds; asking again sends nothing."""
    endpoint.answers("ok")
    lm = recording().record(endpoint.lm(temperature=1.0))
    for _ in range(2):
        for rollout in (1, 2, 3, 4):
            lm("the same prompt", rollout_id=rollout)
    assert len(endpoint.sent) == 4
    assert len({sent.body["seed"] for sent in endpoint.sent}) == 4
    assert "rollout" not in json.dumps([sent.body for sent in endpoint.sent])


def test_max_tokens_and_temperature_are_sent_unless_the_lm_has_its_own(
    endpoint: ScriptedEndpoint, recording: Recording
):
    """A role brings its token limit and temperature 0; an LM's own options win."""
    endpoint.answers(GOOD)
    recording().bind(RubricJudge(), endpoint.lm()).judge("Q?", "A", ONE)
    recording().bind(RubricJudge(), endpoint.lm(max_tokens=77, temperature=0.4)).judge("Q?", "A", ONE)
    own, given = (sent.body for sent in endpoint.sent)
    assert (own["temperature"], given["temperature"]) == (0.0, 0.4)
    assert own["max_tokens"] >= 300 + 60
    assert given["max_tokens"] == 77


def test_qwen3_thinking_is_switched_off_through_vllm(endpoint: ScriptedEndpoint, recording: Recording):
    """``extra_body`` becomes ``chat_template_kwargs`` at the top level of the request."""
    endpoint.answers(GOOD)
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    for model in ("hosted_vllm/Qwen/Qwen3-8B", "openai/Qwen/Qwen3-8B"):
        found = recording().bind(RubricJudge(), endpoint.lm(model, extra_body=off)).judge("Q?", "A", ONE)
        assert found == (Verdict(score=0.7, rationale="it does"),)
        assert endpoint.sent[-1].body["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("model", "place"),
    [
        ("hosted_vllm/Qwen/Qwen3-8B", ("chat_template_kwargs", {"enable_thinking": False})),
        ("ollama_chat/qwen3:8b", ("think", False)),
    ],
)
def test_a_config_switches_thinking_off_on_the_wire(
    model: str, place: tuple[str, Any], endpoint: ScriptedEndpoint, recording: Recording, tmp_path: Path
):
    """``thinking = false`` in decoevo.toml reaches vLLM and Ollama in their own form."""
    from decoevo_dspy.commands.build import build_role_lms
    from decoevo_dspy.commands.config import load_config

    base = endpoint.origin if model.startswith("ollama") else f"{endpoint.origin}/v1"
    file = tmp_path / "decoevo.toml"
    file.write_text(
        '[task]\npreset = "simulated"\n[data]\nbenchmark = "simulated"\n'
        f'[models]\ndefault = {{ model = "{model}", api_base = "{base}", thinking = false, num_retries = 0 }}\n',
        encoding="utf-8",
    )
    endpoint.answers(GOOD)
    lms = build_role_lms(load_config(file))
    recording().bind(RubricJudge(), lms.lm("judge")).judge("Q?", "A", ONE)
    assert endpoint.sent[0].body[place[0]] == place[1]


def tokens(*weights: dict[str, float]) -> dict[str, Any]:
    """OpenAI's logprobs for a reply in the given pieces; each piece lists its alternatives with probabilities."""

    def one(token: str, p: float) -> dict[str, Any]:
        return {"token": token, "logprob": math.log(p), "bytes": None}

    return {
        "content": [
            {**one(*next(iter(w.items()))), "top_logprobs": [one(token, p) for token, p in w.items()]} for w in weights
        ]
    }


YES = '{"answer": {"met": "yes"}}'
SAID_YES = tokens({'{"answer": {"met": "': 1.0}, {"yes": 0.6, "no": 0.2, " Yes": 0.1, "maybe": 0.1}, {'"}}': 1.0})


def test_the_logprob_judge_reads_the_expected_verdict(endpoint: ScriptedEndpoint, recording: Recording):
    """p(yes) over p(yes) + p(no) at the deciding token; top_logprobs and the yes/no schema are asked for."""
    endpoint.answers(Answer(content=YES, logprobs=SAID_YES))
    found = recording().bind(RubricJudge("logprob"), endpoint.lm()).judge("Q?", "A", ONE)
    assert isinstance(found[0], Verdict)
    assert found[0].score == pytest.approx(0.7 / 0.9)
    sent = endpoint.sent[0].body
    assert sent["logprobs"] is True
    assert sent["top_logprobs"] == 10
    assert sent["response_format"] == response_format(JudgeYesNo, False)


def test_the_probability_counts_and_not_the_word(endpoint: ScriptedEndpoint, recording: Recording):
    """A sampled "yes" that was unlikely is a low verdict."""
    lucky = tokens({'{"answer": {"met": "': 1.0}, {"yes": 0.1, "no": 0.9}, {'"}}': 1.0})
    endpoint.answers(Answer(content=YES, logprobs=lucky))
    found = recording().bind(RubricJudge("logprob"), endpoint.lm()).judge("Q?", "A", ONE)
    assert isinstance(found[0], Verdict)
    assert found[0].score == pytest.approx(0.1)
    assert found[0].rationale


@pytest.mark.parametrize("logprobs", [None, {"content": []}, tokens({'{"answer": {"met": "': 1.0}, {"perhaps": 1.0})])
def test_without_token_probabilities_the_logprob_judge_gives_no_verdict(
    logprobs: Any, endpoint: ScriptedEndpoint, recording: Recording
):
    """Ungraded, with what to change; never the sampled word."""
    endpoint.answers(Answer(content=YES, logprobs=logprobs))
    found = recording().bind(RubricJudge("logprob"), endpoint.lm()).judge("Q?", "A", ONE)
    assert isinstance(found[0], Ungraded)
    assert "token probabilities" in found[0].reason


@pytest.mark.parametrize(
    ("pieces", "choices", "wanted"),
    [
        ([{"y": 0.7, "n": 0.3}], ("yes", "no"), None),
        ([{'"': 1.0}, {"yes": 0.7, "no": 0.3}], ("yes", "no"), {"yes": 0.7, "no": 0.3}),
        ([{'"': 1.0}, {"ye": 0.5, "n": 0.25, "no": 0.25}, {"s": 1.0}], ("yes", "no"), {"yes": 0.5, "no": 0.5}),
        ([{"NO": 0.8, "YES": 0.2}], ("yes", "no"), {"yes": 0.2, "no": 0.8}),
        ([{'"no reason: "': 1.0}, {"yes": 1.0, "no": 1e-9}], ("yes", "no"), {"yes": 1.0, "no": 0.0}),
        (
            [{'"': 1.0}, {"B": 0.6, "A": 0.3, "equ": 0.1}],
            ("A", "B", "equivalent"),
            {"A": 0.3, "B": 0.6, "equivalent": 0.1},
        ),
        ([], ("yes", "no"), None),
    ],
)
def test_choice_probabilities(pieces: list[dict[str, float]], choices: tuple[str, ...], wanted: Any):
    """Case and white space do not matter, first letters that fit one choice alone count for it."""
    found = choice_probabilities(tokens(*pieces), choices)
    if wanted is None:
        assert found is None
    else:
        assert found == pytest.approx(wanted, abs=1e-6)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["yes", "no", " Yes", '"no"', "y", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["token", "logprob", "top_logprobs", "content"]), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(ANYTHING)
@example({"content": [{"token": "yes", "logprob": 1000.0}]})
@example({"content": [{"token": "yes", "logprob": math.nan}]})
@example({"content": [{"token": "yes", "logprob": 10**400}]})
@example({"content": [{"token": "yes", "logprob": -(10**400)}]})
@example({"content": [{"token": "yes", "logprob": -math.inf}]})
@example({"content": [{"token": "yes", "logprob": "-0.1", "top_logprobs": {"yes": -0.1}}]})
@example({"content": [{"token": "yes", "logprob": -0.1, "top_logprobs": [None, 3, {"token": 3, "logprob": -1}]}]})
def test_log_probabilities_of_any_shape_give_probabilities_or_nothing(logprobs: Any):
    """Numbers in [0, 1] that sum to 1, or ``None``: never an exception, never NaN."""
    found = choice_probabilities(logprobs, ("yes", "no"))
    assert found is None or (all(0 <= p <= 1 for p in found.values()) and sum(found.values()) == pytest.approx(1))


def preferring(endpoint: ScriptedEndpoint, *labels: str) -> None:
    """Scripted preferences."""
    endpoint.answers(
        *[json.dumps({"preference": {"rationale": f"r{i}", "preferred": x}}) for i, x in enumerate(labels)]
    )


@pytest.mark.parametrize("seed", range(4))
def test_both_orders_keep_only_what_agrees(seed: int, endpoint: ScriptedEndpoint, recording: Recording):
    """A then B is the same response twice; A twice is a position effect and counts as equivalent."""
    preferring(endpoint, "A", "B")
    role = recording().bind(ContrastiveAuditor(both_orders=True), endpoint.lm())
    agreed = role.prefer("Q?", "ONE", "TWO", rng=random.Random(seed))
    shown = [sent.body["messages"][-1]["content"] for sent in endpoint.sent]
    assert len(shown) == 2
    firsts = [text.index("ONE") < text.index("TWO") for text in shown]
    assert sorted(firsts) == [False, True]
    assert agreed.label == ("first" if firsts[0] else "second")
    assert set(agreed.orders) == {"first-second", "second-first"}

    preferring(endpoint, "A", "A")
    role = recording().bind(ContrastiveAuditor(both_orders=True), endpoint.lm())
    assert role.prefer("Q?", "ONE", "TWO", rng=random.Random(seed)).label == "equivalent"


def test_both_orders_are_averaged_in_probability_where_there_are_any(endpoint: ScriptedEndpoint, recording: Recording):
    """The sampled labels disagree; the averaged probabilities decide."""

    def answer(body: dict[str, Any]) -> Answer:
        text = body["messages"][-1]["content"]
        one_is_a = text.index("ONE") < text.index("TWO")
        odds = {"A": 0.9, "B": 0.1} if one_is_a else {"A": 0.55, "B": 0.45}
        pieces = tokens({'{"preference": {"rationale": "r", "preferred": "': 1.0}, odds, {'"}}': 1.0})
        return Answer(content=PREFERS, logprobs=pieces)

    endpoint.script(answer)
    role = recording().bind(ContrastiveAuditor(both_orders=True, probabilities=True), endpoint.lm())
    assert role.prefer("Q?", "ONE", "TWO", rng=random.Random(0)).label == "first"
    assert all(sent.body["top_logprobs"] == 10 for sent in endpoint.sent)


def test_one_lost_order_loses_the_label(endpoint: ScriptedEndpoint, recording: Recording):
    """Half an answer in both-orders mode is no answer."""
    endpoint.answers(PREFERS, "prose", "prose")
    role = recording().bind(ContrastiveAuditor(both_orders=True), endpoint.lm())
    found = role.prefer("Q?", "ONE", "TWO", rng=random.Random(0))
    assert found.kind == "unparsable"


def test_each_role_asks_its_own_model(endpoint: ScriptedEndpoint, recording: Recording):
    """A backbone per role; roles without one use the default."""
    lms = RoleLMs(default=endpoint.lm("openai/general"), judge=endpoint.lm("openai/judge"))
    endpoint.answers(GOOD)
    recording().bind(RubricJudge(), lms.lm("judge")).judge("Q?", "A", ONE)
    endpoint.answers('{"report": {"rationale": "", "repair": "", "adequacy": 10}}')
    recording().bind(StructuralAuditor(), lms.lm("structural_auditor")).audit("s", "Q?", ONE)
    assert [sent.body["model"] for sent in endpoint.sent] == ["judge", "general"]


def simulated(endpoint: ScriptedEndpoint) -> None:
    """Answer as the simulated world does."""
    backbone = SimulatedBackbone(0)

    def answer(body: dict[str, Any]) -> Answer:
        reply: SimReply = backbone.reply(
            body["messages"], seed=body.get("seed"), response_format=body.get("response_format")
        )
        return Answer(content=reply.text)

    endpoint.script(answer)


def run_over_http(endpoint: ScriptedEndpoint, folder: Path, **options: Any) -> dspy.Module:
    """A short run through LiteLLM, with the student's LM holding the key as well."""
    from decoevo_dspy.benchmarks.simulated import load_simulated, simulated_task

    lm = endpoint.lm(api_key=KEY, extra_headers={"X-Org": f"{KEY}-org"})
    student = dspy.Predict("question -> response")
    student.set_lm(lm)
    train = [dspy.Example(question=q.text, id=q.id).with_inputs("question") for q in load_simulated().questions[:9]]
    optimizer = SkillOpt(
        simulated_task(), steps=1, batch_size=2, role_lms=RoleLMs(default=lm), log_dir=folder, num_threads=4, **options
    )
    return optimizer.compile(student, trainset=train)


def everything_in(folder: Path) -> bytes:
    """All bytes of all files, database rows included as text."""
    import sqlite3

    raw = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    db = sqlite3.connect(folder / "calls.sqlite")
    rows = db.execute("SELECT * FROM calls").fetchall()
    db.close()
    return raw + repr(rows).encode()


def test_a_run_over_http_writes_no_key_anywhere(endpoint: ScriptedEndpoint, tmp_path: Path):
    """The key and the headers are on the wire, and in no file of the run."""
    simulated(endpoint)
    run_over_http(endpoint, tmp_path / "run")
    assert all(sent.headers["authorization"] == f"Bearer {KEY}" for sent in endpoint.sent)
    assert all(sent.headers["x-org"] == f"{KEY}-org" for sent in endpoint.sent)
    written = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert {"run.json", "events.jsonl", "calls.sqlite", "result.json", "solver.json", "generator.json"} <= written
    assert KEY.encode() not in everything_in(tmp_path / "run")


def test_an_endpoint_that_echoes_the_key_does_not_get_it_written(endpoint: ScriptedEndpoint, tmp_path: Path):
    """The error line is kept without the key, in the exception and in every file."""
    endpoint.answers(Answer(status=401, body={"error": {"message": f"Incorrect API key provided: {KEY}."}}))
    with pytest.raises(EndpointError) as caught:
        run_over_http(endpoint, tmp_path / "run")
    assert KEY not in str(caught.value)
    assert "Incorrect API key provided" in str(caught.value)
    assert KEY.encode() not in everything_in(tmp_path / "run")


def test_a_server_error_that_echoes_the_key_is_stored_without_it(endpoint: ScriptedEndpoint, tmp_path: Path):
    """Also in the rows of failed calls."""
    endpoint.answers(Answer(status=500, body={"error": {"message": f"cannot forward Bearer {KEY} upstream"}}))
    with pytest.raises(EndpointError):
        run_over_http(endpoint, tmp_path / "run")
    assert KEY.encode() not in everything_in(tmp_path / "run")


def test_a_whole_decoevo_run_works_over_http(endpoint: ScriptedEndpoint, tmp_path: Path):
    """Every role once through LiteLLM; every request of a role carries a schema and a seed."""
    from decoevo_dspy.benchmarks.simulated import load_simulated, simulated_task

    simulated(endpoint)
    lm = endpoint.lm()
    options = {"solver": RoleOptions(adapter="json")}
    train = [dspy.Example(question=q.text, id=q.id).with_inputs("question") for q in load_simulated().questions[:12]]
    optimizer = DecoEvo(
        simulated_task(),
        steps=1,
        batch_size=2,
        audit_every=1,
        rollouts=2,
        judge_mode="rubric",
        num_threads=4,
        tau_tie=1.0,
        role_lms=RoleLMs(default=lm, options=options),
        log_dir=tmp_path / "run",
    )
    result: Any = optimizer.compile(dspy.Predict("question -> response"), trainset=train).detailed_results  # pyright: ignore[reportAttributeAccessIssue]
    roles = {"solver", "rubric_generator", "judge", "structural_auditor", "contrastive_auditor"}
    assert roles <= result.usage.keys()
    assert result.stopped_by == "steps"
    assert result.steps == 1
    spoken = [sent.body for sent in endpoint.sent if "ready" not in sent.prompt]
    assert all("seed" in body and body["response_format"]["type"] == "json_schema" for body in spoken)
    assert sum(usage["calls"] for usage in result.usage.values()) == len(endpoint.sent)


def test_a_small_token_limit_tightens_the_schema_that_is_sent(endpoint: ScriptedEndpoint, recording: Recording):
    """An endpoint with few tokens gets shorter strings and lists, so that replies still end; ranges stay."""
    endpoint.answers(RUBRIC)
    recording().bind(RubricGenerator(), endpoint.lm(max_tokens=400)).generate("Q?")
    found = dict(numbers(endpoint.sent[0].body["response_format"]))
    assert found["maxItems"] < 12 or found["maxLength"] < 240
    assert (found["minimum"], found["maximum"], found["minItems"]) == (1, 10, 1)


def test_a_whole_rubric_judgement_asks_for_exactly_its_number_of_verdicts(
    endpoint: ScriptedEndpoint, recording: Recording
):
    """minItems = maxItems = the number of criteria."""
    verdicts = [{"id": id, "rationale": "", "score": 1} for id in ("c1", "c2")]
    reply = json.dumps({"judgement": {"verdicts": verdicts}})
    endpoint.answers(reply)
    two = Rubric(criteria=(*ONE.criteria, Criterion(text="is brief")))
    recording().bind(RubricJudge("rubric"), endpoint.lm()).judge("Q?", "A", two)
    found = dict(numbers(endpoint.sent[0].body["response_format"]))
    assert (found["minItems"], found["maxItems"]) == (2, 2)


def test_a_grader_sends_what_the_official_code_sends_and_nothing_else(endpoint: ScriptedEndpoint, recording: Recording):
    """The default model's sampling options, and a seed, do not reach an official grader; its own parameters do."""
    endpoint.answers("ok")
    bench = recording()
    lm = endpoint.lm(temperature=0.3, max_tokens=77)
    client = GraderCalls(lm, bench.recorder, "test")
    messages = [{"role": "user", "content": "grade [[ ## this ## ]] verbatim"}]
    assert client.complete(messages, params={}).text == "ok"
    assert client.complete(messages, params={"temperature": 0.5, "max_tokens": 2048}).text == "ok"
    bare, full = (sent.body for sent in endpoint.sent)
    assert bare["messages"] == full["messages"] == messages
    assert not {"temperature", "max_tokens", "seed", "response_format"} & set(bare)
    assert (full["temperature"], full["max_tokens"]) == (0.5, 2048)
    assert lm.kwargs["temperature"] == 0.3


@pytest.mark.parametrize("tag", ["think", "thought"])
def test_a_grader_sees_the_text_as_it_came(tag: str, endpoint: ScriptedEndpoint, recording: Recording):
    """Reasoning stays in the text; where LiteLLM has taken it out (``<think>``), the reply is marked."""
    text = f"<{tag}>hm</{tag}>\n\nyes"
    endpoint.answers(text)
    client = GraderCalls(endpoint.lm(), recording().recorder, "test")
    reply = client.complete([{"role": "user", "content": "grade"}], params={})
    assert (reply.text, reply.reasoning_stripped) == (("\n\nyes", True) if tag == "think" else (text, False))


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_what_the_store_says_of_every_role_is_what_was_sent(
    temperature: float, endpoint: ScriptedEndpoint, tmp_path: Path
):
    """Every recorded parameter stands in a request on the wire with its value, and the solver's is the setting."""
    backbone = SimulatedBackbone(0)

    def answer(body: dict[str, Any]) -> Answer:
        reply = backbone.reply(body["messages"], seed=body.get("seed"), response_format=body.get("response_format"))
        return Answer(content=reply.text)

    endpoint.script(answer)
    examples = [dspy.Example(question=f"How do I fix problem {i}?").with_inputs("question") for i in range(9)]
    DecoEvo(
        TASK,
        steps=1,
        batch_size=2,
        audit_every=1,
        solver_temperature=temperature,
        role_lms=RoleLMs(default=endpoint.lm()),
        num_threads=2,
        log_dir=tmp_path,
    ).compile(dspy.Predict("question -> response"), trainset=examples)
    sent: dict[str, list[dict[str, Any]]] = {}
    for one in endpoint.sent:
        sent.setdefault(one.body["messages"][-1]["content"], []).append(one.body)
    with closing(CallStore(tmp_path / "calls.sqlite")) as store:
        calls = list(store.calls())
    assert {"solver", "rubric_generator", "judge", "structural_auditor", "solver_rewriter"} <= {c.role for c in calls}
    for call in calls:
        said = {name: value for name, value in call.params.items() if not str(value).startswith("hmac:")}
        bodies = sent[call.messages[-1][1]]
        assert said in [{name: body.get(name) for name in said} for body in bodies], call.role
    assert {call.params["temperature"] for call in calls if call.role == "solver"} == {temperature}
