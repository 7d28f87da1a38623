"""The items of suites in files, found with Spark for `nearkin decontaminate --engine spark`."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.corpus import FileCorpus, describe_inputs, write_kept
from nearkin.corpus.writer import Annotations
from nearkin.decontamination.index import SuiteIndex
from nearkin.decontamination.quotes import quote_contaminations
from nearkin.decontamination.request import (
    CONTAMINATION,
    ContaminationAction,
    DecontaminationRequest,
)
from nearkin.decontamination.suites import Suites
from nearkin.decontamination.tables import HELD_ITEM
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.output_files import write_rejected
from nearkin.engine.spark.rereading import (
    WRITTEN,
    WrittenFacts,
    attempt_folder,
    by_file,
    move_copy,
)
from nearkin.engine.spark.session import translate_spark_errors
from nearkin.engine.spark.sketching import FILE_SHIFT, TaskRequest, corpus_of
from nearkin.engine.spark.sources import FileSource
from nearkin.engine.spark.task_functions import collect_facts
from nearkin.errors import RunError, UsageError
from nearkin.passages.cutting.run import CutBounds
from nearkin.passages.run import REJECTED
from nearkin.report.run_warnings import warn_of_inputs
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
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.outputs import RESULT, claimed
from nearkin.runtime.progress import Progress
from nearkin.setting_names import name_flag
from nearkin.spark.contamination_search import (
    ScannedDocuments,
    SparkContaminationTables,
    SparkFoundItems,
    SparkSearch,
    flatten_cuts,
)
from nearkin.spark.files import require_readable_names, running_session
from nearkin.version import VERSION


def decontaminate_files(
    master: str | None,
    conf: dict[str, str],
    job: Job,
    suites: Suites,
    request: DecontaminationRequest,
    progress: Progress,
    against: Sequence[str] = (),
) -> DecontaminationSummary:
    """Writes the items of suites in files into the output folder of a job.

    Args:
        master: Master of the Spark session, or None for all cores of this machine.
        conf: Settings of the Spark session.
        job: Inputs and output. Their paths are the same on all workers.
        suites: The suites.
        request: What counts as found, and what happens to contaminated documents.
        progress: Receives progress updates.
        against: Paths of the suites, which the output must not replace.

    Returns:
        What was done.

    Raises:
        UsageError: If the request is invalid, or needs the local engine.
        RunError: If a task failed, or the inputs changed during the run.
    """
    prepared = prepare_decontamination(job, suites, request, against, engine="spark")
    corpus = prepared.corpus
    require_readable_names(corpus)
    task_request = TaskRequest(prepared.columns, job.settings, job.resources, job.on_error)
    finished = find_finished_decontamination(job, prepared)
    if finished is not None:
        return finished
    if job.resume:
        raise UsageError(
            f"a run with Spark cannot be resumed; start it again with {name_flag('overwrite')}"
        )
    with (
        claimed(job.out, "nearkin decontaminate --engine spark", replaces=job.overwrite) as claim,
        running_session(master, conf) as spark,
        PeakMemory() as measured,
        translate_spark_errors(),
    ):
        # Workers that run as another user need --readable-by.
        claim.path.chmod(job.readers.folder_mode)
        folder = claim.path / RESULT
        folder.mkdir()
        inputs = describe_inputs(corpus, job.hash_inputs)
        work = IntermediateTables(spark, str((claim.path / "tables").absolute()))
        search = _FileSearch(spark, work, corpus, task_request, request, suites)
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
            write_report(job, request, tables, quote_contaminations(found, tables), folder)
            corpus.require_all_unchanged()
            facts = {
                "nearkin": VERSION,
                **prepared.identity,
                "counts": counts,
                "suite_counts": tables.suites.to_pylist(),
                "inputs": inputs,
                **prepared.table_facts,
                "peak_memory": measured.peak,
            }
            write_durably(folder / FACTS, to_json(facts))
            set_readers(folder, job.readers)
        claim.publish_folder(folder, uuid4().hex, prepared.identity, replaces=job.overwrite)
    return DecontaminationSummary(
        out=job.out,
        facts=facts,
        suites=tables.suites.to_pylist(),
        warnings=[*warn_of_inputs(corpus, prepared.columns), *tables.warnings],
        peak_memory=measured.peak,
    )


class _FileSearch:
    """The search in files, and the copies of the files."""

    def __init__(
        self,
        spark: SparkSession,
        work: IntermediateTables,
        corpus: FileCorpus,
        request: TaskRequest,
        searched: DecontaminationRequest,
        suites: Suites,
    ) -> None:
        self._spark = spark
        self._work = work
        self._request = request
        self._searched = searched
        self._source = FileSource(spark, corpus, request)
        index = SuiteIndex(suites, searched.point.least)
        self._search = SparkSearch(spark, work, request, searched, index)

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
        rows = found.found.select("doc", "ordinal", "cut_spans")
        if action == ContaminationAction.ANNOTATE:
            places = found.rows.select(["doc", "ordinal"])
            rows = self._spark.createDataFrame(places.append_column(CONTAMINATION, tables.held))
        self._write_copies(rows, scanned.file_counts, folder / "kept")
        if action == ContaminationAction.CUT:
            cuts = found.cut_parts().write.option("compression", "zstd")
            cuts.parquet(str((folder / CUTS_TABLE).absolute()))
            return asdict(found.cuts.counts_among(np.ones(len(found.numbers), bool)))
        dropped = len(found.numbers) if action == ContaminationAction.DROP else 0
        return {"documents_removed": dropped}

    def _write_copies(self, rows: DataFrame, counts: Mapping[int, int], folder: Path) -> None:
        """Writes the input files again, with what is changed in contaminated documents.

        Args:
            rows: The contaminated documents: doc, ordinal, and what their copies get.
            counts: Number of documents of each file.
            folder: New folder.
        """
        folder.mkdir(parents=True)
        assert self._searched.action is not None
        copying = CopyTasks(self._request, self._searched.action, counts, str(folder.absolute()))
        files = self._source.interleave_with_files(rows)
        written = collect_facts(files.mapInArrow(copying.copy, WRITTEN), WrittenFacts)
        documents = sum(counts.values())
        now = sum(task["documents"] for task in written)
        if now != documents:
            raise RunError(
                f"the inputs have {now} documents now and had {documents}; run again with "
                f"{name_flag('overwrite')}"
            )


@dataclass(frozen=True)
class CopyTasks:
    """The tasks that copy files, and move each copy to its place when it is complete.

    Attributes:
        request: How documents are read.
        action: What happens to contaminated documents.
        counts: Number of documents of each file.
        folder: Folder of the copies, which all workers share.
    """

    request: TaskRequest
    action: ContaminationAction
    counts: Mapping[int, int]
    folder: str

    def copy(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Copies files, and yields the number of their documents.

        Args:
            batches: Files, each followed by its contaminated documents.
        """
        attempt = attempt_folder(Path(self.folder))
        written = 0
        for file, parts in by_file(batches):
            numbers, corpus = corpus_of([file], self.request)
            kept = np.ones(self.counts.get(int(numbers[0]), 0), bool)
            columns = None
            rewrite = None
            rows = pa.Table.from_batches([file.slice(0, 0), *parts]).combine_chunks()
            ordinals = rows["ordinal"].to_numpy()
            match self.action:
                case ContaminationAction.DROP:
                    kept[ordinals] = False
                case ContaminationAction.ANNOTATE:
                    columns = _annotate(ordinals, rows[CONTAMINATION])
                case ContaminationAction.CUT:
                    bounds = flatten_cuts(rows["cut_spans"])
                    bounds[:, 0] = ordinals[bounds[:, 0]]
                    columns = CutBounds(bounds).span_column
                    rewrite = CutBounds(bounds).rewrite
            write_kept(corpus, self.request.columns, kept, attempt, columns, rewrite=rewrite)
            move_copy(attempt, corpus.names[0], Path(self.folder), file["target"][0].as_py())
            written += len(kept)
        shutil.rmtree(attempt, ignore_errors=True)
        yield pa.record_batch([pa.array([json.dumps({"documents": written})])], ["facts"])


def _annotate(ordinals: np.ndarray, held: pa.ChunkedArray) -> Annotations:
    """Returns a function that makes the column of the items that documents of a file hold.

    Args:
        ordinals: Positions of the contaminated documents in the file, ascending, int64 (m,).
        held: The items that each of them holds.
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
