"""`nearkin dedup`."""

import sys
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nearkin.cli import options as o
from nearkin.cli.dry_run import count_nothing, ends_as_dry_run
from nearkin.cli.executor_options import THREADS, ExecutorOptions
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.jobs import make_job
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.plan_file import apply_plan
from nearkin.cli.printing import (
    print_brief,
    print_inputs,
    print_json,
    print_warnings,
    read_first_reason,
    require_documents,
)
from nearkin.cli.saved_runs import require_as_saved
from nearkin.cli.standard_files import StandardFiles, copy_file, with_standard_files
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.setting_names import flag_of, name_setting
from nearkin.settings.setting import CLUSTERING, INPUT, OUTPUT, Need, setting
from nearkin.settings.table import (
    ClusterSettings,
    CutSettings,
    MergeSettings,
    OutputSettings,
    ReferenceSettings,
    SignatureSettings,
)

if TYPE_CHECKING:
    from nearkin.corpus import Columns
    from nearkin.engine.options import RunOptions
    from nearkin.runs.kept_file import KeptFile
    from nearkin.runs.run_record import RunRecord
    from nearkin.runtime.progress import Progress


@dataclass(frozen=True)
class ResultOptions:
    """The options that decide what the output contains."""

    annotate: bool = setting(False, "Keep all rows and add cluster columns.", OUTPUT, common=True)
    audit: bool = setting(
        False, "Measure precision and recall on the corpus after the run.", OUTPUT
    )
    output: str = setting(
        "kept",
        "What the output holds of the documents: kept (the inputs without removed rows), ids "
        "(removed.parquet, the removed ids), or none.",
        OUTPUT,
        values=("kept", "ids", "none"),
    )
    codec: str = setting(
        "same",
        "Codec of kept Parquet files: same (as each input), snappy, zstd, lz4 or none.",
        OUTPUT,
        values=("same", "snappy", "zstd", "lz4", "none"),
    )
    sizes: bool = setting(
        False,
        "Add the column cluster_size and, with --source, cluster_sources to the kept documents.",
        OUTPUT,
    )
    document_weights: str = setting(
        "none",
        "Keep all rows and add the column document_weight, f(n) / n for each of the n documents "
        "of a cluster: one (f is 1), sqrt (the square root of n), log (1 + ln n), or a CSV file "
        "with the columns size and weight.",
        OUTPUT,
        metavar="WEIGHTS",
    )
    save_signatures: bool = setting(
        False,
        "Keep signatures, so that the run can be clustered again with other settings.",
        OUTPUT,
    )
    save_hashes: bool = setting(
        False,
        "Keep shingle hashes, too, so that a run --against this one reads no texts of it (jaccard "
        "and fields). They take about as much space as the texts.",
        OUTPUT,
    )


@dataclass(frozen=True)
class GrowthOptions:
    """The options of a run that extends a finished one."""

    extend: Path | None = setting(
        None,
        "Finished run with --save-signatures and --save-hashes that the inputs extend, under its "
        "settings. A document replaces the one with the same id.",
        INPUT,
        metavar="RUN",
    )
    removed: Path | None = setting(
        None,
        "File of the ids of withdrawn documents: CSV or Parquet with the column of ids, or one id "
        "on each line.",
        INPUT,
        metavar="FILE",
        need=Need("extend"),
    )
    stable: bool = setting(
        False,
        "Keep the documents that the extended run kept, until they are withdrawn or replaced.",
        CLUSTERING,
        need=Need("extend"),
    )


WITH_EXTEND = frozenset(
    {
        *("inputs", "extend", "removed", "stable", "out", "overwrite", "readable_by", "resume"),
        *("json", "quiet", "memory", "workers", "key_file", "on_error", "hash_inputs"),
        *("hidden", "follow_links", "include", "exclude"),
    }
)
"""The options that have a meaning for a run that extends another one."""
NEEDS = dict.fromkeys(
    ("annotate", "codec", "sizes", "document_weights", "merge_fields"), Need("output", ("kept",))
)
"""The options that have an effect on documents in the output only."""


