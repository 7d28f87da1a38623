"""Tests of the component, with Haystack, if it is installed."""

import pytest

pytest.importorskip("haystack", reason="make test-full installs haystack-ai")

from haystack import Document, Pipeline

from nearkin.errors import UsageError
from nearkin.integrations.haystack import NearDuplicateRemover

TEXT = "the council approved the new budget on tuesday evening after a long debate about schools"
DOCUMENTS = [
    Document(content=TEXT, id="a"),
    Document(content=f"{TEXT} and roads", id="b"),
    Document(content=None, id="c"),
    Document(content=None, id="d"),
]


def test_a_pipeline_drops_or_marks_documents() -> None:
    pipeline = Pipeline()
    pipeline.add_component("unique", NearDuplicateRemover("memory://", "mark"))
    modules = [NearDuplicateRemover.__module__]
    restored = Pipeline.loads(pipeline.dumps(), allowed_modules=modules)
    for made in (pipeline, restored):
        marked = made.run({"unique": {"documents": DOCUMENTS}})["unique"]["documents"]
        assert [document.meta.get("near_duplicate_of") for document in marked] == [
            None,
            "a",
            None,
            None,
        ]
    kept = NearDuplicateRemover().run(documents=DOCUMENTS)["documents"]
    assert [document.id for document in kept] == ["a", "c", "d"]


def test_a_password_is_not_saved() -> None:
    component = NearDuplicateRemover("redis://:hunter2@localhost/0")
    with pytest.raises(UsageError, match="has a password") as raised:
        component.to_dict()
    assert "hunter2" not in str(raised.value)
