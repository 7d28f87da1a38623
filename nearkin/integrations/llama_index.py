"""A transformation and a node postprocessor for LlamaIndex.

They need the extra `llama-index`.
"""

from collections.abc import Sequence
from typing import Any, Unpack
from uuid import uuid4

from nearkin.errors import MissingExtraError
from nearkin.index.settings import SettingsFields
from nearkin.integrations.near_duplicates import (
    DROP,
    MARK,
    NEAR_DUPLICATE_OF,
    NearDuplicateFinder,
    require_action,
)

try:
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TransformComponent
except ImportError as error:
    message = "nearkin.integrations.llama_index requires llama-index-core"
    raise MissingExtraError.for_extra(message, "llama-index") from error


class NearDuplicateTransformation(TransformComponent):  # type: ignore[misc]
    """Drops or marks nodes that repeat an earlier node of an index, at ingestion.

    The ids of nodes must be the same if a document comes again, so that a batch whose ingestion was
    interrupted can be repeated: set `id_func` of the node parser.

    Args:
        store: URL of the index.
        action: `drop`, or `mark` to keep near-duplicates with the id of the node that they repeat,
            as `near_duplicate_of` in their metadata.
        scope: Scope of the nodes in the index.
        threshold: Smallest similarity of near-duplicates. By default that of the index, or 0.8.
        **settings: Further parameters of `Index.open`.

    Raises:
        UsageError: If the action is unknown.
    """

    action: str = DROP
    _finder: NearDuplicateFinder = PrivateAttr()

    def __init__(
        self,
        store: str,
        *,
        action: str = DROP,
        scope: str = "default",
        threshold: float | None = None,
        **settings: Unpack[SettingsFields],
    ) -> None:
        require_action(action)
        super().__init__(action=action)
        self._finder = NearDuplicateFinder(store, scope, threshold, **settings)

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> list[BaseNode]:
        """Returns the nodes that stay, in the same order."""
        nodes = list(nodes)
        texts = [node.get_content() for node in nodes]
        stay = []
        repeated = self._finder.find(texts, [node.node_id for node in nodes])
        for node, original in zip(nodes, repeated, strict=True):
            if original is not None and self.action == MARK:
                node.metadata[NEAR_DUPLICATE_OF] = original
            if original is None or self.action == MARK:
                stay.append(node)
        return stay

    def to_dict(self, **options: Any) -> dict[str, Any]:
        """Returns the parameters, and an entry that is never the same.

        The result depends on the index, so a pipeline must not take it from its cache.
        """
        return {**super().to_dict(**options), "call": uuid4().hex}


class NearDuplicatePostprocessor(BaseNodePostprocessor):  # type: ignore[misc]
    """Drops results that repeat a result that is ranked higher.

    Args:
        threshold: Smallest similarity of near-duplicates.
        **settings: Further parameters of `Index.open`, such as `recall`.
    """

    _finder: NearDuplicateFinder = PrivateAttr()

    def __init__(self, threshold: float = 0.8, **settings: Unpack[SettingsFields]) -> None:
        super().__init__()
        self._finder = NearDuplicateFinder(None, threshold=threshold, **settings)

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        texts = [node.node.get_content() for node in nodes]
        repeated = self._finder.find(texts, [node.node.node_id for node in nodes])
        return [node for node, original in zip(nodes, repeated, strict=True) if original is None]
