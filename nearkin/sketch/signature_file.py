"""Signature files: ids and signatures as an Arrow IPC file that says what they are."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from nearkin.errors import UsageError
from nearkin.runtime.files import replace_durably, sync_file
from nearkin.shingle import text_buffers
from nearkin.sketch.record import ChecksumError, ForeignError, TruncatedError, UnknownVersionError, checksum
from nearkin.spec import FORMAT_VERSION, Spec

SPEC = b"nearkin.spec"
FINGERPRINT = b"nearkin.fingerprint"
VERSION = b"nearkin.version"
CHECKSUM = b"nearkin.checksum"
ARROW = b"ARROW1"
ROWS = 1 << 14


class Signatures(NamedTuple):
    """What a signature file holds."""

    spec: Spec
    ids: pa.ChunkedArray
    """large_string (n,)"""
    signatures: np.ndarray
    """(n, w) of the Spec's signature type."""
    shingles: np.ndarray
    """uint32 (n,): shingles with repeats of each document."""


def schema_of(spec: Spec) -> pa.Schema:
    """id, signature (list of w words), shingles; version, Spec and fingerprint in the metadata."""
    words = pa.from_numpy_dtype(spec.signature_type)
    fields = [("id", pa.large_string()), ("signature", pa.list_(words, spec.signature_width)), ("shingles", pa.uint32())]
    facts = {SPEC: spec.to_json(), FINGERPRINT: spec.fingerprint, VERSION: str(FORMAT_VERSION)}
    return pa.schema(fields, facts)


class SignatureWriter:
    """Writes a signature file batch by batch; it appears under its name when it is complete.

    Each batch has its checksum, and an empty last one that of all of them: whatever is missing or changed, shows.
    """

    def __init__(self, path: Path, spec: Spec) -> None:
        self.path = path
        self.schema = schema_of(spec)
        self._sums: list[str] = []
        self._temporary = path.with_name(path.name + ".tmp")
        self._sink = pa.OSFile(str(self._temporary), "wb")
        self._writer = pa.ipc.new_file(self._sink, self.schema)

    def __enter__(self) -> "SignatureWriter":
        return self

    def add(self, ids: pa.Array, signatures: np.ndarray, shingles: np.ndarray) -> None:
        """Appends documents."""
        values = pa.FixedSizeListArray.from_arrays(pa.array(signatures.reshape(-1)), signatures.shape[1])
        batch = pa.record_batch([ids, values, pa.array(shingles)], schema=self.schema)
        self._sums.append(batch_checksum(batch))
        self._writer.write_batch(batch, custom_metadata={CHECKSUM: self._sums[-1]})

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            last = pa.RecordBatch.from_pylist([], self.schema)
            self._writer.write_batch(last, custom_metadata={CHECKSUM: whole_checksum(self._sums)})
        self._writer.close()
        self._sink.close()
        if kind is None:
            sync_file(self._temporary)
            replace_durably(self._temporary, self.path)
        else:
            self._temporary.unlink(missing_ok=True)


def batch_checksum(batch: pa.RecordBatch) -> str:
    """XXH3-64 of the batch: signatures' words, shingle counts, lengths of ids (all little-endian), ids; 16 hex digits."""
    data, offsets = text_buffers(batch["id"])
    words, counts = batch["signature"].flatten().to_numpy(), batch["shingles"].to_numpy()
    arrays = (words, counts, np.diff(offsets), data[offsets[0] : offsets[-1]])
    return f"{checksum(b''.join(array.astype(array.dtype.newbyteorder('<')).tobytes() for array in arrays)):016x}"


def whole_checksum(sums: Sequence[str]) -> str:
    """XXH3-64 of the checksums of all batches, as ASCII, one after the other; 16 hex digits."""
    return f"{checksum(''.join(sums).encode()):016x}"


def read_signatures(path: Path, spec: Spec | None = None) -> Signatures:
    """Reads and checks a signature file.

    Args:
        path: Of the file.
        spec: The Spec that it must have; any by default.

    Raises:
        UsageError: If there is none, or it is something else.
        TruncatedError: It ends before it should.
        UnknownVersionError: It was written by another version of the format.
        ChecksumError: It was changed after it was written.
        ForeignError: Its Spec is not the asked one.
    """
    try:
        with pa.memory_map(str(path)) as source:
            return _read(path, source, spec)
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        if _begins_like_one(path):
            raise TruncatedError(f"{path} is damaged or not whole ({_one_line(error)}); sketch it again") from error
        raise UsageError(f"{path} is not a signature file ({_one_line(error)})") from error


