"""The command line of the process, and its text in the records of runs."""

from collections.abc import Sequence
from contextvars import ContextVar

ARGUMENTS: ContextVar[Sequence[str]] = ContextVar("arguments", default=())
"""The arguments of the command that runs, after the name of the program."""
OWNS_PROCESS: ContextVar[bool] = ContextVar("owns_process", default=False)
"""A flag that is set if the process ends with its command, as one that a shell has started."""
VERBOSITY: ContextVar[int] = ContextVar("verbosity", default=0)
"""How much a command prints: 1 more than usual, -1 the result in a line, -2 nothing but errors."""
NOTHING_BUT_ERRORS = -2


def decode_text(argument: str) -> str:
    r"""Returns an argument as text, if the locale of the process could not decode it.

    In the locale C, Python replaces the bytes of characters such as ä by surrogates. Paths are
    opened in that form, but no column, id or text equals it.

    Examples:
        >>> decode_text("Stra\udcc3\udc9fe"), decode_text("Straße")
        ('Straße', 'Straße')
    """
    try:
        return argument.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:
        return argument


def describe_command_line(arguments: Sequence[str]) -> str:
    """Returns a command line as it can be shown to others.

    Passwords in URLs and the values of `--conf`, which may be credentials, are hidden.

    Examples:
        >>> describe_command_line(["dedup", "my docs.csv", "--conf", "spark.key=secret"])
        "nearkin dedup 'my docs.csv' --conf spark.key=***"
    """
    from nearkin.corpus.file_names import hide_password
    from nearkin.runtime.redaction import HIDDEN

    shown = []
    previous = ""
    for argument in arguments:
        if previous == "--conf" or argument.startswith("--conf="):
            setting = argument.removeprefix("--conf=")
            flag = argument.removesuffix(setting)
            shown.append(f"{flag}{setting.partition('=')[0]}={HIDDEN}")
        else:
            shown.append(hide_password(argument))
        previous = argument
    return " ".join(["nearkin", *map(_quote_argument, shown)])


def _quote_argument(argument: str) -> str:
    """Returns an argument as a shell reads it. Hidden values do not need quotes."""
    # Only commands that record their command line need it.
    from nearkin.runtime.redaction import HIDDEN
    from nearkin.runtime.shell_quoting import quote_argument

    return argument if argument.endswith(HIDDEN) else quote_argument(argument)
