"""`nearkin decontaminate`."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_brief, print_json, repeat_command, require_documents
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_format import format_count
from nearkin.runtime.number_range import SHARE
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.setting_names import flag_of
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.runtime.visible_text import make_visible
from nearkin.settings.setting import COLUMN, INPUT, OUTPUT, RUN, SIMILARITY, setting
from nearkin.settings.table import ColumnSettings, RunReadSettings, names_of

if TYPE_CHECKING:
    from nearkin.texts.decontamination.suites import Suites

TOO_CONTAMINATED = 3
"""The exit code if more of a suite is contaminated than allowed."""
SEARCH_OPTIONS = (
    "against",
    "field_thresholds",
    "action",
    "cut_unit",
    "fail_above",
    "out",
    "resume",
    "workers",
    *names_of(ColumnSettings, RunReadSettings),
)
"""The options of a search for items, which have no effect when suites are saved."""


@with_option_groups
def decontaminate(
    *,
    given: GivenOptions,
    inputs: Annotated[
        list[str],
        typer.Argument(help="Files, globs, folders or URLs of documents; of suites with --build."),
    ],
    columns: o.ColumnOptions,
    reading: o.RunReadOptions,
    against: list[str] | None = setting(
        None,
        "File, glob, folder or URL of suites: tables of items, or saved suites. May be repeated.",
        INPUT,
        common=True,
        metavar="SUITE",
    ),
    suite_fields: str = setting(
        "question,answer,context,options",
        "Columns of the texts of an item. A suite needs at least one of them.",
        INPUT,
        metavar="COLUMNS",
    ),
    suite_id: str | None = setting(
        None,
        "Column of the ids of items.",
        INPUT,
        metavar=COLUMN,
        shown_default="row numbers",
        names_columns=True,
    ),
    operating_point: str = setting(
        "longest",
        "What counts as a passage: longest (8 words, one gap) or exact (13 words, none).",
        SIMILARITY,
        common=True,
        metavar="NAME",
    ),
    field_thresholds: list[str] | None = setting(
        None,
        "Smallest score at which a field counts as found, for example context=0.95. May be "
        "repeated.",
        SIMILARITY,
        metavar="FIELD=SCORE",
        shown_default="0.7; context=0.9",
    ),
    action: str | None = setting(
        None,
        "Also write the documents: annotate (with the items that they contain), cut (without the "
        "passages of items), or drop (without contaminated documents).",
        OUTPUT,
        common=True,
        metavar="ACTION",
    ),
    cut_unit: str | None = setting(
        None,
        "What is cut with --action cut: passage (the words), or each sentence, line or paragraph "
        "of which every word is to be cut.",
        OUTPUT,
        metavar="UNIT",
        shown_default="passage",
    ),
    out: Path | None = setting(
        None, "Output folder.", OUTPUT, common=True, short="-o", metavar="PATH"
    ),
    fail_above: float | None = setting(
        None,
        "End with exit code 3 if a larger share of the items of a suite is contaminated.",
        OUTPUT,
        common=True,
        metavar="SHARE",
        range=SHARE,
    ),
    build: Path | None = setting(
        None,
        "Save the suites that are named as inputs in this file, and search for nothing.",
        RUN,
        metavar="FILE",
    ),
    keyed: bool = setting(
        False,
        "Save fingerprints under the key of --key-file in place of words, so that the file can be "
        "shared without its texts.",
        RUN,
    ),
    key_file: str | None = None,
    overwrite: bool = False,
    readable_by: str = "owner",
    json: bool = False,
    quiet: bool = False,
    memory: str = AUTOMATIC,
    workers: int | None = None,
    resume: bool = False,
) -> None:
    """Find the items of benchmark suites in a corpus.

    What contains them is listed, cut or dropped. A suite is a file of items with named fields, such
    as question and answer. A document contains an item if the words that it shares with a field, in
    order, cover enough of it. Rare words count more.

    Examples:
        nearkin decontaminate "crawl/*.jsonl.zst" --against suites/ --out found/

        nearkin decontaminate docs.parquet --against gsm8k.jsonl --action drop --out clean/

        nearkin decontaminate train.jsonl --against test.jsonl --fail-above 0 --out leaks/

        nearkin decontaminate suites/ --build suites.arrow --keyed --key-file key.txt
    """
    with file_imports():
        from nearkin.engine.options import RunOptions
        from nearkin.errors import UsageError
        from nearkin.runs.decontamination import (
            require_suites_output,
            run_decontamination,
            save_suites,
        )
        from nearkin.runs.job import Job
        from nearkin.runtime.files import Readers
        from nearkin.runtime.sizes import parse_memory
        from nearkin.stages.sketch.resources import SpecResources
        from nearkin.texts.decontamination.request import DecontaminationRequest
        from nearkin.texts.decontamination.suite_inputs import (
            SuiteColumns,
            open_suites,
            parse_suite_fields,
        )
        from nearkin.texts.decontamination.suites import require_keyed

    suite_columns = SuiteColumns(parse_suite_fields(suite_fields), suite_id)
    key = o.read_key(key_file)
    memory_bytes = parse_memory(memory)
    if build is not None:
        given.require_unused(
            SEARCH_OPTIONS,
            "with --build, which saves suites and searches for nothing",
        )
        if keyed:
            key = require_keyed(key)
        else:
            given.require_unused(("operating_point",), "without --keyed: words fit all of them")
        request = DecontaminationRequest.parse(operating_point)
        require_suites_output(build, inputs, overwrite=overwrite)
        suites = open_suites(inputs, suite_columns, key, memory_bytes)
        if keyed:
            suites = suites.without_words(request.point.least)
        save_suites(build, suites, Readers(readable_by), overwrite=overwrite)
        _print_saved(build, suites, as_json=json)
        return
    if keyed:
        raise UsageError("--keyed has no effect without --build; leave it out")
    if against is None or out is None:
        missing = "--against SUITE" if against is None else "--out DIR"
        raise UsageError(f"{missing} is missing; to save suites, give --build FILE")
    request = DecontaminationRequest.parse(
        operating_point, _parse_thresholds(field_thresholds or []), action, cut_unit
    )
    requested_columns = columns.to_columns(memory=memory)
    hash_inputs = reading.parse_hash_inputs()
    suites = open_suites(against, suite_columns, key, memory_bytes)
    threads = workers_or_cores(workers)
    job = Job(
        tuple(inputs),
        out,
        requested_columns,
        RunOptions(spec=suites.spec, memory=memory_bytes, workers=threads),
        resume=resume,
        overwrite=overwrite,
        on_error=reading.on_error,
        hash_inputs=hash_inputs,
        selection=reading.selection,
        readers=Readers(readable_by),
        resources=SpecResources(key),
    )
    with closing(o.open_progress(quiet=quiet)) as progress:
        summary = run_decontamination(job, suites, request, progress, against)
    if json:
        print_json(summary.to_json())
    elif quiet:
        from nearkin.reports.terminal.decontamination import describe_decontamination

        print_brief(describe_decontamination(summary.counts), summary.warnings)
    else:
        from rich.console import Console

        from nearkin.reports.terminal.decontamination import print_decontamination

        found_only = "cuts" not in summary.counts and "documents_removed" not in summary.counts
        remove = repeat_command("--action", "drop", *(() if overwrite else ("--overwrite",)))
        print_decontamination(
            summary.counts,
            summary.suites,
            summary.warnings,
            out,
            Console(stderr=True),
            remove if found_only and summary.counts["contaminated_documents"] else (),
        )
    counts = summary.counts
    require_documents(counts["documents"], counts["rejected"], f"see {out / 'rejected.jsonl'}")
    if fail_above is not None and (above := summary.suites_above(fail_above)):
        names = ", ".join(str(suite["suite"]) for suite in above)
        print_line(
            f"nearkin: more than {flag_of('fail_above')} {fail_above:g} of the items of "
            f"{format_count(len(above), 'suite')} are contaminated: {make_visible(names)}"
        )
        raise typer.Exit(TOO_CONTAMINATED)


def _parse_thresholds(texts: list[str]) -> dict[str, float]:
    """Returns the smallest scores of fields, by their names."""
    from nearkin.errors import UsageError

    thresholds = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            thresholds[name.strip()] = float(number)
        except ValueError as error:
            raise UsageError(
                f"--field-threshold {text!r} is not of the form context=0.9"
            ) from error
    return thresholds


def _print_saved(path: Path, suites: "Suites", *, as_json: bool) -> None:
    """Prints what was saved."""
    rows = sum(suite.items for suite in suites.suites)
    if as_json:
        print_json(
            {
                "out": str(path),
                "suites": list(suites.names),
                "items": rows,
                "different_items": suites.items.num_rows,
                "fingerprint": suites.fingerprint,
                "keyed": suites.width is not None,
            }
        )
        return
    content = "their words" if suites.width is None else f"fingerprints of {suites.width} words"
    print_line(
        f"{path} holds {format_count(suites.items.num_rows, 'different item')} of "
        f"{format_count(len(suites.suites), 'suite')} ({format_count(rows, 'row')}) with "
        f"{content}"
    )
