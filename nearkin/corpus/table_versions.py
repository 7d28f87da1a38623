"""Versions of Delta, Iceberg and Lance tables: their files, and errors of their libraries."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypedDict

from nearkin.corpus.file_names import format_path, hide_password
from nearkin.corpus.foreign_errors import describe_error, translate_foreign_errors
from nearkin.corpus.table_folders import REMEDIES, TableFolder, TableFormat
from nearkin.errors import MissingExtraError, UsageError

LIBRARIES = {
    TableFormat.DELTA: "deltalake",
    TableFormat.ICEBERG: "pyiceberg",
    TableFormat.LANCE: "lance",
}
"""The library that reads each format, which is also the name of its extra in lower case."""


class TableRecord(TypedDict):
    """A table among the inputs in run.json."""

    path: str
    """The folder."""
    format: str
    """`Delta`, `Iceberg` or `Lance`."""
    version: int | None
    """The number of the version, or the id of the snapshot of an Iceberg table. None if it has no
    snapshot."""


@dataclass(frozen=True)
class TableVersion:
    """The version of a table that a run reads.

    Attributes:
        table: The table.
        number: The number of the version, or the id of the snapshot of an Iceberg table. None if
            an Iceberg table has no snapshot.
        files: The paths of its data files. A Lance table has one file, the manifest of the version.
    """

    table: TableFolder
    number: int | None
    files: tuple[str, ...]

    @property
    def record(self) -> TableRecord:
        """The entry in run.json."""
        return TableRecord(
            path=format_path(hide_password(self.table.path)),
            format=self.table.format.value,
            version=self.number,
        )


@contextmanager
def table_library_errors(table: TableFolder) -> Iterator[None]:
    """Translates errors of the library of a table."""

    def translate(error: BaseException) -> Exception:
        if isinstance(error, ImportError):
            need = (
                f"cannot read {table.description} as files: they also hold rows that were removed; "
                f"reading its newest version requires {LIBRARIES[table.format]}"
            )
            return MissingExtraError.for_extra(need, table.format.value.lower())
        return UsageError(
            f"cannot read {table.description}: {describe_error(error)}; repair it, or leave it out"
        )

    with translate_foreign_errors(translate):
        yield


def locate_file(table: TableFolder, name: str) -> str:
    """Returns the path of a data file of a table, or its URL."""
    if "://" in name or name.startswith(("/", "file:")) or ".." in name.split("/"):
        remedy = REMEDIES[table.format].format(path=hide_password(table.path))
        raise UsageError(
            f"{table.description} has data files outside of its folder ({name[:200]}), as "
            f"clones do; read it with {remedy}"
        )
    path = f"{table.path}/{name}"
    if not table.is_remote and not os.path.isfile(path):  # noqa: PTH113
        raise make_missing_file_error(table, path)
    return path


def make_missing_file_error(table: TableFolder, path: str) -> UsageError:
    """Returns the error for a data file that does not exist."""
    return UsageError(
        f"{format_path(hide_password(path))} is missing, which is a data file of "
        f"{table.description}; repair or restore the table"
    )
