"""The documents of a fit: the labelled ones, and samples of the others, in keep order."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import Columns, Corpus, carried_column_name
from nearkin.corpus.document_count import estimate_documents
from nearkin.corpus.ids import make_ids
from nearkin.corpus.unknown_ids import find_original_ids
from nearkin.corpus.validation import join_columns
from nearkin.engine.document_facts import id_hashes, text_lengths
from nearkin.errors import UsageError
from nearkin.quality.fit.sources import DocumentSources, SourceCounter
from nearkin.runtime.progress import Progress
from nearkin.stages.cluster.keep import KeepPolicy
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.sketch.minhash import splitmix64

FREQUENCY_DOCUMENTS = 20_000
"""The number of documents from which document frequencies are counted. Larger corpora are sampled.
"""
FREQUENCY_BYTES = 32 << 20
"""The size of the texts from which document frequencies are counted, approximately. Their shingles
take eight times as much memory."""
COMPARED_BYTES = 64 << 20
"""The largest size of all documents that are compared. Their weighted shingles take 16 times as
much memory."""
BYTES_PER_DOCUMENT = 2000
"""The mean size of texts up to which all pairs of the wanted number of documents are compared. The
time for all pairs grows with the number of documents and with their total size, so fewer of larger
documents are compared."""


class ColumnTexts(NamedTuple):
    """The texts of single columns, as structs with a field for each column."""

    columns: tuple[str, ...]
    """The names of the columns."""
    of_documents: pa.StructArray
    """(n,): The texts of the documents. A missing text is null."""
    of_background: pa.StructArray
    """(m,): The texts from which document frequencies are counted."""

    def share_without_text(self, columns: Collection[str]) -> float:
        """Returns the share of the documents without a text in some columns. A run rejects them."""
        joined = _join_fields(self.of_background, columns)
        return joined.null_count / max(1, len(joined))


def _join_fields(texts: pa.StructArray, columns: Collection[str]) -> pa.Array:
    return join_columns([texts.field(column) for column in columns])


@dataclass(frozen=True)
class FitDocuments:
    """The documents of a fit in keep order, by which the earlier one of a pair is kept.

    Attributes:
        ids: Ids of the documents.
        contents: Texts (large_string), lists of tokens or vectors (n,).
        is_labelled: Whether a document has a label, bool (n,).
        background: Documents from which document frequencies are counted, (m,).
        corpus_documents: Number of documents of the corpus.
        missing: Number of ids with a label that no document has.
        unknown_ids: Some of these ids, each with the one that a spreadsheet changed to it, or "".
        too_large: Number of labelled documents that were left out because of the size of the texts.
        example_id: Id of a document of the corpus.
        sources: Sources of the documents, of which only different ones are compared, or None to
            compare all documents.
        texts: Texts of the single columns that are joined, if some of them may be chosen, or None.
    """

    ids: tuple[str, ...]
    contents: pa.Array
    is_labelled: np.ndarray
    background: pa.Array
    corpus_documents: int
    missing: int
    unknown_ids: Mapping[str, str]
    too_large: int
    example_id: str
    sources: DocumentSources | None = None
    texts: ColumnTexts | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def are_complete(self) -> bool:
        """True if all documents of the corpus are compared."""
        return len(self) == self.corpus_documents

    @property
    def across(self) -> str | None:
        """The column of sources, or None."""
        return None if self.sources is None else self.sources.column

    @property
    def scope(self) -> PairScope:
        """The pairs that are compared."""
        scope = PairScope.of_all_pairs(len(self))
        return scope if self.sources is None else scope._replace(sources=self.sources.hashes)

    def select(self, rows: np.ndarray) -> "FitDocuments":
        """Returns some of the documents, with the same background.

        Their positions, int64 (m,), ascend unless the texts were replaced.
        """
        sources = None if self.sources is None else self.sources.select(rows)
        texts = self.texts
        if texts is not None:
            texts = texts._replace(of_documents=texts.of_documents.take(pa.array(rows)))
        return replace(
            self,
            ids=tuple(self.ids[row] for row in rows.tolist()),
            contents=self.contents.take(pa.array(rows)),
            is_labelled=self.is_labelled[rows],
            sources=sources,
            texts=texts,
        )

    def with_columns(self, columns: Sequence[str]) -> "FitDocuments":
        """Returns the documents with the texts of some columns, in the same order.

        A document without a text in them is empty, so that it has no duplicates.
        """
        assert self.texts is not None
        return replace(
            self,
            contents=_join_fields(self.texts.of_documents, columns).fill_null(""),
            background=_join_fields(self.texts.of_background, columns).drop_null(),
        )

    def find_keep_order(self) -> np.ndarray:
        """Returns the positions of the documents in keep order, int64 (n,)."""
        return _keep_order(pa.array(self.ids, pa.large_string()), self.contents)

    def quote(self, position: int) -> str:
        """Returns the text of a document, its tokens, or a description of its vector."""
        value = self.contents[position].as_py()
        if isinstance(value, str):
            return value
        if len(value) and isinstance(value[0], str):
            return " ".join(value)
        return f"a vector of {len(value)} numbers"


class SizeLimit(NamedTuple):
    """A limit of the documents that are compared with each other.

    Examples:
        >>> SizeLimit(1000).count_within(np.array([600, 300, 300]))
        2
        >>> SizeLimit(1000, most_work=1500).count_within(np.array([600, 300, 300]))
        1
    """

    most_bytes: int
    """The largest total size."""
    most_work: int | None = None
    """The largest product of the total size and the number of documents. None without a limit."""

    def count_within(self, sizes: np.ndarray) -> int:
        """Returns how many documents are within the limit, by their bytes. It is at least 1."""
        total = np.cumsum(sizes)
        is_within = total <= self.most_bytes
        if self.most_work is not None:
            is_within &= total * np.arange(1, len(total) + 1) <= self.most_work
        return max(1, int(np.count_nonzero(is_within)))


def limit_compared(compared: int | None) -> SizeLimit:
    """Returns the limit of the documents of a fit."""
    if compared is None:
        return SizeLimit(COMPARED_BYTES)
    return SizeLimit(COMPARED_BYTES, compared * compared * BYTES_PER_DOCUMENT)


class _DrawnDocuments(NamedTuple):
    """Documents that were drawn, in the order of their ranks."""

    ids: pa.Array
    contents: list[pa.Array]
    """One array, or none if no document was offered."""
    carried: pa.StructArray
    """The values of carried columns, with a field for each column."""


class _Reservoir:
    """The documents of lowest rank of all that are offered, within a size.

    They do not depend on the order in which documents are offered, nor on the batches.
    """

    def __init__(self, count: int, limit: SizeLimit, carried: pa.StructType) -> None:
        self.count = count
        self.limit = limit
        self.ranks = np.empty(0, np.uint64)
        self.ids = pa.array([], pa.large_string())
        self.contents: pa.Array | None = None
        self.carried = pa.array([], carried)
        self._end: np.uint64 | None = None

    def offer(
        self, ranks: np.ndarray, ids: pa.Array, contents: pa.Array, carried: pa.StructArray
    ) -> None:
        """Takes the documents of lowest rank, uint64 (n,), into the sample. Drops all others."""
        if not self.count or not len(ranks):
            return
        if self._end is not None:
            eligible = np.flatnonzero(ranks < self._end)
            if not len(eligible):
                return
            places = pa.array(eligible)
            ranks = ranks[eligible]
            ids = ids.take(places)
            contents = contents.take(places)
            carried = carried.take(places)
        all_contents = (
            contents if self.contents is None else pa.concat_arrays([self.contents, contents])
        )
        all_ranks = np.concatenate([self.ranks, ranks])
        order = np.argsort(all_ranks, kind="stable")
        within = self.limit.count_within(content_sizes(all_contents)[order[: self.count]])
        if within < len(order):
            # No later document can come after a document that exceeds the limit.
            self._end = all_ranks[order[within]]
        chosen = np.sort(order[:within])
        self.ranks = all_ranks[chosen]
        self.ids = pa.concat_arrays([self.ids, ids]).take(pa.array(chosen))
        self.contents = all_contents.take(pa.array(chosen))
        self.carried = pa.concat_arrays([self.carried, carried]).take(pa.array(chosen))

    def documents_in_order(self) -> _DrawnDocuments:
        if self.contents is None:
            return _DrawnDocuments(self.ids, [], self.carried)
        order = pa.array(np.argsort(self.ranks, kind="stable"))
        return _DrawnDocuments(
            self.ids.take(order), [self.contents.take(order)], self.carried.take(order)
        )


def content_sizes(contents: pa.Array) -> np.ndarray:
    """Returns the size of each document in bytes, int64 (n,)."""
    if pa.types.is_fixed_size_list(contents.type):
        return np.full(len(contents), contents.nbytes // max(1, len(contents)), np.int64)
    return text_lengths(contents)


def read_documents(
    corpus: Corpus,
    columns: Columns,
    labelled: Sequence[str],
    others: int,
    seed: int,
    progress: Progress,
    left_out: Collection[str] = (),
    compared: int | None = None,
    across: str | None = None,
    choosable: Sequence[str] = (),
) -> FitDocuments:
    """Reads the documents of a fit.

    If they are too large together (see `limit_compared`), the last documents are left out: first
    those without a label, then labelled ones.
    """
    names = dict.fromkeys([*choosable, *([] if across is None else [across])])
    columns = replace(columns, carried_columns=tuple(names))
    carried_type = pa.struct([(name, pa.large_string()) for name in names])
    corpus.check(columns)
    counter = None if across is None else SourceCounter(across)
    progress.stage("read samples", estimate_documents(corpus, columns))
    limit = limit_compared(compared)
    labelled_ids = pa.array(labelled, pa.large_string())
    labelled_anywhere = pa.array(sorted({*labelled, *left_out}), pa.large_string())
    with_label = _Reservoir(max(1, len(labelled)), limit, carried_type)
    without_label = _Reservoir(others, limit, carried_type)
    background = _Reservoir(FREQUENCY_DOCUMENTS, SizeLimit(FREQUENCY_BYTES), carried_type)
    id_parts: list[pa.Array] = []
    count = 0
    for batch in corpus.batches(columns):
        ids = make_ids(batch, columns, corpus.names)
        contents = batch.documents[columns.content]
        carried = _carried_values(batch.documents, carried_type)
        if counter is not None:
            counter.add(carried.field(counter.column))
        ranks = rank_by_id(ids, seed)
        is_wanted = pc.is_in(ids, value_set=labelled_ids)
        wanted_ids = ids.filter(is_wanted)
        id_parts.append(wanted_ids)
        draw_order = pc.index_in(wanted_ids, value_set=labelled_ids).to_numpy(zero_copy_only=False)
        with_label.offer(
            draw_order.astype(np.uint64),
            wanted_ids,
            contents.filter(is_wanted),
            carried.filter(is_wanted),
        )
        is_other = pc.invert(pc.is_in(ids, value_set=labelled_anywhere))
        mask = is_other.to_numpy(zero_copy_only=False)
        without_label.offer(
            ranks[mask], ids.filter(is_other), contents.filter(is_other), carried.filter(is_other)
        )
        background.offer(ranks, ids, contents, carried)
        count += len(ids)
        progress.advance(len(ids))
    if background.contents is None:
        raise UsageError("the inputs have no documents")
    present = pa.concat_arrays(id_parts)
    _require_unique(present)
    missing = sorted(set(labelled) - set(present.to_pylist()))
    drawn_labelled = with_label.documents_in_order()
    drawn_others = without_label.documents_in_order()
    ids = pa.concat_arrays([drawn_labelled.ids, drawn_others.ids])
    contents = pa.concat_arrays(
        [background.contents.slice(0, 0), *drawn_labelled.contents, *drawn_others.contents]
    )
    within = limit.count_within(content_sizes(contents))
    ids = ids.slice(0, within)
    contents = contents.slice(0, within)
    order = _keep_order(ids, contents)
    carried = pa.concat_arrays([drawn_labelled.carried, drawn_others.carried]).take(pa.array(order))
    return FitDocuments(
        ids=tuple(ids.take(pa.array(order)).to_pylist()),
        contents=contents.take(pa.array(order)),
        is_labelled=order < len(drawn_labelled.ids),
        background=background.contents,
        corpus_documents=count,
        missing=len(missing),
        unknown_ids=find_original_ids(missing, [background.ids]),
        too_large=len(present) - min(within, len(drawn_labelled.ids)),
        example_id=background.ids[0].as_py(),
        sources=None if counter is None else counter.sources_of(carried.field(counter.column)),
        texts=ColumnTexts(tuple(choosable), carried, background.carried) if choosable else None,
    )


def _carried_values(documents: pa.RecordBatch, carried_type: pa.StructType) -> pa.StructArray:
    values = [documents[carried_column_name(field.name)] for field in carried_type]
    if not values:
        return pa.array([{}] * documents.num_rows, carried_type)
    return pa.StructArray.from_arrays(values, fields=list(carried_type))


def rank_by_id(ids: pa.Array, seed: int) -> np.ndarray:
    """Returns the ranks by which documents are drawn, uint64 (n,).

    They follow from the ids alone, so that the order of rows and files does not matter.
    """
    shift, factor = splitmix64(seed, 2)
    # the product of an odd factor is a permutation
    mixed = (id_hashes(ids) ^ shift) * (factor | np.uint64(1))
    return np.asarray(mixed ^ (mixed >> np.uint64(32)))


def _require_unique(ids: pa.Array) -> None:
    counts = ids.value_counts()
    for entry in counts.to_pylist():
        if entry["counts"] > 1:
            raise UsageError(
                f"the inputs have {entry['counts']} documents with the id {entry['values']!r}, "
                "which is labelled; make the ids unique"
            )


def _keep_order(ids: pa.Array, contents: pa.Array) -> np.ndarray:
    """Returns the positions of documents in the keep order of a run without options, (n,)."""
    ties = np.empty(len(ids), np.int64)
    ties[pc.sort_indices(ids).to_numpy()] = np.arange(len(ids))
    policy = KeepPolicy.parse("length desc")
    return policy.order(pa.table({}), text_lengths(contents), ties)
