"""Deduplication of files into an output folder. An interrupted run can be resumed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nearkin.corpus import FileCorpus, count_reasons
from nearkin.corpus.file_names import hide_password
from nearkin.corpus.input_manifest import InputRecord
from nearkin.engine.blocking import BlocklistMatcher, require_blockable
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.blocklist.given_documents import GivenDocuments
from nearkin.engine.clustering import Clustering
from nearkin.engine.removal_limit import QuotedPair, doubt_removals
from nearkin.engine.removal_quotes import quote_removed, require_column_limit
from nearkin.engine.run import Run
from nearkin.engine.second_measure import to_final_clusters
from nearkin.engine.sketching import REJECTED
from nearkin.engine.stats import RunStats
from nearkin.errors import RunError
from nearkin.reports.collect import collect_report, title_of
from nearkin.reports.excerpts import ExcerptCollector
from nearkin.reports.model import LinesReport, PassageReport, Provenance
from nearkin.runs.checkpoint import may_replace_output, open_work_folder
from nearkin.runs.document_output import (
    IDS,
    copy_documents,
    write_removed_ids,
)
from nearkin.runs.job import Job, check_job
from nearkin.runs.output import (
    build_run_record,
    find_finished_run,
    publish_output,
    require_output_free,
    write_result_tables,
)
from nearkin.runs.purge_request import has_given_documents
from nearkin.runs.reference import (
    DEFAULT_SCOPE,
    OpenedReferences,
    ReferenceRequest,
    find_store_urls,
    open_references,
)
from nearkin.runs.run_record import (
    BlocklistRecord,
    DecisionsRecord,
    ReferenceRecord,
    RunRecord,
)
from nearkin.runs.saved import (
    SavedRun,
    copy_saved_signatures,
    delete_folder,
    open_job_corpus,
    save_signatures,
    with_saved_run,
)
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.outputs import RESULT, require_apart
from nearkin.runtime.progress import Progress
from nearkin.runtime.threads import beside
from nearkin.settings.decisions import Decisions, read_decisions

if TYPE_CHECKING:
    from nearkin.texts.passages.cutting.request import CutCounts
    from nearkin.texts.passages.cutting.run import CutRun, CutTexts
    from nearkin.texts.passages.lines.run import LineRun


def run_dedup(
    job: Job, progress: Progress, *, confirm: Callable[[str], bool] | None = None
) -> RunRecord:
    """Deduplicates files into the output folder of a job."""
    require_output_free(job.out, resume=job.resume, overwrite=job.overwrite)
    saved = SavedRun.find(job.inputs)
    if saved is not None:
        job = with_saved_run(job, saved)
    corpus = open_job_corpus(job, saved)
    check_job(job, corpus)
    references = open_references_of(job, corpus)
    decisions = None if job.decisions is None else read_decisions(job.decisions)
    decided = {} if decisions is None else {"decisions": decisions.fingerprint}
    blocklist = open_blocklist_of(job)
    blocked = {} if blocklist is None else {"blocklist": blocklist.fingerprint}
    indexed = {} if references is None else references.identify_indexes()
    command = "dedup" if job.purge is None else "purge"
    identity = job.identity(command, **decided, **blocked, **indexed)
    finished = find_finished_run(job, identity, corpus, references)
    if finished is not None:
        return finished
    with (
        PeakMemory() as memory,
        open_work_folder(job, identity, corpus, references) as (claim, work),
    ):
        if saved is not None:
            copy_saved_signatures(saved, work, with_sets=job.save_hashes)
        run = Run(
            corpus,
            job.columns,
            job.settings,
            work,
            progress,
            job.resources,
            matcher=None if references is None else references.matcher,
            decisions=decisions,
            blocker=None if blocklist is None else BlocklistMatcher(blocklist),
            saves_sets=job.save_hashes,
            given_executor=job.executor,
        )
        clustering = to_final_clusters(run)
        require_column_limit(run, clustering)
        require_undoubted(job, run.stats, partial(quote_removed, run, clustering), confirm)
        line_run = _cut_lines(job, run, clustering)
        cut_run = _cut_passages(job, run, clustering)
        cut_texts = cut_run if line_run is None else line_run.cut_texts()
        excerpts = ExcerptCollector(run, clustering, job.quoted)
        staging = work.path / RESULT
        _write_outputs(job, run, corpus, clustering, excerpts, staging, cut_texts)
        if line_run is not None:
            from nearkin.runs.repeated_lines import write_lines_table

            write_lines_table(line_run, staging)
        rejected = count_reasons(staging / REJECTED)
        inputs_shown = [hide_password(path) for path in job.inputs]
        provenance = Provenance.now(inputs_shown, job.command_line)
        title = title_of(inputs_shown)
        report_data = collect_report(run, clustering, excerpts, rejected, title, provenance)
        # The peak includes the memory that collecting the report took.
        report_data = replace(
            report_data,
            peak_memory=memory.peak,
            passages=None if cut_run is None else describe_passages(job, cut_run.counts),
            lines=_report_lines(job, line_run),
        )
        manifest = work.manifest
        record = build_run_record(
            job,
            manifest["inputs"],
            manifest["stages"],
            report_data,
            corpus,
            against=record_references(job, references, manifest.get("against", [])),
            decisions=record_decisions(job, decisions),
            blocklist=record_blocklist(job, blocklist),
        )
        if job.save_signatures:
            save_signatures(work, staging)
        publish_output(
            job,
            claim,
            staging,
            manifest["run"],
            record,
            report_data,
            identity=identity,
            replaces=may_replace_output(job, work),
        )
    return record


def require_undoubted(
    job: Job,
    stats: RunStats,
    quote: Callable[[], Sequence[QuotedPair]],
    confirm: Callable[[str], bool] | None,
) -> None:
    """Requires that a run does not seem to remove unique documents, or that the user confirms it.

    A run that removes nothing from its output has a warning instead.
    """
    doubt = doubt_removals(stats, job.settings.removal_limits)
    if doubt is None or not job.removes_documents:
        return
    pairs = quote()
    if confirm is not None and confirm(doubt.describe(pairs, doubt.advise())):
        return
    advice = doubt.advise(can_resume=True)
    raise RunError(doubt.describe(pairs, advice, is_refused=True))


def _cut_passages(job: Job, run: Run, clustering: Clustering) -> "CutRun | None":
    """Cuts the passages of the kept documents, or returns None if the job does not ask for it."""
    if job.passages is None:
        return None
    from nearkin.runs.passage_cuts import cut_kept_passages

    return cut_kept_passages(run, clustering, job.passages)


def _cut_lines(job: Job, run: Run, clustering: Clustering) -> "LineRun | None":
    """Cuts the repeated lines of the kept documents, or returns None if the job cuts none."""
    if job.lines is None:
        return None
    from nearkin.runs.passage_cuts import cut_kept_lines

    return cut_kept_lines(run, clustering, job.lines)


def _report_lines(job: Job, line_run: "LineRun | None") -> LinesReport | None:
    """Returns the repeated lines, for the report and for run.json."""
    if job.lines is None or line_run is None:
        return None
    from nearkin.reports.repeated_lines import describe_lines

    return describe_lines(line_run, job.lines)


def describe_passages(job: Job, counts: "CutCounts") -> PassageReport | None:
    """Returns the passages that were cut, for the report and for run.json."""
    if job.passages is None:
        return None
    record = job.passages.to_record()
    return PassageReport(
        min_tokens=job.passages.least,
        unit=job.passages.unit,
        cut=str(record["cut"]),
        min_left=job.passages.cut.min_left,
        counts=counts,
    )


def open_references_of(job: Job, corpus: FileCorpus) -> OpenedReferences | None:
    """Opens the references of a job, and checks that they are neither inputs nor the output."""
    references = open_references(reference_request_of(job))
    if references is not None:
        references.require_other_files(corpus)
        require_apart(job.out, [*job.against, *references.list_local_files()])
    return references


def reference_request_of(job: Job) -> ReferenceRequest:
    """Returns the request to open the references of a job."""
    return ReferenceRequest(
        job.against,
        job.columns,
        job.settings,
        on_error=job.on_error,
        selection=job.selection,
        only=job.only_against,
        scope=job.scope,
        resources=job.resources,
    )


def open_blocklist_of(job: Job) -> Blocklist | GivenDocuments | None:
    """Opens the blocklist of a job, and checks that the run can use it."""
    if job.blocklist is None and job.purge is None:
        return None
    if job.blocklist is None and job.purge is not None and has_given_documents(job.settings):
        measure = job.settings.create_measure(job.resources)
        return job.purge.like.read_documents(job.columns, measure)
    if job.blocklist is None:
        blocklist = Blocklist(job.settings.spec, job.resources)
    else:
        blocklist = Blocklist.open(job.blocklist, job.resources)
        require_apart(job.out, [job.blocklist])
    require_blockable(job.settings, blocklist)
    if job.purge is not None:
        job.purge.like.add_to(blocklist)
    return blocklist


def record_blocklist(
    job: Job, blocklist: Blocklist | GivenDocuments | None
) -> BlocklistRecord | None:
    """Returns the blocklist of a job as run.json describes it, or None if it has none."""
    if blocklist is None:
        return None
    record = BlocklistRecord(fingerprint=blocklist.fingerprint)
    if job.blocklist is not None:
        record["path"] = str(job.blocklist)
    if job.purge is not None:
        record["purged"] = str(job.purge.run)
        record["like"] = job.purge.like.shown_inputs
    return record


def record_references(
    job: Job, references: OpenedReferences | None, files: Sequence[Sequence[InputRecord]]
) -> ReferenceRecord | None:
    """Returns the reference of a job as run.json describes it, or None if it has none."""
    if references is None:
        return None
    record = ReferenceRecord(
        paths=[hide_password(path) for path in job.against], only=job.only_against, files=files
    )
    if references.tables:
        record["tables"] = references.tables
    if find_store_urls(job.against):
        record["scope"] = job.scope or DEFAULT_SCOPE
    return record


def record_decisions(job: Job, decisions: Decisions | None) -> DecisionsRecord | None:
    """Returns the decisions of a job as run.json describes them, or None if it has none."""
    if decisions is None:
        return None
    return DecisionsRecord(path=str(job.decisions), fingerprint=decisions.fingerprint)


def _write_outputs(
    job: Job,
    run: Run,
    corpus: FileCorpus,
    clustering: Clustering,
    excerpts: ExcerptCollector,
    staging: Path,
    cut_run: "CutTexts | None",
) -> None:
    """Writes the documents or the ids that were asked for, and the tables of a run."""
    output = job.documents
    workers = run.options.workers
    run.progress.stage("write", len(clustering.kept))
    with run.work.stage("write"):
        delete_folder(staging)
        staging.mkdir(parents=True)
        if output.has_copies:
            with beside(partial(write_result_tables, run, clustering, staging), workers):
                copy_documents(
                    run,
                    corpus,
                    clustering,
                    output,
                    staging / "kept",
                    run.progress.advance,
                    cuts=cut_run,
                    excerpts=excerpts,
                    annotate=job.annotate,
                    purges=job.purge is not None,
                )
        else:
            # The report quotes documents in any case.
            for batch in corpus.batches(run.columns):
                excerpts.observe(batch.first, batch.documents[run.columns.content])
                run.progress.advance(len(batch.files))
            write_result_tables(run, clustering, staging)
        if output.output == IDS:
            write_removed_ids(run, clustering, staging)
        if cut_run is not None:
            from nearkin.runs.passage_cuts import write_cut_table

            write_cut_table(cut_run, staging)
