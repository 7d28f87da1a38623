"""Tests of the kernels of banding against plain Python."""

from collections import defaultdict
from itertools import combinations

import numpy as np
import pytest

from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.band_keys import (
    EVERY_LATER,
    NEVER_HOT,
    BandLayout,
    sign_layout,
    slot_layout,
    truncated_layout,
)
from nearkin.stages.pair_scope import EVERY_SOURCE
from nearkin.stages.sketch.kernels import truncate
from tests.stages.lsh.random_signatures import random_signatures

EMPTY = 0xFFFFFFFF
TWO = slot_layout(2)


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def key_oracle(slots: list[int], salt: int, band: int, rows: int) -> int:
    h = mix((salt + (band + 1) * 0x9E3779B97F4A7C15) % 2**64)
    for slot in slots[band * rows : (band + 1) * rows]:
        h = ((h ^ slot) * 0xD6E8FEB86659FD93) % 2**64
        h ^= h >> 32
    return mix(h)


def test_slot_keys_match_formula() -> None:
    signatures = random_signatures(20, 24, 2**32 - 1, 1)
    salts = np.arange(20, dtype=np.uint64) * np.uint64(2**60)
    out = np.empty((4, 20), np.uint64)
    kernels.slot_keys(signatures, salts, slot_layout(5).layout, out)
    want = [
        [
            key_oracle(s.tolist(), int(salt), band, 5)
            for s, salt in zip(signatures, salts, strict=True)
        ]
        for band in range(4)
    ]
    assert out.tolist() == want


def test_each_candidate_pair_occurs_once_over_all_bands() -> None:
    n = 60
    rows = 2
    bands = 6
    signatures = random_signatures(n, 12, 4, 3)
    signatures[0] = EMPTY
    margin, band_layout = 3, slot_layout(rows)
    histogram = np.zeros(13, np.int64)
    seen = []
    for band in range(bands):
        buckets = defaultdict(list)
        for i in range(1, n):
            buckets[tuple(signatures[i, band * rows : band * rows + rows])].append(i)
        groups = [g for g in buckets.values() if len(g) > 1]
        ordinals = np.array([i for g in groups for i in g], np.uint64)
        ends = np.cumsum([len(g) for g in groups]).astype(np.int64)
        starts = ends - [len(g) for g in groups]
        out = np.empty(n * n, np.uint64)
        count = kernels.bucket_pairs(
            ordinals,
            starts,
            ends,
            ends,
            EVERY_LATER,
            signatures,
            NEVER_HOT,
            band,
            *band_layout,
            margin,
            histogram,
            out,
        )
        seen += out[:count].tolist()
    candidates = [
        (a, b, int((signatures[a] == signatures[b]).sum()))
        for a, b in combinations(range(1, n), 2)
        if any(
            (
                signatures[a, r * rows : r * rows + rows]
                == signatures[b, r * rows : r * rows + rows]
            ).all()
            for r in range(bands)
        )
    ]
    assert sorted(seen) == sorted(a << 32 | b for a, b, same in candidates if same >= margin)
    assert (
        histogram.tolist() == np.bincount([same for *_, same in candidates], minlength=13).tolist()
    )


def test_pair_of_hot_bucket_is_not_skipped_as_seen() -> None:
    signatures = np.ones((2, 8), np.uint32)
    out, histogram = np.empty(1, np.uint64), np.zeros(9, np.int64)
    ends = np.array([2])
    one = (np.array([0, 1], np.uint64), np.array([0]), ends, ends, EVERY_LATER, signatures)
    assert kernels.bucket_pairs(*one, NEVER_HOT, 1, *TWO, 0, histogram, out) == 0
    in_this_band = np.ones(2, np.uint16)
    assert kernels.bucket_pairs(*one, in_this_band, 1, *TWO, 0, histogram, out) == 0
    assert kernels.bucket_pairs(*one, np.zeros(2, np.uint16), 1, *TWO, 0, histogram, out) == 1


@pytest.mark.parametrize("fanout", [1, 3, 50])
def test_member_of_hot_bucket_is_paired_with_most_similar_and_first_leader(fanout: int) -> None:
    signatures = random_signatures(50, 16, 2, 5)
    margin = 9
    join = 11
    members = np.random.default_rng(1).permutation(50).astype(np.uint64)
    out, histogram = np.empty(100, np.uint64), np.zeros(17, np.int64)
    known, limits = np.empty(fanout, np.uint64), (margin, join)
    nearest = np.full(50, -2)
    count, _ = kernels.hot_bucket_pairs(
        members, EVERY_SOURCE, signatures, TWO.layout, *limits, known, 0, histogram, nearest, out
    )
    leaders: list[int] = []
    want = []
    want_nearest = []
    for a in members.tolist():
        scores = [int((signatures[a] == signatures[l]).sum()) for l in leaders]
        if scores and max(scores) >= margin:
            first = next(l for l, score in zip(leaders, scores, strict=True) if score >= margin)
            want += [
                min(a, b) << 32 | max(a, b)
                for b in dict.fromkeys([leaders[scores.index(max(scores))], first])
            ]
        is_left_over = bool(scores) and max(scores) < join and len(leaders) == fanout
        want_nearest.append(scores.index(max(scores)) if is_left_over else -1)
        if (not scores or max(scores) < join) and len(leaders) < fanout:
            leaders.append(a)
    assert out[:count].tolist() == want
    assert nearest.tolist() == want_nearest
    # Processing the bucket in two portions gives the same result.
    again, counted = np.empty(100, np.uint64), np.zeros(17, np.int64)
    first, kept = kernels.hot_bucket_pairs(
        members[:20],
        EVERY_SOURCE,
        signatures,
        TWO.layout,
        *limits,
        known,
        0,
        counted,
        nearest[:20],
        again,
    )
    rest, kept = kernels.hot_bucket_pairs(
        members[20:],
        EVERY_SOURCE,
        signatures,
        TWO.layout,
        *limits,
        known,
        kept,
        counted,
        nearest[20:],
        again[first:],
    )
    assert nearest.tolist() == want_nearest
    assert again[: first + rest].tolist() == want
    assert known[:kept].tolist() == leaders
    assert counted.tolist() == histogram.tolist()


