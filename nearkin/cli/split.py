"""`nearkin split`."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nearkin.cli import options as o
from nearkin.cli.dry_run import count_nothing, ends_as_dry_run
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.jobs import make_job
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_inputs, print_json, print_main_warnings, require_documents
from nearkin.cli.saved_runs import require_as_saved
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_format import format_count, format_percent
from nearkin.runtime.number_range import UNSIGNED_64
from nearkin.settings.setting import OUTPUT, Setting, setting
from nearkin.settings.table import OutputSettings, SignatureSettings

if TYPE_CHECKING:
    from nearkin.engine.split_groups import SplitFacts


@dataclass(frozen=True)
class LeakOptions(o.MatchOptions):
    """The options that decide which pairs a split keeps together, or a check reports."""

    recall: o.LeakRecall = 0.99


@dataclass(frozen=True)
class GroupOptions:
    """The options that describe the groups."""

    groups: Annotated[
        str,
        Setting(
            "Share of each group, separated by commas. They add up to 1.",
            OUTPUT,
            common=True,
            metavar="SHARES",
        ),
    ]
    names: str | None = setting(
        None,
        "Names of the groups, separated by commas.",
        OUTPUT,
        common=True,
        metavar="NAMES",
        shown_default="train,test for two groups; train,validation,test for three",
    )
    group_seed: int = setting(
        0,
        "Seed of the hashes that select groups. Another seed makes another split.",
        OUTPUT,
        metavar="N",
        range=UNSIGNED_64,
    )


@with_option_groups
def split(
    *,
    given: GivenOptions,
    inputs: o.Inputs,
    columns: o.RunColumnOptions,
    reading: o.RunReadOptions,
    spec: SignatureSettings,
    match: LeakOptions,
    groups: GroupOptions,
    output: OutputSettings,
    settings: Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
) -> None:
    """Make training and test sets that share no near-duplicates.

    The output has a folder of each group, with the documents in the format of the inputs, and the table groups.parquet
    (id, group, cluster).

    Examples:
        nearkin split docs.parquet --groups 0.8,0.1,0.1 --out sets/

        nearkin split docs.jsonl --groups 0.5,0.3,0.2 --names a,b,c --threshold 0.7 --out sets/

        nearkin split scans.csv --text report --same patient --groups 0.9,0.1 --out sets/
    """  # noqa: E501
    with file_imports():
        from nearkin.engine.split_groups import SplitGroups, require_splittable
        from nearkin.runs.output import require_output_free
        from nearkin.runs.resolved_run import resolve_inputs
        from nearkin.runs.split import run_split

    out = output.out
    parsed = SplitGroups.parse(groups.groups, groups.names, groups.group_seed)
    requested_columns = columns.to_columns(match.memory)
    require_output_free(out, resume=resume, overwrite=output.overwrite)
    o.require_apart_from_files(out, spec, settings=settings)
    require_as_saved(given, inputs, columns, spec)
    with closing(o.open_progress(quiet=output.quiet)) as progress:
        resolved = resolve_inputs(
            tuple(inputs),
            requested_columns,
            o.parameters_of(columns, spec, match, given=given.names),
            out,
            progress,
            require_splittable,
            on_error=reading.on_error,
            selection=reading.selection,
            count=count_nothing if dry_run else None,
        )
        if ends_as_dry_run(resolved, given, dry_run=dry_run, as_json=output.json):
            return
        job = make_job(inputs, resolved, reading, output, resume=resume)
        record = run_split(job, parsed, progress)
    print_main_warnings(record["warnings"])
    if output.json:
        print_json({**record, "out": str(out)})
    else:
        if not output.quiet:
            print_inputs(resolved.account)
            print_groups(record["facts"], out)
        print_separated(record["facts"])
    rejected = record["rejected"]
    require_documents(record["facts"]["documents"], rejected, f"see {out / 'rejected.jsonl'}")


def print_groups(facts: "SplitFacts", out: Path) -> None:
    """Prints the numbers of the groups and of the largest cluster on standard error."""
    total = max(facts["documents"], 1)
    width = max(len(group["name"]) for group in facts["groups"])
    for group in facts["groups"]:
        documents = "document" if group["documents"] == 1 else "documents"
        clusters = "cluster" if group["clusters"] == 1 else "clusters"
        print_line(
            f"{group['name']:{width}}  {group['documents']:>{len(f'{total:,}')},} {documents} "
            f"({format_percent(group['documents'] / total)}) in {group['clusters']:,} {clusters}: "
            f"{out / group['name']}"
        )
    largest = facts["largest_cluster"]
    if largest is not None and largest["documents"] > 1:
        print_line(
            f"largest cluster: {largest['documents']:,} documents, in {largest['group']} "
            f"(with {largest['id']})"
        )


def print_separated(facts: "SplitFacts") -> None:
    """Prints how many pairs are kept together, and how many a random split would separate."""
    print_line(
        f"{format_count(facts['pairs'], 'pair')} of near-duplicates, none of them between groups; "
        f"a random split of single documents would separate about "
        f"{facts['pairs_of_random_split']:,}"
    )
