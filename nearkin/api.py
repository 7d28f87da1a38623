"""The library's front door: tables, frames, lists or files in, Arrow tables out."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus import Columns, Corpus, FileCorpus, TableCorpus, count_reasons, detect_dimensions
from nearkin.corpus.arrow_conversion import to_table, to_texts, to_vectors
from nearkin.engine.document_frequencies import FrequencyRequest
from nearkin.engine.local import result_tables as tables
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
from nearkin.runs.spec_request import count_frequency_cut, resolve_spec
from nearkin.runtime.files import Readers
from nearkin.runtime.outputs import require_page_output
from nearkin.runtime.progress import Progress, Silent
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.sketch.resources import NO_RESOURCES, DocumentFrequencies, SpecResources
from nearkin.spec import Spec

SKETCH_ROWS = 8192


@dataclass(frozen=True)
class ResultTable:
    """A result as an Arrow table (`arrow`), for pandas and polars on request; other attributes are the Arrow table's."""

    arrow: pa.Table

    def to_pandas(self) -> Any:
        """As a pandas DataFrame."""
        try:
            return self.arrow.to_pandas()
        except ImportError as error:
            raise MissingExtraError("to_pandas needs pandas: pip install 'nearkin[pandas]'") from error

    def to_polars(self) -> Any:
        """As a polars DataFrame."""
        try:
            import polars
        except ImportError as error:
            raise MissingExtraError("to_polars needs polars: pip install 'nearkin[polars]'") from error
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
    """A finished run over a temporary work folder, which lives as long as a result refers to it."""

    def __init__(self, run: LocalRun, folder: "tempfile.TemporaryDirectory[str]") -> None:
        self.run = run
        self._folder = folder


class DedupResult:
    """What deduplication found.

    Attributes:
        clusters: id, cluster (id of the kept document), kept, similarity (to the kept one), kind; one row a document.
        pairs: id_a, id_b, similarity (exact), estimate; the verified pairs.
        kept: bool, one entry for each row of a table given as input (False for rejected rows), or for each document of files.
        statistics: Counts: read, kept, removed, rejected, …
    """

    def __init__(self, finished: _Finished, clustering: Clustering) -> None:
        self._finished = finished
        self._run = finished.run
        self._clustering = clustering

    @cached_property
    def clusters(self) -> ResultTable:
        """One row a document, in corpus order."""
        batches = tables.cluster_batches(self._run.documents().ids, self._clustering)
        return ResultTable(pa.Table.from_batches(batches, CLUSTERS))

    @cached_property
    def pairs(self) -> ResultTable:
        """The verified pairs; exact duplicates by one of them."""
        return ResultTable(pa.Table.from_batches(tables.pair_batches(self._run), tables.pairs_schema(self._run)))

    @cached_property
    def kept(self) -> np.ndarray:
        """bool: which rows stay."""
        kept = np.asarray(self._clustering.kept)
        if not isinstance(self._run.corpus, TableCorpus):
            return kept
        rows = np.zeros(self._run.corpus.table.num_rows, bool)
        rows[np.asarray(self._run.documents().rows)] = kept
        return rows

    def filter(self, data: Any) -> pa.Table:
        """The rows that stay, of the table that was deduplicated or one aligned with it."""
        table = to_table(data)
        if len(table) != len(self.kept):
            raise UsageError(f"the table has {len(table)} rows, the result is about {len(self.kept)}")
        return table.filter(pa.array(self.kept))

    @property
    def statistics(self) -> dict[str, Any]:
        """Documents read, kept, removed, rejected, …"""
        return summary_counts(self.report_data)

    @cached_property
    def report_data(self) -> ReportData:
        """What a report shows."""
        run = self._run
        excerpts = ExcerptCollector(run, self._clustering)
        for batch in run.corpus.batches(run.columns):
            excerpts.observe(batch.first, batch.documents[run.columns.content])
        rejected = count_reasons(run.work.path / "sketch" / REJECTED)
        view = LocalRunView(run, self._clustering, excerpts, rejected)
        return collect_report(view, ", ".join(run.corpus.names[:3]) or "documents", peak_memory=0)

    def rethreshold(self, threshold: float) -> "DedupResult":
        """The result at a higher threshold: leaders are elected again from the stored pairs, nothing is read.

        Raises:
            UsageError: Below the run's threshold, for pairs under it were never verified.
        """
        settings = self._run.options
        if settings.second_measure is not None:
            raise UsageError(f"second_measure={settings.second_measure!r} cannot be combined with another threshold; run again")
        if not settings.threshold <= threshold <= 1:
            raise UsageError(
                f"threshold {threshold} is outside {settings.threshold} (the run's) to 1; run again for a lower one"
            )
        run = self._run.at(threshold)
        return DedupResult(_Finished(run, self._finished._folder), run.elect())

    def write(self, folder: str | Path, readable_by: str = "owner") -> Path:
        """Writes the files that `nearkin dedup` writes; the kept rows of a table go to kept/documents.parquet.

        Args:
            folder: A new folder.
            readable_by: Who may read it: `owner`, `group` or `everyone`.

        Raises:
            UsageError: If the folder exists, or `readable_by` is unknown.
        """
        return write_result(self._run, self._clustering, self.report_data, Path(folder), Readers.parse(readable_by))

    def __repr__(self) -> str:
        counts = self._clustering.counts()
        return f"<DedupResult: {counts['documents']:,} documents, {counts['documents_kept']:,} kept>"


