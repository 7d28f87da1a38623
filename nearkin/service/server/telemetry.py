"""Metrics and traces of a server.

Without an OpenTelemetry SDK, the instruments cost next to nothing.
"""

import math
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation

from nearkin.index.entry import Match, Outcome
from nearkin.runtime.sliding_window import SlidingWindow
from nearkin.runtime.version import VERSION
from nearkin.service.server.worker_snapshots import WorkerSnapshots

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MAX_SCOPE_LABELS = 100
"""Maximum number of scopes that have a label of their own in metrics."""
OTHER_SCOPES = "(other)"
LAYER_RESULTS = {"memory": "l1_hit", "store": "l2_hit", "record": "l3_hit"}
SECONDS_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
COUNT_BUCKETS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)
RECENT_SECONDS = 300
"""Number of seconds that the console shows."""
MAX_LATENCIES = 5000
"""Maximum number of latencies that are kept of one second."""


class SecondOfActivity(msgspec.Struct):
    """The upserts of one second by result, and percentiles of their latencies in seconds."""

    second: int
    counts: dict[str, int]
    p50: float | None
    p99: float | None


def result_label(outcome: Outcome) -> str:
    """Returns the metric label of an upsert: the layer that knew it, or its outcome.

    l1_hit stands for the resolution cache in memory, l2_hit for a stored resolution, and l3_hit for
    the stored representative.
    """
    return LAYER_RESULTS.get(outcome.layer, outcome.kind)


