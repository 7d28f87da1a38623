import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nearkin.verify.shared_runs import longest_shared_runs

TOKENS = st.lists(st.integers(0, 3), max_size=24)


def longest_run_of_tables(a: list[int], b: list[int]) -> int:
    """Returns the length of the longest common run, by a table of all pairs of positions."""
    longest = 0
    for i in range(len(a)):
        for j in range(len(b)):
            length = 0
            while i + length < len(a) and j + length < len(b) and a[i + length] == b[j + length]:
                length += 1
            longest = max(longest, length)
    return longest


@given(st.lists(TOKENS, min_size=2, max_size=4))
def test_the_longest_shared_run_is_that_of_all_pairs_of_positions(
    documents: list[list[int]],
) -> None:
    starts = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    tokens = np.array([token for document in documents for token in document], np.uint64)
    first, second = np.triu_indices(len(documents), 1)
    out = np.empty(len(first), np.int64)
    longest_shared_runs(first, second, starts, tokens, out)
    expected = [
        longest_run_of_tables(documents[a], documents[b])
        for a, b in zip(first.tolist(), second.tolist(), strict=True)
    ]
    assert out.tolist() == expected
