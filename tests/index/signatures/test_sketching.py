"""Tests of the sketching of columns in memory, in parts and by several threads."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearkin.index.signatures.sketching import sketch_documents, sketcher_pool
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of

TEXTS = [f"some words of text {number} and {number * 7}" for number in range(20)]
VECTORS = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
CASES = {
    "texts": (Spec(k=16), pa.array(["", *TEXTS])),
    "chunks": (Spec(k=16), pa.chunked_array([TEXTS[:3], [], TEXTS[3:]])),
    "tokens": (Spec(k=16), [text.split() for text in TEXTS]),
    "truncated": (Spec(k=64, slot_bits=4), TEXTS),
    "vectors": (Spec(measure="cosine", unit="vector", n=4, k=64), VECTORS),
}


@pytest.mark.parametrize("name", CASES)
def test_signatures_do_not_depend_on_parts_and_threads(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, documents = CASES[name]
    measure = measure_of(spec)
    whole = sketch_documents(documents, measure, sketcher_pool(measure), 1)
    monkeypatch.setattr("nearkin.index.signatures.sketching.SKETCH_ROWS", 3)
    parts = sketch_documents(documents, measure, sketcher_pool(measure), 4)
    assert whole.signatures.shape == (len(documents), spec.signature_width)
    assert whole.signatures.dtype == spec.signature_type
    assert (parts.signatures == whole.signatures).all()
    assert (parts.shingles == whole.shingles).all()


def test_number_of_shingles_is_that_of_windows_of_words() -> None:
    measure = measure_of(Spec(n=3))
    texts = ["", "one", "one two three", "a b c d e a b c"]
    sketched = sketch_documents(texts, measure, sketcher_pool(measure), 2)
    assert sketched.shingles.tolist() == [0, 1, 1, 6]


@pytest.mark.parametrize("documents", [[], pa.array([], pa.string()), pa.chunked_array([], "str")])
def test_no_documents_have_no_signatures(documents: Any) -> None:
    measure = measure_of(Spec(k=16))
    sketched = sketch_documents(documents, measure, sketcher_pool(measure), 2)
    assert sketched.signatures.shape == (0, 16)
    assert sketched.shingles.tolist() == []
