"""Boundaries of cuts, compared with the grapheme clusters and units of whole texts."""

import random

import numpy as np
import pytest
import regex

from nearkin.errors import MissingExtraError
from nearkin.texts.passages.cutting import boundaries
from nearkin.texts.passages.cutting.boundaries import (
    TokenizedText,
    find_grapheme,
    require_graphemes,
)
from nearkin.texts.passages.cutting.request import CutUnit
from tests.texts.passages.oracle import locate_tokens

CHARACTERS = "ab \r\n\u0301\u200d👩\U0001f3fd🇩🇪가\u1100\u1161\u0600\u0915\u094d中é.\ufe0f"


@pytest.mark.parametrize("context", [256, 40])
def test_graphemes_are_those_of_the_whole_text(
    context: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boundaries, "CONTEXT", context)
    generator = random.Random(1)
    for _ in range(100):
        text = "".join(generator.choices(CHARACTERS, k=generator.randint(0, 12)))
        content = text.encode()
        edges = [0]
        for cluster in regex.finditer(r"\X", text):
            edges.append(edges[-1] + len(cluster.group().encode()))
        for position in range(len(content) + 1):
            before = max(edge for edge in edges if edge <= position)
            after = min(edge for edge in edges if edge >= position)
            assert find_grapheme(content, position) == (before, after)


def cut_words(text: str, unit: CutUnit, cut: set[str]) -> str:
    """Returns a text without units. Words of `cut` are to be cut."""
    content = text.encode()
    words = np.array(locate_tokens(text)).reshape(-1, 2)
    is_cut = np.array([content[start:end].decode().strip(".!。") in cut for start, end in words])
    spans = TokenizedText(content, words[:, 0], words[:, 1], is_cut.astype(bool)).spans(unit)
    for start, end in reversed(spans):
        content = content[:start] + content[end:]
    return content.decode()


@pytest.mark.parametrize(
    ("unit", "text", "left"),
    [
        (CutUnit.SENTENCE, "A b. X y! C d.", "A b. C d."),
        (CutUnit.SENTENCE, "A b.\n\nX y.\n\nC d.", "A b.\n\n\n\nC d."),
        (CutUnit.SENTENCE, "A b. X c.", "A b. X c."),
        (CutUnit.SENTENCE, "X y. X y.", ""),
        (CutUnit.LINE, "a b\nx y\nc d", "a b\nc d"),
        (CutUnit.LINE, "a b\r\nx y\r\nx c\r\nx", "a b\r\nx c\r\n"),
        (CutUnit.PARAGRAPH, "a\nb\n\nx\ny\n \n\nc", "a\nb\n\nc"),
        (CutUnit.PARAGRAPH, "x\ny\n\nx\nb", "x\nb"),
        (CutUnit.PASSAGE, "a x y b", "a b"),
        (CutUnit.PASSAGE, "x y\nb", "\nb"),
        (CutUnit.PASSAGE, "a x y", "a "),
    ],
)
def test_units_of_which_all_words_are_cut_are_left_out(unit: CutUnit, text: str, left: str) -> None:
    assert cut_words(text, unit, {"x", "y", "X", "Y"}) == left


def test_missing_library_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundaries, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"\.\[cut\]"):
        require_graphemes()


@pytest.mark.parametrize("unit", [CutUnit.PARAGRAPH, CutUnit.SENTENCE])
def test_one_line_end_of_two_characters_is_not_a_blank_line(unit: CutUnit) -> None:
    assert cut_words("a\r\nb\r\n\r\nc", unit, {"a"}) == "a\r\nb\r\n\r\nc"
    assert cut_words("a\r\nb\r\n\r\nc", unit, {"a", "b"}) == "c"
