"""A document transformer for LangChain.

It needs the extra `langchain`.
"""

from collections.abc import Sequence
from typing import Any, Unpack

from nearkin.errors import MissingExtraError, UsageError
from nearkin.index.settings import SettingsFields
from nearkin.integrations.near_duplicates import (
    DROP,
    NEAR_DUPLICATE_OF,
    NearDuplicateFinder,
    drop_or_mark,
    require_action,
)

try:
    from langchain_core.documents import BaseDocumentTransformer, Document
except ImportError as error:
    message = "nearkin.integrations.langchain requires langchain-core"
    raise MissingExtraError.for_extra(message, "langchain") from error


class NearDuplicateTransformer(BaseDocumentTransformer):  # type: ignore[misc]
    """Drops or marks near-duplicates among documents.

    With a store, a document is compared with all earlier ones, for ingestion. Without a store, the
    documents of a call are compared with each other, for the results of a retriever: the first one,
    which is ranked highest, stays.

    Args:
        store: URL of an index, or None.
        action: `drop`, or `mark` to keep near-duplicates with the id of the document that they
            repeat, as `near_duplicate_of` in their metadata.
        scope: Scope of the documents in the index.
        threshold: Smallest similarity of near-duplicates. By default that of the index, or 0.8.
        **settings: Further parameters of `Index.open`.

    Raises:
        UsageError: If the action is unknown.

    Examples:
        >>> transformer = NearDuplicateTransformer(threshold=0.5)
        >>> texts = ["one two three four", "One two three four!", "five"]
        >>> documents = [Document(page_content=text) for text in texts]
        >>> [document.page_content for document in transformer.transform_documents(documents)]
        ['one two three four', 'five']
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        action: str = DROP,
        scope: str = "default",
        threshold: float | None = None,
        **settings: Unpack[SettingsFields],
    ) -> None:
        require_action(action)
        self._action = action
        self.finder = NearDuplicateFinder(store, scope, threshold, **settings)

    def transform_documents(self, documents: Sequence[Document], **_: Any) -> list[Document]:
        """Returns the documents that stay, in the same order.

        Args:
            documents: Documents. With a store they need ids, which are the same if they come again.
            **_: Further arguments, which have no effect.

        Raises:
            UsageError: If a document has no id, and there is a store.
        """
        documents = list(documents)
        texts = [document.page_content for document in documents]
        ids = self._ids_of(documents)
        return drop_or_mark(documents, self.finder.find(texts, ids), self._action, _mark)

    def _ids_of(self, documents: Sequence[Document]) -> list[str]:
        """Returns the ids of documents. Without a store, that of one without id is its number."""
        ids = []
        for number, document in enumerate(documents):
            if document.id is None and self.finder.store is not None:
                raise UsageError(
                    f"document {number} has no id; an index needs one, which must be the same if "
                    "the document comes again"
                )
            ids.append(str(number) if document.id is None else document.id)
        return ids


def _mark(document: Document, original: str) -> Document:
    metadata = {**document.metadata, NEAR_DUPLICATE_OF: original}
    return document.model_copy(update={"metadata": metadata})
