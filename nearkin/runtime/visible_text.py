"""Makes untrusted text safe to show on a terminal or a page."""

import re

_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def make_visible(text: str) -> str:
    r"""Replaces characters that are invisible or that act on a terminal or a page.

    Control characters become control pictures. Bidirectional and other invisible characters become
    their code points. Tabs and line feeds stay. Escape sequences could rewrite a terminal,
    bidirectional overrides could reorder the text after them, and lone surrogates cannot be written
    at all. Zero-width joiners stay because scripts and emoji need them.

    Examples:
        >>> make_visible("a\x1b[2Jb"), make_visible("x\u202ey"), make_visible("one\r\ntwo")
        ('a␛[2Jb', 'x‹U+202E›y', 'one\ntwo')
    """
    return _CONTROLS.sub(_symbol_for, text.replace("\r\n", "\n"))


def _symbol_for(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"‹U+{code:04X}›"
