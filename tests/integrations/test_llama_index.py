"""Tests of the transformation and the postprocessor, with LlamaIndex, if it is installed."""

import pytest

pytest.importorskip("llama_index.core", reason="make test-full installs llama-index-core")

from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import NodeWithScore, TextNode

from nearkin.integrations.llama_index import (
    NearDuplicatePostprocessor,
    NearDuplicateTransformation,
)

TEXT = "the council approved the new budget on tuesday evening after a long debate about schools"
TEXTS = (TEXT, f"{TEXT} and roads", "a dog ran over the hill")


def nodes_of(*names: str) -> list[TextNode]:
    return [TextNode(text=text, id_=name) for text, name in zip(TEXTS, names, strict=True)]


def test_a_pipeline_drops_or_marks_nodes_across_batches() -> None:
    pipeline = IngestionPipeline(transformations=[NearDuplicateTransformation("memory://")])
    assert [node.node_id for node in pipeline.run(nodes=nodes_of("a", "b", "c"))] == ["a", "c"]
    # The same texts again: a cached result would be that of the first call.
    assert pipeline.run(nodes=nodes_of("d", "e", "f")) == []
    assert [node.node_id for node in pipeline.run(nodes=nodes_of("a", "b", "c"))] == ["a", "c"]
    marking = NearDuplicateTransformation("memory://", action="mark")
    marked = marking(nodes_of("a", "b", "c"))
    assert [node.metadata.get("near_duplicate_of") for node in marked] == [None, "a", None]


def test_results_keep_the_highest_ranked_node() -> None:
    results = [NodeWithScore(node=node, score=0.5) for node in nodes_of("a", "b", "c")]
    postprocessor = NearDuplicatePostprocessor(threshold=0.7)
    kept = postprocessor.postprocess_nodes(results, query_str="budget")
    assert [result.node.node_id for result in kept] == ["a", "c"]
