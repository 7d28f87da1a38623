"""`nearkin dedup`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import options as o
from nearkin.runtime.loading import paused_collector


def dedup(
    context: typer.Context,
    inputs: o.Inputs,
    out: o.Out,
    text: o.Text = None,
    tokens: o.Tokens = None,
    vector: o.Vector = None,
    id_column: o.Id = None,
    measure: o.Measure = None,
    threshold: o.Threshold = 0.8,
    distance: o.Distance = None,
    recall: o.Recall = 0.95,
    shingle: o.Shingle = "words:3",
    normalise: o.Normalise = o.NORMALISE,
    stem: o.Stem = None,
    scheme: o.Scheme = None,
    k: o.K = None,
    slot_bits: o.SlotBits = None,
    seed: o.Seed = 1,
    base_hash: o.BaseHash = None,
    key_file: o.KeyFile = None,
    weights: o.Weights = None,
    frequencies: o.Frequencies = None,
    max_df: o.MaxDf = None,
    cut_list: o.CutList = None,
    bands: o.Bands = None,
    rows: o.Rows = None,
    tables: o.Tables = 1,
    probes: o.Probes = 0,
    verify: o.Verify = "exact",
    cluster: Annotated[str, typer.Option(help="leaders (no chains) or components (union-find).")] = "leaders",
    floor: Annotated[float | None, typer.Option(help="components: lowest similarity to the kept one.")] = None,
    keep: Annotated[
        str, typer.Option(help="Which one stays: 'source:gold>web, quality desc, length desc'.", metavar="EXPR")
    ] = "length desc",
    empty: Annotated[str, typer.Option(help="keep or drop documents without shingles; they never match.")] = "keep",
    block_by: o.BlockBy = None,
    source: Annotated[str | None, typer.Option(help="Report removals and overlaps by this column.", metavar="COL")] = None,
    split: Annotated[
        str | None, typer.Option(help="Report which splits (train, test) have duplicates in others.", metavar="COL")
    ] = None,
    then: Annotated[
        str | None, typer.Option(help="A second measure over what is kept, as cosine:COL:0.95.", metavar="MEASURE")
    ] = None,
    plan: o.PlanFile = None,
    annotate: Annotated[bool, typer.Option("--annotate", help="Keep all rows and add the cluster columns.")] = False,
    audit: Annotated[bool, typer.Option("--audit", help="Measure precision and recall on the corpus afterwards.")] = False,
    save_signatures: Annotated[
        bool, typer.Option("--save-signatures", help="Keep signatures: the run can be re-banded.")
    ] = False,
    engine: Annotated[str, typer.Option(help="local, or spark (pip install 'nearkin[spark]').")] = "local",
    master: Annotated[
        str | None, typer.Option(help="spark: as spark://HOST:7077, yarn, k8s://URL.  [default: local[*]]", metavar="URL")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", help="spark: a setting, as spark.executor.memory=8g.", metavar="KEY=VALUE")
    ] = None,
    merge_parts: Annotated[
        bool, typer.Option("--merge-parts", help="spark: rows of one id are parts of a document, whose signatures are merged.")
    ] = False,
    max_bucket: o.MaxBucket = 100,
    fanout: o.Fanout = 100,
    memory: o.Memory = o.MEMORY,
    workers: o.Workers = None,
    resume: o.Resume = False,
    overwrite: o.Overwrite = False,
    on_error: o.OnError = "quarantine",
    hidden: o.Hidden = False,
    follow_links: o.FollowLinks = False,
    readable_by: o.ReadableBy = "owner",
    json: o.Json = False,
) -> None:
    """Remove exact and near duplicates, each verified against the document that is kept.

    Examples:

        nearkin dedup "crawl/*.jsonl.zst" --out deduped/

        nearkin dedup docs.parquet --text body --threshold 0.7 --keep "source:gold>web, length desc" --out deduped/

        nearkin dedup docs.parquet --measure simhash --distance 3 --out deduped/

        nearkin dedup docs.parquet --vector embedding --threshold 0.95 --out deduped/

        nearkin dedup docs.parquet --then cosine:embedding:0.95 --out deduped/

        nearkin dedup deduped-with-signatures/ --threshold 0.9 --out stricter/

        nearkin dedup /shared/crawl --engine spark --master spark://head:7077 --conf spark.executor.memory=8g --out /shared/out
    """
    with paused_collector():
        from nearkin.cluster.keep import KeepPolicy
        from nearkin.corpus.inputs import Selection
        from nearkin.engine.options import RunOptions, carried_columns, parse_size
        from nearkin.runs.job import Job
        from nearkin.runs.output import require_output_free
        from nearkin.runtime.files import Readers

    taken = {**context.params, **(o.planned(context, plan) if plan else {})}
    threshold, recall, bands, rows, memory = (taken[name] for name in ("threshold", "recall", "bands", "rows", "memory"))
    options = o.SpecOptions.of(taken)
    asked, policy = options.asked(), KeepPolicy.parse(keep)
    columns = o.columns(text, tokens, vector, id_column, carried_columns(policy, block_by, source, split)).with_memory(
        parse_size(memory)
    )
    require_output_free(out, resume=resume, overwrite=overwrite)
    o.require_apart_from_files(context, out)
    o.require_as_saved(context, inputs)
    run, prepare = engine_of(engine, master, conf or [], merge_parts)
    selection = Selection(hidden, follow_links)
    shown, threads = o.progress(), o.workers_or_cores(workers)

    def settings_with(spec: Any) -> RunOptions:
        return RunOptions(
            spec=spec, threshold=threshold, distance=distance, recall=recall, bands=bands, rows=rows, tables=tables,
            probes=probes, verify=verify, cluster=cluster, floor=floor, keep=keep, empty=empty, block_by=block_by,
            source=source, split=split, second_measure=then, hot_bucket_size=max_bucket, fanout=fanout,
            memory=parse_size(memory), workers=threads,
        )  # fmt: skip

    try:
        prepared = prepare(
            tuple(inputs), columns, asked, on_error, threads, out, shown, check=settings_with, selection=selection
        )
        columns, resources = prepared.columns, prepared.resources
        settings = settings_with(prepared.spec)
        job = Job(
            tuple(inputs), out, columns, settings, annotate=annotate, save_signatures=save_signatures, resume=resume,
            overwrite=overwrite, on_error=on_error,
            resources=resources, selection=selection, statuses=prepared.statuses,
            readers=Readers(readable_by),
        )  # fmt: skip
        summary = run(job, shown)
        if audit:
            from nearkin.runs.reopen import audit_run

            audited = audit_run(out, shown, resources.secret, workers=threads)
            summary["audit"], summary["metrics"] = audited.audit.to_dict(), audited.metrics.to_dict()
    finally:
        shown.close()
    show(summary, out, json)
    counts = summary["counts"]
    o.require_documents(counts["read"] - counts["rejected"], counts["rejected"], f"see {out / 'rejected.jsonl'}")


def engine_of(
    engine: str, master: str | None, conf: list[str], merge_parts: bool
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What runs a Job, and what prepares one, of an engine.

    Raises:
        UsageError: There is no such engine, or it has no such option.
    """
    from nearkin.errors import UsageError

    if engine == "spark":
        from nearkin.engine.spark.session import parse_conf
        from nearkin.spark import dedup_files, prepare_files

        where = (master, parse_conf(conf))
        return partial(dedup_files, *where, merge_parts), partial(prepare_files, *where)
    if engine != "local":
        raise UsageError(f"engine={engine!r} is not one of local, spark")
    if merge_parts:
        raise UsageError("--merge-parts is of --engine spark")
    if master or conf:
        raise UsageError(f"--{'master ' + master if master else 'conf ' + conf[0]} is of --engine spark")
    from nearkin.runs.dedup import run_dedup
    from nearkin.runs.spec_request import resolve_inputs

    return run_dedup, resolve_inputs


def show(summary: dict[str, Any], out: Path, json: bool) -> None:
    """Shows the end of a run: JSON on standard output, or a short account on standard error."""
    if json:
        o.print_json(summary)
        return
    from rich.console import Console

    from nearkin.report.files import read_report
    from nearkin.report.terminal.summary import print_summary

    print_summary(read_report(out), Console(stderr=True), out)
