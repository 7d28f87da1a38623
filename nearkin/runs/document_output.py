"""The documents in the output of a deduplication: copies, the list of removed ids, or none."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import Columns, FileCorpus, TableCorpus, write_kept
from nearkin.corpus.formats.parquet import CODECS, Parquet
from nearkin.corpus.writer import Annotations, KnownDocuments
from nearkin.engine import result_tables
from nearkin.engine.cluster_columns import ClusterColumns, DocumentWeights, LocalClusterColumns
from nearkin.engine.clustering import Clustering
from nearkin.engine.merged_rows import MergedRows, MergeRequest
from nearkin.engine.options import RunOptions
from nearkin.engine.run import Run
from nearkin.errors import UsageError
from nearkin.reports.excerpts import ExcerptCollector
from nearkin.runs.run_record import FileRun
from nearkin.runtime.progress import ignore_count
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import require_choice
from nearkin.texts.passages.cutting.request import PassageRequest
from nearkin.texts.passages.lines.request import LinesRequest

if TYPE_CHECKING:
    from nearkin.texts.passages.cutting.run import CutTexts

KEPT = "kept"
IDS = "ids"
NONE = "none"
OUTPUTS = (KEPT, IDS, NONE)
SAME_CODEC = "same"
REMOVED = "removed.parquet"
"""The name of the list of removed ids in an output folder."""
NO_ORDINALS = np.empty(0, np.int64)
REMOVED_SCHEMA = pa.schema([("id", pa.large_string())])


KeptCutRequest: TypeAlias = PassageRequest | LinesRequest
"""A request to cut repeated passages or lines of the documents that a deduplication keeps."""


def parse_kept_cuts(
    *,
    passages: int | str | None,
    cut_unit: str | None,
    min_left: int,
    repeated_lines: int | str | None,
    repeated_paragraphs: int | str | None,
    lines_action: str | None,
) -> KeptCutRequest | None:
    """Returns the request that options make, or None if nothing is cut."""
    lines = LinesRequest.parse_options(repeated_lines, repeated_paragraphs, lines_action, None)
    if lines is None:
        return PassageRequest.parse(passages, cut_unit, min_left)
    lines.require_alone(passages=passages, cut_unit=cut_unit, min_left=min_left)
    return lines


@dataclass(frozen=True)
class DocumentOutput:
    """The documents that an output holds.

    Attributes:
        output: `kept` for copies of the inputs without the removed rows, `ids` for the list of the
            removed ids, `none` for neither.
        codec: The codec of the copies of Parquet files, or `same` for that of each input.
        sizes: Whether the copies get the columns `cluster_size` and, with a column of sources,
            `cluster_sources`.
        weights: Weights of the column `document_weight`, which the copies of all rows get. None to
            copy only the kept rows, without weights.
        merge: Columns of which kept rows get values of their clusters, or None.
    """

    output: str = KEPT
    codec: str = SAME_CODEC
    sizes: bool = False
    weights: DocumentWeights | None = None
    merge: MergeRequest | None = None

    def __post_init__(self) -> None:
        require_choice("output", self.output, OUTPUTS)
        require_choice("codec", self.codec, (SAME_CODEC, *CODECS))
        if self.codec != SAME_CODEC and not self.has_copies:
            raise UsageError(
                f"{name_setting('codec', self.codec)} has no effect with "
                f"{name_setting('output', self.output)}, which copies no documents; leave one out"
            )
        for name in self.added_names(None):
            if not self.has_copies:
                raise UsageError(
                    f"column {name!r} cannot be added with {name_setting('output', self.output)}, "
                    "which copies no documents; leave one out"
                )
        if self.merge is not None and not self.has_copies:
            raise UsageError(
                f"{name_setting('merge_fields', self.merge.to_record())} has no effect with "
                f"{name_setting('output', self.output)}, which copies no documents; leave one out"
            )

    def cluster_columns(self, source: str | None) -> ClusterColumns:
        """Returns the columns about clusters that the copies get."""
        return ClusterColumns(self.sizes, self.sizes and source is not None, self.weights)

    def added_names(self, source: str | None) -> list[str]:
        """Returns the names of all columns that the copies get."""
        merged = [] if self.merge is None else self.merge.added_names
        return [*self.cluster_columns(source).names, *merged]

    @property
    def has_copies(self) -> bool:
        """True if the inputs are copied without the removed rows."""
        return self.output == KEPT

    @classmethod
    def from_record(cls, record: FileRun) -> "DocumentOutput":
        """Returns what the output of a finished run holds, apart from weights of all documents."""
        return cls(
            record.output or KEPT,
            record.codec or SAME_CODEC,
            record.sizes,
            merge=MergeRequest.parse(record.merge_fields, adds_sources=record.merge_sources),
        )

    def to_record(self) -> dict[str, Any]:
        """Returns the values that differ from the defaults, for run.json and to resume a run."""
        record: dict[str, Any] = {}
        if self.output != KEPT:
            record["output"] = self.output
        if self.codec != SAME_CODEC:
            record["codec"] = self.codec
        if self.sizes:
            record["sizes"] = True
        if self.weights is not None:
            record["document_weights"] = self.weights.to_record()
        if self.merge is not None:
            record["merge_fields"] = self.merge.to_record()
            if self.merge.adds_sources:
                record["merge_sources"] = True
        return record

    def require_folder(self, out: Path) -> None:
        """Requires the default output and codec for an output that is one file of documents."""
        for name, value, default in (
            ("output", self.output, KEPT),
            ("codec", self.codec, SAME_CODEC),
        ):
            if value != default:
                raise UsageError(
                    f"{name_setting(name, value)} needs an output folder, and {out} is a file of "
                    f"kept documents; leave it out, or choose a folder with {name_setting('out')}"
                )

    def require_usable(
        self, corpus: FileCorpus, columns: Columns, options: RunOptions, *, compares_others: bool
    ) -> None:
        """Requires that a codec has an effect on these inputs, and that columns can be added."""
        self.require_new_columns(corpus, columns, options, compares_others=compares_others)
        if self.codec == SAME_CODEC:
            return
        if not any(isinstance(corpus.format_of(file), Parquet) for file in corpus.files):
            raise UsageError(
                f"{name_setting('codec', self.codec)} has no effect, because no input is a Parquet "
                "file; leave it out"
            )

    def require_new_columns(
        self,
        corpus: FileCorpus | TableCorpus,
        columns: Columns,
        options: RunOptions,
        *,
        compares_others: bool,
    ) -> None:
        """Requires that the columns about clusters can be added."""
        require_weightable(self.weights, options, compares_others=compares_others)
        added = self.added_names(options.source)
        if added:
            corpus.require_new_columns(added, columns)
        if self.merge is not None:
            self.merge.require_mergeable(corpus, columns)


def require_weightable(
    weights: DocumentWeights | None, options: RunOptions, *, compares_others: bool
) -> None:
    """Requires that each document of a run belongs to a cluster of which it gets a weight."""
    if weights is None:
        return
    requested = name_setting("document_weights", weights.to_record())
    none_removed = "no document is removed where documents have weights"
    options.require_defaults(requested, {"empty": none_removed, "keep_up_to": none_removed})
    if compares_others:
        raise UsageError(
            f"{requested} and {name_setting('against')} or {name_setting('blocklist')} exclude "
            "each other: a document that is in the reference or is blocked belongs to no cluster "
            "of this run; leave out one of them"
        )


def write_removed_ids(run: Run, clustering: Clustering, folder: Path) -> None:
    """Writes the ids of the removed documents, in the order of the inputs."""

    def removed() -> Iterator[pa.RecordBatch]:
        for batch in result_tables.cluster_batches(run.documents().ids, clustering):
            part = batch.filter(pc.invert(batch["kept"]))
            yield pa.record_batch([part["id"].cast(pa.large_string())], schema=REMOVED_SCHEMA)

    result_tables.write_batches(folder / REMOVED, REMOVED_SCHEMA, removed())


def documents_to_copy(
    clustering: Clustering,
    output: DocumentOutput,
    *,
    annotate: bool = False,
    purges: bool = False,
) -> np.ndarray:
    """Returns the documents that an output copies, bool (n,): the kept ones, or all."""
    kept = np.asarray(clustering.kept)
    if not annotate and output.weights is None:
        return kept
    copied = np.ones(len(kept), bool)
    if purges and clustering.blocked is not None:
        copied[clustering.blocked.documents] = False
    return copied


def known_documents(run: Run, observed: np.ndarray = NO_ORDINALS) -> KnownDocuments:
    """Returns where a run has found its documents, so that copies need not parse all rows.

    Args:
        observed: Ordinals of the documents whose values are needed, ascending, int64 (n,).
    """
    documents = run.documents()
    return KnownDocuments(np.asarray(documents.files), np.asarray(documents.rows), observed)


def columns_to_add(
    run: Run,
    clustering: Clustering,
    output: DocumentOutput,
    merged: MergedRows | None = None,
    *,
    annotate: bool = False,
) -> Annotations | None:
    """Returns a function that makes the columns that the copies of documents get."""
    added = output.cluster_columns(run.options.source)
    ids = run.documents().ids
    makers: list[Annotations] = []

    def cluster_facts(start: int, end: int) -> pa.RecordBatch:
        rows = result_tables.cluster_rows(ids, clustering, start, end)
        return rows.drop_columns(["id"])

    if annotate:
        makers.append(cluster_facts)
    if added.names:
        makers.append(LocalClusterColumns(run, clustering, added).rows)
    if merged is not None and merged.request.adds_sources:
        makers.append(merged.source_column)
    return reduce(_join_columns, makers) if makers else None


def _join_columns(first: Annotations | None, second: Annotations) -> Annotations:
    """Returns a function that makes the columns of two functions."""
    if first is None:
        return second

    def columns_of(start: int, end: int) -> pa.RecordBatch:
        parts = (first(start, end), second(start, end))
        columns = [column for part in parts for column in part.columns]
        return pa.record_batch(columns, [name for part in parts for name in part.schema.names])

    return columns_of


def copy_documents(
    run: Run,
    corpus: FileCorpus,
    clustering: Clustering,
    output: DocumentOutput,
    folder: Path,
    advance: Callable[[int], None] = ignore_count,
    *,
    cuts: "CutTexts | None" = None,
    excerpts: ExcerptCollector | None = None,
    merged: MergedRows | None = None,
    annotate: bool = False,
    purges: bool = False,
    finished: Mapping[int, Path] = MappingProxyType({}),
) -> None:
    """Writes copies of the inputs of a run, without what is cut, into a new folder.

    Args:
        excerpts: Receives the documents that a report quotes, or None.
        finished: Copies that are made already, by the numbers of files.
    """
    folder.mkdir()
    corpus.set_codec(None if output.codec == SAME_CODEC else output.codec)
    copied = documents_to_copy(clustering, output, annotate=annotate, purges=purges)
    columns = columns_to_add(run, clustering, output, merged, annotate=annotate)
    if cuts is not None:
        copied = copied & cuts.kept
        columns = _join_columns(columns, cuts.span_column)
    if finished and excerpts is not None:
        excerpts.read(run)
        excerpts = None
    write_kept(
        corpus,
        run.columns,
        copied,
        folder,
        columns,
        None if excerpts is None else excerpts.observe,
        advance,
        rewrite=None if cuts is None else cuts.rewrite,
        known=known_documents(run, NO_ORDINALS if excerpts is None else excerpts.ordinals),
        new_values=None if merged is None else merged.new_values,
        workers=run.copying_workers,
        executor=run.executor,
        finished=finished,
    )


def copy_rows(
    run: Run,
    corpus: TableCorpus,
    clustering: Clustering,
    output: DocumentOutput,
    merged: MergedRows | None = None,
) -> pa.Table:
    """Returns the rows of a table that an output copies, with the columns that they get."""
    copied = documents_to_copy(clustering, output)
    rows = np.asarray(run.documents().rows)[copied]
    table = corpus.table.take(pa.array(rows))
    if merged is not None:
        table = merged.fill_table(table, np.flatnonzero(copied))
    columns_of = columns_to_add(run, clustering, output, merged)
    if columns_of is not None:
        added = columns_of(0, len(copied)).filter(pa.array(copied))
        for name in added.schema.names:
            table = table.append_column(name, added[name])
    return table
