"""What a server tells of itself: instruments of the OpenTelemetry API, which cost next to nothing until an SDK is installed."""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation

from nearkin.index.entry import Outcome
from nearkin.version import VERSION

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

log = logging.getLogger("nearkin.metrics")
MAX_SCOPES = 100
OTHER_SCOPES = "(other)"
LAYERS = {"memory": "l1_hit", "store": "l2_hit", "record": "l3_hit"}
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
COUNTS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)
RECENT = 300
"""Seconds that the console looks back."""


def result_label(outcome: Outcome) -> str:
    """The label of an upsert: which layer knew it, or what the search made of it.

    l1_hit: the resolutions used last, in memory; l2_hit: a stored resolution; l3_hit: the stored representative itself.
    """
    return LAYERS.get(outcome.layer, outcome.kind)


class Instruments:
    """Counters, histograms and gauges; all names begin with nearkin.

    Args:
        provider: Of meters; by default the one that the process has installed, or none, which costs nothing.
        tracing: Of spans; likewise.
    """

    def __init__(self, provider: metrics.MeterProvider | None = None, tracing: trace.TracerProvider | None = None) -> None:
        meter = metrics.get_meter("nearkin", VERSION, provider)
        self.tracer = trace.get_tracer("nearkin", VERSION, tracing)
        self._meter = meter
        self._upserts = meter.create_counter(
            "nearkin_upserts",
            description="Upserted documents by `result` and `scope`. l1_hit: known in memory; l2_hit: a stored resolution; "
            "l3_hit: a stored representative; match: resolved by a search; new; updated.",
        )
        self._upsert_seconds = meter.create_histogram(
            "nearkin_upsert_duration",
            unit="s",
            description="Time from the arrival of a single document to its outcome, waiting included, by `result` and `scope`.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._candidates = meter.create_histogram(
            "nearkin_candidates",
            description="Number of stored documents that a searched document was compared with.",
            explicit_bucket_boundaries_advisory=COUNTS,
        )
        self._returned = meter.create_counter(
            "nearkin_representatives_returned",
            description="Upserts, and matches of queries, that were answered with a stored document (`by`).",
        )
        self._store_errors = meter.create_counter(
            "nearkin_store_errors",
            description="Calls that the store failed, by `operation` (a method, stream, expire, probe, shadow).",
        )
        self._requests = meter.create_counter(
            "nearkin_http_requests", description="Answered requests by `route`, `method` and `status`, without streams."
        )
        self._request_seconds = meter.create_histogram(
            "nearkin_http_duration",
            unit="s",
            description="Time of requests by `route` and `method`, without streams.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._refused = meter.create_counter(
            "nearkin_refused", description="Requests and lines of streams that ended in a problem, by `code`."
        )
        self._scopes: set[str] = set()
        self._lock = Lock()
        self.recent = RecentActivity()

    def scope_label(self, scope: str) -> str:
        """A scope's name, of the first hundred; any other is one label, so that tenants cannot swell the metrics."""
        if scope in self._scopes:
            return scope
        with self._lock:
            if len(self._scopes) < MAX_SCOPES:
                self._scopes.add(scope)
                return scope
        return OTHER_SCOPES

    def record_upserts(self, scope: str, outcomes: Sequence[Outcome]) -> None:
        """What became of a batch."""
        label, counted = self.scope_label(scope), dict.fromkeys(map(result_label, outcomes), 0)
        for outcome in outcomes:
            counted[result_label(outcome)] += 1
            if outcome.layer == "search":
                self._candidates.record(outcome.candidates)
        for result, count in counted.items():
            self._upserts.add(count, {"result": result, "scope": label})
        self._returned.add(sum(outcome.duplicate for outcome in outcomes), {"by": "upsert"})
        self.recent.add(counted)

    def record_upsert_latency(self, scope: str, outcome: Outcome, seconds: float) -> None:
        """How long a document took, waiting included."""
        self._upsert_seconds.record(seconds, {"result": result_label(outcome), "scope": self.scope_label(scope)})
        self.recent.wait(seconds)

    def record_query(self, matches: int) -> None:
        """A query's answer."""
        self._returned.add(matches, {"by": "query"})

    def record_store_error(self, operation: str) -> None:
        """A call to the store that failed."""
        self._store_errors.add(1, {"operation": operation})

    def record_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request."""
        self._requests.add(1, {"route": route, "method": method, "status": str(status)})
        self._request_seconds.record(seconds, {"route": route, "method": method})

    def record_problem(self, code: str) -> None:
        """A request that ended in a problem."""
        self._refused.add(1, {"code": code})

    def counter(self, name: str, description: str, read: Callable[[], int]) -> None:
        """A count that somebody else keeps."""
        self._meter.create_observable_counter(name, [lambda _: [Observation(read())]], description=description)

    def gauge(self, name: str, description: str, read: Callable[[], float | None], unit: str = "") -> None:
        """A value that is read when somebody asks; None is left out."""

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            value = read()
            return [] if value is None else [Observation(value)]

        self._meter.create_observable_gauge(name, [observe], unit, description)


class RecentActivity:
    """The last minutes, second by second, for the console."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seconds: deque[tuple[int, dict[str, int], list[float]]] = deque(maxlen=RECENT)

    def add(self, counted: dict[str, int]) -> None:
        """Upserts by result."""
        with self._lock:
            mine = self._now()[1]
            for result, count in counted.items():
                mine[result] = mine.get(result, 0) + count

    def wait(self, seconds: float) -> None:
        """One document's time; so many a second are kept that percentiles stand."""
        with self._lock:
            waits = self._now()[2]
            if len(waits) < 5000:
                waits.append(seconds)

    def _now(self) -> tuple[int, dict[str, int], list[float]]:
        second = int(time.time())
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append((second, {}, []))
        return self._seconds[-1]

    def series(self) -> list[dict[str, Any]]:
        """For each second that had upserts: `second`, counts by result, `p50` and `p99` of the seconds they took."""
        with self._lock:
            held = [(second, dict(counted), sorted(waits)) for second, counted, waits in self._seconds]
        out = []
        for second, counted, waits in held:
            p50, p99 = ((waits[int(share * (len(waits) - 1))] if waits else None) for share in (0.5, 0.99))
            out.append({"second": second, "counts": counted, "p50": p50, "p99": p99})
        return out


