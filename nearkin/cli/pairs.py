"""`nearkin pairs`."""

import sys
from typing import Annotated, Any

import typer

from nearkin.cli import options as o
from nearkin.runtime.loading import paused_collector


def pairs(
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
    block_by: o.BlockBy = None,
    max_bucket: o.MaxBucket = 100,
    fanout: o.Fanout = 100,
    relation: Annotated[str, typer.Option(help="similarity, or containment: documents inside larger ones.")] = "similarity",
    expand_exact: Annotated[bool, typer.Option("--expand-exact", help="List every member of exact groups.")] = False,
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
    """All verified pairs of near-duplicates, as parquet: id_a, id_b, similarity, estimate (and distance).

    Exact duplicates are represented by one of them unless --expand-exact is given.

    Examples:

        nearkin pairs docs.parquet --out pairs.parquet

        nearkin pairs docs.parquet --threshold 0.5 --bands 42 --rows 3 --out pairs.parquet

        nearkin pairs docs.parquet --relation containment --threshold 0.9 --out contained.parquet

        nearkin pairs docs.parquet --vector embedding --threshold 0.95 --out pairs.parquet
    """
    with paused_collector():
        from nearkin.corpus.inputs import Selection
        from nearkin.engine.options import RunOptions, parse_size
        from nearkin.runs.job import Job
        from nearkin.runs.pairs import parse_relation, require_pairs_output, run_pairs
        from nearkin.runs.spec_request import resolve_inputs
        from nearkin.runtime.files import Readers

    options = o.SpecOptions.of(context.params)
    asked = options.asked()
    columns = o.columns(text, tokens, vector, id_column, () if block_by is None else (block_by,))
    columns = columns.with_memory(parse_size(memory))
    require_pairs_output(out, tuple(inputs), resume=resume, overwrite=overwrite)
    o.require_apart_from_files(context, out)
    o.require_as_saved(context, inputs)
    selection = Selection(hidden, follow_links)
    shown, threads = o.progress(), o.workers_or_cores(workers)

    def settings_with(spec: Any) -> RunOptions:
        settings = RunOptions(
            spec=spec, threshold=threshold, distance=distance, recall=recall, bands=bands, rows=rows, tables=tables,
            probes=probes, verify=verify, block_by=block_by, hot_bucket_size=max_bucket, fanout=fanout,
            memory=parse_size(memory), workers=threads,
        )  # fmt: skip
        parse_relation(relation, settings, expand_exact=expand_exact)
        return settings

    try:
        prepared = resolve_inputs(
            tuple(inputs), columns, asked, on_error, threads, out, shown, check=settings_with, selection=selection
        )
        columns, resources = prepared.columns, prepared.resources
        settings = settings_with(prepared.spec)
        job = Job(
            tuple(inputs), out, columns, settings, resume=resume, overwrite=overwrite, on_error=on_error,
            resources=resources, selection=selection, statuses=prepared.statuses,
            readers=Readers(readable_by),
        )  # fmt: skip
        summary = run_pairs(job, shown, relation, expand_exact=expand_exact)
    finally:
        shown.close()
    o.show_warnings(summary.get("warnings", ()))
    if json:
        o.print_json(summary)
    else:
        sys.stderr.write(f"{summary['pairs']:,} verified pairs in {out}\n")
    if sketched := summary["stages"].get("sketch"):
        o.require_documents(sketched["documents"], sketched["rejected"], "nearkin dedup lists the reasons")
