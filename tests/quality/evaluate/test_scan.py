"""Tests of the comparison of documents with a whole corpus."""

from hypothesis import given
from hypothesis import strategies as st

from nearkin.quality.evaluate.scan import min_shared_shingles


@given(st.integers(1, 1000), st.sampled_from([0.1, 0.29, 0.5, 0.7, 0.8, 0.9, 1.0]))
def test_prefix_is_never_too_short(size: int, threshold: float) -> None:
    needed = next(shared for shared in range(1, size + 1) if shared >= threshold * size - 1e-9)
    assert min_shared_shingles(size, threshold) == needed
