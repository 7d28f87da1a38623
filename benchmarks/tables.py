"""Tables of a page in docs/, each made by a function, printed, recorded, and written between its marks."""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.pages import described
from nearkin.lab.bench import machine


class Table(NamedTuple):
    """One table of the page."""

    name: str
    note: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def markdown(self) -> str:
        """As the page shows it."""
        lines = [f"| {' | '.join(row)} |" for row in (self.columns, ("---",) * len(self.columns), *self.rows)]
        return f"{self.note}\n\n" + "\n".join(lines) + "\n"


def write_page(path: Path, tables: Sequence[Table], where: str) -> None:
    """Writes tables between their marks in a page, and leaves out those that have no marks there."""
    page = path.read_text("utf-8")
    for name, text in (*((table.name, table.markdown()) for table in tables), ("machine", where)):
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin not in page:
            continue
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}{text}{end}{after}"
    path.write_text(page, "utf-8")


def main(about: str | None, makers: Sequence[Callable[[bool], Table]], record: Path, *pages: Path) -> None:
    """The command line of a script of tables."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("tables", nargs="*", help="only these")
    asked = parser.parse_args()
    found = []
    for make in makers:
        if not asked.tables or make.__name__ in asked.tables:
            found.append(make(asked.full))
            print(f"{found[-1].name}\n{found[-1].markdown()}", flush=True)
    if asked.write:
        # tables that were not asked for stay as they were
        made = {table.name: table._asdict() for table in found}
        kept = json.loads(record.read_bytes())["tables"] if record.exists() and asked.tables else []
        old = {table["name"]: table for table in kept}
        facts = {"machine": machine(), "tables": list({**old, **made}.values())}
        record.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", "utf-8")
        for page in pages:
            write_page(page, found, described(machine()))
