"""The messages that graders send, byte for byte, with synthetic templates; and how official texts are read."""

from pathlib import Path
from typing import Any

import pytest

from decoevo_dspy.benchmarks import eqbench_cw, grader, healthbench, llmeval_med, researchqa, writingbench
from decoevo_dspy.benchmarks.templates import sha256
from decoevo_dspy.errors import ConfigurationError
from decoevo_dspy.values.task import Question, Turn


def make(benchmark: str, **settings: Any) -> Any:
    """`grader` with the concrete class's members in reach of the type checker."""
    return grader(benchmark, **settings)


HEALTHBENCH = '''
raise SystemExit("this file must never be executed")
GRADER_TEMPLATE = """

Conversation follows.
<<conversation>>
Item: <<rubric_item>> {"a": 1}
""".strip()
'''
WRITINGBENCH = '''
raise SystemExit("this file must never be executed")
evaluate_system = """Be an expert."""
evaluate_prompt = """
Crit ```{criteria}```
Q {query} R {response}
Again {criteria} {{"score": 1}}
"""
'''
RESEARCHQA = """
raise SystemExit("this file must never be executed")
def build_prompt(response, questions):
    prompt = (
        "Rate.\\n"
        f"R: {response}\\n"
        f"Q:\\n" + '\\n'.join(questions) + "\\n\\nO:"
    )
    return prompt
"""
LLMEVAL = (
    'raise SystemExit("this file must never be executed")\ndef f(key, Question, Sanswer, checklist, Response):\n'
    + (
        "".join(
            f'    prompt_{name} = f"""\n  {name} {{Question}}|{{Response}}|{{Sanswer}}'
            + ("|{checklist}" if name in llmeval_med.WITH_CHECKLIST else "")
            + ' {{"得分"：\\"[2]\\"}}\n  """\n'
            for name in llmeval_med.CODES
        )
    )
)


def checkout(folder: Path, name: str, text: str) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_healthbench_message(tmp_path):
    """Default system turn, turns joined by blank lines, points in brackets, one user message."""
    made = make("healthbench", official_checkout=checkout(tmp_path, "healthbench_eval.py", HEALTHBENCH))
    turns = (Turn(role="user", content="Hi"), Turn(role="assistant", content="Yes?"), Turn(role="user", content="咳嗽"))
    criterion = healthbench.Criterion(criterion='Says "x" {y}', points=-6)
    assert made.messages(Question(id="1", turns=turns), "Rest.", criterion) == [
        {
            "role": "user",
            "content": "Conversation follows.\nsystem: You are a helpful assistant.\n\nuser: Hi\n\nassistant: Yes?\n\n"
            'user: 咳嗽\n\nassistant: Rest.\nItem: [-6] Says "x" {y} {"a": 1}',
        }
    ]


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ({"conversation": "dataset"}, "Conversation follows.\nuser: Hi"),
        ({"conversation": "actual", "solver_system": "S"}, "Conversation follows.\nsystem: S\n\nuser: Hi"),
    ],
)
def test_healthbench_conversation_setting(tmp_path, settings, first):
    made = make("healthbench", official_checkout=checkout(tmp_path, "healthbench_eval.py", HEALTHBENCH), **settings)
    criterion = healthbench.Criterion(criterion="c", points=1)
    assert made.messages(Question.of("Hi"), "A", criterion)[0]["content"].startswith(first)
    assert made.settings()["conversation"] == settings["conversation"]


def test_healthbench_marker_in_the_conversation(tmp_path):
    """Official mode substitutes one marker after the other, as upstream; robust mode in a single pass."""
    folder = checkout(tmp_path, "healthbench_eval.py", HEALTHBENCH)
    criterion = healthbench.Criterion(criterion="GOLD", points=5)
    texts = {
        mode: make("healthbench", mode=mode, official_checkout=folder).messages(
            Question.of("<<rubric_item>>"), "A <<conversation>>", criterion
        )[0]["content"]
        for mode in ("official", "robust")
    }
    assert texts["official"].count("GOLD") == 2
    assert texts["robust"].count("GOLD") == 1
    assert "user: <<rubric_item>>" in texts["robust"]
    own = make("healthbench").messages(Question.of("<<rubric_item>>"), "A", criterion)[0]["content"]
    assert own.count("GOLD") == 1


def test_writingbench_message(tmp_path):
    """The criterion is the Python repr of its dict (an apostrophe switches the quotes), twice; braces are single."""
    made = make("writingbench", official_checkout=checkout(tmp_path, "prompt.py", WRITINGBENCH))
    criterion = {"name": "N", "criteria_description": "It's D", "1-2": "a", "9-10": "{query}"}
    shown = "{'name': 'N', 'criteria_description': \"It's D\", '1-2': 'a', '9-10': '{query}'}"
    assert made.messages(Question.of("问 {response}"), "R {criteria}", criterion) == [
        {"role": "system", "content": "Be an expert."},
        {
            "role": "user",
            "content": f'\nCrit ```{shown}```\nQ 问 {{response}} R R {{criteria}}\nAgain {shown} {{"score": 1}}\n',
        },
    ]


def test_researchqa_message(tmp_path):
    """Items one per line; the query is not shown. Robust mode keeps an item with a line break on one line."""
    folder = checkout(tmp_path, "compute_coverage.py", RESEARCHQA)
    message = make("researchqa", official_checkout=folder).messages("A {questions}", ["One?", "Two\nlines?"])
    assert message == [{"role": "user", "content": "Rate.\nR: A {questions}\nQ:\nOne?\nTwo\nlines?\n\nO:"}]
    robust = make("researchqa", mode="robust", official_checkout=folder).messages("A", ["Two\nlines?"])
    assert robust[0]["content"] == "Rate.\nR: A\nQ:\nTwo lines?\n\nO:"


