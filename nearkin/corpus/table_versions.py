"""Versions of Delta, Iceberg and Lance tables: their files, and errors of their libraries."""

import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypedDict

from nearkin.corpus.file_names import format_path, hide_password
from nearkin.corpus.table_folders import REMEDIES, TableFolder, TableFormat
from nearkin.errors import MissingExtraError, UsageError

LIBRARIES = {
    TableFormat.DELTA: "deltalake",
    TableFormat.ICEBERG: "pyiceberg",
    TableFormat.LANCE: "lance",
}
"""The library that reads each format, which is also the name of its extra in lower case."""
RUST_PLACE = re.compile(r"(, \S+\.rs:\d+(:\d+)?)+\s*$")
"""The places in the source code at the end of messages of Lance."""
UNREADABLE_TABLE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    SystemError,
    struct.error,
    zlib.error,
)
"""The exceptions that the libraries raise for damaged tables."""


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
        is_newest: Whether the newest version was requested, and not a named one.
    """

    table: TableFolder
    number: int | None
    files: tuple[str, ...]
    is_newest: bool = True

    @property
    def record(self) -> TableRecord:
        """The entry in run.json."""
        return TableRecord(
            path=format_path(hide_password(self.table.path)),
            format=self.table.format.value,
            version=self.number,
        )


@contextmanager
def panic_errors() -> Iterator[None]:
    """Translates panics of libraries in Rust, which are not subclasses of Exception.

    Raises:
        ValueError: If the library panics, for example over a damaged file.
    """
    try:
        yield
    except BaseException as error:
        # Each library has a class of its own, which cannot be imported.
        if type(error).__name__ == "PanicException":
            raise ValueError(str(error)) from error
        raise


@contextmanager
def table_library_errors(table: TableFolder) -> Iterator[None]:
    """Translates errors of the library of a table.

    Args:
        table: The table that is read.

    Raises:
        UsageError: If the library cannot read the table.
        MissingExtraError: If the library is not installed.
    """
    try:
        with panic_errors():
            yield
    except UsageError:
        raise
    except ImportError as error:
        need = (
            f"cannot read {table.description} as files: they also hold rows that were removed; "
            f"reading its newest version requires {LIBRARIES[table.format]}"
        )
        raise MissingExtraError.for_extra(need, table.format.value.lower()) from error
    except UNREADABLE_TABLE as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        reason = RUST_PLACE.sub("", reason)[:300]
        raise UsageError(
            f"cannot read {table.description}: {reason}; repair it, or leave it out"
        ) from error


def locate_file(table: TableFolder, name: str) -> str:
    """Returns the path of a data file of a table, or its URL.

    Args:
        table: The table.
        name: The path of the file relative to the folder of the table.

    Raises:
        UsageError: If the file is not below the folder of the table, or a local one is missing.
    """
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
    """Returns the error for a data file that does not exist.

    Args:
        table: The table.
        path: The path or the URL of the file.
    """
    return UsageError(
        f"{format_path(hide_password(path))} is missing, which is a data file of "
        f"{table.description}; repair or restore the table"
    )
