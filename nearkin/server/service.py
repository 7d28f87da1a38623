"""The index as a server uses it: its threads, what waits, what is counted, what is done from time to time."""

import asyncio
import contextlib
import gc
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

import numpy as np

from nearkin.errors import NearkinError, StoreError, UsageError
from nearkin.index.entry import RESERVED, Match, Outcome
from nearkin.index.index import Index
from nearkin.index.parts import parts_scope
from nearkin.index.preparation import Document
from nearkin.server.cluster_listings import ClusterListings
from nearkin.server.golden_probe import GoldenResult, probe
from nearkin.server.http.kernels import json_shape
from nearkin.server.http.problems import ProblemError
from nearkin.server.http.shares import (
    CURRENT_CALLER,
    SERVER_CALLER,
    ByteRateLimiter,
    Caller,
    FairExecutor,
    Pool,
    client_network,
)
from nearkin.server.http.tokens import LOCAL_PRINCIPAL, Principal
from nearkin.server.micro_batcher import MicroBatcher
from nearkin.server.resources import ServerResources
from nearkin.server.settings import ServerSettings
from nearkin.server.shadow import ShadowIndex
from nearkin.server.telemetry import Instruments

log = logging.getLogger("nearkin.server")

COLLECT = (50_000, 50, 1000)
"""Thresholds of the garbage collector's generations."""
SWITCH = 0.001
"""Seconds after which a thread that works on a batch lets the event loop go on."""
REFRESH = 2.0
"""Seconds after which a worker knows what another one switched."""
OVERVIEW_THREADS = 2
"""Threads for lists of clusters and the like."""
P = ParamSpec("P")
R = TypeVar("R")


