"""Kernels of exact comparison: from shingle hashes to sorted sets, from pairs of sets to scores."""

from typing import NamedTuple

import numpy as np

from nearkin.hashing.kernels import find_sorted
from nearkin.pair_scope import EVERY_BLOCK, NO_BLOCK, PairScope
from nearkin.runtime.jit import inlined, kernel

U64 = np.uint64
DROPPED_BITS = U64(16)
"""The number of low bits of shingle hashes that runs do not compare."""
RUN_FACTOR = U64(0x9E3779B97F4A7C15)
"""An odd factor, so that every token of a run changes the run's hash."""


class Inverted(NamedTuple):
    """The postings of the shingles of consecutive documents, for brute force."""

    keys: np.ndarray
    """uint64: The sorted distinct hashes."""
    prefixes: np.ndarray
    """int64: The first key of each prefix. See `nearkin.hashing.sorted_lookup`."""
    shift: np.uint64
    """The number of bits that a hash is shifted to give its prefix."""
    firsts: np.ndarray
    """int64: The postings of key q are those from firsts[q] to firsts[q + 1]."""
    postings: np.ndarray
    """int64: Documents, counted from the first posted one, in ascending order for each key."""
    weights: np.ndarray
    """float64: The weight of each posting; empty if every weight is 1."""


class Compared(NamedTuple):
    """The payloads of all documents that are compared."""

    starts: np.ndarray
    """int64 (n + 1,): The hashes of document d are those from starts[d] to starts[d + 1]."""
    hashes: np.ndarray
    """uint64: The hashes, sorted and distinct in each document."""
    weights: np.ndarray
    """float64: The weight of each hash; empty if every weight is 1."""
    totals: np.ndarray
    """float64 (n,): The total weight of each document. See `total_weights_of`."""
    scope: PairScope
    """The pairs that are compared."""


@inlined
def may_compare(blocks: np.ndarray, sources: np.ndarray, a: int, b: int) -> bool:
    """Returns True if two documents may be compared. See `PairScope`.

    Args:
        blocks: Block of each document, uint64 (n,).
        sources: Source of each document, uint64 (n,), or an empty array.
        a: Number of one document.
        b: Number of the other document.
    """
    first = blocks[a]
    second = blocks[b]
    if first == NO_BLOCK or second == NO_BLOCK:
        return False
    if first != second and first != EVERY_BLOCK and second != EVERY_BLOCK:
        return False
    return sources.shape[0] == 0 or sources[a] != sources[b]


@kernel
def insertion_sort(values: np.ndarray) -> None:
    """Sorts a nearly sorted array in place."""
    for i in range(1, values.shape[0]):
        x = values[i]
        j = i
        while j > 0 and values[j - 1] > x:
            values[j] = values[j - 1]
            j -= 1
        values[j] = x


@kernel
def scatter_by_top_bits(values: np.ndarray, bits: int, ends: np.ndarray, out: np.ndarray) -> int:
    """Places hashes by their top bits (bucket sort); returns the size of the fullest bucket.

    Args:
        values: Hashes, uint64 (n,).
        bits: Number of top bits that choose the bucket, from 1.
        ends: Buffer for the ends of buckets, int64 (2^bits or more,).
        out: Array for the hashes in the order of their buckets, uint64 (n or more,).
    """
    shift = U64(64 - bits)
    ends[: (1 << bits)] = 0
    for i in range(values.shape[0]):
        ends[values[i] >> shift] += 1
    total, fullest = 0, 0
    for q in range(1 << bits):
        size = ends[q]
        fullest = max(fullest, size)
        ends[q] = total
        total += size
    for i in range(values.shape[0]):
        q = values[i] >> shift
        out[ends[q]] = values[i]
        ends[q] += 1
    return fullest


