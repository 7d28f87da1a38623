"""Probes of live scopes: they measure recall, change nothing, and cross no scope."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nearkin.index.index import Index
from nearkin.service.server.live_probe import MAX_SAMPLED, LiveProbes, altered_copy, probe_document
from nearkin.service.server.telemetry import Instruments
from nearkin.settings.spec import Spec
from tests.service.server.conftest import Serve


def random_text(rng: random.Random, words: int = 60) -> str:
    return " ".join(f"word{rng.randrange(10**9)}" for _ in range(words))


@pytest.fixture(params=[True, False], ids=["texts", "no texts"])
def index(request: pytest.FixtureRequest) -> Iterator[Index]:
    """An index with 30 documents, with and without their texts."""
    rng = random.Random(1)
    with Index.open("memory://", threshold=0.8, store_text=request.param) as opened:
        for number in range(30):
            opened.upsert("shop", random_text(rng), f"doc-{number}")
        yield opened


def test_copy_has_the_similarity_that_it_is_made_for(index: Index) -> None:
    entry = index.get("shop", "doc-0")
    assert entry is not None
    copy = altered_copy(index, entry)
    assert copy is not None
    (match,) = index.query("shop", copy)
    # 53 of 58 shingles: at least nine tenths, rounded up
    assert match.similarity == pytest.approx(53 / 58)


def test_turned_vector_has_the_similarity_that_it_is_made_for() -> None:
    spec = Spec(unit="vector", n=64, measure="cosine", k=256)
    vector = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    with Index.open("memory://", spec=spec, threshold=0.8) as index:
        index.upsert("shop", vector, "v")
        entry = index.get("shop", "v")
        assert entry is not None
        copy = altered_copy(index, entry)
        assert isinstance(copy, np.ndarray)
        cosine = float(vector @ copy / np.linalg.norm(vector) / np.linalg.norm(copy))
        assert cosine == pytest.approx(0.9, abs=1e-5)
        assert probe_document(index, "shop", "v") is True


def test_probes_find_documents_of_a_correct_index(index: Index) -> None:
    probes = LiveProbes(Instruments(), index, per_scope=20)
    probes.probe(index)
    # recall at 0.9 with a banding of recall 0.95 at 0.8 is above 0.999
    assert probes.recall_by_scope()["shop"] >= 0.9


def test_probes_write_nothing_and_change_no_answer(tmp_path: Path) -> None:
    rng = random.Random(2)
    texts = [random_text(rng) for _ in range(20)]
    path = tmp_path / "index.db"
    with Index.open(f"sqlite:///{path}", threshold=0.8) as index:
        for number, text in enumerate(texts):
            index.upsert("shop", text, f"doc-{number}")

        def answers() -> object:
            return (
                [tuple(entry) for entry in index.scan()],
                {name: value for name, value in index.counts().items() if name != "bucket_bytes"},
                [index.query("shop", text) for text in texts],
                [index.query("other", text) for text in texts],
                index.scopes(),
            )

        before = answers()
        probes = LiveProbes(Instruments(), index, per_scope=20)
        for _ in range(3):
            probes.probe(index)
        assert answers() == before


def test_probes_of_one_scope_read_no_other_scope(index: Index) -> None:
    entry = index.get("shop", "doc-0")
    assert entry is not None
    read: list[str] = []
    query = index.query

    def note_scope(scope: str, *arguments: object, **fields: object) -> object:
        read.append(scope)
        return query(scope, *arguments, **fields)  # type: ignore[arg-type]

    index.query = note_scope  # type: ignore[method-assign, assignment]
    assert probe_document(index, "other", "doc-0") is None
    assert read == []
    assert probe_document(index, "shop", "doc-0") is not None
    assert read == ["shop"]


def test_members_and_expired_documents_are_not_probed() -> None:
    now = [1000.0]
    text = random_text(random.Random(3))
    with Index.open("memory://", threshold=0.5, bucket_ttl=60.0, clock=lambda: now[0]) as index:
        index.upsert("shop", text, "first")
        index.upsert("shop", f"{text} more", "member")
        assert probe_document(index, "shop", "first") is True
        assert probe_document(index, "shop", "member") is None
        assert probe_document(index, "shop", "unknown") is None
        now[0] += 61
        assert probe_document(index, "shop", "first") is None


def test_sample_is_uniform_over_all_documents() -> None:
    with Index.open("memory://", threshold=0.8) as index:
        probes = LiveProbes(Instruments(), index, per_scope=1)
        outcome = index.upsert("shop", "some text here", "x")
        for number in range(10_000):
            probes.add_outcomes("shop", [replace(outcome, representative=str(number))])
        names = [int(id) for _, id in probes._samples["shop"].names]
    assert len(set(names)) == MAX_SAMPLED
    # the mean of 100 of 10,000 numbers has the standard error 290; six of them
    assert abs(np.mean(names) - 5000) < 6 * 290


def test_server_probes_its_scopes_and_reports_numbers_only(serve: Serve) -> None:
    client = serve(live_probe_every=0.05)
    secret = "confidential words that nobody may read in any metric at all"
    client.post("/v1/scopes/shop/documents", json={"id": "secret-id", "text": secret})
    before = client.get("/v1/stats").json()
    service = client.app.state.service  # type: ignore[attr-defined]
    while not service.live_probes.recall_by_scope():
        pass
    text = client.get("/metrics").text
    assert 'nearkin_live_recall{scope="shop"} 1.0' in text
    assert 'nearkin_live_probes_total{result="found"}' in text
    assert "confidential" not in text
    assert "secret-id" not in text
    assert client.get("/v1/stats").json() == before


def test_restarted_server_probes_documents_of_an_earlier_process(
    serve: Serve, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'index.db'}"
    client = serve(store=store)
    text = random_text(random.Random(4))
    client.post("/v1/scopes/shop/documents", json={"text": text})
    restarted = serve(store=store, live_probe_every=0.05)
    service = restarted.app.state.service  # type: ignore[attr-defined]
    while not service.live_probes.recall_by_scope():
        pass
    assert service.live_probes.recall_by_scope() == {"shop": 1.0}
