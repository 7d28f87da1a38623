"""Groups of exact duplicates: from pairs of representatives to pairs of all members."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from nearkin.engine.acceptance import groups_exact_duplicates
from nearkin.engine.compared_facts import read_fact
from nearkin.engine.constant_fingerprints import constant_fingerprints, select_notable
from nearkin.engine.document_facts import NULL_VALUE, block_hashes
from nearkin.engine.documents import Documents, signatures_file
from nearkin.engine.options import RunOptions
from nearkin.engine.pair_acceptance import divide_blocks, group_keys
from nearkin.engine.short_documents import count_short_documents
from nearkin.engine.stats import CollapseStats
from nearkin.engine.value_groups import (
    GroupJoiner,
    order_representatives,
    write_value_keys,
)
from nearkin.engine.value_keys import ValueColumn, value_columns_of
from nearkin.engine.work_folder import WorkFolder
from nearkin.runtime.arrow_portions import iterate_portions
from nearkin.runtime.progress import StepCounter, ignore_count
from nearkin.runtime.threads import ordered_map
from nearkin.settings.choices import EmptyDocuments
from nearkin.stages.cluster.decided_pairs import DecidedPairs, join_decided_groups
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, pack_pairs
from nearkin.stages.pair_scope import EVERY_BLOCK, NO_BLOCK, PairScope

ALIKE = 64
"""Groups of at most this size are expanded together with the other groups of their size."""


class ExactGroups(NamedTuple):
    """Exact groups of two or more documents, one after the other."""

    members: np.ndarray
    """The numbers of the documents, int64, ascending inside a group."""
    starts: np.ndarray
    """The position of each group's first member, and the total, int64 (groups + 1,)."""
    of: np.ndarray
    """The group that each document represents, or -1, int32 (documents,)."""

    @classmethod
    def read(cls, representative: np.ndarray) -> "ExactGroups":
        """Returns the groups that representatives describe.

        Args:
            representative: First document of each document's exact group, uint32 (n,).
        """
        own = np.arange(len(representative), dtype=representative.dtype)
        represents = np.zeros(len(own), bool)
        represents[representative[representative != own]] = True
        members = np.flatnonzero(represents[representative])
        members = members[np.argsort(representative[members], kind="stable")]
        heads = representative[members]
        starts = np.zeros(1, np.int64)
        if len(heads):
            starts = np.flatnonzero(np.concatenate([[True], heads[1:] != heads[:-1], [True]]))
        of = np.full(len(own), -1, np.int32)
        of[heads[starts[:-1]]] = np.arange(len(starts) - 1)
        return cls(members, starts, of)

    @property
    def sizes(self) -> np.ndarray:
        """The number of members of each group, int64 (groups,)."""
        return np.diff(self.starts)

    def own_pairs(self) -> Iterator[np.ndarray]:
        """Yields all pairs inside the groups, packed, in portions of a bounded size."""
        for size in np.unique(self.sizes).tolist():
            starts = self.starts[:-1][self.sizes == size]
            if size > ALIKE:
                for start in starts.tolist():
                    yield from _pairs_inside(self.members[start : start + size])
                continue
            first, second = np.triu_indices(size, 1)
            groups_at_once = max(1, PAIRS_PER_BATCH // len(first))
            for at in range(0, len(starts), groups_at_once):
                portion = starts[at : at + groups_at_once, None]
                rows = self.members[portion + np.arange(size)]
                yield pack_pairs(rows[:, first].reshape(-1), rows[:, second].reshape(-1))

    def cross_members(
        self, a: np.ndarray, b: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the pairs of every member of one group with every member of another."""
        sizes = np.append(self.sizes, 1)
        sizes_of_b = sizes[self.of[b]]
        counts = sizes[self.of[a]] * sizes_of_b
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, PAIRS_PER_BATCH):
            numbers = np.arange(start, min(start + PAIRS_PER_BATCH, total))
            rows = np.searchsorted(ends, numbers, side="right")
            inside = numbers - (ends - counts)[rows]
            first = self._pick_member(a[rows], inside // sizes_of_b[rows])
            second = self._pick_member(b[rows], inside % sizes_of_b[rows])
            yield pack_pairs(first, second), rows

    def _pick_member(self, representatives: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Returns a member of each representative's group. A document without group is its own."""
        if not len(self.members):
            return representatives
        group = self.of[representatives]
        is_alone = group < 0
        places = np.where(is_alone, 0, self.starts[group] + position)
        return np.where(is_alone, representatives, self.members[places])


def _pairs_inside(members: np.ndarray) -> Iterator[np.ndarray]:
    """Yields all pairs of one large group, in portions."""
    pending = []
    count = 0
    for i in range(len(members) - 1):
        pending.append(pack_pairs(members[i], members[i + 1 :]))
        count += len(pending[-1])
        if count >= PAIRS_PER_BATCH or i == len(members) - 2:
            yield np.concatenate(pending)
            pending = []
            count = 0


def number_groups(fingerprints: np.ndarray) -> np.ndarray:
    """Returns a number for each distinct fingerprint, int64 (n,).

    Args:
        fingerprints: Fingerprints of documents, uint64 (n, 2).

    Examples:
        >>> number_groups(np.array([[5, 1], [3, 9], [5, 1], [5, 2]], np.uint64)).tolist()
        [1, 0, 1, 2]
    """
    order = np.lexsort((fingerprints[:, 1], fingerprints[:, 0]))
    ordered = fingerprints[order]
    is_new = np.ones(len(fingerprints), bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    out = np.empty(len(fingerprints), np.int64)
    out[order] = np.cumsum(is_new) - 1
    return out


DOCUMENTS_AT_ONCE = 1 << 24
"""Number of documents that are grouped in memory at a time."""
DOCUMENTS_PER_PART = 1 << 17
"""Number of documents from which each worker groups a part of them."""


def hash_blocks(documents: Documents, options: RunOptions) -> np.ndarray:
    """Returns a hash of what two documents must share to be compared, uint64 (n,)."""
    if options.block_by is None or not len(documents):
        blocks = np.zeros(len(documents), np.uint64)
    else:
        values = iterate_portions(documents.carried[options.block_by])
        blocks = np.concatenate([block_hashes(part, options.block_of_missing) for part in values])
    if options.acceptance is None or options.related is not None:
        # Documents that are not accepted may be related.
        return blocks
    divided = divide_blocks(blocks, options.acceptance, partial(read_fact, documents))
    return np.where(blocks == NO_BLOCK, NO_BLOCK, divided)


def hash_copy_keys(documents: Documents, options: RunOptions, blocks: np.ndarray) -> np.ndarray:
    """Returns a hash of what exact duplicates share beside their content, uint64 (n,).

    Args:
        blocks: Hash of each document's block, uint64 (n,).
    """
    if options.acceptance is None:
        return blocks
    fact_reader = partial(read_fact, documents)
    return group_keys(blocks, options.acceptance, fact_reader, documents.lengths)


def save_exact_groups(
    documents: Documents,
    options: RunOptions,
    work: WorkFolder,
    advance: Callable[[int], None],
    order: np.ndarray | None = None,
    sources: np.ndarray | None = None,
    decided: DecidedPairs | None = None,
    removed: np.ndarray | None = None,
) -> CollapseStats:
    """Saves `order`, `rank`, `blocks` and `representative` in the work folder.

    With the option `across`, `sources` is saved too, and there are no exact groups: copies of one
    source are not duplicates, and copies of different sources are found like other pairs.

    An acceptance divides the blocks by the equalities that it requires, and the exact groups by
    those that it mentions. There are no exact groups if it may not accept equal documents.

    With the options `same` and `url`, documents that share a value are in one group too. A group
    of exact duplicates and one of equal values that have a document in common are one group.

    With decisions, documents decided to be the same are in one group, and those decided to be
    different are not.

    Args:
        order: Keep order, uint32 (n,). It follows from the keep policy if it is None.
        sources: Source of each document, uint64 (n,). It follows from the column of `across` if it
            is None.
        removed: Numbers of documents that are in no group, int64 (m,). By default, there are none.
    """
    is_groupable = np.ones(len(documents), bool)
    if removed is not None:
        is_groupable[removed] = False
    parts = 1 if len(documents) < DOCUMENTS_PER_PART else options.workers
    has_groups = options.across is None and groups_exact_duplicates(options.acceptance)
    if has_groups:
        parts *= max(1, -(-len(documents) // DOCUMENTS_AT_ONCE))
    unreadable_dates: dict[str, int] = {}
    columns = value_columns_of(options)
    counter = StepCounter(advance, len(documents), steps=parts * (1 + len(columns)) + 2)
    if order is None:
        unreadable_dates = options.keep_policy.count_unreadable_dates(documents.carried)
        lengths = np.asarray(documents.lengths)
        order = options.keep_policy.order(documents.carried, lengths, documents.id_ranks())
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    counter.finish_step()
    blocks = hash_blocks(documents, options)
    is_groupable &= blocks != NO_BLOCK
    counter.finish_step()
    without_source = None
    without_block = None
    if options.block_by is not None:
        without_block = int(np.count_nonzero(np.isin(blocks, [NO_BLOCK, EVERY_BLOCK])))
    if has_groups:
        keys = hash_copy_keys(documents, options, blocks)
        members = ~documents.empty & is_groupable
        fingerprints = documents.fingerprints
        representative = _find_first_equal(
            fingerprints, members, keys, rank, parts, counter, options.workers
        )
    else:
        representative = np.arange(len(order), dtype=np.uint32)
    if options.across is not None:
        if sources is None:
            sources = documents.hash_values(options.across)
            without_source = int(np.count_nonzero(sources == NULL_VALUE))
        work.save("sources", sources)
    if not has_groups:
        counter.finish_step()
    own = np.arange(len(order), dtype=np.uint32)
    exact = int(np.count_nonzero(representative != own))
    relations = [representative]
    same = None
    without_values: list[str] = []
    if columns:
        is_grouped = is_groupable
        if options.empty == EmptyDocuments.DROP:
            is_grouped = is_groupable & ~documents.empty
        groups = GroupJoiner(order, documents.empty)
        groups.join(representative)
        for number, column in enumerate(columns):
            keys = write_value_keys(documents, column, work, number)
            has_value = (keys != 0).any(axis=1)
            if len(documents) and not has_value.any():
                without_values.append(column.name)
            members = is_grouped & has_value
            equals = _find_first_equal(keys, members, blocks, rank, parts, counter, options.workers)
            groups.join(equals)
            if decided is not None:
                relations.append(equals)
        representative = groups.first_documents()
        same = int(np.count_nonzero(representative != own)) - exact
    if decided is not None:
        group_order = order_representatives(order, documents.empty)
        representative = join_decided_groups(relations, decided, group_order)
        followers = np.flatnonzero(representative != own)
        first = representative[followers]
        is_copy = (documents.fingerprints[followers] == documents.fingerprints[first]).all(axis=1)
        exact = int(np.count_nonzero(is_copy & ~documents.empty[followers]))
        same = len(followers) - exact
    work.save("order", order)
    work.save("rank", rank)
    work.save("blocks", blocks)
    work.save("representative", representative)
    empty = int(np.count_nonzero(documents.empty))
    short = count_short_documents(documents.shingles, options.spec, options.threshold)
    return CollapseStats(
        exact=exact,
        same=same,
        empty=empty,
        all_cut=int(np.count_nonzero(documents.matchless)) - empty,
        single=short.single,
        fragile=short.fragile,
        without_source=without_source,
        without_block=without_block,
        unreadable_dates=unreadable_dates or None,
        without_values=without_values or None,
        decisions=None if decided is None else decided.count_verdicts(),
        unknown_ids=None if decided is None else decided.unknown_ids or None,
        constant_fingerprints=_count_constant_fingerprints(documents, options),
    )


def _count_constant_fingerprints(
    documents: Documents, options: RunOptions
) -> dict[str, int] | None:
    """Returns the number of documents of each constant fingerprint that several have."""
    counts: Counter[bytes] = Counter()
    for number, fingerprints in constant_fingerprints(options):
        signatures = documents.read_array(signatures_file(number))
        is_present = documents.have_field(number) & ~documents.matchless
        for fingerprint in fingerprints:
            words = np.frombuffer(fingerprint, signatures.dtype)
            for start, end in documents.chunks():
                is_equal = (signatures[start:end] == words).all(axis=1)
                counts[fingerprint] += int(np.count_nonzero(is_equal & is_present[start:end]))
    return select_notable(counts)


def find_first_of_values(
    documents: Documents, column: ValueColumn, work: WorkFolder, number: int
) -> np.ndarray:
    """Returns the first document with the same value as each document, uint32 (n,)."""
    keys = write_value_keys(documents, column, work, number)
    rank = np.asarray(work.load("rank"))
    blocks = np.asarray(work.load("blocks"))
    parts = max(1, -(-len(documents) // DOCUMENTS_AT_ONCE))
    counter = StepCounter(ignore_count, len(documents), steps=parts)
    return _find_first_equal(keys, (keys != 0).any(axis=1), blocks, rank, parts, counter)


def load_pair_scope(work: WorkFolder, options: RunOptions) -> PairScope:
    """Returns the pairs that a run compares, as `save_exact_groups` saved them."""
    blocks = np.asarray(work.load("blocks"))
    if options.across is None:
        return PairScope(blocks)
    return PairScope(blocks, np.asarray(work.load("sources")))


def _find_first_equal(
    keys: np.ndarray,
    is_member: np.ndarray,
    blocks: np.ndarray,
    rank: np.ndarray,
    parts: int,
    counter: StepCounter,
    workers: int = 1,
) -> np.ndarray:
    """Returns the first document with the same key and block as each document, uint32 (n,).

    A document without equals is its own first document.

    Args:
        keys: Key of each document, for example its content hash, uint64 (n, 2).
        is_member: Whether a document can have equals, bool (n,).
        blocks: Hash of each document's block, uint64 (n,).
        rank: Position of each document in keep order, uint32 (n,).
    """
    representative = np.arange(len(keys), dtype=np.uint32)
    if parts == 1:
        members = np.flatnonzero(is_member)
        _set_representatives(members, keys, blocks, rank, representative)
        counter.finish_step()
        return representative
    first_words = keys[:, 0]

    def group_part(part: int) -> None:
        in_part = np.asarray(first_words % np.uint64(parts) == part)
        members = np.flatnonzero(in_part & is_member)
        _set_representatives(members, keys, blocks, rank, representative)

    for _ in ordered_map(group_part, range(parts), workers):
        counter.finish_step()
    return representative


def _set_representatives(
    members: np.ndarray,
    fingerprints: np.ndarray,
    blocks: np.ndarray,
    rank: np.ndarray,
    representative: np.ndarray,
) -> None:
    """Sets the representatives of the groups among some documents.

    Documents are sorted by one word first. Only the few that share it are sorted by the whole key.
    """
    words = fingerprints[members, 0]
    sequence = np.argsort(words)
    ordered = words[sequence]
    same = ordered[1:] == ordered[:-1]
    is_shared = np.zeros(len(members), bool)
    is_shared[1:] |= same
    is_shared[:-1] |= same
    members = members[sequence[is_shared]]
    if not len(members):
        return
    by_key = np.lexsort(
        (rank[members], fingerprints[members, 0], fingerprints[members, 1], blocks[members])
    )
    members = members[by_key]
    starts = np.zeros(len(members), bool)
    starts[0] = True
    for key in (fingerprints[members, 0], fingerprints[members, 1], blocks[members]):
        starts[1:] |= key[1:] != key[:-1]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(members)), 0))
    representative[members] = members[first]
