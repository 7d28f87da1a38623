"""A component for Haystack.

It needs the extra `haystack`.
"""

from dataclasses import replace
from typing import Any

from nearkin.errors import MissingExtraError, UsageError
from nearkin.integrations.near_duplicates import (
    DROP,
    NEAR_DUPLICATE_OF,
    NearDuplicateFinder,
    drop_or_mark,
    require_action,
)
from nearkin.runtime.redaction import redact

try:
    from haystack import Document, component, default_to_dict
except ImportError as error:
    message = "nearkin.integrations.haystack requires haystack-ai"
    raise MissingExtraError.for_extra(message, "haystack") from error


@component
class NearDuplicateRemover:
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

    Raises:
        UsageError: If the action is unknown.
    """

    def __init__(
        self,
        store: str | None = None,
        action: str = DROP,
        scope: str = "default",
        threshold: float | None = None,
    ) -> None:
        require_action(action)
        self._parameters = {
            "store": store,
            "action": action,
            "scope": scope,
            "threshold": threshold,
        }
        self._action = action
        self._finder = NearDuplicateFinder(store, scope, threshold)

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Returns the documents that stay, in the same order, as `documents`.

        Documents without text stay.

        Args:
            documents: Documents, whose ids are those of the index.
        """
        texts = [document.content or "" for document in documents]
        originals = self._finder.find(texts, [document.id for document in documents])
        return {"documents": drop_or_mark(documents, originals, self._action, _mark)}

    def to_dict(self) -> dict[str, Any]:
        """Returns the parameters, for a saved pipeline.

        Raises:
            UsageError: If the URL of the store has a password, which the pipeline would show.
        """
        store = self._parameters["store"]
        if store is not None and redact(str(store)) != store:
            raise UsageError(
                f"{store} has a password, which a saved pipeline would show; make the component in "
                "code, or use a URL without one"
            )
        return dict(default_to_dict(self, **self._parameters))


def _mark(document: Document, original: str) -> Document:
    return replace(document, meta={**document.meta, NEAR_DUPLICATE_OF: original})
