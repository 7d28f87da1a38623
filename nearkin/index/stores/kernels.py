"""Kernels of the bucket table: a hash table of band keys that grows by one segment at a time.

A slot is a row of two words: a key, and what is in its bucket. A bucket of one posting, as nearly
all are, holds the posting itself, as its complement, which is negative. A larger bucket holds the
row of a list: first node, last node, number of postings. A node is a row of two words (posting,
next node). Rows of lists and of nodes are numbered from 1, so that 0 is a slot without a key.

Slots are in segments. A key belongs to one segment, and is found there by linear probing. The
number of segments grows by one (linear hashing; Litwin, VLDB 1980): segment `segments - round` is
split, and the others stay as they are. `round` is the largest power of two up to the number of
segments. A segment that is still to be split in a round holds at most 2 · MAX_LOAD of its slots on
average. Hashes depend on a random seed, so no documents can be chosen that fill one segment.
"""

import numpy as np

from nearkin.runtime.jit import kernel
from nearkin.stages.hashing.kernels import mix64

U64, I64 = np.uint64, np.int64
SEGMENT = 1 << 12
"""The number of slots of a segment."""
POSITION_SHIFT = U64(52)
"""The shift of a hash that leaves the position in a segment."""
IN_SEGMENT = U64(SEGMENT - 1)
READ_AHEAD = 1 << 10
"""The number of queries whose first slots are read before buckets are searched."""
MAX_LOAD = 0.4
"""The share of all slots that may be taken. One more segment is added then."""
KEY = 0
PLACE = 1
"""Columns of a slot."""
UNUSED = I64(0)
"""The place of a slot without a key. New memory is zero."""
FIRST = 0
LAST = 1
SIZE = 2
"""Columns of a list. The first one leads to the next free list if the list is free."""
WORD = 0
NEXT = 1
"""Columns of a node."""
END = I64(0)
"""The end of a list, of the free lists and of the free nodes."""
KEYS = 0
SEGMENTS = 1
ROUND = 2
LISTS = 3
FREE_LIST = 4
NODES = 5
FREE_NODE = 6
EVICTED = 7
HELD = 8
MOVED = 9
"""Places of the state: keys; segments, and segments at the beginning of the round; used lists and
the first free one; used nodes and the first free one; evicted and present postings; slots that were
moved when segments were split."""
STATE_SIZE = 10
REF_SHIFT = 24


@kernel
def home_of(key: np.uint64, seed: np.uint64, segments: np.int64, begun: np.int64) -> np.uint64:
    """Returns the slot at which the search for a key begins.

    Args:
        key: Band key.
        seed: Seed of the table's hashes.
        segments: Number of segments.
        begun: Number of segments at the beginning of the round.
    """
    hashed = mix64(key ^ seed)
    segment = hashed & U64(2 * begun - 1)
    if segment >= U64(segments):
        segment = hashed & U64(begun - 1)
    return segment * U64(SEGMENT) + (hashed >> POSITION_SHIFT)


@kernel
def slot_of(key: np.uint64, home: np.uint64, slots: np.ndarray) -> np.int64:
    """Returns the slot of a key, or the free slot where it belongs.

    Args:
        key: Band key.
        home: Slot at which the search for the key begins.
        slots: Slots of the table, int64 of shape (n, 2).
    """
    at = home
    while slots[at, PLACE] != UNUSED and slots[at, KEY] != I64(key):
        at = (at & ~IN_SEGMENT) + ((at + U64(1)) & IN_SEGMENT)
    return I64(at)


@kernel
def free_slot(at: np.int64, seed: np.uint64, slots: np.ndarray) -> None:
    """Frees a slot, and moves slots behind it so that linear probing finds them.

    Knuth, The Art of Computer Programming, volume 3, section 6.4, algorithm R.

    Args:
        at: Slot that becomes free.
        seed: Seed of the table's hashes.
        slots: Slots of the table, int64 of shape (n, 2). They are changed.
    """
    begin = U64(at) & ~IN_SEGMENT
    hole = U64(at) & IN_SEGMENT
    other = hole
    while True:
        other = (other + U64(1)) & IN_SEGMENT
        if slots[begin + other, PLACE] == UNUSED:
            break
        home = mix64(U64(slots[begin + other, KEY]) ^ seed) >> POSITION_SHIFT
        if (other - home) & IN_SEGMENT >= (other - hole) & IN_SEGMENT:
            slots[begin + hole] = slots[begin + other]
            hole = other
    slots[begin + hole, PLACE] = UNUSED


