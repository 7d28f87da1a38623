"""Measures the online index: rates, sizes and effects of the order.

python -m benchmarks.index                 quick sizes, to the terminal
python -m benchmarks.index --full --write  full sizes; writes benchmarks/index.json, the tables of
docs/reference/stores.md, and docs/contributing/benchmarks.md, which has the table `batches`

Redis and PostgreSQL are started on free loopback ports, on the same cores as the client.
"""

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

import nearkin as nk
from benchmarks.pages import describe, write_pages
from benchmarks.tables import Table, main
from nearkin.index.maintenance import merge_clusters
from nearkin.quality.lab.measurements import describe_machine
from nearkin.quality.lab.synth import SynthSettings, synth
from tests.services import postgres_server, redis_server

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "reference" / "stores.md"
BANDS = {"threshold": 0.8, "bands": 20, "rows": 6}
BATCH = 1000
PROBED = 10_000
"""The number of documents that are measured in a small and in a large index."""


@contextmanager
def texts(documents: int, seed: int = 1) -> Iterator[list[str]]:
    """Yields texts of 1.5 kB, 30 % of which are near-duplicates of others at 0.8 or above."""
    with tempfile.TemporaryDirectory() as folder:
        shape = {"length": "lognormal:1500:0.3", "clustered": 0.5, "similarity": (0.8, 1.0)}
        synth(Path(folder) / "synth", SynthSettings(documents=documents, seed=seed, **shape))
        table = pq.read_table(Path(folder) / "synth" / "documents", columns=["text"])
        yield table["text"].to_pylist()


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """Yields the URL of a new store of each kind, by name."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        redis = stack.enter_context(redis_server(folder, "--appendonly", "no"))
        postgres = stack.enter_context(postgres_server(folder))
        yield {
            "memory": "memory://",
            "sqlite": f"sqlite:///{folder}/kin.db",
            "redis": f"redis://127.0.0.1:{redis}/0",
            "postgres": f"postgresql://nearkin@127.0.0.1:{postgres}/postgres",
        }


def fill(index: nk.Index, scope: str, some: list[str]) -> float:
    """Upserts texts in batches and returns the documents per second.

    Args:
        index: The index.
        scope: Scope of the documents.
        some: Texts.
    """
    began = time.perf_counter()
    for start in range(0, len(some), BATCH):
        index.upsert_many(scope, some[start : start + BATCH])
    return len(some) / (time.perf_counter() - began)


def rates(full: bool) -> Table:
    """Measures batches and single upserts into a small and into a large index.

    The documents of both have the same share of matches.
    """
    rows, sizes = (
        [],
        {"memory": 1_000_000, "sqlite": 1_000_000, "redis": 200_000, "postgres": 200_000},
    )
    for name, documents in sizes.items():
        with texts(documents if full else 20_000) as some, stores() as urls:
            rows.append(_rates_of(name, urls[name], some))
    note = (
        f"Upserts of documents of 1.5 kB, 30 % near-duplicates, 20 × 6, 32-bit slots, in batches "
        f"of {BATCH:,}, at {PROBED:,} "
        "documents in the index and at the given number; single ones at that number. One client "
        "thread, servers on the same 2 "
        "cores. Bytes are what the store says it uses, texts included, and without them."
    )
    columns = (
        "store",
        "documents",
        "documents/s, small",
        "large",
        "single, median",
        "p99",
        "bytes a document",
        "without text",
    )
    return Table("rates", note, columns, rows)


def probe(index: nk.Index, scope: str, seed: int) -> tuple[float, list[float]]:
    """Returns the documents per second of batches, and the microseconds of single upserts.

    PROBED documents are upserted before. 30 % of the measured documents match.

    Args:
        index: The index.
        scope: Scope of the documents.
        seed: Seed of the texts.
    """
    with texts(2 * PROBED + 2000, seed) as some:
        fill(index, scope, some[:PROBED])
        rate = fill(index, scope, some[PROBED : 2 * PROBED])
        taken = []
        for text in some[2 * PROBED :]:
            began = time.perf_counter()
            index.upsert(scope, text)
            taken.append(1e6 * (time.perf_counter() - began))
    return rate, taken


def _rates_of(name: str, url: str, some: list[str]) -> tuple[str, ...]:
    with nk.Index.open(url, documents=len(some), **BANDS) as index:
        index.upsert_many("warm", some[:BATCH])
        for text in some[:50]:
            index.upsert("warm", text)
        # a server does the same after its start, so that the collector skips objects that stay
        gc.collect()
        gc.freeze()
        small, _ = probe(index, "small", 11)
        fill(index, "large", some)
        stats = index.stats()
        large, taken = probe(index, "large", 12)
    size = stats["bytes"] + stats.get("bucket_bytes", 0)
    rest = size - sum(len(text) for text in dict.fromkeys(some)) * stats["records"] / len(set(some))
    bytes_of = (f"{size / stats['records']:,.0f}", f"{rest / stats['records']:,.0f}")
    times = (
        f"{statistics.median(taken):,.0f} µs",
        f"{statistics.quantiles(taken, n=100)[98]:,.0f} µs",
    )
    return (name, f"{len(some):,}", f"{small:,.0f}", f"{large:,.0f}", *times, *bytes_of)


class BatchCase(NamedTuple):
    """Upserts whose CPU time is measured."""

    store: str
    text_bytes: int
    """The approximate size of a text, in bytes."""
    similar_share: float
    """The share of texts that are near-duplicates of another one."""
    documents: int
    """The number of documents in the index before."""
    batch: int
    """The number of documents of a batch."""
    goal: str


BATCH_CASES = (
    BatchCase("memory", 500, 0.0, 10_000, 500, "≥ 60,000"),
    BatchCase("memory", 500, 0.0, 1_000_000, 500, "≥ 90 % of the row above"),
    BatchCase("memory", 500, 0.2, 10_000, 500, ""),
    BatchCase("memory", 1_700, 0.0, 10_000, 500, "≥ 25,000"),
    BatchCase("sqlite", 500, 0.0, 10_000, 500, "≥ 25,000"),
    BatchCase("memory", 500, 0.0, 10_000, 1, "≥ 16,700"),
)
RUNS = 5


def random_texts(rng: np.random.Generator, count: int, case: BatchCase) -> list[str]:
    """Returns texts of random words. Near-duplicates differ in one word from another text.

    Args:
        rng: Generator of random numbers.
        count: Number of texts.
        case: Size of the texts, and the share of near-duplicates.
    """
    numbers = rng.integers(0, 10**6, (count, case.text_bytes // 8))
    for row in np.flatnonzero(rng.random(count) < case.similar_share).tolist():
        numbers[row] = numbers[rng.integers(count)]
        numbers[row, rng.integers(numbers.shape[1])] = 10**6
    return [" ".join([f"w{number:06d}" for number in row]) for row in numbers.tolist()]


def cpu_rate(index: nk.Index, documents: list[str], batch: int) -> float:
    """Upserts texts, and returns the number of documents per CPU second.

    Args:
        index: The index.
        documents: Texts.
        batch: Number of documents of a batch.
    """
    began = time.process_time()
    for start in range(0, len(documents), batch):
        if batch == 1:
            index.upsert("a", documents[start])
        else:
            index.upsert_many("a", documents[start : start + batch])
    return len(documents) / (time.process_time() - began)


def batches(full: bool) -> Table:
    """Measures the CPU time of upserts, which is much the same on an idle and on a busy machine.

    Each run is of 10,000 documents (2,000 single upserts). Runs follow one another in one index.
    """
    rows = []
    for case in BATCH_CASES:
        before = case.documents if full else min(case.documents, 10_000)
        count = 2_000 if case.batch == 1 else PROBED
        with tempfile.TemporaryDirectory() as folder:
            url = "memory://" if case.store == "memory" else f"sqlite:///{folder}/kin.db"
            with nk.Index.open(url, threshold=0.8) as index:
                rng = np.random.default_rng(1)
                for _ in range(before // PROBED):
                    cpu_rate(index, random_texts(rng, PROBED, case), BATCH)
                gc.collect()
                gc.freeze()
                made = [
                    cpu_rate(index, random_texts(rng, count, case), case.batch) for _ in range(RUNS)
                ]
                stats = index.stats()
        size = stats["bytes"] + stats.get("bucket_bytes", 0)
        rows.append(
            (
                case.store,
                f"{case.text_bytes:,} B",
                f"{case.similar_share:.0%}",
                f"{before:,}",
                f"{case.batch:,}",
                f"{statistics.median(made):,.0f}",
                ", ".join(f"{rate:,.0f}" for rate in made),
                case.goal,
                f"{size / stats['records']:,.0f}",
            )
        )
    note = (
        f"Documents that an index takes per CPU second (user and system time of the process), as "
        f"medians of {RUNS} runs of {PROBED:,} documents (2,000 single upserts). Texts are random "
        "words; near-duplicates differ from another text in one word. Bytes are what the store "
        f"says it uses, texts included. {describe(describe_machine()).strip()} Load average of the "
        f"machine during the runs: {os.getloadavg()[2]:.0f}; an idle one takes less CPU time."
    )
    columns = (
        "store",
        "text",
        "near-duplicates",
        "documents before",
        "batch",
        "documents/s",
        "runs",
        "goal",
        "bytes a document",
    )
    return Table("batches", note, columns, rows)


def leaders(full: bool) -> Table:
    """Compares postings of leaders with postings of all documents, for few large clusters."""
    documents, clusters = (1_000_000, 1_000) if full else (50_000, 50)
    rows = []
    for kind in ("leaders", "all"):
        with nk.Index.open(
            "memory://", postings=kind, bucket_capacity=documents, cache=1, **BANDS
        ) as index:
            base = [" ".join(f"w{c}x{i}" for i in range(30)) for c in range(clusters)]
            per = documents // clusters
            if kind == "leaders":
                for copy in range(per):
                    index.upsert_many("a", [f"{text} {copy}" for text in base])
                stats = index.stats()
                rows.append(
                    (
                        kind,
                        f"{stats['records']:,}",
                        f"{stats['postings']:,}",
                        f"{stats['postings'] / (20 * documents):.4%}",
                    )
                )
            else:
                rows.append(
                    (
                        kind,
                        f"{documents:,}",
                        f"{20 * documents:,}",
                        "100 % (20 a document, by definition)",
                    )
                )
    note = f"{documents:,} documents in {clusters:,} clusters, 20 bands."
    return Table("leaders", note, ("postings of", "documents", "postings", "share"), rows)


def order(full: bool) -> Table:
    """Counts the excess representatives of an index, compared with a batch run."""
    documents = 50_000 if full else 6_000
    rows = []
    with texts(documents) as some:
        batch = nk.dedup({"text": some}, threshold=0.8, bands=20, rows=6)
        kept = batch.statistics["kept"]
        for name, given in (
            ("as they come", some),
            ("longest first, as the batch run", sorted(some, key=len, reverse=True)),
        ):
            with nk.Index.open("memory://", **BANDS) as index:
                fill(index, "a", given)
                before = index.stats()["leaders"]
                merge_clusters(index)
                after = index.stats()["leaders"]
            surplus = (
                f"{before - kept:+,}",
                f"{(before - kept) / kept:+.2%}",
                f"{after - kept:+,}",
            )
            rows.append((name, f"{kept:,}", f"{before:,}", *surplus))
    note = (
        f"{documents:,} documents, 30 % near-duplicates; leaders of `nearkin dedup` against "
        f"representatives of an index."
    )
    columns = (
        "order",
        "batch leaders",
        "representatives",
        "surplus",
        "share",
        "surplus after compact",
    )
    return Table("order", note, columns, rows)


if __name__ == "__main__":
    main(__doc__, (rates, batches, leaders, order), HERE / "index.json", PAGE)
    write_pages()
