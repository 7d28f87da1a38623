"""`nearkin sketch`."""

import sys

from nearkin.cli import options as o


def sketch(
    inputs: o.Inputs,
    out: o.Out,
    text: o.Text = None,
    tokens: o.Tokens = None,
    id_column: o.Id = None,
    measure: o.Measure = "jaccard",
    shingle: o.Shingle = "words:3",
    normalise: o.Normalise = o.NORMALISE,
    stem: o.Stem = None,
    scheme: o.Scheme = "binned",
    k: o.K = 128,
    seed: o.Seed = 1,
    workers: o.Workers = None,
    overwrite: o.Overwrite = False,
    on_error: o.OnError = "quarantine",
    json: o.Json = False,
) -> None:
    """Signatures of documents as an Arrow file that carries its Spec: id, signature, shingles.

    Examples:

        nearkin sketch docs.parquet --out docs.signatures.arrow

        nearkin sketch "crawl/*.jsonl.zst" --shingle chars:5 --k 256 --out crawl.signatures.arrow
    """
    from nearkin.jobs import SketchJob, sketch_job

    spec = o.SpecOptions(shingle, normalise, stem, scheme, k, seed, measure).spec()
    columns = o.columns(text, tokens, id_column, ())
    shown = o.progress()
    try:
        job = SketchJob(tuple(inputs), out, columns, spec, o.workers_or_cores(workers), overwrite, on_error)
        summary = sketch_job(job, shown)
    finally:
        shown.close()
    if json:
        o.print_json(summary)
    else:
        sys.stderr.write(f"{summary['documents']:,} signatures in {out} ({summary['rejected']:,} rows rejected)\n")
