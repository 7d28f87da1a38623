"""Kernels of exact comparison: from shingle hashes to sorted sets, from pairs of sets to scores."""

from typing import NamedTuple

import numpy as np

from nearkin.runtime.jit import inlined, kernel
from nearkin.stages.hashing.kernels import find_sorted
from nearkin.stages.pair_scope import EVERY_BLOCK, NO_BLOCK, PairScope

U64 = np.uint64
DROPPED_BITS = U64(16)
"""The number of low bits of shingle hashes that runs do not compare."""
MOST_COUNTED = 65_535
"""The largest number of documents that is counted for a shingle."""
ROUNDING = 1e-9
"""The share by which a sum of weights may be wrong because of rounding."""
RUN_FACTOR = U64(0x9E3779B97F4A7C15)
"""An odd factor, so that every token of a run changes the run's hash."""


class Inverted(NamedTuple):
    """The postings of the shingles of consecutive documents, for brute force."""

    keys: np.ndarray
    """uint64: The sorted distinct hashes."""
    prefixes: np.ndarray
    """int64: The first key of each prefix. See `nearkin.stages.hashing.sorted_lookup`."""
    shift: np.uint64
    """The number of bits that a hash is shifted to give its prefix."""
    firsts: np.ndarray
    """int64: The postings of key q are those from firsts[q] to firsts[q + 1]."""
    postings: np.ndarray
    """int64: Documents, counted from the first posted one, in ascending order for each key."""
    weights: np.ndarray
    """float64: The weight of each posting; empty if every weight is 1."""


class Hashes(NamedTuple):
    """The hashes of consecutive documents."""

    starts: np.ndarray
    """int64 (n + 1,): The hashes of document d are those from starts[d] to starts[d + 1]."""
    hashes: np.ndarray
    """uint64: The hashes, sorted and distinct in each document."""
    weights: np.ndarray
    """float64: The weight of each hash; empty if every weight is 1."""

    def select(self, first: int, last: int) -> "Hashes":
        """Returns the hashes of the documents from `first` to `last` - 1, without a copy."""
        starts = self.starts[first : last + 1]
        rows = slice(starts[0], starts[-1])
        return Hashes(starts - starts[0], self.hashes[rows], self.weights[rows])


class Compared(NamedTuple):
    """The documents that are compared."""

    documents: Hashes
    """The hashes of all documents."""
    totals: np.ndarray
    """float64 (n,): The total weight of each document. See `total_weights_of`."""
    scope: PairScope
    """The pairs that are compared."""


class Prefixes(NamedTuple):
    """The rarest shingles of documents, of which two similar documents share at least one.

    If the weight outside of the prefixes of two documents cannot reach the threshold, neither
    can what they share, unless they share a shingle of both prefixes (Bayardo, Ma, Srikant,
    "Scaling up all pairs similarity search", WWW 2007).
    """

    counts: np.ndarray
    """uint16: The number of documents that contain a hash of each group. See
    `count_documents`."""
    shift: np.uint64
    """The number of bits that a hash is shifted to give its group."""
    last_counts: np.ndarray
    """int64 (n,): The count of the last hash of each prefix."""
    last_hashes: np.ndarray
    """uint64 (n,): The last hash of each prefix."""
    rests: np.ndarray
    """float64 (n,): The weight, or the squared length, outside of each prefix."""


class PairBuffer(NamedTuple):
    """The pairs of a range of documents."""

    pairs: np.ndarray
    """uint64: The packed pairs."""
    both: np.ndarray
    """float64: The weight of the intersection of each pair."""
    union: np.ndarray
    """float64: The weight of the union of each pair."""
    counts: np.ndarray
    """int64 (2,): The number of pairs, and of the hashes that were compared outside of prefixes."""


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
def shared_weight_of(compared: Compared, a: int, b: int, product: bool) -> float:
    """Returns the weight that two documents share, from their whole payloads.

    Args:
        compared: Payloads of the documents.
        a: Number of one document.
        b: Number of the other document.
        product: True for cosine, False for weighted Jaccard.
    """
    starts, hashes, weights = compared.documents
    i, i_end = U64(starts[a]), U64(starts[a + 1])
    j, j_end = U64(starts[b]), U64(starts[b + 1])
    if weights.shape[0] == 0:
        return np.float64(overlap(hashes, i, i_end, j, j_end))
    return shared_weight(hashes, weights, i, i_end, j, j_end, product)


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
def count_documents(hashes: np.ndarray, shift: np.uint64, counts: np.ndarray) -> None:
    """Adds to each count the number of documents that contain a hash of its group.

    Hashes with the same top bits h >> shift are a group. A count of 1 shows that no second
    document contains the hash.

    Args:
        hashes: Hashes, distinct in each document, uint64 (total,).
        shift: Number of bits by which a hash is shifted to give its group.
        counts: The counts, uint16 (2^(64 - shift),). They do not rise above 65,535.
    """
    for i in range(hashes.shape[0]):
        group = hashes[i] >> shift
        counts[group] += np.uint16(counts[group] < MOST_COUNTED)


