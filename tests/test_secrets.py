"""No secret is written or printed: not in a file, a log, a line on the terminal or an exception, in no encoding."""

import base64
import contextlib
import html
import json
import sqlite3
import traceback
import urllib.parse
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy import RoleLMs, SkillOpt
from decoevo_dspy.benchmarks.simulated import load_simulated, simulated_task
from decoevo_dspy.calls.digests import identity
from decoevo_dspy.calls.secrets import KNOWN, SHOWN, Secrets, key_free, mask_error, shown
from decoevo_dspy.calls.store import CallStore
from decoevo_dspy.cli.app import main
from decoevo_dspy.errors import ConfigurationError, EndpointError
from decoevo_dspy.simulation.backbone import SimulatedBackbone
from decoevo_dspy.teleprompters import base
from tests.conftest import Answer, Bench, ScriptedEndpoint

Recording = Callable[..., Bench]


def marked(name: str) -> str:
    """A secret that says where it was put, with characters that every encoding escapes."""
    return f"mArK/{name}+7&f'3\"S{sum(map(ord, name))}"


OPTIONS: dict[str, Any] = {
    "api_key": marked("api-key"),
    "extra_headers": {"X-Org": marked("header"), "Authorization": f"Bearer {marked('bearer')}"},
    "aws_secret_access_key": marked("aws"),
    "aws_session_token": marked("aws-session"),
    "azure_ad_token": marked("azure"),
    "client_secret": marked("client"),
    "vertex_credentials": json.dumps({"private_key": marked("vertex")}),
    "token": marked("token"),
    "password": marked("password"),
    "extra_body": {"gateway": {"auth": marked("body"), "note": marked("body-note")}},
    "extra_query": {"sig": marked("query")},
    "user": marked("user"),
}
"""A secret in every place where an LM takes one."""

PLACES = ["api-key", "header", "bearer", "aws", "aws-session", "azure", "client", "vertex", "token", "password"]
PLACES += ["body", "body-note", "query", "user"]
SECRETS = {name: marked(name) for name in PLACES}
TEMPERATURE = {"temperature": 0.4, "top_p": 0.9}


def encoded(secret: str) -> dict[str, str]:
    """The forms in which an error body may quote a secret."""
    once = json.dumps(secret)[1:-1]
    coded = [base64.b64encode(b"abc"[:i] + secret.encode() + b"!").decode() for i in range(3)]
    return {
        "as it is": secret,
        "in JSON": once,
        "in JSON in JSON": json.dumps(once)[1:-1],
        "in JSON, slashes too": once.replace("/", "\\/"),
        "in JSON, all of it": "".join(f"\\u{ord(ch):04X}" for ch in secret),
        "in a URL": urllib.parse.quote(secret, safe=""),
        "in a path": urllib.parse.quote(secret),
        "in a URL in a URL": urllib.parse.quote(urllib.parse.quote(secret, safe=""), safe=""),
        "in HTML": html.escape(secret),
        "in HTML, by numbers": "".join(f"&#{ord(ch)};" for ch in secret),
        "in HTML, by hex numbers": "".join(f"&#x{ord(ch):x};" for ch in secret),
        "JSON in HTML": html.escape(once),
        "in base64": coded[0],
        "in base64 after a byte": coded[1],
        "in base64 after two bytes": coded[2],
        "in URL-safe base64": base64.urlsafe_b64encode(secret.encode()).decode(),
        "in hex": secret.encode().hex(),
    }


def traces(text: str, secrets: dict[str, str] = SECRETS) -> list[str]:
    """Which secrets stand in a text, and in which form; the core of base64 that every position shares counts too."""
    found = ["a part of one"] if "mArK" in text else []
    for name, secret in secrets.items():
        for form, written in encoded(secret).items():
            core = written[4:-6] if "base64" in form else written
            if core in text:
                found.append(f"{name} {form}")
    return found


