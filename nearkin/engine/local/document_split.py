"""The split of a corpus into groups between which there are no near-duplicates."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import pyarrow as pa

from nearkin.cluster import kernels
from nearkin.cluster.group_split import assign_clusters, hash_clusters
from nearkin.engine.document_facts import id_hashes
from nearkin.engine.local.documents import iterate_portions, take_values
from nearkin.engine.local.exact_groups import find_first_of_values
from nearkin.engine.local.result_tables import rows_of_batch
from nearkin.engine.local.run import LocalRun
from nearkin.engine.options import RunOptions, split_column_names
from nearkin.engine.result_schema import GROUPS
from nearkin.engine.value_keys import ValueColumn
from nearkin.errors import UsageError
from nearkin.packed_pairs import PAIRS_PER_BATCH, unpack_pairs
from nearkin.setting_names import name_setting

SUM_TOLERANCE = 1e-6
"""The largest difference of the sum of all shares from 1."""
GROUP_NAME = re.compile(r"\w[\w-]{0,59}")
"""The form of the name of a group, which is the name of a folder too. Names of folders have at most
255 bytes, and a character has at most four."""
NAMES = {2: ("train", "test"), 3: ("train", "validation", "test")}
"""The names of two and of three groups."""


@dataclass(frozen=True)
class SplitGroups:
    """The groups into which a corpus is split.

    Attributes:
        shares: Share of each group, which add up to 1.
        names: Names of the groups. The default is `train` and `test` for two groups, `validation`
            between them for three, and `group-1`, `group-2` and so on for more.
        seed: Seed of the hashes that select groups.

    Raises:
        UsageError: If there are fewer than two groups, a share is not above 0, the shares do not
            add up to 1, or the names are not different, not valid or not as many.

    Examples:
        >>> SplitGroups((0.9, 0.1)).names
        ('train', 'test')
    """

    shares: tuple[float, ...]
    names: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        shown = name_setting("groups", ",".join(f"{share:g}" for share in self.shares))
        if len(self.shares) < 2:
            raise UsageError(f"{shown} is not valid; give the shares of two or more groups")
        if not all(0 < share < 1 for share in self.shares):
            raise UsageError(f"{shown} is not valid; each share must be above 0 and below 1")
        total = math.fsum(self.shares)
        if abs(total - 1) > SUM_TOLERANCE:
            raise UsageError(f"{shown} adds up to {total:g}; the shares must add up to 1")
        if not self.names:
            numbered = tuple(f"group-{number + 1}" for number in range(len(self.shares)))
            object.__setattr__(self, "names", NAMES.get(len(self.shares), numbered))
        self._check_names()

    def _check_names(self) -> None:
        shown = name_setting("names", ",".join(self.names))
        if len(self.names) != len(self.shares):
            raise UsageError(
                f"{shown} names {len(self.names)} groups, but there are {len(self.shares)}; give "
                "a name for each"
            )
        if len({name.casefold() for name in self.names}) < len(self.names):
            raise UsageError(f"{shown} is not valid; the names must differ, not only by case")
        for name in self.names:
            if not GROUP_NAME.fullmatch(name):
                raise UsageError(
                    f"{name_setting('names', name)} is not valid; a name consists of up to 60 "
                    "letters, digits, _ and -"
                )

    @classmethod
    def parse(cls, shares: str, names: str | None, seed: int) -> "SplitGroups":
        """Returns the groups that texts describe.

        Args:
            shares: Shares, separated by commas.
            names: Names, separated by commas, or None for the default.
            seed: Seed of the hashes that select groups.

        Raises:
            UsageError: If a share is not a number, or the groups are not valid.

        Examples:
            >>> SplitGroups.parse("0.8,0.1,0.1", None, 0).shares
            (0.8, 0.1, 0.1)
        """
        try:
            numbers = tuple(float(part) for part in shares.split(","))
        except ValueError as error:
            raise UsageError(
                f"{name_setting('groups', shares)} is not of the form 0.8,0.1,0.1"
            ) from error
        return cls(numbers, split_column_names(names), seed)


class GroupFacts(TypedDict):
    """A group of a split."""

    name: str
    share: float
    """The share that was asked for."""
    documents: int
    clusters: int


class ClusterFacts(TypedDict):
    """A cluster of a split."""

    id: str
    """The id of its first document in keep order."""
    documents: int
    group: str


class SplitFacts(TypedDict):
    """The numbers of a split."""

    documents: int
    clusters: int
    groups: list[GroupFacts]
    pairs: int
    """The number of pairs of near-duplicates, exact duplicates included."""
    pairs_of_random_split: int
    """The number of these pairs that a random assignment of single documents is expected to
    separate."""
    largest_cluster: ClusterFacts | None


@dataclass(frozen=True)
class DocumentSplit:
    """The groups of all documents.

    Attributes:
        groups: The groups.
        group: Number of each document's group, int64 (n,).
        cluster: The first document in keep order of each document's cluster, uint32 (n,). Documents
            of one cluster are in one group.
        pairs: Number of pairs of near-duplicates, exact duplicates included.
    """

    groups: SplitGroups
    group: np.ndarray
    cluster: np.ndarray
    pairs: int

    def summarize(self, ids: pa.ChunkedArray) -> SplitFacts:
        """Returns the sizes of the groups and the pairs that they keep together.

        Args:
            ids: Ids of all documents, large_string (n,).
        """
        size_of = np.bincount(self.cluster, minlength=len(self.cluster))
        heads = np.flatnonzero(size_of)
        count = len(self.groups.names)
        documents = np.bincount(self.group, minlength=count).tolist()
        clusters = np.bincount(self.group[heads], minlength=count).tolist()
        facts: SplitFacts = {
            "documents": len(self.group),
            "clusters": len(heads),
            "groups": [
                {"name": name, "share": share, "documents": size, "clusters": own_clusters}
                for name, share, size, own_clusters in zip(
                    self.groups.names, self.groups.shares, documents, clusters, strict=True
                )
            ],
            "pairs": self.pairs,
            "pairs_of_random_split": round(
                self.pairs * (1 - math.fsum(share**2 for share in self.groups.shares))
            ),
            "largest_cluster": None,
        }
        if len(heads):
            largest = int(np.argmax(size_of))
            facts["largest_cluster"] = {
                "id": ids[largest].as_py(),
                "documents": int(size_of[largest]),
                "group": self.groups.names[int(self.group[largest])],
            }
        return facts

    def batches(self, ids: pa.ChunkedArray) -> Iterator[pa.RecordBatch]:
        """Yields the table of groups in the order of the corpus.

        Args:
            ids: Ids of all documents, large_string (n,).
        """
        rows = rows_of_batch(ids)
        names = pa.array(self.groups.names, pa.string())
        for start in range(0, len(self.group), rows):
            part = slice(start, start + rows)
            columns = [
                pa.concat_arrays(ids[part].chunks),
                names.take(pa.array(self.group[part])),
                take_values(ids, self.cluster[part].astype(np.int64)),
            ]
            yield pa.record_batch(columns, schema=GROUPS)


def require_splittable(options: RunOptions) -> None:
    """Requires that a run compares all documents with each other.

    Raises:
        UsageError: If it compares only some of them, so that near-duplicates would be separated.
    """
    for name, value in (("block_by", options.block_by), ("across", options.across)):
        if value is not None:
            raise UsageError(
                f"{name_setting(name, value)} leaves pairs out, which a split would separate; "
                "leave it out"
            )
    if options.fields:
        raise UsageError(
            f"{name_setting('fields', list(options.fields))} cannot be combined with a split; "
            "leave them out, and name one column"
        )
    if options.acceptance is not None:
        raise UsageError(
            f"a condition ({options.acceptance}) cannot be combined with a split, which keeps all "
            f"near-duplicates together; leave out {name_setting('accept')} and "
            f"{name_setting('max_lost')}"
        )
    if options.related is not None:
        raise UsageError(
            f"{name_setting('related', options.related)} cannot be combined with a split, which "
            "keeps documents together from the threshold on; give "
            f"{name_setting('threshold', options.related)} instead"
        )


def split_documents(
    run: LocalRun, groups: SplitGroups, columns: Sequence[ValueColumn] = ()
) -> DocumentSplit:
    """Assigns each document to a group, and near-duplicates to the same one.

    Args:
        run: Run, which is executed up to its pairs.
        groups: The groups.
        columns: Columns, which the documents carry, whose equal values keep documents together.
    """
    run.to_pairs()
    documents = run.documents()
    rank = np.asarray(run.work.load("rank"))
    order = np.asarray(run.work.load("order"))
    representative = np.asarray(run.work.load("representative"))
    parent = np.arange(len(rank), dtype=np.uint32)
    kernels.unite(rank, rank[representative], parent)
    for number, column in enumerate(columns):
        first = find_first_of_values(documents, column, run.work, number)
        kernels.unite(rank, rank[first], parent)
    copies = np.bincount(representative, minlength=len(rank))
    pairs = int((copies * (copies - 1) // 2).sum())
    scored = run.scored()
    for start in range(0, len(scored.pairs), PAIRS_PER_BATCH):
        packed = np.asarray(scored.pairs[start : start + PAIRS_PER_BATCH])
        first, second = unpack_pairs(packed)
        kernels.unite(rank[first], rank[second], parent)
        pairs += int((copies[first] * copies[second]).sum())
    kernels.flatten(parent)
    roots, cluster = np.unique(parent[rank], return_inverse=True)
    hashes = hash_clusters(cluster, _hash_contents(run), groups.seed)
    sizes = np.bincount(cluster, minlength=len(roots))
    group = assign_clusters(hashes, sizes, groups.shares)
    return DocumentSplit(groups, group[cluster], order[roots][cluster], pairs)


def _hash_contents(run: LocalRun) -> np.ndarray:
    """Returns the content hashes of the documents, and for empty ones those of their ids."""
    documents = run.documents()
    content = np.array(documents.fingerprints)
    empty = np.flatnonzero(documents.empty)
    if len(empty):
        parts = [id_hashes(part) for part in iterate_portions(documents.ids)]
        content[empty, 0] = np.concatenate(parts)[empty]
    return content
