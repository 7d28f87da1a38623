"""`nearkin sketch`."""

import sys

import typer

from nearkin.cli import options as o
from nearkin.runtime.loading import paused_collector


def sketch(
    context: typer.Context,
    inputs: o.Inputs,
    out: o.Out,
    text: o.Text = None,
    tokens: o.Tokens = None,
    vector: o.Vector = None,
    id_column: o.Id = None,
    measure: o.Measure = None,
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
    memory: o.ReadMemory = o.MEMORY,
    workers: o.Workers = None,
    overwrite: o.Overwrite = False,
    on_error: o.OnError = "quarantine",
    hidden: o.Hidden = False,
    follow_links: o.FollowLinks = False,
    readable_by: o.ReadableBy = "owner",
    json: o.Json = False,
) -> None:
    """Signatures of documents as an Arrow file that carries its Spec: id, signature, shingles.

    Examples:

        nearkin sketch docs.parquet --out docs.signatures.arrow

        nearkin sketch "crawl/*.jsonl.zst" --shingle chars:5 --k 256 --out crawl.signatures.arrow
    """
    with paused_collector():
        from nearkin.corpus.inputs import Selection
        from nearkin.engine.options import parse_size
        from nearkin.runs.output import require_file_output
        from nearkin.runs.sketch import SketchJob, run_sketch
        from nearkin.runs.spec_request import resolve_inputs
        from nearkin.runtime.files import Readers
        from nearkin.sketch.signature_file import is_signature_file

    options = o.SpecOptions.of(context.params)
    asked = options.asked()
    columns = o.columns(text, tokens, vector, id_column, ()).with_memory(parse_size(memory))
    require_file_output(out, is_signature_file, "a signature file", inputs, overwrite=overwrite)
    o.require_apart_from_files(context, out)
    selection = Selection(hidden, follow_links)
    shown, threads = o.progress(), o.workers_or_cores(workers)
    try:
        prepared = resolve_inputs(tuple(inputs), columns, asked, on_error, threads, out, shown, selection=selection)
        columns, spec, resources = prepared.columns, prepared.spec, prepared.resources
        job = SketchJob(
            tuple(inputs),
            out,
            columns,
            spec,
            workers=threads,
            overwrite=overwrite,
            on_error=on_error,
            resources=resources,
            selection=selection,
            readers=Readers(readable_by),
        )
        summary = run_sketch(job, shown)
    finally:
        shown.close()
    o.show_warnings(summary.get("warnings", ()))
    if json:
        o.print_json(summary)
    else:
        sys.stderr.write(f"{summary['documents']:,} signatures in {out} ({summary['rejected']:,} rows rejected)\n")
    reasons = ", ".join(summary["reasons"])
    o.require_documents(summary["documents"], summary["rejected"], f"reasons: {reasons}")
