"""Tests of the tables of code points: laws of case, and bytes that no version of Python changes."""

import ast
import hashlib
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import nearkin
from nearkin.settings.spec import FORMAT_VERSIONS, Spec
from nearkin.stages.shingle import Shingler, text_buffers
from nearkin.stages.shingle.unicode_tables import tables_for
from nearkin.stages.sketch.sketcher import Sketcher
from tests.stages.shingle.known_points import KNOWN_POINTS

FOLDER = Path(nearkin.__file__).parent / "stages" / "shingle"
POINTS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
DIGESTS = {
    (1, "words"): "8ed0aa7c5f57008b",
    (1, "chars"): "ad23b69cc8ad75f7",
    (2, "words"): "ba1943103c17e20b",
    (2, "chars"): "9ba06ca5edb85122",
}
"""The beginning of the SHA-256 of the shingles and content hashes of all code points."""


def tokens_of(values: list[str], steps: tuple[str, ...] = ("nfkc", "lower")) -> list[list[int]]:
    spec = Spec(n=1, normalise=steps)
    found = Shingler(spec).texts(*text_buffers(pa.array(values, pa.large_string())))
    ends = found.offsets.tolist()
    return [found.hashes[a:b].tolist() for a, b in pairwise(ends)]


@pytest.mark.parametrize(("version", "unit"), DIGESTS)
def test_all_code_points_give_equal_bytes_on_every_python(version: int, unit: str) -> None:
    """Each stands in a word, alone, and before marks and symbols."""
    texts = pa.array(
        [
            "".join(f"x{c}\u0301y {c} {c}\u0338+1" for c in POINTS[first : first + 512])
            for first in range(0, len(POINTS), 512)
        ],
        pa.large_string(),
    )
    digest = hashlib.sha256()
    for steps in [("nfkc", "lower"), ("lower",), ("nfkc", "lower", "marks", "digits")]:
        spec = Spec(unit=unit, n=2, k=16, normalise=steps, version=version)
        sketches = Sketcher(
            spec,
        ).sketch(texts, also=lambda found: digest.update(found.hashes))
        digest.update(sketches.fingerprints.tobytes())
    assert digest.hexdigest()[:16] == DIGESTS[version, unit]


def test_no_table_of_python_decides_about_texts() -> None:
    names = {"unicodedata", "lower", "upper", "casefold", "isalpha", "isalnum", "isspace"}
    found = set()
    for path in FOLDER.rglob("*.py"):
        if path.name == "readable.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in names - {"lower"}:
                found.add((path.name, node.attr))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found |= {(path.name, node.func.attr)} & {(path.name, "lower")}
            if isinstance(node, ast.Import):
                found |= {(path.name, name.name) for name in node.names if name.name in names}
    # letters of ASCII, and names of elements
    assert found <= {("kernels.py", "upper"), ("markup.py", "upper")}


@pytest.mark.parametrize("change", [str.upper, str.lower, str.title, str.casefold, str.swapcase])
def test_words_do_not_depend_on_case(change: object) -> None:
    """Uses the mappings of Python, of the code points that it knows."""
    assert callable(change)
    known = set(KNOWN_POINTS)
    # a newer version of Unicode may have given a letter another case, which the contract lacks
    points = [c for c in KNOWN_POINTS if known.issuperset(change(c))]
    changed = [str(change(c)) for c in points]
    pairs = zip(points, tokens_of(points), tokens_of(changed), strict=True)
    assert [ascii(c) for c, before, after in pairs if before != after] == []


@pytest.mark.parametrize(
    "texts",
    [
        ("Die Straße ist groß", "DIE STRASSE IST GROSS"),
        ("ὀδυσσεύς", "ὈΔΥΣΣΕΎΣ", "ὀδυσσεύσ"),
        ("Diyarbakır İzmir", "DİYARBAKIR İZMİR", "diyarbakır i\u0307zmir"),
        ("علي كتاب", "علی کتاب", "علـــی كـتاب"),
        ("ᾠδή", "ὨΙΔΉ", "ᾠδή"),
        ("が", "か゛", "か\u3099"),
        ("ガギ", "ｶﾞｷﾞ", "カ゛キﾞ"),
        ("ﬁx", "FIX", "ｆｉｘ"),
    ],
)
def test_forms_of_one_word_are_equal(texts: tuple[str, ...]) -> None:
    first, *others = tokens_of(list(texts))
    assert all(other == first for other in others)
    spec = Spec(n=1)
    hashes = Sketcher(spec).sketch(pa.array(texts)).fingerprints
    assert (hashes == hashes[0]).all()


def test_marks_are_removed_where_they_are_optional() -> None:
    steps = ("nfkc", "lower", "marks")
    for text, bare in [
        ("été Ångström", "ete angstrom"),
        ("ὀδυσσεύς", "οδυσσευσ"),
        ("ещё", "еще"),
        ("שָׁלוֹם", "שלום"),
        ("كِتَابٌ", "كتاب"),
    ]:
        first, second = tokens_of([text, bare], steps)
        assert first == second, text
    for words in ("ขาว ข่าว ข้าว", "क़लम कलम", "かき がぎ", "한 하"):
        distinct = {tuple(found) for found in tokens_of(words.split(), steps)}
        assert len(distinct) == len(words.split())


@pytest.mark.parametrize("word", ["ꦏꦧꦂ", "ᬩᬮᬶ", "བོད", "မြန်မာ", "ꆈꌠ", "ᨲᩫ", "ไทย"])
def test_scripts_without_spaces_have_a_token_for_each_code_point(word: str) -> None:
    assert len(tokens_of([word])[0]) == len(word)


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
def test_tables_of_all_steps_describe_every_code_point(version: int) -> None:
    for steps in [(), ("nfkc",), ("lower",), ("nfkc", "lower", "digits", "punctuation", "marks")]:
        tables = tables_for(steps, version)
        assert len(tables.stage) >= 0x110000 // 128
        assert tables.covers_symbols == (version > 1)
        assert tables.composes == ("nfkc" in steps)