@inlined
def is_in_prefix(count: int, h: np.uint64, last_count: int, last_hash: np.uint64) -> bool:
    """Returns True if a hash is not after the last one of a prefix.

    Args:
        count: Count of the hash.
        h: The hash.
        last_count: Count of the last hash of the prefix.
        last_hash: Last hash of the prefix.
    """
    return count < last_count or (count == last_count and h <= last_hash)


@kernel
def find_prefixes(
    compared: Compared,
    share: float,
    product: bool,
    levels: np.ndarray,
    prefixes: Prefixes,
    posted: np.ndarray,
    costs: np.ndarray,
) -> None:
    """Finds the shortest prefixes outside of which the documents have less than a share of weight.

    The hashes of a document are ordered by their counts, and by themselves if these are equal.

    Args:
        compared: Payloads of the documents.
        share: Share of the total weight of a document that a similar document must share.
        product: True for cosine, False for weighted Jaccard.
        levels: Buffer of zeros, float64 (65,536,).
        prefixes: Counts of the hashes. Receives the prefixes.
        posted: Receives the number of hashes of each prefix that other documents can contain,
            int64 (n,).
        costs: Receives the sum of the counts of all hashes of each document, int64 (n,).
    """
    weighted = compared.documents.weights.shape[0] > 0
    for d in range(compared.totals.shape[0]):
        first, end = compared.documents.starts[d], compared.documents.starts[d + 1]
        top = 0
        for i in range(first, end):
            weight = compared.documents.weights[i] if weighted else 1.0
            level = np.int64(prefixes.counts[compared.documents.hashes[i] >> prefixes.shift])
            levels[level] += weight * weight if product else weight
            top = max(top, level)
        required = share * compared.totals[d] * (1 - ROUNDING)
        rest = 0.0
        while top > 0 and rest + levels[top] < required:
            rest += levels[top]
            top -= 1
        last = U64(0)
        for i in range(end - 1, first - 1, -1):
            level = np.int64(prefixes.counts[compared.documents.hashes[i] >> prefixes.shift])
            levels[level] = 0
            if level == top and last == 0:
                weight = compared.documents.weights[i] if weighted else 1.0
                weight = weight * weight if product else weight
                if rest + weight < required:
                    rest += weight
                else:
                    last = compared.documents.hashes[i]
        prefixes.last_counts[d], prefixes.last_hashes[d] = top, last
        prefixes.rests[d] = rest
        posted[d], costs[d] = 0, 0
        for i in range(first, end):
            count = prefixes.counts[compared.documents.hashes[i] >> prefixes.shift]
            costs[d] += count
            posted[d] += count > 1 and is_in_prefix(count, compared.documents.hashes[i], top, last)


@kernel
def write_prefixes(first: int, compared: Compared, prefixes: Prefixes, out: Hashes) -> None:
    """Writes the hashes of prefixes that other documents can contain, and their weights.

    Args:
        first: First document.
        compared: Payloads of all documents.
        prefixes: Prefixes of all documents.
        out: Has the starts of the documents. Receives the hashes and the weights.
    """
    for i in range(out.starts.shape[0] - 1):
        d = first + i
        last_count, last_hash = prefixes.last_counts[d], prefixes.last_hashes[d]
        at = out.starts[i]
        for t in range(compared.documents.starts[d], compared.documents.starts[d + 1]):
            h = compared.documents.hashes[t]
            count = prefixes.counts[h >> prefixes.shift]
            if count > 1 and is_in_prefix(count, h, last_count, last_hash):
                out.hashes[at] = h
                if out.weights.shape[0]:
                    out.weights[at] = compared.documents.weights[t]
                at += 1