@kernel
def distinct_sorted(values: np.ndarray, ends: np.ndarray, out: np.ndarray) -> int:
    """Writes the sorted distinct values into out; returns their number.

    Hashes are uniform, so a bucket sort followed by insertion sort is linear. Repeated or crafted
    values are sorted with np.sort instead.

    Args:
        values: Hashes, uint64 (n,).
        ends: Buffer for the ends of buckets, int64 (a power of two,).
        out: Array for the sorted distinct hashes, uint64 (n or more,).
    """
    n = values.shape[0]
    if n == 0:
        return 0
    bits = 1
    while (1 << bits) < n and (2 << bits) <= ends.shape[0]:
        bits += 1
    if scatter_by_top_bits(values, bits, ends, out) > 32:
        out[:n] = np.sort(values)
    else:
        insertion_sort(out[:n])
    count = 1
    for i in range(1, n):
        if out[i] != out[count - 1]:
            out[count] = out[i]
            count += 1
    return count


@kernel
def distinct_sets(
    hashes: np.ndarray, offsets: np.ndarray, ends: np.ndarray, sizes: np.ndarray, out: np.ndarray
) -> int:
    """Writes the sorted distinct hashes of each document into out; returns their total number.

    Args:
        hashes: Shingle hashes, uint64.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        ends: Buffer for the ends of buckets, int64 (a power of two,).
        sizes: Array for the number of hashes in each set, int64 (n,).
        out: Array for the sets, one after the other, uint64, as long as `hashes`.
    """
    total = 0
    for d in range(sizes.shape[0]):
        values = hashes[offsets[d] : offsets[d + 1]]
        size = distinct_sorted(values, ends, out[total:])
        sizes[d] = size
        total += size
    return total


@kernel
def truncate_hashes(hashes: np.ndarray, upper: np.ndarray, lower: np.ndarray) -> None:
    """Writes the highest 48 bits of each hash, in two parts.

    Args:
        hashes: Hashes, uint64 (n,).
        upper: Array for the highest 32 bits, uint32 (n,).
        lower: Array for the next 16 bits, uint16 (n,).
    """
    for i in range(hashes.shape[0]):
        upper[i] = np.uint32(hashes[i] >> U64(32))
        lower[i] = np.uint16(hashes[i] >> DROPPED_BITS)


@kernel
def truncate_sets(
    hashes: np.ndarray, sizes: np.ndarray, out: np.ndarray, sizes_out: np.ndarray
) -> int:
    """Writes sets of hashes without their dropped bits into out; returns their total number.

    Hashes of a document that agree in the other bits become one.

    Args:
        hashes: Hashes of all sets, sorted and distinct in each set, uint64 (total,).
        sizes: Number of hashes in each set, int64 (n,).
        out: Array for the sets, one after the other, uint64 (total,).
        sizes_out: Array for the number of hashes in each of them, int64 (n,).
    """
    read, written = 0, 0
    for d in range(sizes.shape[0]):
        first = written
        for i in range(read, read + sizes[d]):
            value = (hashes[i] >> DROPPED_BITS) << DROPPED_BITS
            if written == first or out[written - 1] != value:
                out[written] = value
                written += 1
        read += sizes[d]
        sizes_out[d] = written - first
    return written


@kernel
def sets_of_truncated(
    upper: np.ndarray,
    lower: np.ndarray,
    offsets: np.ndarray,
    rows: np.ndarray,
    ends: np.ndarray,
    document: np.ndarray,
    sizes: np.ndarray,
    out: np.ndarray,
) -> int:
    """Writes the sets of some documents into out, as `distinct_sets`; returns their total number.

    The lowest 16 bits of each hash are 0.

    Args:
        upper: Highest 32 bits of the hashes, uint32.
        lower: Next 16 bits of the hashes, uint16.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        rows: Positions of the documents, int64 (r,).
        ends: Buffer for the ends of buckets, int64 (a power of two,).
        document: Buffer for the hashes of a document, uint64.
        sizes: Array for the number of hashes in each set, int64 (r,).
        out: Array for the sets, one after the other, uint64.
    """
    total = 0
    for r in range(rows.shape[0]):
        first, end = offsets[rows[r]], offsets[rows[r] + 1]
        for i in range(first, end):
            document[i - first] = (U64(upper[i]) << U64(32)) | (U64(lower[i]) << DROPPED_BITS)
        size = distinct_sorted(document[: end - first], ends, out[total:])
        sizes[r] = size
        total += size
    return total


