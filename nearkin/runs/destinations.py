"""Destinations of outputs that are not a path: a repository, an object store or a table.

An output is made at a local path first, where it stays, and is published when it is complete.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from nearkin.corpus.remote import CLOUDS
from nearkin.corpus.remote_errors import HUB, parse_protocol

ADDRESS = re.compile(r"(?P<kind>[A-Za-z0-9+]{2,}):/{1,2}(?P<place>.*)", re.DOTALL)
"""A URL. A path in its place has one slash."""


class Destination(ABC):
    """A place to which a finished output is published."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL of the place."""

    @property
    @abstractmethod
    def local(self) -> Path:
        """The path below the current folder where the output is made."""

    @abstractmethod
    def require_writable(self, *, may_exist: bool) -> None:
        """Requires that the output can be published, as far as it is known before it is made."""

    @abstractmethod
    def publish(self, *, overwrite: bool) -> str:
        """Publishes the output, and returns what was done.

        It has no effect if the place has the same output already.
        """


def parse_destination(out: Path) -> Destination | None:
    """Returns the destination that an output names, or None if it is a path."""
    address = ADDRESS.fullmatch(str(out))
    if address is None:
        return None
    protocol = parse_protocol(f"{address['kind']}://")
    if protocol == HUB:
        # Names the extra if the library of the hub is missing.
        import nearkin.corpus.hub  # noqa: F401
        from nearkin.runs.hub_output import HubOutput

        return HubOutput.parse(out)
    if protocol in CLOUDS:
        from nearkin.runs.store_output import StoreOutput

        return StoreOutput.parse(f"{address['kind']}://{address['place']}")
    return None


def open_destination(out: Path, *, may_exist: bool) -> Destination | None:
    """Returns the destination that an output names, if it can be written. None for a path."""
    destination = parse_destination(out)
    if destination is not None:
        destination.require_writable(may_exist=may_exist)
    return destination


def write_output(out: Path, write: Callable[[Path], Path], *, overwrite: bool) -> Path:
    """Writes an output by a function of its path, publishes it, and returns the path."""
    destination = open_destination(out, may_exist=overwrite)
    if destination is None:
        return write(out)
    destination.local.parent.mkdir(parents=True, exist_ok=True)
    path = write(destination.local)
    destination.publish(overwrite=overwrite)
    return path
