"""An index as a parquet file: all its documents, and what it is in the schema's metadata."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.errors import StoreError, UsageError
from nearkin.index.entry import Entry
from nearkin.index.stores.base import Store
from nearkin.index.stores.packing import id_key
from nearkin.runtime.files import PRIVATE_FILE, replacing_durably
from nearkin.runtime.outputs import require_outside_work_folders

AT_ONCE = 10_000
"""Rows of an export."""
HEADER = b"nearkin.index"
EXPORTED = pa.schema(
    [
        ("scope", pa.large_string()),
        ("id", pa.large_string()),
        ("digest", pa.binary(16)),
        ("leader", pa.large_string()),
        ("cluster", pa.large_string()),
        ("similarity", pa.float64()),
        ("size", pa.uint32()),
        ("created", pa.float64()),
        ("seen", pa.float64()),
        ("posted", pa.bool_()),
        ("signature", pa.large_binary()),
        ("text", pa.large_string()),
        ("payload", pa.large_binary()),
    ]
)


def write_export(store: Store, path: Path) -> int:
    """All documents of a store; returns how many.

    The file is there when it is whole and synced. Only its owner may read it, because it contains texts. A document that was
    written again while its store was read is in it once, as it was read first.

    Raises:
        UsageError: If the file is inside the work folder of a run.
        StoreError: The store failed, or the file cannot be written; what was at the path before is there still.
    """
    require_outside_work_folders(path)
    schema = EXPORTED.with_metadata({HEADER: json.dumps(store.claim({}), sort_keys=True)})
    seen: set[bytes] = set()
    try:
        with replacing_durably(path, PRIVATE_FILE) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
            entries = _once(store.scan(), seen)
            while some := list(islice(entries, AT_ONCE)):
                columns = {name: [getattr(entry, name) for entry in some] for name in EXPORTED.names}
                writer.write_table(pa.table(columns, schema))
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    return len(seen)


def _once(entries: Iterator[Entry], seen: set[bytes]) -> Iterator[Entry]:
    for entry in entries:
        key = id_key(entry.scope, entry.id)
        if key not in seen:
            seen.add(key)
            yield entry


def is_export(path: Path) -> bool:
    """Returns whether a file is an exported index."""
    try:
        return HEADER in (pq.read_schema(path).metadata or {})
    except pa.ArrowException:
        return False


def read_header(path: Path) -> dict[str, Any]:
    """What an exported index was.

    Raises:
        UsageError: The file is no export.
    """
    try:
        header: dict[str, Any] = json.loads((pq.read_schema(path).metadata or {})[HEADER])
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except (KeyError, ValueError, pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} is no exported index") from error
    return header


def exported(path: Path) -> Iterator[Entry]:
    """The documents of an exported index, in their order."""
    for batch in pq.ParquetFile(path).iter_batches(AT_ONCE):
        for row in batch.to_pylist():
            yield Entry(ref=0, **row)