def everything_in(folder: Path) -> str:
    """All text of all files below, the rows of databases and their compressed texts included."""
    found: list[str] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found += [str(path), path.read_bytes().decode("utf-8", "replace")]
        if path.suffix == ".sqlite":
            with closing(sqlite3.connect(path)) as db:
                for table in ("calls", "rollouts"):
                    found += [repr(row) for row in db.execute(f"SELECT * FROM {table}")]
                    found += [str(part) for row in db.execute(f"SELECT * FROM {table}") for part in row]
                found += [zlib.decompress(body).decode() for (body,) in db.execute("SELECT body FROM texts")]
    return "\n".join(found)


def said(error: BaseException) -> str:
    """Everything an exception tells: its text, its traceback, and whatever it is chained to, shown or not."""
    found: list[str] = []
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        one = queue.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            found += [str(one), repr(one), repr(vars(one)), *traceback.format_exception(one)]
            queue += [one.__cause__, one.__context__]
    return "\n".join(found)


def simulated(body: dict[str, Any]) -> str:
    """The simulated world's reply to a request."""
    backbone = SimulatedBackbone(0)
    return backbone.reply(body["messages"], seed=body.get("seed"), response_format=body.get("response_format")).text


def echo() -> str:
    """An error body's sentence that quotes every secret in every form, and an address with a user and a query."""
    forms = " ".join(form for secret in SECRETS.values() for form in encoded(secret).values())
    return f"cannot forward to https://{SECRETS['user']}:pw@upstream.test/v1?k={SECRETS['query']} : {forms}"


@pytest.fixture(autouse=True)
def unknown_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test begins in a process that knows no secret, and waits for no endpoint."""
    monkeypatch.setattr(KNOWN, "_known", {})
    monkeypatch.setattr(base, "PAUSE_S", 0.0)


@pytest.fixture
def output(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """What was printed and logged so far."""
    return lambda: "".join(capfd.readouterr()) + caplog.text


def compiled(endpoint: ScriptedEndpoint, folder: Path, **options: Any) -> Any:
    """A short run over HTTP whose LMs, the student's own too, hold a secret everywhere."""
    lm = endpoint.lm(**{**OPTIONS, **TEMPERATURE})
    student = dspy.Predict("question -> response")
    student.set_lm(lm)
    train = [dspy.Example(question=q.text, id=q.id).with_inputs("question") for q in load_simulated().questions[:9]]
    optimizer = SkillOpt(
        simulated_task(),
        steps=1,
        batch_size=2,
        judge_mode="rubric",
        role_lms=RoleLMs(default=lm),
        log_dir=folder,
        num_threads=2,
        **options,
    )
    return optimizer.compile(student, trainset=train)


