"""Tests of the index of signatures by Hamming distance."""

import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.errors import UsageError, WireError
from nearkin.index.signatures.hamming_index import HammingIndex, Neighbour

MAX_BYTES = 400
"""The memory of a fingerprint of 64 bits at distance 3, in bytes, that the documentation states."""


def random_words(n: int, seed: int, words: int = 1) -> np.ndarray:
    """Returns random signatures, uint64 (n, words)."""
    return np.random.default_rng(seed).integers(0, 2**64, (n, words), np.uint64)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "remove", "query"]),
            st.integers(0, 9),
            st.integers(0, 2**10 - 1),
        ),
        max_size=60,
    )
)
def test_index_against_a_dictionary(steps: list[tuple[str, int, int]]) -> None:
    index, held = HammingIndex(64, 3, expected=100), dict[int, int]()
    for what, id, signature in steps:
        if what == "add":
            index.add(id, signature)
            held[id] = signature
        elif what == "remove" and id in held:
            index.remove(id)
            del held[id]
        else:
            want = sorted(
                (d, i) for i, s in held.items() if (d := (s ^ signature).bit_count()) <= 3
            )
            assert [(n.distance, n.id) for n in index.query(signature)] == want
    assert len(index) == len(held)


@pytest.mark.parametrize("words", [1, 2])
def test_queries_find_what_comparison_of_all_finds(words: int) -> None:
    rng = np.random.default_rng(words)
    stored = random_words(3000, 1, words)
    queries = stored[:200].copy()
    for number in range(200):
        for bit in rng.choice(64 * words, number % 8, replace=False):
            queries[number, bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
    index = HammingIndex(64 * words, 5, expected=3000)
    ids = rng.permutation(3000) - 1500
    index.add_many(ids, stored)
    distances = np.bitwise_count(queries[:, None] ^ stored[None]).sum(axis=2, dtype=np.int64)
    for number, neighbours in enumerate(index.query_many(queries)):
        near = np.flatnonzero(distances[number] <= 5)
        expected = sorted((int(distances[number, row]), int(ids[row])) for row in near)
        assert [(found.distance, found.id) for found in neighbours] == expected


def test_a_replaced_signature_is_not_found_again() -> None:
    index = HammingIndex(64, 1)
    index.add(-5, 0b1111 << 20)
    index.add(-5, 0b1111 << 40)
    assert index.query(0b1111 << 20) == []
    assert index.query(0b1111 << 40) == [Neighbour(-5, 0)]
    assert len(index) == 1


def test_rows_of_replaced_signatures_are_reused() -> None:
    index = HammingIndex(64, 3, expected=1000)
    ids = np.arange(1000)
    for seed in range(20):
        index.add_many(ids, random_words(1000, seed))
    assert len(index) == 1000
    assert index.nbytes < 5 * MAX_BYTES * 1000
    assert [found[0].id for found in index.query_many(random_words(1000, 19))] == ids.tolist()


def test_a_fingerprint_needs_less_memory_than_documented() -> None:
    n = 100_000
    index = HammingIndex(64, 3)
    index.add_many(np.arange(n), random_words(n, 3))
    assert len(index._layout.masks_or_keys) == 10
    assert index.nbytes / n < MAX_BYTES


def test_saved_index_is_loaded_with_the_same_answers(tmp_path: Path) -> None:
    path = tmp_path / "index.hamming"
    index = HammingIndex(128, 4, expected=500)
    words = random_words(500, 7, 2)
    index.add_many(np.arange(500), words)
    index.remove(250)
    index.save(path)
    loaded = HammingIndex.load(path)
    assert (loaded.bits, loaded.distance, loaded.blocks) == (128, 4, index.blocks)
    assert len(loaded) == 499
    assert loaded.query_many(words) == index.query_many(words)
    HammingIndex(64, 1).save(path)
    assert len(HammingIndex.load(path)) == 0


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.hamming"
    index = HammingIndex(64, 3)
    index.add_many(np.arange(100), random_words(100, 1))
    index.save(path)
    whole = path.read_bytes()
    with pytest.raises(UsageError, match="cannot be read"):
        HammingIndex.load(tmp_path / "other")
    for damaged in (
        whole[:-40],
        whole[: len(whole) // 2],
        b"",
        b"text",
        whole.replace(whole[700:708], b"\0" * 8),
    ):
        path.write_bytes(damaged)
        with pytest.raises(WireError):
            HammingIndex.load(path)


def test_a_failed_save_keeps_the_previous_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index.hamming"
    index = HammingIndex(64, 3)
    index.add(1, 5)
    index.save(path)
    index.add(2, 6)

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="no space"):
        index.save(path)
    assert len(HammingIndex.load(path)) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_threads_add_and_query_at_the_same_time() -> None:
    index = HammingIndex(64, 3, expected=10_000)
    words = random_words(4000, 5)
    failures: list[object] = []

    def work(part: int) -> None:
        try:
            for row in range(part, 4000, 4):
                index.add(row, int(words[row, 0]))
                if Neighbour(row, 0) not in index.query(int(words[row, 0])):
                    failures.append(row)
                if row % 8 == part:
                    index.remove(row)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(index) == 2000
    kept = [found[0].id for found in index.query_many(words) if found]
    assert kept == [row for row in range(4000) if row % 8 >= 4]


def test_pickled_index_answers_alike() -> None:
    index = HammingIndex(64, 3)
    index.add(1, 0b111)
    copy = pickle.loads(pickle.dumps(index))
    copy.add(2, 0b11)
    assert copy.query(0b111) == [Neighbour(1, 0), Neighbour(2, 1)]
    assert len(index) == 1


def test_errors_name_invalid_value() -> None:
    index = HammingIndex(64, 3)
    with pytest.raises(UsageError, match="under the id 5"):
        index.remove(5)
    with pytest.raises(UsageError, match="multiple of 64"):
        HammingIndex(100, 3)
    with pytest.raises(UsageError, match="not a signature of 64 bits"):
        index.query(2**64)
    for id in (2**63, 2**70, 1.5, "x"):
        with pytest.raises(UsageError, match=r"64 bits with sign|give a (list of )?whole number"):
            index.add(id, 1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="2 ids and 1 signatures"):
        index.add_many([1, 2], np.zeros(1, np.uint64))
    with pytest.raises(UsageError, match="more than once"):
        index.add_many([1, 1], np.zeros(2, np.uint64))
    with pytest.raises(UsageError, match="have 128 bits"):
        index.query_many(np.zeros((1, 2), np.uint64))
    assert len(index) == 0
