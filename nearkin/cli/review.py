"""`nearkin review`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_format import format_count
from nearkin.runtime.number_range import COUNT
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.setting import OUTPUT, RUN, setting

if TYPE_CHECKING:
    from nearkin.runs.review_queue import ReviewQueue
    from nearkin.settings.decisions.files import DecisionFile

DECISIONS = Path("decisions.jsonl")
"""The file of decisions, unless --decisions names one."""


@with_option_groups
def review(
    *,
    given: GivenOptions,
    run: Annotated[Path, typer.Argument(help="Output folder of a run.", metavar="RUN")],
    decisions: Path = setting(
        DECISIONS,
        "File of decisions (JSON lines or CSV), to which each one is appended.",
        OUTPUT,
        metavar="FILE",
    ),
    limit: int = setting(100, "Maximum number of pairs.", RUN, metavar="N", range=COUNT),
    by: str | None = setting(
        None, "Name of who decides.", OUTPUT, metavar="NAME", shown_default="the name of the user"
    ),
    table: Path | None = setting(
        None,
        "Write the pairs into a table with an empty column decision, and ask nothing.",
        OUTPUT,
        metavar="FILE",
    ),
    key_file: str | None = None,
) -> None:
    """Decide about the doubtful pairs of a run.

    They are the pairs nearest to its threshold, the nearest first. Both texts are shown side by side. Press s if they are the same, d if they are different, u to leave the pair, or q to stop.

    Each decision is kept at once, and a pair that is decided is not asked about again. Give the file to `nearkin dedup --decisions`.

    To decide in a spreadsheet, write a table, fill in its column decision (yes or no, duplicate or distinct), and give the table to --decisions of the next run.

    Examples:
        nearkin review deduped/

        nearkin review deduped/ --decisions decisions.csv --by ada

        nearkin review deduped/ --limit 500 --table doubtful.xlsx
    """  # noqa: E501
    with file_imports():
        from nearkin.runs.review_queue import (
            collect_review_queue,
            write_review_table,
        )
        from nearkin.runs.table_files import require_new_table
        from nearkin.settings.decisions.files import DecisionFile

    if table is not None:
        given.require_unused(("by",), f"with {name_setting('table', str(table))}")
        require_new_table(table, "table")
    else:
        _require_terminal()
    file = DecisionFile.open(decisions)
    queue = collect_review_queue(run, file.decisions, limit, o.read_key(key_file))
    if table is not None:
        write_review_table(queue, table)
        more = "; --limit N writes more" if len(queue.pairs) == limit else ""
        print_line(f"{_count_pairs(queue)} in {table}{more}")
        return
    _ask(queue, file, by or _user_name())


def _require_terminal() -> None:
    """Requires a terminal on which to ask."""
    from nearkin.errors import UsageError

    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        if not stream.isatty():
            raise UsageError(
                f"nearkin review asks on a terminal, and standard {name} is not one; run it in a "
                f"terminal, or write the pairs into a table with {name_setting('table')} FILE"
            )


def _ask(queue: "ReviewQueue", file: "DecisionFile", by: str | None) -> None:
    """Asks about the pairs of a queue, and says how many were decided."""
    from rich.console import Console

    from nearkin.runs.review_terminal import ReviewSession
    from nearkin.runtime.files import disk_errors

    def read_key() -> str:
        try:
            return str(typer.getchar())
        except EOFError:
            return ""

    session = ReviewSession(queue, file, by, Console(), read_key)
    with disk_errors(file.path.parent):
        decided = session.ask_all()
    left = len(queue.pairs) - decided
    appended = f"{format_count(decided, 'decision')} appended to {file.path}"
    print_line(f"{appended}; {format_count(left, 'pair')} left")


def _count_pairs(queue: "ReviewQueue") -> str:
    """Describes the number of pairs of a queue."""
    pairs = "1 pair" if len(queue.pairs) == 1 else f"{len(queue.pairs):,} pairs"
    return f"{pairs} ({queue.decided:,} decided before)"


def _user_name() -> str | None:
    """Returns the name of the user, or None if the system does not know it."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None