@dataclass(frozen=True)
class PairsResult:
    """Verified pairs.

    Attributes:
        pairs: id_a, id_b, similarity (exact), estimate (and distance); or id_a, id_b, containment, jaccard.
        statistics: What each stage recorded.
    """

    pairs: ResultTable
    statistics: dict[str, Any]

    def to_pandas(self) -> Any:
        """The pairs as a pandas DataFrame."""
        return self.pairs.to_pandas()

    def to_polars(self) -> Any:
        """The pairs as a polars DataFrame."""
        return self.pairs.to_polars()


def dedup(
    data: Any,
    *,
    text: str | None = None,
    tokens: str | None = None,
    vector: str | None = None,
    id: str | None = None,
    measure: str | None = None,
    threshold: float = 0.8,
    distance: int | None = None,
    spec: Spec | None = None,
    key: HashKey | None = None,
    frequencies: DocumentFrequencies | None = None,
    cut: DocumentFrequencies | None = None,
    max_df: float | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> DedupResult:
    """Finds exact and near duplicates, each verified against the document that is kept.

    Args:
        data: A pyarrow table, pandas or polars frame, `datasets.Dataset`, mapping of columns, list of texts; or a path,
            or a list of `Path`s, of files.
        text: Text column (default `text`).
        tokens: Column of token lists, instead of text.
        vector: Column of vectors, instead of text.
        id: Id column; row numbers (of files: path and row) otherwise.
        measure: `jaccard`, `weighted-jaccard`, `simhash` or `cosine` (of vectors); the Spec's if one is given.
        threshold: Similarity from which documents are near-duplicates.
        distance: Of simhash and cosine: Hamming distance up to which they are, instead.
        spec: How documents become signatures.
        key: That a keyed Spec names.
        frequencies: Document frequencies that a Spec of tf-idf weights names.
        cut: The shingles to leave out that a Spec names.
        max_df: Leave out the shingles that more than this share of the documents have.
        work: Folder for temporary files, the system's by default.
        progress: Who is told.
        **settings: Further fields of `nearkin.engine.options.RunOptions`: recall, bands, rows, verify, cluster, floor, keep,
            empty, block_by, source, then, memory, workers …

    Examples:
        >>> result = dedup(["the cat sat on the mat", "The cat sat on the mat!", "a dog"])
        >>> result.kept.tolist()
        [False, True, True]
        >>> result.clusters["kind"].to_pylist()
        ['exact', 'kept', 'unique']
    """
    columns, resources = _columns(text, tokens, vector, id), SpecResources(key, frequencies, cut)
    asked = {"threshold": threshold, "distance": distance, **settings}
    finished = _start(data, columns, measure, spec, resources, asked, max_df, work, progress)
    return DedupResult(finished, to_final_clusters(finished.run))


def pairs(
    data: Any,
    *,
    text: str | None = None,
    tokens: str | None = None,
    vector: str | None = None,
    id: str | None = None,
    measure: str | None = None,
    threshold: float = 0.8,
    distance: int | None = None,
    spec: Spec | None = None,
    key: HashKey | None = None,
    frequencies: DocumentFrequencies | None = None,
    cut: DocumentFrequencies | None = None,
    max_df: float | None = None,
    relation: str = "similarity",
    expand_exact: bool = False,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> PairsResult:
    """All verified pairs of near-duplicates; see `dedup` for the arguments.

    Args:
        relation: `similarity`; or `containment`: documents (id_a) whose shingles are in larger ones (id_b), from a share of
            `threshold` on.
        expand_exact: List every member of a group of exact duplicates, not one for all.

    Examples:
        >>> found = pairs(["the cat sat on the mat", "a dog", "the cat sat on the mat today"], threshold=0.5)
        >>> found.pairs.arrow.select(["id_a", "id_b", "similarity"]).to_pylist()
        [{'id_a': '0000000000', 'id_b': '0000000002', 'similarity': 0.8}]
    """
    columns, resources = _columns(text, tokens, vector, id), SpecResources(key, frequencies, cut)
    asked = {"threshold": threshold, "distance": distance, **settings}
    finished = _start(data, columns, measure, spec, resources, asked, max_df, work, progress)
    run = finished.run
    parsed = parse_relation(relation, run.options, expand_exact=expand_exact)
    schema, batches = find_pairs(run, parsed, expand_exact=expand_exact)
    found = pa.Table.from_batches(batches, schema)
    return PairsResult(ResultTable(found), dict(run.work.manifest["stages"]))


def _columns(text: str | None, tokens: str | None, vector: str | None, id: str | None) -> Columns:
    named = {name: value for name, value in (("text", text), ("tokens", tokens), ("vector", vector)) if value is not None}
    if len(named) > 1:
        raise UsageError(f"{' and '.join(f'{name}={value!r}' for name, value in named.items())} exclude each other")
    return Columns(text=text or (None if named else "text"), tokens=tokens, vector=vector, id=id)


def _start(
    data: Any,
    columns: Columns,
    measure: str | None,
    spec: Spec | None,
    resources: SpecResources,
    settings: dict[str, Any],
    max_df: float | None,
    work: str | Path | None,
    progress: Progress | None,
) -> _Finished:
    unknown = sorted(set(settings) - set(RunOptions.__dataclass_fields__))
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no setting; there are {', '.join(RunOptions.__dataclass_fields__)}")
    corpus = _corpus(data)
    columns = detect_dimensions(corpus, columns.with_memory(settings.get("memory", RunOptions.memory)))
    asked = RunOptions(spec=resolve_spec(columns, measure, spec), **settings)
    folder = tempfile.TemporaryDirectory(prefix="nearkin-", dir=work)
    shown = progress or Silent()
    if max_df is not None:
        counting = FrequencyRequest(corpus, columns, asked.spec, resources, asked.workers, Path(folder.name), shown)
        cut = count_frequency_cut(max_df, counting)
        resources, asked = replace(resources, cut=cut), asked.with_spec(replace(asked.spec, cut=cut.fingerprint))
    work_folder = WorkFolder.create(Path(folder.name) / "work", {}, durable=False)
    run = LocalRun(corpus, replace(columns, carried_columns=asked.carried_columns), asked, work_folder, shown, resources)
    return _Finished(run, folder)


def _corpus(data: Any) -> Corpus:
    if isinstance(data, str | Path):
        return FileCorpus.open([str(data)])
    if isinstance(data, Sequence) and data and all(isinstance(item, Path) for item in data):
        return FileCorpus.open([str(item) for item in data])
    return TableCorpus(to_table(data))


def sketch(texts: Any, spec: Spec | None = None, *, resources: SpecResources = NO_RESOURCES, workers: int = 2) -> np.ndarray:
    """Signatures.

    Args:
        texts: A list of str, or a column: Arrow, pandas, polars, `datasets`; no Python strings are made where it is Arrow.
            For a Spec of vectors, a column of them or a matrix (n, d).
        spec: How documents become signatures.
        resources: The key and the tables that the Spec names.
        workers: Threads.

    Returns:
        (n, w) of the Spec's signature type: uint32 (n, k) for MinHash, all ones for a text without a single shingle; uint64
        (n, k / 64) for simhash and cosine; uint8 (n, k · bits / 8) for b-bit slots.

    Raises:
        UsageError: At a null or invalid UTF-8, with its row.

    Examples:
        >>> sketch(["one two three", "four"], Spec(k=8)).shape
        (2, 8)
    """
    spec = spec or Spec()
    sketchers = ObjectPool(measure_of(spec, resources).sketcher)
    chunks = to_texts(texts) if spec.unit != "vector" else to_vectors(texts, spec.n)
    parts = [chunk.slice(at, SKETCH_ROWS) for chunk in chunks for at in range(0, len(chunk), SKETCH_ROWS)]
    done = ordered_map(lambda part: sketchers.use(lambda tool: tool.sketch(part).signatures), parts, workers)
    return np.concatenate([np.empty((0, spec.signature_width), spec.signature_type), *done])


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
    """In how many documents each shingle occurs: what tf-idf weights are made of, and cut lists (`above`).

    Args:
        data: As for `dedup`.
        text: Text column (default `text`).
        tokens: Column of token lists, instead of text.
        spec: Of the shingles.
        key: That a keyed Spec names.
        work: Folder for temporary files, the system's by default.
        workers: Threads.

    Examples:
        >>> counted = frequencies(["the cat sat", "the cat lay"], spec=Spec(n=1))
        >>> spec = Spec(measure="simhash", n=1, weights="tfidf", frequencies=counted.fingerprint)
        >>> sketch(["the cat sat"], spec, resources=SpecResources(frequencies=counted)).shape
        (1, 1)
    """
    where = Path(work or tempfile.gettempdir())
    columns = _columns(text, tokens, None, None)
    return count_frequencies(
        FrequencyRequest(_corpus(data), columns, spec or Spec(), SpecResources(key), workers, where, Silent())
    )


def report(source: DedupResult | str | Path, out: str | Path | None = None) -> Path:
    """Writes the report page of a result, or of a run's folder anew.

    Args:
        source: What `dedup` returned, or the folder that `nearkin dedup` wrote.
        out: The page; `report.html` in the folder, or in the current one, by default.
    """
    if isinstance(source, DedupResult):
        data, target = source.report_data, Path(out or "report.html")
    else:
        data, target = read_report(Path(source)), Path(out or Path(source) / "report.html")
    require_page_output(target, [])
    target.write_text(render_page(data), "utf-8")
    return target