@inlined
def most_shared(
    shared: float, a: int, b: int, compared: Compared, prefixes: Prefixes, product: bool
) -> float:
    """Returns a bound of the weight that two documents share, from what their prefixes share.

    What is not in the shorter prefix cannot be shared by more than the weight outside of it.

    Args:
        shared: Weight that both prefixes share.
        a: Number of one document.
        b: Number of the other document.
        compared: Payloads of the documents.
        prefixes: Prefixes of the documents.
        product: True for cosine, False for weighted Jaccard.
    """
    shorter, other = a, b
    if is_in_prefix(
        prefixes.last_counts[b],
        prefixes.last_hashes[b],
        prefixes.last_counts[a],
        prefixes.last_hashes[a],
    ):
        shorter, other = b, a
    rest = prefixes.rests[shorter]
    if rest == 0:
        return shared
    if product:
        # The inequality of Cauchy and Schwarz.
        return (shared + np.sqrt(rest * compared.totals[other])) * (1 + ROUNDING)
    most = (shared + rest) * (1 + ROUNDING)
    return min(most, compared.totals[a], compared.totals[b])


@kernel
def add_pairs(
    first: int,
    index: Inverted,
    begin: int,
    later: Hashes,
    compared: Compared,
    prefixes: Prefixes,
    threshold: float,
    product: bool,
    most_steps: float,
    scored: PairBuffer,
) -> bool:
    """Adds every pair (e, d), e < d, that reaches the threshold to the buffer.

    `index` has the postings of documents e, and `later` the hashes of documents d. Both have the
    prefixes, or both have whole documents. Sums run over the hashes of d in order, so they do not
    depend on the ranges.

    Args:
        first: First document of the postings.
        index: Postings of the documents e.
        begin: First document of `later`.
        later: Hashes of the documents d. Those up to `first` are skipped.
        compared: Payloads of all documents.
        prefixes: Prefixes of all documents. Nothing is outside of them if they are whole documents.
        threshold: Minimum similarity of a pair.
        product: True for cosine, False for weighted Jaccard.
        most_steps: Number of hashes of pairs that may be compared outside of the prefixes for all
            documents after the first one. It is divided among them.
        scored: Receives the pairs. It has room for all pairs.

    Returns:
        False if more hashes would have to be compared. The pairs are not complete then.
    """
    blocks = compared.scope.blocks
    sources = compared.scope.sources
    totals = compared.totals
    weighted = compared.documents.weights.shape[0] > 0
    documents = totals.shape[0] - first
    sums, touched = np.zeros(documents, np.float64), np.empty(documents, np.int64)
    found, steps = scored.counts[0], scored.counts[1]
    for i in range(max(0, first + 1 - begin), later.starts.shape[0] - 1):
        d = begin + i
        count = 0
        for t in range(later.starts[i], later.starts[i + 1]):
            q = find_sorted(later.hashes[t], index.keys, index.prefixes, index.shift)
            if q < 0:
                continue
            own = later.weights[t] if weighted else 1.0
            for at in range(index.firsts[q], index.firsts[q + 1]):
                e = index.postings[at]
                if first + e >= d:
                    break
                other = index.weights[at] if weighted else 1.0
                if sums[e] == 0:
                    touched[count] = e
                    count += 1
                sums[e] += own * other if product else min(own, other)
        for j in range(count):
            e = first + touched[j]
            shared = sums[touched[j]]
            sums[touched[j]] = 0
            if not may_compare(blocks, sources, d, e):
                continue
            most = most_shared(shared, d, e, compared, prefixes, product)
            # A quotient is compared instead of a product: see packed_pairs.meets_threshold.
            if most / joint_weight(most, totals[d], totals[e], product) < threshold:
                continue
            if most != shared:
                shared = shared_weight_of(compared, d, e, product)
                steps += compared.documents.starts[d + 1] - compared.documents.starts[d]
                steps += compared.documents.starts[e + 1] - compared.documents.starts[e]
            joint = joint_weight(shared, totals[d], totals[e], product)
            if shared / joint >= threshold:
                scored.pairs[found] = (U64(e) << U64(32)) | U64(d)
                scored.both[found], scored.union[found] = shared, joint
                found += 1
        if steps * documents > most_steps * max(d - first, documents / 64):
            return False
    scored.counts[0], scored.counts[1] = found, steps
    return True


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
