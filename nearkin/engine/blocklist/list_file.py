"""The file of a blocklist: a header with a checksum, and an Arrow stream of the entries.

docs/reference/files.md describes the format.
"""

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.engine.blocklist.entries import BlockedEntries
from nearkin.errors import UsageError
from nearkin.runtime.ipc_messages import read_plain_stream
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of
from nearkin.stages.measures.base import Payload
from nearkin.stages.sketch.record import (
    ChecksumError,
    TruncatedError,
    UnknownVersionError,
    checksum,
)

MAGIC = b"NKBLOCKS"
VERSION = 1
HEADER = struct.Struct("<8sIQQ")
"""The header: magic, version, number of the following bytes, and their XXH3-64 with seed 0."""
SPEC = b"nearkin.spec"
DIGEST_BYTES = 16
ADVICE = "take the copy of a backup, or create the list again with nearkin block add"


def _schema_of(spec: Spec) -> pa.Schema:
    """Returns the columns of the entries of a Spec. Only measures with weights have `weights`."""
    words = pa.from_numpy_dtype(spec.signature_type)
    fields = [
        ("id", pa.large_string()),
        ("digest", pa.binary(DIGEST_BYTES)),
        ("signature", pa.list_(words, spec.signature_width)),
        ("shingles", pa.large_list(pa.uint64())),
    ]
    if len(measure_of(spec).column_types) > 1:
        fields.append(("weights", pa.large_list(pa.float64())))
    return pa.schema(fields, {SPEC: spec.to_json()})


def write_entries(file: BinaryIO, spec: Spec, entries: BlockedEntries) -> None:
    """Writes the content of the file of a blocklist."""
    payload = entries.payload
    offsets = pa.array(np.concatenate([[0], np.cumsum(payload.sizes)]), pa.int64())
    signatures = entries.signatures
    columns = [
        pa.array(entries.ids, pa.large_string()),
        pa.array([value.tobytes() for value in entries.digest_values], pa.binary(DIGEST_BYTES)),
        pa.FixedSizeListArray.from_arrays(pa.array(signatures.reshape(-1)), signatures.shape[1]),
        *(pa.LargeListArray.from_arrays(offsets, pa.array(column)) for column in payload.columns),
    ]
    sink = pa.BufferOutputStream()
    schema = _schema_of(spec)
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    body = sink.getvalue().to_pybytes()
    file.write(HEADER.pack(MAGIC, VERSION, len(body), checksum(body)))
    file.write(body)


def read_entries(path: Path) -> tuple[Spec, BlockedEntries]:
    """Reads and checks the file of a blocklist."""
    try:
        data = _read_file(path)
    except FileNotFoundError as error:
        raise UsageError(
            f"no such blocklist: {path}; correct the path, or create it with nearkin block add"
        ) from error
    except OSError as error:
        raise UsageError(
            f"the blocklist {path} cannot be read: {error.strerror}; correct the path or its "
            "permissions"
        ) from error
    body = _read_body(path, data)
    try:
        return _parse_body(body)
    except (pa.ArrowException, ValueError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())[:120]
        raise ChecksumError(
            f"the blocklist {path} is damaged: its entries cannot be read ({reason}); {ADVICE}"
        ) from error


def _read_file(path: Path) -> bytes:
    """Returns the content of a blocklist, and only the first bytes of something else."""
    # a pipe or a device could have no end
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a blocklist, because it is not a regular file")
    with path.open("rb") as file:
        data = file.read(HEADER.size)
        if len(data) < HEADER.size or data[: len(MAGIC)] != MAGIC:
            return data
        _, _, size, _ = HEADER.unpack_from(data)
        # one more byte shows that the file is longer
        return data + file.read(min(size, path.stat().st_size) + 1)


def _read_body(path: Path, data: bytes) -> bytes:
    """Returns the bytes after the header, which are as they were written."""
    if data[: len(MAGIC)] != MAGIC:
        raise UsageError(f"{path} is not a blocklist; a blocklist is written by nearkin block add")
    if len(data) < HEADER.size:
        raise TruncatedError(f"the blocklist {path} is truncated in its header; {ADVICE}")
    _, version, size, expected = HEADER.unpack_from(data)
    if version != VERSION:
        raise UnknownVersionError(
            f"the blocklist {path} has format version {version}, and this version of nearkin "
            f"reads {VERSION}; upgrade nearkin"
        )
    body = data[HEADER.size :]
    if len(body) < size:
        raise TruncatedError(
            f"the blocklist {path} is truncated: {len(body)} of {size} bytes follow its header; "
            f"{ADVICE}"
        )
    if len(body) > size or checksum(body) != expected:
        raise ChecksumError(
            f"the blocklist {path} is damaged: its checksum does not match; {ADVICE}"
        )
    return body


def _parse_body(body: bytes) -> tuple[Spec, BlockedEntries]:
    """Returns the Spec and the entries of an Arrow stream."""
    spec = Spec.from_json((pa.ipc.open_stream(body).schema.metadata or {})[SPEC])
    table = read_plain_stream(pa.py_buffer(body), _schema_of(spec))
    table.validate(full=True)
    table = table.combine_chunks()
    columns = [_only_chunk(table[name]) for name in table.schema.names]
    ids, digests, signatures, *payload_columns = columns
    values = [column.flatten() for column in (signatures, *payload_columns)]
    if any(column.null_count for column in (*columns, *values)):
        raise ValueError("a value is missing")
    sizes = np.diff(payload_columns[0].offsets.to_numpy()).astype(np.int64)
    for column in payload_columns[1:]:
        if not np.array_equal(np.diff(column.offsets.to_numpy()), sizes):
            raise ValueError("an entry has another number of weights than of shingles")
    payload = Payload(sizes, tuple(column.to_numpy() for column in values[1:]))
    _require_sorted_sets(payload)
    entries = BlockedEntries(
        ids=tuple(ids.to_pylist()),
        digests=np.frombuffer(b"".join(digests.to_pylist()), "<u8").reshape(-1, 2),
        signatures=values[0].to_numpy().reshape(len(table), spec.signature_width),
        payload=payload,
    )
    if len(entries.distinct()) < len(entries):
        raise ValueError("an entry is repeated")
    return spec, entries


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Returns a column of at most one chunk as an array."""
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _require_sorted_sets(payload: Payload) -> None:
    """Requires that each entry has shingles, which are distinct and ascending."""
    if not payload.sizes.all():
        raise ValueError("an entry has no shingles")
    hashes = payload.columns[0]
    is_descending = hashes[1:] <= hashes[:-1]
    is_descending[np.cumsum(payload.sizes)[:-1] - 1] = False
    if is_descending.any():
        raise ValueError("the shingles of an entry are not in order")
