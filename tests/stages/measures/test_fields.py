"""Tests of the comparison of several fields against that of each field alone."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of
from nearkin.stages.measures.base import StoredPayloads, as_stored, row_starts
from nearkin.stages.measures.fields import ComparedField, FieldsMeasure
from nearkin.stages.packed_pairs import pack_pairs
from nearkin.stages.pair_scope import EVERY_SOURCE, PairScope
from nearkin.stages.sketch.sketcher import EMPTY_STREAM

TEXTS = Spec(n=1)
HASHES = Spec(measure="hamming", unit="fingerprint", n=128)
MEASURE = FieldsMeasure(
    (
        ComparedField(measure_of(HASHES, distance=30), (128 - 30) / 128),
        ComparedField(measure_of(TEXTS), 0.3),
        ComparedField(measure_of(TEXTS), 0.5),
    ),
    candidates=(2,),
    alternatives=((0, 1, 2),),
)
EITHER = replace(MEASURE, alternatives=((0, 2), (1, 2)))
"""The measure of documents that are similar in the body, and in the title or the image."""


@pytest.fixture(scope="module")
def documents() -> pa.StructArray:
    rng = np.random.default_rng(0)
    names = list("abcdefgh")
    titles = [" ".join(rng.choice(names, int(rng.integers(0, 6)))) for _ in range(40)]
    bodies = [" ".join(rng.choice(names, int(rng.integers(0, 9)))) for _ in range(40)]
    hashes = [bytes([int(rng.integers(2))]) * int(rng.integers(17)) for _ in range(40)]
    fields = [
        pa.array([value.ljust(16, b"\xff") for value in hashes], pa.binary(16)),
        pa.array([title or None for title in titles], pa.large_string()),
        pa.array(bodies, pa.large_string()),
    ]
    return pa.StructArray.from_arrays(fields, ["image", "title", "body"])


def test_pairs_are_compared_as_in_each_field_alone(documents: pa.StructArray) -> None:
    wanted = np.arange(3, 40)
    rows = documents.take(pa.array(wanted))
    payload = MEASURE.payload_builder().build(rows)
    place = np.full(40, 2**32 - 1, np.uint32)
    place[wanted] = np.arange(len(wanted))
    stored = StoredPayloads(place, row_starts(payload), payload.columns)
    first, second = np.array(list(combinations(wanted.tolist(), 2))).T
    pairs = pack_pairs(first, second)
    reached = np.ones(len(pairs), bool)
    for position, (measure, threshold) in enumerate(MEASURE.fields):
        field = documents.field(position)
        empty = bytes(16) if position == 0 else ""
        alone = as_stored(measure.payload_builder().build(field.fill_null(empty)))
        scored = measure.compare(pairs, alone)
        if position == MEASURE.candidates[0]:
            similarity = scored.similarity
        reached &= scored.meets_threshold(threshold)
    compared = MEASURE.compare(pairs, stored)
    assert compared.pairs.tolist() == pairs.tolist()
    assert compared.similarity.tolist() == np.where(reached, similarity, 0).tolist()
    assert 5 < np.count_nonzero(compared.similarity) < np.count_nonzero(similarity)


def test_brute_force_finds_the_pairs_that_reach_the_threshold(documents: pa.StructArray) -> None:
    payload = MEASURE.payload_builder().build(documents)
    stored = StoredPayloads(np.arange(40, dtype=np.uint32), row_starts(payload), payload.columns)
    first, second = np.array(list(combinations(range(40), 2))).T
    compared = MEASURE.compare(pack_pairs(first, second), stored)
    expected = compared.pairs[compared.meets_threshold(0.5)]
    scope = PairScope(np.zeros(40, np.uint64), EVERY_SOURCE)
    found = [part.pairs for part in MEASURE.compare_all(payload, scope, 0.5, 1)]
    assert np.concatenate(found).tolist() == expected.tolist()
    assert len(expected) > 5


def test_pairs_that_reach_all_fields_of_an_alternative_are_accepted(
    documents: pa.StructArray,
) -> None:
    stored = as_parts(documents)
    first, second = np.array(list(combinations(range(40), 2))).T
    compared = EITHER.compare(pack_pairs(first, second), stored)
    accepted = compared.similarity >= 0.5
    rows = documents.to_pylist()
    expected = [is_similar(rows[a], rows[b]) for a, b in zip(first, second, strict=True)]
    assert accepted.tolist() == expected
    assert 5 < sum(expected) < len(expected)


def as_parts(documents: pa.StructArray) -> StoredPayloads:
    payload = EITHER.payload_builder().build(documents)
    place = np.arange(len(documents), dtype=np.uint32)
    return StoredPayloads(place, row_starts(payload), payload.columns)


def is_similar(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """The condition of EITHER, by plain sets and integers."""
    if overlap(a["body"], b["body"]) < 0.5:
        return False
    if overlap(a["title"], b["title"]) >= 0.3:
        return True
    if a["image"] is None or b["image"] is None:
        return False
    first, second = (int.from_bytes(row["image"]) for row in (a, b))
    return (first ^ second).bit_count() <= 30


def overlap(a: str | None, b: str | None) -> float:
    first, second = set((a or "").split()), set((b or "").split())
    return len(first & second) / len(first | second) if first and second else 0


def test_null_fingerprints_are_similar_to_no_other_one() -> None:
    fields = [
        pa.array([bytes(16), None, None, bytes(16)], pa.binary(16)),
        pa.array(["a", "b", "c", "d"], pa.large_string()),
        pa.array(["x"] * 4, pa.large_string()),
    ]
    rows = pa.StructArray.from_arrays(fields, ["image", "title", "body"])
    first, second = np.array(list(combinations(range(4), 2))).T
    compared = EITHER.compare(pack_pairs(first, second), as_parts(rows))
    assert compared.similarity.tolist() == [0, 0, 1, 0, 0, 0]
    equal = pa.StructArray.from_arrays(
        [fields[0], pa.array(["a"] * 4, pa.large_string()), fields[2]], ["image", "title", "body"]
    )
    sketches = EITHER.sketcher().sketch(equal)
    assert sketches.shingles.tolist() == [1, 1, 1, 1]
    assert (sketches.fingerprints[0] == sketches.fingerprints[3]).all()
    assert (sketches.fingerprints[1] == sketches.fingerprints[2]).all()
    assert (sketches.fingerprints[0] != sketches.fingerprints[1]).any()


def test_documents_that_lack_a_field_have_no_shingles(documents: pa.StructArray) -> None:
    for start in (0, 7):
        rows = documents.slice(start)
        sketches = MEASURE.sketcher().sketch(rows)
        values = [rows.field(position).to_pylist() for position in range(3)]
        lacking = [not title or not body for _, title, body in zip(*values, strict=True)]
        assert (sketches.shingles == 0).tolist() == lacking
        is_empty = (sketches.fingerprints == EMPTY_STREAM).all(axis=1)
        assert is_empty.tolist() == lacking
        alone = measure_of(TEXTS).sketcher().sketch(rows.field(2))
        assert (sketches.signatures == alone.signatures).all()


def test_documents_are_exact_duplicates_if_all_fields_are_equal() -> None:
    fields = [
        pa.array([bytes(16), bytes(16), b"\x01" * 16, bytes(16)], pa.binary(16)),
        pa.array(["a", "A", "a", "b"], pa.large_string()),
        pa.array(["b"] * 4, pa.large_string()),
    ]
    rows = pa.StructArray.from_arrays(fields, ["image", "title", "body"])
    hashes = MEASURE.sketcher().sketch(rows).fingerprints
    assert (hashes[0] == hashes[1]).all()
    assert len(np.unique(hashes, axis=0)) == 3