@kernel
def split_segment(seed: np.uint64, slots: np.ndarray, state: np.ndarray) -> None:
    """Adds a segment, which receives about half of the keys of an existing one.

    Args:
        seed: Seed of the table's hashes.
        slots: Slots of the table, int64 of shape (n, 2), with room for the segment. They are
            changed.
        state: Counts of the table, int64 of shape (STATE_SIZE,). They are changed.
    """
    begin = (state[SEGMENTS] - state[ROUND]) * SEGMENT
    moved = slots[begin : begin + SEGMENT].copy()
    slots[begin : begin + SEGMENT] = 0
    state[SEGMENTS] += 1
    if state[SEGMENTS] == 2 * state[ROUND]:
        state[ROUND] = state[SEGMENTS]
    for row in range(SEGMENT):
        if moved[row, PLACE] != UNUSED:
            key = U64(moved[row, KEY])
            at = slot_of(key, home_of(key, seed, state[SEGMENTS], state[ROUND]), slots)
            slots[at] = moved[row]
            state[MOVED] += 1


@kernel
def bucket_sizes(
    queries: np.ndarray,
    seed: np.uint64,
    slots: np.ndarray,
    lists: np.ndarray,
    state: np.ndarray,
    most: np.int64,
    offsets: np.ndarray,
    places: np.ndarray,
) -> int:
    """Computes where the postings of each query begin, and what the slot of each query holds.

    Args:
        queries: Band keys, uint64 of shape (m,).
        seed: Seed of the table's hashes.
        slots: Slots of the table, int64 of shape (n, 2).
        lists: Lists of the table, int64 of shape (lists, 3).
        state: Counts of the table, int64 of shape (STATE_SIZE,).
        most: Maximum number of postings that are read from a bucket: the oldest ones.
        offsets: Receives the begin of each query's postings, int64 of shape (m + 1,).
        places: Receives the place of each query, int64 of shape (m,).

    Returns:
        The number of postings of all queries.
    """
    segments = state[SEGMENTS]
    begun = state[ROUND]
    offsets[0] = 0
    for begin in range(0, queries.shape[0], READ_AHEAD):
        end = min(begin + READ_AHEAD, queries.shape[0])
        # without a branch, the processor reads many slots at a time
        for q in range(begin, end):
            places[q] = slots[home_of(queries[q], seed, segments, begun), PLACE]
        for q in range(begin, end):
            home = home_of(queries[q], seed, segments, begun)
            place = slots[slot_of(queries[q], home, slots), PLACE]
            places[q] = place
            size = lists[place, SIZE] if place > 0 else I64(place < 0)
            offsets[q + 1] = offsets[q] + min(size, most)
    return offsets[queries.shape[0]]


@kernel
def fill_postings(
    places: np.ndarray, lists: np.ndarray, nodes: np.ndarray, offsets: np.ndarray, out: np.ndarray
) -> None:
    """Copies the postings of each bucket to `out`.

    Args:
        places: Places of the queries, int64 of shape (m,), as `bucket_sizes` returns them.
        lists: Lists of the table, int64 of shape (lists, 3).
        nodes: Nodes of the table, int64 of shape (nodes, 2).
        offsets: Begin of each query's postings in `out`, int64 of shape (m + 1,).
        out: Receives the postings, int64 of shape (offsets[m],).
    """
    for q in range(places.shape[0]):
        if places[q] < 0:
            out[offsets[q]] = ~places[q]
        elif places[q] > 0:
            node = lists[places[q], FIRST]
            for i in range(offsets[q], offsets[q + 1]):
                out[i] = nodes[node, WORD]
                node = nodes[node, NEXT]