class Service:
    """What the routes call.

    Args:
        settings: Of the server.
        resources: The index, ready to use, and what is beside it.
        instruments: What is counted.
    """

    def __init__(self, settings: ServerSettings, resources: ServerResources, instruments: Instruments) -> None:
        self.settings, self.instruments = settings, instruments
        self.index, self.shadow, self.golden_pairs = resources.index, resources.shadow, resources.golden_pairs
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        share = settings.token_share
        self.memory = Pool("bytes of documents in memory", settings.max_inflight, share)
        self.places = Pool("documents that wait", settings.queue, share)
        self.open_streams = Pool("open streams", settings.streams, share)
        self.spill = Pool("bytes of answers that are not read", settings.spill, share)
        self.requests = Pool("requests", settings.requests, share)
        self.calls_waiting = Pool("requests that wait for a thread", settings.requests, share)
        self.byte_rates = ByteRateLimiter(settings.byte_rate)
        threads = max(4, 2 * cores)
        # one thread more for streams than one caller may use, and a thread for each turn
        self.executor = ThreadPoolExecutor(threads + cores + 1, "nearkin")
        self.overviews = ThreadPoolExecutor(OVERVIEW_THREADS, "nearkin-overview")
        self.turns = FairExecutor(self.executor, threads, threads // 2)
        self.stream_turns = FairExecutor(self.executor, cores + 1, cores)
        self.overview_turns = FairExecutor(self.overviews, OVERVIEW_THREADS, OVERVIEW_THREADS // 2)
        self.batcher = MicroBatcher(self.upsert_batch, self.turns, settings.batch, self.places, self.memory)
        self.cluster_listings = ClusterListings(lambda: self.index)
        self.ready = False
        self.golden_result: GoldenResult | None = None
        self._gauges()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: ServerSettings, resources: ServerResources, instruments: Instruments
    ) -> AsyncIterator["Service"]:
        """A service that warms up in the background, and finishes what it accepted before it closes its resources."""
        service = cls(settings, resources, instruments)
        jobs = [service._warm(), service._keep_expiring()]
        if service.golden_pairs:
            jobs.append(service._keep_probing())
        if resources.shadow is not None:
            jobs.append(service._keep_refreshing(resources.shadow))
        own = copy_context()
        own.run(CURRENT_CALLER.set, SERVER_CALLER)
        tasks = [asyncio.create_task(job, context=own) for job in jobs]
        for task in tasks:
            task.add_done_callback(_report)
        try:
            yield service
        finally:
            service.ready = False
            await service.batcher.drain()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for turns in (service.turns, service.stream_turns, service.overview_turns):
                turns.close()
            service.executor.shutdown()
            service.overviews.shutdown()
            await asyncio.to_thread(resources.close)

    # -- what requests ask for

    async def upsert(self, scope: str, document: Document, id: str | None) -> Outcome:
        """One document, together with others that wait."""
        self.index.check_document(document)
        began = time.perf_counter()
        outcome = await self.batcher.upsert(scope, document, id)
        self.instruments.record_upsert_latency(scope, outcome, time.perf_counter() - began)
        return outcome

    def register_request(self, who: Principal, source: str, reservations: ExitStack) -> None:
        """Counts a request for its caller until the request ends.

        Args:
            who: Whose token it is.
            source: The address that it came from.
            reservations: Released at the end of the request.

        Raises:
            ProblemError: If the caller has as many requests under way as one may have.
        """
        caller = self.caller_for(who, source)
        CURRENT_CALLER.set(caller)
        self.requests.take(caller, 1)
        reservations.callback(self.requests.release, caller, 1)

    def caller_for(self, who: Principal, source: str) -> Caller:
        """Returns whom a request is counted for: its token, or its address if no token is needed."""
        if who is not LOCAL_PRINCIPAL:
            return Caller(f"token {who.name}")
        return Caller("this machine", unshared=True) if self.settings.is_local else Caller(f"address {client_network(source)}")

    async def run_stream_work(self, work: Callable[[], R]) -> R:
        """Calls a function for a part of a stream in a thread. Streams take turns, and leave threads to other requests."""
        return await self.stream_turns.submit(CURRENT_CALLER.get(), work)

    def admit_bytes(self, caller: Caller, size: int) -> None:
        """Counts bytes of a request that is not a stream.

        Raises:
            ProblemError: If the caller sends more than the rate of bytes.
        """
        if wait := self.byte_rates.take(caller, size):
            rate = f"more bytes than the rate of {self.settings.byte_rate} allows"
            raise ProblemError("rate-limited", f"{rate}; in {wait:.1f} s there is room", retry_after=wait)

    async def query(self, scope: str, document: Document, top: int) -> list[Match]:
        """What resembles a document."""
        matches = await self.run_in_thread(self.index.query, scope, document, top)
        self.instruments.record_query(len(matches))
        return matches

    async def remove(self, scope: str, id: str) -> bool:
        """Erases a document; says whether it was there."""
        gone = await self.run_in_thread(self.index.remove, scope, id)
        if gone:
            await self._touched(scope, id)
        return gone

    async def add_part(self, scope: str, id: str, piece: str | Sequence[str]) -> int:
        """Adds a piece to a document that is not whole yet; returns how many shingles it has by now."""
        size = await self.run_in_thread(self.index.add_part, scope, id, piece)
        await self._touched(parts_scope(scope), id)
        return size

    async def _touched(self, scope: str, id: str) -> None:
        if self.shadow is not None:
            await self.run_in_thread(self.shadow.touched, scope, id)

    async def finish_document(self, scope: str, id: str) -> Outcome | None:
        """Resolves a document that came in pieces; None if there are none."""
        began = time.perf_counter()
        outcome = await self.run_in_thread(self.index.finish, scope, id)
        if outcome is None:
            return None
        if self.shadow is not None:
            await self.run_in_thread(self.shadow.fed, scope, [outcome], time.perf_counter() - began)
            await self._touched(parts_scope(scope), id)
        self.instruments.record_upserts(scope, [outcome])
        return outcome

    async def run_overview(self, work: Callable[P, R], *arguments: P.args, **fields: P.kwargs) -> R:
        """Does what `run` does, in other threads, for calls that read much or take long, so that no upsert waits for them."""
        return await self._in_turn(self.overview_turns, partial(work, *arguments, **fields))

    async def run_in_thread(self, work: Callable[P, R], *arguments: P.args, **fields: P.kwargs) -> R:
        """Calls a function in a thread when it is the caller's turn.

        Raises:
            ProblemError: If too many calls wait already.
        """
        return await self._in_turn(self.turns, partial(work, *arguments, **fields))

    async def _in_turn(self, turns: FairExecutor, work: Callable[[], R]) -> R:
        caller = CURRENT_CALLER.get()
        self.calls_waiting.take(caller, 1)
        try:
            return await turns.submit(caller, work)
        finally:
            self.calls_waiting.release(caller, 1)

    def upsert_batch(self, scope: str, documents: Sequence[Document], ids: Sequence[str | None]) -> list[Outcome]:
        """A batch, in a thread."""
        began = time.perf_counter()
        with self.instruments.tracer.start_as_current_span("upsert") as span:
            outcomes = self.index.upsert_many(scope, documents, ids)
            span.set_attribute("nearkin.documents", len(documents))
            if outcomes:
                for name, seconds in outcomes[0].seconds.items():
                    span.set_attribute(f"nearkin.seconds.{name}", seconds * len(documents))
        if self.shadow is not None:
            self.shadow.fed(scope, outcomes, time.perf_counter() - began)
        self.instruments.record_upserts(scope, outcomes)
        return outcomes

    def require_ready(self) -> None:
        """That kernels are compiled and the store answers.

        Raises:
            ProblemError: They are not, or it does not.
        """
        if not self.ready:
            raise ProblemError("not-ready", "kernels are being compiled", retry_after=2.0)

    # -- what is done from time to time

    async def _warm(self) -> None:
        """Compiles every kernel that a request uses before the first one comes."""
        began = time.perf_counter()
        await self.run_in_thread(warm, self.index)
        settle()
        self.ready = True
        log.info("ready", extra={"seconds": round(time.perf_counter() - began, 3), "store": self.index.url})

    async def _keep_expiring(self) -> None:
        while True:
            await asyncio.sleep(self.settings.expire_every)
            sweep = partial(self.index.sweep, self.settings.expire_every)
            both: list[Callable[[], dict[str, int]]] = [sweep]
            if self.shadow is not None:
                both.append(self.shadow.expire)
            for expire in both:
                try:
                    gone = await self.run_in_thread(expire)
                except StoreError as error:
                    self.instruments.record_store_error("expire")
                    log.warning("expire failed", extra={"error": str(error)})
                    continue
                if any(gone.values()):
                    log.info("expired", extra=gone)

    async def _keep_probing(self) -> None:
        """Known pairs, in both indexes where there are two."""
        while True:
            try:
                self.golden_result = await self.run_in_thread(self._probe)
            except StoreError as error:
                self.instruments.record_store_error("probe")
                log.warning("golden pairs failed", extra={"error": str(error)})
            else:
                log.info("golden pairs", extra=self.golden_result.to_dict())
            await asyncio.sleep(self.settings.golden_every)

    def _probe(self) -> GoldenResult:
        if self.shadow is None:
            return probe(self.index, self.golden_pairs)
        return self.shadow.golden_result(lambda index: probe(index, self.golden_pairs))

    async def _keep_refreshing(self, shadow: ShadowIndex) -> None:
        """Another worker may have switched."""
        while True:
            await asyncio.sleep(REFRESH)
            try:
                await self.run_in_thread(shadow.refresh)
            except StoreError as error:
                self.instruments.record_store_error("shadow")
                log.warning("shadow not refreshed", extra={"error": str(error)})

    def _gauges(self) -> None:
        """The fleet's figures, and what is special to a server."""
        gauge = self.instruments.gauge
        kept = _Kept(
            lambda: self.index, lambda: None if self.golden_result is None else self.golden_result.recall, self.instruments
        )
        for name, description in FLEET_METRICS.items():
            gauge(f"nearkin_{name}", description, partial(kept.metric, name))
        self.instruments.counter(
            "nearkin_exact_comparisons",
            "Pairs that passed the estimate and were compared exactly.",
            lambda: self.index.search_stats.compared,
        )
        gauge("nearkin_queue_depth", "Single documents that wait.", lambda: self.batcher.depth)
        gauge("nearkin_queue_limit", "Single documents that may wait.", lambda: self.settings.queue)
        gauge(
            "nearkin_memory_budget_bytes",
            "The setting memory_budget. Nothing enforces it; alerts compare with it.",
            lambda: self.settings.memory_budget,
        )
        for name, description in COUNTS.items():
            gauge(f"nearkin_{name}", description, partial(kept.count, name))


def _report(task: "asyncio.Task[None]") -> None:
    """What goes on from time to time must not end unheard."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a task of the server ended", exc_info=error)


FLEET_METRICS = {
    "candidate_pairs_per_doc": "Mean of nearkin_candidates.",
    "bucket_size_p99": "99th percentile of the postings in the buckets that searches read. It never exceeds bucket_capacity.",
    "verify_drop_rate": "Share of the pairs that passed the estimate but not the exact comparison.",
    "empty_bin_rate": "Share of one-permutation bins that no shingle reached. It rises if documents become shorter.",
    "signature_build_latency_p99": "Seconds to sketch a document, 99th percentile.",
    "index_memory_bytes": (
        "Bytes of the index as the store counts them: memory (memory://), the file (SQLite, without its buckets in memory), "
        "used memory (Redis), tables (PostgreSQL)."
    ),
    "recall_on_labeled_set": "Share of the golden pairs that were found. Only with --golden.",
}

COUNTS = {
    "records": "Documents in the index.",
    "leaders": "Clusters in the index.",
    "postings": "Postings in the index.",
    "evicted": "Postings that left full buckets.",
}


class _Kept:
    """What gauges read, asked of the store once for a scrape, and not at all while it fails."""

    EVERY = 1.0

    def __init__(self, index: Callable[[], Index], recall: Callable[[], float | None], instruments: Instruments) -> None:
        self._index, self._recall, self._instruments = index, recall, instruments
        self._at, self._counts, self._metrics = 0.0, dict[str, int](), dict[str, float | None]()

    def metric(self, name: str) -> float | None:
        """One of the fleet's figures."""
        self._refresh()
        return self._metrics.get(name)

    def count(self, name: str) -> float | None:
        """One of the store's counts."""
        self._refresh()
        return self._counts.get(name)

    def _refresh(self) -> None:
        if time.monotonic() - self._at < self.EVERY:
            return
        self._at = time.monotonic()
        try:
            index = self._index()
            self._counts = index.counts()
            self._metrics = index.search_stats.metrics(self._recall(), self._counts.get("bytes")).to_dict()
        except NearkinError as error:
            # what was counted last is not what is there
            self._counts, self._metrics = {}, {}
            self._instruments.record_store_error("metrics")
            log.warning("the index could not be counted", extra={"error": type(error).__name__})


def check_store(service: Service) -> None:
    """Asks the store for a document that does not exist.

    Raises:
        StoreError: If it does not answer.
    """
    service.index.get_many(f"{RESERVED}ready", ["ready"])


def settle() -> None:
    """What is there once everything is loaded stays: the collector need not walk through it again, nor as often as usual.

    A full collection stops every request; requests leave few cycles behind.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    sys.setswitchinterval(SWITCH)


def warm(index: Index) -> None:
    """Goes once through what requests do, in an index of the same kind that nobody sees."""
    settings = index.settings
    json_shape(np.zeros(1, np.uint8))
    with Index.open("memory://", settings=settings, resources=index.resources, max_memory=None) as own:
        documents = _samples(own)
        for some in (documents, documents[:1]):
            own.upsert_many("warm", some)
        own.query("warm", documents[0])
        with contextlib.suppress(UsageError):
            ids = [outcome.id for outcome in own.upsert_many("warm", documents)]
            own.explain("warm", ids[0], ids[1])


def _samples(index: Index) -> list[Document]:
    if index.holds_vectors:
        return [[1.0] * index.spec.n, [1.0] * (index.spec.n - 1) + [0.9]]
    words = " ".join(f"word{i}" for i in range(50))
    return [words, f"{words} more", f"{words} été"]
