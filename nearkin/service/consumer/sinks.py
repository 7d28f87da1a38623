"""Destinations of documents: an index in this process, or a server."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nearkin.errors import (
    IncompatibleError,
    KeyRequiredError,
    NearkinError,
    OldVersionError,
    UsageError,
)
from nearkin.index.entry import Outcome

if TYPE_CHECKING:
    from nearkin.index.documents import Document
    from nearkin.index.index import Index
    from nearkin.service.client.clients import Client


class IndexSink:
    """An index in this process, as a destination of documents.

    If a document of a batch is refused, the documents are upserted one by one.
    """

    def __init__(self, index: "Index") -> None:
        self.index = index

    def upsert(
        self, scope: str, documents: "Sequence[Document]", ids: Sequence[str | None]
    ) -> "list[Outcome | NearkinError]":
        """Upserts documents."""
        try:
            return [*self.index.upsert_many(scope, documents, ids)]
        except (IncompatibleError, KeyRequiredError, OldVersionError):
            raise
        except UsageError as error:
            if len(documents) == 1:
                return [error]
            return [
                self.upsert(scope, [document], [id])[0]
                for document, id in zip(documents, ids, strict=True)
            ]

    def remove(self, scope: str, ids: Sequence[str]) -> None:
        """Deletes documents."""
        self.index.remove_many(scope, ids)


class ServerSink:
    """A server, as a destination of documents."""

    def __init__(self, client: "Client") -> None:
        self.client = client

    def upsert(
        self, scope: str, documents: "Sequence[Document]", ids: Sequence[str | None]
    ) -> "list[Outcome | NearkinError]":
        """Upserts documents."""
        from nearkin.service.client.models import NewDocument

        return [*self.client.upsert_many(scope, map(NewDocument, documents, ids))]

    def remove(self, scope: str, ids: Sequence[str]) -> None:
        """Deletes documents."""
        self.client.remove_many(scope, ids)