@kernel
def take_row(rows: np.ndarray, link: int, used: int, free: int, state: np.ndarray) -> np.int64:
    """Returns a free list or node. The caller has made room for it.

    Args:
        rows: Lists or nodes, int64.
        link: Column that leads from a free row to the next one.
        used: Place of the number of used rows in the state.
        free: Place of the first free row in the state.
        state: Counts of the table, int64 of shape (STATE_SIZE,). They are changed.
    """
    row = state[free]
    if row != END:
        state[free] = rows[row, link]
    else:
        state[used] += 1
        row = state[used]
    return row


@kernel
def insert_node(
    word: np.int64, place: np.int64, lists: np.ndarray, nodes: np.ndarray, state: np.ndarray
) -> None:
    """Inserts a posting into a list, behind all smaller ones.

    Args:
        word: Posting.
        place: The list.
        lists: Lists of the table, int64 of shape (lists, 3). They are changed.
        nodes: Nodes of the table, int64 of shape (nodes, 2), with room for one. They are changed.
        state: Counts of the table, int64 of shape (STATE_SIZE,). They are changed.
    """
    node = take_row(nodes, NEXT, NODES, FREE_NODE, state)
    nodes[node, WORD] = word
    before = END
    after = END
    if lists[place, SIZE] > 0:
        # nearly all postings are newer than those that are there
        before = lists[place, LAST]
        if nodes[before, WORD] > word:
            before = END
            after = lists[place, FIRST]
            while nodes[after, WORD] <= word:
                before = after
                after = nodes[after, NEXT]
    nodes[node, NEXT] = after
    if before == END:
        lists[place, FIRST] = node
    else:
        nodes[before, NEXT] = node
    if after == END:
        lists[place, LAST] = node
    lists[place, SIZE] += 1


@kernel
def free_node(
    node: np.int64,
    before: np.int64,
    place: np.int64,
    lists: np.ndarray,
    nodes: np.ndarray,
    state: np.ndarray,
) -> None:
    """Deletes a posting from a list.

    Args:
        node: Node of the posting.
        before: The node before it, or END.
        place: The list.
        lists: Lists of the table, int64 of shape (lists, 3). They are changed.
        nodes: Nodes of the table, int64 of shape (nodes, 2). They are changed.
        state: Counts of the table, int64 of shape (STATE_SIZE,). They are changed.
    """
    after = nodes[node, NEXT]
    if before == END:
        lists[place, FIRST] = after
    else:
        nodes[before, NEXT] = after
    if after == END:
        lists[place, LAST] = before
    lists[place, SIZE] -= 1
    nodes[node, NEXT] = state[FREE_NODE]
    state[FREE_NODE] = node


@kernel
def shorten_slot(
    at: np.int64,
    seed: np.uint64,
    slots: np.ndarray,
    lists: np.ndarray,
    nodes: np.ndarray,
    state: np.ndarray,
) -> None:
    """Frees the list of a bucket that has at most one posting, and the slot if it has none.

    Args:
        at: Slot of a bucket that holds a list.
        seed: Seed of the table's hashes.
        slots: Slots of the table, int64 of shape (n, 2). They are changed.
        lists: Lists of the table, int64 of shape (lists, 3). They are changed.
        nodes: Nodes of the table, int64 of shape (nodes, 2). They are changed.
        state: Counts of the table, int64 of shape (STATE_SIZE,). They are changed.
    """
    place = slots[at, PLACE]
    if lists[place, SIZE] > 1:
        return
    if lists[place, SIZE] == 1:
        node = lists[place, FIRST]
        slots[at, PLACE] = ~nodes[node, WORD]
        free_node(node, END, place, lists, nodes, state)
    else:
        free_slot(at, seed, slots)
        state[KEYS] -= 1
    lists[place, FIRST] = state[FREE_LIST]
    state[FREE_LIST] = place


