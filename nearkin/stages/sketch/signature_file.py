"""Signature files: Arrow IPC files of ids and signatures, with their Spec and checksums."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from nearkin.errors import UsageError
from nearkin.runtime.files import replacing_durably
from nearkin.settings.spec import FORMAT_VERSIONS, Spec
from nearkin.stages.shingle import text_buffers
from nearkin.stages.sketch.record import (
    ChecksumError,
    ForeignError,
    TruncatedError,
    UnknownVersionError,
    checksum,
)

SPEC = b"nearkin.spec"
FINGERPRINT = b"nearkin.fingerprint"
VERSION = b"nearkin.version"
CHECKSUM = b"nearkin.checksum"
ARROW = b"ARROW1"
ROWS = 1 << 14
"""The number of documents of a batch of a merged file."""


class Signatures(NamedTuple):
    """The content of a signature file."""

    spec: Spec
    ids: pa.ChunkedArray
    """large_string (n,): The ids."""
    signatures: np.ndarray
    """(n, w): The signatures, of the Spec's signature type."""
    shingles: np.ndarray
    """uint32 (n,): The number of shingles of each document, with repetitions."""


def schema_of(spec: Spec) -> pa.Schema:
    """Returns the schema of the signature file of a Spec.

    The columns are id, signature (a list of w words) and shingles. The metadata contains the
    version, the Spec and its fingerprint.
    """
    words = pa.from_numpy_dtype(spec.signature_type)
    fields = [
        ("id", pa.large_string()),
        ("signature", pa.list_(words, spec.signature_width)),
        ("shingles", pa.uint32()),
    ]
    facts = {SPEC: spec.to_json(), FINGERPRINT: spec.fingerprint, VERSION: str(spec.version)}
    return pa.schema(fields, facts)


class SignatureWriter:
    """A writer of a signature file, which gets its name when it is complete.

    Each batch has a checksum. An empty last batch has the checksum of all checksums, so that
    missing or changed batches are detected.
    """

    def __init__(
        self, path: Path, spec: Spec, metadata: Mapping[bytes, bytes] | None = None
    ) -> None:
        self.path = path
        schema = schema_of(spec)
        self.schema = schema.with_metadata({**schema.metadata, **(metadata or {})})
        self._sums: list[str] = []
        self._files = ExitStack()
        file = self._files.enter_context(replacing_durably(path))
        self._writer = self._files.enter_context(pa.ipc.new_file(file, self.schema))

    def __enter__(self) -> "SignatureWriter":
        return self

    def add(self, ids: pa.Array, signatures: np.ndarray, shingles: np.ndarray) -> None:
        """Appends the ids, signatures, (n, w), and shingle counts of a batch of documents."""
        values = pa.FixedSizeListArray.from_arrays(
            pa.array(signatures.reshape(-1)), signatures.shape[1]
        )
        batch = pa.record_batch([ids, values, pa.array(shingles)], schema=self.schema)
        self._sums.append(batch_checksum(batch))
        self._writer.write_batch(batch, custom_metadata={CHECKSUM: self._sums[-1]})

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._files.__exit__(kind, error, trace)
            return
        with self._files:
            last = pa.RecordBatch.from_pylist([], self.schema)
            self._writer.write_batch(last, custom_metadata={CHECKSUM: whole_checksum(self._sums)})


def batch_checksum(batch: pa.RecordBatch) -> str:
    """Returns the XXH3-64 of a batch as 16 hex digits.

    It covers the words of the signatures, the numbers of shingles, the lengths of the ids (all
    little-endian) and the ids.
    """
    data, offsets = text_buffers(batch["id"])
    words, counts = batch["signature"].flatten().to_numpy(), batch["shingles"].to_numpy()
    arrays = (words, counts, np.diff(offsets), data[offsets[0] : offsets[-1]])
    parts = [array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays]
    return f"{checksum(b''.join(parts)):016x}"


def whole_checksum(sums: Sequence[str]) -> str:
    """Returns the XXH3-64 of the concatenated checksums of all batches as 16 hex digits."""
    return f"{checksum(''.join(sums).encode()):016x}"


def read_signatures(path: Path, spec: Spec | None = None) -> Signatures:
    """Reads and checks a signature file."""
    try:
        with pa.memory_map(str(path)) as source:
            return _read(path, source, spec)
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        if _begins_like_one(path):
            raise TruncatedError(
                f"{path} is damaged or not whole ({_one_line(error)}); sketch it again"
            ) from error
        raise UsageError(f"{path} is not a signature file ({_one_line(error)})") from error


