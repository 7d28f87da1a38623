"""The items of suites in files, found with Spark for `nearkin decontaminate --engine spark`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from nearkin.corpus import FileCorpus
from nearkin.corpus.writer import Annotations
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.output_files import copy_files, write_rejected, write_table
from nearkin.engine.spark.rereading import FileEdits
from nearkin.engine.spark.sketching import FILE_SHIFT
from nearkin.engine.spark.sources import FileSource
from nearkin.reports.run_warnings import warn_of_inputs
from nearkin.runs.decontamination import (
    FACTS,
    DecontaminationSummary,
    find_finished_decontamination,
    prepare_decontamination,
    write_report,
    write_tables,
)
from nearkin.runs.job import Job
from nearkin.runs.passage_cuts import CUTS_TABLE
from nearkin.runtime.files import disk_errors, set_readers, to_json, write_durably
from nearkin.runtime.progress import Progress
from nearkin.runtime.version import VERSION
from nearkin.spark.contamination_search import (
    ScannedDocuments,
    SparkContaminationTables,
    SparkFoundItems,
    SparkSearch,
    TextReading,
)
from nearkin.spark.files import require_readable_names
from nearkin.spark.run_output import open_output
from nearkin.spark.text_cuts import flatten_cuts
from nearkin.texts.decontamination.index import SuiteIndex
from nearkin.texts.decontamination.quotes import quote_contaminations
from nearkin.texts.decontamination.request import (
    CONTAMINATION,
    ContaminationAction,
    DecontaminationRequest,
)
from nearkin.texts.decontamination.suites import Suites
from nearkin.texts.decontamination.tables import HELD_ITEM
from nearkin.texts.passages.cutting.request import CUT_SPANS
from nearkin.texts.passages.cutting.run import CutBounds
from nearkin.texts.passages.run import REJECTED


def decontaminate_files(
    master: str | None,
    conf: dict[str, str],
    job: Job,
    suites: Suites,
    request: DecontaminationRequest,
    progress: Progress,
    against: Sequence[str] = (),
) -> DecontaminationSummary:
    """Writes the items of suites in files into the output folder of a job."""
    prepared = prepare_decontamination(job, suites, request, against, engine="spark")
    corpus = prepared.corpus
    require_readable_names(corpus)
    reading = TextReading.of(prepared.columns, job.settings, job.resources.secret, job.on_error)
    finished = find_finished_decontamination(job, prepared)
    if finished is not None:
        return finished
    command = "nearkin decontaminate --engine spark"
    with open_output(master, conf, job, corpus, command) as output:
        folder = output.folder
        search = _FileSearch(output.spark, output.tables, corpus, reading, request, suites)
        progress.stage("scan", None)
        scanned = search.scan()
        progress.stage("match", None)
        found = search.match(scanned)
        progress.stage("write", None)
        tables = SparkContaminationTables(found)
        with disk_errors(job.out.parent):
            write_tables(tables, folder)
            write_rejected(scanned.rejected_rows, folder / REJECTED)
            counts = tables.counts() | search.write_documents(tables, scanned, folder)
            quotes = quote_contaminations(found, tables)
            write_report(job, request, tables, counts, quotes, folder)
            corpus.require_all_unchanged()
            facts = {
                "nearkin": VERSION,
                **prepared.identity,
                "counts": counts,
                "suite_counts": tables.suites.to_pylist(),
                "inputs": output.inputs,
                **prepared.table_facts,
                "peak_memory": output.memory.peak,
            }
            write_durably(folder / FACTS, to_json(facts))
            set_readers(folder, job.readers)
        output.claim.publish_folder(
            folder, output.run_id, prepared.identity, replaces=job.overwrite
        )
    return DecontaminationSummary(
        out=job.out,
        facts=facts,
        suites=tables.suites.to_pylist(),
        warnings=[*warn_of_inputs(corpus, prepared.columns), *tables.warnings],
        peak_memory=output.memory.peak,
    )


class _FileSearch:
    """The search in files, and the copies of the files."""

    def __init__(
        self,
        spark: SparkSession,
        work: IntermediateTables,
        corpus: FileCorpus,
        reading: TextReading,
        searched: DecontaminationRequest,
        suites: Suites,
    ) -> None:
        self._spark = spark
        self._work = work
        self._searched = searched
        self._source = FileSource(spark, corpus, reading.request)
        index = SuiteIndex(suites, searched.point.least)
        self._search = SparkSearch(spark, work, reading, searched, index)

    def scan(self) -> ScannedDocuments:
        return self._search.scan(self._source.files(), reads_files=True)

    def match(self, scanned: ScannedDocuments) -> SparkFoundItems:
        """Returns what was found. The number of a document counts those of all files before it."""
        matched = self._search.match(scanned)
        counts = sorted(scanned.file_counts.items())
        files = np.array([file for file, _ in counts], np.int64)
        before = np.cumsum([0, *(count for _, count in counts)])[:-1]
        firsts = self._spark.createDataFrame(pa.table({"file": files, "first": before}))
        numbered = matched.withColumn("file", f.shiftright("doc", FILE_SHIFT)).join(
            f.broadcast(firsts), "file"
        )
        numbered = numbered.withColumn("number", f.col("first") + f.col("ordinal"))
        found = self._work.keep(numbered.drop("file", "first"), "found")
        return SparkFoundItems(self._search.index, scanned, found)

    def write_documents(
        self, tables: SparkContaminationTables, scanned: ScannedDocuments, folder: Path
    ) -> dict[str, int]:
        """Writes the documents as the request says, and returns counts of what was cut."""
        action = self._searched.action
        if action is None:
            return {}
        found = tables.found
        rows = found.found.select("doc", "ordinal", CUT_SPANS)
        if action == ContaminationAction.ANNOTATE:
            places = found.rows.select(["doc", "ordinal"])
            rows = self._spark.createDataFrame(
                places.append_column(CONTAMINATION, tables.contamination_column)
            )
        edits = ContaminationEdits(action, scanned.file_counts)
        copy_files(self._source, rows, folder / "kept", edits, scanned.documents)
        if action == ContaminationAction.CUT:
            write_table(found.cut_parts(), folder / CUTS_TABLE)
            return asdict(found.cuts.counts_among(np.ones(len(found.numbers), bool)))
        dropped = len(found.numbers) if action == ContaminationAction.DROP else 0
        return {"documents_removed": dropped}


@dataclass(frozen=True)
class ContaminationEdits:
    """The differences of copies after the action on contaminated documents.

    Attributes:
        action: What happens to contaminated documents.
        counts: Number of documents of each file.
    """

    action: ContaminationAction
    counts: Mapping[int, int]

    def __call__(self, number: int, rows: pa.Table) -> FileEdits:
        """Returns the differences of a copy."""
        kept = np.ones(self.counts.get(number, 0), bool)
        ordinals = rows["ordinal"].to_numpy()
        match self.action:
            case ContaminationAction.DROP:
                kept[ordinals] = False
                return FileEdits(kept)
            case ContaminationAction.ANNOTATE:
                return FileEdits(kept, _annotate(ordinals, rows[CONTAMINATION]))
            case ContaminationAction.CUT:
                bounds = flatten_cuts(rows[CUT_SPANS])
                bounds[:, 0] = ordinals[bounds[:, 0]]
                cuts = CutBounds(bounds)
                return FileEdits(kept, cuts.span_column, cuts.rewrite)


def _annotate(ordinals: np.ndarray, held: pa.ChunkedArray) -> Annotations:
    """Returns a function that makes the column of the items that documents of a file hold.

    Args:
        ordinals: Positions of the contaminated documents in the file, ascending, int64 (m,).
    """
    lengths = pa.compute.list_value_length(held).to_numpy()
    firsts = np.concatenate([[0], np.cumsum(lengths)])
    values = pa.compute.list_flatten(held).combine_chunks().cast(HELD_ITEM)

    def columns_of(start: int, end: int) -> pa.RecordBatch:
        positions = np.searchsorted(ordinals, np.arange(start, end + 1))
        first = int(firsts[positions[0]])
        offsets = pa.array((firsts[positions] - first).astype(np.int32))
        part = values.slice(first, int(firsts[positions[-1]]) - first)
        return pa.record_batch([pa.ListArray.from_arrays(offsets, part)], [CONTAMINATION])

    return columns_of
