"""The warnings that a terminal shows: the most important one, and the rejected rows."""

import re
from collections.abc import Sequence

from nearkin.runtime.number_format import format_count

WITH_JSON = "with --json"
"""The place of all warnings of a command that writes no report, as a summary calls it."""
REJECTIONS = re.compile(r"[\d,]+ rows? (was|were) rejected: ")
"""The beginning of a warning about rejected rows, as `describe_rejections` writes it."""


def choose_warnings(warnings: Sequence[str], more: str = WITH_JSON) -> list[str]:
    """Returns the warnings of a summary: the rejected rows, and the most important other one.

    Args:
        warnings: All warnings, the most important ones first.
        more: Place of the others, for example `in deduped/report.html`.

    Examples:
        >>> choose_warnings(["2 rows share an id", "1 row was rejected: text is null (1)", "c"])
        ['1 row was rejected: text is null (1)', '2 rows share an id (1 more warning with --json)']
    """
    rejections = [warning for warning in warnings if REJECTIONS.match(warning)]
    others = [warning for warning in warnings if not REJECTIONS.match(warning)]
    return [*rejections, *choose_warning(others, more)]


def choose_warning(warnings: Sequence[str], more: str = WITH_JSON) -> list[str]:
    """Returns the most important warning and the number of the others, or nothing without any."""
    if len(warnings) <= 1:
        return list(warnings)
    text, *command = warnings[0].splitlines()
    others = format_count(len(warnings) - 1, "more warning")
    return ["\n".join([f"{text.removesuffix(':')} ({others} {more})", *command])]