def read_metadata(path: Path) -> dict[bytes, bytes]:
    """Returns the metadata of a signature file that `read_signatures` accepts."""
    with pa.memory_map(str(path)) as source:
        return dict(pa.ipc.open_file(source).schema.metadata or {})


def is_signature_file(path: Path) -> bool:
    """Returns True if a file is a signature file, possibly a damaged one."""
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
        raise ForeignError(
            f"{path} has signatures of the Spec {spec.fingerprint}, not {wanted.fingerprint}"
        )
    batches = []
    sums = list[str]()
    last = reader.num_record_batches - 1
    if last < 0:
        raise TruncatedError(f"{path} is damaged: it has no last batch; sketch it again")
    for i in range(last + 1):
        stored_batch = reader.get_batch_with_custom_metadata(i)
        stored_batch.batch.validate(full=True)
        try:
            sums.append(batch_checksum(stored_batch.batch) if i < last else whole_checksum(sums))
        except ValueError as error:
            raise ChecksumError(
                f"{path} is damaged: buffers of batch {i} have impossible sizes; sketch it again"
            ) from error
        given = (stored_batch.custom_metadata or {}).get(CHECKSUM, b"").decode()
        if given != sums[-1] or (i == last and len(stored_batch.batch)):
            raise ChecksumError(
                f"{path} is damaged: the checksum of batch {i} does not match; sketch it again"
            )
        batches.append(stored_batch.batch)
    table = pa.Table.from_batches(batches, reader.schema)
    width = spec.signature_width
    parts = [np.empty((0, width), spec.signature_type)]
    parts += [chunk.flatten().to_numpy().reshape(-1, width) for chunk in table["signature"].chunks]
    return Signatures(spec, table["id"], np.concatenate(parts), table["shingles"].to_numpy())


def _spec_of(path: Path, schema: pa.Schema) -> Spec:
    metadata = schema.metadata or {}
    if SPEC not in metadata:
        raise UsageError(
            f"{path} is an Arrow file without a Spec; signature files are written by nearkin lab "
            "sketch"
        )
    version = metadata.get(VERSION, b"").decode()
    if version not in map(str, FORMAT_VERSIONS):
        raise UnknownVersionError(
            f"{path} has format version {version!r}, not {' or '.join(map(str, FORMAT_VERSIONS))}; "
            "upgrade nearkin, or sketch it again"
        )
    try:
        spec = Spec.from_json(metadata[SPEC])
    except (ValueError, TypeError) as error:
        raise ChecksumError(
            f"{path} is damaged: its Spec cannot be read ({_one_line(error)})"
        ) from error
    if (
        metadata.get(FINGERPRINT, b"").decode() != spec.fingerprint
        or version != str(spec.version)
        or schema.remove_metadata() != schema_of(spec).remove_metadata()
    ):
        raise ChecksumError(
            f"{path} is damaged: its fingerprint or columns do not match its Spec; sketch it again"
        )
    return spec


def require_mergeable(spec: Spec) -> None:
    """Checks that signatures of a Spec can be merged, which is possible for whole slots of sets."""
    if spec.truncated:
        raise UsageError(
            f"signatures of {spec.slot_bits}-bit slots cannot be merged, because the lowest bits "
            "do not determine the smaller of two slots; merge signatures with slot_bits=32"
        )
    if spec.measure != "jaccard":
        raise UsageError(
            f"signatures of measure {spec.measure} cannot be merged; use measure jaccard"
        )


def merge_signatures(paths: Sequence[Path], out: Path) -> int:
    """Merges signature files of one Spec.

    The signatures of documents with the same id are merged to the signature of their union.
    """
    opened = [read_signatures(path) for path in paths]
    spec = opened[0].spec
    require_mergeable(spec)
    for path, signatures in zip(paths[1:], opened[1:], strict=True):
        spec.require(signatures.spec, str(path))
    ids = pa.chunked_array(
        [chunk for file in opened for chunk in file.ids.chunks], pa.large_string()
    )
    codes = pc.index_in(ids, value_set=(distinct := pc.unique(ids))).to_numpy().astype(np.int64)
    united = np.full((len(distinct), spec.k), 0xFFFFFFFF, np.uint32)
    shingles = np.zeros(len(distinct), np.uint32)
    first = 0
    for file in opened:
        at = codes[first : first + len(file.ids)]
        np.minimum.at(united, at, file.signatures)
        np.maximum.at(shingles, at, file.shingles)
        first += len(file.ids)
    with SignatureWriter(out, spec) as writer:
        for start in range(0, len(distinct), ROWS):
            end = start + ROWS
            writer.add(distinct[start:end], united[start:end], shingles[start:end])
    return len(distinct)
