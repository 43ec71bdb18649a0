"""Configs: what is accepted, what is refused, and in which words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy.commands.build import (
    build_budget,
    build_grader,
    build_partitions,
    build_role_lms,
    build_student,
    build_task,
    load_data,
    parts_for,
    protected_text,
)
from decoevo_dspy.commands.config import Config, load_config, make_config
from decoevo_dspy.errors import ConfigurationError, DataError
from decoevo_dspy.values.settings import NAMES

SIMULATED = '[data]\nbenchmark = "simulated"\n[models]\ndefault = { model = "simulated" }\n'


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Config]:
    """Writes a config and loads it."""

    def write(text: str) -> Config:
        file = tmp_path / "decoevo.toml"
        file.write_text(text, encoding="utf-8")
        return load_config(file)

    return write


def test_smallest_config(load: Callable[[str], Config]):
    """A benchmark and a model are enough: the preset's task, default sizes, no budget."""
    config = load(SIMULATED)
    dataset = load_data(config)
    sizes = {name: len(members) for name, members in build_partitions(config, dataset).items()}
    assert (sizes["train"], sizes["test"], sum(sizes.values())) == (60, 80, 300)
    assert "simulated" in build_task(config).name
    assert build_budget(config).max_calls is None
    assert build_role_lms(config).lm("judge").model == "simulated"
    assert build_grader(config).id == "simulated-world"


