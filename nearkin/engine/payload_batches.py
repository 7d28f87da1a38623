"""Batches of payloads: what the exact comparison needs, of consecutive documents of a corpus."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from nearkin.corpus import Batch, Columns, Corpus, FileCorpus
from nearkin.corpus.batches import read_content
from nearkin.corpus.parts import split_files
from nearkin.corpus.places import places_of
from nearkin.corpus.writer import KnownDocuments
from nearkin.runtime.executor import Executor, Task
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.stages.measures import Measure, Payload
from nearkin.stages.measures.compared_sets import payload_builder_for_run

Result = TypeVar("Result")
DOCUMENTS_PER_TASK = 1 << 15
"""Number of documents from which another process builds payloads at a time."""
BATCH_SIGNATURES = 1 << 16
"""The number of signatures of a batch."""


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
            wanted: Numbers of the documents whose payloads are needed, sorted, int64 (m,). By
                default, all are.
        """


class SourcePart(Protocol):
    """Consecutive documents of a source."""

    @property
    def documents(self) -> int:
        """The number of documents, whether they are wanted or not."""


@runtime_checkable
class DividedSource(PayloadSource, Protocol):
    """A source whose payloads other processes can make."""

    @property
    def task(self) -> Callable[[Any], Iterator[Payload]]:
        """Yields the payloads of the wanted documents of a part. It can be pickled."""

    def parts(self, wanted: np.ndarray) -> Iterator[SourcePart]:
        """Yields the parts of the source in order. They can be pickled.

        Args:
            wanted: Numbers of the wanted documents, sorted, int64 (m,).
        """


@dataclass(frozen=True)
class UsePayloads(Task, Generic[Result]):
    """A task that makes the payloads of parts of a source, and computes something of them."""

    build: Callable[[Any], Iterator[Payload]]
    work: Callable[[Payload], Result]

    def __call__(self, parts: Sequence[SourcePart]) -> list[Result]:
        """Returns the results of the payloads of consecutive parts."""
        return list(map(self.work, chain.from_iterable(map(self.build, parts))))


def map_payloads(
    source: PayloadSource,
    work: Callable[[Payload], Result],
    wanted: np.ndarray,
    executor: Executor,
) -> Iterator[Result]:
    """Yields work(payload) for payloads that together are those of some documents, in order.

    Args:
        work: A function that can be pickled unless tasks share memory.
        wanted: Numbers of the documents, sorted, int64 (m,).
    """
    if executor.shares_memory or not isinstance(source, DividedSource):
        yield from source.map_batches(lambda batch: work(batch.payload), wanted)
        return
    parts = group_parts(source.parts(wanted))
    yield from chain.from_iterable(executor.map(UsePayloads(source.task, work), parts))


def group_parts(parts: Iterator[SourcePart]) -> Iterator[list[SourcePart]]:
    """Yields consecutive parts in groups that are worth a task."""
    group: list[SourcePart] = []
    for part in parts:
        group.append(part)
        if sum(one.documents for one in group) >= DOCUMENTS_PER_TASK:
            yield group
            group = []
    if group:
        yield group


class _TextPart(NamedTuple):
    """Documents that a task reads again."""

    places: np.ndarray
    """The places of the wanted documents, ascending, uint64 (m,)."""
    documents: int
    """The number of documents, whether they are wanted or not."""


@dataclass(frozen=True)
class BuildFromTexts(Task):
    """A task that reads documents again."""

    corpus: Corpus
    columns: Columns
    measure: Measure

    def __call__(self, part: _TextPart) -> Iterator[Payload]:
        """Yields the payloads of the wanted documents of a part."""
        builder = payload_builder_for_run(self.measure)
        for batch in read_content(self.corpus, self.columns, part.places):
            yield builder.build(batch.documents[self.columns.content])


@dataclass(frozen=True)
class CorpusPayloads:
    """A source that reads the corpus again, or only the parts of it that hold wanted documents.

    Attributes:
        corpus: Documents.
        columns: Columns of the corpus that are read.
        measure: Measure of the run.
        workers: Number of threads.
        files: The number of each document's file, int32 (n,).
        rows: The row of each document in its file, int64 (n,).
    """

    corpus: Corpus
    columns: Columns
    measure: Measure
    workers: int
    files: np.ndarray
    rows: np.ndarray

    @property
    def task(self) -> BuildFromTexts:
        """The task of a part, as described in `DividedSource`."""
        return BuildFromTexts(self.corpus, self.columns, self.measure)

    def parts(self, wanted: np.ndarray) -> Iterator[_TextPart]:
        """Yields the parts of files, as described in `DividedSource`."""
        assert isinstance(self.corpus, FileCorpus)
        known = KnownDocuments(self.files, self.rows, wanted)
        for part in split_files(self.corpus, self.columns):
            first = known.count_before(part.ranges[0].file, part.ranges[0].first)
            end = known.count_before(part.ranges[-1].file, part.ranges[-1].end)
            numbers = first + wanted_rows(wanted, first, end - first)
            yield _TextPart(places_of(self.files[numbers], self.rows[numbers]), end - first)

    def map_batches(
        self, work: Callable[[PayloadBatch], Result], wanted: np.ndarray | None = None
    ) -> Iterator[Result]:
        """Yields work(batch), as described in `PayloadSource`."""
        builders = ObjectPool(lambda: payload_builder_for_run(self.measure))

        def build(batch: Batch) -> Result:
            content = batch.documents[self.columns.content]
            payload = builders.use(lambda builder: builder.build(content))
            first = batch.first
            end = first + len(batch.rows)
            if wanted is not None:
                first = self._count_covered(wanted, first)
                end = self._count_covered(wanted, end)
            return work(PayloadBatch(first, end - first, payload))

        batches = self.corpus.batches(self.columns)
        if wanted is not None:
            places = places_of(self.files[wanted], self.rows[wanted])
            batches = read_content(self.corpus, self.columns, places)
        yield from ordered_map(build, batches, self.workers)

    def _count_covered(self, wanted: np.ndarray, read: int) -> int:
        """Returns the number of documents up to the last wanted one that was read.

        Args:
            wanted: Numbers of the wanted documents, sorted, int64 (m,).
        """
        if read == len(wanted):
            return len(self.rows)
        return int(wanted[read - 1]) + 1 if read else 0


@dataclass(frozen=True)
class SignaturePayloads:
    """A source of documents that are compared by their signatures, which the run has stored.

    Attributes:
        signatures: The signatures of all documents, uint64 (n, width), mapped.
    """

    signatures: np.ndarray

    def map_batches(
        self, work: Callable[[PayloadBatch], Result], wanted: np.ndarray | None = None
    ) -> Iterator[Result]:
        """Yields work(batch), as described in `PayloadSource`."""
        for first in range(0, len(self.signatures), BATCH_SIGNATURES):
            signatures = np.asarray(self.signatures[first : first + BATCH_SIGNATURES])
            documents = len(signatures)
            if wanted is not None:
                signatures = signatures[wanted_rows(wanted, first, documents)]
            payload = Payload(np.ones(len(signatures), np.int64), (signatures,))
            yield work(PayloadBatch(first, documents, payload))


def wanted_rows(wanted: np.ndarray, first: int, documents: int) -> np.ndarray:
    """Returns the positions of the wanted documents in a batch, int64.

    Args:
        wanted: Numbers of the wanted documents of the corpus, sorted, int64 (m,).

    Examples:
        >>> wanted_rows(np.array([3, 10, 12, 20]), 10, 5).tolist()
        [0, 2]
    """
    low, high = np.searchsorted(wanted, [first, first + documents])
    return np.asarray(wanted[low:high] - first)
