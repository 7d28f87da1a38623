"""Comments of source code are removed, and strings, URLs and operators are kept."""

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearkin as nk
from nearkin.settings.spec import Spec
from nearkin.stages.shingle import text_buffers
from nearkin.stages.shingle.comments import strip_comments

BLANK = r"[ \t\r\f\v]"
STRING = re.compile(r"""([\"'`])(?:\\[^\n]|(?!\1)[^\n])*?\1""")


def strip(text: str) -> str:
    data, offsets = text_buffers(pa.array([text], pa.large_string()))
    return strip_comments(data, offsets).data.tobytes().decode()


def comments_oracle(text: str) -> str:
    """The rules of the wire format, one regular expression for each."""
    has_slashes = re.search(rf"(?m)^{BLANK}*//|;{BLANK}*$", text) is not None
    out = ""
    i = 0
    while i < len(text):
        line = out[out.rfind("\n") + 1 :]
        before = text[i - 1] if i else "\n"
        begins_line = re.fullmatch(f"{BLANK}*", line) is not None
        rest = text[i:]
        triple = re.match(r"(?s)(\"\"\"|''').*?\1", rest)
        begins_statement = begins_line or re.fullmatch(f"{BLANK}*[rRuUbB]", line) is not None
        starts_word = re.match(rf"{BLANK}|\n", before) is not None
        comment: re.Match[str] | None = None
        if triple and begins_statement and re.match(f"(?m){BLANK}*$", rest[triple.end() :]):
            out = out if begins_line else out[:-1]
            comment = triple
        elif string := triple or _match_string(rest):
            out += string.group()
            i += string.end()
            continue
        elif re.match(BLANK + r"|[\n;{}),\](\[=]", before) and rest.startswith("/*"):
            comment = re.match(r"(?s)/\*.*?\*/", rest)
        elif re.match(BLANK + r"|[\n;{}),\]]", before) and rest.startswith("//"):
            if begins_line or has_slashes:
                i += re.match("[^\n]*", rest).end()  # type: ignore[union-attr]
                continue
        elif starts_word and re.match(r"#(?!!\[|[\[({<$\"'])", rest):
            if not (has_slashes and re.match("#[A-Za-z0-9_]", rest)):
                i += re.match("[^\n]*", rest).end()  # type: ignore[union-attr]
                continue
        elif starts_word and re.match(rf"--({BLANK}|\n|\Z)", rest):
            i += re.match("[^\n]*", rest).end()  # type: ignore[union-attr]
            continue
        elif rest.startswith("<!--"):
            comment = re.match("(?s)<!--.*?-->", rest)
        if comment:
            out += " "
            i += comment.end()
        else:
            out += text[i]
            i += 1
    return out


def _match_string(rest: str) -> re.Match[str] | None:
    return STRING.match(rest)


PIECES = ["//", "/*", "*/", "#", "--", "<!--", "-->", '"', "'", "`", '"""', "'''", "\\", "\n"]
PIECES += [" ", "\t", ";", "{", "(", "=", ":", "x", "r", "é", "1", "#!", "[", "- ", "/", "*"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
def test_comments_are_removed_as_by_plain_oracle(text: str) -> None:
    assert strip(text) == comments_oracle(text)


REMOVED = [
    ("x = 1  # note", "x = 1  "),
    ("#!/bin/sh\necho a", "\necho a"),
    ("x = 1; // note\ny = 2;", "x = 1; \ny = 2;"),
    ("// note\nfunc f() {}", "\nfunc f() {}"),
    ("int x; /* one\ntwo */ int y;", "int x;   int y;"),
    ("f(/* none */ 0);", "f(  0);"),
    ("SELECT a -- the name\nFROM t;", "SELECT a \nFROM t;"),
    ("<p>a</p> <!-- one\ntwo --><p>b</p>", "<p>a</p>  <p>b</p>"),
    ('def f():\n    """Returns 1."""\n    return 1', "def f():\n     \n    return 1"),
    ("def f():\n    r'''One.\n\n    Two.'''\n    return 1", "def f():\n     \n    return 1"),
    ("x = 'a\\'# b'  # c", "x = 'a\\'# b'  "),
]
KEPT = [
    'url = "http://a.b/#c"',
    "curl http://a.b//c/#d",
    "color: #fff;",
    "#include <stdio.h>\nint x;",
    "#[derive(Debug)]\nstruct A;",
    "#![allow(unused)]",
    "half = (n + 1) // 2\nreturn half",
    "half = len(x) // 2",
    "i--; --j; x = y --z;",
    "git log --oneline",
    "cp src/* dest/*",
    'query = """\nSELECT 1  # not a comment\n"""',
    "s = '/* no comment */' + \"// none\";",
    "a /* not closed",
    "<!-- not closed",
    "it's one apostrophe",
    "`# none`",
    "background: url(//a.b/c.png);",
]


@pytest.mark.parametrize(("text", "want"), REMOVED)
def test_comment_is_removed(text: str, want: str) -> None:
    assert strip(text) == want


@pytest.mark.parametrize("text", KEPT)
def test_strings_and_operators_that_look_like_comments_are_kept(text: str) -> None:
    assert strip(text) == text


UNCLOSED = ["/* ", "<!--", '"\\"', "'", '"""x\n', '"\\\n', '# "', "`\n`"]


@pytest.mark.parametrize("unit", UNCLOSED)
def test_delimiters_that_are_not_closed_cost_linear_time(unit: str) -> None:
    """A search from each of them to the end would take hours."""
    assert len(strip(unit * 1_000_000)) <= len(unit) * 1_000_000


def test_texts_of_a_batch_are_independent() -> None:
    texts = ["a /* open", "b */ c", "", "x;  // y", "7 // 2", '"', '"# a']
    data, offsets = text_buffers(pa.array(["skipped", *texts], pa.large_string())[1:])
    stripped = strip_comments(data, offsets)
    got = [
        stripped.data[start:end].tobytes().decode()
        for start, end in zip(stripped.offsets, stripped.offsets[1:], strict=False)
    ]
    assert got == [comments_oracle(text) for text in texts]


CODE = """
def area(radius):
    # the square of the radius
    squared = radius * radius  # no units
    return 3 * squared
"""
BARE = """
def area(radius):
    squared = radius * radius
    return 3 * squared
"""


def test_copy_with_other_comments_is_an_exact_duplicate() -> None:
    spec = Spec(normalise=("nfkc", "lower", "comments"))
    signatures = nk.sketch([CODE, BARE], spec)
    assert (signatures[0] == signatures[1]).all()
    result = nk.dedup([CODE, BARE], normalise="nfkc,lower,comments")
    assert sorted(result.clusters["kind"].to_pylist()) == ["exact", "kept"]
    assert nk.dedup([CODE, BARE]).kept.all()


def test_fingerprints_of_other_specs_stay() -> None:
    assert Spec(version=1).fingerprint == "b6ae03a160f88e3c"
    assert Spec().fingerprint == "fd612ce0c121162c"
    assert Spec(normalise=("comments", "nfkc", "lower")).normalise == ("nfkc", "lower", "comments")
    assert Spec(normalise=("nfkc", "lower", "comments")).fingerprint != Spec().fingerprint
