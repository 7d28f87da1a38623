"""The history of an index as a table, for exports and for the terminal."""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from nearkin.index.changes import ChangePage

HISTORY = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        *((name, pa.string()) for name in ("kind", "scope", "id", "into", "cluster", "actor")),
        ("cursor", pa.string()),
    ]
)


class ChangeSource(Protocol):
    """An index, or a client of a server."""

    def changes(
        self,
        after: str | None = None,
        scope: str | None = None,
        limit: int = 1000,
        *,
        id: str | None = None,
    ) -> ChangePage:
        """Returns what happened to documents since a cursor."""


def iterate_history(
    source: ChangeSource, after: str | None, scope: str | None, id: str | None
) -> Iterator[pa.RecordBatch]:
    """Yields the changes of an index that are there now, as batches of rows."""
    has_more = True
    while has_more:
        page = source.changes(after, scope, id=id)
        rows = [{**vars(change), "at": round(change.at * 1e6)} for change in page.changes]
        yield pa.RecordBatch.from_pylist(rows, HISTORY)
        after = page.next
        has_more = page.has_more