@kernel
def insert_postings(
    keys: np.ndarray,
    words: np.ndarray,
    begin: np.int64,
    most: np.int64,
    seed: np.uint64,
    slots: np.ndarray,
    lists: np.ndarray,
    nodes: np.ndarray,
    state: np.ndarray,
) -> np.int64:
    """Inserts postings into buckets, as long as the arrays have room.

    The postings of a bucket beyond the oldest `most` are counted as evicted.

    Args:
        keys: Band keys, uint64 of shape (m,).
        words: Posting of each key, int64 of shape (m,), at least 0.
        begin: Number of keys that are skipped, because they were inserted before.
        most: Maximum number of postings that are read from a bucket, at least 1.
        seed: Seed of the table's hashes.
        slots: Slots of the table, int64 of shape (n, 2). They are changed.
        lists: Lists of the table, int64 of shape (lists, 3). They are changed.
        nodes: Nodes of the table, int64 of shape (nodes, 2). They are changed.
        state: Counts of the table, int64 of shape (STATE_SIZE,). They are changed.

    Returns:
        The number of keys that are inserted now. The arrays must grow if it is less than m.
    """
    for q in range(begin, keys.shape[0]):
        while state[KEYS] + 1 > MAX_LOAD * SEGMENT * state[SEGMENTS]:
            if (state[SEGMENTS] + 1) * SEGMENT > slots.shape[0]:
                return q
            split_segment(seed, slots, state)
        # a bucket that becomes a list takes two nodes
        if state[LISTS] + 2 > lists.shape[0] or state[NODES] + 3 > nodes.shape[0]:
            return q
        home = home_of(keys[q], seed, state[SEGMENTS], state[ROUND])
        at = slot_of(keys[q], home, slots)
        state[HELD] += 1
        place = slots[at, PLACE]
        if place == UNUSED:
            slots[at, KEY] = I64(keys[q])
            slots[at, PLACE] = ~words[q]
            state[KEYS] += 1
            continue
        if place < 0:
            word = ~place
            place = take_row(lists, FIRST, LISTS, FREE_LIST, state)
            lists[place, SIZE] = 0
            insert_node(word, place, lists, nodes, state)
            slots[at, PLACE] = place
        insert_node(words[q], place, lists, nodes, state)
        state[EVICTED] += I64(lists[place, SIZE] > most)
    return keys.shape[0]


@kernel
def remove_postings(
    keys: np.ndarray,
    ref: np.int64,
    most: np.int64,
    seed: np.uint64,
    slots: np.ndarray,
    lists: np.ndarray,
    nodes: np.ndarray,
    state: np.ndarray,
) -> int:
    """Deletes the postings of a document from the buckets of its keys.

    Args:
        keys: Band keys of the document, uint64 of shape (b,).
        ref: Number of the document.
        most: Maximum number of postings that are read from a bucket, at least 1.
        seed: Seed of the table's hashes.
        slots: Slots of the table, int64 of shape (n, 2). They are changed.
        lists: Lists of the table, int64 of shape (lists, 3). They are changed.
        nodes: Nodes of the table, int64 of shape (nodes, 2). They are changed.
        state: Counts of the table, int64 of shape (STATE_SIZE,). They are changed.

    Returns:
        The number of deleted postings.
    """
    gone = 0
    for q in range(keys.shape[0]):
        home = home_of(keys[q], seed, state[SEGMENTS], state[ROUND])
        at = slot_of(keys[q], home, slots)
        place = slots[at, PLACE]
        if place < 0 and ~place >> REF_SHIFT == ref:
            free_slot(at, seed, slots)
            state[KEYS] -= 1
            gone += 1
        if place <= 0:
            continue
        before = END
        node = lists[place, FIRST]
        while node != END:
            after = nodes[node, NEXT]
            if nodes[node, WORD] >> REF_SHIFT == ref:
                state[EVICTED] -= I64(lists[place, SIZE] > most)
                free_node(node, before, place, lists, nodes, state)
                gone += 1
            else:
                before = node
            node = after
        shorten_slot(at, seed, slots, lists, nodes, state)
    state[HELD] -= gone
    return gone
