"""The index as a server uses it, with threads, limits and background tasks."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

import numpy as np

from nearkin.errors import NearkinError, StoreError
from nearkin.index.changes import Changes, observe_steps
from nearkin.index.decision_records import HEAD, decision_id, decisions_scope
from nearkin.index.documents import Document
from nearkin.index.entry import RESERVED, SCOPES_PLACE, Match, Outcome
from nearkin.index.index import Index
from nearkin.index.parts import parts_scope
from nearkin.index.scope_settings import ScopeSettings, ScopeStatus, record_id
from nearkin.index.warm_up import call_kernels
from nearkin.runtime.process_limits import available_cores
from nearkin.service.server.cluster_listings import ClusterListings
from nearkin.service.server.decision_listings import DecisionListings
from nearkin.service.server.golden_probe import GoldenResult, query_golden_pairs
from nearkin.service.server.http.callers import (
    CURRENT_CALLER,
    SERVER_CALLER,
    Caller,
    client_network,
)
from nearkin.service.server.http.fair_executor import FairExecutor
from nearkin.service.server.http.kernels import json_shape
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import ByteRateLimiter, ResourcePool
from nearkin.service.server.http.tokens import LOCAL_PRINCIPAL, Principal
from nearkin.service.server.index_gauges import IndexGauges
from nearkin.service.server.interpreter import configure_interpreter
from nearkin.service.server.live_probe import LiveProbes
from nearkin.service.server.micro_batcher import MicroBatcher
from nearkin.service.server.resources import ServerResources
from nearkin.service.server.settings import ServerSettings
from nearkin.service.server.telemetry import Instruments
from nearkin.service.server.watched_blocklist import WatchedBlocklist
from nearkin.settings.decisions import Decision

log = logging.getLogger("nearkin.server")

SHADOW_REFRESH_SECONDS = 2.0
"""Seconds between checks whether another worker has switched to the shadow index or back."""
BLOCKLIST_REFRESH_SECONDS = 2.0
"""Seconds between checks whether the file of the blocklist has changed."""
OVERVIEW_THREADS = 2
"""Number of threads for calls that read much or take long, such as listings of clusters."""
REMOVED_AT_ONCE = 10_000
"""Number of documents after which a request that deletes a scope is answered."""
P = ParamSpec("P")
R = TypeVar("R")


class Service:
    """The operations that routes call."""

    def __init__(
        self, settings: ServerSettings, resources: ServerResources, instruments: Instruments
    ) -> None:
        self.settings = settings
        self.instruments = instruments
        self.index = resources.index
        self.shadow = resources.shadow
        self.golden_pairs = resources.golden_pairs
        share = settings.token_share
        self.memory = ResourcePool("bytes of documents in memory", settings.max_inflight, share)
        self.places = ResourcePool("waiting documents", settings.queue, share)
        self.open_streams = ResourcePool("open streams", settings.streams, share)
        self.spill = ResourcePool("bytes of unread answers", settings.spill, share)
        self.requests = ResourcePool("requests", settings.requests, share)
        self.waiting_calls = ResourcePool(
            "requests that wait for a thread", settings.requests, share
        )
        self.byte_rates = ByteRateLimiter(settings.byte_rate)
        cores = available_cores()
        threads = max(4, 2 * cores)
        # one thread per turn, and one more for streams than a single caller can use
        self._executor = ThreadPoolExecutor(threads + cores + 1, "nearkin")
        self._overview_executor = ThreadPoolExecutor(OVERVIEW_THREADS, "nearkin-overview")
        self.threads = FairExecutor(self._executor, threads, threads // 2)
        self.stream_threads = FairExecutor(self._executor, cores + 1, cores)
        self.overview_threads = FairExecutor(
            self._overview_executor, OVERVIEW_THREADS, OVERVIEW_THREADS // 2
        )
        self.batcher = MicroBatcher(
            self.upsert_batch,
            self.threads,
            settings.batch,
            self.places,
            self.memory,
            separates_callers=lambda: self.index.keeps_history,
        )
        self.cluster_listings = ClusterListings(lambda: self.index)
        self.decision_listings = DecisionListings(lambda: self.index)
        self.ready = False
        self.golden_result: GoldenResult | None = None
        self.live_probes = LiveProbes(instruments, self.index, settings.live_probes)
        self._register_gauges()
        if resources.blocklist is not None:
            self._register_blocklist(resources.blocklist)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: ServerSettings, resources: ServerResources, instruments: Instruments
    ) -> AsyncIterator["Service"]:
        """Yields a service that warms up in the background.

        On exit, it completes accepted documents and closes its resources.
        """
        service = cls(settings, resources, instruments)
        background = [service._warm_up(), service._sweep_regularly()]
        if service.golden_pairs:
            background.append(service._query_golden_pairs_regularly())
        if settings.live_probes:
            background.append(
                service._repeat(
                    settings.live_probe_every,
                    "probe",
                    "probes of live scopes failed",
                    lambda: service.run_overview(service.live_probes.probe, service.index),
                )
            )
        if resources.blocklist is not None:
            background.append(service._refresh_blocklist_regularly(resources.blocklist))
        if resources.shadow is not None:
            # another worker may have switched to the shadow index or back
            refresh = partial(service.run_in_thread, resources.shadow.refresh)
            message = "cannot refresh the shadow index"
            background.append(service._repeat(SHADOW_REFRESH_SECONDS, "shadow", message, refresh))
        context = copy_context()
        context.run(CURRENT_CALLER.set, SERVER_CALLER)
        tasks = [asyncio.create_task(coroutine, context=context) for coroutine in background]
        for task in tasks:
            task.add_done_callback(log_failed_task)
        try:
            yield service
        finally:
            service.ready = False
            await service.batcher.drain()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for threads in (service.threads, service.stream_threads, service.overview_threads):
                threads.close()
            service._executor.shutdown()
            service._overview_executor.shutdown()
            await asyncio.to_thread(resources.close)

    # -- callers and threads

    def register_request(self, principal: Principal, source: str, reservations: ExitStack) -> None:
        """Counts a request for its caller until the request ends."""
        caller = self.caller_for(principal, source)
        CURRENT_CALLER.set(caller)
        self.requests.take(caller, 1)
        reservations.callback(self.requests.release, caller, 1)

    def caller_for(self, principal: Principal, source: str) -> Caller:
        """Returns the caller of a request: its token, or its address without tokens."""
        if principal is not LOCAL_PRINCIPAL:
            return Caller(f"token {principal.name}")
        if self.settings.is_local:
            return Caller("this machine", unshared=True)
        return Caller(f"address {client_network(source)}")

    def admit_bytes(self, caller: Caller, size: int) -> None:
        """Counts the bytes of a request that is not a stream.

        Args:
            caller: The caller that sent the bytes.
            size: Number of bytes.
        """
        if wait := self.byte_rates.take(caller, size):
            raise ProblemError(
                "rate-limited",
                f"the byte rate of {self.settings.byte_rate} is exceeded; retry after {wait:.1f} s",
                retry_after=wait,
            )

    async def run_in_thread(
        self, work: Callable[P, R], *arguments: P.args, **fields: P.kwargs
    ) -> R:
        """Calls a function in a thread when it is the caller's turn."""
        return await self._run_in(self.threads, partial(work, *arguments, **fields))

    async def run_overview(self, work: Callable[P, R], *arguments: P.args, **fields: P.kwargs) -> R:
        """Calls a function like `run_in_thread`, but in threads for long calls."""
        return await self._run_in(self.overview_threads, partial(work, *arguments, **fields))

    async def run_stream_work(self, work: Callable[[], R]) -> R:
        """Calls a function for a part of a stream in a thread.

        Streams take turns, and leave threads to other requests.
        """
        return await self.stream_threads.submit(CURRENT_CALLER.get(), work)

    async def _run_in(self, threads: FairExecutor, work: Callable[[], R]) -> R:
        caller = CURRENT_CALLER.get()
        self.waiting_calls.take(caller, 1)
        try:
            return await threads.submit(caller, work)
        finally:
            self.waiting_calls.release(caller, 1)

    # -- operations on documents. Those that are not coroutines run in a thread.

    def require_ready(self) -> None:
        """Requires that all kernels are compiled."""
        if not self.ready:
            raise ProblemError(
                "not-ready",
                "the server is still compiling its kernels; retry later",
                retry_after=2.0,
            )

    async def upsert(self, scope: str, document: Document, id: str | None) -> Outcome:
        """Upserts one document in a batch with others that wait."""
        self.index.check_document(document)
        began = time.perf_counter()
        outcome = await self.batcher.upsert(scope, document, id)
        self.instruments.record_upsert_latency(scope, outcome, time.perf_counter() - began)
        return outcome

    def upsert_batch(
        self, scope: str, documents: Sequence[Document], ids: Sequence[str | None]
    ) -> list[Outcome]:
        """Upserts a batch in the current thread, and returns the outcomes in order."""
        began = time.perf_counter()
        with self.instruments.tracer.start_as_current_span("upsert") as span:
            outcomes = self.index.upsert_many(scope, documents, ids)
            span.set_attribute("nearkin.documents", len(documents))
            if outcomes:
                for name, seconds in outcomes[0].seconds.items():
                    span.set_attribute(f"nearkin.seconds.{name}", seconds * len(documents))
        if self.shadow is not None:
            self.shadow.record_upserts(scope, outcomes, time.perf_counter() - began)
        self._record_outcomes(scope, outcomes)
        return outcomes

    async def query(
        self,
        scope: str | Sequence[str],
        document: Document,
        top: int,
        *,
        members: bool = False,
    ) -> list[Match]:
        """Returns the representatives that resemble a document, most similar first."""
        matches = await self.run_in_thread(self.index.query, scope, document, top, members=members)
        for name in [scope] if isinstance(scope, str) else dict.fromkeys(scope):
            in_scope = [match for match in matches if match.scope in (None, name)]
            self.instruments.record_query(name, in_scope)
        return matches

    async def query_related(self, scope: str, document: Document) -> list[Match]:
        """Returns the representatives that are related to a document, most similar first."""
        return (await self.run_in_thread(self.index.related_many, scope, [document]))[0]

    def remove(self, scope: str, id: str) -> bool:
        """Deletes a document. Returns False if it did not exist."""
        with self._copying_to_shadow(scope, id):
            return self.index.remove(scope, id)

    def remove_many(self, scope: str, ids: Sequence[str]) -> int:
        """Deletes documents. Returns the number of those that existed."""
        with self._copying_to_shadow(scope, *ids):
            return self.index.remove_many(scope, ids)

    def remove_scope(self, scope: str) -> int:
        """Deletes documents of a scope: all of them if the number is below REMOVED_AT_ONCE."""
        names: list[tuple[str, str]] = []

        def note(changes: Changes) -> None:
            names.extend((entry.scope, entry.id) for entry, _ in changes.dropped)

        try:
            with observe_steps(note):
                return self.index.remove_scope(scope, REMOVED_AT_ONCE)
        finally:
            if self.shadow is not None:
                for name in names:
                    self.shadow.mark_changed(*name)

    def configure_scope(self, scope: str, settings: ScopeSettings) -> ScopeStatus:
        """Stores the settings of a scope."""
        with self._copying_to_shadow(SCOPES_PLACE, record_id(scope)):
            return self.index.configure_scope(scope, settings)

    def decide(self, scope: str, decisions: Sequence[Decision]) -> int:
        """Stores decisions about pairs of documents, and follows them at once."""
        ids = [decision_id(decision.pair) for decision in decisions]
        with self._copying_to_shadow(decisions_scope(scope), *ids, HEAD):
            return self.index.decide(scope, decisions)

    def add_part(self, scope: str, id: str, part: str | Sequence[str]) -> int:
        """Adds a part to an unfinished document, and returns its number of shingles."""
        with self._copying_to_shadow(parts_scope(scope), id):
            return self.index.add_part(scope, id, part)

    def finish_document(self, scope: str, id: str) -> Outcome | None:
        """Upserts a document from its parts, and deletes the parts."""
        began = time.perf_counter()
        with self._copying_to_shadow(scope, id), self._copying_to_shadow(parts_scope(scope), id):
            outcome = self.index.finish(scope, id)
        if outcome is not None:
            if self.shadow is not None:
                self.shadow.record_upserts(scope, [outcome], time.perf_counter() - began)
            self._record_outcomes(scope, [outcome])
        return outcome

    def _record_outcomes(self, scope: str, outcomes: Sequence[Outcome]) -> None:
        self.instruments.record_upserts(scope, outcomes)
        self.live_probes.add_outcomes(scope, outcomes)

    @contextmanager
    def _copying_to_shadow(self, scope: str, *ids: str) -> Iterator[None]:
        """Queues documents for the shadow index when the body has changed them, or has failed.

        A step that failed may have been done. The body runs in a thread that ends it even if nobody
        waits for the request any more.
        """
        try:
            yield
        finally:
            if self.shadow is not None:
                self.shadow.mark_changed(scope, *ids)

    # -- background tasks

    async def _warm_up(self) -> None:
        """Compiles the kernels before the first request is accepted."""
        began = time.perf_counter()
        await self.run_in_thread(self._call_kernels)
        configure_interpreter()
        self.ready = True
        log.info(
            "ready",
            extra={"seconds": round(time.perf_counter() - began, 3), "store": self.index.url},
        )

    def _call_kernels(self) -> None:
        json_shape(np.zeros(1, np.uint8))
        call_kernels(self.index.settings, self.index.resources, Index.open)

    async def _sweep_regularly(self) -> None:
        """Deletes expired entries of the index and of the shadow index."""
        while True:
            await asyncio.sleep(self.settings.expire_every)
            sweeps: list[Callable[[], dict[str, int]]] = [
                partial(self.index.sweep, self.settings.expire_every)
            ]
            if self.shadow is not None:
                sweeps.append(self.shadow.expire)
            for sweep in sweeps:
                with self._logging_failures("expire", "sweep failed"):
                    deleted = await self.run_in_thread(sweep)
                    if any(deleted.values()):
                        log.info("expired entries deleted", extra=deleted)

    @contextmanager
    def _logging_failures(self, task: str, message: str) -> Iterator[None]:
        """Logs an error of a background task, which goes on and tries again later."""
        try:
            yield
        except (NearkinError, ProblemError) as error:
            if isinstance(error, StoreError):
                self.instruments.record_store_error(task)
            # other errors of nearkin could name ids of documents
            has_no_ids = isinstance(error, StoreError | ProblemError)
            description = str(error) if has_no_ids else type(error).__name__
            log.warning(message, extra={"error": description})

    async def _query_golden_pairs_regularly(self) -> None:
        """Queries the golden pairs in the index and, if there is one, in the shadow index."""
        while True:
            with self._logging_failures("probe", "golden pairs failed"):
                self.golden_result = await self.run_in_thread(self._query_golden_pairs)
                log.info("golden pairs", extra=self.golden_result.to_dict())
            await asyncio.sleep(self.settings.golden_every)

    def _query_golden_pairs(self) -> GoldenResult:
        if self.shadow is None:
            return query_golden_pairs(self.index, self.golden_pairs)
        return self.shadow.compare_golden_pairs(
            lambda index: query_golden_pairs(index, self.golden_pairs)
        )

    async def _repeat(
        self, seconds: float, task: str, message: str, work: Callable[[], Awaitable[object]]
    ) -> None:
        """Repeats work of a background task, and logs when it has failed."""
        while True:
            await asyncio.sleep(seconds)
            with self._logging_failures(task, message):
                await work()

    async def _refresh_blocklist_regularly(self, blocklist: WatchedBlocklist) -> None:
        """Uses the blocklist that another process has written."""
        while True:
            await asyncio.sleep(BLOCKLIST_REFRESH_SECONDS)
            await asyncio.to_thread(blocklist.refresh, self.index)

    def _register_blocklist(self, blocklist: WatchedBlocklist) -> None:
        self.instruments.register_gauge(
            "nearkin_blocklist_entries",
            "Number of entries of the blocklist in force.",
            lambda: len(blocklist.blocklist),
        )
        self.instruments.register_counter(
            "nearkin_blocklist_failures",
            "Number of new blocklist files that could not be used, so that the previous list "
            "remained in force.",
            lambda: blocklist.failures,
        )

    def _register_gauges(self) -> None:
        IndexGauges(lambda: self.index, self._golden_recall, self.instruments).register()
        self.instruments.register_counter(
            "nearkin_exact_comparisons",
            "Number of candidate pairs that passed the estimate and were compared exactly.",
            lambda: self.index.search_stats.compared,
        )
        self.instruments.register_counter(
            "nearkin_tied_documents",
            "Number of documents that were searched for and of which some candidates were left out "
            "that agreed as much as compared ones.",
            lambda: self.index.search_stats.ties,
        )
        register_gauge = self.instruments.register_gauge
        register_gauge(
            "nearkin_representatives_returned",
            "Number of distinct representatives that upserts and queries of the last ten minutes "
            "returned, to within 1 %.",
            self.instruments.representatives.estimate,
        )
        self.instruments.register_scope_gauge(
            "nearkin_live_recall",
            "Share of the queries with altered copies of stored documents of a `scope` that found "
            "the document, in the last ten minutes.",
            self.live_probes.recall_by_scope,
        )
        register_gauge(
            "nearkin_bucket_capacity",
            "The setting bucket_capacity: maximum number of postings read from a bucket.",
            lambda: self.index.settings.bucket_capacity,
        )
        register_gauge(
            "nearkin_candidate_limit",
            "The setting max_candidates: number of candidates compared exactly at a time.",
            lambda: self.index.settings.max_candidates,
        )
        register_gauge(
            "nearkin_queue_depth",
            "Number of single documents that wait.",
            lambda: self.batcher.depth,
        )
        register_gauge(
            "nearkin_queue_limit",
            "Maximum number of single documents that can wait.",
            lambda: self.settings.queue,
        )
        register_gauge(
            "nearkin_memory_budget_bytes",
            "The setting memory_budget. Nothing enforces it; alerts compare with it.",
            lambda: self.settings.memory_budget,
        )

    def _golden_recall(self) -> float | None:
        return None if self.golden_result is None else self.golden_result.recall


def log_failed_task(task: "asyncio.Task[None]") -> None:
    """Logs background tasks that exit with an error."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a background task failed", exc_info=error)


def check_store(service: Service) -> None:
    """Checks that the store responds, by reading a document that does not exist."""
    service.index.get_many(f"{RESERVED}ready", ["ready"])
