"""Document frequencies of a corpus, in one pass and bounded memory: hashes go to disk in partitions, counted one by one."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from nearkin.corpus import Batch
from nearkin.engine.document_frequencies import FrequencyRequest, count_repeated
from nearkin.runtime.files import disk_errors
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.sketch.resources import DocumentFrequencies
from nearkin.verify.jaccard import SetBuilder

PART_BITS = 6


def count_frequencies(request: FrequencyRequest, share: float = 0.0) -> DocumentFrequencies:
    """In how many documents each shingle occurs, of those in more than a share of them; its folder takes the partitions."""
    corpus, columns, folder = request.corpus, request.columns, request.folder
    progress = request.progress
    corpus.check(columns)
    builders = ObjectPool(lambda: SetBuilder(request.resources.shingler(request.spec)))

    def hashes_of(batch: Batch) -> tuple[np.ndarray, int]:
        documents = batch.documents[columns.content]
        return np.sort(builders.use(lambda builder: builder.build(documents)).hashes), len(
            batch.rows
        )

    progress.stage("frequencies", None)
    documents = 0
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with (
        disk_errors(folder),
        tempfile.TemporaryDirectory(prefix="frequencies-", dir=folder) as parts,
    ):
        names = [Path(parts) / f"{part:02d}" for part in range(1 << PART_BITS)]
        bounds = np.arange(1, 1 << PART_BITS, dtype=np.uint64) << np.uint64(64 - PART_BITS)
        with ExitStack() as stack:
            files = [stack.enter_context(name.open("wb")) for name in names]
            for hashes, count in ordered_map(hashes_of, corpus.batches(columns), request.workers):
                for file, part in zip(
                    files, np.split(hashes, np.searchsorted(hashes, bounds)), strict=True
                ):
                    file.write(part.data)
                documents += count
                progress.advance(count)
        counted = [
            count_repeated(np.fromfile(name, np.uint64), share * documents) for name in names
        ]
    return DocumentFrequencies(
        documents, *(np.concatenate(column) for column in zip(*counted, strict=True))
    )
