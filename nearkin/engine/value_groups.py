"""Groups of documents that share a value of a column, as part of stage 2 of a run."""

import numpy as np

from nearkin.engine.documents import Documents
from nearkin.engine.value_keys import ValueColumn
from nearkin.engine.work_folder import WorkFolder, map_file
from nearkin.runtime.arrow_portions import iterate_portions
from nearkin.stages.cluster import kernels


def write_value_keys(
    documents: Documents, column: ValueColumn, work: WorkFolder, number: int
) -> np.ndarray:
    """Writes the keys of a column's values to the work folder, in portions.

    Returns:
        The keys, mapped from disk, uint64 (n, 2).
    """
    path = work.path / f"value-keys-{number}"
    with path.open("wb") as file:
        for values in iterate_portions(documents.carried[column.name]):
            file.write(column.build_keys(values).data)
    return map_file(path, np.uint64, 2)


def order_representatives(order: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Returns documents in the order in which they represent groups, uint32 (n,).

    The first document in keep order represents a group, but those without shingles come last.

    Args:
        order: Numbers of the documents in keep order, uint32 (n,).
        empty: Whether a document has no shingle, bool (n,).
    """
    is_last = empty[order]
    return np.concatenate([order[~is_last], order[is_last]])


class GroupJoiner:
    """Joins documents into groups, and names the first document of each group.

    The first document in keep order represents a group. A document without shingles represents it
    only if all are without, because the representative is compared with other documents.

    Args:
        order: Numbers of the documents in keep order, uint32 (n,).
        empty: Whether a document has no shingle, bool (n,).
    """

    def __init__(self, order: np.ndarray, empty: np.ndarray) -> None:
        self._order = order_representatives(order, empty)
        self._place = np.empty(len(order), np.uint32)
        self._place[self._order] = np.arange(len(order), dtype=np.uint32)
        self._parent = np.arange(len(order), dtype=np.uint32)

    def join(self, representative: np.ndarray) -> None:
        """Joins each document and its representative.

        Args:
            representative: Another document of the same group, or the document itself,
                uint32 (n,).
        """
        members = np.flatnonzero(representative != np.arange(len(representative)))
        kernels.unite(self._place[members], self._place[representative[members]], self._parent)

    def first_documents(self) -> np.ndarray:
        """Returns the document that represents the group of each document, uint32 (n,)."""
        kernels.flatten(self._parent)
        return np.asarray(self._order[self._parent[self._place]])