@partial(with_option_groups, needs=NEEDS)
@partial(with_standard_files, result="kept.jsonl", write_rows=copy_file)
def dedup(
    *,
    given: GivenOptions,
    standard: StandardFiles,
    inputs: o.StandardInputsOrNone,
    columns: o.FieldColumnOptions,
    reading: o.RunReadOptions,
    reference: ReferenceSettings,
    growth: GrowthOptions,
    decisions: Path | None = None,
    spec: SignatureSettings,
    match: o.MatchOptions,
    clustering: ClusterSettings,
    output: OutputSettings,
    result: ResultOptions,
    write_mode: str = "create",
    cutting: CutSettings,
    merging: MergeSettings,
    execution: ExecutorOptions,
    plan: Path | None = None,
    settings: Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
) -> None:
    """Remove exact duplicates and near-duplicates.

    Each of them is verified against the document that is kept. Without options of similarity, those of short texts are chosen.

    Examples:
        nearkin dedup "crawl/*.jsonl.zst" --out deduped/

        nearkin dedup docs.parquet --text body --threshold 0.7 --keep "source:gold>web, length desc" --out deduped/

        nearkin dedup people.csv --text name,address --preset records --out out.csv

        nearkin dedup - --settings settings.toml --out - < docs.jsonl > kept.jsonl

        nearkin dedup docs.parquet --vector embedding --threshold 0.95 --out out/

        nearkin dedup new/ --against deduped/ --out news/

        nearkin dedup deduped-with-signatures/ --threshold 0.9 --out stricter/

        nearkin dedup tuesday/ --extend monday-deduped/ --out tuesday-deduped/

        nearkin dedup /shared/crawl --executor spark --master spark://head:7077 --conf spark.executor.memory=8g --out /shared/out
    """  # noqa: E501 (an example is one line, which can be copied)
    with execution.imports():
        from nearkin.engine.cluster_columns import DocumentWeights
        from nearkin.engine.merged_rows import MergeRequest
        from nearkin.errors import UsageError
        from nearkin.runs.choose import choose_for_run
        from nearkin.runs.dedup import run_dedup
        from nearkin.runs.document_output import DocumentOutput, parse_kept_cuts
        from nearkin.runs.kept_file import KeptFile
        from nearkin.runs.output import require_output_free
        from nearkin.runs.resolved_run import resolve_inputs
        from nearkin.texts.passages.cutting.request import CUT_SPANS

    if growth.extend is not None:
        require_extending(given, growth.extend, standard)
        with closing(o.open_progress(quiet=output.quiet)) as progress:
            record = extend(
                growth, inputs, reading, output, progress, spec.key_file, match, resume=resume
            )
        print_run(record, output.out, as_json=output.json, is_brief=output.quiet)
        return
    if not inputs:
        raise UsageError(
            "missing argument INPUTS: give files, globs, folders, URLs, a saved run, or - for "
            "standard input"
        )
    weights = DocumentWeights.parse(result.document_weights)
    merge = MergeRequest.parse(merging.merge_fields, adds_sources=merging.merge_sources)
    documents = DocumentOutput(result.output, result.codec, result.sizes, weights, merge)
    cuts = parse_kept_cuts(**vars(cutting))
    spec, match = apply_plan(plan, given, spec, match)
    parameters = o.parameters_of(columns, spec, match, clustering, given=given.names)
    requested_columns = columns.to_columns(match.memory)
    kept_file = KeptFile.parse(output.out, requested_columns)
    out = output.out
    if kept_file is not None:
        documents.require_folder(output.out)
        added = documents.added_names(clustering.source)
        kept_file.require_holds((*added, *(() if cuts is None else (CUT_SPANS,))))
        kept_file.require_free(inputs, resume=resume, overwrite=output.overwrite)
        if not standard.reads:
            require_convertible_inputs(kept_file, inputs, reading, requested_columns)
        out = kept_file.run_folder
    require_output_free(out, resume=resume, overwrite=output.overwrite)
    o.require_apart_from_files(out, spec, plan, settings)
    require_as_saved(given, inputs, columns, spec)
    if standard.used and execution.executor != THREADS:
        raise UsageError(
            f"{name_setting('executor', execution.executor)} cannot be combined with -, because "
            "its workers cannot read the standard streams of this process; name files"
        )

    def check_options(options: "RunOptions") -> "RunOptions":
        if result.audit:
            from nearkin.quality.evaluate.audit import require_auditable

            require_auditable(options)
        return options

    require_usable_reference(reference, result)
    file_warnings: list[str] = []
    with closing(o.open_progress(quiet=output.quiet)) as progress:
        inputs = standard.read_inputs(inputs, requested_columns)
        resolved = resolve_inputs(
            tuple(inputs),
            requested_columns,
            parameters,
            out,
            progress,
            check_options,
            on_error=reading.on_error,
            selection=reading.selection,
            choose=None if reference.against or reference.blocklist else choose_for_run,
            count=count_nothing if dry_run else None,
        )
        if ends_as_dry_run(resolved, given, dry_run=dry_run, as_json=output.json):
            return
        job = make_job(
            inputs,
            resolved,
            reading,
            replace(output, out=out),
            resume=resume,
            annotate=result.annotate,
            save_signatures=result.save_signatures,
            save_hashes=result.save_hashes,
            documents=documents,
            against=tuple(reference.against or ()),
            only_against=reference.only_against,
            scope=reference.scope,
            blocklist=reference.blocklist,
            decisions=decisions,
            cuts=cuts,
        )
        asks = not (output.quiet or output.json or standard.used)
        confirm = partial(confirm_removals, progress) if asks else None
        if execution.print_files(job.work_folder):
            return
        workers_wanted = execution.describe_workers(job.work_folder)
        if workers_wanted is not None and not output.quiet:
            print_line(workers_wanted)
        with execution.open(job.settings.workers) as executor:
            record = run_dedup(replace(job, executor=executor), progress, confirm=confirm)
        if result.audit:
            from nearkin.runs.reopen import audit_run

            audited = audit_run(
                out, progress, resolved.resources.secret, workers=job.settings.workers
            )
            record = record.with_audit(audited.audit, audited.metrics)
        if kept_file is not None:
            file_warnings = kept_file.write_folder(
                out / "kept",
                job.columns,
                job.readers,
                overwrite=resume or output.overwrite,
                is_stream=standard.writes,
            )
    if not output.json and not output.quiet:
        print_inputs(resolved.account)
    print_run(
        record,
        out,
        as_json=output.json,
        is_brief=output.quiet,
        can_explain=not standard.reads,
        lists_files=not standard.writes,
        kept_file=None if kept_file is None else standard.name_output(output.out),
    )
    print_warnings(file_warnings)
    counts = record.counts
    rejected = counts["rejected"]
    advice = f"see {out / 'rejected.jsonl'}"
    if standard.writes:
        advice = (
            f"the first one because {read_first_reason(out / 'rejected.jsonl')}; the file "
            "rejected.jsonl in the folder of another --out has all reasons"
        )
    require_documents(counts["read"] - rejected, rejected, advice)


