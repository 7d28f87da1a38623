"""Stage 2: keep order, blocks, and exact duplicates collapsed to the first of each group in keep order."""

import numpy as np

from nearkin.engine.local.documents import Documents
from nearkin.engine.local.work_folder import WorkFolder
from nearkin.engine.options import RunOptions

GROUPS_AT_ONCE = 1 << 24


def collapse(documents: Documents, options: RunOptions, work: WorkFolder, order: np.ndarray | None = None) -> dict[str, int]:
    """Saves `order` (that of the policy unless one is given), `rank`, `blocks` and `representative`; returns the counts."""
    if order is None:
        order = options.keep_policy.order(documents.riding, np.asarray(documents.lengths), documents.id_ranks())
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    blocks = documents.blocks(options.block_by)
    representative = exact_groups(documents, blocks, rank)
    for name, array in (("order", order), ("rank", rank), ("blocks", blocks), ("representative", representative)):
        work.save(name, array)
    exact = int(np.count_nonzero(representative != np.arange(len(order), dtype=np.uint32)))
    empty = int(np.count_nonzero(documents.empty))
    return {"exact": exact, "empty": empty, "all_cut": int(np.count_nonzero(documents.matchless)) - empty}


def exact_groups(documents: Documents, blocks: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """The first document in keep order with the same shingle stream and block, itself where it is alone: uint32 (n,)."""
    representative = np.arange(len(documents), dtype=np.uint32)
    parts = max(1, -(-len(documents) // GROUPS_AT_ONCE))
    first = documents.fingerprints[:, 0] if len(documents) else np.empty(0, np.uint64)
    for part in range(parts):
        inside = np.asarray(first % np.uint64(parts) == part) if parts > 1 else np.ones(len(documents), bool)
        members = np.flatnonzero(inside & ~documents.empty)
        _group(members, documents.fingerprints, blocks, rank, representative)
    return representative


def _group(
    members: np.ndarray, fingerprints: np.ndarray, blocks: np.ndarray, rank: np.ndarray, representative: np.ndarray
) -> None:
    """Sorts by one word first: only documents that share it (few) are sorted by the whole key."""
    words = fingerprints[members, 0]
    sequence = np.argsort(words)
    ordered = words[sequence]
    same = ordered[1:] == ordered[:-1]
    shared = np.zeros(len(members), bool)
    shared[1:] |= same
    shared[:-1] |= same
    members = members[sequence[shared]]
    keys = (fingerprints[members, 0], fingerprints[members, 1], blocks[members])
    members = members[np.lexsort((rank[members], *keys))]
    if not len(members):
        return
    starts = np.zeros(len(members), bool)
    starts[0] = True
    for key in (fingerprints[members, 0], fingerprints[members, 1], blocks[members]):
        starts[1:] |= key[1:] != key[:-1]
    representative[members] = members[np.maximum.accumulate(np.where(starts, np.arange(len(members)), 0))]
