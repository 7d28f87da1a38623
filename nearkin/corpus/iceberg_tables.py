"""Iceberg tables: the data files of the current snapshot of a local table."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.corpus.file_names import format_path
from nearkin.corpus.foreign_errors import describe_error, translate_foreign_errors
from nearkin.corpus.table_folders import ICEBERG_METADATA, TableFolder, list_names
from nearkin.corpus.table_versions import TableVersion, locate_file, table_library_errors
from nearkin.errors import UsageError

READER = "nk.dedup(pyiceberg.table.StaticTable.from_metadata({path!r}))"
"""The call that reads tables whose data files do not hold the rows as they are."""
LOCAL_PREFIX = re.compile(r"file:(//)?(?=/)")
DECODER_LOCK = Lock()
"""The lock of the decoder of pyiceberg, which is a variable of its module."""


def open_iceberg_table(table: TableFolder, metadata: str | None = None) -> TableVersion:
    """Returns a version of a local Iceberg table."""
    path = metadata or _find_newest_metadata(table)
    with table_library_errors(table):
        from pyiceberg.table import StaticTable

        name = format_path(os.path.basename(path))  # noqa: PTH119
        with translate_foreign_errors(
            lambda error: ValueError(
                f"its metadata {name} cannot be read: {_describe_invalid_metadata(error)}"
            )
        ):
            iceberg = StaticTable.from_metadata(path)
        snapshot = iceberg.current_snapshot()
        with bounded_decoder():
            _require_local(table, iceberg)
            files = {} if snapshot is None else _list_data_files(table, iceberg, path)
    for file in files:
        _require_same_columns(table, iceberg, file, path)
    number = None if snapshot is None else int(snapshot.snapshot_id)
    return TableVersion(table, number, tuple(sorted(files)))


def open_scan(scan: Any) -> pa.RecordBatchReader:
    """Returns the reader of a scan of pyiceberg."""
    with (
        translate_foreign_errors(lambda error: ValueError(describe_error(error))),
        bounded_decoder(),
    ):
        return scan.to_arrow_batch_reader()


@contextmanager
def bounded_decoder() -> Iterator[None]:
    """Lets pyiceberg decode manifests in Python, with a check of each length.

    Its compiled decoder (0.12) reads beyond the end of a damaged file, which ends the process.
    """
    from pyiceberg.avro import file
    from pyiceberg.avro.decoder import StreamingBinaryDecoder

    class BoundedDecoder(StreamingBinaryDecoder):  # type: ignore[misc]
        """A decoder that does not skip backwards or beyond the end."""

        def skip(self, n: int) -> None:
            """Skips bytes, which must exist."""
            self.read(n)

    with DECODER_LOCK:
        compiled = file.new_decoder
        file.new_decoder = BoundedDecoder
        try:
            yield
        finally:
            file.new_decoder = compiled


def _describe_invalid_metadata(error: BaseException) -> str:
    """Returns why metadata cannot be read: if fields are not valid, the first one and its fault."""
    from pydantic import ValidationError

    if not isinstance(error.__cause__, ValidationError):
        return str(error)
    first = error.__cause__.errors(include_url=False, include_context=False, include_input=False)[0]
    # The place of a field begins with the version of the format.
    field = ".".join(map(str, first["loc"][1:]))
    return f"{field}: {first['msg']}" if field else first["msg"]


def _find_newest_metadata(table: TableFolder) -> str:
    folder = f"{table.path}/metadata"
    names = [name for name in list_names(folder) if ICEBERG_METADATA.fullmatch(name)]
    numbers = [int(re.match(r"v?(\d+)", name)[1]) for name in names]  # type: ignore[index]
    newest = [name for name, number in zip(names, numbers, strict=True) if number == max(numbers)]
    if len(newest) > 1:
        shown = " and ".join(sorted(newest)[:2])
        raise UsageError(
            f"{table.description} has several files of its newest metadata, {shown}; ask its "
            "catalog which one is current, and give that file as the input"
        )
    return f"{folder}/{newest[0]}"


def _require_local(table: TableFolder, iceberg: Any) -> None:
    snapshot = iceberg.current_snapshot()
    places = [iceberg.metadata.location]
    if snapshot is not None:
        places.append(snapshot.manifest_list or "")
        _require_local_places(table, places)
        places = [manifest.manifest_path for manifest in snapshot.manifests(iceberg.io)]
    _require_local_places(table, places)


def _require_local_places(table: TableFolder, places: list[str]) -> None:
    for place in places:
        if not LOCAL_PREFIX.match(place) and not place.startswith("/"):
            raise UsageError(
                f"{table.description} is a copy: its metadata names {place[:200]!r}; read the "
                "original through its catalog, with "
                "nk.dedup(catalog.load_table(NAME))"
            )


def _list_data_files(table: TableFolder, iceberg: Any, metadata: str) -> dict[str, None]:
    root = os.path.realpath(table.path)
    files: dict[str, None] = {}
    try:
        tasks = list(iceberg.scan().plan_files())
    except (ValueError, NotImplementedError) as error:
        if "delete" in str(error):
            raise _make_reader_error(table, "deletes of rows by value", metadata) from error
        raise
    for task in tasks:
        if task.delete_files:
            raise _make_reader_error(
                table, "delete files, which remove rows of its data files", metadata
            )
        kind = task.file.file_format.name
        if kind != "PARQUET":
            raise _make_reader_error(table, f"data files in the format {kind}", metadata)
        place = os.path.realpath(LOCAL_PREFIX.sub("", task.file.file_path))
        files[locate_file(table, place.removeprefix(f"{root}/"))] = None
    return files


def _require_same_columns(table: TableFolder, iceberg: Any, file: str, metadata: str) -> None:
    """Requires that the columns of a data file are columns of the table, with the same names.

    Columns of Iceberg have ids. A file that was written before a column was renamed or dropped has
    the former name.
    """
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    try:
        stored = pq.read_schema(file)
    except (OSError, pa.ArrowException):
        # A damaged file is rejected when it is read.
        return
    with table_library_errors(table):
        schema = pyarrow_to_schema(stored, name_mapping=iceberg.metadata.name_mapping())
    current = iceberg.schema()
    for field in schema.field_ids:
        name = schema.find_column_name(field)
        if current.find_column_name(field) != name:
            raise _make_reader_error(
                table,
                f"data files from before the column {name!r} was renamed or dropped "
                f"({format_path(file)})",
                metadata,
            )


def _make_reader_error(table: TableFolder, reason: str, metadata: str) -> UsageError:
    reader = READER.format(path=format_path(metadata))
    return UsageError(
        f"{table.description} has {reason}; compact it (for example with rewrite_data_files of "
        f"Spark), or use {reader}"
    )
