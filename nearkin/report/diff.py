"""Differences of two texts word by word, as data for the page and the terminal."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from nearkin.report.escaping import visible

MAX_CHARACTERS = 4000
"""Of each text; what lies beyond is not compared."""
LONGEST_CUT_WORD = 40
_WORD = re.compile(r"\s*(?:\w+|[^\w\s])\s*|\s+")


class Kind(StrEnum):
    """What a span says of its two sides; `ELIDED` is a long equal one whose middle is not worth showing."""

    EQUAL = "equal"
    INSERT = "insert"
    DELETE = "delete"
    REPLACE = "replace"
    ELIDED = "elided"


class Span(NamedTuple):
    """A stretch of both texts; all left sides joined are the left text, all right sides the right one."""

    kind: Kind
    left: str
    right: str


def diff_words(left: str, right: str) -> list[Span]:
    """Spans from left to right over the first `MAX_CHARACTERS` of each text.

    White space separates words but is not compared, as shingles do not see it either: sides of an equal span may differ
    in it. The words that both have in the same order are as many as can be (a longest common subsequence). It is found with bit
    vectors, so that the time is bounded by the square of `MAX_CHARACTERS` divided by 64, whatever the texts are (H. Hyyrö,
    "Bit-parallel LCS-length computation revisited", AWOCA 2004).

    Examples:
        >>> for span in diff_words("the cat sat", "the cat lay down"):
        ...     print(span.kind, repr(span.left), repr(span.right))
        equal 'the cat ' 'the cat '
        replace 'sat' 'lay down'
    """
    # imported here because it takes about 25 ms, and commands that show no difference do without it
    from rapidfuzz.distance import Indel

    a, b = _WORD.findall(left[:MAX_CHARACTERS]), _WORD.findall(right[:MAX_CHARACTERS])
    keys_a, keys_b = [word.strip() for word in a], [word.strip() for word in b]
    numbers = {word: number for number, word in enumerate(dict.fromkeys([*keys_a, *keys_b]))}
    opcodes = Indel.opcodes([numbers[word] for word in keys_a], [numbers[word] for word in keys_b])
    spans = [
        Span(
            Kind(code.tag),
            "".join(a[code.src_start : code.src_end]),
            "".join(b[code.dest_start : code.dest_end]),
        )
        for code in opcodes
    ]
    result = _joined(_without_islands(spans))
    return _with_open_end(result) if max(len(left), len(right)) >= MAX_CHARACTERS else result


def _without_islands(spans: Sequence[Span]) -> list[Span]:
    """An equal comma or bracket between two longer changes is part of the change: easier to read."""
    result = list(spans)
    for i in range(1, len(spans) - 1):
        before, here, after = spans[i - 1 : i + 2]
        if here.kind is Kind.EQUAL and len(here.left.strip()) <= 2 < min(
            _size(before), _size(after)
        ):
            result[i] = here._replace(kind=Kind.REPLACE)
    return result


def _size(span: Span) -> int:
    return max(len(span.left.strip()), len(span.right.strip()))


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Neighbouring changes as one, of the kind that its sides make it."""
    result: list[Span] = []
    for span in spans:
        if result and Kind.EQUAL not in (span.kind, result[-1].kind):
            left, right = result[-1].left + span.left, result[-1].right + span.right
            kind = Kind.REPLACE if left and right else Kind.DELETE if left else Kind.INSERT
            result[-1] = Span(kind, left, right)
        else:
            result.append(span)
    return result


def _with_open_end(spans: list[Span]) -> list[Span]:
    """Where a text was cut, words at the end of one side only are no difference: the other side went on."""
    if (
        len(spans) > 1
        and spans[-1].kind is not Kind.EQUAL
        and min(map(len, spans[-1][1:])) <= LONGEST_CUT_WORD
    ):
        return [*spans[:-1], spans[-1]._replace(kind=Kind.ELIDED)]
    return spans


class Piece(NamedTuple):
    """A stretch of one side: equal to the other side's, changed, or left out (`ELIDED`, whose text is not to be shown)."""

    kind: Kind
    text: str


def diff_sides(left: str, right: str) -> tuple[list[Piece], list[Piece]]:
    """Both texts fit to be shown side by side, with the changes in sight; the second is empty where they read the same.

    White space at a change's end is no part of it, lest it be coloured across lines.

    Examples:
        >>> [(piece.kind.value, piece.text) for piece in diff_sides("the cat sat down", "the cat lay down")[1]]
        [('equal', 'the cat '), ('replace', 'lay'), ('equal', ' '), ('equal', 'down')]
        >>> diff_sides("same", "same")[1]
        []
    """
    spans = diff_words(visible(left[:MAX_CHARACTERS]), visible(right[:MAX_CHARACTERS]))
    if all(span.kind in (Kind.EQUAL, Kind.ELIDED) for span in spans):
        return [Piece(Kind.EQUAL, visible(left[:MAX_CHARACTERS]))], []
    focused = focus(spans)
    return _pieces((span.kind, span.left) for span in focused), _pieces(
        (span.kind, span.right) for span in focused
    )


def _pieces(side: Iterable[tuple[Kind, str]]) -> list[Piece]:
    result: list[Piece] = []
    for kind, text in side:
        core = text.rstrip()
        if kind in (Kind.EQUAL, Kind.ELIDED):
            result.append(Piece(kind, text))
        elif core:
            result += [
                Piece(kind, core),
                *([Piece(Kind.EQUAL, text[len(core) :])] if len(core) < len(text) else []),
            ]
        else:
            result.append(Piece(Kind.EQUAL, text))
    return result


def focus(spans: Sequence[Span], context: int = 200) -> list[Span]:
    """The same spans with long equal stretches cut to their ends, so that the changes are in sight.

    Args:
        spans: From `diff_words`.
        context: Characters to keep next to a change, rounded to whole lines where there are some.

    Examples:
        >>> [span.kind.value for span in focus(diff_words("word " * 300 + "end", "word " * 300 + "stop"))]
        ['elided', 'equal', 'replace']
        >>> focus(diff_words("same", "same"))
        [Span(kind=<Kind.EQUAL: 'equal'>, left='same', right='same')]
    """
    result: list[Span] = []
    for i, span in enumerate(spans):
        before, after = context if i else 0, context if i < len(spans) - 1 else 0
        if (
            span.kind is not Kind.EQUAL
            or len(spans) == 1
            or len(span.left) <= before + after + context
        ):
            result.append(span)
        else:
            result += _cut(span, before, after)
    return result


def _cut(span: Span, before: int, after: int) -> list[Span]:
    """An equal span as its first words, what is left out, and its last words; the same words on both sides."""
    words = list(zip(_WORD.findall(span.left), _WORD.findall(span.right), strict=True))
    head = _words_within(words, before)
    tail = len(words) - _words_within(words[::-1], after)
    parts = (
        (Kind.EQUAL, words[:head]),
        (Kind.ELIDED, words[head:tail]),
        (Kind.EQUAL, words[tail:]),
    )
    return [
        Span(kind, "".join(a for a, _ in part), "".join(b for _, b in part))
        for kind, part in parts
        if part
    ]


def _words_within(words: Sequence[tuple[str, str]], characters: int) -> int:
    """How many words fit, up to the last end of a line among them if that is not less than half of them."""
    length = fits = lines = 0
    for count, (left, _) in enumerate(words, 1):
        length += len(left)
        if length > characters:
            break
        fits = count
        lines = count if "\n" in left else lines
    return lines if lines > fits // 2 else fits
