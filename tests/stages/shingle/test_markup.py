"""Tests of the removal of markup: what is markup in each version, and the work of hostile texts."""

import re

import pyarrow as pa
import pytest

from nearkin.settings.spec import FORMAT_VERSIONS, Spec
from nearkin.stages.shingle import Shingler, encode_texts
from nearkin.stages.shingle.markup import NAMES, REST, RULES, ForwardSearch, without_markup

INVISIBLE = re.compile(r"<!--.*?-->|<(script|style)\b[^>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
TAG = re.compile(r"</?[A-Za-z][^<>]*>|<![^<>]*>|<\?[^<>]*\?>")


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("<p class='a'>Fish &amp; <b>chips</b></p>", "Fish & chips"),
        ("<BR>a<br/>b<BR CLEAR=ALL>c", "a b c"),
        ("Ann <ann@example.org>, a < b > c", "Ann <ann@example.org>, a < b > c"),
        ("vector<int> x; Map<String, Object> y; Set<Path> z", None),
        ("f<T>(x) <T> <Foo> <my-widget> <x:y>", None),
        ("if a <b and b> c; if x<b && s>z; x<a || y>z; i<s && s == 'a' && t>0", None),
        ("select * from t where a<b and c='x' and d>5; a<i c==d e>f; a<s t!=u>v", None),
        ("if (x<!y && z>w) x<!p>y", None),
        (
            "<input type=checkbox checked data-x>a<td nowrap width='5%'\">b<A HREF=x?y=1&z=2>c",
            "a b c",
        ),
        ("<img src='x' alt / ><a @click='f' :b=\"c\" [d]='e' (f)=g, xml:lang = de>a</a >", "a"),
        ("a<!-- x < y -->b <!-- never closed", "a b <!-- never closed"),
        ("a<script>if (x < y) z('</p>')</script >b<style>p {}</style>c", "a b c"),
        ("a<scripture>b", "a<scripture>b"),
        ("a<script>never closed", "a never closed"),
        ("<!DOCTYPE html><?xml version='1.0'?>a<?php echo $a->b; ?>b", "a b"),
        ("what<? no ?>", "what<? no ?>"),
        ("a<![CDATA[<p>text</p>]]>b x[y[0]]>1", "a text b x[y[0]]>1"),
        ("<![CDATA[never closed", "<![CDATA[never closed"),
        ("<a title=\"x > y\" href='<'>z</a>", "y\" href='<'>z"),
        ('<a title="x > y">z</a> <a title=it\'s>w</a>', "z w"),
        ("<svg><linearGradient id='a'/><feBlend/></svg><math><mi>x</mi></math>", "x"),
        ("&lt;b&gt; &#65;&#x42; &#" + "9" * 5000 + "; &#" + "0" * 5000 + "67;", "<b> AB \ufffd C"),
    ],
)
def test_only_markup_is_removed(text: str, visible: str | None) -> None:
    assert " ".join(without_markup(text).split()) == (text if visible is None else visible)


@pytest.mark.parametrize(
    "text",
    [
        "<p>a &amp; b</p><script>x</script><!-- c -->d",
        "Ann <ann@example.org> <T> a < b <x <y>",
        "<SCRIPT a='>'>x</SCRIPT\n>y<style>z</styles></style>",
        "<!-- a <script> --> b </script> <!-->c-->d",
        "<script><script></script></script><?a?><!b>",
        "<p<!-- x -->>y",
    ],
)
def test_version_1_removes_what_it_did(text: str) -> None:
    expected = TAG.sub(" ", INVISIBLE.sub(" ", text)).replace("&amp;", "&")
    assert without_markup(text, version=1) == expected


UNITS = [
    "<!--",
    "<script>",
    "<script ",
    "<style>x</style",
    "</script ",
    "<![CDATA[",
    "]]>",
    "<?a",
    "<",
    "<a ",
    "<a '",
    "<a \"'",
    "<a \"x\" 'y'",
    "<a b=c d=\" e='",
    "<a b-c-d-",
    "<!d \"'",
    "<p><!--<script>",
    "&#0",
    "&#9",
    "&" * 3,
]
"""The parts of hostile texts, which begin something and never end it."""


class CountingPattern:
    """A pattern whose searches add the number of characters that they can read to a list."""

    def __init__(self, pattern: re.Pattern[str], read: list[int]) -> None:
        self._pattern = pattern
        self._read = read

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        found = self._pattern.search(text, start)
        self._read.append((len(text) if found is None else found.end()) - start)
        return found


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
@pytest.mark.parametrize("unit", UNITS)
def test_hidden_parts_are_searched_for_in_one_pass(
    unit: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts the characters that searches for the beginnings and ends of hidden parts read."""
    read: list[int] = []
    create = ForwardSearch.__init__

    def create_counting(self: ForwardSearch, pattern: re.Pattern[str], text: str) -> None:
        create(self, CountingPattern(pattern, read), text)  # type: ignore[arg-type]

    monkeypatch.setattr(ForwardSearch, "__init__", create_counting)
    for count in (200, 2000):
        read.clear()
        text = unit * count
        without_markup(text, version)
        assert sum(read) <= 12 * len(text)


def test_tags_do_not_extend_across_the_next_tag() -> None:
    """So the attempts to read a tag look at each character a constant number of times."""
    rest = re.compile(REST)
    for text in ("a 'b <c>", 'a "b" <c>', "<c>", 'a="<"\'>'):
        found = rest.match(text)
        assert found is None
    assert rest.fullmatch("a \"b>\" 'c'>") is not None
    for rules in RULES.values():
        assert all("<" not in found[0][1:] for found in rules.tag.finditer("<a <b <c d='>'> <p>"))


@pytest.mark.parametrize("unit", UNITS)
def test_hostile_texts_of_half_a_megabyte_are_read(unit: str) -> None:
    text = unit * (500_000 // len(unit))
    spec = Spec(n=1, normalise=("nfkc", "lower", "markup"))
    Shingler(spec).texts(*encode_texts([text]))


def test_version_of_the_spec_decides_what_is_markup() -> None:
    texts = pa.array(["Ann <ann@example.org>"], pa.large_string())
    data, offsets = encode_texts(texts.to_pylist())
    counts = [
        len(Shingler(Spec(n=1, normalise=("markup",), version=v)).texts(data, offsets).hashes)
        for v in FORMAT_VERSIONS
    ]
    assert counts == [1, 4]


def test_names_are_those_of_elements() -> None:
    assert {"p", "P", "feBlend", "mfrac", "annotation-xml"} <= NAMES
    assert not {"Object", "T", "int", "FEBLEND", "ann"} & NAMES
