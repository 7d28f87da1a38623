"""Tables of Delta Lake and Iceberg that receive kept documents, or lose the removed ones.

A commit carries the hash of the rows that it wrote. So a repeated command does not write them
twice, also if it was killed before it had the answer.
"""

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus.foreign_errors import describe_error, translate_foreign_errors
from nearkin.corpus.iceberg_tables import LOCAL_PREFIX, open_scan
from nearkin.corpus.remote import CLOUDS
from nearkin.corpus.remote_errors import parse_protocol
from nearkin.corpus.text_forms import format_as_text
from nearkin.errors import MissingExtraError, RunError, UsageError
from nearkin.runs.destinations import ADDRESS, APPEND, CREATE, DELETE, Destination, WriteRequest
from nearkin.runs.document_output import IDS, REMOVED
from nearkin.runs.store_output import StoreOutput, hash_file
from nearkin.runtime.outputs import RUN_SUFFIX
from nearkin.runtime.redaction import redact
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.version import VERSION

ROWS = "nearkin.rows"
"""The property of a commit with the hash of the written rows or of the removed ids."""
SEARCHED = 1000
"""The number of commits that are searched for the rows."""


class TableState(NamedTuple):
    """A version of a table."""

    table: Any
    """The table of the library."""
    version: int | None
    """The number of the version, or the id of the snapshot. None for an empty table of Iceberg."""
    folder: str
    """The path or URL of the folder."""
    schema: pa.Schema


def parse_table(kind: str, place: str, request: WriteRequest) -> "TableOutput":
    """Returns the table that an output names."""
    address = ADDRESS.fullmatch(place)
    if kind == "delta" and address is not None:
        place = f"{address['kind']}://{address['place']}"
    known = address is None or (kind == "delta" and parse_protocol(place) in CLOUDS)
    name = place.rstrip("/").rpartition("/")[2]
    is_named = kind == "delta" or (place.count("/") < 2 and "." in name.strip("."))
    if not known or not is_named or name in ("", ".", "..") or redact(place) != place:
        raise UsageError(
            f"{kind}:{place} cannot be an output; write delta:PATH, delta:s3://BUCKET/PATH or "
            "iceberg:CATALOG/NAMESPACE.TABLE"
        )
    return (DeltaOutput if kind == "delta" else IcebergOutput)(place.rstrip("/"), request)


