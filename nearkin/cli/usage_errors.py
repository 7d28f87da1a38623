"""Usage errors of the command line, without passwords.

Such an error repeats the wrong argument, which may be a URL with a password.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from nearkin.redaction import redact

# typer exports only subclasses of this error.
ARGUMENT_ERROR: Any = typer.BadParameter.__mro__[1]


@contextmanager
def redacted_errors() -> Iterator[None]:
    """Removes passwords from the messages of usage errors."""
    try:
        yield
    except ARGUMENT_ERROR as error:
        error.message = redact(error.message)
        raise


class RedactingCommand(TyperCommand):
    """A command whose usage errors contain no passwords."""

    def make_context(self, *arguments: Any, **fields: Any) -> Any:
        """Parses the arguments of the command.

        Args:
            *arguments: The positional arguments of `TyperCommand.make_context`.
            **fields: Its keyword arguments.

        Returns:
            The context of the command.
        """
        with redacted_errors():
            return super().make_context(*arguments, **fields)


class RedactingGroup(TyperGroup):
    """A group of commands whose usage errors contain no passwords."""

    def make_context(self, *arguments: Any, **fields: Any) -> Any:
        """Parses the arguments of the group.

        Args:
            *arguments: The positional arguments of `TyperGroup.make_context`.
            **fields: Its keyword arguments.

        Returns:
            The context of the group.
        """
        with redacted_errors():
            return super().make_context(*arguments, **fields)

    def invoke(self, ctx: Any) -> Any:
        """Parses the arguments of the command, and runs it."""
        with redacted_errors():
            return super().invoke(ctx)
