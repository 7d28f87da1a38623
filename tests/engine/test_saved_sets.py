"""Tests of the sets of shingle hashes that a finished run keeps."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from nearkin.engine import saved_sets
from nearkin.engine.payload_batches import PayloadBatch
from nearkin.engine.saved_sets import (
    CHECKSUMS,
    ENDS,
    FINGERPRINTS,
    LOWER,
    UPPER,
    WORDS,
    SavedSets,
    write_sets,
)
from nearkin.errors import RunError
from nearkin.stages.measures import Payload

Result = TypeVar("Result")


class SomeSets:
    """Given sets as a source of payloads, in batches of three documents."""

    def __init__(self, sets: list[np.ndarray]) -> None:
        self.sets = sets

    def map_batches(
        self, work: Callable[[PayloadBatch], Result], wanted: np.ndarray | None = None
    ) -> Iterator[Result]:
        for first in range(0, len(self.sets), 3):
            part = self.sets[first : first + 3]
            sizes = np.array([len(each) for each in part], np.int64)
            payload = Payload(sizes, (np.concatenate([np.empty(0, np.uint64), *part]),))
            yield work(PayloadBatch(first, len(part), payload))


@pytest.fixture
def sets() -> list[np.ndarray]:
    """Sorted sets of hashes whose lowest 16 bits are 0, some of them empty."""
    rng = np.random.default_rng(3)
    sizes = [0, 5, 1, 0, 700, 12, 3, 0, 40, 2, 0]
    return [
        np.unique(rng.integers(0, 2**64, size, dtype=np.uint64) >> np.uint64(16)) << np.uint64(16)
        for size in sizes
    ]


def save(sets: list[np.ndarray], folder: Path, seed: int = 5, *, has_fields: bool = False) -> None:
    """Writes sets, and random fingerprints as those of their documents."""
    rng = np.random.default_rng(seed)
    rng.integers(0, 2**64, (len(sets), 2), dtype=np.uint64).tofile(folder / FINGERPRINTS)
    write_sets(SomeSets(sets), folder, has_fields=has_fields)


@pytest.mark.parametrize("per_piece", [1, 600, 10**6])
@pytest.mark.parametrize("at_once", [1, 50, 10**6])
@pytest.mark.parametrize("wanted", [None, [], [0], [1, 4, 5, 10], [4]], ids=str)
def test_sets_are_read_as_they_were_written(
    sets: list[np.ndarray],
    wanted: list[int] | None,
    at_once: int,
    per_piece: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(saved_sets, "HASHES_AT_ONCE", at_once)
    monkeypatch.setattr(saved_sets, "HASHES_PER_PIECE", per_piece)
    save(sets, tmp_path)
    saved = SavedSets.open(tmp_path, len(sets), 2)
    assert saved is not None
    numbers = None if wanted is None else np.array(wanted, np.int64)
    batches = list(saved.map_batches(lambda batch: batch, numbers))
    assert [batch.first for batch in batches] == np.cumsum(
        [0, *(batch.documents for batch in batches[:-1])]
    ).tolist()
    assert sum(batch.documents for batch in batches) == len(sets)
    read: list[list[int]] = []
    for batch in batches:
        (hashes,) = batch.payload.columns
        assert hashes.dtype == np.uint64
        read += [part.tolist() for part in np.split(hashes, np.cumsum(batch.payload.sizes))[:-1]]
    assert read == [sets[n].tolist() for n in (range(len(sets)) if wanted is None else wanted)]


def test_sets_that_are_missing_or_cut_are_not_used(sets: list[np.ndarray], tmp_path: Path) -> None:
    assert SavedSets.open(tmp_path, len(sets), 1) is None
    save(sets, tmp_path)
    assert SavedSets.open(tmp_path, len(sets) - 1, 1) is None
    for name in (ENDS, UPPER, LOWER, CHECKSUMS):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:-2])
        assert SavedSets.open(tmp_path, len(sets), 1) is None
        (tmp_path / name).unlink()
        assert SavedSets.open(tmp_path, len(sets), 1) is None
        (tmp_path / name).write_bytes(whole)
    assert SavedSets.open(tmp_path, len(sets), 1) is not None


def test_words_of_several_fields_are_saved_as_a_whole(
    sets: list[np.ndarray], tmp_path: Path
) -> None:
    words = [each[::-1] | np.uint64(0xABCD) for each in sets]
    save(words, tmp_path, has_fields=True)
    assert SavedSets.open(tmp_path, len(sets), 1) is None
    saved = SavedSets.open(tmp_path, len(sets), 1, has_fields=True)
    assert saved is not None
    (batch,) = saved.map_batches(lambda batch: batch)
    assert batch.payload.columns[0].tolist() == np.concatenate(words).tolist()
    assert batch.payload.sizes.tolist() == [len(each) for each in words]
    content = (tmp_path / WORDS).read_bytes()
    (tmp_path / WORDS).write_bytes(content[:-8])
    assert SavedSets.open(tmp_path, len(sets), 1, has_fields=True) is None
    changed = bytearray(content)
    changed[70] ^= 1
    (tmp_path / WORDS).write_bytes(changed)
    damaged = SavedSets.open(tmp_path, len(sets), 1, has_fields=True)
    assert damaged is not None
    with pytest.raises(RunError, match=r"delete .*set-words, so that the texts are read"):
        list(damaged.map_batches(lambda batch: batch))


def test_no_documents_have_no_sets(tmp_path: Path) -> None:
    save([], tmp_path)
    saved = SavedSets.open(tmp_path, 0, 1)
    assert saved is not None
    assert list(saved.map_batches(lambda batch: batch)) == []


def test_changed_hashes_are_never_compared(sets: list[np.ndarray], tmp_path: Path) -> None:
    save(sets, tmp_path)
    rng = np.random.default_rng(7)
    for name in (ENDS, UPPER, LOWER, CHECKSUMS):
        whole = (tmp_path / name).read_bytes()
        for _ in range(20):
            changed = bytearray(whole)
            changed[rng.integers(len(whole))] ^= 1 << rng.integers(8)
            (tmp_path / name).write_bytes(changed)
            saved = SavedSets.open(tmp_path, len(sets), 1)
            if saved is not None:
                with pytest.raises(RunError, match=r"are damaged.*delete .*set-upper"):
                    list(saved.map_batches(lambda batch: batch))
        (tmp_path / name).write_bytes(whole)


def test_hashes_of_other_documents_are_never_compared(
    sets: list[np.ndarray], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    save(sets[::-1], other)
    save(sets, tmp_path, seed=6)
    for name in (ENDS, UPPER, LOWER, CHECKSUMS):
        (other / name).rename(tmp_path / name)
    saved = SavedSets.open(tmp_path, len(sets), 1)
    assert saved is not None
    with pytest.raises(RunError, match="were replaced: those of document 0 are not"):
        list(saved.map_batches(lambda batch: batch))
