"""Runs of windows that occur at two places, from the hashes of the windows."""

import numpy as np

from nearkin.stages.winnowing import kernels

FIRST_SLOTS = 1 << 12
"""The number of slots of a table of windows, which grows as needed."""


def write_sources(windows: np.ndarray, sources: np.ndarray) -> None:
    """Writes for each window the first other place of its content.

    Args:
        windows: Hash, second hash and number of each window, in the order of the numbers, uint64
            (m, 3). They are all windows of the contents that they have.
        sources: Array for the number of the first window of the same content, or of the second one
            for the first window itself, or NONE, uint64 (all windows,).
    """
    size = FIRST_SLOTS
    slots = np.full(size, kernels.EMPTY, np.uint32)
    firsts = np.empty(size // 2, np.uint64)
    seconds = np.empty(size // 2, np.uint64)
    at, used = kernels.insert_windows(windows, np.uint64(0), slots, firsts, seconds, np.uint64(0))
    while at < len(windows):
        # a kernel returns integers of Python, which would be other types
        at = np.uint64(at)
        used = np.uint64(used)
        size *= 4
        slots = np.full(size, kernels.EMPTY, np.uint32)
        firsts = _grown(firsts, size // 2)
        seconds = _grown(seconds, size // 2)
        kernels.grow_table(windows, firsts, used, slots)
        at, used = kernels.insert_windows(windows, at, slots, firsts, seconds, used)
    kernels.write_sources(windows, slots, firsts, seconds, sources)


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    larger = np.empty(size, array.dtype)
    larger[: len(array)] = array
    return larger


def outermost_runs(runs: np.ndarray) -> np.ndarray:
    """Returns the runs that no other one contains, in order, uint64 (m, 3).

    Args:
        runs: First window, source and number of windows of each run, uint64 (n, 3).
    """
    order = np.lexsort((np.uint64(0) - runs[:, 2], runs[:, 0]))
    ordered = runs[order]
    kept = np.empty(len(ordered), bool)
    kernels.keep_outermost(ordered, kept)
    return np.asarray(ordered[kept])


def find_matching_runs(tokens: np.ndarray, others: np.ndarray, least: int) -> np.ndarray:
    """Returns the runs of tokens of one text that another text contains.

    Every run of at least `least` tokens that both texts have is in one of them. A run is found at
    the first place of the other text at which it begins, is as long as both texts agree, and no
    run contains another one. The time depends on the lengths of the texts, and hardly on how often
    a run occurs.

    Args:
        tokens: Token hashes of the text, uint64 (n,).
        others: Token hashes of the other text, uint64 (m,).

    Returns:
        The first token of each run, its first token in the other text, and the number of tokens,
        int64 (runs, 3), ordered by the first token.

    Examples:
        >>> text = np.array([9, 1, 2, 3, 4, 8], np.uint64)
        >>> other = np.array([1, 2, 3, 4, 5, 1, 2], np.uint64)
        >>> find_matching_runs(text, other, 3).tolist()
        [[1, 0, 4]]
    """
    own, count = len(tokens) - least + 1, len(others) - least + 1
    if own < 1 or count < 1:
        return np.empty((0, 3), np.int64)
    windows = np.empty((count + own, 3), np.uint64)
    _hash_windows(others, least, windows[:count])
    _hash_windows(tokens, least, windows[count:])
    windows[:, 2] = np.arange(count + own)
    sources = np.full(count + own, kernels.NONE, np.uint64)
    write_sources(windows, sources)
    # a window that the other text does not have matches nothing, although it may occur twice
    own_sources = sources[count:]
    own_sources[own_sources >= np.uint64(count)] = kernels.NONE
    prefixes = np.empty(count + own + 1, np.uint64)
    kernels.hash_contents(sources, prefixes)
    numbers = np.arange(count + own, dtype=np.uint64)
    # places of two documents: no run extends from one into the other
    places = np.where(numbers < np.uint64(count), numbers, numbers + np.uint64(1 << 32))
    out = np.empty((own, 3), np.uint64)
    end = np.uint64(count + own)
    _, found = kernels.find_runs(np.uint64(count), end, places, sources, prefixes, out)
    runs = outermost_runs(out[: int(found)]).astype(np.int64)
    runs[:, 0] -= count
    runs[:, 2] += least - 1
    agrees = [
        np.array_equal(tokens[first : first + length], others[source : source + length])
        for first, source, length in runs.tolist()
    ]
    return np.asarray(runs[np.array(agrees, bool)])


def _hash_windows(tokens: np.ndarray, least: int, out: np.ndarray) -> None:
    """Writes both hashes of each window of a text into the first two columns of an array."""
    hashes = np.empty(len(out), np.uint64)
    bounds = (np.uint64(0), np.uint64(len(tokens)), np.uint64(least))
    for column, base in enumerate((kernels.BASE, kernels.CHECK_BASE)):
        kernels.hash_runs(tokens, *bounds, base, hashes)
        out[:, column] = hashes
