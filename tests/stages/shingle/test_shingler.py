"""Tests of shingles against an oracle: normalization, segments, tokens, markup and stems."""

import importlib.util
import sys
import unicodedata
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.errors import MissingExtraError, UsageError
from nearkin.settings.spec import FORMAT_VERSIONS, Spec
from nearkin.stages.shingle import Shingler, encode_texts, text_buffers
from nearkin.stages.shingle.shingler import LARGE
from nearkin.stages.shingle.tokens.kernels import SEGMENT
from nearkin.stages.sketch.sketcher import Sketcher, iterate_shingles
from tests.stages.shingle.known_points import KNOWN_POINTS


def load_oracle() -> ModuleType:
    module_spec = importlib.util.spec_from_file_location(
        "shingle_oracle", Path(__file__).with_name("oracle.py")
    )
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module


oracle = load_oracle()
STEPS = [
    ("nfkc", "lower"),
    (),
    ("lower",),
    ("nfkc",),
    ("nfkc", "lower", "digits"),
    ("nfkc", "lower", "punctuation"),
    ("nfkc", "lower", "marks"),
    ("nfkc", "lower", "digits", "punctuation", "marks"),
    ("nfkc", "lower", "symbols"),
    ("nfkc", "symbols", "punctuation"),
    ("lower", "symbols", "digits"),
]
"""Steps of version 2. Version 1 has all but `symbols`."""
CONTRACTS = [(2, steps) for steps in STEPS] + [(1, s) for s in STEPS if "symbols" not in s]
known = st.sampled_from(KNOWN_POINTS)
awkward = st.sampled_from(
    list(
        "aZ_9 .\n"
        "-éÉßſẞİıΣσςÅ각ᄀ각\u0301\u0323\u0345\u1dfa\u20d0ﬁ㌀ﷺⅫ½²日本語ーｶﾞไทย\u200d\u00ad😀٣\u3099\u302a"
    )
)
texts = st.text(st.one_of(awkward, known), max_size=40)


def shingles(values: list[str], spec: Spec) -> list[list[int]]:
    data, offsets = text_buffers(pa.array(values, pa.large_string()))
    hashes = Shingler(spec).texts(data, offsets)
    return [
        hashes.hashes[a:b].tolist()
        for a, b in zip(hashes.offsets, hashes.offsets[1:], strict=False)
    ]


def content_hashes(values: list[str], spec: Spec) -> list[list[int]]:
    hashes: list[list[int]] = Sketcher(spec).sketch(pa.array(values)).fingerprints.tolist()
    return hashes


def contract_id(contract: tuple[int, tuple[str, ...]]) -> str:
    return "+".join((f"v{contract[0]}", *contract[1]))


@pytest.mark.parametrize("contract", CONTRACTS, ids=contract_id)
@given(st.lists(texts, max_size=4))
@settings(max_examples=150)
def test_word_shingles_match_oracle(
    contract: tuple[int, tuple[str, ...]], values: list[str]
) -> None:
    version, steps = contract
    spec = Spec(n=2, normalise=steps, version=version)
    assert shingles(values, spec) == [oracle.word_shingles(v, 2, steps, version) for v in values]
    assert content_hashes(values, spec) == [
        oracle.word_content_hash(v, 2, steps, version) for v in values
    ]


@pytest.mark.parametrize("contract", CONTRACTS, ids=contract_id)
@given(st.lists(texts, max_size=4))
@settings(max_examples=50)
def test_character_shingles_match_oracle(
    contract: tuple[int, tuple[str, ...]], values: list[str]
) -> None:
    version, steps = contract
    spec = Spec(unit="chars", n=3, normalise=steps, version=version)
    assert shingles(values, spec) == [
        oracle.character_shingles(v, 3, steps, version) for v in values
    ]
    assert content_hashes(values, spec) == [
        oracle.character_content_hash(v, 3, steps, version) for v in values
    ]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 64])
def test_every_shingle_size_matches_oracle(n: int) -> None:
    values = ["one two three four five six seven", "one", "", "a b", "x " * 100]
    for unit, slow in (("words", oracle.word_shingles), ("chars", oracle.character_shingles)):
        assert shingles(values, Spec(unit=unit, n=n)) == [
            slow(v, n, ("nfkc", "lower")) for v in values
        ]


RULED = ("CJK UNIFIED IDEOGRAPH", "HANGUL SYLLABLE")
"""The beginnings of the names of code points that have equal facts, or normal forms by a rule."""


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
def test_every_assigned_code_point_matches_oracle(version: int, full: bool) -> None:
    """Uses unicodedata of Python as oracle: normal forms of assigned code points never change.

    The quick form takes every 29th of the four of five code points that are ruled.
    """
    points = [
        c
        for c in KNOWN_POINTS[0x80:]
        if full or ord(c) % 29 == 0 or not unicodedata.name(c, "").startswith(RULED)
    ]
    values = [f"x{c}\u0323\u0301b {c}" for c in points]
    spec = Spec(n=1, version=version)
    got = shingles(values, spec)
    hashes = content_hashes(values, spec)
    wrong = [
        f"U+{ord(c):04X}"
        for c, v, g, h in zip(points, values, got, hashes, strict=True)
        if g != oracle.word_shingles(v, 1, spec.normalise, version)
        or h != oracle.word_content_hash(v, 1, spec.normalise, version)
    ]
    assert not wrong


