"""Both clients with an index of texts and vectors."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from tests.services import nearkin_server

TEXT = "the quick brown fox jumps over the lazy dog and runs away from it"
VECTOR = np.array([1, 2, 3, 4], np.float32)
OTHER_VECTOR = np.array([4, -3, 2, -1], np.float32)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = ("vector_dimensions=4", "vector_threshold=0.9", "threshold=0.7")
    options = [part for setting in settings for part in ("--index", setting)]
    folder = tmp_path_factory.mktemp("both")
    with nearkin_server(folder, "--store", "memory://", *options) as found:
        yield found


def test_clients_send_both_and_receive_the_evidence(
    client: Any, request: pytest.FixtureRequest
) -> None:
    scope = request.node.callspec.id
    new = client.upsert(scope, nk.TextAndVector(TEXT, VECTOR), id="one")
    assert (new.kind, new.evidence) == ("new", None)
    by_text = client.upsert(scope, nk.TextAndVector(TEXT, OTHER_VECTOR), id="two")
    assert by_text.representative == "one"
    assert by_text.evidence.text == 1
    assert (by_text.evidence.text_reached, by_text.evidence.vector_reached) == (True, False)
    (match,) = client.query(scope, nk.TextAndVector(vector=VECTOR.tolist()))
    assert isinstance(match.evidence, nk.index_types.Evidence)
    assert (match.evidence.text, match.evidence.vector_reached) == (None, True)
    facts = client.spec()
    assert (facts.combine, facts.vector["threshold"]) == ("either", 0.9)
    with pytest.raises(nk.UsageError, match="this one has neither"):
        client.upsert(scope, nk.TextAndVector())


def test_clients_send_batches_and_tables_of_both(
    client: Any, request: pytest.FixtureRequest
) -> None:
    scope = f"batches-{request.node.callspec.id}"
    documents = [
        nk.index_types.NewDocument(nk.TextAndVector(TEXT, VECTOR), "one"),
        nk.index_types.NewDocument(nk.TextAndVector(TEXT, OTHER_VECTOR), "two"),
        VECTOR,
    ]
    _, second, third = client.upsert_many(scope, documents)
    assert second.evidence.text_reached
    assert third.evidence.vector_reached
    table = pa.table(
        {
            "id": ["three", "four"],
            "text": [TEXT, None],
            "vector": pa.array([OTHER_VECTOR.tolist(), VECTOR.tolist()], pa.list_(pa.float32(), 4)),
        }
    )
    from_table = list(client.upsert_many(scope, table))
    assert [outcome.representative for outcome in from_table] == ["one", "one"]
    assert from_table[0].evidence.text == 1
    assert from_table[1].evidence == nk.index_types.Evidence(
        text=None,
        vector=pytest.approx(1),
        text_reached=False,
        vector_reached=True,
    )