@pytest.mark.parametrize("name", ["Evaluate.py", "evaluate/Evaluate.py"])
def test_llmeval_message(tmp_path, name):
    """System and user message; this round's problem only; missing values print as nan."""
    made = make("llmeval-med", official_checkout=checkout(tmp_path, name, LLMEVAL))
    question = Question(id="1", turns=(Turn(role="user", content="第二问"),), group="g", round=2)
    for category, reference, checked in (("医疗知识", "131", "|nan"), ("医疗推理", None, "")):
        gold = llmeval_med.Gold(category=category, key=(1, 2), sanswer=reference, checklist=None)
        assert made.messages(question, "答{Sanswer}", gold) == [
            {"role": "system", "content": "You are a helpful assistant."},
            {
                "role": "user",
                "content": f'\n  {category} 第二问|答{{Sanswer}}|{reference or "nan"}{checked} {{"得分"："[2]"}}\n  ',
            },
        ]


def test_eqbench_message(tmp_path, monkeypatch):
    """The base prompt keeps its literal seed marker; criteria as a list, negative ones joined by commas."""
    template = (
        "P {writing_prompt}\nT {test_model_response}\nC\n{creative_writing_criteria}\nN {lower_is_better_criteria}\n"
    )
    checkout(tmp_path, "data/creative_writing_judging_prompt.txt", template)
    checkout(tmp_path, "data/creative_writing_criteria.txt", "Coherent\nMeandering\n")
    checkout(tmp_path, "data/negative_criteria.txt", "Meandering")
    with pytest.raises(ConfigurationError, match="not the pinned file"):
        make("eqbench-cw", official_checkout=tmp_path)
    known = {"eqbench-cw.criteria": sha256("Coherent\nMeandering\n"), "eqbench-cw.negative": sha256("Meandering")}
    monkeypatch.setattr(eqbench_cw, "FINGERPRINTS", {**eqbench_cw.FINGERPRINTS, **known})
    made = make("eqbench-cw", official_checkout=tmp_path)
    assert made.messages("piece {x}", eqbench_cw.Gold(base_prompt="Do <SEED>.")) == [
        {"role": "user", "content": "P Do <SEED>.\nT piece {x}\nC\n- Coherent\n- Meandering\nN Meandering\n"}
    ]


def test_only_the_pinned_text_counts_as_official(tmp_path, monkeypatch):
    """Another text is used when the user asks for it, but never labelled official; the hash printed is the text's."""
    folder = checkout(tmp_path, "healthbench_eval.py", HEALTHBENCH)
    made = make("healthbench", official_checkout=folder)
    assert not made.official_prompt
    assert made.settings()["prompt_source"] == ["checkout, but not the pinned text"]
    monkeypatch.setattr(healthbench, "FINGERPRINTS", {"healthbench": made.prompt_hash})
    assert make("healthbench", official_checkout=folder).official_prompt
    assert not make("healthbench").official_prompt
    assert make("healthbench").settings()["prompt_source"] == ["own words"]


@pytest.mark.parametrize(
    ("benchmark", "name", "text", "says"),
    [
        ("healthbench", "other.py", "", "no healthbench_eval.py"),
        ("healthbench", "healthbench_eval.py", "GRADER_TEMPLATE = open('x').read()", "no string 'GRADER_TEMPLATE'"),
        ("healthbench", "healthbench_eval.py", "GRADER_TEMPLATE = 'no markers'", "has slots"),
        ("healthbench", "healthbench_eval.py", "def (", "not Python"),
        ("writingbench", "prompt.py", "evaluate_system = 'a'\nevaluate_prompt = '{query!r}'", "not a plain name"),
        ("researchqa", "compute_coverage.py", "prompt = f'{response} {questions:>3}'", "no string 'prompt'"),
    ],
)
def test_a_checkout_without_the_prompt_is_an_error(tmp_path, benchmark, name, text, says):
    with pytest.raises(ConfigurationError, match=says):
        make(benchmark, official_checkout=checkout(tmp_path, name, text))


def test_the_real_eqbench_files_give_the_official_message(shared):
    """With the official files the rendered message has the pinned hash of the official rendering."""
    made = make("eqbench-cw", official_checkout=shared / "eqbench_cw_v3")
    assert made.official_prompt
    text = made.messages("RESP", eqbench_cw.Gold(base_prompt="WP"))[0]["content"]
    assert sha256(text) == "33554411e5e22916e22f6a10a0c9ecd6a2932dc809fba7819af819738e910ad1"


def test_official_parameters_and_models():
    assert make("healthbench").default_model == "gpt-4.1-2025-04-14"
    assert healthbench.PARAMS == {"temperature": 0.5, "max_tokens": 2048}
    assert make("writingbench").params == {"temperature": 1.0, "top_p": 0.95, "max_tokens": 2048}
    assert make("writingbench", send_top_p=False).params == {"temperature": 1.0, "max_tokens": 2048}
    assert (researchqa.DEFAULT_MODEL, researchqa.PARAMS) == ("gpt-4.1-mini", {"temperature": 0})
    assert llmeval_med.DEFAULT_MODEL == "gpt-4o"
    judge = make("eqbench-cw")
    assert judge.params("openrouter/anthropic/claude-3.7-sonnet") == {
        "temperature": 0.0,
        "max_tokens": 1000,
        "min_p": 0.1,
    }
    assert "min_p" not in judge.params("openai/gpt-4o")
    assert writingbench.DEFAULT_MODEL.startswith("claude-3-7-sonnet")