class Instruments:
    """The counters, histograms, gauges and the tracer of a server. All names begin with `nearkin`.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        provider: metrics.MeterProvider | None = None,
        tracing: trace.TracerProvider | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        meter = metrics.get_meter("nearkin", VERSION, provider)
        self.tracer = trace.get_tracer("nearkin", VERSION, tracing)
        self._meter = meter
        self._upserts = meter.create_counter(
            "nearkin_upserts",
            description="Number of upserted documents by `result` and `scope`. l1_hit: resolution "
            "cache in memory; l2_hit: stored resolution; l3_hit: stored representative; otherwise "
            "the outcome: match (resolved by a search), new, updated, related or blocked.",
        )
        self._upsert_seconds = meter.create_histogram(
            "nearkin_upsert_duration",
            unit="s",
            description="Seconds from the arrival of a single document to its outcome, including "
            "waiting time, by `result` and `scope`.",
            explicit_bucket_boundaries_advisory=SECONDS_BUCKETS,
        )
        self._candidates = meter.create_histogram(
            "nearkin_candidates",
            description="Number of stored documents that a document was compared with in a search.",
            explicit_bucket_boundaries_advisory=COUNT_BUCKETS,
        )
        self._matches = meter.create_counter(
            "nearkin_matches_returned",
            description="Number of upserts that were resolved to another document, and of matches "
            "of queries (`by`).",
        )
        self.representatives = DistinctCount(clock)
        self._probes = meter.create_counter(
            "nearkin_live_probes",
            description="Number of queries with altered copies of stored documents, by `result` "
            "(found, missed). Nothing else counts them.",
        )
        self._store_errors = meter.create_counter(
            "nearkin_store_errors",
            description="Number of failed calls of the store, by `operation` (an HTTP method, "
            "stream, expire, probe, shadow, console, metrics).",
        )
        self._requests = meter.create_counter(
            "nearkin_http_requests",
            description="Number of answered requests by `route`, `method` and `status`, without "
            "streams.",
        )
        self._request_seconds = meter.create_histogram(
            "nearkin_http_duration",
            unit="s",
            description="Duration of requests by `route` and `method`, without streams.",
            explicit_bucket_boundaries_advisory=SECONDS_BUCKETS,
        )
        self._problems = meter.create_counter(
            "nearkin_refused",
            description="Number of requests and lines of streams that were answered with a "
            "problem, by `code`.",
        )
        self._scopes: set[str] = set()
        self._lock = Lock()
        self.recent = RecentActivity()

    def scope_label(self, scope: str) -> str:
        """Returns the metric label of a scope: its name, or OTHER_SCOPES if there are many."""
        if scope in self._scopes:
            return scope
        with self._lock:
            if len(self._scopes) < MAX_SCOPE_LABELS:
                self._scopes.add(scope)
                return scope
        return OTHER_SCOPES

    def record_upserts(self, scope: str, outcomes: Sequence[Outcome]) -> None:
        """Counts the outcomes of a batch."""
        label = self.scope_label(scope)
        counts = Counter(result_label(outcome) for outcome in outcomes)
        for outcome in outcomes:
            if outcome.layer == "search":
                self._candidates.record(outcome.candidates)
        for result, count in counts.items():
            self._upserts.add(count, {"result": result, "scope": label})
        clusters = [
            outcome.cluster for outcome in outcomes if outcome.duplicate and outcome.cluster
        ]
        self._matches.add(len(clusters), {"by": "upsert"})
        self.representatives.add(scope, clusters)
        self.recent.add_counts(counts)

    def record_upsert_latency(self, scope: str, outcome: Outcome, seconds: float) -> None:
        """Records the time from the arrival of a single document to its outcome."""
        self._upsert_seconds.record(
            seconds, {"result": result_label(outcome), "scope": self.scope_label(scope)}
        )
        self.recent.add_latency(seconds)

    def record_query(self, scope: str, matches: Sequence[Match]) -> None:
        """Counts the matches of a query."""
        self._matches.add(len(matches), {"by": "query"})
        self.representatives.add(scope, [match.cluster for match in matches])

    def record_probe(self, *, found: bool) -> None:
        """Counts a probe of a live scope."""
        self._probes.add(1, {"result": "found" if found else "missed"})

    def record_store_error(self, operation: str) -> None:
        """Counts a failed call of the store."""
        self._store_errors.add(1, {"operation": operation})

    def record_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Records an answered request."""
        self._requests.add(1, {"route": route, "method": method, "status": str(status)})
        self._request_seconds.record(seconds, {"route": route, "method": method})

    def record_problem(self, code: str) -> None:
        """Counts a request or a line of a stream that was answered with a problem."""
        self._problems.add(1, {"code": code})

    def register_counter(self, name: str, description: str, read: Callable[[], int]) -> None:
        """Registers a counter whose value is read when metrics are collected."""
        self._meter.create_observable_counter(
            name, [lambda _: [Observation(read())]], description=description
        )

    def register_gauge(
        self, name: str, description: str, read: Callable[[], float | None], unit: str = ""
    ) -> None:
        """Registers a gauge whose value is read when metrics are collected."""

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            value = read()
            return [] if value is None else [Observation(value)]

        self._meter.create_observable_gauge(name, [observe], unit, description)

    def register_scope_gauge(
        self, name: str, description: str, read: Callable[[], Mapping[str, float]]
    ) -> None:
        """Registers a gauge with a value for each scope."""

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(value, {"scope": label}) for label, value in read().items()]

        self._meter.create_observable_gauge(name, [observe], description=description)