class TestRunsInPython:
    """`compile` with a secret in every keyword of an LM, over HTTP."""

    def test_a_run_writes_none(self, endpoint: ScriptedEndpoint, tmp_path: Path, output: Callable[[], str]):
        """All are sent, none is written: files, saved programs, what DSPy's own ``save`` writes, logs, terminal."""
        endpoint.script(simulated)
        program = compiled(endpoint, tmp_path / "run")
        program.save(str(tmp_path / "mine.json"))
        program.detailed_results.rubric_generator.save(str(tmp_path / "rubrics.json"))
        sent = "\n".join(json.dumps([one.path, one.headers, one.body]) for one in endpoint.sent)
        assert SECRETS["header"] in json.loads(json.dumps(endpoint.sent[0].headers))["x-org"]
        assert {"body in JSON", "query in JSON", "password in JSON"} <= set(traces(sent))
        names = {path.name for path in (tmp_path / "run").rglob("*")}
        assert {"calls.sqlite", "events.jsonl", "run.json", "result.json", "solver.json", "generator.json"} <= names
        assert traces(everything_in(tmp_path)) == []
        assert traces(output() + repr(program.detailed_results)) == []

    def test_what_is_saved_still_loads(self, endpoint: ScriptedEndpoint, tmp_path: Path):
        """Model and sampling parameters stay, in the run's file and in the user's own, and the LM is DSPy's."""
        endpoint.script(simulated)
        program = compiled(endpoint, tmp_path / "run")
        program.save(str(tmp_path / "mine.json"))
        for file in (tmp_path / "run" / "solver.json", tmp_path / "mine.json"):
            loaded: Any = dspy.Predict("question -> response")
            loaded.load(str(file))
            assert type(loaded.lm) is dspy.LM
            assert (loaded.lm.model, loaded.lm.kwargs["top_p"]) == ("openai/test", 0.9)
            assert loaded.signature.instructions == program.signature.instructions
        assert program(question="Q?").response  # the program in hand keeps its account

    @pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
    def test_an_endpoint_that_quotes_them_gets_none_written(
        self, status: int, endpoint: ScriptedEndpoint, tmp_path: Path, output: Callable[[], str]
    ):
        """The run fails with a sentence, and neither it nor what it is chained to, nor any file, holds one."""
        endpoint.answers(Answer(status=status, body={"error": {"message": echo(), "code": "x"}}))
        with pytest.raises((EndpointError, ConfigurationError)) as caught:
            compiled(endpoint, tmp_path / "run")
        assert "cannot forward to" in str(caught.value)
        assert traces(said(caught.value)) == []
        assert traces(everything_in(tmp_path)) == []
        assert traces(output()) == []

    def test_a_late_failure_and_replies_that_quote_them(
        self, endpoint: ScriptedEndpoint, tmp_path: Path, output: Callable[[], str]
    ):
        """Replies are kept without them, failed calls among good ones too, and the run goes on."""

        def answer(body: dict[str, Any]) -> Answer | str:
            text = simulated(body)
            if "response_format" not in body and len(endpoint.sent) % 5 == 0:
                return Answer(status=500, body={"error": {"message": echo()}})
            return text if "response_format" in body else text.replace("]]\n", f"]]\n{SECRETS['api-key']} ", 1)

        endpoint.script(answer)
        program = compiled(endpoint, tmp_path / "run", max_ungraded=0.9)
        assert program.detailed_results.stopped_by == "steps"
        assert "mArK" not in everything_in(tmp_path)
        assert traces(output() + repr(program.detailed_results)) == []

    def test_a_program_that_raises_them(self, endpoint: ScriptedEndpoint, tmp_path: Path):
        """What the user's own program says of a secret is masked in the log and in the exception."""

        class Broken(dspy.Module):
            def __init__(self) -> None:
                super().__init__()
                self.predict = dspy.Predict("question -> response")

            def forward(self, question: str) -> Any:
                raise RuntimeError(f"no access with {SECRETS['password']}")

        endpoint.script(simulated)
        train = [dspy.Example(question=q.text).with_inputs("question") for q in load_simulated().questions[:9]]
        lms = RoleLMs(default=endpoint.lm(**OPTIONS))
        with pytest.raises(ConfigurationError, match="no access with") as caught:
            SkillOpt(simulated_task(), steps=1, role_lms=lms, log_dir=tmp_path).compile(Broken(), trainset=train)
        assert traces(said(caught.value) + everything_in(tmp_path)) == []


ENVIRONMENT = {"MARKED_API_KEY": marked("configured"), "OTHER_SERVICE_TOKEN": marked("environment")}
FROM_ENVIRONMENT = {"configured": marked("configured"), "environment": marked("environment")}
SIZES = "sizes = { train = 8, probe = 3, solver_gate = 5, generator_gate = 5, diagnostic = 2, test = 6 }"


