"""Folders of Delta Lake, Iceberg, Hudi and Lance tables, whose files must not be read one by one.

Such a folder also has the files of older versions, with rows that the table does not have any more.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import unquote

from nearkin.corpus.file_names import format_path
from nearkin.errors import MissingExtraError, UsageError

ICEBERG_METADATA = re.compile(r"(v\d+|\d+-[0-9A-Fa-f-]+)(\.gz)?\.metadata\.json(\.gz)?")
"""The name of a file with the metadata of a version of an Iceberg table."""
REMOTE_MARKERS = re.compile(
    rf"/(?P<delta>_delta_log)/|/(?P<hudi>\.hoodie)/|/(?P<lance>_versions)/[^/]+\.manifest$"
    rf"|/(?P<iceberg>metadata)/{ICEBERG_METADATA.pattern}$"
)
"""The part of a path in object storage that shows that the folder above it is a table."""
SIMPLE_READER_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""The features of Delta tables with which the data files hold the rows as they are."""
FULL_READER = (
    'pyarrow.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t"))'
)
"""The call that reads Delta tables with features that change rows or names of columns."""


class TableFormat(Enum):
    """A format of tables that consist of a folder. The value is its name in messages."""

    DELTA = "Delta"
    ICEBERG = "Iceberg"
    LANCE = "Lance"
    HUDI = "Hudi"


REMEDIES = {
    TableFormat.DELTA: "nk.dedup(deltalake.DeltaTable({path!r}).to_pyarrow_dataset())",
    TableFormat.ICEBERG: "nk.dedup(catalog.load_table(NAME).scan().to_arrow()) with pyiceberg",
    TableFormat.LANCE: "nk.dedup(lance.dataset({path!r}).to_table())",
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
    def description(self) -> str:
        """The format and the path, for messages."""
        return f"the {self.format.value} table {format_path(self.path)}"

    def make_error(self) -> UsageError:
        """Returns the error for a table whose files cannot be listed here, with the remedy."""
        remedy = REMEDIES[self.format].format(path=format_path(self.path))
        return UsageError(
            f"cannot read {self.description} as files: they also hold rows that were removed; "
            f"use {remedy}, or leave the table out"
        )


def detect_table(folder: str) -> TableFolder | None:
    """Returns the table that a local folder is, or None.

    Args:
        folder: The path of the folder.
    """
    if os.path.isdir(f"{folder}/_delta_log"):  # noqa: PTH112
        return TableFolder(folder, TableFormat.DELTA)
    if os.path.isdir(f"{folder}/.hoodie"):  # noqa: PTH112
        return TableFolder(folder, TableFormat.HUDI)
    manifests = (name.endswith(".manifest") for name in _list_names(f"{folder}/_versions"))
    if folder.endswith(".lance") or any(manifests):
        return TableFolder(folder, TableFormat.LANCE)
    if any(map(ICEBERG_METADATA.fullmatch, _list_names(f"{folder}/metadata"))):
        return TableFolder(folder, TableFormat.ICEBERG)
    return None


def find_table(folder: str) -> TableFolder | None:
    """Returns the table that a local folder belongs to: that of the folder or of one above it.

    Args:
        folder: The absolute path of the folder, without links.
    """
    while folder != "/":
        table = detect_table(folder)
        if table is not None:
            return table
        folder = os.path.dirname(folder)  # noqa: PTH120
    return None


def find_remote_table(folder: str, names: Iterable[str]) -> TableFolder | None:
    """Returns the first table among listed paths, with its path in the file system, or None.

    Args:
        folder: The path of the folder that was listed.
        names: The paths of all files below it.

    Examples:
        >>> find_remote_table("box", ["box/a.csv", "box/t/_delta_log/0.json", "box/t/1.parquet"])
        TableFolder(path='box/t', format=<TableFormat.DELTA: 'Delta'>)
    """
    for name in names:
        match = REMOTE_MARKERS.search(name, len(folder.rstrip("/")))
        if match is not None:
            kind = next(key for key, value in match.groupdict().items() if value is not None)
            return TableFolder(name[: match.start()], TableFormat[kind.upper()])
    return None


def list_table_files(table: TableFolder) -> list[str]:
    """Returns the paths of the data files of the newest version of a local table.

    Args:
        table: The table. Only Delta tables can be listed.

    Raises:
        UsageError: If the format is not Delta, the table cannot be read, a data file is missing,
            or the data files do not hold the rows as they are.
        MissingExtraError: If deltalake is not installed.
    """
    if table.format is not TableFormat.DELTA:
        raise table.make_error()
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        need = (
            f"cannot read {table.description} as files: they also hold rows that were removed; "
            "its newest version requires deltalake"
        )
        raise MissingExtraError.for_extra(need, "delta") from error
    try:
        delta = DeltaTable(table.path)
        _require_plain_files(table, delta)
        entries = _read_paths(delta)
    except (DeltaError, OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise UsageError(
            f"cannot read {table.description}: {reason}; repair it, or leave it out"
        ) from error
    return [_locate_file(table, entry) for entry in entries]


def _require_plain_files(table: TableFolder, delta: Any) -> None:
    """Refuses a Delta table whose rows or columns differ from those of its data files."""
    features = set(delta.protocol().reader_features or ())
    mode = delta.metadata().configuration.get("delta.columnMapping.mode", "none")
    reason = ""
    if mode != "none":
        reason = f"column mapping (delta.columnMapping.mode = {mode})"
    elif "deletionVectors" in features and any(
        batch.num_rows for batch in delta.deletion_vectors()
    ):
        reason = "deletion vectors, which remove rows of its data files"
    elif others := features - SIMPLE_READER_FEATURES - {"deletionVectors", "columnMapping"}:
        reason = f"the features {', '.join(sorted(others))}"
    if reason:
        raise UsageError(
            f"{table.description} has {reason}; load it with "
            f"table = deltalake.DeltaTable({format_path(table.path)!r}) and read {FULL_READER}"
        )


def _read_paths(delta: Any) -> list[str]:
    """Returns the paths of the data files as the log has them: relative, and encoded as in URLs."""
    import pyarrow as pa

    paths: list[str] = pa.table(delta.get_add_actions()).column("path").to_pylist()
    return paths


def _locate_file(table: TableFolder, entry: str) -> str:
    """Returns the path of a data file of a Delta table.

    Args:
        table: The table.
        entry: The path of the file in the log.

    Raises:
        UsageError: If the file is not below the folder of the table, or is missing.
    """
    name = unquote(entry)
    if "://" in entry or name.startswith(("/", "file:")) or ".." in name.split("/"):
        raise UsageError(
            f"{table.description} has data files outside of its folder ({name[:200]}), as "
            f"clones do; read it with {REMEDIES[table.format].format(path=table.path)}"
        )
    path = f"{table.path}/{name}"
    if not os.path.isfile(path):  # noqa: PTH113
        raise UsageError(
            f"{format_path(path)} is missing, which is a data file of {table.description}; repair "
            "the table, for example with deltalake.DeltaTable.repair"
        )
    return path


def _list_names(folder: str) -> list[str]:
    """Returns the names in a folder, or none if it does not exist or cannot be listed."""
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