class DistinctCount:
    """The number of distinct clusters that answers of the last ten minutes returned.

    Linear counting (Whang, Vander-Zanden and Taylor, 1990): each cluster sets a bit of a map, and
    the share of bits that are still clear gives the number of clusters. The standard error is below
    1 % up to half a million clusters.

    Args:
        clock: Returns the time in seconds.

    Examples:
        >>> distinct = DistinctCount(time.time)
        >>> distinct.add("shop", ["a", "b", "a"])
        >>> distinct.estimate()
        2
    """

    BITS = 1 << 17
    """The number of bits of a map."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._lock = Lock()
        self._maps = SlidingWindow(lambda: bytearray(self.BITS), clock)

    def add(self, scope: str, clusters: Sequence[str]) -> None:
        """Adds clusters of a scope."""
        if not clusters:
            return
        with self._lock:
            bits = self._maps.current()
            for cluster in clusters:
                bits[hash((scope, cluster)) % self.BITS] = 1

    def estimate(self) -> int:
        """Returns the estimated number of distinct clusters."""
        with self._lock:
            set_bits = np.zeros(self.BITS, bool)
            for bits in self._maps.slices():
                set_bits |= np.frombuffer(bits, bool)
        clear = max(1, self.BITS - int(np.count_nonzero(set_bits)))
        return round(self.BITS * math.log(self.BITS / clear))


class RecentActivity:
    """The upserts of the last minutes, second by second, for the console."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seconds: deque[tuple[int, dict[str, int], list[float]]] = deque(maxlen=RECENT_SECONDS)

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Adds numbers of upserts by result."""
        with self._lock:
            _, current, _ = self._current_second()
            for result, count in counts.items():
                current[result] = current.get(result, 0) + count

    def add_latency(self, seconds: float) -> None:
        """Adds the latency of one document. Only the first latencies of each second are kept."""
        with self._lock:
            _, _, latencies = self._current_second()
            if len(latencies) < MAX_LATENCIES:
                latencies.append(seconds)

    def _current_second(self) -> tuple[int, dict[str, int], list[float]]:
        second = int(time.time())
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append((second, {}, []))
        return self._seconds[-1]

    def series(self) -> list[SecondOfActivity]:
        """Returns the activity of each second with upserts, in ascending order."""
        with self._lock:
            seconds = [
                (second, dict(counts), sorted(latencies))
                for second, counts, latencies in self._seconds
            ]
        return [
            SecondOfActivity(
                second=second,
                counts=counts,
                p50=_quantile_of_ordered(latencies, 0.5),
                p99=_quantile_of_ordered(latencies, 0.99),
            )
            for second, counts, latencies in seconds
        ]


def _quantile_of_ordered(ordered: list[float], share: float) -> float | None:
    """Returns a quantile of ordered values, or None without values."""
    if not ordered:
        return None
    return ordered[int(share * (len(ordered) - 1))]


def create_meter_provider() -> tuple[metrics.MeterProvider, "CollectorRegistry"]:
    """Creates a meter provider, and the registry that Prometheus reads."""
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    reader = PrometheusMetricReader(
        disable_target_info=True, scope_info_enabled=False, registry=registry
    )
    return MeterProvider([reader]), registry


def install_traces(endpoint: str) -> None:
    """Installs a tracer provider that sends spans to a collector."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(
        resource=Resource.create({"service.name": "nearkin", "service.version": VERSION})
    )
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces"))
    )
    trace.set_tracer_provider(provider)


class Exposition:
    """The metrics in the text format of Prometheus.

    With several workers, it has the metrics of all, labelled by worker.
    """

    def __init__(self, registry: "CollectorRegistry", folder: Path | None) -> None:
        self.registry = registry
        self._snapshots = WorkerSnapshots(folder, ".prom")

    @property
    def content_type(self) -> str:
        """The media type of the text."""
        from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

        return CONTENT_TYPE_PLAIN_0_0_4

    def render(self) -> bytes:
        """Returns the metrics of this worker and the last snapshots of the others."""
        own = self._own_metrics()
        if self._snapshots.folder is None:
            return own
        self._snapshots.write(own)
        texts = {**self._snapshots.read_others(), str(os.getpid()): own}
        return merge_expositions({worker: text.decode() for worker, text in texts.items()})

    def _own_metrics(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self.registry)

    async def keep_writing_snapshots(self) -> None:
        """Writes the metrics of this worker for the others until it is cancelled."""
        await self._snapshots.keep_writing(self._own_metrics)


def merge_expositions(texts: dict[str, str]) -> bytes:
    r"""Merges the metrics of several workers, and labels each sample with its worker.

    Examples:
        >>> metrics = '# HELP n_total N.\n# TYPE n_total counter\nn_total 2.0\n'
        >>> print(merge_expositions({"1": metrics, "2": metrics}).decode().strip())
        # HELP n_total N.
        # TYPE n_total counter
        n_total{worker="1"} 2.0
        n_total{worker="2"} 2.0
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.metrics_core import Metric
    from prometheus_client.parser import text_string_to_metric_families

    families: dict[str, Metric] = {}
    for worker, text in texts.items():
        for family in text_string_to_metric_families(text):
            merged_family = families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type)
            )
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    merged_family.add_sample(
                        sample.name, {**sample.labels, "worker": worker}, sample.value
                    )

    class MergedFamilies:
        def collect(self) -> Iterable[Metric]:
            return families.values()

    registry = CollectorRegistry()
    registry.register(MergedFamilies())
    return generate_latest(registry)
