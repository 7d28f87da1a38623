"""`nearkin pairs`."""

import sys
from typing import Annotated

import typer

from nearkin.cli import options as o


def pairs(
    inputs: o.Inputs,
    out: o.Out,
    text: o.Text = None,
    tokens: o.Tokens = None,
    id_column: o.Id = None,
    measure: o.Measure = "jaccard",
    threshold: o.Threshold = 0.8,
    recall: o.Recall = 0.95,
    shingle: o.Shingle = "words:3",
    normalise: o.Normalise = o.NORMALISE,
    stem: o.Stem = None,
    scheme: o.Scheme = "binned",
    k: o.K = 128,
    seed: o.Seed = 1,
    bands: o.Bands = None,
    rows: o.Rows = None,
    verify: o.Verify = "exact",
    block_by: o.BlockBy = None,
    max_bucket: o.MaxBucket = 100,
    fanout: o.Fanout = 100,
    expand_exact: Annotated[bool, typer.Option("--expand-exact", help="List every member of exact groups.")] = False,
    memory: o.Memory = o.MEMORY,
    workers: o.Workers = None,
    resume: o.Resume = False,
    overwrite: o.Overwrite = False,
    on_error: o.OnError = "quarantine",
    json: o.Json = False,
) -> None:
    """All verified pairs of near-duplicates, as parquet: id_a, id_b, similarity, estimate.

    Exact duplicates are represented by one of them unless --expand-exact is given.

    Examples:

        nearkin pairs docs.parquet --out pairs.parquet

        nearkin pairs docs.parquet --threshold 0.5 --bands 42 --rows 3 --out pairs.parquet
    """
    from nearkin.engine.settings import Settings, parse_size
    from nearkin.jobs import Job, pairs_job

    spec = o.SpecOptions(shingle, normalise, stem, scheme, k, seed, measure).spec()
    settings = Settings(
        spec=spec, threshold=threshold, recall=recall, bands=bands, rows=rows, verify=verify, block_by=block_by,
        max_bucket=max_bucket, fanout=fanout, memory=parse_size(memory), workers=o.workers_or_cores(workers),
    )  # fmt: skip
    columns = o.columns(text, tokens, id_column, settings.extra_columns)
    job = Job(tuple(inputs), out, columns, settings, resume=resume, overwrite=overwrite, on_error=on_error)
    shown = o.progress()
    try:
        summary = pairs_job(job, expand_exact, shown)
    finally:
        shown.close()
    if json:
        o.print_json(summary)
    else:
        sys.stderr.write(f"{summary['pairs']:,} verified pairs in {out}\n")
