"""Tests of the planned sizes of an index: against stores of each kind that are filled."""

import gc
import itertools
import os
import re
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.index.documents import Document
from nearkin.quality.plan.capacity import Plan, plan
from nearkin.quality.plan.index_sizes import INDEX_SIZES, bucket_table_bytes
from nearkin.quality.plan.rates import known_rates
from nearkin.quality.plan.workload import Workload
from tests.index.conftest import AEROSPIKE, delete_from_aerospike, preparer_of, store_of
from tests.services import postgres_server, redis_server

DOCUMENTS = 2000
WORDS = 100
DIMENSIONS = 128
BATCH = 200
FACTOR = 1.3
VECTORS = nk.index_types.VectorEvidence(nk.Spec(measure="cosine", unit="vector", n=DIMENSIONS))
NUMBERS = itertools.count()


class Corpus(NamedTuple):
    """Documents of an index, and the requirements that describe them."""

    spec: nk.Spec
    documents: Sequence[Document]
    clusters: int
    store_text: bool
    with_vectors: bool = False

    def workload(self, store: str) -> Workload:
        """Returns the requirements for a store, with the mean size of the texts."""
        texts = [_text_of(document) for document in self.documents]
        texts = [text for text in texts if text is not None]
        return Workload(
            documents=len(self.documents),
            clusters=self.clusters,
            shingles=WORDS - 2,
            text_bytes=float(np.mean([len(text) for text in texts])) if texts else None,
            engine="index",
            store=store,
            store_text=self.store_text,
            vector_dimensions=DIMENSIONS if self.with_vectors else None,
        )


def _text_of(document: Document) -> str | None:
    """Returns the text of a document, or None for a vector."""
    if isinstance(document, nk.TextAndVector):
        return document.text
    return document if isinstance(document, str) else None


def _corpus(kind: str, clusters: int, *, store_text: bool) -> Corpus:
    """Returns documents: first a representative of each cluster, then near copies of them."""
    rng = np.random.default_rng(1)
    documents: list[Document] = []
    if kind == "vectors":
        spec = nk.Spec(measure="cosine", unit="vector", n=DIMENSIONS)
        vectors = rng.standard_normal((DOCUMENTS, DIMENSIONS)).astype(np.float32)
        vectors[clusters:] *= 0.05
        vectors[clusters:] += vectors[np.arange(clusters, DOCUMENTS) % clusters]
        documents += list(vectors)
        return Corpus(spec, documents, clusters, store_text)
    bases = [[f"w{number}" for number in rng.integers(0, 10**6, WORDS)] for _ in range(clusters)]
    for number in range(DOCUMENTS):
        words = list(bases[number % clusters])
        if number >= clusters:
            words[rng.integers(WORDS)] = f"c{number}"
        documents.append(" ".join(words))
    if kind == "texts":
        return Corpus(nk.Spec(), documents, clusters, store_text)
    vectors = rng.standard_normal((DOCUMENTS, DIMENSIONS)).astype(np.float32)
    pairs: list[Document] = [
        nk.TextAndVector(str(text), vector) for text, vector in zip(documents, vectors, strict=True)
    ]
    return Corpus(nk.Spec(), pairs, clusters, store_text, with_vectors=True)


def _open(url: str, corpus: Corpus) -> nk.Index:
    return nk.Index.open(
        url,
        spec=corpus.spec,
        threshold=0.8,
        documents=DOCUMENTS,
        store_text=corpus.store_text,
        vector=VECTORS if corpus.with_vectors else None,
    )


def _add(index: nk.Index, corpus: Corpus, start: int, end: int) -> list[str]:
    """Adds a range of the documents. Returns their ids, of 20 bytes."""
    added = []
    for first in range(start, end, BATCH):
        batch = corpus.documents[first : min(first + BATCH, end)]
        ids = [f"document-{first + number:011d}" for number in range(len(batch))]
        index.upsert_many("scope", batch, ids)
        added += ids
    return added


def _fill(url: str, corpus: Corpus) -> None:
    with _open(url, corpus) as index:
        _add(index, corpus, 0, DOCUMENTS)
        assert index.stats()["leaders"] == pytest.approx(corpus.clusters, rel=0.02)


def _planned(corpus: Corpus, store: str) -> Plan:
    spec = corpus.spec if corpus.spec.unit == "vector" else None
    return plan(corpus.workload(store), spec, known_rates())