def is_signature_file(path: Path) -> bool:
    """Returns whether a file begins as one that `nearkin sketch` or `nearkin merge` wrote; it may be damaged."""
    try:
        with pa.memory_map(str(path)) as source:
            return SPEC in (pa.ipc.open_file(source).schema.metadata or {})
    except pa.ArrowException:
        return False


def _begins_like_one(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(ARROW)) == ARROW


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


def _read(path: Path, source: pa.MemoryMappedFile, wanted: Spec | None) -> Signatures:
    reader = pa.ipc.open_file(source)
    spec = _spec_of(path, reader.schema)
    if wanted is not None and wanted != spec:
        raise ForeignError(f"{path} has signatures of the Spec {spec.fingerprint}, not {wanted.fingerprint}")
    batches = []
    sums = list[str]()
    last = reader.num_record_batches - 1
    if last < 0:
        raise TruncatedError(f"{path} is damaged: it has no last batch; sketch it again")
    for i in range(last + 1):
        found = reader.get_batch_with_custom_metadata(i)
        found.batch.validate(full=True)
        try:
            sums.append(batch_checksum(found.batch) if i < last else whole_checksum(sums))
        except ValueError as error:
            raise ChecksumError(f"{path} is damaged: buffers of batch {i} have impossible sizes; sketch it again") from error
        given = (found.custom_metadata or {}).get(CHECKSUM, b"").decode()
        if given != sums[-1] or (i == last and len(found.batch)):
            raise ChecksumError(f"{path} is damaged: the checksum of batch {i} does not match; sketch it again")
        batches.append(found.batch)
    table = pa.Table.from_batches(batches, reader.schema)
    width = spec.signature_width
    parts = [np.empty((0, width), spec.signature_type)]
    parts += [chunk.flatten().to_numpy().reshape(-1, width) for chunk in table["signature"].chunks]
    return Signatures(spec, table["id"], np.concatenate(parts), table["shingles"].to_numpy())


def _spec_of(path: Path, schema: pa.Schema) -> Spec:
    """The Spec in the metadata, if the columns are as it says."""
    metadata = schema.metadata or {}
    if SPEC not in metadata:
        raise UsageError(f"{path} is an Arrow file without a Spec; signature files are written by nearkin sketch")
    if (version := metadata.get(VERSION, b"").decode()) != str(FORMAT_VERSION):
        raise UnknownVersionError(f"{path} has format version {version!r}, not {FORMAT_VERSION}; upgrade, or sketch it again")
    try:
        spec = Spec.from_json(metadata[SPEC])
    except (ValueError, TypeError) as error:
        raise ChecksumError(f"{path} is damaged: its Spec cannot be read ({_one_line(error)})") from error
    if (
        metadata.get(FINGERPRINT, b"").decode() != spec.fingerprint
        or schema.remove_metadata() != schema_of(spec).remove_metadata()
    ):
        raise ChecksumError(f"{path} is damaged: its fingerprint or columns are not those of its Spec; sketch it again")
    return spec


def require_mergeable(spec: Spec) -> None:
    """Only whole MinHash slots of sets make the signature of a union by taking minima.

    Raises:
        UsageError: For every other Spec.
    """
    if spec.truncated:
        raise UsageError(
            f"signatures of {spec.slot_bits}-bit slots cannot be merged: the smaller of two slots is not known from its lowest "
            "bits; merge signatures of 32-bit slots, then cut them"
        )
    if spec.measure != "jaccard":
        raise UsageError(f"signatures of measure {spec.measure} cannot be merged: those of a union do not follow from them")


def merge_signatures(paths: Sequence[Path], out: Path) -> int:
    """Joins signature files of one Spec; documents of one id are united (the signature of the union). Returns the documents.

    Raises:
        IncompatibleError: If two files have different Specs; the message names the difference.
    """
    opened = [read_signatures(path) for path in paths]
    spec = opened[0].spec
    require_mergeable(spec)
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
