"""Sizes in bytes, as a number or as a text such as `4GB`."""

import re

from nearkin.errors import UsageError
from nearkin.runtime.process_limits import LEAST_MEMORY, default_memory
from nearkin.runtime.setting_names import name_setting

AUTOMATIC = "auto"
"""The size that stands for the default bound of the memory of a run on this machine."""
SIZE = re.compile(
    r"(?P<number>[0-9]{1,20}(?:\.[0-9]+)?)\s*(?P<unit>[KMGT]?)(?P<binary>i?)B?", re.IGNORECASE
)


def parse_size(size: int | str, name: str = "memory") -> int:
    """Returns the number of bytes that a size such as `4GB`, `512MiB` or `1.5G` stands for.

    Args:
        size: Number of bytes, which is returned as it is, or a text with or without a unit.

    Examples:
        >>> parse_size("4GB"), parse_size("1.5KiB"), parse_size(100)
        (4000000000, 1536, 100)
    """
    if not isinstance(size, str):
        return size
    match = SIZE.fullmatch(size.strip())
    if match is None:
        raise UsageError(f"{name} {size!r} is not a size; write it like 4GB or 512MiB")
    base = 1024 if match["binary"] else 1000
    exponent = " KMGT".index(match["unit"].upper() or " ")
    return int(float(match["number"]) * base**exponent)


def require_memory(memory: int) -> None:
    """Requires that a memory bound is large enough for a run.

    Args:
        memory: Number of bytes.
    """
    if memory < LEAST_MEMORY:
        raise UsageError(
            f"{name_setting('memory', memory)} is too small; a run needs at least "
            f"{LEAST_MEMORY >> 20}MiB ({LEAST_MEMORY:,} bytes)"
        )


class AutomaticMemory(int):
    """A memory bound that follows from the machine, so that no result may depend on it."""


def parse_memory(size: int | str, name: str = "memory") -> int:
    """Returns the memory bound of a run, in bytes.

    Args:
        size: Number of bytes, a size such as `4GB`, or `auto` for half of the memory that the
            process may use (see `nearkin.runtime.process_limits`).
    """
    if size == AUTOMATIC:
        return AutomaticMemory(default_memory())
    return parse_size(size, name)
