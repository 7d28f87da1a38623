"""The documents of a fit: the labelled ones, and samples of the others, in keep order."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.cluster.keep import KeepPolicy
from nearkin.corpus import Columns, Corpus
from nearkin.corpus.document_count import estimate_documents
from nearkin.corpus.ids import make_ids
from nearkin.engine.document_facts import text_lengths
from nearkin.errors import UsageError
from nearkin.runtime.progress import Progress
from nearkin.setting_names import name_setting
from nearkin.sketch.minhash import splitmix64

FREQUENCY_DOCUMENTS = 20_000
"""The number of documents from which document frequencies are counted. Larger corpora are sampled.
"""
FREQUENCY_BYTES = 32 << 20
"""The size of the texts from which document frequencies are counted, approximately. Their shingles
take eight times as much memory."""
LABELLED_BYTES = 64 << 20
"""The largest size of all labelled documents that are compared. Their weighted shingles take 16
times as much memory."""


@dataclass(frozen=True)
class FitDocuments:
    """The documents of a fit in keep order, by which the earlier one of a pair is kept.

    Attributes:
        ids: Ids of the documents.
        contents: Texts (large_string), lists of tokens or vectors (n,).
        is_labelled: Whether a document has a label, bool (n,).
        background: Documents from which document frequencies are counted, (m,).
        corpus_documents: Number of documents of the corpus.
        missing: Ids with a label that no document has, in ascending order.
        example_id: Id of a document of the corpus.
    """

    ids: tuple[str, ...]
    contents: pa.Array
    is_labelled: np.ndarray
    background: pa.Array
    corpus_documents: int
    missing: tuple[str, ...]
    example_id: str

    def __len__(self) -> int:
        return len(self.ids)

    def quote(self, position: int) -> str:
        """Returns the text of a document, its tokens, or a description of its vector."""
        value = self.contents[position].as_py()
        if isinstance(value, str):
            return value
        if len(value) and isinstance(value[0], str):
            return " ".join(value)
        return f"a vector of {len(value)} numbers"


class _Reservoir:
    """Documents that are drawn at random from all that are offered, with those of lowest rank.

    Args:
        size: Number of documents to draw.
        max_bytes: Size of the drawn documents from which fewer are drawn.
    """

    def __init__(self, size: int, max_bytes: int) -> None:
        self.size = size
        self.max_bytes = max_bytes
        self.ranks = np.empty(0, np.uint64)
        self.ids = pa.array([], pa.large_string())
        self.contents: pa.Array | None = None

    def offer(self, ranks: np.ndarray, ids: pa.Array, contents: pa.Array) -> None:
        """Offers documents with random ranks, uint64 (n,)."""
        if not self.size or not len(ranks):
            return
        if len(self.ranks) >= self.size:
            eligible = np.flatnonzero(ranks < self.ranks.max())
            if not len(eligible):
                return
            places = pa.array(eligible)
            ranks = ranks[eligible]
            ids = ids.take(places)
            contents = contents.take(places)
        both = contents if self.contents is None else pa.concat_arrays([self.contents, contents])
        all_ranks = np.concatenate([self.ranks, ranks])
        if both.nbytes > self.max_bytes:
            self.size = max(1, min(self.size, len(both) * self.max_bytes // both.nbytes))
        chosen = np.sort(np.argsort(all_ranks, kind="stable")[: self.size])
        self.ranks = all_ranks[chosen]
        self.ids = pa.concat_arrays([self.ids, ids]).take(pa.array(chosen))
        self.contents = both.take(pa.array(chosen))


def read_documents(
    corpus: Corpus,
    columns: Columns,
    labelled: Collection[str],
    others: int,
    seed: int,
    progress: Progress,
    left_out: Collection[str] = (),
) -> FitDocuments:
    """Reads the documents of a fit.

    Args:
        corpus: Corpus, which is read once.
        columns: Columns to read.
        labelled: Ids of the labelled documents that take part.
        others: Number of documents without a label that take part. They are drawn at random.
        seed: Random seed for sampling.
        progress: Receives progress updates.
        left_out: Ids of labelled documents that do not take part.

    Raises:
        UsageError: If two documents have the id of a label, or the labelled documents are too large
            for the comparison in memory.
    """
    corpus.check(columns)
    progress.stage("read samples", estimate_documents(corpus))
    wanted = pa.array(sorted(labelled), pa.large_string())
    labelled_anywhere = pa.array(sorted({*labelled, *left_out}), pa.large_string())
    without_label = _Reservoir(others, FREQUENCY_BYTES)
    background = _Reservoir(FREQUENCY_DOCUMENTS, FREQUENCY_BYTES)
    id_parts: list[pa.Array] = []
    content_parts: list[pa.Array] = []
    count = 0
    labelled_bytes = 0
    for batch in corpus.batches(columns):
        ids = make_ids(batch, columns, corpus.names)
        contents = batch.documents[columns.content]
        ranks = splitmix64(seed, len(ids), batch.first)
        is_wanted = pc.is_in(ids, value_set=wanted)
        id_parts.append(ids.filter(is_wanted))
        content_parts.append(contents.filter(is_wanted))
        labelled_bytes += content_parts[-1].nbytes
        if labelled_bytes > LABELLED_BYTES:
            raise UsageError(
                f"the {len(labelled):,} labelled documents are larger than {LABELLED_BYTES >> 20} "
                f"MiB together, which are compared in memory; lower {name_setting('sample')}, or "
                "label fewer pairs"
            )
        is_other = pc.invert(pc.is_in(ids, value_set=labelled_anywhere))
        mask = is_other.to_numpy(zero_copy_only=False)
        without_label.offer(ranks[mask], ids.filter(is_other), contents.filter(is_other))
        background.offer(ranks, ids, contents)
        count += len(ids)
        progress.advance(len(ids))
    if background.contents is None:
        raise UsageError("the inputs have no documents")
    present = pa.concat_arrays(id_parts)
    _require_unique(present)
    ids = pa.concat_arrays([present, without_label.ids])
    contents = pa.concat_arrays(
        [*content_parts, *([] if without_label.contents is None else [without_label.contents])]
    )
    order = _keep_order(ids, contents)
    return FitDocuments(
        ids=tuple(ids.take(pa.array(order)).to_pylist()),
        contents=contents.take(pa.array(order)),
        is_labelled=order < len(present),
        background=background.contents,
        corpus_documents=count,
        missing=tuple(sorted(set(labelled) - set(present.to_pylist()))),
        example_id=background.ids[0].as_py(),
    )


def _require_unique(ids: pa.Array) -> None:
    """Requires that no id occurs twice.

    Raises:
        UsageError: If one does.
    """
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
