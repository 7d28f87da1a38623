"""Usage errors of the command line, without passwords.

Such an error repeats the wrong argument, which may be a URL with a password.
"""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from nearkin.redaction import redact

# typer exports only subclasses of this error.
ARGUMENT_ERROR: Any = typer.BadParameter.__mro__[1]


class RedactingCommand(TyperCommand):
    """A command whose usage errors contain no passwords."""

    def make_context(self, *arguments: Any, **fields: Any) -> Any:
        """Parses the arguments of the command."""
        try:
            return super().make_context(*arguments, **fields)
        except ARGUMENT_ERROR as error:
            error.message = redact(error.message)
            raise


class RedactingGroup(TyperGroup):
    """A group of commands whose usage errors contain no passwords."""

    def make_context(self, *arguments: Any, **fields: Any) -> Any:
        """Parses the arguments of the group."""
        try:
            return super().make_context(*arguments, **fields)
        except ARGUMENT_ERROR as error:
            error.message = redact(error.message)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Parses the arguments of the command, and runs it."""
        try:
            return super().invoke(ctx)
        except ARGUMENT_ERROR as error:
            error.message = redact(error.message)
            raise
