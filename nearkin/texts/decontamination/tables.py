"""The result tables of a run that finds the items of suites."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.documents import take_values
from nearkin.runtime.number_format import format_count
from nearkin.stages.packed_pairs import sorted_unique
from nearkin.texts.decontamination.request import CONTAMINATION
from nearkin.texts.decontamination.run import DecontaminationRun
from nearkin.texts.passages.cutting.run import SPAN
from nearkin.texts.passages.documents import BYTES, ID
from nearkin.texts.passages.tables import divide_rows

HELD_ITEM = pa.struct(
    [
        ("suite", pa.large_string()),
        ("item", pa.large_string()),
        ("field", pa.large_string()),
        ("score", pa.float64()),
    ]
)
CONTAMINATIONS = pa.schema(
    [
        ("suite", pa.large_string()),
        ("item", pa.large_string()),
        ("field", pa.large_string()),
        ("id", pa.large_string()),
        ("score", pa.float64()),
        ("spans", pa.list_(SPAN)),
        ("document", pa.int64()),
    ]
)
"""A field of an item that a document holds: `spans` are its bytes that are shared with the item,
and `document` counts documents from 0 in corpus order. Ordered by document, suite and item."""
ITEMS = pa.schema(
    [
        ("suite", pa.large_string()),
        ("item", pa.large_string()),
        ("copies", pa.int64()),
        ("hits", pa.int64()),
        ("documents", pa.int64()),
        ("score", pa.float64()),
    ]
)
"""An item that documents hold: the number of items with these texts, its hits, the number of
documents, and the largest score."""
SUITE_COUNTS = pa.schema(
    [
        ("suite", pa.large_string()),
        ("items", pa.int64()),
        ("not_searched", pa.int64()),
        ("contaminated_items", pa.int64()),
        ("share", pa.float64()),
        ("documents", pa.int64()),
    ]
)
"""A suite: its items, those that cannot be found, those that documents hold, their share, and the
number of these documents."""
CONTAMINATED = pa.schema(
    [
        ("id", pa.large_string()),
        ("bytes", pa.int64()),
        ("items", pa.int64()),
        ("suites", pa.list_(pa.large_string())),
        ("score", pa.float64()),
        ("document", pa.int64()),
    ]
)
"""A document that holds items: their number, their suites, and the largest score."""
ROWS_AT_ONCE = 1 << 14


class ContaminationTables:
    """The tables of a finished run."""

    def __init__(self, run: DecontaminationRun) -> None:
        self._run = run
        self._suites = run.index.suites

    @cached_property
    def _names(self) -> pa.Array:
        return pa.array(self._suites.names, pa.large_string())

    @cached_property
    def item_suites(self) -> np.ndarray:
        """The number of the suite of each item, int64 (items,)."""
        return np.asarray(self._suites.items["suite"].to_numpy(), np.int64)

    @cached_property
    def _held(self) -> pa.Table:
        """Item, document and score of each hit."""
        return self._run.hits.select(["item", "document", "score"])

    def hit_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the table of hits, with the schema CONTAMINATIONS."""
        ids = self._run.documents[ID]
        fields = pa.array(self._suites.fields, pa.large_string())
        for start in range(0, len(self._run.hits), ROWS_AT_ONCE):
            part = self._run.hits.slice(start, ROWS_AT_ONCE).combine_chunks()
            items = part["item"].to_numpy()
            documents = part["document"].to_numpy()
            columns = [
                self._names.take(pa.array(self.item_suites[items])),
                self._suites.items["id"].take(pa.array(items)).combine_chunks(),
                fields.take(part["field"].combine_chunks()),
                take_values(ids, documents),
                part["score"].combine_chunks(),
                part["spans"].combine_chunks(),
                pa.array(documents),
            ]
            yield pa.record_batch(columns, schema=CONTAMINATIONS)

    @cached_property
    def items(self) -> pa.Table:
        """The items that documents hold, with the schema ITEMS, ordered by suite and item."""
        held = self._held.group_by("item").aggregate(
            [("document", "count"), ("document", "count_distinct"), ("score", "max")]
        )
        held = held.sort_by("item")
        numbers = held["item"].to_numpy()
        rows = self._suites.items.take(pa.array(numbers))
        columns = [
            self._names.take(pa.array(self.item_suites[numbers])),
            rows["id"],
            rows["copies"],
            held["document_count"],
            held["document_count_distinct"],
            held["score_max"],
        ]
        return pa.table(columns, ITEMS.names).cast(ITEMS)

    @cached_property
    def suites(self) -> pa.Table:
        """The suites, with the schema SUITE_COUNTS, in the order of their names."""
        count = len(self._suites.suites)
        copies = self._suites.items["copies"].to_numpy()
        held = sorted_unique(self._run.hits["item"].to_numpy())
        contaminated = _sum_by(self.item_suites[held], copies[held], count)
        is_searched = self._run.index.searched_items
        searched = _sum_by(self.item_suites[is_searched], copies[is_searched], count)
        totals = np.array([suite.items for suite in self._suites.suites], np.int64)
        pairs = np.unique(
            np.stack(
                [
                    self.item_suites[self._run.hits["item"].to_numpy()],
                    self._run.hits["document"].to_numpy(),
                ],
                axis=1,
            ),
            axis=0,
        )
        columns = [
            self._names,
            pa.array(totals),
            pa.array(totals - searched),
            pa.array(contaminated),
            pa.array(contaminated / np.maximum(totals, 1)),
            pa.array(np.bincount(pairs[:, 0], minlength=count).astype(np.int64)),
        ]
        return pa.table(columns, SUITE_COUNTS.names).cast(SUITE_COUNTS)

    def document_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the contaminated documents, with the schema CONTAMINATED, in corpus order."""
        numbers = self._run.contaminated
        ids = self._run.documents[ID]
        sizes = self._run.documents[BYTES].to_numpy()
        hits = self._run.hits
        bounds = np.append(np.searchsorted(hits["document"].to_numpy(), numbers), len(hits))
        for rows in divide_rows(np.full(len(numbers), 1 << 10)):
            part = numbers[rows]
            first = int(bounds[rows.start])
            held = hits.slice(first, int(bounds[rows.stop]) - first)
            columns = [
                take_values(ids, part),
                pa.array(sizes[part]),
                *self._summarise(held, part),
                pa.array(part),
            ]
            yield pa.record_batch(columns, schema=CONTAMINATED)

    def _summarise(self, held: pa.Table, documents: np.ndarray) -> list[pa.Array]:
        """Returns the number of items, the suites and the largest score of documents."""
        numbers = held["document"].to_numpy()
        items = held["item"].to_numpy()
        pairs = np.unique(np.stack([numbers, items], axis=1), axis=0)
        counts = np.bincount(np.searchsorted(documents, pairs[:, 0]), minlength=len(documents))
        suites = np.unique(np.stack([numbers, self.item_suites[items]], axis=1), axis=0)
        offsets = np.searchsorted(suites[:, 0], np.append(documents, np.iinfo(np.int64).max))
        names = self._names.take(pa.array(suites[:, 1]))
        firsts = np.searchsorted(numbers, documents)
        scores = held["score"].to_numpy()
        largest = np.maximum.reduceat(scores, firsts) if len(documents) else scores
        return [
            pa.array(counts.astype(np.int64)),
            pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), names),
            pa.array(largest),
        ]

    def annotation_column(self, first: int, end: int) -> pa.RecordBatch:
        """Returns the column of the items that documents hold."""
        hits = self._run.hits
        bounds = np.searchsorted(hits["document"].to_numpy(), np.arange(first, end + 1))
        held = hits.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
        items = held["item"].to_numpy()
        fields = pa.array(self._suites.fields, pa.large_string())
        values = pa.StructArray.from_arrays(
            [
                self._names.take(pa.array(self.item_suites[items])),
                pc.take(self._suites.items["id"], pa.array(items)).combine_chunks(),
                fields.take(held["field"].combine_chunks()),
                held["score"].combine_chunks(),
            ],
            fields=list(HELD_ITEM),
        )
        offsets = pa.array((bounds - bounds[0]).astype(np.int32))
        return pa.record_batch([pa.ListArray.from_arrays(offsets, values)], [CONTAMINATION])

    @property
    def warnings(self) -> list[str]:
        """Warnings about suites without items, and with items that cannot be found."""
        rows = self.suites.to_pylist()
        empty = [f"the suite {row['suite']} has no items" for row in rows if not row["items"]]
        return empty + [
            f"{row['not_searched']:,} of {format_count(row['items'], 'item')} of the suite "
            f"{row['suite']} {'is' if row['not_searched'] == 1 else 'are'} too short or too common "
            "to be found, or cannot be read"
            for row in rows
            if row["not_searched"]
        ]

    def counts(self) -> dict[str, int]:
        """Returns the counts of the run, by the names that they have in its record."""
        run = self._run
        suites = self.suites
        return {
            "documents": run.documents_read,
            "rejected": run.rejected,
            "text_bytes": run.text_bytes,
            "suites": len(suites),
            "items": int(pc.sum(suites["items"]).as_py() or 0),
            "items_not_searched": int(pc.sum(suites["not_searched"]).as_py() or 0),
            "contaminated_items": int(pc.sum(suites["contaminated_items"]).as_py() or 0),
            "contaminated_documents": len(run.contaminated),
            "hits": len(run.hits),
        }


def _sum_by(groups: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """Returns the sums of values by group, int64 (count,)."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, groups, values)
    return sums
