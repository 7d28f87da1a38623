"""`nearkin pairs`."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nearkin.cli import options as o
from nearkin.cli.dry_run import count_nothing, ends_as_dry_run
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.jobs import make_job
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_inputs, print_json, print_main_warnings, require_documents
from nearkin.cli.saved_runs import require_as_saved
from nearkin.cli.standard_files import StandardFiles, copy_file, with_standard_files
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_format import format_count, format_percent
from nearkin.settings.setting import OUTPUT, VERIFICATION, Need, setting
from nearkin.settings.table import ClusterSettings, OutputSettings, SignatureSettings

if TYPE_CHECKING:
    from nearkin.engine.stats import MissingPairsStats

OF_SIMILARITY = {
    name: Need("relation", ("similarity",))
    for name in (
        *("bands", "rows", "tables", "probes", "fanout", "verify"),
        *("k", "slot_bits", "scheme", "seed", "expand_exact"),
    )
}
"""The options that have no effect on containment, whose search has no bands."""


def describe_missing(missing: "MissingPairsStats | None") -> str:
    """Returns the end of the summary line, which says how many pairs are missing if some are."""
    if missing is None:
        return ""
    share = format_percent(missing.share)
    return f"; an estimated {missing.pairs:,} more are missing ({share} of all pairs)"


@partial(with_option_groups, needs=OF_SIMILARITY)
@partial(with_standard_files, result="pairs.jsonl", write_rows=copy_file)
def pairs(
    *,
    given: GivenOptions,
    standard: StandardFiles,
    inputs: o.StandardInputs,
    columns: o.FieldColumnOptions,
    reading: o.RunReadOptions,
    spec: SignatureSettings,
    match: o.MatchOptions,
    output: OutputSettings,
    relation: str = setting(
        "similarity",
        "Relation of the reported pairs: similarity, or containment of documents in larger ones.",
        VERIFICATION,
        common=True,
        values=("similarity", "containment"),
    ),
    accept: str = setting(
        "similar",
        "Condition of the reported pairs in place of --threshold, for example 'containment >= 0.8 "
        "and witness >= 30', about the contained or shorter document in the other one; or safe, "
        "contained, or similar (the threshold decides). With --field, 'title and (body or image)'.",
        VERIFICATION,
        metavar="EXPR",
    ),
    expand_exact: bool = setting(
        False, "List every member of a group of exact duplicates, instead of one for all.", OUTPUT
    ),
    settings: Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
) -> None:
    """Write all pairs of near-duplicates into a file.

    Every pair is verified. The file is .parquet, .csv, .tsv, .jsonl or .arrow. Its columns are id_a, id_b, similarity and estimate, and distance for simhash, cosine and hamming. Exact duplicates
    are represented by one of them unless --expand-exact is given.

    Examples:
        nearkin pairs docs.parquet --out pairs.parquet

        nearkin pairs docs.csv --text title,body --out pairs.csv

        nearkin pairs docs.parquet --threshold 0.5 --bands 42 --rows 3 --out pairs.parquet

        nearkin pairs docs.parquet --relation containment --threshold 0.9 --out contained.parquet

        nearkin pairs docs.parquet --vector embedding --threshold 0.95 --out pairs.parquet
    """  # noqa: E501
    with file_imports():
        from nearkin.runs.pairs import (
            Relation,
            describe_copies,
            require_listable,
            require_pairs_output,
            run_pairs,
        )
        from nearkin.runs.resolved_run import resolve_inputs

    out = output.out
    clustering = ClusterSettings(accept=accept)
    parameters = o.parameters_of(columns, spec, match, clustering, given=given.names)
    requested_columns = columns.to_columns(match.memory)
    require_pairs_output(out, tuple(inputs), resume=resume, overwrite=output.overwrite)
    o.require_apart_from_files(out, spec, settings=settings)
    require_as_saved(given, inputs, columns, spec)
    with closing(o.open_progress(quiet=output.quiet)) as progress:
        inputs = standard.read_inputs(inputs, requested_columns)
        resolved = resolve_inputs(
            tuple(inputs),
            requested_columns,
            parameters,
            out,
            progress,
            partial(require_listable, relation, expand_exact=expand_exact),
            on_error=reading.on_error,
            selection=reading.selection,
            count=count_nothing if dry_run else None,
        )
        if ends_as_dry_run(resolved, given, dry_run=dry_run, as_json=output.json):
            return
        job = make_job(inputs, resolved, reading, output, resume=resume)
        summary = run_pairs(job, progress, relation, expand_exact=expand_exact)
    print_main_warnings(summary.warnings)
    if output.json:
        print_json(summary.to_json())
    else:
        if not output.quiet:
            print_inputs(resolved.account)
        can_be_listed = relation == Relation.SIMILARITY and job.settings.acceptance is None
        copies = describe_copies(summary.copies, can_be_listed=can_be_listed)
        missing = describe_missing(summary.missing)
        shown = standard.name_output(out)
        found = format_count(summary.pairs, "verified pair")
        print_line(f"{found} in {shown}{copies}{missing}")
    sketch_stats = summary.stages.get("sketch")
    if sketch_stats:
        advice = "nearkin dedup lists the reasons"
        require_documents(sketch_stats["documents"], sketch_stats["rejected"], advice)
