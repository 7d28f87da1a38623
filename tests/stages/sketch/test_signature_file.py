"""Tests of signature files: round trip, damage and merging."""

import random
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.errors import NearkinError, UsageError
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.record import (
    ChecksumError,
    ForeignError,
    TruncatedError,
    UnknownVersionError,
)
from nearkin.stages.sketch.signature_file import SignatureWriter, merge_signatures, read_signatures

TEXTS = [f"one two three {i} four five {i * i} six" for i in range(50)]
SPECS = [
    Spec(k=16),
    Spec(measure="simhash"),
    Spec(slot_bits=2),
    Spec(measure="weighted-jaccard", k=8),
]


def written(path: Path, spec: Spec, texts: list[str] = TEXTS) -> np.ndarray:
    signatures = nk.sketch(texts, spec)
    with SignatureWriter(path, spec) as writer:
        for start in (0, 30):
            part = slice(start, min(start + 30, len(texts)))
            ids = pa.array([f"doc {i}" for i in range(len(texts))][part], pa.large_string())
            writer.add(ids, signatures[part], np.full(len(ids), 6, np.uint32))
    return signatures


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.measure}-{spec.slot_bits}")
def test_signature_file_is_read_as_it_was_written(spec: Spec, tmp_path: Path) -> None:
    signatures = written(tmp_path / "a.arrow", spec)
    restored = read_signatures(tmp_path / "a.arrow", spec)
    assert restored.spec == spec
    assert (restored.signatures == signatures).all()
    assert restored.signatures.dtype == signatures.dtype
    assert restored.ids[49].as_py() == "doc 49"
    assert (restored.shingles == 6).all()


def fail_to_write(path: Path) -> None:
    with SignatureWriter(path, SPECS[0]) as writer:
        ids = pa.array(["a"], pa.large_string())
        writer.add(ids, nk.sketch(["a"], SPECS[0]), np.ones(1, np.uint32))
        raise ValueError("failed")


def test_a_file_that_is_not_complete_leaves_the_previous_one_and_files_of_others(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.arrow"
    (tmp_path / "a.arrow.tmp").write_text("not a file of nearkin")
    written(path, SPECS[0])
    previous = path.read_bytes()
    with pytest.raises(ValueError, match="failed"):
        fail_to_write(path)
    assert path.read_bytes() == previous
    assert {file.name for file in tmp_path.iterdir()} == {"a.arrow", "a.arrow.tmp"}
    assert (tmp_path / "a.arrow.tmp").read_text() == "not a file of nearkin"


def test_each_damage_raises_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, spec = tmp_path / "a.arrow", SPECS[0]
    signatures = written(path, spec)
    good = path.read_bytes()
    with pytest.raises(ForeignError, match=Spec(k=16, seed=9).fingerprint):
        read_signatures(path, Spec(k=16, seed=9))
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(TruncatedError, match="not whole"):
        read_signatures(path)
    at = good.index(signatures[3].tobytes())
    path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    with pytest.raises(ChecksumError, match="batch 0"):
        read_signatures(path)
    with monkeypatch.context() as older:
        written(path, spec)
        older.setattr(sys.modules["nearkin.stages.sketch.signature_file"], "FORMAT_VERSIONS", (1,))
        with pytest.raises(UnknownVersionError, match="'2', not 1"):
            read_signatures(path)
    path.write_bytes(b"something else")
    with pytest.raises(UsageError, match="not a signature file"):
        read_signatures(path)
    with pytest.raises(UsageError, match="no such file"):
        read_signatures(tmp_path / "none")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("x", pa.int8())])):
        pass
    with pytest.raises(UsageError, match="without a Spec"):
        read_signatures(path)


@pytest.mark.parametrize("spec", SPECS[1:], ids=lambda spec: f"{spec.measure}-{spec.slot_bits}")
def test_unmergeable_signatures_are_rejected(spec: Spec, tmp_path: Path) -> None:
    written(tmp_path / "a.arrow", spec)
    with pytest.raises(UsageError, match="cannot be merged"):
        merge_signatures([tmp_path / "a.arrow", tmp_path / "a.arrow"], tmp_path / "b.arrow")
    with pytest.raises(UsageError, match="cannot be built in parts or merged"):
        nk.MinHashBuilder(spec)


def test_mutated_files_are_rejected_or_unchanged(full: bool, tmp_path: Path) -> None:
    """Reads mutated files, which must be rejected or have exactly the written content."""
    path, rng = tmp_path / "a.arrow", random.Random(2)
    originals = []
    for spec in SPECS:
        signatures = written(path, spec)
        originals.append((spec, signatures, path.read_bytes()))
    refused = 0
    for _ in range(20_000 if full else 2_000):
        spec, signatures, good = rng.choice(originals)
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            if rng.random() < 0.8:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            else:
                del data[rng.randrange(len(data)) :]
                data += b"\0"
        path.write_bytes(bytes(data))
        try:
            restored = read_signatures(path, spec)
        except NearkinError:
            refused += 1
            continue
        assert (restored.signatures == signatures).all()
        assert restored.ids.to_pylist() == [f"doc {i}" for i in range(50)]
    assert refused > 500
