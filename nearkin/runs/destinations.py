"""Destinations of outputs that are not a path: a repository, an object store or a table.

An output is made at a local path first, where it stays, and is published when it is complete.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nearkin.corpus.remote import CLOUDS
from nearkin.corpus.remote_errors import HUB, parse_protocol
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import require_choice
from nearkin.settings.table import WRITE_MODES

ADDRESS = re.compile(r"(?P<kind>[A-Za-z0-9+]{2,}):/{1,2}(?P<place>.*)", re.DOTALL)
"""A URL. A path in its place has one slash."""
TABLE = re.compile(r"(?P<kind>delta|iceberg):(?P<place>.+)", re.DOTALL)
CREATE, APPEND, DELETE = WRITE_MODES


@dataclass(frozen=True)
class WriteRequest:
    """A request to write the documents of a deduplication.

    Attributes:
        mode: What is done with a table: one of `WRITE_MODES`.
        id: The column of ids, or None.
        inputs: The inputs of the run.
        version: The version of the table that the run has read, if it is an input. By default, the
            one before the run.
    """

    mode: str = CREATE
    id: str | None = None
    inputs: tuple[str, ...] = ()
    version: int | None = None

    def __post_init__(self) -> None:
        require_choice("write_mode", self.mode, WRITE_MODES)


class Destination(ABC):
    """A place to which a finished output is published.

    Attributes:
        options: The options that the run has because of the place.
    """

    options: Mapping[str, Any] = MappingProxyType({})

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

    def is_published(self) -> bool:
        """Returns whether the local output is that of an earlier run, and may be replaced."""
        return False


def parse_destination(out: Path, request: WriteRequest | None) -> Destination | None:
    """Returns the destination that an output names, or None if it is a path."""
    table = TABLE.fullmatch(str(out))
    if table is not None:
        if request is None:
            raise UsageError(
                f"{out} cannot be the output: tables receive the documents that a deduplication "
                f"keeps; choose a path with {name_setting('out')}"
            )
        from nearkin.runs.table_output import parse_table

        return parse_table(table["kind"], table["place"], request)
    if request is not None and request.mode != CREATE:
        raise UsageError(
            f"{name_setting('write_mode', request.mode)} needs a table; choose, for example, "
            f"{name_setting('out', 'delta:lake/pages')}"
        )
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


def open_destination(
    out: Path, request: WriteRequest | None = None, *, may_exist: bool
) -> Destination | None:
    """Returns the destination that an output names, if it can be written. None for a path."""
    destination = parse_destination(out, request)
    if destination is not None:
        destination.require_writable(may_exist=may_exist)
    return destination


def write_output(
    out: Path,
    write: Callable[..., Path],
    request: WriteRequest | None = None,
    *,
    overwrite: bool,
) -> Path:
    """Writes an output, publishes it, and returns its path.

    Args:
        write: Writes the output to a path. Its keyword `overwrite` says whether to replace one.
    """
    destination = open_destination(out, request, may_exist=overwrite)
    if destination is None:
        return write(out, overwrite=overwrite)
    local = destination.local
    local.parent.mkdir(parents=True, exist_ok=True)
    is_published = destination.is_published()
    if is_published and local.is_file():
        local.unlink()
    path = write(local, overwrite=overwrite or is_published)
    destination.publish(overwrite=overwrite)
    return path
