"""Destinations of documents: an index in this process, or a server."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nearkin.errors import IncompatibleError, KeyRequiredError, NearkinError, UsageError
from nearkin.index.entry import Outcome

if TYPE_CHECKING:
    from nearkin.client.clients import Client
    from nearkin.index.index import Index
    from nearkin.index.preparation import Document


class IndexSink:
    """An index in this process, as a destination of documents."""

    def __init__(self, index: "Index") -> None:
        self.index = index

    def upsert(
        self, scope: str, documents: "Sequence[Document]", ids: Sequence[str | None]
    ) -> "list[Outcome | NearkinError]":
        """Upserts documents in one batch, or one by one if one of them is refused.

        Args:
            scope: Scope of the documents.
            documents: Texts or vectors.
            ids: The id of each document, or None for an id that is made from the content.

        Returns:
            The outcome of each document, or the error that refused it.

        Raises:
            IncompatibleError: If the index has another Spec.
            KeyRequiredError: If the Spec of the index requires another key.
            StoreError: If the store failed.
        """
        try:
            return [*self.index.upsert_many(scope, documents, ids)]
        except (IncompatibleError, KeyRequiredError):
            raise
        except UsageError as error:
            if len(documents) == 1:
                return [error]
            return [
                self.upsert(scope, [document], [id])[0]
                for document, id in zip(documents, ids, strict=True)
            ]


class ServerSink:
    """A server, as a destination of documents."""

    def __init__(self, client: "Client") -> None:
        self.client = client

    def upsert(
        self, scope: str, documents: "Sequence[Document]", ids: Sequence[str | None]
    ) -> "list[Outcome | NearkinError]":
        """Upserts documents in one batch.

        Args:
            scope: Scope of the documents.
            documents: Texts or vectors.
            ids: The id of each document, or None for an id that is made from the content.

        Returns:
            The outcome of each document, or the error that refused it.

        Raises:
            ServiceError: If the server failed or refused all documents.
        """
        from nearkin.client.requests import NewDocument

        return [*self.client.upsert_many(scope, map(NewDocument, documents, ids))]
