"""Tests of word differences: they are lossless, bounded, and focused on the changes."""

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.reports.diff import (
    MAX_CHARACTERS,
    DiffSpan,
    SpanKind,
    diff_words,
    focus_changes,
    may_be_cut,
)
from nearkin.reports.excerpts import cut_excerpt

texts = st.lists(st.sampled_from(["a", "b", " ", "\n", "(", "word", "  ", ".", "é", "\t"])).map(
    "".join
)


@given(texts, texts)
def test_sides_of_the_spans_join_to_the_texts(left: str, right: str) -> None:
    spans = diff_words(left, right)
    for shown in (spans, focus_changes(spans, context=3)):
        assert "".join(span.left for span in shown) == left
        assert "".join(span.right for span in shown) == right


@given(texts, texts)
def test_kind_of_a_span_follows_from_its_sides(left: str, right: str) -> None:
    for span in diff_words(left, right):
        if span.kind is SpanKind.EQUAL:
            assert span.left.split() == span.right.split() or "".join(span.left.split()) == "".join(
                span.right.split()
            )
        assert (span.left != "") == (span.kind is not SpanKind.INSERT)
        assert (span.right != "") == (span.kind is not SpanKind.DELETE)


def test_white_space_is_not_a_difference() -> None:
    assert [
        span.kind for span in diff_words("if x:\n    return y\n", "if x:\n        return y")
    ] == [SpanKind.EQUAL]


def test_one_changed_word_is_one_span() -> None:
    assert diff_words("f(alpha, beta)", "f(alpha, gamma)") == [
        DiffSpan(SpanKind.EQUAL, "f(alpha, ", "f(alpha, "),
        DiffSpan(SpanKind.REPLACE, "beta", "gamma"),
        DiffSpan(SpanKind.EQUAL, ")", ")"),
    ]


def test_equal_comma_between_changes_belongs_to_the_change() -> None:
    assert diff_words("one, two", "three, four") == [
        DiffSpan(SpanKind.REPLACE, "one, two", "three, four")
    ]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a " * 5000, "a a b " * 5000),
        ("a b c d " * 5000, "d c b a " * 5000),
        ("(" * 9000, "()" * 9000),
        ("x " * 220 + "y", "z " + "x y " * 110),
        ("word" * 50_000, "word" * 49_000),
        (" " * 10_000, "\n" * 10_000),
    ],
)
def test_compared_text_is_limited_in_length(left: str, right: str) -> None:
    spans = diff_words(left, right)
    assert "".join(span.left for span in spans) == left[:MAX_CHARACTERS]
    assert "".join(span.right for span in spans) == right[:MAX_CHARACTERS]


def test_work_on_hostile_texts_is_bounded() -> None:
    """The number of executed lines is some dozen times the number of characters.

    A matcher that searches again beside each match would execute tens of millions of lines.
    """
    symbols = [
        chr(code)
        for code in range(0x2190, 0x2C00)
        if not chr(code).isspace() and not chr(code).isalnum()
    ]
    pairs = [
        f"{first}{second}" for first, second in zip(symbols[::2], symbols[1::2], strict=False)
    ][:1100]
    left = "+".join(pairs) + "+" + "x=" * 220
    right = "-".join(pairs) + "-" + "x~" * 220
    executed = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal executed
        executed += 1
        assert executed < 100 * MAX_CHARACTERS
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        spans = diff_words(left, right)
    finally:
        sys.settrace(before)
    assert sum(span.kind is SpanKind.EQUAL for span in spans) > 100


def longest_common(left: list[str], right: list[str]) -> int:
    """Returns the length of a longest common subsequence, by dynamic programming."""
    row = [0] * (len(right) + 1)
    for word in left:
        before = 0
        for at, other in enumerate(right, 1):
            row[at], before = (before + 1 if word == other else max(row[at], row[at - 1])), row[at]
    return row[-1]


@given(st.lists(st.sampled_from("abcde")), st.lists(st.sampled_from("abcde")))
def test_equal_words_are_a_longest_common_subsequence(left: list[str], right: list[str]) -> None:
    spans = diff_words(" ".join(left), " ".join(right))
    equal = sum(len(span.left.split()) for span in spans if span.kind is SpanKind.EQUAL)
    # An equal word between two longer changes is shown as part of the change.
    assert equal <= longest_common(left, right)
    if left == right or not set(left) & set(right):
        assert equal == longest_common(left, right)


def test_end_of_a_cut_text_is_not_a_difference() -> None:
    text = " ".join(map(str, range(2000)))
    spans = diff_words("new start " + text, text)
    assert [span.kind for span in spans] == [SpanKind.DELETE, SpanKind.EQUAL, SpanKind.ELIDED]


def test_focus_keeps_whole_lines_around_a_change() -> None:
    lines = "".join(f"line number {i}\n" for i in range(100))
    spans = focus_changes(diff_words(lines + "old\n" + lines, lines + "new\n" + lines), context=60)
    assert [span.kind for span in spans] == [
        SpanKind.ELIDED,
        SpanKind.EQUAL,
        SpanKind.REPLACE,
        SpanKind.EQUAL,
        SpanKind.ELIDED,
    ]
    assert spans[1].left.endswith("line number 99\n")
    assert spans[3].left.startswith("line number 0\n")
    assert all(len(span.left) <= 60 for span in spans[1:4])


def changed_ends(kept: str, removed: str) -> list[DiffSpan]:
    """Returns the spans after the first 600 characters that are shown as changes."""
    begin = 0
    changed = []
    for span in diff_words(kept, removed, is_cut=may_be_cut(kept, removed)):
        if begin > 600 and span.kind not in (SpanKind.EQUAL, SpanKind.ELIDED):
            changed.append(span)
        begin += len(span.right)
    return changed


@pytest.mark.parametrize("cuts_both", [True, False])
def test_end_that_only_one_text_has_because_the_other_was_cut_is_not_lost(
    cuts_both: bool,
) -> None:
    random = np.random.default_rng(3)
    frequent = ["the", "and", "of", "a", "in", "was", "old"]
    words = [*frequent * 20, *(f"w{number}" for number in range(400))]
    for _ in range(30):
        text = " ".join(random.choice(words, 1500))
        kept = cut_excerpt(text)
        other = cut_excerpt(text[200:])
        removed = other if cuts_both else other[:3800].rpartition(" ")[0]
        assert changed_ends(kept, removed) == []
        assert changed_ends(removed, kept) == []


def test_end_of_a_whole_text_is_a_difference() -> None:
    text = " ".join(map(str, range(200)))
    (*_, last) = diff_words(text, f"{text} and an end")
    assert (last.kind, last.right) == (SpanKind.INSERT, "and an end")
