"""Commands that can be copied from a terminal and pasted into a shell."""

import shlex
from collections.abc import Sequence

from nearkin.runtime.visible_text import make_visible

INDENT = "    "
"""The beginning of the further lines of a command."""
ESCAPED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def quote_argument(argument: str) -> str:
    r"""Returns an argument as a shell reads it, in characters that can be seen.

    An argument with line feeds, escape sequences or other invisible characters is written as
    `$'…'`, which bash, zsh and other shells read.

    Examples:
        >>> print(quote_argument("it's a.txt"), quote_argument("a\nb\x1b[2J"))
        'it'"'"'s a.txt' $'a\nb\x1b[2J'
    """
    if make_visible(argument) == argument and not {"\n", "\t"} & set(argument):
        return shlex.quote(argument)
    return "$'" + "".join(map(_escape, argument)) + "'"


def _escape(character: str) -> str:
    if character in ESCAPED:
        return ESCAPED[character]
    if make_visible(character) == character:
        return character
    encoded = character.encode("utf-8", "surrogateescape" if character > "\udc7f" else "replace")
    return "".join(f"\\x{byte:02x}" for byte in encoded)


def join_command(words: Sequence[str], width: int | None = None) -> str:
    r"""Returns a command that a shell reads, in one line or in lines that break between words.

    Examples:
        >>> print(join_command(["nearkin", "explain", "first id", "second"], 30))
        nearkin explain \
            'first id' \
            second
    """
    quoted = [quote_argument(word) for word in words]
    line = " ".join(quoted)
    if width is None or len(line) <= width:
        return line
    # The name of the program and of its command stay together.
    lines = [" ".join(quoted[:2])]
    for word in quoted[2:]:
        is_value = lines[-1].startswith(f"{INDENT}-") and " " not in lines[-1].strip()
        if is_value and not word.startswith("-"):
            lines[-1] += f" {word}"
        else:
            lines.append(f"{INDENT}{word}")
    return " \\\n".join(lines)
