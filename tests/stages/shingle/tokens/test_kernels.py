"""Tests of text of any script, which is marked in place, against the path that copies it."""

import random
import unicodedata
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from nearkin.settings.spec import Spec
from nearkin.stages.shingle import Shingler, Shingles, text_buffers
from nearkin.stages.shingle.normalization import kernels as normalization
from nearkin.stages.shingle.tokens import kernels
from nearkin.stages.shingle.tokens.kernels import SEGMENT
from nearkin.stages.shingle.unicode_tables import tables_for
from tests.stages.shingle.known_points import KNOWN_POINTS

HOSTILE = (
    "aZz_9 .\n-<=>"
    "éÉßſẞİıΣσςÅ각ﬁ㌀ﷺⅫ½²´日本語ーｶﾞガไทยำ乀䷿㐀中人，！Ａ１＜＞…\u00a0\u3000\u2011😀٣أآ😀𝐀𐐀𐐨𠀀"
    "\u0301\u0307\u0323\u0327\u0334\u0338\u0345\u1dfa\u20d0\u3099\u309a\u302a\u0e38\u0e48\u0e33"
    "\u0928\u0933\u091c\u093c\u094d\u0627\u0622\u0653\u0654\u0655\u064e\u0651\u05b0\u05bc"
    "\u09c7\u09be\u09d7\u1025\u102e\u0f71\u0f72\u0f74\u1100\u1161\u11a8\u1112\u11abIi\u212b\u1fbe"
    "\u00ad\u200b\u200c\u200d\ufeff\ue000\ud7a3\ud7ff\uf900\ufffd\uffef\U0010ffff"
)
"""Marks that compose, move or do neither, letters that change their size in lower case, code points
that expand, vanish or divide text, jamo, and neighbours of surrogates."""
SCRIPTS = [
    "word and TEXT ",
    "привет МИР ",
    "नमस्ते ज\u093cब\u093c ",
    "中国人的，。",
    "ひらカタ漢１",
    "한국어 ",
    "กำไทย ",
]
Contract = tuple[int, tuple[str, ...]]
CONTRACTS: list[Contract] = [
    (2, ("nfkc", "lower")),
    (2, ("lower",)),
    (2, ("nfkc", "lower", "marks")),
    (1, ("nfkc", "lower")),
    (1, ("nfkc", "lower", "marks")),
]
"""Versions of the contract with steps."""


def hash_texts(values: Sequence[str], contract: Contract, *, in_place: bool) -> Shingles:
    version, steps = contract
    shingler = Shingler(Spec(n=1, normalise=steps, version=version))
    assert shingler.fast
    shingler.fast = in_place
    return shingler.texts(*text_buffers(pa.array(values, pa.large_string())))


def assert_paths_agree(values: Sequence[str], contract: Contract) -> None:
    found = hash_texts(values, contract, in_place=True)
    want = hash_texts(values, contract, in_place=False)
    different = np.flatnonzero(np.diff(found.offsets) != np.diff(want.offsets))
    assert not len(different), ascii(values[different[0]])
    wrong = np.flatnonzero(found.hashes != want.hashes)
    assert not len(wrong), ascii(values[np.searchsorted(found.offsets, wrong[0], "right") - 1])
    assert found.symbols is not None
    assert want.symbols is not None
    mixed = np.flatnonzero((found.symbols != want.symbols).any(axis=1))
    assert not len(mixed), ascii(values[mixed[0]])


def make_hostile_texts(seed: int, count: int) -> list[str]:
    """Returns texts of few or many kinds of hostile code points, cut anywhere."""
    chosen = random.Random(seed)
    texts = []
    for _ in range(count):
        pool = chosen.choice(
            [
                list(HOSTILE),
                chosen.sample(HOSTILE, 4),
                list(chosen.choice(SCRIPTS)) + chosen.sample(HOSTILE, chosen.choice([0, 2, 5])),
            ]
        )
        text = "".join(chosen.choices(pool, k=chosen.choice([2, 9, 40, 200, 900])))
        texts.append(text[chosen.randrange(len(text)) :])
    return texts


def contract_id(contract: Contract) -> str:
    return "+".join((f"v{contract[0]}", *contract[1]))


@pytest.mark.parametrize("contract", CONTRACTS, ids=contract_id)
def test_text_marked_in_place_has_tokens_of_copied_text(contract: Contract, full: bool) -> None:
    for seed in range(100 if full else 2):
        assert_paths_agree(make_hostile_texts(seed, 300), contract)


@pytest.mark.parametrize("contract", CONTRACTS, ids=contract_id)
def test_each_assigned_code_point_has_tokens_of_copied_text(contract: Contract, full: bool) -> None:
    """Each one stands between letters, after a space, and before marks."""
    every = 1 if full or contract == CONTRACTS[0] else 13
    points = KNOWN_POINTS[0x80::every]
    values = [
        "".join(
            f"x{c}y {c}\u0301\u0323 中{c}\u093c, {c}\u0338-" for c in points[first : first + 200]
        )
        for first in range(0, len(points), 200)
    ]
    assert_paths_agree(values, contract)


def test_marks_of_long_run_are_in_canonical_order() -> None:
    marks = [chr(c) for c in range(0x300, 0x34F)] + ["\u05b0", "\u0651", "\u3099"]
    text = "q" + "".join(random.Random(1).choices(marks, k=3000))
    data = np.frombuffer(text.encode(), np.uint8)
    points, spare = np.empty((2, 9000), np.uint32)
    tables = tables_for(("nfkc",))
    count = normalization.normalise(data, np.uint64(0), np.uint64(len(data)), tables, points, spare)
    assert "".join(map(chr, points[:count])) == unicodedata.normalize("NFKC", text)


def count_work(text: str) -> int:
    """Counts the bytes of one segment that the kernels look at, as `mixed_tokens` calls them."""
    assert len(text.encode()) <= SEGMENT
    data, offsets = text_buffers(pa.array([text], pa.large_string()))
    shingler = Shingler(Spec())
    tables = shingler.tables
    scratch, _ = shingler._scratch(data, offsets)
    size = len(data)
    kernels.classify_ascii(data, np.uint64(0), np.uint64(size), scratch.text, scratch.inside)
    scratch.text[size : size + 72] = 0
    scratch.inside[size : size + 72] = 0
    work = 2 * size
    first = 0
    while first < size:
        stop = int(kernels.mark_tokens(np.uint64(first), np.uint64(size), tables, scratch))
        work += stop // 64 * 64 + 64 - first // 64 * 64
        if stop == size:
            break
        cut = int(kernels.cut_before(scratch.text, np.uint64(first), np.uint64(stop), tables))
        end = int(kernels.cut_after(scratch.text, np.uint64(stop), np.uint64(size), tables))
        assert first <= cut <= stop < end <= size
        work += 2 * (end - cut)
        first = end
    return work


@pytest.mark.parametrize(
    "unit",
    [
        "\u0301\u0323",
        "x\u0301",
        "กำ",
        "aＡ ",
        "İ",
        "a\u00ad",
        "\u0622\u0655",
        "中Ａ",
        "か\u3099",
        "ﬁ\u0338 ",
        "☺\u200d",
        "\u200d",
        "!\u0338…",
        "ß",
        "ı\u0307",
        "\u0640",
    ],
    ids=ascii,
)
def test_work_on_hostile_text_is_linear(unit: str) -> None:
    small = count_work(unit * 160)
    large = count_work(unit * 1280)
    assert large <= 8 * (small + 64)
    assert large <= 40 * len(unit.encode()) * 1280
