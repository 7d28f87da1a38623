"""Tests of the document transformer, with LangChain."""

import asyncio

import pytest
from langchain_core.documents import Document

from nearkin.errors import UsageError
from nearkin.integrations.langchain import NearDuplicateTransformer

TEXT = "the council approved the new budget on tuesday evening after a long debate about schools"
DOCUMENTS = [
    Document(page_content=TEXT, id="a", metadata={"rank": 1}),
    Document(page_content=f"{TEXT} and roads", id="b"),
    Document(page_content="a dog ran over the hill", id="c"),
]


def ids_of(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


def test_results_keep_the_highest_ranked_document() -> None:
    transformer = NearDuplicateTransformer()
    assert ids_of(transformer.transform_documents(DOCUMENTS)) == ["a", "c"]
    kept = asyncio.run(transformer.atransform_documents(DOCUMENTS[::-1]))
    assert ids_of(list(kept)) == ["c", "b"]
    unnamed = [Document(page_content=TEXT), Document(page_content=TEXT)]
    assert len(transformer.transform_documents(unnamed)) == 1


def test_ingestion_drops_or_marks_documents_across_batches() -> None:
    dropping = NearDuplicateTransformer("memory://")
    assert ids_of(dropping.transform_documents(DOCUMENTS[:1])) == ["a"]
    assert ids_of(dropping.transform_documents(DOCUMENTS)) == ["a", "c"]
    marking = NearDuplicateTransformer("memory://", action="mark")
    marked = marking.transform_documents(DOCUMENTS)
    assert [document.metadata.get("near_duplicate_of") for document in marked] == [None, "a", None]
    assert "near_duplicate_of" not in DOCUMENTS[1].metadata
    with pytest.raises(UsageError, match="document 0 has no id; an index needs one"):
        dropping.transform_documents([Document(page_content=TEXT)])
