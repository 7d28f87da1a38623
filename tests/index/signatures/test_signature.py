import pickle
from typing import Any

import numpy as np
import pytest

import nearkin as nk

TEXTS = ["the cat sat on the mat today", "the cat sat on the mat"]
SPEC = nk.Spec(n=2, k=512)


def test_signature_of_a_text_is_that_of_sketch() -> None:
    row = nk.sketch(TEXTS, SPEC)[0]
    assert nk.Signature.from_text(TEXTS[0], SPEC) == nk.Signature(row, SPEC)
    assert nk.Signature.from_tokens(TEXTS[0].split(), SPEC) == nk.Signature(row, SPEC)


def test_jaccard_is_within_four_standard_errors_of_the_truth() -> None:
    # |A| = |B| = 600 and 200 shared elements: J = 200 / 1000
    a = nk.Signature.from_set(range(600), nk.Spec(n=1, k=1024))
    b = nk.Signature.from_set(range(400, 1000), nk.Spec(n=1, k=1024))
    error = np.sqrt(0.2 * 0.8 / 1024)
    assert abs(a.jaccard(b) - 0.2) < 4 * error
    assert a.jaccard(a) == 1.0
    assert a.jaccard(b) == nk.estimate(a.values, b.values, a.spec)


def test_sets_have_no_order_and_no_repetitions() -> None:
    spec = nk.Spec(n=1, k=64)
    one = nk.Signature.from_set(["b", "a", "b"], spec)
    assert one == nk.Signature.from_set({"a", "b"}, spec)
    assert hash(one) == hash(nk.Signature.from_set({"b", "a"}, spec))
    assert nk.Signature.from_set({1, 2}, spec) == nk.Signature.from_set({"1", "2"}, spec)
    with pytest.raises(nk.UsageError, match="a set has no order, and shingles of words:3"):
        nk.Signature.from_set({"a"}, nk.Spec())
    with pytest.raises(nk.UsageError, match="an element of a set is a float"):
        nk.Signature.from_set({0.5}, spec)  # type: ignore[arg-type]


def test_merging_is_the_signature_of_the_union() -> None:
    spec = nk.Spec(n=1, k=64)
    a, b = (nk.Signature.from_set(elements, spec) for elements in ({"a", "b"}, {"b", "c"}))
    assert a | b == a.merge(b) == nk.Signature.from_set({"a", "b", "c"}, spec)
    signs = nk.Signature.from_text("one", nk.Spec(measure="simhash"))
    with pytest.raises(nk.UsageError, match="simhash cannot be merged"):
        signs.merge(signs)


def test_hashes_of_the_caller_make_a_signature() -> None:
    hashes = np.arange(1, 50, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    built = nk.MinHashBuilder(SPEC).update_hashes(hashes).snapshot()
    assert nk.Signature.from_hashes(hashes, SPEC) == nk.Signature(built, SPEC)


@pytest.mark.parametrize(
    "spec", [SPEC, nk.Spec(k=128, slot_bits=8), nk.Spec(measure="simhash")], ids=str
)
def test_signatures_pickle_and_are_records(spec: nk.Spec) -> None:
    signature = nk.Signature.from_text(TEXTS[0], spec)
    again = pickle.loads(pickle.dumps(signature))
    assert again == signature
    assert not again.values.flags.writeable
    assert nk.Signature.from_bytes(signature.to_bytes(), spec) == signature


def test_values_are_views_that_cannot_be_changed() -> None:
    matrix = nk.sketch(TEXTS, SPEC)
    signature = nk.Signature(matrix[1], SPEC)
    assert np.shares_memory(np.asarray(signature), matrix)
    assert np.array(signature).dtype == np.uint32
    assert len(signature) == 512
    with pytest.raises(ValueError, match="read-only"):
        signature.values[0] = 1


@pytest.mark.parametrize("values", [np.zeros(8, np.uint32), np.zeros(512, np.uint64), [1, 2]])
def test_foreign_arrays_are_refused(values: Any) -> None:
    with pytest.raises(nk.UsageError, match=r"a signature of this Spec is uint32 \(512,\), not"):
        nk.Signature(values, SPEC)


def test_signatures_of_different_specs_are_not_compared() -> None:
    other = nk.Signature.from_text(TEXTS[0], nk.Spec(n=3, k=512))
    with pytest.raises(nk.errors.IncompatibleError, match="n=3"):
        nk.Signature.from_text(TEXTS[0], SPEC).jaccard(other)
    signs = nk.Signature.from_text(TEXTS[0], nk.Spec(measure="simhash"))
    with pytest.raises(nk.UsageError, match=r"use similarity\(\)"):
        signs.jaccard(signs)
    assert signs.similarity(signs) == 1.0


def test_documents_of_another_type_are_refused() -> None:
    make = nk.Signature
    vectors = nk.Spec(measure="cosine", unit="vector", n=4)
    for wrong in (
        lambda: make.from_text(None),  # type: ignore[arg-type]
        lambda: make.from_text(["a", "b"]),  # type: ignore[arg-type]
        lambda: make.from_text("\ud800"),
        lambda: make.from_text("a text", vectors),
        lambda: make.from_tokens("a text"),
        lambda: make.from_tokens({"a", "b"}),  # type: ignore[arg-type]
        lambda: make.from_tokens([None, "b"]),  # type: ignore[list-item]
        lambda: make.from_set("a text"),
        lambda: make.from_set({"a": 1}),
        lambda: make.from_set({1.5}),  # type: ignore[arg-type]
        lambda: make.from_hashes(np.array([1.5])),
        lambda: make.from_hashes(np.array([-1])),
        lambda: make.from_hashes(np.zeros((2, 2), np.uint64)),
        lambda: make.from_hashes(np.array([1], np.uint64), vectors),
        lambda: make.from_text("a text").to_bytes(-1),
        lambda: make.from_text("a text").to_bytes(2**32),
    ):
        with pytest.raises(nk.UsageError):
            wrong()
    with pytest.raises(TypeError, match="unsupported operand"):
        make.from_text("a text") | "b"  # type: ignore[operator]


def test_numbers_are_the_tokens_of_their_digits() -> None:
    spec = nk.Spec(n=2, k=64)
    numbers = nk.Signature.from_tokens([10, 2, 30], spec)
    assert numbers == nk.Signature.from_tokens(["10", "2", "30"], spec)
    assert numbers == nk.Signature.from_tokens(np.array([10, 2, 30]), spec)  # type: ignore[arg-type]
    sets = nk.Spec(n=1, k=64)
    of_numpy = nk.Signature.from_set(np.arange(5), sets)
    assert of_numpy == nk.Signature.from_set(range(5), sets)
    assert nk.Signature.from_tokens([], spec).jaccard(nk.Signature.from_text("", spec)) == 0
    assert nk.Signature.from_hashes([2**64 - 1], spec) == nk.Signature.from_hashes(  # type: ignore[arg-type]
        np.array([2**64 - 1], np.uint64), spec
    )
