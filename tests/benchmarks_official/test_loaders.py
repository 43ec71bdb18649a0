"""Loaders: questions, strata, rounds, kin, sealed gold; and one clear line for each kind of bad data."""

import pickle

import pytest

from decoevo_dspy.benchmarks import NAMES, load, load_hub
from decoevo_dspy.errors import ConfigurationError, DataError, ExecutionError


def test_healthbench(rows, jsonl):
    turns = [
        {"role": "user", "content": "Hola"},
        {"role": "assistant", "content": "¿Sí?"},
        {"role": "user", "content": "痛い\ud800"},
    ]
    data = load("healthbench", jsonl([rows["healthbench"]("a", [(5, "c")], prompt=turns)]))
    (question,) = data.questions
    assert (question.id, question.stratum, len(question.turns)) == ("a", "hedging", 3)
    assert question.turns[2].content == "痛い\ufffd"
    assert data.gold.open_for_evaluation(["a"])["a"].criteria[0].points == 5


def test_writingbench_and_its_requirement_files(rows, jsonl):
    jsonl([rows["writingbench"](2, "B")], "requirement/length/length_subset_C.jsonl")
    path = jsonl([rows["writingbench"](1, lang="zh"), rows["writingbench"](2)], "benchmark_all.jsonl")
    data = load("writingbench", path)
    assert [q.id for q in data.questions] == ["1", "2"]
    gold = data.gold.open_for_evaluation(["1", "2"])
    assert gold["1"].requirements == {}
    assert gold["2"].requirements == {"length": ("B",)}
    assert list(gold["1"].checklist[0]) == ["name", "criteria_description", "1-2", "3-4", "5-6", "7-8", "9-10"]


def test_researchqa(rows, as_json, jsonl):
    listed = [rows["researchqa"]("1-s1", 9), rows["researchqa"]("1-s2", 1)]
    for path in (as_json(listed), jsonl(listed)):
        data = load("researchqa", path)
        assert [(q.id, q.stratum) for q in data.questions] == [("1-s1", "D"), ("1-s2", "D")]


def test_llmeval(rows, as_json):
    """Bare NaN is missing, an integer reference is text, group codes repeat across categories, rounds are joined."""
    row = rows["llmeval-med"]
    path = as_json(
        {
            "医疗知识": [row(1), row(1, 2)],
            "医疗语言理解": [row(1, category1="一般语言理解", checklist=float("nan"), sanswer=131)],
        }
    )
    data = load("llmeval-med", path)
    assert [(q.id, q.group, q.round, q.stratum) for q in data.questions] == [
        ("MK-1-1", "MK-1", 1, "医疗知识"),
        ("MK-1-2", "MK-1", 2, "医疗知识"),
        ("MLU-1-1", "MLU-1", 1, "医疗语言理解"),
    ]
    gold = data.gold.open_for_evaluation(["MLU-1-1"])["MLU-1-1"]
    assert (gold.sanswer, gold.checklist) == ("131", None)
    assert data.kin["MK-1-2"] == "MK-1"


def test_eqbench(rows, as_json):
    """Three seeded variants per prompt, seeds by iteration modulo their number; the judge's prompt keeps the marker."""
    data = load("eqbench-cw", as_json({"7": rows["eqbench-cw"](7)}))
    assert [(q.id, q.text) for q in data.questions] == [
        ("7-1", "Write 7. s1 End."),
        ("7-2", "Write 7. s2 End."),
        ("7-3", "Write 7. s1 End."),
    ]
    assert set(data.kin.values()) == {"7"}
    assert data.gold.open_for_evaluation(["7-1"])["7-1"].base_prompt == "Write 7. <SEED> End."


def test_jsonl(jsonl):
    path = jsonl(
        [
            {"question": "What? \u2028 line", "stratum": "s"},
            {"id": 7, "prompt": [{"role": "user", "content": "x"}], "rubric": [{"criterion": "c", "points": 2}]},
        ]
    )
    data = load("jsonl", path)
    assert data.questions[0].id.startswith("q-")
    assert (data.questions[0].stratum, data.questions[1].id) == ("s", "7")
    assert data.questions == load("jsonl", path).questions


def test_gold_is_sealed(rows, jsonl):
    data = load("healthbench", jsonl([rows["healthbench"]("a", [(5, "SECRET criterion " * 10)])]))
    assert "SECRET" not in repr(data)
    assert "SECRET" not in "".join(q.text for q in data.questions)
    with pytest.raises(TypeError):
        pickle.dumps(data.gold)
    assert len(data.gold.passages())


