"""The passages of files, as a folder of tables. An interrupted run can be resumed."""

import json
import shutil
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from nearkin.corpus import FileCorpus
from nearkin.corpus.file_names import hide_password
from nearkin.engine import result_tables
from nearkin.reports.collect import title_of
from nearkin.reports.files import REPORT_PAGE, write_page
from nearkin.reports.passages_page import PassagesReport, render_passages_page
from nearkin.reports.run_warnings import warn_of_inputs
from nearkin.runs.checkpoint import open_work_folder
from nearkin.runs.folder_result import FolderSummary, begin_result, describe_result, publish_result
from nearkin.runs.job import Job
from nearkin.runs.output import is_output_finished, read_finished, require_output_free
from nearkin.runs.passage_cuts import write_cut_documents
from nearkin.runs.repeated_lines import write_repeated_lines
from nearkin.runtime.files import disk_errors
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.outputs import require_apart
from nearkin.runtime.progress import Progress
from nearkin.texts.passages.cutting.request import CUT_SPANS, CutRequest
from nearkin.texts.passages.cutting.run import (
    CutRun,
    order_documents,
    require_cuttable,
)
from nearkin.texts.passages.lines.request import LinesRequest
from nearkin.texts.passages.lines.run import LineRun, require_lines_request
from nearkin.texts.passages.quotes import quote_documents
from nearkin.texts.passages.run import REJECTED, PassageOptions, PassageRun
from nearkin.texts.passages.tables import FREQUENT, PASSAGES, SOURCES, PassageTables

FACTS = "passages.json"


def run_passages(
    job: Job,
    options: PassageOptions,
    progress: Progress,
    cut: CutRequest | None = None,
    lines: LinesRequest | None = None,
) -> FolderSummary:
    """Writes the passages of files into the output folder of a job."""
    require_output_free(job.out, resume=job.resume, overwrite=job.overwrite)
    corpus = job.open_corpus()
    require_apart(job.out, [*job.inputs, *(file.path for file in corpus.files)])
    policy = None
    if cut is not None:
        policy = require_cuttable(job.columns, cut)
    if lines is not None:
        policy = require_lines_request(job.columns, lines)
    if policy is not None:
        options = replace(options, keep_columns=policy.columns)
    columns = options.columns_of(job.columns)
    corpus.check(columns)
    if cut is not None or (lines is not None and lines.is_cut):
        corpus.require_new_columns((CUT_SPANS,), columns)
        corpus.require_replaceable([columns.source], columns)
    identity = {
        "command": "passages",
        "spec": json.loads(options.spec.to_json()),
        "parameters": options.parameters(),
        "columns": columns.to_record(),
    }
    if cut is not None:
        identity["cut"] = cut.to_record()
    if lines is not None:
        identity["lines"] = lines.to_record()
    if is_output_finished(job):
        finished = read_finished(job, identity, job.out / FACTS, corpus)
        return FolderSummary(out=job.out, facts=finished)
    with PeakMemory() as memory, open_work_folder(job, identity, corpus) as (claim, work):
        if lines is not None and policy is not None:
            line_run = LineRun(corpus, columns, options, work, progress, job.resources.secret)
            line_run.find_lines(lines, partial(order_documents, line_run, policy))
            title = title_of([hide_password(path) for path in job.inputs])
            write = partial(write_repeated_lines, title, line_run, lines, corpus)
        else:
            run = PassageRun(corpus, columns, options, work, progress, job.resources.secret)
            cut_run = None
            if cut is not None and policy is not None:
                cut_run = CutRun(run, cut, partial(order_documents, run, policy))
                cut_run.find()
            else:
                run.find()
            write = partial(_write_passages, job, run, cut_run, corpus)
        progress.stage("write", None)
        with disk_errors(job.out.parent):
            staging = begin_result(claim)
            counts = write(staging)
            facts = describe_result(identity, counts, corpus, work, memory.peak)
            publish_result(job, claim, work, identity, staging / FACTS, facts)
    return FolderSummary(
        out=job.out,
        facts=facts,
        warnings=warn_of_inputs(corpus, columns),
        peak_memory=memory.peak,
    )


def _write_passages(
    job: Job, run: PassageRun, cut_run: CutRun | None, corpus: FileCorpus, folder: Path
) -> dict[str, int]:
    """Writes the result of a run into an empty folder, and returns its counts."""
    tables = PassageTables(run)
    _write_tables(run, tables, folder)
    counts = tables.counts()
    if cut_run is not None:
        write_cut_documents(cut_run, corpus, folder)
        counts |= asdict(cut_run.counts)
    _write_page(job, tables, run, cut_run, folder)
    return counts


def _write_tables(run: PassageRun, tables: PassageTables, folder: Path) -> None:
    """Writes the tables of a run into an empty folder."""
    write = result_tables.write_batches
    write(folder / "passages.parquet", PASSAGES, tables.passage_batches())
    write(folder / "documents.parquet", tables.document_schema, tables.document_batches())
    write(folder / "frequent.parquet", FREQUENT, iter(tables.frequent.to_batches()))
    if run.options.source is not None:
        write(folder / "sources.parquet", SOURCES, iter(tables.sources.to_batches()))
    shutil.copyfile(run.work.path / REJECTED, folder / REJECTED)


def _write_page(
    job: Job, tables: PassageTables, run: PassageRun, cut_run: CutRun | None, folder: Path
) -> None:
    """Writes the report page of a run."""
    report = PassagesReport(
        title=title_of([hide_password(path) for path in job.inputs]),
        least=run.options.least,
        token=run.options.token,
        counts=tables.counts(),
        frequent=tables.frequent.to_pylist(),
        sources=tables.sources.to_pylist(),
        documents=quote_documents(run, tables),
        cuts=None if cut_run is None else cut_run.counts,
    )
    write_page(folder / REPORT_PAGE, render_passages_page(report))
