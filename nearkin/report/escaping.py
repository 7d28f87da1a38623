"""Hostile text made fit to be shown: what would act on a terminal or a page is shown as a sign instead."""

import re

_ACTING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Controls as control pictures, bidirectional and invisible characters as their code point; tab and line feed stay.

    Escape sequences rewrite a terminal, bidirectional overrides reorder what follows them, and lone surrogates cannot be
    written at all. Zero-width joiners stay: scripts and emoji need them.

    Examples:
        >>> visible("a\\x1b[2Jb"), visible("x\\u202ey"), visible("one\\r\\ntwo")
        ('a␛[2Jb', 'x‹U+202E›y', 'one\\ntwo')
    """
    return _ACTING.sub(_sign, text.replace("\r\n", "\n"))


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"‹U+{code:04X}›"