def _warm_up(index: nk.Index, corpus: Corpus) -> None:
    """Loads the kernels, and allocates the buffers in which documents are sketched."""
    preparer = preparer_of(index)
    first = corpus.documents[:BATCH]
    documents = [preparer.check(_text_of(document) or document) for document in first]
    preparer.prepare("scope", documents, [preparer.digest(document) for document in documents])
    preparer.payload(preparer.column(documents))
    if corpus.with_vectors:
        # the buffers of vectors are allocated by an upsert, and their documents deleted again
        ids = _add(index, corpus, 0, BATCH)
        for id in ids:
            index.remove("scope", id)


def _measure_memory(corpus: Corpus) -> tuple[float, float]:
    with _open("memory://", corpus) as index:
        _add(index, corpus, 0, 2 * BATCH)
    tracemalloc.start()
    try:
        with _open("memory://", corpus) as index:
            buckets = store_of(index).table.nbytes  # type: ignore[attr-defined]
            _warm_up(index, corpus)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            _add(index, corpus, 0, DOCUMENTS)
            gc.collect()
            used = buckets + tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return used, _planned(corpus, "memory").value("memory")


def _measure_sqlite(corpus: Corpus, folder: Path) -> tuple[float, float]:
    path = folder / "index.db"
    _fill(f"sqlite:///{path}", corpus)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size, _planned(corpus, "sqlite").value("disk")


def _measure_redis(corpus: Corpus, port: int) -> tuple[float, float]:
    import redis

    with redis.Redis(port=port) as client:
        client.flushall()
        before = client.info("memory")["used_memory"]
        _fill(f"redis://127.0.0.1:{port}/0", corpus)
        used = client.info("memory")["used_memory"] - before
    found = _planned(corpus, "redis")
    return used, found.value("memory") - found.value("resolved cache")


def _measure_postgres(corpus: Corpus, port: int) -> tuple[float, float]:
    import psycopg

    url = f"postgresql://nearkin@127.0.0.1:{port}/postgres"
    schema = f"sizes{next(NUMBERS)}"
    _fill(f"{url}?schema={schema}", corpus)
    query = (
        "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'"
    )
    with psycopg.connect(url) as connection:
        row = connection.execute(query, (schema,)).fetchone()
    assert row is not None
    return float(row[0]), _planned(corpus, "postgres").value("disk")


def _measure_aerospike(corpus: Corpus) -> tuple[float, float]:
    """Measures records and entries of the primary index, which take 64 bytes each.

    The server counts the memory of secondary indexes for all sets together, in parts of 16 MiB.
    """
    import aerospike

    if AEROSPIKE not in os.environ:
        pytest.skip(f"{AEROSPIKE} does not name a server (host:port, with a namespace `test`)")
    address = os.environ[AEROSPIKE]
    name = f"sizes{os.getpid()}_{next(NUMBERS)}"
    host, _, port = address.partition(":")
    client = aerospike.client({"hosts": [(host, int(port))]}).connect()
    try:
        _fill(f"aerospike://{address}/test?set={name}", corpus)
        [(_, answer)] = client.info_all("sets/test").values()
        counts = re.findall(rf"set={name}_\w+:objects=(\d+):.*?data_used_bytes=(\d+)", answer)
        used = sum(64 * int(objects) + int(size) for objects, size in counts)
    finally:
        client.close()
        delete_from_aerospike(address, f"{name}_")
    found = _planned(corpus, "aerospike")
    return used, found.value("bytes of records") + found.value("bytes of postings")


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., object]]:
    """Returns a function that fills a store, and returns its size and the planned size."""
    folder = tmp_path_factory.mktemp("servers")
    with redis_server(folder, "--appendonly", "no") as redis_port, postgres_server(folder) as port:

        def measure_store(store: str, corpus: Corpus, folder: Path) -> tuple[float, float]:
            if store == "memory":
                return _measure_memory(corpus)
            if store == "sqlite":
                return _measure_sqlite(corpus, folder)
            if store == "aerospike":
                return _measure_aerospike(corpus)
            if store == "redis":
                return _measure_redis(corpus, redis_port)
            return _measure_postgres(corpus, port)

        yield measure_store


