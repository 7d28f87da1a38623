"""Deduplication of files into an output folder. An interrupted run can be resumed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from nearkin.corpus import FileCorpus, count_reasons
from nearkin.corpus.file_names import hide_password
from nearkin.corpus.input_manifest import InputRecord
from nearkin.engine.blocking import BlocklistMatcher, require_blockable
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.blocklist.given_documents import GivenDocuments
from nearkin.engine.chosen_settings import CHOSEN
from nearkin.engine.clustering import Clustering
from nearkin.engine.growth import save_comparison
from nearkin.engine.merged_rows import MergedRows
from nearkin.engine.removal_limit import QuotedPair, doubt_removals
from nearkin.engine.removal_quotes import quote_removed, require_column_limit
from nearkin.engine.run import Run
from nearkin.engine.second_measure import to_final_clusters
from nearkin.engine.sketching import REJECTED
from nearkin.engine.stats import RunStats
from nearkin.errors import RunError
from nearkin.reports.collect import collect_report, title_of
from nearkin.reports.excerpts import ExcerptCollector
from nearkin.reports.merged_rows import describe_merged
from nearkin.reports.model import LinesReport, PassageReport, Provenance
from nearkin.runs.checkpoint import may_replace_output, open_work_folder
from nearkin.runs.document_output import (
    IDS,
    copy_documents,
    write_removed_ids,
)
from nearkin.runs.extension import HISTORY_FILE
from nearkin.runs.finished_copies import find_finished_copies, write_copies
from nearkin.runs.job import Job
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
    ExtensionRecord,
    ReferenceRecord,
    RunRecord,
)
from nearkin.runs.saved import (
    COMPARISON,
    delete_folder,
    open_job,
    save_signatures,
)
from nearkin.runtime.files import disk_errors
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.outputs import RESULT, require_apart
from nearkin.runtime.progress import Progress
from nearkin.runtime.threads import beside
from nearkin.settings.decisions import Decisions, read_decisions
from nearkin.texts.passages.cutting.request import PassageRequest
from nearkin.texts.passages.lines.request import LinesRequest

if TYPE_CHECKING:
    from nearkin.runs.passage_cuts import KeptCuts


def run_dedup(
    job: Job, progress: Progress, *, confirm: Callable[[str], bool] | None = None
) -> RunRecord:
    """Deduplicates files into the output folder of a job."""
    require_output_free(job.out, resume=job.resume, overwrite=job.overwrite)
    opened = open_job(job)
    job, corpus = opened.job, opened.corpus
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
        opened.copy_signatures(work)
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
            saves_sets=job.save_hashes and job.extension is None,
            given_executor=None if job.executor is None else job.executor.at(work.path),
            chosen=job.chosen,
            growth=None if job.extension is None else job.extension.growth,
        )
        clustering = to_final_clusters(run)
        history = None
        if job.extension is not None:
            clusters = job.extension.continue_clusters(run, clustering)
            clustering = replace(clustering, persistent=clusters.ids)
            history = clusters.history
        require_column_limit(run, clustering)
        require_undoubted(job, run.stats, partial(quote_removed, run, clustering), confirm)
        cuts = None
        if job.cuts is not None:
            # A run without passages does not load what cuts them.
            from nearkin.runs.passage_cuts import KeptCuts

            cuts = KeptCuts.find(run, clustering, job.cuts)
        merged = None
        if job.documents.merge is not None:
            merged = MergedRows.find(run, clustering, job.documents.merge)
        excerpts = ExcerptCollector(run, clustering, job.quoted)
        staging = work.path / RESULT
        _write_outputs(job, run, corpus, clustering, excerpts, staging, cuts, merged)
        rejected = count_reasons(staging / REJECTED)
        inputs_shown = [hide_password(path) for path in job.inputs]
        provenance = Provenance.now(inputs_shown, job.command_line)
        title = title_of(inputs_shown)
        report_data = collect_report(run, clustering, excerpts, rejected, title, provenance)
        # The peak includes the memory that the choice of settings and collecting the report took.
        chosen_in = 0 if job.chosen is None else job.chosen.peak_memory
        report_data = replace(
            report_data,
            peak_memory=max(memory.peak, chosen_in),
            passages=_describe_passages(job, cuts),
            lines=_describe_lines(job, cuts),
            merged=None if merged is None else describe_merged(merged),
        )
        report_data.require_precision(run.options.expected_precision)
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
            extension=record_extension(job, run),
        )
        if history is not None:
            with disk_errors(staging):
                pq.write_table(history, staging / HISTORY_FILE)
        if job.save_signatures:
            save_signatures(work, staging)
        if job.save_hashes:
            with disk_errors(staging):
                save_comparison(run, staging / COMPARISON)
                write_copies(corpus.names, staging)
        if job.chosen is not None and not job.chosen.is_default:
            job.chosen.write(staging / CHOSEN)
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
    reason = ""
    if job.chosen is not None:
        reason = f"\nThe settings were chosen for these documents: {job.chosen.describe()}"
    if confirm is not None and confirm(doubt.describe(pairs, doubt.advise() + reason)):
        return
    advice = doubt.advise(can_resume=True)
    raise RunError(doubt.describe(pairs, advice + reason, is_refused=True))


def _describe_lines(job: Job, cuts: "KeptCuts | None") -> LinesReport | None:
    """Returns the repeated lines, for the report and for run.json."""
    if cuts is None or cuts.line_run is None or not isinstance(job.cuts, LinesRequest):
        return None
    from nearkin.reports.repeated_lines import describe_lines

    return describe_lines(cuts.line_run, job.cuts)


def _describe_passages(job: Job, cuts: "KeptCuts | None") -> PassageReport | None:
    """Returns the passages that were cut, for the report and for run.json."""
    if cuts is None or not isinstance(job.cuts, PassageRequest):
        return None
    return PassageReport(
        min_tokens=job.cuts.least,
        unit=job.cuts.unit,
        cut=str(job.cuts.to_record()["cut"]),
        min_left=job.cuts.cut.min_left,
        counts=cuts.texts.counts,
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
    return BlocklistRecord(
        fingerprint=blocklist.fingerprint,
        path=None if job.blocklist is None else str(job.blocklist),
        purged=None if job.purge is None else str(job.purge.run),
        like=None if job.purge is None else job.purge.like.shown_inputs,
    )


def record_extension(job: Job, run: Run) -> ExtensionRecord | None:
    """Returns the run that a job extends as run.json describes it, or None."""
    if job.extension is None:
        return None
    growth = job.extension.growth
    counts = growth.count(run)._asdict()
    return ExtensionRecord(run=str(job.extension.run), **counts, stable=growth.stable)


def record_references(
    job: Job, references: OpenedReferences | None, files: Sequence[Sequence[InputRecord]]
) -> ReferenceRecord | None:
    """Returns the reference of a job as run.json describes it, or None if it has none."""
    if references is None:
        return None
    return ReferenceRecord(
        paths=[hide_password(path) for path in job.against],
        only=job.only_against,
        files=files,
        tables=references.tables,
        scope=job.scope or DEFAULT_SCOPE if find_store_urls(job.against) else None,
    )


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
    cuts: "KeptCuts | None",
    merged: MergedRows | None,
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
                    cuts=None if cuts is None else cuts.texts,
                    excerpts=excerpts,
                    merged=merged,
                    annotate=job.annotate,
                    purges=job.purge is not None,
                    finished=find_finished_copies(job, run, clustering),
                )
        else:
            # The report quotes documents in any case.
            excerpts.read(run)
            run.progress.advance(len(clustering.kept))
            write_result_tables(run, clustering, staging)
        if output.output == IDS:
            write_removed_ids(run, clustering, staging)
        if cuts is not None:
            cuts.write_tables(staging)