def configured(endpoint: ScriptedEndpoint, folder: Path, model: str = "") -> str:
    """A config whose model has its key from a variable."""
    table = model or f'model = "openai/sim", api_base = "{endpoint.origin}/v1", api_key_env = "MARKED_API_KEY"'
    file = folder / "decoevo.toml"
    file.write_text(
        f'[data]\nbenchmark = "simulated"\n{SIZES}\n[models]\ndefault = {{ {table}, num_retries = 0 }}\n'
        '[optimizer]\nsteps = 1\nbatch_size = 3\naudit_every = 1\njudge_mode = "rubric"\nnum_threads = 1\n',
        encoding="utf-8",
    )
    return str(file)


class TestCommands:
    """The command line with keys in the environment."""

    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name, value in ENVIRONMENT.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)

    def test_every_command_is_silent_about_them(
        self, endpoint: ScriptedEndpoint, tmp_path: Path, output: Callable[[], str]
    ):
        """optimize, show, report, evaluate and align, with replies that quote both keys."""

        def answer(body: dict[str, Any]) -> str:
            text = simulated(body)
            quote = " ".join(FROM_ENVIRONMENT.values())
            return text if "response_format" in body else text.replace("]]\n", f"]]\n{quote} ", 1)

        endpoint.script(answer)
        config = configured(endpoint, tmp_path)
        assert main(["optimize", config, "--out", "run", "--json"]) == 0
        assert f"Bearer {FROM_ENVIRONMENT['configured']}" in {one.headers["authorization"] for one in endpoint.sent}
        for command in (
            ["show", "run", "--diff"],
            ["show", "run", "--json"],
            ["report", "run"],
            ["evaluate", "run", "--config", config],
            ["evaluate", "run/solver.json", "--config", config, "--json"],
            ["align", "run", "--config", config, "--json"],
        ):
            assert main(command) == 0, command
        assert (tmp_path / "run" / "report.html").exists()
        assert traces(everything_in(tmp_path) + output(), FROM_ENVIRONMENT) == []

    @pytest.mark.parametrize("status", [401, 500])
    @pytest.mark.parametrize("command", ["optimize", "evaluate", "align"])
    def test_failing_commands_are_silent_about_them(
        self, command: str, status: int, endpoint: ScriptedEndpoint, tmp_path: Path, output: Callable[[], str]
    ):
        """An endpoint that turns against a run and quotes both keys in every form."""
        config = configured(endpoint, tmp_path)
        arguments = ["optimize", config, "--out", "run"]
        if command != "optimize":
            endpoint.script(simulated)
            assert main(arguments) == 0
            arguments = [command, "run", "--config", config]
        forms = " ".join(form for secret in FROM_ENVIRONMENT.values() for form in encoded(secret).values())
        endpoint.answers(Answer(status=status, body={"error": {"message": f"it said {forms}"}}))
        (tmp_path / "run" / "calls.sqlite").unlink(missing_ok=True)
        assert main(arguments) == 4
        shown = output()
        assert "it said" in shown
        assert traces(everything_in(tmp_path) + shown, FROM_ENVIRONMENT) == []

    @pytest.mark.parametrize("model", ['model = "openai/sim"', 'model = "simulated"'])
    @pytest.mark.parametrize(
        "key", ["mArKhf_a8d7f6b5c4d3e2f1", "mArK9f8e7d6c5b4a", "sk-mArK-8e7d6c5b4a", "MARK8E7D6C5B"]
    )
    def test_a_key_in_the_place_of_its_variables_name(
        self, key: str, model: str, endpoint: ScriptedEndpoint, tmp_path: Path, output: Callable[[], str]
    ):
        """A pasted key is neither printed nor written; the message says what belongs there."""
        config = configured(endpoint, tmp_path, f'{model}, api_key_env = "{key}"')
        code = main(["optimize", config, "--out", "run"])
        shown = output()
        assert key not in shown
        assert key not in everything_in(tmp_path / "run")
        assert code == 0 or "NAME" in shown
        assert code == (0 if "simulated" in model and "-" not in key else 2)

    @pytest.mark.parametrize("part", ["u:mArKpw@", "?k=mArKpw", "#mArKpw"])
    def test_an_address_holds_no_secret(self, part: str, tmp_path: Path, output: Callable[[], str]):
        """A user, query or fragment in ``api_base`` is refused without being repeated."""
        url = f"http://{part}h.test/v1" if part.endswith("@") else f"http://h.test/v1{part}"
        file = tmp_path / "c.toml"
        file.write_text(
            f'[data]\nbenchmark = "simulated"\n[models]\ndefault = {{ model = "a/b", api_base = "{url}" }}\n'
        )
        assert main(["optimize", str(file)]) == 2
        shown = output()
        assert "api_base" in shown
        assert "mArKpw" not in shown