@dataclass
class TableOutput(Destination):
    """A table.

    Attributes:
        place: The path, the URL, or the catalog and the name of the table.
        request: The request to write documents.
    """

    kind: ClassVar[str]
    place: str
    request: WriteRequest
    _version: int | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """The table as `out` names it."""
        return f"{self.kind}:{self.place}"

    @property
    def options(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The options that the run has because of the place."""
        return {"output": IDS} if self.request.mode == DELETE else {}

    @property
    def local(self) -> Path:
        """The file of the kept documents, or the folder with the removed ids."""
        name = self.place.rpartition("/")[2]
        return Path(name + (RUN_SUFFIX if self.request.mode == DELETE else ".kept.parquet"))

    @property
    def _rows(self) -> Path:
        """The local file with the rows."""
        return self.local / REMOVED if self.request.mode == DELETE else self.local

    def require_writable(self, *, may_exist: bool) -> None:
        """Requires that the table has the state that the request needs, and remembers it."""
        with self._translated_errors("correct that and run again"):
            state = self._load()
            if self.request.mode == DELETE:
                self._require_input(state)
            self._require_permission()
        if state is not None and self.request.mode == CREATE and not may_exist:
            raise UsageError(
                f"{self.url} exists; add to it with {name_setting('write_mode', APPEND)}, replace "
                f"its rows with {name_flag('overwrite')}, or choose another {name_setting('out')}"
            )
        read = self.request.version
        self._version = state.version if state is not None and read is None else read

    def _require_input(self, state: TableState | None) -> None:
        """Requires that the table is the only input, and has ids."""
        mode = name_setting("write_mode", DELETE)
        inputs = [path.rstrip("/").removeprefix("file://") for path in self.request.inputs]
        own = "" if state is None else state.folder
        if "://" not in own:
            inputs = [os.path.realpath(path) for path in inputs]
            own = os.path.realpath(own)
        if state is None or inputs != [own]:
            raise UsageError(
                f"{mode} deletes rows of the table that is the only input, and {self.url} is not; "
                f"give its path as the input, or choose another {name_setting('write_mode')}"
            )
        if self.request.id is None:
            raise UsageError(f"{mode} deletes rows by their ids; add {name_setting('id', 'COL')}")

    def is_published(self) -> bool:
        """Returns whether the table has the rows of the local output already, or there are none."""
        if not self._rows.is_file():
            return False
        if pq.read_metadata(self._rows).num_rows == 0:
            return True
        with self._translated_errors("correct that and run again"):
            state = self._load()
            return state is not None and self._find(state, hash_file(self._rows)) is not None

    def publish(self, *, overwrite: bool) -> str:
        """Changes the table in one commit."""
        with self._translated_errors(
            f"{self.local} is complete; correct that, and repeat the command with "
            f"{name_flag('resume')}, or write it with your library"
        ):
            state = self._load()
            if self.request.mode == DELETE:
                return self._delete_removed(state)
            with pq.ParquetFile(self._rows) as file:
                return self._write_rows(state, file, overwrite=overwrite)

    @cached_property
    def _properties(self) -> dict[str, str]:
        """The properties of the commit."""
        return {ROWS: hash_file(self._rows), "nearkin.version": VERSION}

    def _write_rows(
        self, state: TableState | None, file: pq.ParquetFile, *, overwrite: bool
    ) -> str:
        """Creates the table, or writes the rows of a file into it."""
        replaces = overwrite and self.request.mode == CREATE
        version = None
        if state is not None:
            version = self._find(state, self._properties[ROWS], limit=1 if replaces else SEARCHED)
        if version is not None:
            return f"{self.url} has these rows since version {version}; nothing was written"
        if state is not None and self.request.mode == CREATE and not replaces:
            raise UsageError(f"{self.url} has appeared while the output was made")
        schema = file.schema_arrow
        if state is not None and not replaces:
            schema = state.schema
            differing = set(schema.names) ^ set(file.schema_arrow.names)
            if differing:
                raise UsageError(
                    f"column {min(differing)!r} is in one of {self.url} and {self.local} only, so "
                    "its rows cannot be appended"
                )
        # A partition folder gives texts, for example, and the table has dates.
        rows = (batch.select(schema.names).cast(schema) for batch in file.iter_batches())
        reader = pa.RecordBatchReader.from_batches(schema, rows)
        if state is None or replaces or file.metadata.num_rows:
            self._write(state, reader, replaces=replaces)
        return f"wrote {file.metadata.num_rows:,} rows to {self.url}"

    def _delete_removed(self, state: TableState | None) -> str:
        """Deletes the rows of removed documents, if the table has not changed."""
        if state is None or state.version != self._version:
            now = "deleted" if state is None else f"now {state.version}"
            raise UsageError(
                f"{self.url} has changed since it was read (version {self._version}, {now}), so no "
                f"rows were deleted; run again with {name_flag('overwrite')}"
            )
        removed = pq.read_table(self._rows)["id"].combine_chunks()
        column = str(self.request.id)
        kind = state.schema.field(column).type
        chunks = []
        for batch in self._read_column(state, column):
            # deltalake gives views of texts.
            values = batch.column(0).cast(kind)
            chunks.append(values.filter(pc.is_in(format_as_text(values), removed)))
        ids = pa.chunked_array(chunks).unique() if chunks else removed.slice(0, 0)
        if not sum(map(len, chunks)) == len(ids) == len(removed):
            raise UsageError(
                f"column {column!r} of {self.url} has repeated values, so that rows cannot be "
                f"deleted by them; write the kept rows with {name_flag('overwrite')} into another "
                "table"
            )
        if len(ids):
            self._delete(state, column, ids)
        return f"deleted {len(ids):,} rows from {self.url}"

    @contextmanager
    def _translated_errors(self, advice: str) -> Iterator[None]:
        """Raises the errors of the library of the table as errors of nearkin."""

        def translate(error: BaseException) -> BaseException:
            if isinstance(error, ImportError):
                return MissingExtraError.for_extra(f"{self.url} requires a library", self.kind)
            return RunError(f"cannot write to {self.url}: {describe_error(error)}; {advice}")

        with translate_foreign_errors(translate):
            yield

    def _require_permission(self) -> None:
        """Requires that something can be written beside the table, if that can be known."""

    @abstractmethod
    def _load(self) -> TableState | None:
        """Returns the newest version of the table, or None if it does not exist."""

    @abstractmethod
    def _find(self, state: TableState, rows: str, limit: int = SEARCHED) -> int | None:
        """Returns the version that wrote some rows, if they were not replaced since, or None."""

    @abstractmethod
    def _write(
        self, state: TableState | None, reader: pa.RecordBatchReader, *, replaces: bool
    ) -> None:
        """Creates the table, replaces its rows, or appends to them."""

    @abstractmethod
    def _read_column(self, state: TableState, column: str) -> pa.RecordBatchReader:
        """Returns the values of a column."""

    @abstractmethod
    def _delete(self, state: TableState, column: str, ids: pa.Array) -> None:
        """Deletes the rows with values of a column. It fails if the table changes meanwhile."""


class DeltaOutput(TableOutput):
    """A table of Delta Lake, at a path or in an object store."""

    kind = "delta"

    @property
    def _storage(self) -> dict[str, str]:
        """The options of the library, which reads credentials from the environment."""
        if "://" not in self.place:
            return {}
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        allows_http = str(endpoint.startswith("http:")).lower()
        return {"allow_http": allows_http, "max_retries": "3", "retry_timeout": "10s"}

    def _require_permission(self) -> None:
        if "://" in self.place:
            StoreOutput.parse(self.place).require_permission()
        elif "\\" in self.place or "%" in self.place:
            # The library decodes such a path, and would write to another folder.
            raise UsageError(
                f"{self.url} cannot be an output: deltalake does not support a path with a "
                "backslash or %; choose another folder"
            )

    def _load(self) -> TableState | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            table = DeltaTable(self.place, storage_options=self._storage)
        except TableNotFoundError:
            return None
        schema = pa.schema(table.schema().to_arrow())
        return TableState(table, table.version(), self.place, schema)

    def _find(self, state: TableState, rows: str, limit: int = SEARCHED) -> int | None:
        for commit in state.table.history(limit):
            if commit.get(ROWS) == rows:
                return int(commit["version"])
            mode = commit.get("operationParameters", {}).get("mode")
            if commit.get("operation") == "RESTORE" or mode == "Overwrite":
                break
        return None

    def _write(
        self, state: TableState | None, reader: pa.RecordBatchReader, *, replaces: bool
    ) -> None:
        from deltalake import CommitProperties, write_deltalake

        mode = "overwrite" if replaces else "append"
        write_deltalake(
            self.place if state is None else state.table,
            reader,
            mode="error" if state is None else mode,
            schema_mode=None if state is None or not replaces else "overwrite",
            storage_options=self._storage,
            commit_properties=CommitProperties(self._properties),
        )

    def _read_column(self, state: TableState, column: str) -> pa.RecordBatchReader:
        from deltalake import QueryBuilder

        query = f"SELECT {_quote(column)} FROM t"
        result = QueryBuilder().register("t", state.table).execute(query)
        return pa.RecordBatchReader.from_stream(result)

    def _delete(self, state: TableState, column: str, ids: pa.Array) -> None:
        from deltalake import CommitProperties

        name = _quote(column)
        state.table.merge(
            pa.table({column: ids}),
            f"target.{name} = source.{name}",
            source_alias="source",
            target_alias="target",
            commit_properties=CommitProperties(self._properties, max_commit_retries=0),
        ).when_matched_delete().execute()


class IcebergOutput(TableOutput):
    """A table of Iceberg, in a catalog that the configuration of pyiceberg describes."""

    kind = "iceberg"

    @property
    def _catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog(self.place.rpartition("/")[0] or None)

    def _load(self) -> TableState | None:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table = self._catalog.load_table(self.place.rpartition("/")[2])
        except NoSuchTableError:
            return None
        snapshot = table.current_snapshot()
        version = None if snapshot is None else int(snapshot.snapshot_id)
        folder = LOCAL_PREFIX.sub("", table.location())
        return TableState(table, version, folder, table.schema().as_arrow())

    def _find(self, state: TableState, rows: str, limit: int = SEARCHED) -> int | None:
        snapshot = state.table.current_snapshot()
        for _ in range(limit):
            facts = {} if snapshot is None else snapshot.summary.additional_properties
            if facts.get(ROWS) == rows:
                return int(snapshot.snapshot_id)
            if snapshot is None or snapshot.parent_snapshot_id is None:
                break
            if facts.get("total-records") == "0":
                # All rows were replaced.
                break
            snapshot = state.table.snapshot_by_id(snapshot.parent_snapshot_id)
        return None

    def _write(
        self, state: TableState | None, reader: pa.RecordBatchReader, *, replaces: bool
    ) -> None:
        if state is None:
            name = self.place.rpartition("/")[2]
            with self._catalog.create_table_transaction(name, reader.schema) as transaction:
                transaction.append(reader, snapshot_properties=self._properties)
            return
        # pyiceberg writes a table with partitions from memory alone.
        rows = reader if state.table.spec().is_unpartitioned() else reader.read_all()
        write = state.table.overwrite if replaces else state.table.append
        write(rows, snapshot_properties=self._properties)

    def _read_column(self, state: TableState, column: str) -> pa.RecordBatchReader:
        return open_scan(state.table.scan(selected_fields=(column,)))

    def _delete(self, state: TableState, column: str, ids: pa.Array) -> None:
        from pyiceberg.expressions import In

        state.table.delete(In(column, ids.to_pylist()), snapshot_properties=self._properties)


def _quote(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
