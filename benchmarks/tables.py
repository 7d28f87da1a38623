"""Measured tables of pages in docs/: printed, recorded, and written between their marks."""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.pages import describe, table_lines
from nearkin.quality.lab.measurements import describe_machine


class Table(NamedTuple):
    """A table of a page: its name, the note above it, its columns and its rows."""

    name: str
    note: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def markdown(self) -> str:
        """Returns the note and the table as Markdown."""
        return f"{self.note}\n\n{table_lines(self.columns, self.rows)}\n"


def write_page(
    path: Path, tables: Sequence[Table], where: str, machine_mark: str = "machine"
) -> None:
    """Writes tables between their marks in a page.

    Args:
        path: The page.
        tables: Tables to write. Tables without marks in the page are skipped.
        where: Description of the machine, which is written between its own marks.
        machine_mark: Name of the marks of the machine. Records of different machines on one page
            have different ones.
    """
    page = path.read_text("utf-8")
    for name, text in (
        *((table.name, table.markdown()) for table in tables),
        (machine_mark, where),
    ):
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin not in page:
            continue
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}{text}{end}{after}"
    path.write_text(page, "utf-8")


def main(
    about: str | None,
    makers: Sequence[Callable[[bool], Table]],
    record: Path,
    *pages: Path,
    machine_mark: str = "machine",
    arguments: Sequence[str] | None = None,
) -> None:
    """Runs the command line of a script that measures tables.

    Args:
        about: Description of the script.
        makers: Functions that measure a table, with full or quick sizes.
        record: JSON file of all measured tables.
        *pages: Pages that show the tables.
        machine_mark: Name of the marks of the machine in the pages.
        arguments: Arguments of the command line. Those of the process by default.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("tables", nargs="*", help="Names of the tables to measure. All by default.")
    options = parser.parse_args(arguments)
    names = [make.__name__ for make in makers]
    if unknown := set(options.tables) - set(names):
        parser.error(f"unknown table {min(unknown)!r}; the tables are {', '.join(names)}")
    measured = []
    for make in makers:
        if not options.tables or make.__name__ in options.tables:
            measured.append(make(options.full))
            print(f"{measured[-1].name}\n{measured[-1].markdown()}", flush=True)
    if options.write:
        # tables that were not measured stay unchanged
        made = {table.name: table._asdict() for table in measured}
        kept = (
            json.loads(record.read_bytes())["tables"] if record.exists() and options.tables else []
        )
        old = {table["name"]: table for table in kept}
        facts = {"machine": describe_machine(), "tables": list({**old, **made}.values())}
        record.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", "utf-8")
        for page in pages:
            write_page(page, measured, describe(describe_machine()), machine_mark)
