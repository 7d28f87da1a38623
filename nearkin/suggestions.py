"""Suggestions for misspelt names of a closed set: columns, options and their values."""

from collections.abc import Iterable


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