def require_extending(given: GivenOptions, folder: Path, standard: StandardFiles) -> None:
    """Requires that no option contradicts the run that is extended, whose settings count."""
    from nearkin.errors import UsageError

    for name in sorted(given.names - WITH_EXTEND):
        raise UsageError(
            f"{flag_of(name)} cannot be given beside {name_setting('extend', str(folder))}: the "
            "settings are those of the finished run; leave it out, or run on all documents"
        )
    if standard.used:
        raise UsageError(
            f"- cannot be given beside {name_setting('extend', str(folder))}: the files of a run "
            "must stay, so that it can be extended again; name files"
        )


def extend(
    growth: GrowthOptions,
    inputs: list[str],
    reading: o.RunReadOptions,
    output: OutputSettings,
    progress: "Progress",
    key_file: str | None,
    match: o.MatchOptions,
    *,
    resume: bool,
) -> "RunRecord":
    """Extends a finished run by the inputs."""
    from nearkin.cli.command_line import ARGUMENTS, describe_command_line
    from nearkin.runs.extend import extend_run
    from nearkin.runtime.files import Readers
    from nearkin.runtime.process_limits import workers_or_cores
    from nearkin.runtime.sizes import parse_memory

    assert growth.extend is not None
    asks = not (output.quiet or output.json)
    return extend_run(
        growth.extend,
        inputs,
        output.out,
        progress,
        removed=growth.removed,
        stable=growth.stable,
        secret=o.read_key(key_file),
        execution={
            "memory": parse_memory(match.memory, "--memory"),
            "workers": workers_or_cores(match.workers),
        },
        on_error=reading.on_error,
        selection=reading.selection,
        confirm=partial(confirm_removals, progress) if asks else None,
        hash_inputs=reading.parse_hash_inputs(),
        resume=resume,
        overwrite=output.overwrite,
        readers=Readers(output.readable_by),
        command_line=describe_command_line(ARGUMENTS.get()),
    )


def confirm_removals(progress: "Progress", message: str) -> bool:
    """Asks on the terminal whether a run goes on. Returns False without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    progress.close()
    print_line(f"{message}")
    return typer.confirm("Remove these documents?", default=False, err=True)


def require_usable_reference(reference: ReferenceSettings, result: ResultOptions) -> None:
    """Requires that the output has a meaning with a reference or a blocklist."""
    from nearkin.errors import UsageError

    if reference.against:
        against = name_setting("against", reference.against[0])
    elif reference.blocklist is not None:
        against = name_setting("blocklist", str(reference.blocklist))
    else:
        return
    if result.audit:
        raise UsageError(
            f"{name_setting('audit')} cannot be combined with {against}: an audit compares "
            "documents of the inputs alone; leave one out"
        )


def require_convertible_inputs(
    kept_file: "KeptFile", inputs: list[str], reading: o.ReadOptions, columns: "Columns"
) -> None:
    """Requires that a file of kept documents can hold the columns of the inputs."""
    from nearkin.corpus import FileCorpus
    from nearkin.runs.saved import SavedRun

    saved = SavedRun.find(tuple(inputs))
    if saved is None:
        corpus = FileCorpus.open(inputs, selection=reading.selection)
    else:
        corpus = saved.find_inputs("quarantine")
    kept_file.require_convertible(corpus, columns)


def print_run(
    record: "RunRecord",
    out: Path,
    *,
    as_json: bool,
    is_brief: bool = False,
    can_explain: bool = True,
    lists_files: bool = True,
    kept_file: str | None = None,
) -> None:
    """Prints the result of a run."""
    if as_json:
        print_json(record.to_json())
        return
    from nearkin.reports.files import read_report

    report = read_report(out)
    listed = out if lists_files else None
    if is_brief:
        from nearkin.reports.terminal.summary import place_of_warnings

        print_brief(report.headline, report.all_warnings, place_of_warnings(listed))
        return
    from rich.console import Console

    from nearkin.reports.terminal.summary import print_summary

    print_summary(
        report, Console(stderr=True), listed, can_explain=can_explain, kept_file=kept_file
    )
