"""Tests of the shingle overlap of explained pairs."""

import random
import tracemalloc

import pytest

from nearkin.settings.spec import Spec
from nearkin.stages.measures.explanation import (
    EXAMPLE_CHARACTERS,
    MAX_EXAMPLES,
    overlap_of_shingles,
)
from nearkin.stages.sketch.resources import SpecResources


def test_examples_are_classified_by_the_whole_texts() -> None:
    """Examples come from the beginnings of the texts but hold for all of each text."""
    rng = random.Random(1)
    far = " ".join(f"far{rng.randrange(10**6)}" for _ in range(EXAMPLE_CHARACTERS))
    overlap = overlap_of_shingles(
        f"one two three four {far}", f"{far} one two three five", Spec(), SpecResources()
    )
    assert overlap.examples[0][0] == "one two three"
    assert overlap.examples[1][0] == "two three four"
    assert "one two three" not in overlap.examples[2]
    assert all(len(examples) <= MAX_EXAMPLES for examples in overlap.examples)


@pytest.mark.parametrize("shingle", ["words:3", "chars:5"])
def test_memory_for_large_documents_is_that_of_their_hashes(shingle: str) -> None:
    """A Python object for every shingle would take hundreds of bytes for each character."""
    rng = random.Random(2)
    texts = [
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyz" + " " * 13, k=1_000_000)) for _ in range(2)
    ]
    spec = Spec.for_shingle(shingle)
    tracemalloc.start()
    try:
        overlap_of_shingles(*texts, spec, SpecResources())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * sum(map(len, texts))
