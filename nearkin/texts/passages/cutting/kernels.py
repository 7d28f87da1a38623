"""Kernels that decide which repeated windows stay where they are, and which are cut.

Documents are visited in keep order. A window is *registered* if its content is registered nowhere
yet and none of its tokens is cut: it stays complete. The tokens of any other window with a
registered content are cut, unless a window that is registered in the same document contains them.
"""

import numpy as np

from nearkin.runtime.jit import inlined, kernel
from nearkin.stages.winnowing.kernels import EMPTY, NONE, U64, content_of

TOKEN_BITS = U64(0xFFFFFFFF)
"""The bits of a place that hold the number of the token."""


@inlined
def keeper_of(window: np.uint64, sources: np.ndarray, keepers: np.ndarray) -> np.uint32:
    """Returns the document in which the content of a window is registered, or EMPTY.

    Args:
        window: Number of the window.
        sources: First other window of the same content, or NONE, uint64 (n,).
        keepers: Document in which each content is registered, or EMPTY, uint32 (n,).
    """
    if sources[window] == NONE:
        return EMPTY
    return keepers[content_of(window, sources)]


@kernel
def plan_cuts(
    order: np.ndarray,
    begin: np.uint64,
    bounds: np.ndarray,
    places: np.ndarray,
    sources: np.ndarray,
    least: np.uint64,
    keepers: np.ndarray,
    holds: np.ndarray,
    is_known: np.ndarray,
    out: np.ndarray,
) -> tuple[np.uint64, np.uint64]:
    """Registers windows, and writes the tokens of those that are cut.

    Args:
        order: Documents in keep order, uint32 (n,).
        begin: Position in `order` to begin with.
        bounds: First window of each document, and the end, int64 (documents + 1,).
        places: Place of each window, uint64 (m,).
        sources: First other window of the same content, or NONE, uint64 (m,).
        least: Number of tokens of a window.
        keepers: Document in which each content is registered, or EMPTY, uint32 (m,).
        holds: True for each document with a content for which another place is cut, bool
            (documents,).
        is_known: Buffer of as many elements as a document has windows, bool.
        out: Array for the runs of tokens that are cut, uint32 (k, 4): the document, the number of
            the first token, that of the token after the last one, and the document that holds the
            content where the run begins. It is as long as the windows of any document.

    Returns:
        The position to go on with when `out` has been emptied, and the number of runs.
    """
    count = U64(0)
    for position in range(begin, U64(order.shape[0])):
        document = U64(order[position])
        first, end = U64(bounds[document]), U64(bounds[document + U64(1)])
        if count + (end - first) > U64(out.shape[0]):
            return position, count
        for w in range(first, end):
            is_known[w - first] = keeper_of(U64(w), sources, keepers) != EMPTY
        # Tokens before `cut_end` may be cut, and those before `held_end` stay.
        cut_end = U64(0)
        held_end = U64(0)
        next_known = first
        for w in range(first, end):
            keeper = keeper_of(U64(w), sources, keepers)
            token = places[w] & TOKEN_BITS
            if keeper != EMPTY:
                start = max(token, held_end)
                last = count - U64(1)
                if count > U64(0) and out[last, U64(0)] == document and start <= out[last, U64(2)]:
                    out[last, U64(2)] = token + least
                else:
                    out[count, U64(0)] = document
                    out[count, U64(1)] = start
                    out[count, U64(2)] = token + least
                    out[count, U64(3)] = keeper
                    count += U64(1)
                holds[keeper] = True
                cut_end = token + least
            elif sources[w] != NONE and token >= cut_end:
                while next_known < end and (next_known <= w or not is_known[next_known - first]):
                    next_known += U64(1)
                if next_known == end or (places[next_known] & TOKEN_BITS) >= token + least:
                    keepers[content_of(U64(w), sources)] = document
                    held_end = token + least
    return U64(order.shape[0]), count


@kernel
def plan_removals(
    order: np.ndarray,
    bounds: np.ndarray,
    spans: np.ndarray,
    sources: np.ndarray,
    sizes: np.ndarray,
    share: float,
    keepers: np.ndarray,
    removed: np.ndarray,
) -> None:
    """Marks the documents of which earlier documents hold a share, and registers all others.

    Args:
        order: Documents in keep order, uint32 (n,).
        bounds: First window of each document, and the end, int64 (documents + 1,).
        spans: First byte of each window and the byte after its last one, uint32 (m, 2).
        sources: First other window of the same content, or NONE, uint64 (m,).
        sizes: Number of bytes of each document, int64 (documents,).
        share: Share of the bytes of a document from which it is removed.
        keepers: Document in which each content is registered, or EMPTY, uint32 (m,).
        removed: Marks of the documents, bool (documents,).
    """
    for position in range(U64(order.shape[0])):
        document = U64(order[position])
        first, end = U64(bounds[document]), U64(bounds[document + U64(1)])
        repeated, reached = U64(0), U64(0)
        for w in range(first, end):
            if keeper_of(U64(w), sources, keepers) != EMPTY:
                start = max(U64(spans[w, U64(0)]), reached)
                reached = U64(spans[w, U64(1)])
                repeated += reached - start
        # The quotient reaches the share exactly. See `nearkin.stages.packed_pairs.meets_threshold`.
        removed[document] = repeated > U64(0) and repeated / sizes[document] >= share
        if removed[document]:
            continue
        for w in range(first, end):
            if sources[w] != NONE and keeper_of(U64(w), sources, keepers) == EMPTY:
                keepers[content_of(U64(w), sources)] = document
