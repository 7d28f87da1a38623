"""The export of an index as a parquet file. The header is in the metadata of the schema."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.errors import StoreError, UsageError
from nearkin.index import opening
from nearkin.index.entry import Entry
from nearkin.index.opening import IndexHeader
from nearkin.index.stores.base import Store
from nearkin.index.stores.packing import id_key
from nearkin.runtime.files import PRIVATE_FILE, replacing_durably
from nearkin.runtime.outputs import require_outside_work_folders

ROWS_AT_ONCE = 10_000
"""The number of rows of a row group, and of a batch that is read."""
HEADER = b"nearkin.index"
"""The key of the header in the metadata."""
PROTECTED = b"nearkin.protected"
"""The key in the metadata of an index that was served with tokens."""
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
    """Writes all documents of a store to a parquet file.

    The file appears when it is complete and synced. Only its owner may read it, because it contains
    texts. A document that is written again while the store is read is exported once, as it was read
    first.
    """
    require_outside_work_folders(path)
    metadata = {HEADER: json.dumps(opening.read_header(store), sort_keys=True)}
    if store.is_protected():
        metadata[PROTECTED] = "1"
    schema = EXPORTED.with_metadata(metadata)
    seen: set[bytes] = set()
    try:
        with (
            replacing_durably(path, PRIVATE_FILE) as file,
            pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer,
        ):
            entries = _first_versions(store.scan(), seen)
            while batch := list(islice(entries, ROWS_AT_ONCE)):
                columns = {
                    name: [getattr(entry, name) for entry in batch] for name in EXPORTED.names
                }
                writer.write_table(pa.table(columns, schema))
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return len(seen)


def _first_versions(entries: Iterator[Entry], seen: set[bytes]) -> Iterator[Entry]:
    """Yields each document once; `seen` collects the keys of their ids."""
    for entry in entries:
        key = id_key(entry.scope, entry.id)
        if key not in seen:
            seen.add(key)
            yield entry


def is_export(path: Path) -> bool:
    """Returns True if a file is an exported index."""
    try:
        return HEADER in (pq.read_schema(path).metadata or {})
    except pa.ArrowException:
        return False


def is_protected(path: Path) -> bool:
    """Returns True if an exported index was served with tokens."""
    return PROTECTED in (pq.read_schema(path).metadata or {})


def read_header(path: Path) -> IndexHeader:
    """Returns the header of an exported index."""
    try:
        schema = pq.read_schema(path)
        header: IndexHeader = json.loads((schema.metadata or {})[HEADER])
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except (KeyError, ValueError, RecursionError, pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} is not an exported index") from error
    missing = [name for name in EXPORTED.names if name not in schema.names]
    if missing:
        raise UsageError(
            f"{path} is not a complete export: it has no column {missing[0]!r}; export the index "
            "again"
        )
    return header


def read_entries(path: Path) -> Iterator[Entry]:
    """Yields the documents of an exported index, in the order of the file."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=EXPORTED.names):
                for row in batch.to_pylist():
                    yield Entry(ref=0, **row)
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise UsageError(
            f"{path} cannot be read ({reason}); take another copy, or export the index again"
        ) from error
