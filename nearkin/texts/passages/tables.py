"""The result tables of a run over passages, in batches that are small enough for any corpus."""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.documents import take_values
from nearkin.engine.payload_batches import wanted_rows
from nearkin.stages.winnowing import kernels
from nearkin.texts.passages.documents import BYTES, ID, SOURCE
from nearkin.texts.passages.run import PassageRun
from nearkin.texts.passages.windows import Passages

DOCUMENTS_AT_ONCE = 1 << 16
BYTES_AT_ONCE = 32 << 20
"""The number of bytes of ids and sources of a batch, approximately."""
FREQUENT_LISTED = 100
"""The number of the most frequent passages that are listed with their texts."""
QUOTED_BYTES = 2000
"""The number of bytes of a passage that are quoted."""

PASSAGES = pa.schema(
    [
        ("id", pa.large_string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("tokens", pa.int64()),
        ("repeats_id", pa.large_string()),
        ("repeats_start", pa.int64()),
        ("repeats_end", pa.int64()),
        ("places", pa.int64()),
        ("document", pa.int64()),
        ("repeats_document", pa.int64()),
    ]
)
"""The passages: bytes from `start` up to `end` of document `id` have the same `tokens` as those of
another place. `places` is the number of places where exactly this passage was found, and the
numbers of the documents count from 0 in corpus order."""
FREQUENT = pa.schema(
    [
        ("places", pa.int64()),
        ("tokens", pa.int64()),
        ("id", pa.large_string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("text", pa.large_string()),
    ]
)
"""The most frequent passages, at their first places."""


SOURCES = pa.schema(
    [
        ("source", pa.large_string()),
        ("documents", pa.int64()),
        ("text_bytes", pa.int64()),
        ("repeated_bytes", pa.int64()),
        ("share", pa.float64()),
    ]
)
"""The sources: how much of each is repeated."""


def divide_rows(sizes: np.ndarray) -> Iterator[slice]:
    """Yields ranges of rows of about `BYTES_AT_ONCE` bytes, of at least one row, by their sizes.

    Examples:
        >>> list(divide_rows(np.array([1, 40 << 20, 1, 1])))
        [slice(0, 1, None), slice(1, 4, None)]
    """
    parts = np.cumsum(sizes) // BYTES_AT_ONCE
    bounds = [*np.flatnonzero(np.diff(parts, prepend=-1)).tolist(), len(sizes)]
    for start, end in pairwise(bounds):
        yield slice(start, end)


class PassageTables:
    """The tables of a finished run."""

    def __init__(self, run: PassageRun) -> None:
        self._run = run
        documents = run.documents_read
        self.repeated_bytes = np.zeros(documents, np.int64)
        """The number of bytes of each document in at least one passage, int64 (n,)."""
        self.passage_counts = np.zeros(documents, np.int64)
        """The number of passages of each document, int64 (n,)."""
        contents = [np.empty(0, np.uint64)]
        for part in run.passages():
            kernels.count_repeated_bytes(
                part.documents, part.starts, part.ends, self.repeated_bytes
            )
            np.add.at(self.passage_counts, part.documents, 1)
            contents.append(part.contents)
        self._contents, self._first_rows, self._places = np.unique(
            np.concatenate(contents), return_index=True, return_counts=True
        )

    @property
    def passages(self) -> int:
        """The number of passages."""
        return int(self._places.sum())

    @property
    def documents_with_passages(self) -> int:
        """The number of documents with at least one passage."""
        return int(np.count_nonzero(self.passage_counts))

    def passage_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the table of passages, ordered by document and first byte."""
        ids = self._run.documents[ID]
        sizes = pc.binary_length(ids).to_numpy()
        for passages in self._run.passages():
            yield from self._describe_passages(passages, ids, sizes)

    def _describe_passages(
        self, passages: Passages, ids: pa.ChunkedArray, sizes: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        for rows in divide_rows(sizes[passages.documents] + sizes[passages.source_documents]):
            part = Passages._make(column[rows] for column in passages)
            places = self._places[np.searchsorted(self._contents, part.contents)]
            documents = part.documents.astype(np.int64)
            source_documents = part.source_documents.astype(np.int64)
            columns = [
                take_values(ids, documents),
                pa.array(part.starts, pa.int64()),
                pa.array(part.ends, pa.int64()),
                pa.array(part.tokens, pa.int64()),
                take_values(ids, source_documents),
                pa.array(part.source_starts, pa.int64()),
                pa.array(part.source_ends, pa.int64()),
                pa.array(places),
                pa.array(documents),
                pa.array(source_documents),
            ]
            yield pa.record_batch(columns, schema=PASSAGES)

    @property
    def document_schema(self) -> pa.Schema:
        """The schema of the table of documents."""
        facts = self._run.documents.schema
        numbers = [
            ("repeated_bytes", pa.int64()),
            ("share", pa.float64()),
            ("passages", pa.int64()),
        ]
        return pa.schema([*facts, *(pa.field(name, kind) for name, kind in numbers)])

    def document_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the table of documents: how much of each is repeated."""
        facts = self._run.documents
        widths = pc.binary_length(facts[ID]).to_numpy() + BYTES_AT_ONCE // DOCUMENTS_AT_ONCE
        if SOURCE in facts.column_names:
            widths = widths + pc.fill_null(pc.binary_length(facts[SOURCE]), 0).to_numpy()
        for rows in divide_rows(widths):
            length = rows.stop - rows.start
            part = facts.slice(rows.start, length).combine_chunks().to_batches()[0]
            repeated = self.repeated_bytes[rows]
            sizes = part[BYTES].to_numpy()
            columns = [
                *part.columns,
                pa.array(repeated),
                pa.array(repeated / np.maximum(sizes, 1)),
                pa.array(self.passage_counts[rows]),
            ]
            yield pa.record_batch(columns, schema=self.document_schema)

    @property
    def sources(self) -> pa.Table:
        """The repeated share of each source, ordered by source. Null comes last."""
        if self._run.options.source is None:
            return SOURCES.empty_table()
        facts = self._run.documents.select([SOURCE, BYTES])
        table = facts.append_column("repeated", pa.array(self.repeated_bytes))
        sums = table.group_by(SOURCE).aggregate(
            [([], "count_all"), (BYTES, "sum"), ("repeated", "sum")]
        )
        ordered = sums.sort_by(SOURCE)
        repeated, size = ordered["repeated_sum"], ordered[f"{BYTES}_sum"]
        share = pc.divide(repeated.cast(pa.float64()), pc.max_element_wise(size, 1))
        columns = [ordered[SOURCE], ordered["count_all"], size, repeated, share]
        return pa.table(columns, SOURCES.names).cast(SOURCES)

    @cached_property
    def frequent(self) -> pa.Table:
        """The most frequent passages, with the beginnings of their texts.

        Passages at more places come first, then longer ones, then earlier ones. The documents that
        are quoted are read again.
        """
        order = np.lexsort((self._first_rows, -self._places))
        wanted_row = np.sort(self._first_rows[order[:FREQUENT_LISTED]])
        tables = [PASSAGES.empty_table()]
        first = 0
        for batch in self.passage_batches():
            rows = wanted_rows(wanted_row, first, len(batch))
            tables.append(pa.table(batch).take(pa.array(rows)))
            first += len(batch)
        listed = pa.concat_tables(tables)
        texts = self._quote(listed)
        table = listed.append_column("text", pa.array(texts, pa.large_string()))
        keys = [("places", "descending"), ("tokens", "descending"), ("document", "ascending")]
        ordered = table.sort_by([*keys, ("start", "ascending")])
        return ordered.select(FREQUENT.names).cast(FREQUENT)

    def _quote(self, passages: pa.Table) -> list[str]:
        """Returns the beginnings of the texts of passages, which are ordered by document."""
        quoted: list[str] = []
        documents = passages["document"].to_numpy()
        starts, ends = passages["start"].to_pylist(), passages["end"].to_pylist()
        run = self._run
        numbers, counts = np.unique(documents, return_counts=True)
        for text, count in zip(run.read_texts(numbers), counts.tolist(), strict=True):
            content = memoryview(text.as_buffer())
            for at in range(len(quoted), len(quoted) + count):
                end = min(ends[at], starts[at] + QUOTED_BYTES)
                quoted.append(bytes(content[starts[at] : end]).decode(errors="ignore"))
        return quoted

    def counts(self) -> dict[str, int]:
        """Returns the counts of the run, by the names that they have in its record."""
        run = self._run
        return {
            "documents": run.documents_read,
            "rejected": run.rejected,
            "text_bytes": run.text_bytes,
            "passages": self.passages,
            "different_passages": len(self._contents),
            "documents_with_passages": self.documents_with_passages,
            "repeated_bytes": int(self.repeated_bytes.sum()),
        }
