"""Tests of the recorded inputs, by which a run detects changes."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from nearkin.corpus import Columns, FileCorpus, describe_inputs, find_first_change
from nearkin.corpus.input_manifest import SAMPLE_BYTES, SAMPLES, HashedPart
from nearkin.errors import RunError, UsageError
from tests.corpus.samples import lines_of


def test_replacement_of_the_same_size_and_time_is_an_error(
    tmp_path: Path,
) -> None:
    source, other = tmp_path / "a.jsonl", tmp_path / "other"
    source.write_text(lines_of(1, 2))
    other.write_text(lines_of(3, 4))
    times = source.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    corpus = FileCorpus.open([str(source)])
    describe_inputs(corpus)
    other.replace(source)
    with pytest.raises(RunError, match="has changed"):
        list(corpus.batches(Columns()))


LARGE = SAMPLES * SAMPLE_BYTES + 1_000_003


def write_large(folder: Path) -> Path:
    """Writes a file that is larger than the samples."""
    path = folder / "large.jsonl"
    path.write_bytes(np.random.default_rng(1).bytes(LARGE))
    return path


def sampled_positions(size: int) -> list[int]:
    """Returns the first bytes of the samples: from the beginning to the end, evenly spaced."""
    return [(size - SAMPLE_BYTES) * number // (SAMPLES - 1) for number in range(SAMPLES)]


def overwrite(path: Path, position: int, *, restore_time: bool) -> None:
    """Inverts a byte of a file in place."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(position)
        value = file.read(1)
        file.seek(position)
        file.write(bytes([value[0] ^ 0xFF]))
    nanoseconds = before.st_mtime_ns if restore_time else before.st_mtime_ns + 10**9
    os.utime(path, ns=(nanoseconds, nanoseconds))


def change_of(path: Path, hash_inputs: HashedPart, position: int, *, restore_time: bool) -> str:
    described = describe_inputs(FileCorpus.open([str(path)]), hash_inputs)
    overwrite(path, position, restore_time=restore_time)
    return find_first_change(described, FileCorpus.open([str(path)])) or "none"


def test_samples_are_the_size_and_32_evenly_spaced_blocks(tmp_path: Path) -> None:
    path = write_large(tmp_path)
    content = path.read_bytes()
    digest = hashlib.sha256(LARGE.to_bytes(8, "little"))
    for position in sampled_positions(LARGE):
        digest.update(content[position : position + SAMPLE_BYTES])
    (entry,) = describe_inputs(FileCorpus.open([str(path)]))
    assert (entry["hashed"], entry["sha256"]) == ("sampled", digest.hexdigest())
    assert sampled_positions(LARGE)[0] == 0
    assert sampled_positions(LARGE)[-1] == LARGE - SAMPLE_BYTES


@pytest.mark.parametrize("size", [0, 1, SAMPLES * SAMPLE_BYTES])
def test_files_that_are_not_larger_than_the_samples_are_hashed_as_a_whole(
    size: int, tmp_path: Path
) -> None:
    path = tmp_path / "small.jsonl"
    path.write_bytes(np.random.default_rng(1).bytes(size))
    (entry,) = describe_inputs(FileCorpus.open([str(path)]))
    assert entry["hashed"] == "full"
    assert entry["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("hash_inputs", HashedPart)
def test_a_change_in_a_sample_is_seen(hash_inputs: HashedPart, tmp_path: Path) -> None:
    for position in (0, sampled_positions(LARGE)[17], LARGE - 1):
        path = write_large(tmp_path)
        change = change_of(path, hash_inputs, position, restore_time=True)
        assert "large.jsonl has changed: sha256 was" in change


def test_a_change_between_samples_is_seen_by_its_time(tmp_path: Path) -> None:
    path = write_large(tmp_path)
    between = sampled_positions(LARGE)[3] + SAMPLE_BYTES
    change = change_of(path, HashedPart.SAMPLED, between, restore_time=False)
    assert "has changed: its time of modification was" in change
    assert "only samples of it were hashed" in change


def test_only_a_full_hash_sees_a_change_between_samples_with_the_old_time(tmp_path: Path) -> None:
    path = write_large(tmp_path)
    between = sampled_positions(LARGE)[3] + SAMPLE_BYTES
    assert change_of(path, HashedPart.SAMPLED, between, restore_time=True) == "none"
    assert "sha256 was" in change_of(path, HashedPart.FULL, between, restore_time=True)


def test_a_new_time_alone_is_no_change_of_a_file_that_was_hashed_as_a_whole(
    tmp_path: Path,
) -> None:
    path = write_large(tmp_path)
    described = describe_inputs(FileCorpus.open([str(path)]), HashedPart.FULL)
    os.utime(path, ns=(10**18, 10**18))
    assert find_first_change(described, FileCorpus.open([str(path)])) is None


def test_records_without_the_kind_of_the_hash_hold_one_of_the_whole_content(
    tmp_path: Path,
) -> None:
    path = write_large(tmp_path)
    described = describe_inputs(FileCorpus.open([str(path)]), HashedPart.FULL)
    for entry in described:
        del entry["hashed"]
    assert find_first_change(described, FileCorpus.open([str(path)])) is None
    overwrite(path, sampled_positions(LARGE)[3] + SAMPLE_BYTES, restore_time=True)
    assert "sha256 was" in str(find_first_change(described, FileCorpus.open([str(path)])))


def test_unknown_part_of_inputs_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="is not one of sampled, full"):
        HashedPart.parse("none")
