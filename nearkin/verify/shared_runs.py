"""The longest run of tokens that two documents share."""

import numpy as np

from nearkin.runtime.jit import kernel

U64 = np.uint64
FACTOR = U64(0x9E3779B97F4A7C15)
"""An odd factor, so that every token of a run changes the run's hash."""


@kernel
def hash_runs(tokens: np.ndarray, length: int, out: np.ndarray) -> None:
    """Writes a hash of each run of some tokens: Σ tᵢ·Fˡ⁻ⁱ (Karp and Rabin 1987), modulo 2^64.

    Args:
        tokens: Hashes of the tokens, uint64 (n,).
        length: Number of tokens of a run, from 1 to n.
        out: Receives the hashes, uint64 (n - length + 1,).
    """
    highest = U64(1)
    current = U64(0)
    for i in range(length):
        highest *= FACTOR
        current = current * FACTOR + tokens[i]
    out[0] = current
    for i in range(length, tokens.shape[0]):
        current = current * FACTOR + tokens[i] - highest * tokens[i - length]
        out[i - length + 1] = current


@kernel
def find_shared_run(a: np.ndarray, b: np.ndarray, length: int) -> tuple[int, int]:
    """Finds a run of a length that two documents share.

    Equal hashes of runs are confirmed by a comparison of the tokens.

    Args:
        a: Hashes of the tokens of one document, uint64 (n,).
        b: Hashes of the tokens of the other document, uint64 (m,).
        length: Number of tokens of the run, from 1 to the smaller of n and m.

    Returns:
        The position of its first token in each document, or -1 twice.
    """
    runs_of_a = np.empty(a.shape[0] - length + 1, np.uint64)
    runs_of_b = np.empty(b.shape[0] - length + 1, np.uint64)
    hash_runs(a, length, runs_of_a)
    hash_runs(b, length, runs_of_b)
    order = np.argsort(runs_of_a)
    ordered = runs_of_a[order]
    for j in range(runs_of_b.shape[0]):
        place = np.searchsorted(ordered, runs_of_b[j])
        while place < ordered.shape[0] and ordered[place] == runs_of_b[j]:
            i = order[place]
            equal = 0
            while equal < length and a[i + equal] == b[j + equal]:
                equal += 1
            if equal == length:
                return i, j
            place += 1
    return -1, -1


@kernel
def locate_longest_run(a: np.ndarray, b: np.ndarray) -> tuple[int, int, int]:
    """Finds the longest run that two documents share.

    If a run is shared, every shorter run inside it is, so the length is found by bisection.

    Args:
        a: Hashes of the tokens of one document, uint64 (n,).
        b: Hashes of the tokens of the other document, uint64 (m,).

    Returns:
        The number of its tokens, and the position of its first token in each document.
    """
    first = -1
    second = -1
    shared = 0
    too_long = min(a.shape[0], b.shape[0]) + 1
    while too_long - shared > 1:
        length = (shared + too_long) // 2
        i, j = find_shared_run(a, b, length)
        if i >= 0:
            shared = length
            first = i
            second = j
        else:
            too_long = length
    return shared, first, second


@kernel
def longest_shared_run(a: np.ndarray, b: np.ndarray) -> int:
    """Returns the number of tokens of the longest run that two documents share.

    Args:
        a: Hashes of the tokens of one document, uint64 (n,).
        b: Hashes of the tokens of the other document, uint64 (m,).
    """
    return locate_longest_run(a, b)[0]


@kernel
def longest_shared_runs(
    first: np.ndarray, second: np.ndarray, starts: np.ndarray, tokens: np.ndarray, out: np.ndarray
) -> None:
    """Writes the number of tokens of the longest shared run of each pair of documents.

    Args:
        first: Position of one document of each pair among the stored ones, int64 (m,).
        second: Position of the other document of each pair, int64 (m,).
        starts: First token of each stored document, and the end, int64 (stored + 1,).
        tokens: Hashes of the tokens of the stored documents, uint64 (starts[-1],).
        out: Receives the numbers of tokens, int64 (m,).
    """
    for pair in range(first.shape[0]):
        a = tokens[starts[first[pair]] : starts[first[pair] + 1]]
        b = tokens[starts[second[pair]] : starts[second[pair] + 1]]
        out[pair] = longest_shared_run(a, b)