def test_contract_example(load: Callable[[str], Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A config with every table loads; every role's LM is the one it names, with thinking switched off."""
    (tmp_path / "hard.jsonl").write_text("{}\n", encoding="utf-8")
    monkeypatch.setenv("SOME_KEY", "sk-never-written")
    config = load(
        """
        [task]
        name = "health"
        description = "d"
        evaluation = "e"
        [data]
        benchmark = "healthbench"
        path = "hard.jsonl"
        sizes = { pilot = 40, train = 80, probe = 24, solver_gate = 40, generator_gate = 40, test = 200 }
        seed = 0
        [models]
        default = { model = "openai/gpt-4o", api_key_env = "SOME_KEY" }
        judge = { model = "hosted_vllm/Qwen/Qwen3-8B", api_base = "http://localhost:8000/v1", thinking = false }
        grader = { model = "ollama_chat/qwen3", api_base = "http://localhost:11434", thinking = false }
        matcher = { temperature = 0.5 }
        [optimizer]
        method = "decoevo"
        steps = 12
        [budget]
        max_calls = 10000
        max_tokens = 40000000
        max_usd = 50.0
        """
    )
    lms = build_role_lms(config)
    assert lms.lm("solver").model == "openai/gpt-4o"
    assert lms.lm("judge").kwargs["extra_body"] == {"chat_template_kwargs": {"enable_thinking": False}}
    assert lms.lm("judge").kwargs["api_key"] == "none"
    assert lms.lm("grader").kwargs["think"] is False
    assert (lms.lm("matcher").model, lms.lm("matcher").kwargs["temperature"]) == ("openai/gpt-4o", 0.5)
    assert lms.lm("matcher").kwargs["api_key"] == "sk-never-written"
    assert build_budget(config).max_tokens == 40_000_000
    assert "sk-never" not in str(config.resolved())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[data\n", ["not TOML", "line 1"]),
        (SIMULATED + "[optimiser]\nsteps = 1\n", ["optimiser: unknown key", "did you mean optimizer?"]),
        (SIMULATED.replace("[models]", "sed = 1\n[models]"), ["data.sed: unknown key", "did you mean seed?", "path"]),
        (SIMULATED.replace('"simulated" }', '"simulated", modle = 1 }'), ["models.default.modle", "mean model?"]),
        (SIMULATED + "[optimizer]\nstep = 1\n", ["optimizer.step: unknown key", "did you mean steps?"]),
        (SIMULATED + "[optimizer]\nsteps = -1\n", ["optimizer.steps = -1", "whole number from 0"]),
        (SIMULATED + '[optimizer]\nsteps = "3"\n', ["optimizer.steps = '3'", "whole number"]),
        (SIMULATED + '[optimizer]\nnum_threads = "3"\n', ["optimizer.num_threads", "integer", "not str"]),
        (SIMULATED + '[optimizer]\njudge_mode = "x"\n', ["optimizer.judge_mode", '"criterion", "rubric" or "logprob"']),
        (SIMULATED + '[optimizer]\nmethod = "deco"\n', ["optimizer.method: 'deco'", "zero-shot", "decoevo"]),
        (SIMULATED + '[task]\npreset = "healthbank"\n', ["task.preset: 'healthbank'", "healthbench", "simulated"]),
        (SIMULATED + "[budget]\nmax_calls = 0\n", ["budget.max_calls", "greater than 0"]),
        (SIMULATED + '[grader]\nmode = "lax"\n', ["grader.mode", "'official' or 'robust'"]),
        (SIMULATED + '[grader]\nofficial_checkout = "nowhere"\n', ["grader.official_checkout", "nowhere"]),
        (SIMULATED.replace("[models]", "sizes = { trian = 3 }\n[models]"), ["data.sizes.trian", "train"]),
        (SIMULATED.replace("[models]", "sizes = { train = -3 }\n[models]"), ["data.sizes.train", "-3"]),
        (SIMULATED.replace('"simulated"\n', '"healthbunch"\n'), ["data.benchmark: 'healthbunch'", "healthbench"]),
        (SIMULATED.replace('"simulated"\n', '"healthbench"\n'), ["data.path", "local file"]),
        (SIMULATED.replace('"simulated"\n', '"healthbench"\npath = "no"\n'), ["data.path: no such file", "no"]),
        (SIMULATED.replace('"simulated"\n', '"healthbench"\nhub = "a/b"\n'), ["data.hub", "data.revision"]),
        (SIMULATED.replace('"simulated"\n', '"jsonl"\npath = "decoevo.toml"\n'), ["task.description: is missing"]),
        ('[data]\nbenchmark = "simulated"\n', ["models: is missing"]),
        ('[models]\ndefault = { model = "simulated" }\n', ["data: is missing"]),
        (SIMULATED.replace('model = "simulated"', "thinking = false"), ["models", "default needs a model"]),
        (SIMULATED.replace('"simulated" }', '"a/b", api_base = "http://u:p@h/v1" }'), ["models.default", "api_base"]),
        (SIMULATED.replace('"simulated" }', '"a/b", world_seed = 3 }'), ["models.default", "world"]),
        (SIMULATED.replace('"simulated" }', '"a/b", world_name = "v2" }'), ["models.default", "world_name"]),
        (SIMULATED.replace('"simulated" }', '"simulated", world_name = "v3" }'), ["models.default", "'v3'", "v2"]),
    ],
)
def test_mistakes_are_one_line_each(load: Callable[[str], Config], text: str, words: list[str]):
    """Every mistake names the file and the key path, and says what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    message = str(caught.value)
    lines = message.splitlines()
    assert all("decoevo.toml: " in line for line in lines)
    assert [word for word in words if word not in message] == []
    assert caught.value.exit_code == 2


def test_every_mistake_is_named(load: Callable[[str], Config]):
    """Two mistakes are two lines."""
    with pytest.raises(ConfigurationError) as caught:
        load(SIMULATED + "[optimizer]\nstep = 1\nsteps = -1\n")
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("key", ['api_key = "sk-secret123"', 'api_key_env = "sk-secret123"'])
def test_literal_key_is_refused_and_never_repeated(load: Callable[[str], Config], key: str):
    """A key in the file is an error that names the variable to use, and does not print the key."""
    with pytest.raises(ConfigurationError, match="environment variable") as caught:
        load(SIMULATED.replace('"simulated" }', f'"openai/gpt-4o", {key} }}'))
    assert "sk-secret123" not in str(caught.value)
    if key.startswith("api_key ="):
        assert 'api_key_env = "OPENAI_API_KEY"' in str(caught.value)


def test_missing_environment_variable(load: Callable[[str], Config], monkeypatch: pytest.MonkeyPatch):
    """A named variable that is not set is an error that names it."""
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    config = load(SIMULATED.replace('"simulated" }', '"openai/x", api_key_env = "NO_SUCH_KEY" }'))
    with pytest.raises(ConfigurationError, match=r"models\.default\.api_key_env.*NO_SUCH_KEY is not set"):
        build_role_lms(config)


def test_thinking_needs_an_endpoint_that_knows_it(load: Callable[[str], Config]):
    """An option that the endpoint would ignore is an error, not silence."""
    config = load(SIMULATED.replace('"simulated" }', '"anthropic/x", thinking = false }'))
    with pytest.raises(ConfigurationError, match=r"models\.default\.thinking"):
        build_role_lms(config)


def test_missing_and_unreadable_files(tmp_path: Path):
    """No file, and one that is not UTF-8."""
    with pytest.raises(ConfigurationError, match="no such file"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"[task]\nname = '\xe9'\n")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load_config(tmp_path / "latin.toml")


def rows(tmp_path: Path, text: str, sizes: str = "") -> Config:
    """A config over plain rows."""
    (tmp_path / "rows.jsonl").write_text(text, encoding="utf-8")
    file = tmp_path / "decoevo.toml"
    file.write_text(
        '[task]\nname = "n"\ndescription = "d"\nevaluation = "e"\n'
        f'[data]\nbenchmark = "jsonl"\npath = "rows.jsonl"\n{sizes}\n'
        '[models]\ndefault = { model = "simulated" }\n',
        encoding="utf-8",
    )
    return load_config(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"id": "a", "question": "one?"}\n{"id": "a", "question": "two?"}\n', ["'a'"]),
        ('{"id": "a", "question": "One?"}\n{"id": "b", "question": "one"}\n', ["'a'", "'b'", "same text"]),
        ('{"id": "a", "question": "one?"}\n', ["too few rows"]),
        ('{"id": "a"}\n', ["row 1", "question"]),
    ],
)
def test_bad_rows(tmp_path: Path, text: str, words: list[str]):
    """Duplicate ids, one text under two ids, too few rows and broken rows name the rows."""
    config = rows(tmp_path, text)
    with pytest.raises(DataError) as caught:
        build_partitions(config, load_data(config))
    assert [word for word in words if word not in str(caught.value)] == []


def test_sizes_beyond_the_data(tmp_path: Path):
    """Too few rows for the sizes that the config names."""
    config = rows(tmp_path, "".join(f'{{"question": "Question {n}?"}}\n' for n in range(20)), "sizes = { train = 30 }")
    with pytest.raises(DataError, match=r"too few rows.*30.*20"):
        build_partitions(config, load_data(config))


@given(st.integers(min_value=13, max_value=400), st.integers(min_value=0, max_value=9))
def test_default_shares_serve_every_partition(count: int, seed: int):
    """From 13 rows on, every partition that a run needs has a question, and none stands in two."""
    from decoevo_dspy.benchmarks.base import Dataset, SealedGold
    from decoevo_dspy.values.task import Question

    questions = tuple(Question.of(f"Question number {n}?", id=f"q{n}") for n in range(count))
    config = make_config(
        {
            "task": {"name": "n", "description": "d", "evaluation": "e"},
            "data": {"benchmark": "jsonl", "path": __file__},
            "models": {"default": {"model": "simulated"}},
        }
    )
    partitions = build_partitions(config, Dataset(name="jsonl", questions=questions, gold=SealedGold({}, {})), seed)
    sizes = {name: len(members) for name, members in partitions.items()}
    assert all(sizes[name] for name in sizes if name != "pilot")
    assert sum(sizes.values()) <= count


def test_families_stay_together(load: Callable[[str], Config]):
    """Questions of one family never stand in two partitions, though each has a stratum and an id of its own."""
    from decoevo_dspy.benchmarks.base import Dataset, SealedGold
    from decoevo_dspy.values.task import Question

    questions = tuple(Question.of(f"Prompt {n // 3}, variant {n % 3}", id=f"q{n}") for n in range(90))
    kin = {q.id: f"family-{int(q.id[1:]) // 3}" for q in questions}
    dataset = Dataset(name="eqbench-cw", questions=questions, gold=SealedGold({}, {}), kin=kin)
    sizes = "sizes = { train = 8, probe = 3, solver_gate = 4, generator_gate = 4, test = 20 }"
    config = load(SIMULATED.replace("[models]", f"{sizes}\n[models]"))
    places: dict[str, set[str]] = {}
    partitions = build_partitions(config, dataset)
    for name, members in partitions.items():
        for question in members:
            assert question.group is None
            places.setdefault(kin[question.id], set()).add(name)
    assert all(len(found) == 1 for found in places.values())


def test_optimiser_sees_no_other_partition(load: Callable[[str], Config]):
    """The parts hold the four partitions of the loop only; test and diagnostic questions are protected by hash."""
    config = load(SIMULATED)
    dataset = load_data(config)
    partitions, student = build_partitions(config, dataset), build_student()
    parts = parts_for(partitions, student)
    seen = {item.id for name in ("train", "probe", "solver_gate", "generator_gate") for item in getattr(parts, name)}
    assert not seen & {q.id for q in (*partitions.test, *partitions.diagnostic, *partitions.pilot)}
    from decoevo_dspy.values.leaks import protected_passages

    protected = protected_text(dataset, partitions)
    assert all(protected_passages([q.text]) <= protected for q in partitions.test)
    assert len(dataset.gold.passages())
    assert dataset.gold.passages() <= protected
    assert dataset.gold.times_opened == 0


def test_every_setting_is_a_key(load: Callable[[str], Config]):
    """Each constructor keyword of the teleprompters can stand in ``[optimizer]``."""
    from dataclasses import asdict

    from decoevo_dspy.values.settings import Settings

    values: dict[str, Any] = asdict(Settings())
    text = "".join(
        f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}\n" for name, value in values.items()
    )
    assert set(load(SIMULATED + "[optimizer]\n" + text).optimizer.settings) == set(NAMES)


def test_relative_paths_follow_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``data.path`` is relative to the config, wherever the command runs."""
    text = "".join(f'{{"question": "Question {n}?"}}\n' for n in range(20))
    (tmp_path / "deep").mkdir()
    config = rows(tmp_path / "deep", text)
    monkeypatch.chdir(tmp_path)
    assert (
        len(load_data(load_config(Path("deep") / "decoevo.toml")).questions) == len(load_data(config).questions) == 20
    )


def test_world_parameters(load: Callable[[str], Config]):
    """The simulated world can be set up from a config; an unknown parameter is named."""
    from decoevo_dspy.simulation.engine import SimulatedEngine

    config = load(
        SIMULATED.replace('"simulated" }', '"simulated", world = { contrastive_accuracy = 0.5 }, world_seed = 3 }')
    )
    engine = build_role_lms(config).lm("judge").engine  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(engine, SimulatedEngine)
    assert (engine.backbone.seed, engine.backbone.parameters.contrastive_accuracy) == (3, 0.5)
    with pytest.raises(ConfigurationError, match=r"world\.luck: unknown key"):
        build_role_lms(load(SIMULATED.replace('"simulated" }', '"simulated", world = { luck = 1.0 } }')))