@kernel
def overlap(
    hashes: np.ndarray, i: np.uint64, i_end: np.uint64, j: np.uint64, j_end: np.uint64
) -> np.uint64:
    """Returns |A ∩ B| of two sorted runs of one array.

    Args:
        hashes: Hashes of all sets, sorted and distinct in each set, uint64.
        i: Position of the first hash of A.
        i_end: Position after the last hash of A.
        j: Position of the first hash of B.
        j_end: Position after the last hash of B.
    """
    both = U64(0)
    while i < i_end and j < j_end:
        x, y = hashes[i], hashes[j]
        both += U64(x == y)
        i += U64(x <= y)
        j += U64(y <= x)
    return both


@kernel
def overlaps(
    pairs: np.ndarray,
    place: np.ndarray,
    starts: np.ndarray,
    hashes: np.ndarray,
    both: np.ndarray,
    union: np.ndarray,
) -> None:
    """Computes |A ∩ B| and |A ∪ B| of each packed pair.

    The set of document d is hashes[starts[place[d]] : starts[place[d] + 1]].

    Args:
        pairs: Packed pairs of document numbers, uint64 (m,).
        place: Position of the set of each document among the stored ones, integers.
        starts: First hash of each stored set, and the end, int64.
        hashes: Hashes of all sets, sorted and distinct in each set, uint64.
        both: Array for |A ∩ B| of each pair, int64 (m,).
        union: Array for |A ∪ B| of each pair, int64 (m,).
    """
    for p in range(pairs.shape[0]):
        a, b = U64(place[pairs[p] >> U64(32)]), U64(place[pairs[p] & U64(0xFFFFFFFF)])
        i, i_end = U64(starts[a]), U64(starts[a + U64(1)])
        j, j_end = U64(starts[b]), U64(starts[b + U64(1)])
        shared = overlap(hashes, i, i_end, j, j_end)
        both[p] = shared
        union[p] = (i_end - i) + (j_end - j) - shared


@kernel
def count_each(
    hashes: np.ndarray, offsets: np.ndarray, sizes: np.ndarray, out: np.ndarray, counts: np.ndarray
) -> int:
    """Writes the sorted distinct hashes of each document and their counts; returns their number.

    Args:
        hashes: Shingle hashes, uint64.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        sizes: Array for the number of hashes in each set, int64 (n,).
        out: Array for the sets, one after the other, uint64, as long as `hashes`.
        counts: Array for the number of occurrences of each hash in `out`, numbers.
    """
    total = 0
    for d in range(sizes.shape[0]):
        ordered = np.sort(hashes[offsets[d] : offsets[d + 1]])
        first = total
        for i in range(ordered.shape[0]):
            if i == 0 or ordered[i] != ordered[i - 1]:
                out[total], counts[total] = ordered[i], 0
                total += 1
            counts[total - 1] += 1
        sizes[d] = total - first
    return total


@kernel
def shared_weight(
    hashes: np.ndarray,
    weights: np.ndarray,
    i: np.uint64,
    i_end: np.uint64,
    j: np.uint64,
    j_end: np.uint64,
    product: bool,
) -> float:
    """Returns the sum over the shared hashes of two sorted runs, in order.

    The summands are the products of the two weights, or the smaller weights.

    Args:
        hashes: Hashes of all sets, sorted and distinct in each set, uint64.
        weights: Weight of each hash, float64.
        i: Position of the first hash of A.
        i_end: Position after the last hash of A.
        j: Position of the first hash of B.
        j_end: Position after the last hash of B.
        product: True for cosine, False for weighted Jaccard.
    """
    total = np.float64(0)
    while i < i_end and j < j_end:
        x, y = hashes[i], hashes[j]
        if x == y:
            total += weights[i] * weights[j] if product else min(weights[i], weights[j])
        i += U64(x <= y)
        j += U64(y <= x)
    return total


@kernel
def joint_weight(shared: float, a: float, b: float, product: bool) -> float:
    """Returns the divisor of the similarity: √(|a|²·|b|²), or the sum of the larger weights.

    Args:
        shared: Weight of the intersection.
        a: Total weight of A, or its squared length.
        b: Total weight of B, or its squared length.
        product: True for cosine, False for weighted Jaccard.
    """
    return np.sqrt(a * b) if product else a + b - shared