@pytest.mark.parametrize("filler", ["word ", "wörd ", "Ünïcode-", "漢字かな", "e\u0301 ", "x"])
@pytest.mark.parametrize("unit", ["words", "chars"])
def test_segments_of_long_documents_do_not_change_result(filler: str, unit: str) -> None:
    long = (filler * int(SEGMENT))[: int(SEGMENT) * 2 + 77]
    spec = Spec(unit=unit, n=3)
    slow = oracle.word_shingles if unit == "words" else oracle.character_shingles
    assert shingles([long, "short one"], spec) == [
        slow(long, 3, spec.normalise),
        slow("short one", 3, spec.normalise),
    ]


def test_ascii_and_unicode_paths_agree() -> None:
    rng = np.random.default_rng(5)
    values = [
        f"a{''.join(map(chr, rng.integers(0, 128, rng.integers(0, 400))))}" for _ in range(200)
    ]
    forced = [v + " \u00e9" for v in values]
    for quick, slow in zip(shingles(values, Spec(n=1)), shingles(forced, Spec(n=1)), strict=True):
        assert slow[:-1] == quick


def test_tokens_are_hashed_without_normalization() -> None:
    lists = pa.array([["A", "b c", "", "é"], [], ["A"]], pa.large_list(pa.large_string()))
    for part in (lists, lists[1:], lists[2:]):
        want = [
            [oracle.combine(oracle.xxh3([t.encode() for t in w])) for w in oracle.windows(v, 2)]
            for v in part.to_pylist()
        ]
        got = [
            found.hashes[a:b].tolist()
            for _, found in iterate_shingles(Shingler(Spec(n=2)), part)
            for a, b in zip(found.offsets, found.offsets[1:], strict=False)
        ]
        assert got == want


def test_markup_is_removed() -> None:
    spec = Spec(n=1, normalise=("nfkc", "lower", "markup"))
    values = [
        "<p class='a'>Fish &amp; chips</p><script>var x</script><!-- no -->",
        "a&#xD800;b 1 < 2",
        "",
    ]
    assert shingles(values, spec) == [
        oracle.word_shingles(v, 1, ("nfkc", "lower")) for v in ("fish chips", "a�b 1 2", "")
    ]


def test_stems_replace_tokens() -> None:
    spec = Spec(n=2, stem="english")
    first, second, third = shingles(
        ["Running dogs jumped", "run dog jump", "run dogs jumping é"], spec
    )
    assert first == second
    assert third[:2] == first


@pytest.mark.parametrize(
    ("steps", "count"), [(("nfkc", "lower"), 4), (("nfkc", "lower", "marks"), 3)]
)
def test_spellings_of_the_persian_ezafe_stay_different(steps: tuple[str, ...], count: int) -> None:
    """The page of the contract says why. U+06C0 and its canonical decomposition are one word."""
    forms = [
        "\u062e\u0627\u0646" + end
        for end in ("\u0647\u0654", "\u06c0", "\u0647\u200c\u06cc", "\u0647")
    ]
    decomposed = "\u062e\u0627\u0646\u06d5\u0654"
    spec = Spec(n=1, normalise=steps)
    found = shingles([*forms, decomposed], spec)
    assert len({tuple(words) for words in found[:-1]}) == count
    assert found[1] == found[-1]


def test_unknown_stem_language_is_rejected() -> None:
    with pytest.raises(UsageError, match=r"'klingon' is not one of .*english"):
        Shingler(Spec(stem="klingon"))


def test_missing_stemmer_error_names_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[stem\]"'):
        Shingler(Spec(stem="english"))


def test_slices_of_arrow_arrays_are_read() -> None:
    array = pa.array(
        ["first words here", "second words here", "third words here"], pa.large_string()
    )[1:]
    data, offsets = text_buffers(array)
    hashes = Shingler(Spec(n=1)).texts(data, offsets)
    assert hashes.hashes.tolist() == [
        h for v in array.to_pylist() for h in oracle.word_shingles(v, 1, ("nfkc", "lower"))
    ]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=5))
def test_encoded_texts_equal_the_buffers_of_their_array(values: list[str]) -> None:
    data, offsets = encode_texts(values)
    array = pa.array(values, pa.large_string())
    expected_data, expected_offsets = text_buffers(array)
    assert offsets.tolist() == expected_offsets.tolist()
    assert data.tobytes() == expected_data[: offsets[-1]].tobytes()
    assert not data.flags.writeable
    assert not offsets.flags.writeable
    assert (data.dtype, offsets.dtype) == (np.uint8, np.int64)


def test_shingles_do_not_depend_on_texts_before() -> None:
    """Buffers are reused: those of usual segments, and larger ones for a token of 20 kB."""
    texts = [
        "one two three four",
        "übermäßig viele Wörter",
        "x" * 20_000 + " y",
        "z" * 30_000 + "é",
    ]
    shingler = Shingler(Spec(n=1))
    alone = {text: shingles([text], Spec(n=1))[0] for text in texts}
    for text in [*texts, *reversed(texts), texts[1], texts[2], texts[0]]:
        data, offsets = encode_texts([text])
        assert shingler.texts(data, offsets).hashes.tolist() == alone[text]


def test_large_buffers_are_released_after_use() -> None:
    shingler = Shingler(Spec(n=1))
    for text in ["x" * (LARGE + 10_000), "a few words"]:
        shingler.texts(*encode_texts([text]))
        assert max(len(buffer) for buffer in shingler._buffers.values()) <= LARGE


def test_hash_seed_changes_every_shingle() -> None:
    a, b = (
        shingles(["one two three"], Spec(n=1)),
        shingles(["one two three"], Spec(n=1, hash_seed=7)),
    )
    assert not set(a[0]) & set(b[0])
    assert b[0] == [oracle.combine(oracle.xxh3([t.encode()], 7)) for t in ("one", "two", "three")]
