"""Tests of the builder of signatures of documents that arrive in parts."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.errors import IncompatibleError, UsageError
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.builder import MinHashBuilder
from nearkin.stages.sketch.minhash import (
    EMPTY_SLOT,
    SCHEMES,
    scheme_of,
)
from nearkin.stages.sketch.sketcher import Sketcher

PIECES = [f"piece {i} holds the words w{i} w{i + 1} w{i * 7} and w{i * 11}" for i in range(400)]


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_builder_is_thread_safe(scheme: str) -> None:
    spec = Spec(k=64, scheme=scheme)
    shared = MinHashBuilder(spec)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(shared.update, PIECES))
    alone = Sketcher(spec).sketch(pa.array(PIECES, pa.large_string())).signatures.min(axis=0)
    np.testing.assert_array_equal(shared.snapshot(), alone)


@given(st.lists(st.sampled_from(PIECES), max_size=5), st.lists(st.sampled_from(PIECES), max_size=5))
def test_merged_builder_is_builder_of_union(a: list[str], b: list[str]) -> None:
    spec = Spec(k=16)
    merged = MinHashBuilder(spec).update(*a).merge(MinHashBuilder(spec).update(*b))
    np.testing.assert_array_equal(merged.snapshot(), MinHashBuilder(spec).update(*a, *b).snapshot())
    np.testing.assert_array_equal(
        MinHashBuilder(spec).merge(merged.snapshot()).snapshot(), merged.snapshot()
    )


def test_builder_accepts_hashes_and_returns_copies() -> None:
    builder = MinHashBuilder(Spec(k=16)).update_hashes(np.array([1, 2, 3], np.uint64))
    taken = builder.snapshot()
    slots = np.full(16, EMPTY_SLOT, np.uint32)
    scheme_of(Spec(k=16)).update(np.array([1, 2, 3], np.uint64), slots)
    np.testing.assert_array_equal(taken, slots)
    taken[:] = 0
    assert builder.snapshot().any()


def test_builder_rejects_incompatible_specs_and_signatures() -> None:
    builder = MinHashBuilder(Spec(k=16))
    with pytest.raises(IncompatibleError, match="seed=2"):
        builder.merge(MinHashBuilder(Spec(k=16, seed=2)))
    with pytest.raises(UsageError, match=r"uint32 \(16,\), not uint32 \(8,\)"):
        builder.merge(np.zeros(8, np.uint32))


def test_parts_and_hashes_that_are_not_valid_are_refused() -> None:
    builder = MinHashBuilder(Spec(k=16))
    with pytest.raises(UsageError, match="not valid Unicode"):
        builder.update("one two three", "\ud800")
    for hashes in (np.array([0.5, 0.25]), np.array([[1, 2]], np.uint64)):
        with pytest.raises(UsageError, match="one row of whole numbers"):
            builder.update_hashes(hashes)
    assert (builder.snapshot() == EMPTY_SLOT).all()
