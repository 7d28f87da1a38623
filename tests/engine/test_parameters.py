import inspect
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.engine.keywords import RunParameters
from nearkin.settings.setting import ADVANCED
from nearkin.settings.table import KEYWORDS
from scripts.write_keywords import keyword_modules

TEXTS = ["the cats sat on the mats", "the cat sat on the mat", "a dog lay on a rug", ""]


def spec_of(**parameters: Any) -> nk.Spec:
    result = nk.dedup(TEXTS, **parameters)
    return result._open[0].run.options.spec


def test_keywords_are_written_as_the_settings_say() -> None:
    for path, text in keyword_modules().items():
        assert path.read_text("utf-8") == text, "run python -m scripts.write_keywords"
    assert set(get_type_hints(RunParameters)) == set(KEYWORDS)


@pytest.mark.parametrize(
    ("parameters", "fields"),
    [
        ({"shingle": "words:2"}, {"unit": "words", "n": 2}),
        ({"shingle": "chars:5", "k": 64}, {"unit": "chars", "n": 5, "k": 64}),
        ({"stem": "english"}, {"stem": "english"}),
        ({"normalise": "nfkc,lower,digits"}, {"normalise": ("nfkc", "lower", "digits")}),
        ({"normalise": ["lower"]}, {"normalise": ("lower",)}),
        ({"scheme": "classic", "seed": 7}, {"scheme": "classic", "seed": 7}),
        ({"slot_bits": 8}, {"slot_bits": 8}),
        ({"base_hash": "murmur3"}, {"base_hash": "murmur3"}),
        ({"spec_version": 1}, {"version": 1}),
        ({"measure": "simhash", "weights": "tf", "k": 128}, {"measure": "simhash", "k": 128}),
    ],
)
def test_options_of_the_spec_are_keywords(
    parameters: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert spec_of(**parameters) == nk.Spec(**fields)


def test_a_key_makes_a_keyed_spec() -> None:
    key, _ = nk.HashKey.generate()
    assert spec_of(key=key).key_id == key.id
    with pytest.raises(nk.UsageError, match="base_hash='xxh3' and `key` exclude each other"):
        nk.dedup(TEXTS, key=key, base_hash="xxh3")


def test_weights_by_document_frequencies_are_counted() -> None:
    counted = nk.frequencies(TEXTS, spec=nk.Spec(measure="simhash"))
    assert spec_of(measure="simhash", weights="tfidf").frequencies == counted.fingerprint
    given = spec_of(measure="simhash", weights="tfidf", frequencies=counted)
    assert given.frequencies == counted.fingerprint
    with pytest.raises(nk.UsageError, match="weights='tf' requires measure='simhash'"):
        nk.dedup(TEXTS, weights="tf")


def test_stems_make_forms_of_a_word_equal() -> None:
    assert nk.dedup(TEXTS, stem="english").kept.tolist() == [True, False, True, True]
    assert nk.dedup(TEXTS).kept.all()


@pytest.mark.parametrize(("memory", "size"), [("1GB", 10**9), ("1GiB", 1 << 30), (10**9, 10**9)])
def test_memory_is_a_size_or_a_number(memory: Any, size: int) -> None:
    assert nk.dedup(TEXTS, memory=memory)._open[0].run.options.memory == size


@pytest.mark.parametrize("given", [{}, {"workers": None}])
def test_runs_use_the_cores_of_the_process(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.runtime.process_limits._core_quotas", lambda root: [])
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(5)))
    assert nk.dedup(TEXTS, **given)._open[0].run.options.workers == 5
    assert nk.dedup(TEXTS, workers=3)._open[0].run.options.workers == 3


def test_contradictory_keywords_are_refused() -> None:
    with pytest.raises(nk.UsageError, match="spec= and k=64 exclude each other"):
        nk.dedup(TEXTS, spec=nk.Spec(), k=64)
    with pytest.raises(nk.UsageError, match="invalid shingle 'word:3'"):
        nk.dedup(TEXTS, shingle="word:3")
    with pytest.raises(nk.UsageError, match="memory '4 gigs' is not a size"):
        nk.dedup(TEXTS, memory="4 gigs")
    vectors = {"vector": np.eye(4)}
    with pytest.raises(nk.UsageError, match=r"`vector` and `shingle` exclude each other"):
        nk.dedup(vectors, vector="vector", shingle="words:2")
    assert nk.dedup(vectors, vector="vector", k=256).kept.all()


