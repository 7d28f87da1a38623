"""Suggestions for misspelt names of a closed set: columns, options and their values."""

from collections.abc import Iterable, Sequence

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting

MAX_LISTED_NAMES = 20
"""Number of names that a message lists. A wide table has thousands of columns."""
MAX_DISTANCE = 0.45
"""Largest share of the characters that differ in a name that is suggested. More than that, names
of four characters would resemble half of all others."""
MAX_NAME_LENGTH = 60
"""Number of characters of a name that a message shows. The header of a binary file is one name."""


def did_you_mean(name: object, valid: Iterable[object]) -> str:
    """Returns the end of an error message, which suggests the most similar valid name.

    Examples:
        >>> did_you_mean("boddy", ["id", "body"])
        "; did you mean 'body'?"
        >>> did_you_mean("price", ["id", "body"]), did_you_mean("text", ["street"])
        ('', '')
    """
    from rapidfuzz.distance import OSA

    def distance_to(option: str) -> float:
        return OSA.normalized_distance(_comparable(str(name)), _comparable(option))

    closest = min(map(str, valid), key=distance_to, default="")
    if not closest or distance_to(closest) > MAX_DISTANCE:
        return ""
    return f"; did you mean {closest!r}?"


def require_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Requires that a setting has one of its values.

    Raises:
        UsageError: If it has another one.
    """
    valid = list(map(str, choices))
    if value not in valid:
        shown = name_setting(name, str(value))
        raise UsageError(f"{shown} is not one of {', '.join(valid)}{did_you_mean(value, valid)}")


def _comparable(name: str) -> str:
    """Returns a name without the hyphens of an option and without differences of case."""
    return name.lstrip("-").casefold()


def describe_columns(names: Sequence[str]) -> str:
    """Returns a remark for error messages that lists the columns of a table.

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
