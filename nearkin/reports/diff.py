"""Computes the differences of two texts word by word, for the page and the terminal."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from nearkin.runtime.visible_text import make_visible

MAX_CHARACTERS = 4000
"""The number of characters of each text that are compared."""
LONGEST_CUT_END = 100
"""The longest end of a cut text that is attributed to the cut, in characters. It consists of the
words after the last long stretch that both texts have."""
SHORTEST_ANCHOR = 20
"""The shortest equal stretch that shows where the texts run in parallel, in characters. Shorter
ones may be frequent words."""
LONGEST_WORD = 50
"""A text is cut before a word, by at most so many characters more, if its words are no longer."""
_WORD = re.compile(r"\s*(?:\w+|[^\w\s])\s*|\s+")


class SpanKind(StrEnum):
    """The relation of the two sides of a span. `ELIDED` is a long equal span that is not shown."""

    EQUAL = "equal"
    INSERT = "insert"
    DELETE = "delete"
    REPLACE = "replace"
    ELIDED = "elided"


class DocumentRole(StrEnum):
    """The role of a document beside another one, which decides how its own words are marked.

    The own words of a removed document are lost with it: they are red and struck out. Those of a
    kept document remain: they are green and underlined. If neither document was removed, the words
    of both are highlighted alike.
    """

    KEPT = "kept"
    REMOVED = "removed"
    COMPARED = "compared"


class DiffSpan(NamedTuple):
    """A stretch of both texts. Joined, the left sides are the left text, and so on."""

    kind: SpanKind
    left: str
    right: str


def may_be_cut(*texts: str) -> bool:
    """Returns whether one of some texts may be the beginning of a longer one."""
    return max(map(len, texts)) > MAX_CHARACTERS - LONGEST_WORD


def diff_words(left: str, right: str, *, is_cut: bool | None = None) -> list[DiffSpan]:
    """Compares the first `MAX_CHARACTERS` of two texts word by word.

    White space separates words but is not compared, because shingles ignore it too. The two sides
    of an equal span may therefore differ in it. The equal words are a longest common subsequence,
    found with bit vectors. The time is at most proportional to the square of `MAX_CHARACTERS`
    divided by 64, for any texts (H. Hyyrö, "Bit-parallel LCS-length computation revisited", AWOCA
    2004).

    Examples:
        >>> for span in diff_words("the cat sat", "the cat lay down"):
        ...     print(span.kind, repr(span.left), repr(span.right))
        equal 'the cat ' 'the cat '
        replace 'sat' 'lay down'
    """
    # imported here because the import takes about 25 ms, which most commands do not need
    from rapidfuzz.distance import Indel

    a = _WORD.findall(left[:MAX_CHARACTERS])
    b = _WORD.findall(right[:MAX_CHARACTERS])
    keys_a = [word.strip() for word in a]
    keys_b = [word.strip() for word in b]
    numbers = {word: number for number, word in enumerate(dict.fromkeys([*keys_a, *keys_b]))}
    opcodes = Indel.opcodes([numbers[word] for word in keys_a], [numbers[word] for word in keys_b])
    spans = [
        DiffSpan(
            SpanKind(code.tag),
            "".join(a[code.src_start : code.src_end]),
            "".join(b[code.dest_start : code.dest_end]),
        )
        for code in opcodes
    ]
    joined = _join_changes(_absorb_short_spans(spans))
    if is_cut is None:
        is_cut = may_be_cut(left, right)
    return _open_end(joined) if is_cut else joined


def _absorb_short_spans(spans: Sequence[DiffSpan]) -> list[DiffSpan]:
    """Makes an equal comma or bracket between two longer changes a part of the change.

    This is easier to read.
    """
    absorbed = list(spans)
    for i in range(1, len(spans) - 1):
        span = spans[i]
        neighbor_size = min(_size_of_span(spans[i - 1]), _size_of_span(spans[i + 1]))
        if span.kind is SpanKind.EQUAL and len(span.left.strip()) <= 2 < neighbor_size:
            absorbed[i] = span._replace(kind=SpanKind.REPLACE)
    return absorbed


def _size_of_span(span: DiffSpan) -> int:
    return max(len(span.left.strip()), len(span.right.strip()))


def _join_changes(spans: Iterable[DiffSpan]) -> list[DiffSpan]:
    """Joins adjacent changes to one change, whose kind follows from its sides."""
    joined: list[DiffSpan] = []
    for span in spans:
        if joined and SpanKind.EQUAL not in (span.kind, joined[-1].kind):
            left = joined[-1].left + span.left
            right = joined[-1].right + span.right
            if left and right:
                kind = SpanKind.REPLACE
            else:
                kind = SpanKind.DELETE if left else SpanKind.INSERT
            joined[-1] = DiffSpan(kind, left, right)
        else:
            joined.append(span)
    return joined


def _open_end(spans: list[DiffSpan]) -> list[DiffSpan]:
    """Elides the end of a cut text, of which the other text has more than can be compared.

    The words of the shorter end may be aligned anywhere in the longer one, so that the end begins
    after the last stretch that both have for certain.
    """
    anchor = len(spans)
    while anchor and not _is_anchor(spans[anchor - 1]):
        anchor -= 1
    left = "".join(span.left for span in spans[anchor:])
    right = "".join(span.right for span in spans[anchor:])
    if not anchor or anchor == len(spans) or min(len(left), len(right)) > LONGEST_CUT_END:
        return spans
    return [*spans[:anchor], DiffSpan(SpanKind.ELIDED, left, right)]


def _is_anchor(span: DiffSpan) -> bool:
    return span.kind is SpanKind.EQUAL and len(span.left.strip()) >= SHORTEST_ANCHOR


class Piece(NamedTuple):
    """A stretch of one side: equal, changed, or elided, in which case it is not shown."""

    kind: SpanKind
    text: str


def diff_sides(
    left: str, right: str, *, is_cut: bool | None = None
) -> tuple[list[Piece], list[Piece]]:
    """Prepares two texts to be shown side by side, with long equal stretches elided.

    White space at the end of a change does not belong to it, so that it is not colored across
    lines.

    Examples:
        >>> _, right = diff_sides("the cat sat down", "the cat lay down")
        >>> [(piece.kind.value, piece.text) for piece in right]
        [('equal', 'the cat '), ('replace', 'lay'), ('equal', ' '), ('equal', 'down')]
        >>> diff_sides("same", "same")[1]
        []
    """
    visible_left = make_visible(left[:MAX_CHARACTERS])
    visible_right = make_visible(right[:MAX_CHARACTERS])
    if is_cut is None:
        is_cut = may_be_cut(left, right)
    spans = diff_words(visible_left, visible_right, is_cut=is_cut)
    if all(span.kind in (SpanKind.EQUAL, SpanKind.ELIDED) for span in spans):
        return [Piece(SpanKind.EQUAL, visible_left)], []
    focused = focus_changes(spans)
    left_pieces = _split_pieces((span.kind, span.left) for span in focused)
    right_pieces = _split_pieces((span.kind, span.right) for span in focused)
    return left_pieces, right_pieces


def _split_pieces(side: Iterable[tuple[SpanKind, str]]) -> list[Piece]:
    """Returns the pieces of one side, with the white space at the end of changes separated."""
    pieces: list[Piece] = []
    for kind, text in side:
        core = text.rstrip()
        if kind in (SpanKind.EQUAL, SpanKind.ELIDED):
            pieces.append(Piece(kind, text))
        elif core:
            pieces.append(Piece(kind, core))
            if len(core) < len(text):
                pieces.append(Piece(SpanKind.EQUAL, text[len(core) :]))
        else:
            pieces.append(Piece(SpanKind.EQUAL, text))
    return pieces


def focus_changes(spans: Sequence[DiffSpan], context: int = 200) -> list[DiffSpan]:
    """Elides the middle of long equal spans, so that the changes can be seen.

    Examples:
        >>> spans = diff_words("word " * 300 + "end", "word " * 300 + "stop")
        >>> [span.kind.value for span in focus_changes(spans)]
        ['elided', 'equal', 'replace']
        >>> focus_changes(diff_words("same", "same"))
        [DiffSpan(kind=<SpanKind.EQUAL: 'equal'>, left='same', right='same')]
    """
    focused: list[DiffSpan] = []
    for i, span in enumerate(spans):
        before = context if i else 0
        after = context if i < len(spans) - 1 else 0
        is_long = len(span.left) > before + after + context
        if span.kind is SpanKind.EQUAL and is_long and len(spans) > 1:
            focused += _elide_middle(span, before, after)
        else:
            focused.append(span)
    return focused


def _elide_middle(span: DiffSpan, before: int, after: int) -> list[DiffSpan]:
    """Splits an equal span into its first words, an elided middle, and its last words.

    Both sides are split at the same words.
    """
    words = list(zip(_WORD.findall(span.left), _WORD.findall(span.right), strict=True))
    head = _count_words_within(words, before)
    tail = len(words) - _count_words_within(words[::-1], after)
    parts = (
        (SpanKind.EQUAL, words[:head]),
        (SpanKind.ELIDED, words[head:tail]),
        (SpanKind.EQUAL, words[tail:]),
    )
    return [
        DiffSpan(kind, "".join(a for a, _ in part), "".join(b for _, b in part))
        for kind, part in parts
        if part
    ]


def _count_words_within(words: Sequence[tuple[str, str]], characters: int) -> int:
    """Returns how many words fit into a number of characters.

    Words after the last line feed are not counted if at least half of the words remain.
    """
    length = 0
    fits = 0
    lines = 0
    for count, (left, _) in enumerate(words, 1):
        length += len(left)
        if length > characters:
            break
        fits = count
        lines = count if "\n" in left else lines
    return lines if lines > fits // 2 else fits
