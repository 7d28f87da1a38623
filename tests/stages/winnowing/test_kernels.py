"""Kernels of passages, compared with plain computations."""

import numpy as np
import pytest

from nearkin.stages.winnowing import kernels
from nearkin.stages.winnowing.fingerprints import Buffers, anchor_width, collect_anchors
from nearkin.stages.winnowing.tokens import TokenPiece

PRIME = (1 << 61) - 1
U64 = np.uint64


def hash_of(tokens: list[int], base: int) -> int:
    """Returns the value of the polynomial over token hashes."""
    value = 0
    for token in tokens:
        value = (value * base + (token & PRIME) % PRIME) % PRIME
    return value


def piece_of(documents: list[list[int]]) -> TokenPiece:
    total = sum(map(len, documents))
    return TokenPiece(
        hashes=np.array([token for document in documents for token in document], np.uint64),
        starts=np.zeros(total, np.uint32),
        ends=np.zeros(total, np.uint32),
        offsets=np.cumsum([0, *map(len, documents)]).astype(np.int64),
        places=np.arange(len(documents), dtype=np.uint64) << U64(32),
    )


@pytest.mark.parametrize("base", [kernels.BASE, kernels.CHECK_BASE])
def test_hash_of_each_run_is_the_polynomial_of_its_tokens(base: np.uint64) -> None:
    rng = np.random.default_rng(2)
    tokens = rng.integers(0, 2**64, 40, dtype=np.uint64)
    tokens[:4] = [0, PRIME, 2**64 - 1, PRIME - 1]
    for width in (1, 2, 7, 40):
        out = np.empty(40 - width + 1, np.uint64)
        kernels.hash_runs(tokens, U64(0), U64(40), U64(width), base, out)
        assert out.tolist() == [
            hash_of(tokens[i : i + width].tolist(), int(base)) for i in range(40 - width + 1)
        ]


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 60, 2**40 + 5])
def test_power_is_that_of_integers(exponent: int) -> None:
    expected = pow(int(kernels.BASE), exponent, PRIME)
    assert kernels.power(kernels.BASE, U64(exponent)) == expected


@pytest.mark.parametrize("width", [1, 2, 3, 5, 16])
def test_anchor_is_the_last_smallest_hash_of_each_window(width: int) -> None:
    rng = np.random.default_rng(width)
    for count in (width, width + 1, 3 * width + 2, 64):
        for values in (3, 10**6):
            hashes = rng.integers(0, values, max(count, width)).astype(np.uint64)
            count = len(hashes)
            out = np.empty(count - width + 1, np.uint32)
            suffix = np.empty(count, np.uint32)
            kernels.select_anchors(hashes, U64(count), U64(width), suffix, out)
            expected = [
                max(range(i, i + width), key=lambda place: (-int(hashes[place]), place))
                for i in range(count - width + 1)
            ]
            assert out.tolist() == expected


def test_anchors_of_documents_are_written_once_for_each_place() -> None:
    rng = np.random.default_rng(4)
    documents = [rng.integers(0, 50, size).tolist() for size in (0, 3, 8, 30, 9)]
    least = 8
    width = anchor_width(least)
    expected = []
    for document in documents:
        hashes = [
            hash_of(document[i : i + width], int(kernels.BASE))
            for i in range(len(document) - width + 1)
        ]
        windows = [range(i, i + least - width + 1) for i in range(len(document) - least + 1)]
        places = [max(window, key=lambda at: (-hashes[at], at)) for window in windows]
        expected += [
            hashes[at] for number, at in enumerate(places) if not number or places[number - 1] != at
        ]
    assert collect_anchors(piece_of(documents), least, Buffers()).tolist() == expected


def test_table_contains_every_hash_that_was_added_twice() -> None:
    rng = np.random.default_rng(5)
    hashes = rng.integers(0, PRIME, 500).astype(np.uint64)
    for words in (1, 4, 1 << 14):
        once = np.zeros(words, np.uint64)
        twice = np.zeros(words, np.uint64)
        kernels.count_anchors(hashes, once, twice)
        kernels.count_anchors(hashes[:100], once, twice)
        again = np.zeros(words, np.uint64)
        kernels.count_anchors(hashes[:100], again, np.zeros(words, np.uint64))
        assert not np.any(again & ~twice)
        if words == 1 << 14:
            assert int(np.bitwise_count(twice).sum()) <= 3 * 110


def test_few_hashes_that_were_added_once_are_in_the_table() -> None:
    words = 1 << 12
    hashes = np.random.default_rng(5).integers(0, PRIME, 3 * words).astype(np.uint64)
    twice = np.zeros(words, np.uint64)
    kernels.count_anchors(hashes, np.zeros(words, np.uint64), twice)
    marked = int(np.bitwise_count(twice).sum()) / 3
    assert 0 < marked < len(hashes) / 200


def test_windows_before_two_windows_agree_as_far_as_their_contents() -> None:
    rng = np.random.default_rng(6)
    contents = rng.integers(0, 3, 200)
    places = np.arange(200, dtype=np.uint64)
    places[90:] += U64(5)
    first: dict[int, int] = {}
    second: dict[int, int] = {}
    for number, content in enumerate(contents.tolist()):
        if content in first:
            second.setdefault(content, number)
        else:
            first[content] = number
    sources = np.array(
        [
            second.get(content, int(kernels.NONE)) if first[content] == number else first[content]
            for number, content in enumerate(contents.tolist())
        ],
        np.uint64,
    )
    prefixes = np.empty(201, np.uint64)
    kernels.hash_contents(sources, prefixes)
    for _ in range(300):
        a, b = rng.integers(0, 200, 2).tolist()
        expected = 0
        while (
            expected < min(a, b)
            and contents[a - expected - 1] == contents[b - expected - 1]
            and places[a] - places[a - expected - 1] == expected + 1
            and places[b] - places[b - expected - 1] == expected + 1
        ):
            expected += 1
        if a == b:
            continue
        assert kernels.common_before(U64(a), U64(b), places, prefixes) == expected


def test_bytes_in_several_passages_count_once() -> None:
    out = np.zeros(4, np.int64)
    documents = np.array([0, 0, 0, 2, 2], np.uint32)
    starts = np.array([0, 5, 30, 10, 10], np.uint32)
    ends = np.array([10, 20, 40, 15, 30], np.uint32)
    kernels.count_repeated_bytes(documents, starts, ends, out)
    assert out.tolist() == [30, 0, 20, 0]
