"""Document frequencies of a corpus, counted in one pass and in bounded memory.

Hashes are written to disk in partitions, and the partitions are counted one by one.
"""

from contextlib import ExitStack

import numpy as np

from nearkin.corpus import Batch
from nearkin.corpus.document_count import estimate_documents
from nearkin.engine.document_frequencies import FrequencyRequest, count_repeated
from nearkin.runtime.files import disk_errors
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.stages.sketch.resources import DocumentFrequencies
from nearkin.stages.verify.jaccard import SetBuilder

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
