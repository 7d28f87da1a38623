"""Tests that acting characters become symbols and all others stay."""

import pytest

from nearkin.runtime.visible_text import make_visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("a\x00b\x7fc\x9bd", "a␀b␡c‹U+009B›d"),
        ("\u202egnp.exe\u2066", "‹U+202E›gnp.exe‹U+2066›"),
        ("\ud800", "‹U+D800›"),
        ("one\rtwo\r\nthree", "one␍two\nthree"),
        ("可愛い 👩\u200d🚀 नमस्ते", "可愛い 👩\u200d🚀 नमस्ते"),
    ],
)
def test_acting_characters_become_symbols(text: str, shown: str) -> None:
    assert make_visible(text) == shown
    shown.encode()
