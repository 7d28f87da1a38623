"""Delta tables: the data files of the newest version."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus.delta_logs import copy_log
from nearkin.corpus.file_names import format_path, hide_password
from nearkin.corpus.table_folders import TableFolder
from nearkin.corpus.table_versions import TableVersion, locate_file, table_library_errors
from nearkin.corpus.text_forms import format_as_text
from nearkin.errors import UsageError

SIMPLE_READER_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""The features of Delta tables with which the data files hold the rows as they are."""
CHANGE = "_change_type"
"""The column of recorded changes with the kind of the change."""
COMMIT = "_commit_version"
"""The column of recorded changes with the number of the version."""
FULL_READER = (
    'pyarrow.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t"))'
)
"""The call that reads Delta tables with features that change rows or names of columns."""


def open_delta_table(table: TableFolder) -> TableVersion:
    """Returns the newest version of a Delta table."""
    with table_library_errors(table):
        import deltalake  # noqa: F401 (a missing library is found before the log is copied)

    if table.is_remote:
        with copy_log(table.path) as folder:
            number, entries = _read_log(table, folder)
    else:
        if unquote(table.path) != table.path or "\\" in table.path:
            # The library decodes such a path, and would read the log of another folder.
            raise UsageError(
                f"cannot read {table.description}: deltalake does not support a path with a "
                "backslash or with % and two hexadecimal digits; rename the folder"
            )
        number, entries = _read_log(table, table.path)
    # A name with :// or an encoded .. is refused after it is decoded.
    files = tuple(locate_file(table, unquote(entry)) for entry in entries)
    return TableVersion(table, number, files)


def _read_log(table: TableFolder, folder: str) -> tuple[int, list[str]]:
    """Returns the number of the newest version, and the paths of its files as the log has them."""
    with table_library_errors(table):
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            delta = DeltaTable(folder)
            _require_plain_files(table, delta)
            return delta.version(), _read_paths(delta)
        except DeltaError as error:
            raise ValueError(str(error)) from error


def write_changed_rows(table: TableFolder, since: int, until: int, path: Path) -> bool:
    """Writes the rows that changed between two versions of a local table, as it recorded them.

    Args:
        since: Number of the older version, whose changes are left out.
        until: Number of the newer version.
        path: Parquet file for the rows.

    Returns:
        False if the table does not record changes, or not since that version. Nothing is written.
    """
    with table_library_errors(table):
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        delta = DeltaTable(table.path)
        if delta.metadata().configuration.get("delta.enableChangeDataFeed") != "true":
            return False
        try:
            changes = pa.RecordBatchReader.from_stream(delta.load_cdf(since + 1, until))
            # Strings are read as usual ones, not as views, which have no kernels.
            with pq.ParquetWriter(path, changes.schema, store_schema=False) as writer:
                for batch in changes:
                    writer.write_batch(batch)
        except (DeltaError, OSError, pa.ArrowException):
            # The feature was enabled later, or the files of older changes were deleted.
            return False
    return True


def read_last_changes(path: Path, id: str) -> tuple[np.ndarray, list[str]]:
    """Returns the last change of each id among rows that `write_changed_rows` wrote.

    Returns:
        The rows that are in the newer version, ascending, int64 (m,), and the ids of deleted rows.
    """
    changes = pq.read_table(path, columns=[id, CHANGE, COMMIT])
    ids = format_as_text(changes[id].combine_chunks())
    is_deletion = pc.is_in(changes[CHANGE], pa.array(["delete", "update_preimage"])).to_numpy()
    # Of the rows of an id in one commit, the inserted one counts.
    order = np.lexsort((~is_deletion, changes[COMMIT].to_numpy()))
    last = dict(zip(ids.take(pa.array(order)).to_pylist(), order.tolist(), strict=True))
    last.pop(None, None)
    rows = np.sort(np.fromiter(last.values(), np.int64, len(last)))
    is_gone = is_deletion[rows]
    gone: list[str] = ids.take(pa.array(rows[is_gone])).to_pylist()
    return rows[~is_gone], gone


def _require_plain_files(table: TableFolder, delta: Any) -> None:
    features = set(delta.protocol().reader_features or ())
    mode = delta.metadata().configuration.get("delta.columnMapping.mode", "none")
    reason = ""
    if mode != "none":
        reason = f"column mapping (delta.columnMapping.mode = {mode})"
    elif "deletionVectors" in features and _has_deletion_vectors(table, delta):
        reason = "deletion vectors, which remove rows of its data files"
    elif others := features - SIMPLE_READER_FEATURES - {"deletionVectors", "columnMapping"}:
        reason = f"the features {', '.join(sorted(others))}"
    if reason:
        path = format_path(hide_password(table.path))
        raise UsageError(
            f"{table.description} has {reason}; load it with "
            f"table = deltalake.DeltaTable({path!r}) and read {FULL_READER}"
        )


def _has_deletion_vectors(table: TableFolder, delta: Any) -> bool:
    from deltalake.exceptions import DeltaError

    try:
        return any(batch.num_rows for batch in delta.deletion_vectors())
    except DeltaError:
        if table.is_remote:
            # The files of the vectors are not in the copy of the log.
            return True
        raise


def _read_paths(delta: Any) -> list[str]:
    """Returns the paths of the data files as the log has them: relative, and encoded as in URLs."""
    paths: list[str] = pa.table(delta.get_add_actions()).column("path").to_pylist()
    return paths