HB, WB, RQ, LM, EQ = "healthbench", "writingbench", "researchqa", "llmeval-med", "eqbench-cw"


@pytest.mark.parametrize(
    ("benchmark", "change", "says"),
    [
        (HB, lambda r: [r("a", [(5, "c")]), r("a", [(5, "c")])], r"row 2: prompt_id 'a' stands already at .*row 1"),
        (HB, lambda r: [{**r("a", []), "rubrics": []}], r"row 1: field 'rubrics' is an empty list"),
        (HB, lambda r: [r("a", [(0, "c")])], r"row 1, rubrics\[0\]: field 'points'"),
        (HB, lambda r: [r("a", [(-5, "c")])], "no criterion with positive points"),
        (HB, lambda r: [r("a", [(5, "c")], prompt=[{"role": "assistant", "content": "x"}])], "end with a user turn"),
        (HB, lambda r: [r("a", [(5, "c")], prompt=[{"role": "tool", "content": "x"}])], r"prompt\[0\]: field 'role'"),
        (HB, lambda r: [{"prompt": [], "rubric": "x", "prompt_id": "a"}], "meta-evaluation file"),
        (HB, lambda r: [{**r("a", [(5, "c")]), "prompt_id": 4}], "field 'prompt_id' must be str, not int"),
        (HB, lambda r: [[1]], "row 1: must be one JSON object"),
        (WB, lambda r: [{"index": 1, "criteria": [], "query": "q"}], "row 1: field 'checklist' is missing .*v1"),
        (WB, lambda r: [r(1), r(1)], "row 2: index '1'"),
        (WB, lambda r: [{**r(1), "index": True}], "field 'index' must be int, not bool"),
        (WB, lambda r: [r(1, checklist=[{"name": "A"}])], r"checklist\[0\]: field 'criteria_description' is missing"),
        (RQ, lambda r: [r("a", 0)], "row 1: field 'rubric' is an empty list"),
        (
            RQ,
            lambda r: [r("a", 1, rubric=[{"rubric_item": "x", "type": "Other"}])],
            "field 'type' must be list, not str",
        ),
        (RQ, lambda r: [{k: v for k, v in r("a", 1).items() if k != "query"}], "field 'query' is missing"),
        (LM, lambda r: {"口腔": [r(1)]}, "key '口腔' is not one of"),
        (LM, lambda r: {"医疗知识": [r(1), r(1)]}, "row 2: .*stands already"),
        (LM, lambda r: {"医疗知识": [r(1), r(1, 3)]}, "row 2: field 'round' is 3 where 2 was due"),
        (LM, lambda r: {"医疗知识": [{k: v for k, v in r(1).items() if k != "sanswer"}]}, "field 'sanswer' is missing"),
        (LM, lambda r: {"医疗知识": [r(1, sanswer=[1])]}, "field 'sanswer' must be text, not list"),
        (LM, lambda r: [], "must be one object"),
        (EQ, lambda r: {"1": r(1, writing_prompt="no marker")}, "prompt '1': field 'writing_prompt' must hold <SEED>"),
        (EQ, lambda r: {"1": r(1, seed_modifiers=[])}, "field 'seed_modifiers'"),
        (EQ, lambda r: {}, "must be one object"),
    ],
)
def test_bad_rows_are_named_in_one_line(rows, jsonl, as_json, benchmark, change, says):
    made = change(rows[benchmark])
    path = as_json(made) if benchmark in (LM, EQ) or not made else jsonl(made)
    with pytest.raises(DataError, match=says) as caught:
        load(benchmark, path)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ([{"text": "x"}], "give either field 'question'"),
        ([{"question": "x", "prompt": []}], "give either field 'question'"),
        ([{"question": 3}], "field 'question' must be str, not int"),
        ([{"question": "x", "id": ""}], "field 'id' is blank"),
        ([{"question": "Same?"}, {"question": "same"}], "row 2: id .* stands already"),
        ([{"question": "x", "rubric": [{"criterion": "c"}]}], r"rubric\[0\]: field 'points' is missing"),
    ],
)
def test_bad_plain_rows(jsonl, change, says):
    with pytest.raises(DataError, match=says):
        load("jsonl", jsonl(change))


@pytest.mark.parametrize("benchmark", [name for name in NAMES if name != "simulated"])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        ("häßlich".encode("latin-1"), "not UTF-8"),
        (b'{"a": 1,}', "invalid JSON"),
        (b"[" * 100_000, "invalid JSON"),
        (None, "no such file"),
    ],
)
def test_unreadable_files(tmp_path, benchmark, content, says):
    path = tmp_path / "x.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=says) as caught:
        load(benchmark, path)
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        load("jsonl", tmp_path)


