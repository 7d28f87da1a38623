"""Tests of the sketches that support removal."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.errors import RebuildDueError, UsageError
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.counting import CountingMinHash
from nearkin.stages.sketch.minhash import SCHEMES, scheme_of, splitmix64

ELEMENTS = splitmix64(77, 60)
steps = st.lists(st.tuples(st.booleans(), st.integers(0, 59)), max_size=150)


def signature(counts: Counter[int], spec: Spec) -> np.ndarray:
    slots = np.full(spec.k, 0xFFFFFFFF, np.uint32)
    scheme_of(spec).update(np.array(sorted(counts), np.uint64), slots)
    return slots


@settings(max_examples=150)
@given(steps, st.sampled_from(sorted(SCHEMES)), st.integers(1, 4))
def test_signature_is_exact_or_rebuild_is_due(
    steps: list[tuple[bool, int]], scheme: str, depth: int
) -> None:
    """Adds and removes elements; compares the signature with that of the remaining elements."""
    spec = Spec(k=16, scheme=scheme)
    sketch, counts = CountingMinHash(spec, depth), Counter[int]()
    for adding, i in steps:
        h = int(ELEMENTS[i])
        if adding:
            sketch.add_hashes(ELEMENTS[i : i + 1])
            counts[h] += 1
        elif counts[h]:
            sketch.discard_hashes(ELEMENTS[i : i + 1])
            counts[h] -= 1
            counts += Counter()
        true = signature(counts, spec)
        known = np.ones(16, bool)
        known[sketch.underflowed] = False
        assert (sketch._values[known, 0] == true[known]).all()
        if known.all():
            assert (sketch.snapshot() == true).all()
            assert not sketch.rebuild_due
        else:
            with pytest.raises(RebuildDueError, match="call rebuild with the remaining elements"):
                sketch.snapshot()
    assert len(sketch) == counts.total()
    rest = np.array(list(counts.elements()), np.uint64)
    assert (sketch.rebuild(rest).snapshot() == signature(counts, spec)).all()


def test_depth_limits_number_of_removed_elements() -> None:
    spec, elements = Spec(k=64), splitmix64(3, 2000)
    due = []
    for depth in (1, 4, 16):
        sketch = CountingMinHash(spec, depth).add_hashes(elements)
        gone = 0
        while not sketch.rebuild_due:
            sketch.discard_hashes(elements[gone : gone + 20])
            gone += 20
        due.append(gone)
    assert due[0] < due[1] < due[2]
    assert due[0] <= 100
    assert due[2] >= 1000


def test_removal_of_missing_element_is_rejected() -> None:
    sketch = CountingMinHash(Spec(k=16)).add("one two three four five")
    before = sketch.snapshot()
    with pytest.raises(UsageError, match="was not added"):
        sketch.discard("something else entirely")
    assert (sketch.snapshot() == before).all()
    assert len(sketch) == 3


@pytest.mark.parametrize(
    "spec", [Spec(slot_bits=8), Spec(measure="simhash"), Spec(measure="weighted-jaccard")]
)
def test_unsupported_specs_are_rejected(spec: Spec) -> None:
    with pytest.raises(UsageError, match="use measure='jaccard' and slot_bits=32"):
        CountingMinHash(spec)


def test_texts_and_hashes_that_are_not_valid_are_refused() -> None:
    sketch = CountingMinHash(Spec(k=8)).add_hashes(ELEMENTS)
    before = sketch.snapshot()
    with pytest.raises(UsageError, match="not valid Unicode"):
        sketch.add("\ud800")
    for change in (sketch.add_hashes, sketch.discard_hashes, sketch.rebuild):
        with pytest.raises(UsageError, match="one row of whole numbers"):
            change(np.array([0.5]))
    assert (sketch.snapshot() == before).all()
