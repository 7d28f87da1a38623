"""The functions of the library: tables, frames, lists or files in, Arrow tables out."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from nearkin.corpus import Corpus, FileCorpus, TableCorpus, count_reasons, detect_dimensions
from nearkin.corpus.arrow_conversion import to_table, to_texts, to_vectors
from nearkin.engine.document_frequencies import FrequencyRequest
from nearkin.engine.local import result_tables
from nearkin.engine.local.clustering import Clustering
from nearkin.engine.local.document_frequencies import count_frequencies
from nearkin.engine.local.run import LocalRun
from nearkin.engine.local.second_measure import to_final_clusters
from nearkin.engine.local.sketching import REJECTED
from nearkin.engine.local.work_folder import WorkFolder
from nearkin.engine.options import RunOptions
from nearkin.engine.result_schema import CLUSTERS
from nearkin.errors import MissingExtraError, UsageError
from nearkin.keys import HashKey
from nearkin.measures import measure_of
from nearkin.report.collect import collect_report, summary_counts
from nearkin.report.files import read_report
from nearkin.report.local_view import ExcerptCollector, LocalRunView
from nearkin.report.model import ReportData
from nearkin.report.page import render_page
from nearkin.runs.output import write_result
from nearkin.runs.pairs import find_pairs, parse_relation
from nearkin.runs.parameters import (
    RunParameters,
    columns_of,
    options_of,
    require_known,
    resources_of,
)
from nearkin.runs.spec_request import count_frequency_cut, resolve_spec
from nearkin.runtime.files import Readers
from nearkin.runtime.outputs import require_page_output
from nearkin.runtime.progress import Progress, Silent
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.sketch.resources import NO_RESOURCES, DocumentFrequencies, SpecResources
from nearkin.spec import Spec

SKETCH_ROWS = 8192
"""The number of texts that a thread sketches at a time."""


@dataclass(frozen=True)
class ResultTable:
    """A result as an Arrow table.

    Further attributes and methods are those of the Arrow table.

    Attributes:
        arrow: The Arrow table.
    """

    arrow: pa.Table

    def to_pandas(self) -> Any:
        """Returns the table as a pandas DataFrame.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        try:
            return self.arrow.to_pandas()
        except ImportError as error:
            raise MissingExtraError(
                "to_pandas requires pandas: pip install 'nearkin[pandas]'"
            ) from error

    def to_polars(self) -> Any:
        """Returns the table as a polars DataFrame.

        Raises:
            MissingExtraError: If polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise MissingExtraError(
                "to_polars requires polars: pip install 'nearkin[polars]'"
            ) from error
        return polars.from_arrow(self.arrow)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.arrow, name)

    def __getitem__(self, name: str | int) -> Any:
        return self.arrow[name]

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)


class _Finished:
    """A finished run with its temporary work folder, which is deleted with the last result."""

    def __init__(self, run: LocalRun, folder: "tempfile.TemporaryDirectory[str]") -> None:
        self.run = run
        self._folder = folder


class DedupResult:
    """The result of a deduplication: clusters, verified pairs and counts."""

    def __init__(self, finished: _Finished, clustering: Clustering) -> None:
        self._finished = finished
        self._run = finished.run
        self._clustering = clustering

    @cached_property
    def clusters(self) -> ResultTable:
        """The clusters, with one row for each document, in the order of the corpus.

        The columns are id, cluster (the id of the kept document), kept, similarity (to the kept
        document) and kind.
        """
        batches = result_tables.cluster_batches(self._run.documents().ids, self._clustering)
        return ResultTable(pa.Table.from_batches(batches, CLUSTERS))

    @cached_property
    def pairs(self) -> ResultTable:
        """The verified pairs. One document represents a group of exact duplicates.

        The columns are id_a, id_b, similarity (exact) and estimate, and distance for simhash and
        cosine.
        """
        return ResultTable(
            pa.Table.from_batches(
                result_tables.pair_batches(self._run), result_tables.pairs_schema(self._run)
            )
        )

    @cached_property
    def kept(self) -> np.ndarray:
        """The rows that are kept, as booleans of shape (n,).

        It has one entry for each row of a table, False for rejected rows; or one for each document
        of files.
        """
        kept = np.asarray(self._clustering.kept)
        if not isinstance(self._run.corpus, TableCorpus):
            return kept
        rows = np.zeros(self._run.corpus.table.num_rows, bool)
        rows[np.asarray(self._run.documents().rows)] = kept
        return rows

    def filter(self, data: Any) -> pa.Table:
        """Returns the kept rows of a table.

        Args:
            data: The table that was deduplicated, or another one with the same rows in the same
                order.

        Raises:
            UsageError: If the number of rows differs.
        """
        table = to_table(data)
        if len(table) != len(self.kept):
            raise UsageError(
                f"the table has {len(table)} rows, but the result has {len(self.kept)}; filter the "
                f"table that was deduplicated"
            )
        return table.filter(pa.array(self.kept))

    @property
    def statistics(self) -> dict[str, Any]:
        """The counts of documents: read, kept, removed, rejected and others."""
        return summary_counts(self.report_data)

    @cached_property
    def report_data(self) -> ReportData:
        """The content of the report."""
        run = self._run
        excerpts = ExcerptCollector(run, self._clustering)
        for batch in run.corpus.batches(run.columns):
            excerpts.observe(batch.first, batch.documents[run.columns.content])
        rejected = count_reasons(run.work.path / "sketch" / REJECTED)
        title = ", ".join(run.corpus.names[:3]) or "documents"
        view = LocalRunView(run, self._clustering, excerpts, rejected)
        return collect_report(view, title, peak_memory=0)

    def rethreshold(self, threshold: float) -> "DedupResult":
        """Returns the result at a higher threshold.

        Leaders are elected again from the stored pairs. The documents are not read again.

        Args:
            threshold: The new threshold, from that of the run to 1.

        Raises:
            UsageError: If the threshold is below that of the run, because pairs below it were not
                verified, or the run has a second measure.
        """
        options = self._run.options
        if options.second_measure is not None:
            raise UsageError(
                f"second_measure={options.second_measure!r} cannot be combined with another "
                f"threshold; run again"
            )
        if not options.threshold <= threshold <= 1:
            raise UsageError(
                f"threshold {threshold} is out of range; it must be {options.threshold} "
                "(that of the run) to 1; run again for a lower one"
            )
        run = self._run.at(threshold)
        return DedupResult(_Finished(run, self._finished._folder), run.elect())

    def write(self, folder: str | Path, readable_by: str = "owner") -> Path:
        """Writes the files that `nearkin dedup` writes.

        The kept rows of a table are written to kept/documents.parquet.

        Args:
            folder: A new folder.
            readable_by: Users who may read it: `owner`, `group` or `everyone`.

        Returns:
            The folder.

        Raises:
            UsageError: If the folder exists, or `readable_by` is unknown.
        """
        return write_result(
            self._run, self._clustering, self.report_data, Path(folder), Readers.parse(readable_by)
        )

    def __repr__(self) -> str:
        counts = self._clustering.counts()
        return (
            f"<DedupResult: {counts['documents']:,} documents, {counts['documents_kept']:,} kept>"
        )


@dataclass(frozen=True)
class PairsResult:
    """The verified pairs of a corpus.

    Attributes:
        pairs: A table with the columns id_a, id_b, similarity (exact) and estimate, and distance
            for simhash and cosine; or id_a, id_b, containment and jaccard.
        statistics: The record of each stage, by its name.
    """

    pairs: ResultTable
    statistics: dict[str, Any]

    def to_pandas(self) -> Any:
        """Returns the pairs as a pandas DataFrame."""
        return self.pairs.to_pandas()

    def to_polars(self) -> Any:
        """Returns the pairs as a polars DataFrame."""
        return self.pairs.to_polars()


def dedup(
    data: Any,
    *,
    id: str | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **parameters: Unpack[RunParameters],
) -> DedupResult:
    """Finds exact and near-duplicates, each verified against the document that is kept.

    Args:
        data: A pyarrow table, pandas or polars frame, `datasets.Dataset`, mapping of columns or
            list of texts; or the path of a file, or a list of `Path`s of files.
        id: Column of ids. The default is the row number, or the path and the row for files.
        work: Folder for temporary files. The default is that of the system.
        progress: Receives stage and row-count updates. Silent by default.
        **parameters: The columns, the measure, the threshold and further options, which
            `nearkin.runs.parameters.RunParameters` documents.

    Raises:
        UsageError: If a parameter is unknown or out of range, or the data cannot be read.
        RunError: If a file cannot be read or temporary files cannot be written.

    Examples:
        >>> result = dedup(["the cat sat on the mat", "The cat sat on the mat!", "a dog"])
        >>> result.kept.tolist()
        [False, True, True]
        >>> result.clusters["kind"].to_pylist()
        ['exact', 'kept', 'unique']
    """
    finished = _prepare_run(data, id, work, progress, parameters)
    return DedupResult(finished, to_final_clusters(finished.run))


def pairs(
    data: Any,
    *,
    id: str | None = None,
    relation: str = "similarity",
    expand_exact: bool = False,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **parameters: Unpack[RunParameters],
) -> PairsResult:
    """Finds all verified pairs of near-duplicates.

    Args:
        data: A pyarrow table, pandas or polars frame, `datasets.Dataset`, mapping of columns or
            list of texts; or the path of a file, or a list of `Path`s of files.
        id: Column of ids. The default is the row number, or the path and the row for files.
        relation: `similarity`; or `containment`, for documents (id_a) of whose shingles a larger
            document (id_b) contains at least a share of `threshold`.
        expand_exact: Whether every member of a group of exact duplicates is listed, instead of
            one for all.
        work: Folder for temporary files. The default is that of the system.
        progress: Receives stage and row-count updates. Silent by default.
        **parameters: The columns, the measure, the threshold and further options, which
            `nearkin.runs.parameters.RunParameters` documents.

    Raises:
        UsageError: If a parameter is unknown or out of range, or the data cannot be read.
        RunError: If a file cannot be read or temporary files cannot be written.

    Examples:
        >>> texts = ["the cat sat on the mat", "a dog", "the cat sat on the mat today"]
        >>> result = pairs(texts, threshold=0.5)
        >>> result.pairs.arrow.select(["id_a", "id_b", "similarity"]).to_pylist()
        [{'id_a': '0000000000', 'id_b': '0000000002', 'similarity': 0.8}]
    """
    finished = _prepare_run(data, id, work, progress, parameters)
    run = finished.run
    parsed = parse_relation(relation, run.options, expand_exact=expand_exact)
    schema, batches = find_pairs(run, parsed, expand_exact=expand_exact)
    table = pa.Table.from_batches(batches, schema)
    return PairsResult(ResultTable(table), dict(run.work.manifest["stages"]))


def _prepare_run(
    data: Any,
    id: str | None,
    work: str | Path | None,
    progress: Progress | None,
    parameters: RunParameters,
) -> _Finished:
    """Returns a run in a temporary work folder, whose stages are executed on demand."""
    require_known(parameters)
    columns = columns_of(parameters, id)
    resources = resources_of(parameters)
    corpus = _open_corpus(data)
    columns = columns.with_memory(parameters.get("memory", RunOptions.memory))
    columns = detect_dimensions(corpus, columns)
    spec = resolve_spec(columns, parameters.get("measure"), parameters.get("spec"))
    options = RunOptions(spec=spec, **options_of(parameters))
    folder = tempfile.TemporaryDirectory(prefix="nearkin-", dir=work)
    updates = progress or Silent()
    max_df = parameters.get("max_df")
    if max_df is not None:
        counting = FrequencyRequest(
            corpus, columns, spec, resources, options.workers, Path(folder.name), updates
        )
        cut = count_frequency_cut(max_df, counting)
        resources = replace(resources, cut=cut)
        options = options.with_spec(replace(spec, cut=cut.fingerprint))
    work_folder = WorkFolder.create(Path(folder.name) / "work", {}, durable=False)
    columns = replace(columns, carried_columns=options.carried_columns)
    run = LocalRun(corpus, columns, options, work_folder, updates, resources)
    return _Finished(run, folder)


def _open_corpus(data: Any) -> Corpus:
    """Returns a corpus of files if the data is a path or a list of paths, otherwise of a table."""
    if isinstance(data, str | Path):
        return FileCorpus.open([str(data)])
    if isinstance(data, Sequence) and data and all(isinstance(item, Path) for item in data):
        return FileCorpus.open([str(item) for item in data])
    return TableCorpus(to_table(data))


def sketch(
    texts: Any,
    spec: Spec | None = None,
    *,
    resources: SpecResources = NO_RESOURCES,
    workers: int = 2,
) -> np.ndarray:
    """Returns the signatures of texts or vectors.

    Args:
        texts: List of str; or a column of Arrow, pandas, polars or `datasets`. For a Spec of
            vectors, a column of vectors or a matrix of shape (n, d).
        spec: The Spec of the signatures. The default is `Spec()`.
        resources: The hash key and the data that the Spec refers to.
        workers: Number of threads.

    Returns:
        An array of shape (n, w). It is uint32 (n, k) for MinHash, with all bits set for a text
        without shingles; uint64 (n, k / 64) for simhash and cosine; and uint8 (n, k · bits / 8)
        for slots of fewer than 32 bits.

    Raises:
        UsageError: If a text is null or not valid UTF-8. The message names the row.

    Examples:
        >>> sketch(["one two three", "four"], Spec(k=8)).shape
        (2, 8)
    """
    spec = spec or Spec()
    sketchers = ObjectPool(measure_of(spec, resources).sketcher)
    chunks = to_vectors(texts, spec.n) if spec.unit == "vector" else to_texts(texts)
    parts = [
        chunk.slice(start, SKETCH_ROWS)
        for chunk in chunks
        for start in range(0, len(chunk), SKETCH_ROWS)
    ]

    def sketch_part(part: pa.Array) -> np.ndarray:
        return sketchers.use(lambda sketcher: sketcher.sketch(part).signatures)

    empty = np.empty((0, spec.signature_width), spec.signature_type)
    return np.concatenate([empty, *ordered_map(sketch_part, parts, workers)])


def frequencies(
    data: Any,
    *,
    text: str | None = None,
    tokens: str | None = None,
    spec: Spec | None = None,
    key: HashKey | None = None,
    work: str | Path | None = None,
    workers: int = 2,
) -> DocumentFrequencies:
    """Counts in how many documents each shingle occurs.

    The result is the base of tf-idf weights, and of cut lists (`above`).

    Args:
        data: The documents, as for `dedup`.
        text: Column of texts. The default is `text`.
        tokens: Column of token lists, instead of texts.
        spec: The Spec of the shingles. The default is `Spec()`.
        key: The hash key, if the Spec requires one.
        work: Folder for temporary files. The default is that of the system.
        workers: Number of threads.

    Raises:
        UsageError: If both columns are given, or the data cannot be read.

    Examples:
        >>> counted = frequencies(["the cat sat", "the cat lay"], spec=Spec(n=1))
        >>> spec = Spec(measure="simhash", n=1, weights="tfidf", frequencies=counted.fingerprint)
        >>> sketch(["the cat sat"], spec, resources=SpecResources(frequencies=counted)).shape
        (1, 1)
    """
    folder = Path(work or tempfile.gettempdir())
    columns = columns_of({"text": text, "tokens": tokens}, None)
    corpus = _open_corpus(data)
    counting = FrequencyRequest(
        corpus, columns, spec or Spec(), SpecResources(key), workers, folder, Silent()
    )
    return count_frequencies(counting)


def report(source: DedupResult | str | Path, out: str | Path | None = None) -> Path:
    """Writes the report page of a result, or of the output folder of a run.

    Args:
        source: A result of `dedup`, or the output folder of `nearkin dedup`.
        out: The page. The default is `report.html` in the folder, or in the current folder for a
            result.

    Returns:
        The page.

    Raises:
        UsageError: If the folder is not the output of a run, or the page would replace a file that
            is not a page of nearkin.
    """
    if isinstance(source, DedupResult):
        data = source.report_data
        target = Path(out or "report.html")
    else:
        data = read_report(Path(source))
        target = Path(out or Path(source) / "report.html")
    require_page_output(target, [])
    target.write_text(render_page(data), "utf-8")
    return target