@pytest.mark.parametrize(
    ("store", "kind", "clusters", "store_text"),
    [
        *itertools.product(INDEX_SIZES, ["vectors"], [40], [True]),
        *itertools.product(["memory", "sqlite"], ["texts"], [40], [False]),
        *itertools.product(INDEX_SIZES, ["texts"], [DOCUMENTS], [True]),
        ("sqlite", "both", 400, True),
        *(
            pytest.param(*case, marks=pytest.mark.full)
            for case in [
                *itertools.product(INDEX_SIZES, ["vectors"], [DOCUMENTS], [True]),
                *itertools.product(INDEX_SIZES, ["texts"], [40], [True, False]),
                *itertools.product(INDEX_SIZES, ["texts"], [DOCUMENTS], [False]),
                *itertools.product(INDEX_SIZES, ["both"], [400], [True, False]),
            ]
            if case
            not in (
                ("sqlite", "both", 400, True),
                *itertools.product(["memory", "sqlite"], ["texts"], [40], [False]),
            )
        ),
    ],
)
def test_the_planned_size_of_an_index_agrees_with_a_filled_store(
    measure: Callable[..., tuple[float, float]],
    tmp_path: Path,
    store: str,
    kind: str,
    clusters: int,
    store_text: bool,
) -> None:
    corpus = _corpus(kind, clusters, store_text=store_text)
    measured, planned = measure(store, corpus, tmp_path)
    assert 1 / FACTOR < planned / measured < FACTOR


@pytest.mark.parametrize(("documents", "keys"), [(1, 3), (5_000, 7), (20_000, 13)])
def test_the_planned_size_of_buckets_is_that_of_their_arrays(documents: int, keys: int) -> None:
    from nearkin.index.stores.bucket_table import BucketTable

    table = BucketTable(10)
    rng = np.random.default_rng(2)
    all_keys = rng.integers(0, 2**63, (documents, keys)).astype(np.uint64)
    for start in range(0, documents, 500):
        part = all_keys[start : start + 500]
        words = np.arange(len(part), dtype=np.int64) << 24
        table.append_all(part.reshape(-1), np.repeat(words, keys))
    postings = documents * keys
    assert bucket_table_bytes(postings, postings) == pytest.approx(table.nbytes, rel=0.15)


def test_a_plan_of_an_unknown_store_is_refused() -> None:
    with pytest.raises(UsageError, match="store='mysql' is not one of"):
        Workload(10, engine="index", store="mysql")


def test_a_plan_with_more_clusters_than_documents_is_refused() -> None:
    with pytest.raises(UsageError, match="clusters=11 is more than the 10 documents"):
        Workload(10, engine="index", clusters=11)


def test_vectors_beside_texts_are_planned_for_an_index_only() -> None:
    advice = "plan it as a run of its own.*engine='local' measure='cosine' dimensions=8"
    with pytest.raises(UsageError, match=advice):
        Workload(10, vector_dimensions=8)


def test_fingerprints_of_passages_are_planned() -> None:
    rng = np.random.default_rng(4)
    texts = [" ".join(f"{word:05}" for word in rng.integers(0, 99_999, 250)) for _ in range(100)]
    with nk.Index.open("memory://", passages=50) as index, nk.Index.open("memory://") as without:
        for opened in (index, without):
            opened.upsert_many("s", texts)
        stored = index.counts()["postings"] - without.counts()["postings"]
    workload = Workload(100, engine="index", text_bytes=1500, passages=50)
    planned = {line.name: line.value for line in plan(workload).lines}["postings of passages"]
    assert 1 / FACTOR < planned / stored < FACTOR


def test_plan_says_that_short_documents_have_no_passages() -> None:
    workload = Workload(100, engine="index", text_bytes=600, passages=101)
    (line,) = (line for line in plan(workload).lines if line.name == "postings of passages")
    assert (line.value, line.formula) == (
        0,
        "none: a document of 100 words has no passage of 101",
    )


def test_passages_are_planned_for_an_index_of_texts_only() -> None:
    for fields in ({"engine": "local"}, {"store_text": False}, {"vector_dimensions": 8}):
        with pytest.raises(UsageError, match="passages=50 is for an index that stores texts"):
            Workload(10, passages=50, **{"engine": "index", **fields})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="passages=1 is out of range"):
        Workload(10, engine="index", passages=1)