class TestWhatIsRecorded:
    """Sampling parameters by value; everything else by name and a digest that only its own store can compare."""

    def test_names_and_digests(self, endpoint: ScriptedEndpoint, recording: Recording, tmp_path: Path):
        """Each hidden keyword has a digest of its own, equal in one store and different in another."""
        endpoint.answers("ok")
        kept: list[dict[str, Any]] = []
        for name in ("one", "two"):
            bench = recording(tmp_path / f"{name}.sqlite")
            for prompt in ("a", "b"):
                bench.record(endpoint.lm(**{**OPTIONS, **TEMPERATURE}))(prompt)
            kept += [dict(call.params) for call in bench.recorder.store.calls()]
        assert kept[0] == kept[1] != kept[2] == kept[3]
        for params in kept:
            hidden = {name: value for name, value in params.items() if name not in SHOWN}
            assert OPTIONS.keys() <= hidden.keys()
            assert all(value.startswith("hmac:") for value in hidden.values())
            assert len(set(hidden.values())) == len(hidden)
            assert {name: params[name] for name in TEMPERATURE} == TEMPERATURE

    def test_the_keys_of_old_calls_stay(self, capturing: Callable[..., tuple[dspy.LM, Any]], recording: Recording):
        """With sampling parameters alone a call has the key that it always had, and an LM its identity."""
        lm, _ = capturing("ok", temperature=0.3, max_tokens=64, stop=["\n\n"], reasoning_effort="low")
        bench = recording()
        bench.record(lm, send_seed=True)("Hello", top_p=0.5, response_format={"type": "json_object"})
        assert next(bench.recorder.store.calls()).key == OLD_KEY
        assert identity(lm, b"any") == OLD_IDENTITY

    def test_a_thinking_switch_is_no_secret(self, endpoint: ScriptedEndpoint, recording: Recording):
        """``extra_body`` that only switches thinking is a sampling parameter; with anything else in it it is not."""
        switch = {"chat_template_kwargs": {"enable_thinking": False}}
        assert shown("extra_body", switch)
        assert not shown("extra_body", {**switch, "gateway": "x"})
        assert not shown("extra_body", {"chat_template_kwargs": {"enable_thinking": "mArK"}})
        endpoint.answers("ok")
        bench = recording()
        bench.record(endpoint.lm(extra_body=switch))("a")
        assert next(bench.recorder.store.calls()).params["extra_body"] == switch

    def test_a_renewed_account_replays_and_another_request_does_not(
        self, endpoint: ScriptedEndpoint, recording: Recording, tmp_path: Path
    ):
        """Tokens, headers and passwords may change between two processes of a run; what is asked for may not."""
        endpoint.answers("one", "two")

        def ask(**options: Any) -> str:
            lm = recording(tmp_path / "calls.sqlite").record(endpoint.lm(**{**OPTIONS, **options}))
            return lm("a")[0]

        renewed = {name: "another-9" for name in OPTIONS if key_free(name) and name not in ("extra_headers",)}
        assert {"api_key", "aws_session_token", "azure_ad_token", "client_secret", "token"} <= renewed.keys()
        assert [ask(), ask(), ask(**renewed)] == ["one"] * 3
        assert ask(extra_body={"gateway": "other"}) == "two"

    def test_a_run_with_secrets_goes_on(self, endpoint: ScriptedEndpoint, tmp_path: Path):
        """Resuming compares the digests: the same LM replays the whole run without a request."""
        endpoint.script(simulated)
        compiled(endpoint, tmp_path / "run")
        sent = len(endpoint.sent)
        program = compiled(endpoint, tmp_path / "run", resume=True)
        assert program.detailed_results.stopped_by == "steps"
        assert len(endpoint.sent) == sent

    def test_one_store_has_one_key(self, tmp_path: Path):
        """All processes of a store share it, and no other store has it."""
        stores = [CallStore(path) for path in (tmp_path / "a.sqlite", tmp_path / "a.sqlite", None)]
        for store in stores:
            store.close()
        one, same, other = (store.option_key for store in stores)
        assert one == same != other
        assert len(one) == 32