@kernel
def total_weights_of(
    documents: np.ndarray, starts: np.ndarray, weights: np.ndarray, product: bool, out: np.ndarray
) -> None:
    """Computes the sum of the weights, or of their squares, of some documents.

    The elements of out for other documents do not change.

    Args:
        documents: Numbers of the documents, int64 (m,).
        starts: First hash of each stored set, and the end, int64.
        weights: Weight of each hash, float64.
        product: True for cosine, False for weighted Jaccard.
        out: Array for the totals, float64 (stored,).
    """
    for p in range(documents.shape[0]):
        d = documents[p]
        out[d] = 0
        for i in range(starts[d], starts[d + 1]):
            out[d] += weights[i] * weights[i] if product else weights[i]


@kernel
def weighted_overlaps(
    pairs: np.ndarray,
    place: np.ndarray,
    starts: np.ndarray,
    hashes: np.ndarray,
    weights: np.ndarray,
    totals: np.ndarray,
    product: bool,
    both: np.ndarray,
    union: np.ndarray,
) -> None:
    """Computes the weights of the intersection and of the union of each packed pair.

    Args:
        pairs: Packed pairs of document numbers, uint64 (m,).
        place: Position of the set of each document among the stored ones, integers.
        starts: First hash of each stored set, and the end, int64.
        hashes: Hashes of all sets, sorted and distinct in each set, uint64.
        weights: Weight of each hash, float64.
        totals: Total weight of each stored set, float64. See `total_weights_of`.
        product: True for cosine, False for weighted Jaccard.
        both: Array for the weight of the intersection of each pair, float64 (m,).
        union: Array for the weight of the union of each pair, float64 (m,).
    """
    for p in range(pairs.shape[0]):
        a, b = U64(place[pairs[p] >> U64(32)]), U64(place[pairs[p] & U64(0xFFFFFFFF)])
        i, i_end = U64(starts[a]), U64(starts[a + U64(1)])
        j, j_end = U64(starts[b]), U64(starts[b + U64(1)])
        both[p] = shared_weight(hashes, weights, i, i_end, j, j_end, product)
        union[p] = joint_weight(both[p], totals[a], totals[b], product)


@kernel
def pairs_of_range(
    first: int,
    last: int,
    index: Inverted,
    compared: Compared,
    threshold: float,
    product: bool,
    out: np.ndarray,
    both: np.ndarray,
    union: np.ndarray,
) -> int:
    """Writes every pair (e, d) that reaches the threshold, with first ≤ e < last and e < d.

    `index` has the postings of the documents e. Sums run over the hashes of d in order, so they do
    not depend on the ranges. The output arrays have room for all pairs.

    Args:
        first: First document of the range.
        last: End of the range.
        index: Postings of the documents of the range.
        compared: Payloads of all documents.
        threshold: Minimum similarity of a pair.
        product: True for cosine, False for weighted Jaccard.
        out: Array for the packed pairs, uint64.
        both: Array for the weight of the intersection of each pair, float64.
        union: Array for the weight of the union of each pair, float64.

    Returns:
        The number of pairs.
    """
    starts = compared.starts
    totals = compared.totals
    blocks = compared.scope.blocks
    sources = compared.scope.sources
    weighted = compared.weights.shape[0] > 0
    sums, touched = np.zeros(last - first, np.float64), np.empty(last - first, np.int64)
    found = 0
    for d in range(first + 1, totals.shape[0]):
        count = 0
        for t in range(starts[d], starts[d + 1]):
            q = find_sorted(compared.hashes[t], index.keys, index.prefixes, index.shift)
            if q < 0:
                continue
            own = compared.weights[t] if weighted else 1.0
            for at in range(index.firsts[q], index.firsts[q + 1]):
                e = index.postings[at]
                if first + e >= d:
                    break
                other = index.weights[at] if weighted else 1.0
                if sums[e] == 0:
                    touched[count] = e
                    count += 1
                sums[e] += own * other if product else min(own, other)
        for i in range(count):
            e = first + touched[i]
            shared = sums[touched[i]]
            sums[touched[i]] = 0
            if may_compare(blocks, sources, d, e):
                joint = joint_weight(shared, totals[d], totals[e], product)
                # A quotient is compared instead of a product: see packed_pairs.meets_threshold.
                if shared / joint >= threshold:
                    out[found] = (U64(e) << U64(32)) | U64(d)
                    both[found], union[found] = shared, joint
                    found += 1
    return found


