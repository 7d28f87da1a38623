"""Document frequencies of a corpus, in one pass and bounded memory: hashes go to disk in partitions, counted one by one."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nearkin.corpus import Batch, Columns, Corpus
from nearkin.runtime.files import disk_errors
from nearkin.runtime.progress import Progress
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.sketch.resources import DocumentFrequencies, SpecResources
from nearkin.spec import Spec
from nearkin.verify.jaccard import SetBuilder

PART_BITS = 6


class Counting(NamedTuple):
    """What it takes to count shingles."""

    corpus: Corpus
    columns: Columns
    spec: Spec
    resources: SpecResources
    workers: int
    folder: Path
    progress: Progress


def count_frequencies(counting: Counting, share: float = 0.0) -> DocumentFrequencies:
    """In how many documents each shingle occurs, of those in more than a share of them; its folder takes the partitions."""
    corpus, columns, spec, resources, workers, folder, progress = counting
    corpus.check(columns)
    builders = ObjectPool(lambda: SetBuilder(resources.shingler(spec)))

    def hashes_of(batch: Batch) -> tuple[np.ndarray, int]:
        documents = batch.documents[columns.content]
        return np.sort(builders.use(lambda builder: builder.build(documents)).hashes), len(batch.rows)

    progress.stage("frequencies", None)
    documents = 0
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with disk_errors(folder), tempfile.TemporaryDirectory(prefix="frequencies-", dir=folder) as parts:
        names = [Path(parts) / f"{part:02d}" for part in range(1 << PART_BITS)]
        bounds = np.arange(1, 1 << PART_BITS, dtype=np.uint64) << np.uint64(64 - PART_BITS)
        with ExitStack() as stack:
            files = [stack.enter_context(name.open("wb")) for name in names]
            for hashes, count in ordered_map(hashes_of, corpus.batches(columns), workers):
                for file, part in zip(files, np.split(hashes, np.searchsorted(hashes, bounds)), strict=True):
                    file.write(part.data)
                documents += count
                progress.advance(count)
        counted = [repeated(np.fromfile(name, np.uint64), share * documents) for name in names]
    return DocumentFrequencies(documents, *(np.concatenate(column) for column in zip(*counted, strict=True)))


def repeated(hashes: np.ndarray, times: float = 1) -> tuple[np.ndarray, np.ndarray]:
    """Values that occur more than once, and more than so many times, sorted, uint64, and how often, uint32.

    Examples:
        >>> [x.tolist() for x in repeated(np.array([7, 5, 7, 9, 9, 9], np.uint64))]
        [[7, 9], [2, 3]]
    """
    ordered = np.sort(hashes)
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else np.empty(0, np.int64)
    counts = np.diff(np.append(first, len(ordered)))
    often = counts > max(1, times)
    return ordered[first[often]], counts[often].astype(np.uint32)
