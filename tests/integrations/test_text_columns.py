"""Tests of the functions of columns of texts."""

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.integrations.text_columns import TextColumns

TEXTS = ["the cat sat on the mat", "the cat sat on the mat now", "a dog", "", None]


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    if len(words) < 3:
        return {tuple(words)} if words else set()
    return {tuple(words[i : i + 3]) for i in range(len(words) - 2)}


def test_signatures_are_those_of_sketch_and_null_for_null() -> None:
    for spec in (nk.Spec(k=16), nk.Spec(measure="simhash")):
        lists = TextColumns(spec).sketch(TEXTS)
        assert lists.to_pylist() == [*nk.sketch(TEXTS[:-1], spec).tolist(), None]


def test_documents_that_share_a_band_key_are_those_of_equal_bands() -> None:
    columns = TextColumns(nk.Spec())
    keys = columns.band_keys([TEXTS[0], TEXTS[0].upper(), TEXTS[2], None]).to_pylist()
    assert keys[0] == keys[1]
    assert not set(keys[0]) & set(keys[2])
    assert keys[3] is None


def test_truncated_slots_have_no_band_keys() -> None:
    columns = TextColumns(nk.Spec(slot_bits=8))
    with pytest.raises(nk.UsageError, match="slot_bits=8 keeps a part of each slot"):
        columns.band_keys(TEXTS)


@pytest.mark.parametrize("chunks", [1, 2])
def test_similarity_and_containment_are_those_of_shingle_sets(chunks: int) -> None:
    rng = np.random.default_rng(5)
    first, second = (
        [" ".join(rng.choice(list("abc"), rng.integers(0, 9))) for _ in range(50)] for _ in "ab"
    )
    column = pa.chunked_array(np.array_split(first, chunks), pa.string())
    similarity = TextColumns(nk.Spec()).compare(column, second).to_pylist()
    containment = TextColumns(nk.Spec()).containment(column, second).to_pylist()
    for row, (a, b) in enumerate(zip(map(shingles, first), map(shingles, second), strict=True)):
        assert similarity[row] == (len(a & b) / len(a | b) if a | b else 0)
        assert containment[row] == (len(a & b) / len(a) if a else 0)


def test_null_and_empty_columns() -> None:
    columns = TextColumns(nk.Spec())
    assert columns.compare(["a", None, None], [None, "a", None]).null_count == 3
    assert columns.compare(pa.array([], pa.string()), pa.array([], pa.string())).to_pylist() == []
    nulls = pa.nulls(2)
    assert columns.sketch(nulls).null_count == columns.band_keys(nulls).null_count == 2


def test_encoded_columns_are_texts() -> None:
    plain = pa.chunked_array([TEXTS], pa.string())
    columns = TextColumns(nk.Spec(k=16))
    forms = [
        plain.dictionary_encode(),
        pa.chunked_array([pa.DictionaryArray.from_arrays([0, 1, 2, 3, 4], plain.chunk(0))]),
        pa.chunked_array([pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4, 5], plain.chunk(0))]),
        plain.cast(pa.string_view()),
    ]
    for form in forms:
        assert columns.sketch(form) == columns.sketch(plain)
        assert columns.compare(form, form).to_pylist() == columns.compare(plain, plain).to_pylist()


def test_columns_of_something_else_are_refused() -> None:
    columns = TextColumns(nk.Spec())
    for values, message in (([1, 2], "int64"), ([["a"]], "not texts; join them")):
        for call in (columns.sketch, columns.band_keys, lambda one: columns.compare(one, one)):
            with pytest.raises(nk.UsageError, match=message):
                call(values)


def test_errors_name_what_to_change() -> None:
    with pytest.raises(nk.UsageError, match="different numbers of rows: 1, 2"):
        TextColumns(nk.Spec()).compare(["a"], ["a", "b"])
    with pytest.raises(nk.UsageError, match="'simhash' does not compare sets"):
        TextColumns(nk.Spec(measure="simhash")).containment(["a"], ["a"])
    with pytest.raises(nk.UsageError, match="the Spec is of vectors"):
        TextColumns(nk.Spec(unit="vector", measure="cosine", n=4))


@pytest.mark.parametrize(
    "column",
    [pa.array([1, None]), pa.array([True, None]), pa.array([b"abcd", None], pa.binary(4))],
    ids=["numbers", "booleans", "bytes of one size"],
)
def test_columns_of_other_types_are_refused_with_nulls_too(column: pa.Array) -> None:
    with pytest.raises(nk.UsageError, match=f"the values are {column.type}".replace("[", r"\[")):
        TextColumns(nk.Spec(k=8)).sketch(column)


@pytest.mark.parametrize(("measure", "unit"), [("hamming", "fingerprint"), ("cosine", "vector")])
def test_a_spec_of_something_else_is_refused(measure: str, unit: str) -> None:
    with pytest.raises(nk.UsageError, match=f"the Spec is of {unit}s"):
        TextColumns(nk.Spec(measure=measure, unit=unit, n=64))