def test_empty_slots_do_not_agree() -> None:
    empty, out = np.full((2, 8), EMPTY, np.uint32), np.empty(1, np.int64)
    one = np.array([1], np.uint64)
    kernels.pair_agreements(one, empty, TWO.layout, out)
    assert out.tolist() == [0]
    kernels.pair_agreements(
        one, np.array([[1, 2, EMPTY, 4], [1, 3, EMPTY, 4]], np.uint32), TWO.layout, out
    )
    assert out.tolist() == [2]


def agreeing(signatures: np.ndarray, band_layout: BandLayout) -> int:
    out = np.empty(1, np.int64)
    kernels.pair_agreements(np.array([1], np.uint64), signatures, band_layout.layout, out)
    return int(out[0])


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("k", [8, 24, 64, 128, 136])
def test_truncated_slots_agree_if_lowest_bits_agree(bits: int, k: int) -> None:
    slots = random_signatures(2, k, 2**32 - 1, bits * k)
    slots[1, ::3] = slots[0, ::3]
    low = slots & np.uint32((1 << bits) - 1)
    packed = np.empty((2, k * bits // 8), np.uint8)
    truncate(slots, bits, packed)
    assert int.from_bytes(packed[0].tobytes(), "little") == sum(
        int(x) << bits * j for j, x in enumerate(low[0])
    )
    band_layout = truncated_layout(k, bits, np.empty((2, 0), np.uint64))
    assert agreeing(packed, band_layout) == int((low[0] == low[1]).sum())


@pytest.mark.parametrize("words", [1, 2, 8])
def test_sign_kernels_match_formulas(words: int) -> None:
    rng = np.random.default_rng(words)
    signatures = rng.integers(0, 2**63, (30, words), np.uint64)
    signatures[1:15] = signatures[0] ^ (
        rng.integers(0, 2**63, (14, words), np.uint64) & rng.integers(0, 2**63, words, np.uint64)
    )
    masks = np.array([[0xFF << 8 * band % 64] * words for band in range(6)], np.uint64)
    band_layout = sign_layout(masks)
    assert agreeing(signatures, band_layout) == sum(
        64 - int(a ^ b).bit_count() for a, b in zip(*signatures[:2], strict=True)
    )
    keys = np.empty((6, 30), np.uint64)
    kernels.sign_keys(signatures, np.zeros(30, np.uint64), masks, keys)
    for a, b in combinations(range(30), 2):
        equal = [((signatures[a] ^ signatures[b]) & masks[band] == 0).all() for band in range(6)]
        assert (keys[:, a] == keys[:, b]).tolist() == equal
        x, y = np.uint64(a), np.uint64(b)
        assert kernels.signs_seen(signatures, masks, x, y, 5, band_layout.layout) == any(equal[:5])


def test_keys_of_truncated_slots_identify_earlier_bands() -> None:
    keys = np.array([[1, 2, 3], [9, 2, 8]], np.uint64)
    band_layout = truncated_layout(64, 1, keys)
    packed = np.zeros((2, 8), np.uint8)
    x, y = np.uint64(0), np.uint64(1)
    assert [
        kernels.truncated_seen(packed, keys, x, y, band, band_layout.layout) for band in range(3)
    ] == [False, False, True]


def test_salted_keys_separate_blocks() -> None:
    keys, out = np.full((3, 2), 7, np.uint64), np.empty((2, 3), np.uint64)
    kernels.salt_keys(keys, np.array([0, 5, 5], np.uint64), out)
    assert out[0, 0] != out[0, 1] == out[0, 2]


@pytest.mark.parametrize("fanout", [1, 3, 50])
def test_member_of_hot_bucket_is_paired_with_leaders_of_other_sources(fanout: int) -> None:
    signatures = random_signatures(50, 16, 2, 5)
    sources = (np.arange(50) % 3).astype(np.uint64)
    margin = 9
    join = 11
    members = np.random.default_rng(1).permutation(50).astype(np.uint64)
    out = np.empty(100, np.uint64)
    count, kept = kernels.hot_bucket_pairs(
        members,
        sources,
        signatures,
        TWO.layout,
        margin,
        join,
        np.empty(fanout, np.uint64),
        0,
        np.zeros(17, np.int64),
        np.empty(50, np.int64),
        out,
    )
    leaders: list[int] = []
    want = []
    for a in members.tolist():
        scores = {l: int((signatures[a] == signatures[l]).sum()) for l in leaders}
        others = [l for l in leaders if sources[l] != sources[a] and scores[l] >= margin]
        if others:
            best = max(others, key=lambda l: scores[l])
            want += [min(a, b) << 32 | max(a, b) for b in dict.fromkeys([best, others[0]])]
        if max(scores.values(), default=-1) < join and len(leaders) < fanout:
            leaders.append(a)
    assert out[:count].tolist() == want
    assert kept == len(leaders)
