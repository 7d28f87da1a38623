"""The results of the library: Arrow tables of a finished run, and its counts."""

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import orjson
import pyarrow as pa

from nearkin.corpus import FileCorpus, TableCorpus, count_reasons
from nearkin.corpus.corpus import require_unique_columns
from nearkin.corpus.rejects import describe_rejections
from nearkin.corpus.row_selection import ReadRows, select_kept_rows
from nearkin.engine import result_tables
from nearkin.engine.chosen_settings import ChosenSettings
from nearkin.engine.cluster_columns import ClusterColumns, DocumentWeights, LocalClusterColumns
from nearkin.engine.clustering import Clustering
from nearkin.engine.merged_rows import MergedRows, MergeRequest
from nearkin.engine.related_documents import with_related_documents
from nearkin.engine.removal_limit import examine_removals
from nearkin.engine.removal_quotes import quote_removed
from nearkin.engine.result_schema import GROUPS
from nearkin.engine.run import Run
from nearkin.engine.sketching import REJECTED
from nearkin.engine.split_groups import SplitFacts, describe_group_sizes, require_group
from nearkin.engine.stats import MissingPairsStats, StageRecord, StageRecords
from nearkin.errors import UsageError
from nearkin.reports.collect import collect_counts, collect_report, summary_counts
from nearkin.reports.examples import LocatedPairs, PairExamples
from nearkin.reports.excerpts import ExcerptCollector
from nearkin.reports.merged_rows import describe_merged
from nearkin.reports.model import Provenance, ReportData
from nearkin.reports.notebook import first_rows, plot_similarities, similarity_bars
from nearkin.reports.run_warnings import warn_of_inputs, warn_of_run
from nearkin.runs.destinations import DELETE, WriteRequest, write_output
from nearkin.runs.document_output import IDS, DocumentOutput, copy_rows, require_weightable
from nearkin.runs.kept_file import KeptFile, write_kept_file
from nearkin.runs.output import write_result
from nearkin.runs.pairs import COPIES, describe_copies, write_pairs_file
from nearkin.runs.passage_cuts import KeptCuts
from nearkin.runs.split import FinishedSplit
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.files import Readers
from nearkin.runtime.notebook_view import TableView, render_view
from nearkin.runtime.number_format import format_part
from nearkin.runtime.plots import open_axes
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.table_forms import TableForms
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.runtime.visible_text import make_visible
from nearkin.texts.decontamination.request import CONTAMINATION, ContaminationAction
from nearkin.texts.decontamination.run import DecontaminationRun
from nearkin.texts.decontamination.tables import (
    CONTAMINATED,
    CONTAMINATIONS,
    ContaminationTables,
)
from nearkin.texts.passages.cutting.request import CUT_SPANS
from nearkin.texts.passages.cutting.run import CUTS, KEPT_DOCUMENTS, CutRun, CutTexts
from nearkin.texts.passages.lines.request import LinesRequest
from nearkin.texts.passages.lines.run import REPEATED_LINES, LineRun, count_lines
from nearkin.texts.passages.run import PassageRun
from nearkin.texts.passages.tables import FREQUENT, PASSAGES, SOURCES, PassageTables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T")

SHOWN_ROWS = 10
"""The number of rows that the representation of a table shows."""
SHOWN_CHARACTERS = 24
"""The number of characters that the representation of a table shows of a value."""
REJECTED_ROWS = pa.schema(
    [
        ("file", pa.large_string()),
        ("row", pa.int64()),
        ("rows", pa.int64()),
        ("line", pa.int64()),
        ("reason", pa.large_string()),
        ("raw", pa.large_string()),
    ]
)
"""The schema of the rejected rows."""


@dataclass(frozen=True, repr=False)
class ResultTable(TableForms):
    """A result as an Arrow table. `len` is the number of its rows.

    Further attributes and methods are those of the Arrow table.

    Attributes:
        arrow: The Arrow table.
    """

    arrow: pa.Table

    def to_arrow(self) -> pa.Table:
        """Returns the Arrow table."""
        return self.arrow

    def __len__(self) -> int:
        return len(self.arrow)

    def __getattr__(self, name: str) -> Any:
        # Copying and unpickling look for special methods before the field `arrow` is set.
        if name == "arrow" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.arrow, name)

    def __getitem__(self, name: str | int) -> Any:
        return self.arrow[name]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        names = self.arrow.column_names
        rows = [
            [_shorten(value) for value in row.values()]
            for row in self.arrow.slice(0, SHOWN_ROWS).to_pylist()
        ]
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        lines = [
            "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()
            for row in [names, *rows]
        ]
        left_out = len(self) - len(rows)
        if left_out > 0:
            lines.append(f"... and {left_out:,} more rows")
        return "\n".join([f"<ResultTable: {len(self):,} rows>", *lines])

    def _repr_html_(self) -> str:
        return render_view(
            "ResultTable", {"rows": len(self)}, [], [first_rows("first rows", self.arrow)]
        )


def _shorten(value: object) -> str:
    """Returns the beginning of a value on one line."""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = " ".join(make_visible(str(value)).split())
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[: SHOWN_CHARACTERS - 1]}…"


@dataclass(frozen=True)
class TemporaryRun:
    """A finished run with its temporary work folder, which is deleted with the last result.

    Attributes:
        run: The run.
        folder: The work folder, which several results may share.
    """

    run: Run
    folder: TemporaryFolder


class TableResult(TableForms):
    """A result with a main table, whose forms it has. `len` is the number of its rows."""

    @property
    @abstractmethod
    def _table(self) -> ResultTable:
        """The main table."""

    def to_arrow(self) -> pa.Table:
        """Returns the main table, for example the clusters or the pairs, as an Arrow table."""
        return self._table.arrow

    def __len__(self) -> int:
        return len(self._table)


