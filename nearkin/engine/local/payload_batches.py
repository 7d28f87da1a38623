"""Batches of payloads: what the exact comparison needs, of consecutive documents of a corpus."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from nearkin.corpus import Batch, Columns, Corpus
from nearkin.measures import Measure, Payload
from nearkin.measures.compared_sets import payload_builder_for_run
from nearkin.runtime.threads import ObjectPool, ordered_map

Result = TypeVar("Result")


class PayloadBatch(NamedTuple):
    """The payloads of the wanted ones among consecutive documents."""

    first: int
    """The number of the first document."""
    documents: int
    """The number of documents, whether they are wanted or not."""
    payload: Payload
    """The payloads of the wanted documents, in order."""


class PayloadSource(Protocol):
    """A source of the payloads of all documents of a corpus."""

    def map_batches(
        self, work: Callable[[PayloadBatch], Result], wanted: np.ndarray | None = None
    ) -> Iterator[Result]:
        """Yields work(batch) for batches that together are the corpus, in order.

        Args:
            work: Function that is called in a thread.
            wanted: Numbers of the documents whose payloads are needed, sorted, int64 (m,). By
                default, all are.
        """


@dataclass(frozen=True)
class CorpusPayloads:
    """A source that reads the corpus again.

    Attributes:
        corpus: Documents.
        columns: Columns of the corpus that are read.
        measure: Measure of the run.
        workers: Number of threads.
    """

    corpus: Corpus
    columns: Columns
    measure: Measure
    workers: int

    def map_batches(
        self, work: Callable[[PayloadBatch], Result], wanted: np.ndarray | None = None
    ) -> Iterator[Result]:
        """Yields work(batch), as described in `PayloadSource`.

        Args:
            work: Function that is called in a thread.
            wanted: Numbers of the documents whose payloads are needed. By default, all are.
        """
        builders = ObjectPool(lambda: payload_builder_for_run(self.measure))

        def build(batch: Batch) -> Result:
            documents = batch.documents[self.columns.content]
            if wanted is not None:
                documents = documents.take(wanted_rows(wanted, batch.first, len(batch.rows)))
            payload = builders.use(lambda builder: builder.build(documents))
            return work(PayloadBatch(batch.first, len(batch.rows), payload))

        yield from ordered_map(build, self.corpus.batches(self.columns), self.workers)


def wanted_rows(wanted: np.ndarray, first: int, documents: int) -> np.ndarray:
    """Returns the positions of the wanted documents in a batch, int64.

    Args:
        wanted: Numbers of the wanted documents of the corpus, sorted, int64 (m,).
        first: Number of the first document of the batch.
        documents: Number of documents of the batch.

    Examples:
        >>> wanted_rows(np.array([3, 10, 12, 20]), 10, 5).tolist()
        [0, 2]
    """
    low, high = np.searchsorted(wanted, [first, first + documents])
    return np.asarray(wanted[low:high] - first)
