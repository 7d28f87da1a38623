"""The tables of docs/server.md that follow from the code: settings of the server and of its index, codes of problems.

Run: python -m scripts.server_tables    (a test looks whether the page is current)
"""

import inspect
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from nearkin.index.settings import SERVER_TIMES, IndexSettings
from nearkin.server.problems import CODES
from nearkin.server.settings import PREFIX, ServerSettings

PAGE = Path(__file__).parent.parent / "docs" / "server.md"
ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
SPECIAL = {
    "shingle": "`words:3` or `chars:5`, and so on.",
    "k": "Slots of a signature.",
    "seed": "Of the signatures.",
    "dimensions": "Of vectors; with `--kind vector`.",
}


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """As Markdown."""
    escaped = [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ("---",) * len(columns), *escaped)) + "\n"


def default_of(value: Any) -> str:
    """As a reader would write it."""
    if value is None or value == {}:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def server_settings() -> str:
    """A row for each setting of `nearkin serve`."""
    rows = []
    for name, field in ServerSettings.model_fields.items():
        flag = f"--{name.replace('_', '-')}"
        both = f"`{flag}`, `--no-{flag[2:]}`" if field.annotation is bool else f"`{flag}`"
        rows.append((both, f"`{PREFIX}{name.upper()}`", default_of(field.default), str(field.description)))
    return table(("flag", "variable", "default", "what it is"), rows)


def index_settings() -> str:
    """A row for each setting of the index that a server opens."""
    about = {name: re.sub(r"\s+", " ", text) for name, text in ATTRIBUTE.findall(inspect.getdoc(IndexSettings) or "")}
    rows = [(f"`{name}`", "", text) for name, text in SPECIAL.items()]
    for field in fields(IndexSettings):
        if field.name != "spec":
            value = SERVER_TIMES.get(field.name, None if field.default is MISSING else field.default)
            rows.append((f"`{field.name}`", default_of(value), about[field.name]))
    return table(("name", "default", "what it is"), rows)


def problem_codes() -> str:
    """A row for each kind of problem."""
    return table(("code", "status", "meaning"), [(f"`{code}`", str(status), title) for code, (status, title) in CODES.items()])


TABLES = {"settings": server_settings, "index-settings": index_settings, "problems": problem_codes}


def current(page: str) -> str:
    """The page with its tables as they follow from the code."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}{make()}{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text("utf-8")), "utf-8")
