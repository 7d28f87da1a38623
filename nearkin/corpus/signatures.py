"""Signature files: ids and signatures as an Arrow IPC file that says what they are."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from nearkin.errors import RunError, UsageError
from nearkin.spec import Spec

SPEC, FINGERPRINT = b"nearkin.spec", b"nearkin.fingerprint"
ROWS = 1 << 14


class Signatures(NamedTuple):
    """What a signature file holds, mapped."""

    spec: Spec
    ids: pa.ChunkedArray
    """large_string (n,)"""
    signatures: np.ndarray
    """uint32 (n, k)"""
    shingles: np.ndarray
    """uint32 (n,): shingles with repeats of each document."""


def schema_of(spec: Spec) -> pa.Schema:
    """id, signature (list of k uint32), shingles; Spec and fingerprint in the metadata."""
    fields = [("id", pa.large_string()), ("signature", pa.list_(pa.uint32(), spec.k)), ("shingles", pa.uint32())]
    return pa.schema(fields, {SPEC: spec.to_json().encode(), FINGERPRINT: spec.fingerprint.encode()})


class SignatureWriter:
    """Writes a signature file batch by batch; it appears under its name when it is complete."""

    def __init__(self, path: Path, spec: Spec) -> None:
        self.path = path
        self.schema = schema_of(spec)
        self._temporary = path.with_name(path.name + ".tmp")
        self._sink = pa.OSFile(str(self._temporary), "wb")
        self._writer = pa.ipc.new_file(self._sink, self.schema)

    def __enter__(self) -> "SignatureWriter":
        return self

    def add(self, ids: pa.Array, signatures: np.ndarray, shingles: np.ndarray) -> None:
        """Appends documents."""
        values = pa.FixedSizeListArray.from_arrays(pa.array(signatures.reshape(-1)), signatures.shape[1])
        self._writer.write_batch(pa.record_batch([ids, values, pa.array(shingles)], schema=self.schema))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._writer.close()
        self._sink.close()
        if kind is None:
            self._temporary.replace(self.path)
        else:
            self._temporary.unlink(missing_ok=True)


def read_signatures(path: Path) -> Signatures:
    """Opens a signature file.

    Raises:
        UsageError: If there is none, or it is something else.
        RunError: If it is damaged.
    """
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{path} is not a signature file, or is damaged ({' '.join(str(error).split())[:120]})") from error
    metadata = table.schema.metadata or {}
    if SPEC not in metadata:
        raise UsageError(f"{path} is an Arrow file without a Spec; signature files are written by nearkin sketch")
    spec = Spec.from_json(metadata[SPEC])
    if metadata.get(FINGERPRINT, b"").decode() != spec.fingerprint:
        raise RunError(f"{path} is damaged: its fingerprint is not that of its Spec; sketch it again")
    parts = [chunk.flatten().to_numpy().reshape(-1, spec.k) for chunk in table["signature"].chunks]
    signatures = np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else np.empty((0, spec.k), np.uint32)
    return Signatures(spec, table["id"], signatures, table["shingles"].to_numpy())


def merge_signatures(paths: Sequence[Path], out: Path) -> int:
    """Joins signature files of one Spec; documents of one id are united (the signature of the union). Returns the documents.

    Raises:
        IncompatibleError: If two files have different Specs; the message names the difference.
    """
    opened = [read_signatures(path) for path in paths]
    spec = opened[0].spec
    for path, signatures in zip(paths[1:], opened[1:], strict=True):
        spec.require(signatures.spec, str(path))
    ids = pa.chunked_array([chunk for one in opened for chunk in one.ids.chunks], pa.large_string())
    codes = pc.index_in(ids, value_set=(distinct := pc.unique(ids))).to_numpy().astype(np.int64)
    united = np.full((len(distinct), spec.k), 0xFFFFFFFF, np.uint32)
    shingles = np.zeros(len(distinct), np.uint32)
    first = 0
    for one in opened:
        at = codes[first : first + len(one.ids)]
        np.minimum.at(united, at, one.signatures)
        np.maximum.at(shingles, at, one.shingles)
        first += len(one.ids)
    with SignatureWriter(out, spec) as writer:
        for start in range(0, len(distinct), ROWS):
            end = start + ROWS
            writer.add(distinct[start:end], united[start:end], shingles[start:end])
    return len(distinct)
