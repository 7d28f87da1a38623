"""Suggestions for misspelt names of a closed set: columns, options and their values."""

from collections.abc import Iterable, Sequence

MAX_LISTED_NAMES = 20
"""Number of names that a message lists. A wide table has thousands of columns."""
MAX_NAME_LENGTH = 60
"""Number of characters of a name that a message shows. The header of a binary file is one name."""


def did_you_mean(name: object, valid: Iterable[object]) -> str:
    """Returns the end of an error message, which suggests the most similar valid name.

    Args:
        name: The name that is not valid.
        valid: The valid names.

    Returns:
        `; did you mean 'NAME'?`, or an empty text if no valid name is similar.

    Examples:
        >>> did_you_mean("boddy", ["id", "body"])
        "; did you mean 'body'?"
        >>> did_you_mean("price", ["id", "body"])
        ''
    """
    from difflib import get_close_matches

    names = {str(option).casefold(): str(option) for option in valid}
    matches = get_close_matches(str(name).casefold(), names, n=1)
    if not matches:
        return ""
    return f"; did you mean {names[matches[0]]!r}?"


def describe_columns(names: Sequence[str]) -> str:
    """Returns a remark for error messages that lists the columns of a table.

    Args:
        names: The names of the columns.

    Returns:
        The first 20 names, and the number of the others.

    Examples:
        >>> describe_columns(["id", "body"])
        "it has 'id', 'body'"
        >>> describe_columns([])
        'it has no columns'
        >>> describe_columns([f"c{i}" for i in range(3000)])[-22:]
        "'c19' and 2,980 others"
        >>> len(describe_columns(["x" * 5000]))
        70
    """
    if not names:
        return "it has no columns"
    listed = ", ".join(map(_shorten, names[:MAX_LISTED_NAMES]))
    unlisted = len(names) - MAX_LISTED_NAMES
    return f"it has {listed} and {unlisted:,} others" if unlisted > 0 else f"it has {listed}"


def _shorten(name: str) -> str:
    """Returns a quoted name. The characters of a long one, or of damaged bytes, are left out."""
    shown = name.encode("utf-8", "replace").decode()
    if len(shown) > MAX_NAME_LENGTH:
        return f"{shown[:MAX_NAME_LENGTH]!r}…"
    return repr(shown)
