"""The boundary to other libraries: decoders of files, and drivers of storage.

No list of their exceptions is complete. A decoder raises whatever its code runs into when bytes are
not what it expects, and a driver whatever its own libraries raise. So each exception that crosses
this boundary becomes an error of nearkin. Only this module catches them all.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nearkin.errors import NearkinError
from nearkin.runtime.environment import NO_THREAD

ALLOCATION = re.compile(r"\bsize (\d+)\b")
"""The number of bytes in the message of Arrow about memory that it could not allocate."""
RUST_PLACE = re.compile(r"(, \S+\.rs:\d+(:\d+)?)+\s*$")
"""The places in the source code at the end of messages of libraries in Rust."""
TREE = re.compile(r"\x1b\[[\d;]*m|↳")
"""The arrows in the messages of libraries in Rust, and their colors."""
PANIC = "PanicException"
"""The exception of libraries in Rust. Each has a class of its own, which cannot be imported and is
not a subclass of Exception."""
MOST_CHARACTERS = 200
"""The maximum number of characters of the description of an error."""


class DamageError(ValueError):
    """An error: a file cannot be read from some place on. The message is the reason."""


@contextmanager
def translate_foreign_errors(
    translate: Callable[[BaseException], BaseException],
) -> Iterator[None]:
    """Raises the exceptions of another library as other ones.

    Errors of nearkin pass unchanged, for example that of a full disk. So do interrupts and a lack
    of memory or threads, which say nothing about a file. Memory that no machine has was asked for
    by a file.
    """
    try:
        yield
    except BaseException as error:
        if not _says_something_about_file(error):
            raise
        translated = translate(error)
        if translated is error:
            raise
        raise translated from error


def _says_something_about_file(error: BaseException) -> bool:
    """Returns whether an exception is one of another library, about what it reads or writes."""
    if isinstance(error, MemoryError):
        return _is_beyond_machine(error)
    is_exception = isinstance(error, Exception) or type(error).__name__ == PANIC
    return is_exception and not isinstance(error, NearkinError) and str(error) != NO_THREAD


@contextmanager
def decoding(part: str = "") -> Iterator[None]:
    """Raises every exception of a reader as a DamageError."""

    def to_damage(error: BaseException) -> DamageError:
        if isinstance(error, DamageError):
            return error
        return DamageError(": ".join(filter(None, (part, describe_error(error)))))

    with translate_foreign_errors(to_damage):
        yield


def _is_beyond_machine(error: MemoryError) -> bool:
    """Returns whether an allocation failed that is larger than the memory of the machine."""
    match = ALLOCATION.search(str(error))
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return match is not None and int(match[1]) > machine


def describe_error(error: BaseException) -> str:
    """Returns the message of an error in one line of at most `MOST_CHARACTERS` characters.

    Examples:
        >>> describe_error(ValueError("the header  is damaged")), describe_error(KeyError("x"))
        ('the header is damaged', "KeyError: 'x'")
    """
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    text = TREE.sub("", RUST_PLACE.sub("", text))
    if not text or isinstance(error, LookupError | TypeError | AttributeError):
        # The message alone would not be a sentence.
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    return " ".join(text.split())[:MOST_CHARACTERS]
