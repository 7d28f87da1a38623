"""The request for document frequencies, and the counting of hashes."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearkin.corpus import Batch, Columns, Corpus
from nearkin.corpus.document_count import estimate_documents
from nearkin.runtime.files import disk_errors
from nearkin.runtime.progress import Progress
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import DocumentFrequencies, SpecResources
from nearkin.stages.verify.jaccard import SetBuilder


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


PARTITION_BITS = 6


def count_frequencies(request: FrequencyRequest, share: float = 0.0) -> DocumentFrequencies:
    """Counts the documents that contain each shingle."""
    corpus = request.corpus
    columns = request.columns
    folder = request.folder
    corpus.check(columns)
    builders = ObjectPool(lambda: SetBuilder(request.resources.shingler(request.spec)))

    def sort_hashes(batch: Batch) -> tuple[np.ndarray, int]:
        documents = batch.documents[columns.content]
        sets = builders.use(lambda builder: builder.build(documents))
        return np.sort(sets.hashes), len(batch.rows)

    request.progress.stage("frequencies", estimate_documents(corpus, columns))
    documents = 0
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with (
        disk_errors(folder),
        TemporaryFolder(folder) as temporary,
    ):
        paths = [temporary / f"{number:02d}" for number in range(1 << PARTITION_BITS)]
        shift = np.uint64(64 - PARTITION_BITS)
        bounds = np.arange(1, 1 << PARTITION_BITS, dtype=np.uint64) << shift
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("wb")) for path in paths]
            batches = corpus.batches(columns)
            for hashes, count in ordered_map(sort_hashes, batches, request.workers):
                partitions = np.split(hashes, np.searchsorted(hashes, bounds))
                for file, partition in zip(files, partitions, strict=True):
                    file.write(partition.data)
                documents += count
                request.progress.advance(count)
        least = share * documents
        counted = [count_repeated(np.fromfile(path, np.uint64), least) for path in paths]
    hashes = np.concatenate([values for values, _ in counted])
    counts = np.concatenate([times for _, times in counted])
    return DocumentFrequencies(documents, hashes, counts)
