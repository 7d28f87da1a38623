"""The history of an index as a table, for exports and for the terminal."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from nearkin.index.index import Index

if TYPE_CHECKING:
    from nearkin.service.client.clients import Client

HISTORY = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        *((name, pa.string()) for name in ("kind", "scope", "id", "into", "cluster", "actor")),
        ("cursor", pa.string()),
    ]
)


def iterate_history(
    source: "Index | Client", after: str | None, scope: str | None, id: str | None
) -> Iterator[pa.RecordBatch]:
    """Yields the changes of an index that are there now, as batches of rows."""
    has_more = True
    while has_more:
        page = source.changes(after, scope, id=id)
        rows = [{**vars(change), "at": round(change.at * 1e6)} for change in page.changes]
        yield pa.RecordBatch.from_pylist(rows, HISTORY)
        after = page.next
        has_more = page.has_more