OLD_KEY = "b9bd362e5737688ed154178845a361e2a8c9cb2b8e90649026d35609ed8953b8"
OLD_IDENTITY = "local/capturing 8a7202eab450"


class TestMasking:
    """A known secret is found in whatever way a text may quote it."""

    @pytest.mark.parametrize("form", list(encoded("x")))
    def test_every_form(self, form: str):
        """The form is gone, the words around it stay."""
        secrets = Secrets()
        secrets.learn({"api_key": marked("form")})
        masked = secrets.mask(f"before {encoded(marked('form'))[form]} after")
        assert masked.startswith("before ")
        assert masked.endswith(" after")
        assert len(masked) <= len("before … after") + 4  # beside base64, bits that belong to its neighbours

    @given(secret=st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF), min_size=8, max_size=30), data=st.data())
    def test_any_secret_in_any_form(self, secret: str, data: st.DataObject):
        """No printable secret survives, whatever its characters."""
        secret = f"k{secret}7Z"
        secrets = Secrets()
        secrets.learn({"password": secret})
        form = data.draw(st.sampled_from(sorted(encoded(secret))))
        with contextlib.suppress(UnicodeEncodeError):
            written = encoded(secret)[form]
            assert written not in secrets.mask(f"<{written}>")

    def test_ordinary_text_is_left_alone(self):
        """A region, a provider, a short word or no key at all is no reason to change what a model said."""
        secrets = Secrets()
        options = {"aws_region_name": "us-east-1", "api_key": "none", "api_version": "2024-02-15-preview"}
        secrets.learn({**options, "extra_body": {"provider": {"order": ["anthropic"]}}, "token": "password"})
        text = "none of us-east-1, anthropic or a password needs 2024-02-15-preview"
        assert secrets.mask(text) == text

    def test_what_looks_like_a_key_is_masked_in_errors(self):
        """Also when nobody knows it: somebody else's key, a URL's user and query."""
        line = mask_error("see https://me:pw@h.test/v1?key=1#f and Bearer abcdef123 and sk-abcdef123", {})
        assert line == "see https://h.test/v1?… and Bearer … and sk-…"

    def test_what_an_address_carries(self):
        """User, password, query and fragment of an LM's address, as they stand and decoded; host and path stay."""
        secrets = Secrets()
        secrets.learn({"api_base": "https://me-myself:p%40ssw0rd@h.test/v1?sig=abc%2Fdef#fragment-9"})
        for written in ("me-myself", "p%40ssw0rd", "p@ssw0rd", "sig=abc%2Fdef", "abc/def", "fragment-9"):
            assert written not in secrets.mask(f"GET h.test/v1 {written}")
        assert secrets.mask("GET h.test/v1") == "GET h.test/v1"

    def test_options_of_the_call_are_masked_in_its_error(self):
        """Short values too, which are left alone elsewhere."""
        assert mask_error("the region us-x-1 is closed", {"extra_body": {"area": "us-x-1"}}) == "the region … is closed"
