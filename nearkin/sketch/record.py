"""Signatures on the wire: single records that say what they are and are checked before anything in them is believed.

Little-endian throughout; docs/reference/wire-format.md has every byte of an example.
"""

import struct
from typing import Any, NamedTuple

import numpy as np

from nearkin.errors import WireError
from nearkin.hashing.families import hash_values, key_of
from nearkin.spec import FORMAT_VERSION, Spec

MAGIC = b"NKSG"
HEADER = struct.Struct("<4sBBBBI8sII")
"""Magic, version, family, slot bits, reserved (0), k, fingerprint, shingles, bytes of the payload."""
CHECKSUM = struct.Struct("<Q")
MOST_BYTES = 1 << 16
"""Of a payload: 16 times that of the largest signature there is."""
SLOTS = 1
SIGNS = 2
TRUNCATED = 3
FAMILIES: dict[int, type[np.unsignedinteger[Any]]] = {SLOTS: np.uint32, SIGNS: np.uint64, TRUNCATED: np.uint8}
"""By number: 32-bit MinHash slots, signs (SimHash, hyperplanes), b-bit slots; and the words they are made of."""


class UnknownVersionError(WireError):
    """Written by another version of the format."""


class ChecksumError(WireError):
    """Some byte is not what was written."""


class TruncatedError(WireError):
    """It ends before it should."""


class ForeignError(WireError):
    """A signature of another Spec."""


class Record(NamedTuple):
    """One document's signature."""

    signature: np.ndarray
    """(w,) of the Spec's signature type."""
    shingles: int
    """With repeats; 0 marks an empty document."""


def family_of(spec: Spec) -> int:
    """The number of a Spec's kind of signature."""
    return next(number for number, words in FAMILIES.items() if words is spec.signature_type)


def checksum(data: bytes) -> int:
    """XXH3-64 with seed 0."""
    return int(hash_values([data], key_of("xxh3", 0))[0])


def write_record(signature: np.ndarray, shingles: int, spec: Spec) -> bytes:
    """One signature as bytes.

    Examples:
        >>> data = write_record(np.arange(8, dtype=np.uint32), 6, Spec(k=8))
        >>> len(data), read_record(data, Spec(k=8)).signature.tolist()
        (68, [0, 1, 2, 3, 4, 5, 6, 7])
    """
    width, kind = spec.signature_width, np.dtype(spec.signature_type)
    if signature.shape != (width,) or signature.dtype != kind:
        raise WireError(f"a signature of this Spec is {kind} ({width},), not {signature.dtype} {signature.shape}")
    payload = signature.astype(kind.newbyteorder("<")).tobytes()
    fingerprint = bytes.fromhex(spec.fingerprint)
    head = HEADER.pack(MAGIC, FORMAT_VERSION, family_of(spec), spec.slot_bits, 0, spec.k, fingerprint, shingles, len(payload))
    return head + payload + CHECKSUM.pack(checksum(head + payload))


def read_record(data: bytes, spec: Spec) -> Record:
    """The signature in `data`, which must be exactly one record of the Spec.

    Raises:
        TruncatedError: It is shorter than its header says, or has no whole header.
        UnknownVersionError: Its format version is not this one's.
        ChecksumError: A byte was changed.
        ForeignError: Its fingerprint is not the Spec's.
        WireError: It is no record at all, or what it says does not go together.
    """
    if len(data) < HEADER.size:
        raise TruncatedError(f"a record has at least {HEADER.size + CHECKSUM.size} bytes, not {len(data)}")
    magic, version, family, bits, reserved, k, fingerprint, shingles, size = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise WireError(f"a record begins with {MAGIC!r}, not {magic!r}")
    if version != FORMAT_VERSION:
        raise UnknownVersionError(f"format version {version} is not {FORMAT_VERSION}; upgrade nearkin, or sketch again")
    if size > MOST_BYTES:
        raise WireError(f"a payload of {size} bytes is longer than any signature ({MOST_BYTES})")
    whole = HEADER.size + size + CHECKSUM.size
    if len(data) < whole:
        raise TruncatedError(f"the record says {whole} bytes, there are {len(data)}")
    if len(data) > whole:
        raise WireError(f"{len(data) - whole} bytes follow the record")
    if CHECKSUM.unpack_from(data, whole - CHECKSUM.size)[0] != checksum(data[: -CHECKSUM.size]):
        raise ChecksumError("the checksum does not match: the record was changed on its way")
    if fingerprint.hex() != spec.fingerprint:
        raise ForeignError(f"a signature of the Spec {fingerprint.hex()}, not of {spec.fingerprint}; they are not comparable")
    kind = np.dtype(spec.signature_type)
    said = (family, bits, reserved, k, size)
    if said != (family_of(spec), spec.slot_bits, 0, spec.k, spec.signature_width * kind.itemsize):
        raise WireError(f"the header (family, bits, reserved, k, bytes) = {said} is not one of the Spec {spec.fingerprint}")
    words = np.frombuffer(data, kind.newbyteorder("<"), spec.signature_width, HEADER.size)
    return Record(words.astype(kind), shingles)
