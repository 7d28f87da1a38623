"""The split of a corpus into groups between which there are no near-duplicates."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearkin.engine.document_facts import id_hashes
from nearkin.engine.documents import take_values
from nearkin.engine.exact_groups import find_first_of_values
from nearkin.engine.result_schema import GROUPS
from nearkin.engine.result_tables import rows_of_batch
from nearkin.engine.run import Run
from nearkin.engine.split_groups import ClusterFacts, SplitFacts, SplitGroups
from nearkin.engine.value_keys import ValueColumn
from nearkin.runtime.arrow_portions import iterate_portions
from nearkin.stages.cluster import kernels
from nearkin.stages.cluster.group_split import assign_clusters, hash_clusters
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, unpack_pairs


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
        names, shares = self.groups.names, self.groups.shares
        count = len(names)
        documents = np.bincount(self.group, minlength=count).tolist()
        clusters = np.bincount(self.group[heads], minlength=count).tolist()
        largest: ClusterFacts | None = None
        if len(heads):
            first = int(np.argmax(size_of))
            largest = {
                "id": ids[first].as_py(),
                "documents": int(size_of[first]),
                "group": names[int(self.group[first])],
            }
        rows = zip(names, shares, documents, clusters, strict=True)
        return {
            "documents": sum(documents),
            "clusters": sum(clusters),
            "groups": [
                {"name": name, "share": share, "documents": size, "clusters": own_clusters}
                for name, share, size, own_clusters in rows
            ],
            "pairs": self.pairs,
            "pairs_of_random_split": round(
                self.pairs * (1 - math.fsum(share**2 for share in shares))
            ),
            "largest_cluster": largest,
        }

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


def split_documents(
    run: Run, groups: SplitGroups, columns: Sequence[ValueColumn] = ()
) -> DocumentSplit:
    """Assigns each document to a group, and near-duplicates to the same one."""
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


def _hash_contents(run: Run) -> np.ndarray:
    """Returns the content hashes of the documents, and for empty ones those of their ids."""
    documents = run.documents()
    content = np.array(documents.fingerprints)
    empty = np.flatnonzero(documents.empty)
    if len(empty):
        parts = [id_hashes(part) for part in iterate_portions(documents.ids)]
        content[empty, 0] = np.concatenate(parts)[empty]
    return content
