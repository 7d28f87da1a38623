"""The wire format of signatures: single records that are validated when they are read.

All numbers are little-endian. docs/reference/wire-format.md explains every byte of an example.
"""

import struct
from typing import Any, NamedTuple

import numpy as np

from nearkin.errors import WireError
from nearkin.settings.spec import FORMAT_VERSIONS, Spec
from nearkin.stages.hashing.families import hash_values, key_of

MAGIC = b"NKSG"
HEADER = struct.Struct("<4sBBBBI8sII")
"""The header.

Its fields are magic, version, family, slot bits, reserved (0), k, fingerprint, shingles and payload
size.
"""
CHECKSUM = struct.Struct("<Q")
MAX_PAYLOAD = 1 << 16
"""The largest accepted payload in bytes, 16 times that of the largest signature."""
SLOTS = 1
SIGNS = 2
TRUNCATED = 3
FAMILIES: dict[int, type[np.unsignedinteger[Any]]] = {
    SLOTS: np.uint32,
    SIGNS: np.uint64,
    TRUNCATED: np.uint8,
}
"""The type of the words of each family: MinHash slots, signs and truncated slots."""


class UnknownVersionError(WireError):
    """An error: the record or file has another version of the format."""


class ChecksumError(WireError):
    """An error: a byte of the record or file was changed."""


class TruncatedError(WireError):
    """An error: the record or file is truncated."""


class ForeignError(WireError):
    """An error: the signature has another Spec."""


class Record(NamedTuple):
    """The signature of one document."""

    signature: np.ndarray
    """(w,): The signature, of the Spec's signature type."""
    shingles: int
    """The number of shingles with repetitions; 0 for an empty document."""


def family_of(spec: Spec) -> int:
    """Returns the number of the family of a Spec's signatures."""
    return next(number for number, words in FAMILIES.items() if words is spec.signature_type)


def checksum(data: bytes) -> int:
    """Returns the XXH3-64 hash of bytes, with seed 0."""
    return int(hash_values([data], key_of("xxh3", 0))[0])


def write_record(signature: np.ndarray, shingles: int, spec: Spec) -> bytes:
    """Returns the record of one signature.

    Args:
        signature: Signature, (w,) of the Spec's signature type.
        shingles: Number of shingles with repetitions.
        spec: Spec of the signature.

    Raises:
        WireError: If the array has another type or shape.

    Examples:
        >>> data = write_record(np.arange(8, dtype=np.uint32), 6, Spec(k=8))
        >>> len(data), read_record(data, Spec(k=8)).signature.tolist()
        (68, [0, 1, 2, 3, 4, 5, 6, 7])
    """
    width, kind = spec.signature_width, np.dtype(spec.signature_type)
    if signature.shape != (width,) or signature.dtype != kind:
        raise WireError(
            f"a signature of this Spec is {kind} ({width},), not {signature.dtype} "
            f"{signature.shape}"
        )
    payload = signature.astype(kind.newbyteorder("<")).tobytes()
    fingerprint = bytes.fromhex(spec.fingerprint)
    head = HEADER.pack(
        MAGIC,
        spec.version,
        family_of(spec),
        spec.slot_bits,
        0,
        spec.k,
        fingerprint,
        shingles,
        len(payload),
    )
    return head + payload + CHECKSUM.pack(checksum(head + payload))


def read_record(data: bytes, spec: Spec) -> Record:
    """Returns the signature of a record.

    Args:
        data: Bytes of exactly one record.
        spec: Spec of the signature.

    Raises:
        TruncatedError: If the record is shorter than its header states, or the header is truncated.
        UnknownVersionError: If the record has another format version.
        ChecksumError: If a byte was changed.
        ForeignError: If the record has the fingerprint of another Spec.
        WireError: If the bytes are not a record, or its fields contradict each other.
    """
    if len(data) < HEADER.size:
        raise TruncatedError(
            f"a record has at least {HEADER.size + CHECKSUM.size} bytes, not {len(data)}"
        )
    magic, version, family, bits, reserved, k, fingerprint, shingles, size = HEADER.unpack_from(
        data
    )
    if magic != MAGIC:
        raise WireError(f"a record begins with {MAGIC!r}, not {magic!r}")
    if version not in FORMAT_VERSIONS:
        raise UnknownVersionError(
            f"format version {version} is not {' or '.join(map(str, FORMAT_VERSIONS))}; upgrade "
            "nearkin, or sketch again"
        )
    if size > MAX_PAYLOAD:
        raise WireError(f"a payload of {size} bytes is longer than any signature ({MAX_PAYLOAD})")
    record_size = HEADER.size + size + CHECKSUM.size
    if len(data) < record_size:
        raise TruncatedError(f"the record should have {record_size} bytes, but has {len(data)}")
    if len(data) > record_size:
        raise WireError(f"{len(data) - record_size} bytes follow the record")
    if CHECKSUM.unpack_from(data, record_size - CHECKSUM.size)[0] != checksum(
        data[: -CHECKSUM.size]
    ):
        raise ChecksumError("the checksum does not match: the record was changed")
    if fingerprint.hex() != spec.fingerprint:
        raise ForeignError(
            f"a signature of the Spec {fingerprint.hex()}, not of {spec.fingerprint}; they are not "
            "comparable"
        )
    kind = np.dtype(spec.signature_type)
    fields = (version, family, bits, reserved, k, size)
    payload_bytes = spec.signature_width * kind.itemsize
    if fields != (spec.version, family_of(spec), spec.slot_bits, 0, spec.k, payload_bytes):
        raise WireError(
            f"the header (version, family, bits, reserved, k, bytes) = {fields} does not match the "
            f"Spec {spec.fingerprint}"
        )
    words = np.frombuffer(data, kind.newbyteorder("<"), spec.signature_width, HEADER.size)
    return Record(words.astype(kind), shingles)
