"""The parts of a text that are cut: passages, sentences, lines or paragraphs, by their bytes.

No part begins or ends inside a word or a grapheme cluster (Unicode Standard Annex 29, section 3).
"""

import re
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np

from nearkin.errors import MissingExtraError
from nearkin.texts.passages.cutting.request import CutUnit

CONTEXT = 256
"""The number of bytes before and after a position in which a grapheme cluster is looked for."""
BLANKS = b" \t"
SPACES = b" \t\r\n"
NEW_LINE = rb"(?:\r\n|\n|\r(?!\n))"
CLOSING = "|".join(map(re.escape, "\"')]”’»」』）】"))
UNIT_ENDS = {
    CutUnit.LINE: re.compile(NEW_LINE),
    CutUnit.PARAGRAPH: re.compile(NEW_LINE + rb"(?:[ \t]*" + NEW_LINE + rb")+"),
    CutUnit.SENTENCE: re.compile(
        (
            rf"(?:[.!?]|…)+(?:{CLOSING})*(?=[ \t\r\n])[ \t]*"
            rf"|(?:。|！|？)+(?:{CLOSING})*[ \t]*"
            rf"|{NEW_LINE.decode()}(?:[ \t]*{NEW_LINE.decode()})+"
        ).encode()
    ),
}
"""The ends of units. A sentence ends at a full stop, an exclamation mark, a question mark or an
ellipsis before white space, at their Chinese and Japanese forms, and at a blank line."""


def require_graphemes() -> None:
    """Requires the library that finds grapheme clusters."""
    if find_spec("regex") is None:
        raise MissingExtraError.for_extra("cutting passages requires regex", "cut")


class TokenizedText:
    """A text with the bytes of its tokens, of which some are to be cut.

    Args:
        text: UTF-8 bytes of the text.
        starts: First byte of each token, integers (n,), ascending.
        ends: Byte after the last one of each token, integers (n,).
        is_cut: True for each token that is to be cut, bool (n,).
    """

    def __init__(
        self, text: bytes, starts: np.ndarray, ends: np.ndarray, is_cut: np.ndarray
    ) -> None:
        self._text = text
        self._starts = starts
        self._ends = ends
        self._is_cut = is_cut

    def spans(self, unit: CutUnit) -> list[tuple[int, int]]:
        """Returns the first byte, and the byte after the last one, of each part that is cut."""
        if unit == CutUnit.PASSAGE:
            return list(self._passages())
        return list(self._whole_units(unit))

    def _whole_units(self, unit: CutUnit) -> Iterator[tuple[int, int]]:
        """Yields the units of which every token is to be cut. Neighbours are joined."""
        text = self._text
        ends = [match.end() for match in UNIT_ENDS[unit].finditer(text)]
        bounds = np.array([0, *ends, len(text)], np.int64)
        units = np.searchsorted(bounds, self._starts, side="right") - 1
        crosses = self._ends > bounds[units + 1]
        totals = np.bincount(units, minlength=len(bounds))
        cut = np.bincount(units[self._is_cut & ~crosses], minlength=len(bounds))
        # A token that reaches into the following unit keeps that one, too.
        kept_by_crossing = units[crosses] + 1
        is_whole = (totals > 0) & (cut == totals)
        is_whole[kept_by_crossing] = False
        waiting: tuple[int, int] | None = None
        for number in np.flatnonzero(is_whole).tolist():
            start, end = int(bounds[number]), int(bounds[number + 1])
            if unit == CutUnit.SENTENCE:
                # Line ends before a sentence separate it from the previous one.
                start += len(text[start:end]) - len(text[start:end].lstrip(SPACES))
            start = self._next_boundary(start)
            end = self._previous_boundary(end)
            if waiting is not None and waiting[1] == start:
                waiting = (waiting[0], end)
                continue
            if waiting is not None:
                yield waiting
            waiting = (start, end)
        if waiting is not None:
            yield waiting

    def _passages(self) -> Iterator[tuple[int, int]]:
        """Yields the runs of tokens that are to be cut, with blanks that would be doubled."""
        edges = np.diff(np.concatenate([[0], self._is_cut.astype(np.int8), [0]]))
        firsts = np.flatnonzero(edges == 1).tolist()
        lasts = (np.flatnonzero(edges == -1) - 1).tolist()
        for first, last in zip(firsts, lasts, strict=True):
            start = self._passage_start(first, last)
            end = self._passage_end(first, last)
            if start is not None and end is not None and start < end:
                yield start, self._skip_blanks(start, end)

    def _passage_start(self, first: int, last: int) -> int | None:
        """Returns the first byte of a run of tokens that shares no character with the one before.

        Characters before it that are displayed together with it are cut, too. It is None if each
        token of the run shares characters.
        """
        for token in range(first, last + 1):
            start = self._previous_boundary(int(self._starts[token]))
            if token == 0 or start >= self._ends[token - 1]:
                return start
        return None

    def _passage_end(self, first: int, last: int) -> int | None:
        for token in range(last, first - 1, -1):
            end = self._next_boundary(int(self._ends[token]))
            if token + 1 == len(self._starts) or end <= self._starts[token + 1]:
                return end
        return None

    def _skip_blanks(self, start: int, end: int) -> int:
        """Returns the end of a part with the blanks after it, if there are spaces before it."""
        text = self._text
        if start > 0 and text[start - 1] not in SPACES:
            return end
        after = end
        while after < len(text) and text[after] in BLANKS:
            after += 1
        return after if self._next_boundary(after) == after else end

    def _previous_boundary(self, position: int) -> int:
        return find_grapheme(self._text, position)[0]

    def _next_boundary(self, position: int) -> int:
        return find_grapheme(self._text, position)[1]


def find_grapheme(text: bytes, position: int) -> tuple[int, int]:
    r"""Returns the grapheme cluster that a byte position divides, or the position twice.

    Examples:
        >>> find_grapheme("ae\u0308x".encode(), 2)
        (1, 4)
        >>> find_grapheme(b"abc", 1)
        (1, 1)
    """
    if position in (0, len(text)):
        return position, position
    before, after = text[position - 1], text[position]
    if before < 0x80 and after < 0x80 and (before, after) != (0x0D, 0x0A):
        return position, position
    import regex

    first = _character_start(text, max(0, position - CONTEXT))
    # A grapheme cluster always ends at a line end.
    first = max(first, text.rfind(b"\n", first, position) + 1)
    context = text[first : _character_start(text, min(len(text), position + CONTEXT))].decode()
    start = first
    for cluster in regex.finditer(r"\X", context):
        end = start + len(cluster.group().encode())
        if end > position:
            return (start, end) if start < position else (position, position)
        start = end
    return position, position


def _character_start(text: bytes, position: int) -> int:
    """Returns the first byte of the character at a position."""
    while position < len(text) and text[position] & 0xC0 == 0x80:
        position -= 1
    return position