def test_bare_nan_is_an_error_outside_llmeval(rows, jsonl):
    path = jsonl([rows["writingbench"](1), rows["writingbench"](2, domain2=float("nan"))])
    with pytest.raises(DataError, match=r"row 2: .*bare NaN is not JSON"):
        load("writingbench", path)


def test_a_byte_order_mark_and_blank_lines_do_not_matter(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf\r\n{"question": "a"}\r\n\r\n{"question": "b"}')
    assert len(load("jsonl", path).questions) == 2


def test_a_message_never_quotes_gold(rows, jsonl):
    row = rows["healthbench"]("a", [(5, "SECRET")])
    row["rubrics"][0]["points"] = "SECRET"
    with pytest.raises(DataError) as caught:
        load("healthbench", jsonl([row]))
    assert "SECRET" not in str(caught.value)


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    parquet.write_table(pyarrow.table({"id": ["a"], "question": ["q?"]}), str(tmp_path / "x.parquet"))
    assert load("jsonl", tmp_path / "x.parquet").questions[0].text == "q?"
    (tmp_path / "y.parquet").write_text("no")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        load("jsonl", tmp_path / "y.parquet")


def test_names():
    with pytest.raises(ConfigurationError, match="use one of healthbench, writingbench"):
        load("nope", "x")
    with pytest.raises(ConfigurationError, match=r"data\.path"):
        load("healthbench")


class TestHub:
    """`load_hub` with the download replaced."""

    SHA = "0123456789abcdef" * 2 + "01234567"

    def test_pinned_file(self, monkeypatch, jsonl):
        hub = pytest.importorskip("huggingface_hub")
        path = jsonl([{"question": "a"}])
        asked = {}
        monkeypatch.setattr(hub, "hf_hub_download", lambda **kw: asked.update(kw) or str(path))
        data = load_hub("jsonl", "me/data", "x.jsonl", self.SHA)
        assert (data.revision, len(data.questions)) == (self.SHA, 1)
        assert asked == {"repo_id": "me/data", "filename": "x.jsonl", "repo_type": "dataset", "revision": self.SHA}

    @pytest.mark.parametrize("revision", ["main", "", "0123"])
    def test_a_branch_is_not_pinned(self, revision):
        with pytest.raises(ConfigurationError, match=r"data\.revision"):
            load_hub("jsonl", "me/data", "x.jsonl", revision)

    @pytest.mark.parametrize(
        ("error", "kind"),
        [("LocalEntryNotFoundError", ExecutionError), ("HFValidationError", DataError), (None, ExecutionError)],
    )
    def test_errors(self, monkeypatch, error, kind):
        hub = pytest.importorskip("huggingface_hub")
        raised = getattr(hub.errors, error)("x") if error else OSError("offline")

        def fail(**_):
            raise raised

        monkeypatch.setattr(hub, "hf_hub_download", fail)
        with pytest.raises(kind, match=r"data\.hub"):
            load_hub("jsonl", "me/data", "x.jsonl", self.SHA)


class TestRealRows:
    """Third-party rows where they are present: only counts are asserted, nothing is printed."""

    @pytest.mark.parametrize(
        ("benchmark", "path", "count"),
        [
            (HB, "healthbench/hard_sample50.jsonl", 50),
            (WB, "writingbench/length_subset.jsonl", 222),
            (WB, "writingbench/length_subset_C.jsonl", 222),
            (RQ, "researchqa/SYNTHETIC_schema_example.json", 2),
            (LM, "llmeval_med/dataset.json", 667),
            (EQ, "eqbench_cw_v3/creative_writing_prompts_v3.json", 96),
        ],
    )
    def test_counts(self, shared, benchmark, path, count):
        assert len(load(benchmark, shared / path).questions) == count

    def test_writingbench_length_pairs(self, shared):
        data = load(WB, shared / "writingbench/length_subset.jsonl")
        gold = data.gold.open_for_evaluation([q.id for q in data.questions])
        assert sum(len(item.requirements["length"]) for item in gold.values()) == 226

    def test_llmeval_strata(self, shared):
        data = load(LM, shared / "llmeval_med/dataset.json")
        counts = [
            sum(q.stratum == name for q in data.questions) for name in dict.fromkeys(q.stratum for q in data.questions)
        ]
        assert sorted(counts) == [102, 102, 109, 141, 213]
        assert max(q.round for q in data.questions) == 5

    def test_legacy_writingbench_is_refused(self, shared):
        with pytest.raises(DataError, match="v1"):
            load(WB, shared / "writingbench/legacy_v1_sample20.jsonl")
