"""Raises an exception at a chosen line of a call, as the handler of a signal does."""

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any

TRACED = ("nearkin", "redis", "psycopg", "psycopg_pool", "contextlib")
"""The packages at whose lines an exception is raised."""


class Interruption(KeyboardInterrupt):
    """Ctrl-C."""


class SoftTimeLimit(Exception):  # noqa: N818
    """The exception of a time limit of a task queue, which derives from Exception."""


@cache
def list_ends_of_blocks(code: CodeType) -> frozenset[int]:
    """Returns the places at which a `with` block ends, where the line of `with` begins again.

    Python runs no handler of a signal between the end of a block and the call of `__exit__`, also
    if an exception ends the block. An exception there would leave a lock acquired that no signal
    can.
    """
    instructions = list(dis.get_instructions(code))
    ends = set()
    for position, first in enumerate(instructions):
        if first.opname == "WITH_EXCEPT_START":
            # the exception is put on the stack before
            ends.add(instructions[position - 1].offset)
        arguments = instructions[position : position + 3]
        if len(arguments) == 3 and all(
            argument.opname == "LOAD_CONST" and argument.argval is None for argument in arguments
        ):
            ends.add(first.offset)
            before = instructions[position - 1]
            # the value that the block returns is put below the arguments of `__exit__`
            if position and before.opname == "SWAP":
                ends.add(before.offset)
    return frozenset(ends)


def _follows(raised: BaseException | None, error: type[BaseException]) -> bool:
    """Returns whether an exception is of a type, or was raised because of one of that type."""
    while raised is not None:
        if isinstance(raised, error):
            return True
        raised = raised.__cause__ or raised.__context__
    return False


def call_interrupted(
    call: Callable[[], object], line: int, error: type[BaseException]
) -> int | None:
    """Calls a function, and raises an exception before one of the lines that it executes.

    Args:
        call: Function.
        line: Number of the executed line, from 0, among those of the traced packages.
        error: Exception that is raised. It is caught if the call does not handle it, and so is one
            that a driver raises in its place.

    Returns:
        The number of executed lines if there are fewer, or None if the exception was raised.
    """
    executed = 0

    def trace_lines(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal executed
        if event == "line" and frame.f_lasti not in list_ends_of_blocks(frame.f_code):
            executed += 1
            if executed > line:
                sys.settrace(None)
                raise error
        return trace_lines

    def trace_calls(frame: FrameType, event: str, argument: object) -> Any:
        module = str(frame.f_globals.get("__name__")).partition(".")[0]
        return trace_lines if module in TRACED else None

    previous = sys.gettrace()
    sys.settrace(trace_calls)
    try:
        call()
    except BaseException as raised:
        if not _follows(raised, error):
            raise
        return None
    finally:
        sys.settrace(previous)
    return executed if executed <= line else None