def test_reading_options_are_keywords(tmp_path: Path) -> None:
    (tmp_path / ".hidden.txt").write_text("one two three")
    (tmp_path / "a.jsonl").write_text('{"text": "one two three"}\n{"text": 5}\n')
    assert len(nk.dedup(tmp_path)) == 1
    assert len(nk.dedup(tmp_path, hidden=True)) == 2
    with pytest.raises(nk.RunError, match=r"a\.jsonl, line \d"):
        nk.dedup(tmp_path, on_error="fail")
    with pytest.raises(nk.UsageError, match="on_error='stop' is not one of quarantine, fail"):
        nk.dedup(pa.table({"text": TEXTS}), on_error="stop")


@pytest.mark.parametrize(
    ("function", "first"),
    [
        (nk.dedup, ["data", "text", "id", "threshold", "preset", "keep", "out", "overwrite"]),
        (nk.pairs, ["data", "text", "id", "threshold", "preset", "keep", "out", "overwrite"]),
        (nk.check, ["first", "second", "text", "id", "threshold", "preset", "keep"]),
        (nk.split, ["data", "groups", "text", "id", "threshold", "preset", "names"]),
        (nk.passages, ["data", "text", "id", "min_tokens"]),
        (nk.decontaminate, ["data", "against", "text", "id"]),
    ],
)
def test_parameters_are_in_the_order_of_use(function: Any, first: list[str]) -> None:
    assert list(inspect.signature(function).parameters)[: len(first)] == first
    # an editor reads the source, in which parameters that a keyword collects are not named
    assert list(inspect.signature(inspect.unwrap(function)).parameters)[: len(first)] == first


def test_parameters_that_most_users_never_need_come_last() -> None:
    names = list(inspect.signature(nk.dedup).parameters)
    panels = [KEYWORDS[name].setting.panel for name in names if name in KEYWORDS]
    assert ADVANCED in panels
    assert set(panels[panels.index(ADVANCED) :]) == {ADVANCED}


@pytest.mark.parametrize("function", [nk.dedup, nk.pairs])
def test_every_keyword_is_in_the_signature_and_in_the_help(function: Any) -> None:
    signature = inspect.signature(function)
    text = inspect.getdoc(function)
    for name in RunParameters.__annotations__:
        is_text = name == "text"
        kind = signature.parameters[name].kind
        assert (kind is inspect.Parameter.POSITIONAL_OR_KEYWORD) == is_text
        assert f"\n    {name}: " in text, name
    assert "**further" not in text
    assert signature.parameters["threshold"].default == 0.8
    assert signature.parameters["cluster"].default == "leaders"


def test_defaults_of_the_signature_are_those_of_a_run() -> None:
    named = {
        name: parameter.default
        for name, parameter in inspect.signature(nk.dedup).parameters.items()
        if name in RunParameters.__annotations__
    }
    assert nk.dedup(TEXTS, **named).clusters == nk.dedup(TEXTS).clusters


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"text": 0}, "text=0 is of type int; give a text, a list of texts"),
        ({"text": [1]}, r"text=\[1\] is of type list; give a text, a list of texts"),
        ({"shingle": 3}, "shingle=3 is of type int; give a text or None"),
        ({"key": b"0123456789abcdef"}, "key= is of type bytes; give a HashKey or None"),
        ({"distance": 3, "threshold": 0.8, "measure": "simhash"}, "exclude each other"),
        (
            {"distance": 1.5, "measure": "simhash"},
            "distance=1.5 is of type float",
        ),
        ({"memory": float("nan")}, "memory=nan is not a number; give a whole number or a text"),
        ({"memory": float("inf")}, "memory=inf is of type float; give a whole number or a text"),
    ],
)
def test_keywords_of_another_type_are_usage_errors(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(nk.UsageError, match=message):
        nk.dedup({"text": ["a text"]}, **wrong)


def test_split_and_check_show_their_default_recall() -> None:
    for function, recall in ((nk.split, 0.99), (nk.check, 0.99), (nk.dedup, 0.95)):
        assert inspect.signature(function).parameters["recall"].default == recall
