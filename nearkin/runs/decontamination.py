"""The items of suites in files, as a folder of tables. An interrupted run can be resumed."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.file_names import hide_password
from nearkin.engine import result_tables
from nearkin.reports.collect import title_of
from nearkin.reports.decontamination_page import DecontaminationReport, render_decontamination_page
from nearkin.reports.files import REPORT_PAGE, write_page
from nearkin.reports.run_warnings import warn_of_inputs
from nearkin.runs.checkpoint import open_work_folder
from nearkin.runs.folder_result import FolderSummary, begin_result, describe_result, publish_result
from nearkin.runs.job import Job
from nearkin.runs.output import (
    is_output_finished,
    read_finished,
    require_file_output,
    require_output_free,
    require_suffix,
)
from nearkin.runs.passage_cuts import write_cut_documents
from nearkin.runtime.files import Readers, disk_errors
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.outputs import published_file, require_apart
from nearkin.runtime.progress import Progress
from nearkin.texts.decontamination.index import SuiteIndex
from nearkin.texts.decontamination.quotes import QuotedHit, quote_contaminations
from nearkin.texts.decontamination.request import ContaminationAction, DecontaminationRequest
from nearkin.texts.decontamination.run import DecontaminationRun, require_memory
from nearkin.texts.decontamination.suite_file import is_suites_file, write_suites
from nearkin.texts.decontamination.suites import Suites
from nearkin.texts.decontamination.tables import (
    CONTAMINATED,
    CONTAMINATIONS,
    ITEMS,
    SUITE_COUNTS,
    ContaminationTables,
)
from nearkin.texts.passages.cutting.run import CutTexts, require_rewritable
from nearkin.texts.passages.run import REJECTED, PassageOptions

FACTS = "run.json"
SUITES_TABLE = "suites.parquet"


@dataclass(frozen=True, kw_only=True)
class DecontaminationSummary(FolderSummary):
    """The outcome of `nearkin decontaminate`.

    Attributes:
        suites: Rows of the table of suites.
    """

    suites: Sequence[Mapping[str, object]]

    def suites_above(self, share: float) -> list[Mapping[str, object]]:
        """Returns the suites of which a larger share of the items is contaminated."""
        return [suite for suite in self.suites if float(str(suite["share"])) > share]


class PreparedDecontamination(NamedTuple):
    """A checked request to find the items of suites in files."""

    corpus: FileCorpus
    columns: Columns
    """The columns that the run reads."""
    options: PassageOptions
    identity: Mapping[str, object]
    """The parameters of the run, which must be unchanged for it to be resumed."""


def prepare_decontamination(
    job: Job,
    suites: Suites,
    request: DecontaminationRequest,
    against: Sequence[str],
) -> PreparedDecontamination:
    """Checks all of a request that can be checked before documents are read."""
    require_output_free(job.out, resume=job.resume, overwrite=job.overwrite)
    corpus = job.open_corpus()
    require_apart(job.out, [*job.inputs, *against, *(file.path for file in corpus.files)])
    memory, workers = job.settings.memory, job.settings.workers
    options = PassageOptions(suites.spec, request.point.least, memory=memory, workers=workers)
    columns = options.columns_of(job.columns)
    request.require_fields(suites.fields)
    require_memory(len(suites.rarity), memory)
    corpus.check(columns)
    if request.action == ContaminationAction.CUT:
        require_rewritable(columns, "action")
        corpus.require_replaceable([columns.source], columns)
    if request.added_columns:
        corpus.require_new_columns(request.added_columns, columns)
    identity = {
        "command": "decontaminate",
        "spec": json.loads(suites.spec.to_json()),
        "suites": {"names": list(suites.names), "fingerprint": suites.fingerprint},
        "parameters": request.to_record(),
        "columns": columns.to_record(),
    }
    return PreparedDecontamination(corpus, columns, options, identity)


def find_finished_decontamination(
    job: Job, prepared: PreparedDecontamination
) -> DecontaminationSummary | None:
    """Returns the summary of the output if it is complete, or None if a run is needed."""
    if not is_output_finished(job):
        return None
    facts = read_finished(job, prepared.identity, job.out / FACTS, prepared.corpus)
    rows = pq.read_table(job.out / SUITES_TABLE).to_pylist()
    return DecontaminationSummary(out=job.out, facts=facts, suites=rows)


def run_decontamination(
    job: Job,
    suites: Suites,
    request: DecontaminationRequest,
    progress: Progress,
    against: Sequence[str] = (),
) -> DecontaminationSummary:
    """Writes the items of suites in files into the output folder of a job."""
    prepared = prepare_decontamination(job, suites, request, against)
    corpus = prepared.corpus
    columns = prepared.columns
    identity = prepared.identity
    finished = find_finished_decontamination(job, prepared)
    if finished is not None:
        return finished
    index = SuiteIndex(suites, request.point.least)
    with PeakMemory() as measured, open_work_folder(job, identity, corpus) as (claim, work):
        run = DecontaminationRun(
            corpus, columns, index, request, prepared.options, work, progress, job.resources.secret
        )
        run.find()
        progress.stage("write", None)
        tables = ContaminationTables(run)
        with disk_errors(job.out.parent):
            staging = begin_result(claim)
            write_tables(tables, staging)
            shutil.copyfile(run.work.path / REJECTED, staging / REJECTED)
            counts = tables.counts() | _write_documents(run, tables, corpus, staging)
            quotes = quote_contaminations(run, tables)
            write_report(job, request, tables, counts, quotes, staging)
            facts = describe_result(identity, counts, corpus, work, measured.peak)
            facts["suite_counts"] = tables.suites.to_pylist()
            publish_result(job, claim, work, identity, staging / FACTS, facts)
    return DecontaminationSummary(
        out=job.out,
        facts=facts,
        suites=tables.suites.to_pylist(),
        warnings=[*warn_of_inputs(corpus, columns), *tables.warnings],
        peak_memory=measured.peak,
    )


def write_tables(tables: ContaminationTables, folder: Path) -> None:
    """Writes the tables of a run into an empty folder."""
    write = result_tables.write_batches
    write(folder / "hits.parquet", CONTAMINATIONS, tables.hit_batches())
    write(folder / "items.parquet", ITEMS, iter(tables.items.to_batches()))
    write(folder / SUITES_TABLE, SUITE_COUNTS, iter(tables.suites.to_batches()))
    write(folder / "documents.parquet", CONTAMINATED, tables.document_batches())


def _write_documents(
    run: DecontaminationRun, tables: ContaminationTables, corpus: FileCorpus, folder: Path
) -> dict[str, int]:
    """Writes the documents as the request says, and returns counts of what was cut."""
    match run.request.action:
        case None:
            return {}
        case ContaminationAction.CUT:
            cuts = CutTexts(run)
            write_cut_documents(cuts, corpus, folder)
            return asdict(cuts.counts)
        case ContaminationAction.DROP:
            kept = np.ones(run.documents_read, bool)
            kept[run.contaminated] = False
            rows = None
        case ContaminationAction.ANNOTATE:
            kept = np.ones(run.documents_read, bool)
            rows = tables.annotation_column
    (folder / "kept").mkdir()
    write_kept(
        corpus,
        run.columns,
        kept,
        folder / "kept",
        rows,
        known=run.known_documents,
        workers=run.copying_workers,
    )
    return {"documents_removed": int((~kept).sum())}


def write_report(
    job: Job,
    request: DecontaminationRequest,
    tables: ContaminationTables,
    counts: Mapping[str, int],
    quotes: Sequence[QuotedHit],
    folder: Path,
) -> None:
    """Writes the report page of a run."""
    report = DecontaminationReport(
        title=title_of([hide_password(path) for path in job.inputs]),
        request=request,
        counts=counts,
        suites=tables.suites.to_pylist(),
        quotes=list(quotes),
    )
    write_page(folder / REPORT_PAGE, render_decontamination_page(report))


def require_suites_output(out: Path, inputs: Sequence[str], *, overwrite: bool) -> None:
    """Requires that suites can be saved in a file."""
    require_suffix(out, ".arrow", "suites", "build")
    require_file_output(
        out, is_suites_file, "a file of suites", inputs, overwrite=overwrite, option="build"
    )


def save_suites(out: Path, suites: Suites, readers: Readers, *, overwrite: bool) -> None:
    """Saves suites in a file."""
    with published_file(out, "nearkin decontaminate", readers, replaces=overwrite) as staged:
        write_suites(staged, suites)