def prometheus() -> tuple[metrics.MeterProvider, "CollectorRegistry"]:
    """The SDK, and the registry in which Prometheus finds what it counts, beside facts of the process."""
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=registry)
    return MeterProvider([reader]), registry


def install_traces(endpoint: str) -> None:
    """The SDK, sending spans to a collector."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "nearkin", "service.version": VERSION}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")))
    trace.set_tracer_provider(provider)


class Exposition:
    """The text that Prometheus reads; of several workers, everyone's with a label that tells them apart.

    Args:
        registry: Of this process.
        folder: Where workers leave their own for each other; None for a single one.
    """

    EVERY = 2.0

    def __init__(self, registry: "CollectorRegistry", folder: Path | None) -> None:
        self.registry, self.folder = registry, folder

    @property
    def content_type(self) -> str:
        """Of the text."""
        from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

        return CONTENT_TYPE_PLAIN_0_0_4

    def text(self) -> bytes:
        """Of this moment; other workers' as of their last note."""
        from prometheus_client import generate_latest

        own = generate_latest(self.registry)
        if self.folder is None:
            return own
        self.leave(own)
        notes = {path.stem: path.read_text("utf-8") for path in sorted(self.folder.glob("*.prom")) if is_alive(path)}
        # the note of this process is an old one if the disk is full
        return merged({**notes, str(os.getpid()): own.decode("utf-8")})

    def leave(self, text: bytes | None = None) -> None:
        """Notes the figures of this worker for the others. If the disk is full, they read the previous ones until it is not."""
        from prometheus_client import generate_latest

        if self.folder is None:
            return
        staging = self.folder / f"{os.getpid()}.part"
        try:
            staging.write_bytes(generate_latest(self.registry) if text is None else text)
            staging.replace(self.folder / f"{os.getpid()}.prom")
        except OSError as error:
            log.warning("metrics could not be left for other workers", extra={"error": str(error)})

    async def keep_writing_snapshots(self) -> None:
        """Until it is cancelled."""
        while self.folder is not None:
            await asyncio.to_thread(self.leave)
            await asyncio.sleep(self.EVERY)


def is_alive(path: Path) -> bool:
    """Whether the process that left a note, named by its number, still runs; the note of one that does not is removed."""
    try:
        os.kill(int(path.stem), 0)
    except ProcessLookupError:
        path.unlink(missing_ok=True)
        return False
    return True


def merged(texts: dict[str, str]) -> bytes:
    """Expositions of several workers as one, each sample with its worker's name.

    Examples:
        >>> one = '# HELP n_total N.\\n# TYPE n_total counter\\nn_total 2.0\\n'
        >>> print(merged({"1": one, "2": one}).decode().strip())
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
            into = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    into.add_sample(sample.name, {**sample.labels, "worker": worker}, sample.value)

    class Held:
        def collect(self) -> Iterable[Metric]:
            return families.values()

    registry = CollectorRegistry()
    registry.register(Held())
    return generate_latest(registry)
