"""Tests of records: round trip, damage and limits."""

import random
import struct

import numpy as np
import pytest

from nearkin.errors import WireError
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.record import (
    CHECKSUM,
    HEADER,
    ChecksumError,
    ForeignError,
    TruncatedError,
    UnknownVersionError,
    checksum,
    read_record,
    write_record,
)

SPECS = [
    Spec(k=16),
    Spec(k=128, scheme="classic"),
    Spec(k=64, slot_bits=1),
    Spec(k=128, slot_bits=4),
    Spec(measure="simhash"),
    Spec(measure="simhash", k=128),
    Spec(measure="cosine", unit="vector", n=3),
]


def signature(spec: Spec, seed: int = 1) -> np.ndarray:
    words = np.random.default_rng(seed).integers(0, 2**63, spec.signature_width, np.uint64)
    return words.astype(spec.signature_type)


def sealed(body: bytes) -> bytes:
    """Returns a record with a correct checksum and arbitrary content."""
    return body + CHECKSUM.pack(checksum(body))


@pytest.mark.parametrize(
    "spec", SPECS, ids=lambda spec: f"{spec.measure}-{spec.k}-{spec.slot_bits}"
)
def test_record_is_read_as_it_was_written(spec: Spec) -> None:
    words = signature(spec)
    record = write_record(words, 7, spec)
    read, shingles = read_record(record, spec)
    assert (read == words).all()
    assert read.dtype == words.dtype
    assert shingles == 7
    assert write_record(read, shingles, spec) == record


def test_each_damage_raises_its_own_error() -> None:
    spec = Spec(k=16)
    good = write_record(signature(spec), 3, spec)
    with pytest.raises(TruncatedError, match="28"):
        read_record(good[:28], spec)
    with pytest.raises(TruncatedError, match="at least 36"):
        read_record(b"", spec)
    with pytest.raises(UnknownVersionError, match="version 3 is not 1 or 2"):
        read_record(good[:4] + b"\3" + good[5:], spec)
    with pytest.raises(ChecksumError):
        read_record(good[:40] + bytes([good[40] ^ 1]) + good[41:], spec)
    with pytest.raises(ForeignError, match=Spec(k=16, seed=2).fingerprint):
        read_record(good, Spec(k=16, seed=2))
    with pytest.raises(WireError, match="begins with"):
        read_record(b"NOPE" + good[4:], spec)
    with pytest.raises(WireError, match="1 bytes follow"):
        read_record(good + b"\0", spec)


def test_oversized_payload_is_rejected_before_it_is_read() -> None:
    spec = Spec(k=16)
    good = bytearray(write_record(signature(spec), 3, spec))
    struct.pack_into("<I", good, 24, 2**31)
    with pytest.raises(WireError, match="longer than any signature"):
        read_record(bytes(good), spec)


@pytest.mark.parametrize("offset", [5, 6, 7, 8])
def test_header_that_contradicts_spec_is_rejected(offset: int) -> None:
    spec = Spec(k=16)
    body = bytearray(write_record(signature(spec), 3, spec)[: -CHECKSUM.size])
    body[offset] ^= 2
    with pytest.raises(WireError, match="header"):
        read_record(sealed(bytes(body)), spec)


def test_signatures_of_other_shape_are_not_written() -> None:
    with pytest.raises(WireError, match=r"uint32 \(16,\), not uint64"):
        write_record(np.zeros(16, np.uint64), 0, Spec(k=16))


def mutated(rng: random.Random, record: bytes) -> bytes:
    """Returns a record with bytes changed, cut, repeated or mixed, possibly with a new checksum."""
    data = bytearray(record)
    kind = rng.randrange(6)
    if kind == 0:
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[rng.randrange(len(data)) :]
    elif kind == 2:
        data += rng.randbytes(rng.randint(1, 64))
    elif kind == 3:
        at, size = rng.randrange(len(data)), rng.randint(1, 16)
        data[at : at + size] = rng.randbytes(rng.randint(0, 16))
    elif kind == 4:
        data[: HEADER.size] = rng.randbytes(HEADER.size)
    else:
        at = rng.randrange(4, HEADER.size)
        data[at] = rng.randrange(256)
        return sealed(bytes(data[: -CHECKSUM.size]))
    return bytes(data)


def test_mutated_records_are_rejected_or_unchanged(full: bool) -> None:
    """Reads mutated records. With a new checksum, only the number of shingles can differ."""
    rng = random.Random(1)
    originals = [(spec, signature(spec), write_record(signature(spec), 5, spec)) for spec in SPECS]
    accepted = 0
    for _ in range(1_000_000 if full else 100_000):
        spec, words, record = rng.choice(originals)
        data = mutated(rng, record)
        try:
            read = read_record(data, spec)
        except WireError:
            continue
        accepted += 1
        assert (read.signature == words).all()
        assert data[:20] == record[:20]
        assert data[24:-8] == record[24:-8]
    assert 0 < accepted < 20_000 * (10 if full else 1)


def test_records_of_version_1_are_readable() -> None:
    old, new = Spec(k=16, version=1), Spec(k=16)
    record = write_record(signature(old), 3, old)
    assert record[4] == 1
    assert read_record(record, old).shingles == 3
    with pytest.raises(ForeignError, match=old.fingerprint):
        read_record(record, new)