class DedupResult(TableResult):
    """The result of a deduplication: clusters, verified pairs and counts.

    Its work folder is deleted with the last result that uses it, or by `close`, or by leaving
    `with`. Pickled and copied results are equal to the result. A pickled result consists of the
    tables and the content of the report. It has no work folder, so `rethreshold` and `write` fail.
    `len` is the number of documents.

    Args:
        finished: The run.
        clustering: Its clusters.
        cuts: What was cut from the kept documents, or None.
        doubt: The warning that the run seems to remove unique documents, or None.
    """

    def __init__(
        self,
        finished: TemporaryRun,
        clustering: Clustering,
        cuts: KeptCuts | None = None,
        doubt: str | None = None,
        merge: MergeRequest | None = None,
    ) -> None:
        self._finished: TemporaryRun | None = finished
        self._doubt = doubt
        self._cuts = cuts
        self._merge = merge
        self._is_cut = cuts is not None
        options = finished.run.options
        # A condition decides about pairs on both sides of any similarity.
        self._threshold = options.threshold if options.acceptance is None else None
        self._provenance = Provenance.now(finished.run.corpus.names)
        self._clustering: Clustering | None = clustering
        self._read = ReadRows.of(finished.run.corpus, finished.run.columns.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases the work folder. What was not read before cannot be read any more."""
        self._finished = None
        self._clustering = None
        self._cuts = None
        self.__dict__.pop("_merged", None)
        self._read = self._read.forget()

    @property
    def _open(self) -> tuple[TemporaryRun, Clustering]:
        """The run and its clusters."""
        return self._require_open()

    def _require_open(self) -> tuple[TemporaryRun, Clustering]:
        """Returns the run and its clusters."""
        if self._finished is None or self._clustering is None:
            raise UsageError(
                "the result has no work folder, because it was closed or unpickled; deduplicate "
                "again, or use the result before it is closed"
            )
        return self._finished, self._clustering

    @cached_property
    def clusters(self) -> ResultTable:
        """The clusters, with one row for each document, in the order of the corpus.

        The columns are id, cluster (the id of the kept document), kept, similarity (to the kept
        document) and kind. With a reference, there are also duplicate_of (the id of the document
        that a removed document repeats) and matched_in (`reference` or `this run`). With the option
        `related`, there is also outcome: `same` (a duplicate), `related` or `new`.
        """
        finished, clustering = self._open
        batches = result_tables.cluster_batches(finished.run.documents().ids, clustering)
        schema = result_tables.clusters_schema(clustering)
        return ResultTable(pa.Table.from_batches(batches, schema))

    @cached_property
    def pairs(self) -> ResultTable:
        """The verified pairs. One document represents a group of exact duplicates.

        The columns are id_a, id_b, similarity (exact) and estimate, and distance for simhash,
        cosine and hamming.
        """
        run = self._open[0].run
        return ResultTable(
            pa.Table.from_batches(result_tables.pair_batches(run), result_tables.pairs_schema(run))
        )

    @cached_property
    def related(self) -> ResultTable:
        """The related documents: verified pairs of different clusters, each in one row.

        The columns are id_a, id_b, similarity, kept_a and kept_b (whether each document is kept),
        cluster_a and cluster_b (the ids of the kept documents of their clusters). One document
        represents a group of exact duplicates. With a reference, `matched_in` says whether
        document b is of the `reference` or of `this run`.

        Raises:
            UsageError: If the run has no option `related`.
        """
        finished, clustering = self._open
        if clustering.linked is None:
            raise UsageError(
                f"related documents were not searched for; deduplicate again with "
                f"{name_setting('related', 0.6)}, for example"
            )
        batches = result_tables.related_batches(finished.run, clustering)
        schema = result_tables.related_schema(finished.run)
        return ResultTable(pa.Table.from_batches(batches, schema))

    @check_arguments
    def cluster_columns(self, document_weights: str = "none") -> ResultTable:
        """Returns how often each document occurs, with one row for each in the order of the corpus.

        The columns are id, cluster_size (the number of documents of its cluster, itself included),
        cluster_sources (the number of documents of each source in the cluster, if the run has a
        column of sources), and document_weight if weights are given.

        Args:
            document_weights: Weights, of which each of the n documents of a cluster gets f(n) / n:
                `one` (f is 1), `sqrt` (the square root of n), `log` (1 + ln n), or the path of a
                CSV file with the columns `size` and `weight`, whose weights are those of f from a
                size up to the next one. `none` for no weights.

        Raises:
            UsageError: If the weights are unknown, the file is not such a table, empty documents
                are dropped, or there is a reference.
        """
        finished, clustering = self._open
        run = finished.run
        has_sources = run.options.source is not None
        weights = DocumentWeights.parse(document_weights)
        require_weightable(weights, run.options, compares_others=run.compares_others)
        columns = ClusterColumns(sizes=True, sources=has_sources, weights=weights)
        added = LocalClusterColumns(run, clustering, columns).rows(0, len(clustering.kept))
        table = pa.table({"id": run.documents().ids})
        for name in added.schema.names:
            table = table.append_column(name, added[name])
        return ResultTable(table)

    @cached_property
    def kept(self) -> np.ndarray:
        """The rows that are kept, as booleans of shape (n,).

        It has one entry for each row of a table, False for rejected rows; or one for each document
        of files.
        """
        finished, clustering = self._open
        kept = np.array(clustering.kept)
        if not isinstance(finished.run.corpus, TableCorpus):
            return kept
        rows = np.zeros(finished.run.corpus.table.num_rows, bool)
        rows[np.asarray(finished.run.documents().rows)] = kept
        return rows

    @cached_property
    def cluster_ids(self) -> pa.ChunkedArray:
        """The id of the document that each row's cluster keeps, large_string (n,).

        It has one entry for each row of a table, null for rejected rows; or one for each document
        of files.
        """
        finished = self._open[0]
        ids = self.clusters.arrow["cluster"]
        if not isinstance(finished.run.corpus, TableCorpus):
            return ids
        places = np.full(finished.run.corpus.table.num_rows, -1)
        places[np.asarray(finished.run.documents().rows)] = np.arange(len(ids))
        return ids.take(pa.array(places, mask=places < 0))

    @cached_property
    def kept_documents(self) -> ResultTable:
        """The documents that are kept, without the passages or lines that were cut from them.

        The columns are id, text, and cut_spans (start and end of each part that was cut, in bytes
        of the original text). The texts are read once more. Without `passages` and
        `repeated_lines`, nothing is cut and the table is empty.
        """
        run = self._open[0].run
        if self._cuts is None:
            return ResultTable(KEPT_DOCUMENTS.empty_table())
        batches = run.corpus.batches(run.columns)
        texts = (batch.documents[run.columns.content] for batch in batches)
        return ResultTable(self._cuts.texts.kept_documents(texts, self._open[1].kept))

    @cached_property
    def cuts(self) -> ResultTable:
        """The parts that were cut from kept documents, as `PassagesResult.cuts` describes them."""
        self._require_open()
        if self._cuts is None:
            return ResultTable(CUTS.empty_table())
        return ResultTable(pa.Table.from_batches(self._cuts.texts.cut_batches(), CUTS))

    @cached_property
    def repeated_lines(self) -> ResultTable:
        """The repeated lines of kept documents, as `PassagesResult.repeated_lines` has them."""
        self._require_open()
        if self._cuts is None or self._cuts.line_run is None:
            return ResultTable(REPEATED_LINES.empty_table())
        batches = self._cuts.line_run.line_batches()
        return ResultTable(pa.Table.from_batches(batches, REPEATED_LINES))

    @cached_property
    def _merged(self) -> MergedRows | None:
        """The values that kept rows get from their clusters, or None if none are merged."""
        finished, clustering = self._open
        if self._merge is None:
            return None
        return MergedRows.find(finished.run, clustering, self._merge)

    @cached_property
    def merged_rows(self) -> ResultTable:
        """The kept rows of a table in memory, with the values that they got from their clusters.

        They have all columns of the table, and `merged_from` with `merge_sources`. Without
        `merge_fields`, they are unchanged.

        Raises:
            UsageError: If the documents are in files, or passages were cut.
        """
        finished, clustering = self._open
        self._require_uncut("merged_rows")
        corpus = self._require_table("merged_rows", "read FOLDER/kept")
        documents = DocumentOutput(merge=self._merge)
        return ResultTable(copy_rows(finished.run, corpus, clustering, documents, self._merged))

    def _require_unchanged(self, purpose: str) -> None:
        """Requires that the kept rows are those of the data."""
        self._require_uncut(purpose)
        if self._merge is not None:
            raise UsageError(
                f"{purpose} returns rows as they are, and kept rows got values of their clusters; "
                f"take result.merged_rows, or deduplicate without {name_setting('merge_fields')}"
            )

    def _require_uncut(self, purpose: str) -> None:
        """Requires that the texts of the documents are unchanged."""
        if self._is_cut:
            raise UsageError(
                f"{purpose} does not change texts, and passages were cut from them; take "
                "result.kept_documents, or deduplicate without passages"
            )

    @property
    def removed(self) -> ResultTable:
        """The removed documents: the rows of `clusters` that are not kept."""
        clusters = self.clusters.arrow
        return ResultTable(clusters.filter(pa.compute.invert(clusters["kept"])))

    @cached_property
    def rejected(self) -> ResultTable:
        """The rejected rows, which are not documents.

        The columns are file (empty for a table), row (from 0, null for a whole file), rows (the
        number of rows from this one on that are rejected as a whole), line (from 1, null if the
        format has no lines), reason, and raw (the beginning of the value).
        """
        return read_rejected_rows(self._open[0].run.work.path / "sketch" / REJECTED)

    def filter(self, data: T) -> T:
        """Returns the kept rows of a table, as a table of the same type.

        If the run had a column of ids, and the data has it without repeated ids, rows are matched
        by their ids, in any order. Otherwise they are matched by their numbers, which is refused
        for data that is executed to be read (a lazy frame, a query, a stream). Of the object that
        was deduplicated, the rows that were read are returned, so that the same lazy frame is not
        executed again. Another lazy frame is executed, because its ids must be compared.

        Args:
            data: The table that was deduplicated, or another one with the same rows: an Arrow
                table, batch, array or reader, a pandas or Polars frame (also lazy) or series, a
                `datasets.Dataset`, a numpy array, a list, a tuple, or a mapping of columns. Any
                other table with the Arrow interface becomes an Arrow table.

        Raises:
            UsageError: If the number of rows differs, the rows cannot be matched, or the data is
                another iterator, which can be read only once.
        """
        self._require_unchanged("filter")
        if self._finished is None or self._clustering is None:
            ids, kept = self.clusters.arrow["id"], self.clusters.arrow["kept"].to_numpy()
        else:
            ids, kept = self._finished.run.documents().ids, np.asarray(self._clustering.kept)
        return self._read.select(data, self.kept, ids, kept)

    def to_dataset(self) -> Any:
        """Returns the kept rows of a table as a `datasets.Dataset`, with all columns.

        If passages were cut, these are the documents without them, as in `kept_documents`. If rows
        were merged, these are the `merged_rows`.

        Raises:
            MissingExtraError: If datasets is not installed.
            UsageError: If the documents are in files, or several columns have one name.
        """
        if self._is_cut:
            return self.kept_documents.to_dataset()
        if self._merge is not None:
            return self.merged_rows.to_dataset()
        corpus = self._require_table("to_dataset", "load FOLDER/kept with datasets.load_dataset")
        require_unique_columns(
            corpus.table.column_names,
            "the table",
            "a dataset has one column of each name",
            "rename all but one, or take result.filter(table), which keeps both",
        )
        return ResultTable(select_kept_rows(corpus.table, self.kept)).to_dataset()

    @property
    def kept_rows(self) -> Any:
        """The kept rows of the data that was deduplicated, with all columns.

        Their type is that of the data: a pandas frame keeps its index, a lazy Polars frame stays
        lazy and is not executed again, a list stays a list. Data that can be read only once, or by
        other libraries only, such as an iterator or a query of DuckDB, becomes an Arrow table. The
        data is not copied, so it must not be changed in place before. `filter` returns the same
        rows of other data, for example of a frame with further columns.

        Raises:
            UsageError: If the documents are in files, passages were cut, or rows were merged.
        """
        self._require_unchanged("kept_rows")
        self._require_table("kept_rows", "read FOLDER/kept")
        return self.filter(self._read.source)

    def _require_table(self, name: str, then: str) -> TableCorpus:
        """Returns the corpus, which must be a table.

        Args:
            name: What needs a table.
            then: What follows after the documents of files are written.
        """
        corpus = self._open[0].run.corpus
        if not isinstance(corpus, TableCorpus):
            raise UsageError(
                f"the documents are in files, which {name} does not read; write the kept ones "
                f"with result.write(FOLDER), and {then}"
            )
        return corpus

    @property
    def duplicate_ratio(self) -> float:
        """The share of the documents that are removed, from 0 to 1. It is 0 without documents."""
        documents = self.statistics["read"] - self.statistics["rejected"]
        return 1 - self.statistics["kept"] / documents if documents else 0.0

    @check_arguments
    def examples(self, count: int = 5) -> PairExamples:
        """Returns removed documents beside the kept ones, from the least to the most similar.

        They are spread evenly over the ranks of the similarities, so that the first one is nearest
        to the threshold. A terminal and a notebook show both texts with their differences marked.
        Equal texts are left out if others were removed. The texts are read once more.

        Args:
            count: Largest number of examples, from 1 to 20.

        Raises:
            UsageError: If the number is out of range, or the result is closed or unpickled.
        """
        finished, clustering = self._open
        return LocatedPairs.of_removals(finished.run, clustering).read(count)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about the result, for example that most texts are short."""
        run = self._open[0].run
        doubts = () if self._doubt is None else (self._doubt,)
        return (*doubts, *warn_of_run(run))

    @cached_property
    def statistics(self) -> dict[str, int]:
        """The counts of documents: read, kept, removed, rejected and others."""
        finished, clustering = self._open
        return summary_counts(collect_counts(finished.run, clustering.counts()))

    @cached_property
    def stages(self) -> StageRecords:
        """The record of each stage, by its name."""
        return dict(self._open[0].run.work.manifest["stages"])

    @cached_property
    def chosen(self) -> ChosenSettings | None:
        """The settings that were chosen for the documents, or None if they needed no choice."""
        return self._open[0].run.chosen

    @cached_property
    def report_data(self) -> ReportData:
        """The content of the report, for which the texts are read once more."""
        finished, clustering = self._open
        run = finished.run
        excerpts = ExcerptCollector(run, clustering)
        for batch in run.corpus.batches(run.columns):
            excerpts.observe(batch.first, batch.documents[run.columns.content])
        return self._report_of(excerpts)

    def _collect_report(self, excerpts: ExcerptCollector | None) -> ReportData:
        """Returns the content of the report, with excerpts if they were collected."""
        if excerpts is not None:
            self.__dict__["report_data"] = self._report_of(excerpts)
        return self.report_data

    def _report_of(self, excerpts: ExcerptCollector) -> ReportData:
        """Returns the content of the report from the excerpts of all documents."""
        finished, clustering = self._open
        run = finished.run
        rejected = count_reasons(run.work.path / "sketch" / REJECTED)
        title = ", ".join(run.corpus.names[:3]) or "documents"
        data = collect_report(run, clustering, excerpts, rejected, title, self._provenance)
        merged = self._merged
        return data if merged is None else replace(data, merged=describe_merged(merged))

    @check_arguments
    def rethreshold(self, threshold: float) -> "DedupResult":
        """Returns the result at a higher threshold.

        Leaders are elected again from the stored pairs. The documents are not read again.

        Args:
            threshold: The new threshold, from that of the run to 1.

        Raises:
            UsageError: If the threshold is below that of the run, because pairs below it were not
                verified, or another one and buckets were hot, because their documents were compared
                with leaders of the run's threshold only, or the run has a second measure or a
                reference or a blocklist, or the result is closed or unpickled.
        """
        self._require_uncut("rethreshold")
        finished = self._open[0]
        options = finished.run.options
        if options.second_measure is not None:
            raise UsageError(
                f"{name_setting('second_measure', options.second_measure)} cannot be combined "
                f"with another "
                f"threshold; run again"
            )
        if finished.run.compares_others:
            raise UsageError(
                "the pairs of this run do not determine its result at another threshold: the pairs "
                "with documents of the reference are not kept, nor those with blocked entries; run "
                "again with "
                f"{name_setting('threshold', threshold)}"
            )
        if options.acceptance is not None:
            raise UsageError(
                f"the run removed documents under the condition {str(options.acceptance)!r}, which "
                "another threshold would change; run again with another condition"
            )
        if options.fields:
            raise UsageError(
                f"the run compared {name_setting('fields', list(options.fields))}, each of which "
                "has a limit of its own; run again with other limits"
            )
        if not options.threshold <= threshold <= 1:
            raise UsageError(
                f"threshold {threshold} is out of range; it must be {options.threshold} "
                "(that of the run) to 1; run again for a lower one"
            )
        if threshold > options.threshold and finished.run.hot_buckets:
            raise UsageError(
                f"the pairs of this run do not determine its result at threshold {threshold}: "
                f"{finished.run.hot_buckets:,} buckets have more than "
                f"{options.complete_bucket_size:,} documents, which were compared with leaders of "
                f"the threshold {options.threshold} only; run again with "
                f"{name_setting('threshold', threshold)}, or once with a larger "
                f"{name_setting('hot_bucket_size')} "
                f"or with {name_setting('pair_budget')}"
            )
        run = finished.run.at(threshold)
        clustering = with_related_documents(run, run.elect())
        doubt = examine_removals(
            replace(run.stats, cluster=run.count_clusters(clustering)),
            run.options.removal_limits,
            partial(quote_removed, run, clustering),
        )
        return DedupResult(
            TemporaryRun(run, finished.folder), clustering, doubt=doubt, merge=self._merge
        )

    @check_arguments
    def write(
        self,
        folder: str | Path,
        readable_by: str = "owner",
        *,
        overwrite: bool = False,
        output: str = "kept",
        codec: str = "same",
        sizes: bool = False,
        document_weights: str = "none",
        write_mode: str = "create",
    ) -> Path:
        """Writes the files that `nearkin dedup` writes, or the kept documents into one file.

        In a folder, the kept rows of a table are written to kept/documents.parquet. If passages or
        lines were cut, files of a folder are written without them, and tables not at all.

        Args:
            folder: A new folder; or a new file whose suffix is .parquet, .csv, .tsv, .jsonl or
                .arrow, or one of the texts with .gz, .zst, .bz2 or .lz4. The URL of either (s3://,
                gs://, abfs:// or hf://) stands for a path below the current folder, which is
                uploaded when it is complete, and stays.
            readable_by: Users who may read it: `owner`, `group` or `everyone`.
            overwrite: Whether an earlier result in the folder may be replaced. A folder with
                other files, and a single file, never are.
            output: What a folder holds of the documents: `kept` for copies of the inputs without
                the removed rows, `ids` for removed.parquet with the removed ids, `none` for
                neither.
            codec: Codec of the copies of Parquet files: `same` as each input, `snappy`, `zstd`,
                `lz4` or `none`. A table has `snappy` by default.
            sizes: Whether the documents get the columns of `cluster_columns` about sizes.
            document_weights: Weights of all documents, as `cluster_columns` takes them. With
                `none`, only the kept documents are written, without weights.
            write_mode: What is done with a table (delta:PATH or iceberg:CATALOG/NAMESPACE.TABLE as
                the folder): `create` it, where `overwrite` replaces its rows; `append` the kept
                documents; or `delete` the removed ones from the table whose path was the data.

        Returns:
            The folder or file.

        Raises:
            UsageError: If the folder or file exists, the suffix is that of another format, the
                format cannot hold a column, `readable_by`, `output` or `codec` is unknown or has
                no effect, or the result is closed or unpickled.
        """
        readers = Readers.parse(readable_by)
        weights = DocumentWeights.parse(document_weights)
        merge = None if self._merged is None else self._merged.request
        if write_mode == DELETE:
            output = IDS
        documents = DocumentOutput(output, codec, sizes, weights, merge)
        run = self._open[0].run
        tables = run.corpus.tables if isinstance(run.corpus, FileCorpus) else ()
        request = WriteRequest(
            write_mode,
            run.columns.id,
            tuple(table["path"] for table in tables),
            tables[0]["version"] if tables else None,
        )
        write = partial(self._write, readers=readers, documents=documents)
        return write_output(Path(folder), write, request, overwrite=overwrite)

    def _write(
        self, folder: Path, *, readers: Readers, documents: DocumentOutput, overwrite: bool
    ) -> Path:
        """Writes the files of a folder, or the kept documents into one file."""
        finished, clustering = self._open
        merged = self._merged
        file = KeptFile.parse(folder, finished.run.columns)
        if file is not None or isinstance(finished.run.corpus, TableCorpus):
            self._require_uncut("write")
        if file is not None:
            documents.require_folder(folder)
            return write_kept_file(finished.run, clustering, file, readers, documents, merged)
        excerpts = None
        is_read = documents.has_copies and isinstance(finished.run.corpus, FileCorpus)
        if is_read and "report_data" not in self.__dict__:
            # The texts are read once: to copy them, and for the report.
            excerpts = ExcerptCollector(finished.run, clustering)
        return write_result(
            finished.run,
            clustering,
            partial(self._collect_report, excerpts),
            folder,
            readers,
            documents,
            overwrite=overwrite,
            excerpts=excerpts,
            cuts=self._cuts,
            merged=merged,
        )

    @property
    def _table(self) -> ResultTable:
        return self.clusters

    def __bool__(self) -> bool:
        return True

    def __copy__(self) -> "DedupResult":
        copied = DedupResult.__new__(DedupResult)
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, _: dict[int, Any]) -> "DedupResult":
        copied = self.__copy__()
        # The tables and the report cannot be changed. These can.
        copied.__dict__["kept"] = self.kept.copy()
        copied.__dict__["statistics"] = dict(self.statistics)
        copied.__dict__["stages"] = deepcopy(self.stages)
        return copied

    def __getstate__(self) -> dict[str, object]:
        """Returns what a pickled result consists of. Nothing of it is in the work folder."""
        has_related = self._clustering is not None and self._clustering.linked is not None
        related = {}
        if has_related or "related" in self.__dict__:
            related = {"related": self.related}
        return {
            **related,
            "_is_cut": self._is_cut,
            "_merge": self._merge,
            "_threshold": self._threshold,
            "_read": self._read,
            "clusters": self.clusters,
            "cluster_ids": self.cluster_ids,
            "pairs": self.pairs,
            "kept_documents": self.kept_documents,
            "cuts": self.cuts,
            "repeated_lines": self.repeated_lines,
            "kept": self.kept,
            "rejected": self.rejected,
            "statistics": self.statistics,
            "stages": self.stages,
            "warnings": self.warnings,
            "chosen": self.chosen,
            "report_data": self.report_data,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        self._finished = None
        self._clustering = None
        self._cuts = None
        self._is_cut = False
        self._merge = None
        self._doubt = None
        self._threshold = None
        self._read = ReadRows()
        self.__dict__.update(state)

    def __repr__(self) -> str:
        if self._finished is None and "statistics" not in self.__dict__:
            return "<DedupResult: closed>"
        counts = self.statistics
        documents = counts["read"] - counts["rejected"]
        rejected = _describe_rejected(self.stages["sketch"])
        return f"<DedupResult: {documents:,} documents, {counts['kept']:,} kept{rejected}>"

    def _repr_html_(self) -> str:
        if self._finished is None and "statistics" not in self.__dict__:
            return render_view("DedupResult", {"work folder": "closed"})
        removed = self.removed.arrow
        return render_view(
            "DedupResult",
            self.statistics,
            similarity_bars(
                "removed documents by similarity", removed["similarity"], self._threshold
            ),
            [first_rows("removed documents", removed)],
        )

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draws the histogram of the similarities of all verified pairs, with Matplotlib.

        Args:
            axes: Axes to draw on. By default, those of a new figure.

        Raises:
            MissingExtraError: If matplotlib is not installed.
            UsageError: If the result was closed before its pairs were read.
        """
        return plot_similarities(self.pairs.arrow["similarity"], self._threshold, axes)


@dataclass(frozen=True, repr=False)
class SplitResult(TableForms):
    """The groups of a corpus, between which there are no near-duplicates.

    Attributes:
        groups: A table with a row for each document: id, group (the name) and cluster (the id of
            the first document of its cluster). Documents of one cluster are in one group.
        facts: The numbers of documents and clusters, of each group too, the largest cluster, and
            the numbers of pairs.
        rows: Number of each row's group, int64 (n,), with -1 for rejected rows. It has one entry
            for each row of a table, or one for each document of files.
        warnings: Sentences about the result, for example that pairs may be missing.
        read: The rows that were read, by which `select` finds them again.
    """

    groups: ResultTable
    facts: SplitFacts
    rows: np.ndarray
    warnings: tuple[str, ...] = ()
    read: ReadRows = field(default_factory=ReadRows)

    @classmethod
    def from_run(cls, run: Run, finished: FinishedSplit) -> "SplitResult":
        """Returns the result of a finished run. The work folder is not needed any more."""
        documents = run.documents()
        table = pa.Table.from_batches(finished.split.batches(documents.ids), GROUPS)
        rows = finished.split.group
        if isinstance(run.corpus, TableCorpus):
            rows = np.full(run.corpus.table.num_rows, -1)
            rows[np.asarray(documents.rows)] = finished.split.group
        read = ReadRows.of(run.corpus, run.columns.id)
        return cls(ResultTable(table), finished.facts, rows, tuple(finished.warnings), read)

    def to_arrow(self) -> pa.Table:
        """Returns the groups as an Arrow table, with a row for each document."""
        return self.groups.arrow

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(group["name"] for group in self.facts["groups"])

    def select(self, data: T, name: str) -> T:
        """Returns the rows of one group, as a table of the same type.

        Args:
            data: The table that was split, or another one with the same rows, which are matched as
                for `DedupResult.filter`.
            name: The name of the group.

        Raises:
            UsageError: If there is no such group, the number of rows differs, the rows cannot be
                matched, or the data is another iterator, which can be read only once.
        """
        require_group(name, self.names)
        is_selected = self.rows == self.names.index(name)
        groups = self.groups.arrow
        in_group = pa.compute.equal(groups["group"], name).to_numpy()
        return self.read.select(data, is_selected, groups["id"], in_group)

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draws the number of documents of each group, with Matplotlib.

        Args:
            axes: Axes to draw on. By default, those of a new figure.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        axes = open_axes(axes)
        axes.bar(list(self.names), [group["documents"] for group in self.facts["groups"]])
        axes.set(ylabel="documents")
        return axes

    def __repr__(self) -> str:
        return f"<SplitResult: {describe_group_sizes(self.facts)}>"

    def _repr_html_(self) -> str:
        numbers = {name: self.facts[name] for name in ("documents", "clusters", "pairs")}
        columns = ("group", "documents", "clusters")
        rows = [(row["name"], row["documents"], row["clusters"]) for row in self.facts["groups"]]
        return render_view("SplitResult", numbers, [], [TableView("groups", columns, rows)])


@dataclass(frozen=True, repr=False)
class PassagesResult(TableResult):
    """The passages of a corpus. `len` is their number.

    Attributes:
        passages: A table with a row for each passage: id, start and end (bytes of the text), and
            tokens; repeats_id, repeats_start and repeats_end (another place with the same tokens);
            places (the number of places where exactly this passage was found); and document and
            repeats_document (the numbers of the documents, from 0).
        documents: A table with a row for each document: id, bytes, source (if there is one),
            repeated_bytes, share and passages (their number).
        frequent: The 100 most frequent passages, with the beginnings of their texts.
        sources: A table with a row for each source: source, documents, text_bytes, repeated_bytes
            and share. Empty without sources.
        rejected: The rejected rows, which are not documents. The columns are those of
            `DedupResult.rejected`.
        statistics: The counts of documents, passages and bytes.
        warnings: Sentences about inputs.
        kept_documents: A table with a row for each document that is kept: id, text without what was
            cut, and cut_spans (start and end of each part that was cut, in bytes of the original
            text). Empty if nothing is cut.
        cuts: A table with a row for each part that was cut: id, start, end, text, kept_id (the
            document that holds the passage with which it begins; null for a document that was
            removed), and document. Empty if nothing is cut.
        repeated_lines: A table with a row for each repeated line or paragraph, if these were found
            instead of passages: documents and places (their numbers), id, start, end and text of
            the first place in keep order, and sources (each with its number of documents).
    """

    passages: ResultTable
    documents: ResultTable
    frequent: ResultTable
    sources: ResultTable
    rejected: ResultTable
    statistics: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    kept_documents: ResultTable = field(
        default_factory=lambda: ResultTable(KEPT_DOCUMENTS.empty_table())
    )
    cuts: ResultTable = field(default_factory=lambda: ResultTable(CUTS.empty_table()))
    repeated_lines: ResultTable = field(
        default_factory=lambda: ResultTable(REPEATED_LINES.empty_table())
    )

    @classmethod
    def from_run(cls, run: PassageRun, cut_run: CutRun | None = None) -> "PassagesResult":
        """Returns the result of a finished run. The work folder is not needed any more.

        Args:
            run: The run.
            cut_run: The run that cut its passages, or None.
        """
        tables = PassageTables(run)
        counts = tables.counts()
        if cut_run is not None:
            counts |= asdict(cut_run.counts)
        documents = pa.Table.from_batches(tables.document_batches(), tables.document_schema)
        return cls(
            passages=ResultTable(pa.Table.from_batches(tables.passage_batches(), PASSAGES)),
            documents=ResultTable(documents),
            frequent=ResultTable(tables.frequent),
            sources=ResultTable(tables.sources),
            rejected=read_rejected_rows(run.work.path / REJECTED),
            statistics=counts,
            warnings=tuple(warn_of_inputs(run.corpus, run.columns)),
            **({} if cut_run is None else _read_cuts(cut_run)),
        )

    @classmethod
    def from_line_run(cls, run: LineRun, request: LinesRequest) -> "PassagesResult":
        """Returns the repeated lines of a finished run. The work folder is not needed any more."""
        lines = pa.Table.from_batches(run.line_batches(), REPEATED_LINES)
        return cls(
            passages=ResultTable(PASSAGES.empty_table()),
            documents=ResultTable(run.documents),
            frequent=ResultTable(FREQUENT.empty_table()),
            sources=ResultTable(SOURCES.empty_table()),
            rejected=read_rejected_rows(run.work.path / REJECTED),
            statistics=count_lines(run, request),
            warnings=tuple(warn_of_inputs(run.corpus, run.columns)),
            repeated_lines=ResultTable(lines),
            **(_read_cuts(CutTexts(run)) if request.is_cut else {}),
        )

    @property
    def _table(self) -> ResultTable:
        return self.passages

    def __repr__(self) -> str:
        counts = self.statistics
        return (
            f"<PassagesResult: {counts['passages']:,} passages in "
            f"{counts['documents_with_passages']:,} of {counts['documents']:,} documents"
            f"{_describe_rejected_rows(self.rejected)}>"
        )

    def _repr_html_(self) -> str:
        shown = first_rows("passages", self.passages.arrow)
        return render_view("PassagesResult", self.statistics, [], [shown])


@dataclass(frozen=True, repr=False)
class DecontaminationResult(TableResult):
    """The items of suites that documents hold. `len` is the number of contaminated documents.

    Attributes:
        hits: A table with a row for each field of an item that a document holds: suite, item,
            field, id, score, spans (start and end of the shared parts, in bytes of the text), and
            document (its number, from 0).
        items: A table with a row for each item that documents hold: suite, item, copies (items with
            the same texts), hits, documents (their number) and score (the largest one).
        suites: A table with a row for each suite: suite, items, not_searched (items that are too
            short or too common to be found), contaminated_items, share and documents.
        documents: A table with a row for each contaminated document: id, bytes, items, suites,
            score and document.
        rejected: The rejected rows, which are not documents. The columns are those of
            `DedupResult.rejected`.
        statistics: The counts of documents, items and hits.
        warnings: Sentences about inputs.
        kept_documents: If an action was given, a table with a row for each document that is kept:
            id and text. There is also cut_spans (start and end of each part that was cut, in bytes
            of the original text) if parts are cut, or contamination (suite, item, field and score
            of what it holds) if documents are annotated.
        cuts: A table with a row for each part that was cut: id, start, end, text, kept_id (null)
            and document.
    """

    hits: ResultTable
    items: ResultTable
    suites: ResultTable
    documents: ResultTable
    rejected: ResultTable
    statistics: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    kept_documents: ResultTable = field(
        default_factory=lambda: ResultTable(KEPT_DOCUMENTS.empty_table())
    )
    cuts: ResultTable = field(default_factory=lambda: ResultTable(CUTS.empty_table()))

    @classmethod
    def from_run(cls, run: DecontaminationRun) -> "DecontaminationResult":
        """Returns the result of a finished run. The work folder is not needed any more."""
        tables = ContaminationTables(run)
        cut_texts = CutTexts(run)
        kept_documents = KEPT_DOCUMENTS.empty_table()
        cuts = CUTS.empty_table()
        if run.request.action is not None:
            kept_documents = _read_kept_documents(cut_texts)
        if run.request.action == ContaminationAction.CUT:
            cuts = pa.Table.from_batches(cut_texts.cut_batches(), CUTS)
        else:
            kept_documents = kept_documents.drop([CUT_SPANS])
        if run.request.action == ContaminationAction.ANNOTATE:
            items = tables.annotation_column(0, run.documents_read)[CONTAMINATION]
            kept_documents = kept_documents.append_column(CONTAMINATION, items)
        return cls(
            hits=ResultTable(pa.Table.from_batches(tables.hit_batches(), CONTAMINATIONS)),
            items=ResultTable(tables.items),
            suites=ResultTable(tables.suites),
            documents=ResultTable(pa.Table.from_batches(tables.document_batches(), CONTAMINATED)),
            rejected=read_rejected_rows(run.work.path / REJECTED),
            statistics=tables.counts(),
            warnings=(*warn_of_inputs(run.corpus, run.columns), *tables.warnings),
            kept_documents=ResultTable(kept_documents),
            cuts=ResultTable(cuts),
        )

    @property
    def _table(self) -> ResultTable:
        return self.hits

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        counts = self.statistics
        return (
            f"<DecontaminationResult: {counts['contaminated_items']:,} of {counts['items']:,} "
            f"items in {counts['contaminated_documents']:,} of {counts['documents']:,} documents"
            f"{_describe_rejected_rows(self.rejected)}>"
        )

    def _repr_html_(self) -> str:
        shown = first_rows("suites", self.suites.arrow)
        return render_view("DecontaminationResult", self.statistics, [], [shown])


class PairTableResult(TableResult):
    """A result whose main table has pairs."""

    pairs: ResultTable
    request: Mapping[str, Any]

    @property
    def _table(self) -> ResultTable:
        return self.pairs

    @property
    def threshold(self) -> float | None:
        """The minimum similarity of the pairs."""
        threshold: float | None = self.request.get("parameters", {}).get("threshold")
        return threshold

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draws the histogram of the similarities, with Matplotlib.

        Args:
            axes: Axes to draw on. By default, those of a new figure.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        return plot_similarities(_similarities_of(self.pairs.arrow), self.threshold, axes)


@dataclass(frozen=True, repr=False)
class CheckResult(PairTableResult):
    """The near-duplicates between two corpora. `len` is the number of pairs.

    Attributes:
        pairs: A table with the columns id_a (of the first corpus), id_b (of the second one),
            similarity (exact) and estimate, and distance for simhash, cosine and
            hamming.
        documents: Number of documents of each corpus.
        affected: Number of documents of each corpus that have a near-duplicate in the other one.
        missing: Estimate of the pairs that are missing because buckets exceed the pair budget, or
            None if no bucket does.
        warnings: Sentences about the result, for example that most texts are short.
        rejected: Number of rejected rows of both corpora.
        request: The command, the Spec and the parameters, as JSON values.
    """

    pairs: ResultTable
    documents: tuple[int, int]
    affected: tuple[int, int]
    missing: MissingPairsStats | None = None
    warnings: tuple[str, ...] = ()
    rejected: int = 0
    request: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<CheckResult: {len(self):,} pairs, {self._affected} affected>"

    def _repr_html_(self) -> str:
        numbers = {"pairs": len(self), "documents affected": self._affected}
        return _show_pairs("CheckResult", numbers, self.pairs.arrow, self.threshold)

    @property
    def shares(self) -> tuple[float, float]:
        """The share of the documents of each corpus that have a near-duplicate in the other one."""
        first, second = (
            affected / documents if documents else 0.0
            for affected, documents in zip(self.affected, self.documents, strict=True)
        )
        return first, second

    @property
    def _affected(self) -> str:
        """The number of documents of the second corpus with a near-duplicate in the first one."""
        return format_part(self.affected[1], self.documents[1])


@dataclass(frozen=True, repr=False)
class PairsResult(PairTableResult):
    """The verified pairs of a corpus. `len` is their number.

    Attributes:
        pairs: A table with the columns id_a, id_b, similarity (exact) and estimate, and distance
            for simhash, cosine and hamming; or id_a, id_b, containment and jaccard.
        rejected: The rejected rows, which are not documents. The columns are those of
            `DedupResult.rejected`.
        statistics: The counts of rows that were read and rejected, and of pairs; and
            `copies_left_out`, the documents that are in no pair, because another one of equal text
            represents them.
        stages: The record of each stage, by its name.
        request: The command, the Spec and the parameters, as JSON values.
        warnings: Sentences about the result, for example that most texts are short.
        missing: Estimate of the pairs that are missing because buckets exceed the pair budget, or
            None if no bucket does.
        located: The pairs of which `examples` reads the texts. None in a copy.
    """

    pairs: ResultTable
    rejected: ResultTable
    statistics: dict[str, int]
    stages: StageRecords
    request: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    missing: MissingPairsStats | None = None
    located: LocatedPairs | None = field(default=None, compare=False)

    @classmethod
    def from_run(
        cls, run: Run, pairs: pa.Table, copies: int, warnings: tuple[str, ...]
    ) -> "PairsResult":
        """Returns the result of a finished run. The work folder is not needed any more.

        Args:
            run: The run.
            pairs: Its pairs.
            copies: Number of documents that others represent in the pairs.
            warnings: Sentences about the result.
        """
        sketch = run.recorded("sketch")
        counts = {
            "read": sketch["documents"] + sketch["rejected"],
            "rejected": sketch["rejected"],
            "pairs": pairs.num_rows,
            COPIES: copies,
        }
        request = {
            "command": "write",
            "spec": json.loads(run.options.spec.to_json()),
            "parameters": run.options.parameters(),
        }
        return cls(
            pairs=ResultTable(pairs),
            rejected=read_rejected_rows(run.work.path / "sketch" / REJECTED),
            statistics=counts,
            stages=dict(run.work.manifest["stages"]),
            request=request,
            warnings=warnings,
            missing=run.stats.missing_pairs,
            located=LocatedPairs.of_pairs(run, pairs, _similarities_of(pairs)),
        )

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "located": None}

    @check_arguments
    def examples(self, count: int = 5) -> PairExamples:
        """Returns pairs with their texts, from the least to the most similar.

        They are spread evenly over the ranks of the similarities, so that the first one is nearest
        to the threshold. A terminal and a notebook show both texts with their differences marked.
        Equal texts are left out if there are other pairs. The texts are read once more.

        Args:
            count: Largest number of examples, from 1 to 20.

        Raises:
            UsageError: If the number is out of range, or the result was copied or unpickled.
        """
        if self.located is None:
            raise UsageError(
                "the result has no texts, because it was copied or unpickled; find the pairs "
                "again, or take the examples before"
            )
        return self.located.read(count)

    @check_arguments
    def write(
        self, path: str | Path, readable_by: str = "owner", *, overwrite: bool = False
    ) -> Path:
        """Writes the pairs into one file, as `nearkin pairs` does.

        Args:
            path: A new file whose suffix is .parquet, .csv, .tsv, .jsonl or .arrow, or one of the
                texts with .gz, .zst, .bz2 or .lz4. Without a suffix, it is a parquet file.
            readable_by: Users who may read it: `owner`, `group` or `everyone`.
            overwrite: Whether an earlier file of pairs may be replaced. Other files never are.

        Returns:
            The file.

        Raises:
            UsageError: If the file exists or its folder does not, the suffix is that of another
                format, or `readable_by` is unknown.
            RunError: If the disk is full.
        """
        write = partial(
            write_pairs_file,
            pairs=self.pairs.arrow,
            request=self.request,
            missing=self.missing,
            readers=Readers.parse(readable_by),
            copies=self.statistics[COPIES],
        )
        return write_output(Path(path), write, overwrite=overwrite)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        documents = self.statistics["read"] - self.statistics["rejected"]
        parameters = self.request["parameters"]
        can_be_listed = "containment" not in self.pairs.column_names and not (
            isinstance(parameters, Mapping) and parameters.get("accept")
        )
        copies = describe_copies(self.statistics[COPIES], can_be_listed=can_be_listed)
        rejected = _describe_rejected(self.stages["sketch"])
        return f"<PairsResult: {len(self):,} pairs of {documents:,} documents{copies}{rejected}>"

    def _repr_html_(self) -> str:
        return _show_pairs("PairsResult", self.statistics, self.pairs.arrow, self.threshold)


def _describe_rejected(sketch: StageRecord) -> str:
    """Returns the end of the text of a result, which says how many rows were rejected, and why."""
    if not sketch["rejected"]:
        return ""
    return f"; {describe_rejections(sketch['rejected'], sketch['rejected_reasons'])}"


def _describe_rejected_rows(rejected: ResultTable) -> str:
    """Returns the same as `_describe_rejected` from the table of rejected rows."""
    if not len(rejected):
        return ""
    reasons: Counter[str] = Counter()
    for entry in rejected.arrow.select(["reason", "rows"]).to_pylist():
        reasons[entry["reason"].partition(":")[0]] += entry["rows"]
    return f"; {describe_rejections(reasons.total(), reasons)}"


def _show_pairs(
    title: str, numbers: Mapping[str, object], pairs: pa.Table, threshold: float | None
) -> str:
    """Returns the HTML of a result that consists of pairs."""
    bars = similarity_bars("pairs by similarity", _similarities_of(pairs), threshold)
    return render_view(title, numbers, bars, [first_rows("pairs", pairs)])


def _similarities_of(pairs: pa.Table) -> pa.ChunkedArray:
    return pairs["similarity" if "similarity" in pairs.column_names else "containment"]


def read_rejected_rows(path: Path) -> ResultTable:
    """Returns the rejected rows of a run, with the schema `REJECTED_ROWS`."""
    rows = [{"rows": 1, **orjson.loads(line)} for line in path.read_bytes().splitlines()]
    return ResultTable(pa.Table.from_pylist(rows, REJECTED_ROWS))


def _read_cuts(cut_texts: CutTexts) -> dict[str, ResultTable]:
    """Returns the kept documents and the cuts of a run that cut texts, as fields of a result."""
    cuts = pa.Table.from_batches(cut_texts.cut_batches(), CUTS)
    return {
        "kept_documents": ResultTable(_read_kept_documents(cut_texts)),
        "cuts": ResultTable(cuts),
    }


def _read_kept_documents(cut_texts: CutTexts) -> pa.Table:
    """Returns the documents that are kept after a cut, with rewritten texts."""
    run = cut_texts.run
    texts = (batch.documents[run.columns.content] for batch in run.corpus.batches(run.columns))
    return cut_texts.kept_documents(texts)
