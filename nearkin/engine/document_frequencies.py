"""The request for document frequencies, and the counting of hashes, which both engines share."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearkin.corpus import Columns, Corpus
from nearkin.runtime.progress import Progress
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import SpecResources


@dataclass(frozen=True)
class FrequencyRequest:
    """A request to count the documents that contain each shingle.

    Attributes:
        corpus: Documents.
        columns: Columns of the corpus that are read.
        spec: Spec whose shingles are counted.
        resources: Data that the Spec refers to.
        workers: Number of threads.
        folder: Folder for temporary files.
        progress: Receives progress updates.
    """

    corpus: Corpus
    columns: Columns
    spec: Spec
    resources: SpecResources
    workers: int
    folder: Path
    progress: Progress


def count_repeated(hashes: np.ndarray, times: float = 1) -> tuple[np.ndarray, np.ndarray]:
    """Counts the values that occur more than once, and more often than a limit.

    Args:
        hashes: Values, uint64 (n,).

    Returns:
        The values, sorted, uint64 (m,), and their counts, uint32 (m,).

    Examples:
        >>> [x.tolist() for x in count_repeated(np.array([7, 5, 7, 9, 9, 9], np.uint64))]
        [[7, 9], [2, 3]]
    """
    ordered = np.sort(hashes)
    first = np.empty(0, np.int64)
    if len(ordered):
        first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    counts = np.diff(np.append(first, len(ordered)))
    is_frequent = counts > max(1, times)
    return ordered[first[is_frequent]], counts[is_frequent].astype(np.uint32)
