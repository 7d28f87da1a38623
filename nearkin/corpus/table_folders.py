"""Folders of Delta Lake, Iceberg, Hudi and Lance tables, whose files must not be read one by one.

Such a folder also has the files of older versions, with rows that the table does not have any more.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from nearkin.corpus.file_names import format_path, hide_password
from nearkin.errors import UsageError

ICEBERG_METADATA = re.compile(r"(v\d+|\d+-[0-9A-Fa-f-]+)(\.gz)?\.metadata\.json(\.gz)?")
"""The name of a file with the metadata of a version of an Iceberg table."""
REMOTE_MARKERS = re.compile(
    rf"/(?P<delta>_delta_log)/|/(?P<hudi>\.hoodie)/|/(?P<lance>_versions)/[^/]+\.manifest$"
    rf"|/(?P<iceberg>metadata)/{ICEBERG_METADATA.pattern}$"
)
"""The part of a path in object storage that shows that the folder above it is a table."""


class TableFormat(Enum):
    """A format of tables that consist of a folder. The value is its name in messages."""

    DELTA = "Delta"
    ICEBERG = "Iceberg"
    LANCE = "Lance"
    HUDI = "Hudi"


REMEDIES = {
    TableFormat.DELTA: "nk.dedup(deltalake.DeltaTable({path!r}).to_pyarrow_dataset())",
    TableFormat.ICEBERG: "nk.dedup(catalog.load_table(NAME)) with pyiceberg",
    TableFormat.LANCE: "nk.dedup(lance.dataset({path!r}))",
    TableFormat.HUDI: "nk.spark.dedup(spark.read.format('hudi').load({path!r}))",
}
"""How a table is read with the library of its format."""


@dataclass(frozen=True)
class TableFolder:
    """A folder that is a table.

    Attributes:
        path: The path of the folder, or its URL.
        format: The format of the table.
    """

    path: str
    format: TableFormat

    @property
    def is_remote(self) -> bool:
        """True if the path is a URL."""
        return "://" in self.path

    @property
    def description(self) -> str:
        """The format and the path, for messages."""
        return f"the {self.format.value} table {format_path(hide_password(self.path))}"

    def make_error(self) -> UsageError:
        """Returns the error for a table whose files cannot be listed here, with the remedy."""
        remedy = REMEDIES[self.format].format(path=format_path(hide_password(self.path)))
        return UsageError(
            f"cannot read {self.description} as files: they also hold rows that were removed; "
            f"use {remedy}, or leave the table out"
        )


def is_iceberg_metadata(path: str) -> bool:
    """Returns whether a path is that of a file with the metadata of an Iceberg table.

    Examples:
        >>> is_iceberg_metadata("/t/metadata/v3.metadata.json"), is_iceberg_metadata("/t/a.json")
        (True, False)
    """
    folder, _, name = path.rpartition("/")
    return folder.endswith("/metadata") and ICEBERG_METADATA.fullmatch(name) is not None


def detect_table(folder: str) -> TableFolder | None:
    """Returns the table that a local folder is, or None."""
    if os.path.isdir(f"{folder}/_delta_log"):  # noqa: PTH112
        return TableFolder(folder, TableFormat.DELTA)
    if os.path.isdir(f"{folder}/.hoodie"):  # noqa: PTH112
        return TableFolder(folder, TableFormat.HUDI)
    manifests = (name.endswith(".manifest") for name in list_names(f"{folder}/_versions"))
    if folder.endswith(".lance") or any(manifests):
        return TableFolder(folder, TableFormat.LANCE)
    if any(map(ICEBERG_METADATA.fullmatch, list_names(f"{folder}/metadata"))):
        return TableFolder(folder, TableFormat.ICEBERG)
    return None


def find_table(folder: str) -> TableFolder | None:
    """Returns the table that a local folder belongs to: that of the folder or of one above it."""
    while folder != "/":
        table = detect_table(folder)
        if table is not None:
            return table
        folder = os.path.dirname(folder)  # noqa: PTH120
    return None


def find_remote_tables(folder: str, names: Iterable[str]) -> list[TableFolder]:
    """Returns the tables among listed paths, with their paths in the file system.

    A table inside the folder of another one is left out.

    Examples:
        >>> find_remote_tables("box", ["box/a.csv", "box/t/_delta_log/0.json", "box/t/1.parquet"])
        [TableFolder(path='box/t', format=<TableFormat.DELTA: 'Delta'>)]
    """
    tables: dict[str, TableFolder] = {}
    for name in names:
        match = REMOTE_MARKERS.search(name, len(folder.rstrip("/")))
        if match is not None:
            kind = next(key for key, value in match.groupdict().items() if value is not None)
            path = name[: match.start()]
            tables.setdefault(path, TableFolder(path, TableFormat[kind.upper()]))
    paths = tuple(f"{path}/" for path in tables)
    return [
        table for table in tables.values() if not any(table.path.startswith(path) for path in paths)
    ]


def list_names(folder: str) -> list[str]:
    """Returns the names in a folder, or none if it does not exist or cannot be listed."""
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