@kernel
def smallest_hashes(
    hashes: np.ndarray, starts: np.ndarray, rows: np.ndarray, out: np.ndarray
) -> None:
    """Writes the smallest hashes of some documents of a batch into out, (rows, m).

    Sets are sorted. The elements of out beyond the end of a shorter set do not change.

    Args:
        hashes: Hashes of the batch, sorted and distinct in each set, uint64.
        starts: First hash of each document of the batch, and the end, int64.
        rows: Positions of the documents in the batch, int64 (rows,).
        out: Array for the hashes, uint64 (rows, m).
    """
    for i in range(rows.shape[0]):
        start = starts[rows[i]]
        for j in range(min(out.shape[1], starts[rows[i] + 1] - start)):
            out[i, j] = hashes[start + j]


@kernel
def contained_pairs(
    first: int,
    hashes: np.ndarray,
    starts: np.ndarray,
    inside: np.ndarray,
    keys: np.ndarray,
    index: np.ndarray,
    shift: np.uint64,
    firsts: np.ndarray,
    posted: np.ndarray,
    crowded: np.ndarray,
    searched: np.ndarray,
    margins: np.ndarray,
    sizes: np.ndarray,
    scope: PairScope,
) -> np.ndarray:
    """Finds pairs of a searched document and a document of a batch that may contain it.

    A document may contain another one if it has enough of its smallest hashes, and either more
    shingles, or as many shingles and a larger document number. Sets and keys are sorted; `index`
    and `shift` are those of `find_sorted`. The postings of key q are
    posted[firsts[q] : firsts[q + 1]], which are positions among the searched documents.

    Args:
        first: Document number of the first document of the batch.
        hashes: Hashes of the batch, sorted and distinct in each set, uint64.
        starts: First hash of each document of the batch, and the end, int64.
        inside: Whether each document can contain another one, bool (documents,).
        keys: Sorted distinct hashes of the postings, uint64 (q,).
        index: Position of the first key of each prefix, and the end, int64.
        shift: Number of bits by which a hash is shifted to give its prefix.
        firsts: First posting of each key, and the end, int64 (q + 1,).
        posted: Postings, int64.
        crowded: Whether a key has too many postings to be looked up, bool (q,).
        searched: Document numbers of the searched documents, int64 (s,).
        margins: Minimum number of smallest hashes that must be found, for each searched document,
            (s,).
        sizes: Number of shingles of each document, int64 (documents,).
        scope: Pairs that are compared.

    Returns:
        int64 (2, m): the searched and the containing document of each pair.
    """
    blocks = scope.blocks
    sources = scope.sources
    hits = np.zeros(searched.shape[0], np.int64)
    touched = np.empty(searched.shape[0], np.int64)
    room, found = 1024, 0
    out = np.empty((2, room), np.int64)
    for d in range(starts.shape[0] - 1):
        b = first + d
        if not inside[b]:
            continue
        count = 0
        for i in range(starts[d], starts[d + 1]):
            q = find_sorted(hashes[i], keys, index, shift)
            if q < 0 or crowded[q]:
                continue
            for p in range(firsts[q], firsts[q + 1]):
                row = posted[p]
                if hits[row] == 0:
                    touched[count] = row
                    count += 1
                hits[row] += 1
        for t in range(count):
            row = touched[t]
            a, enough = searched[row], hits[row] >= margins[row]
            hits[row] = 0
            larger = sizes[b] > sizes[a] or (sizes[b] == sizes[a] and b > a)
            if enough and larger and may_compare(blocks, sources, a, b):
                if found == room:
                    grown = np.empty((2, 2 * room), np.int64)
                    grown[:, :room] = out
                    out, room = grown, 2 * room
                out[0, found], out[1, found] = a, b
                found += 1
    return out[:, :found].copy()


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
        highest *= RUN_FACTOR
        current = current * RUN_FACTOR + tokens[i]
    out[0] = current
    for i in range(length, tokens.shape[0]):
        current = current * RUN_FACTOR + tokens[i] - highest * tokens[i - length]
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
