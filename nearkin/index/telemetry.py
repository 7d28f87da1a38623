"""Spans and metrics of an embedded index, through the API package of OpenTelemetry.

The API does nothing unless the program configures an SDK. If the program has not imported the API
when an index is opened, nothing is imported and nothing is measured.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from nearkin.runtime.version import VERSION

INSTRUMENTATION_NAME = "nearkin.index"
"""The name of the tracer and of the meter."""


class IndexTelemetry:
    """The spans and instruments of one open index.

    Names begin with `nearkin.` and the measure, for example `nearkin.jaccard.query`. No attribute
    contains a scope, an id or a text.
    """

    def __init__(self, measure: str) -> None:
        from opentelemetry import metrics, trace

        self._prefix = f"nearkin.{measure.replace('-', '_')}"
        self._status_codes = trace.StatusCode
        self._tracer = trace.get_tracer(INSTRUMENTATION_NAME, VERSION)
        meter = metrics.get_meter(INSTRUMENTATION_NAME, VERSION)
        self._durations = meter.create_histogram(
            f"{self._prefix}.duration", "s", "Duration of a call of the index, by operation."
        )
        self._documents = meter.create_counter(
            f"{self._prefix}.documents", "{document}", "Documents of calls, by operation."
        )
        self._comparisons = meter.create_histogram(
            f"{self._prefix}.exact_comparisons",
            "{comparison}",
            "Exact comparisons of a document with its candidates.",
        )

    @contextmanager
    def measure_call(self, operation: str, documents: int) -> Iterator[None]:
        """Makes a span of a call, and records its duration and its documents."""
        attributes = {"operation": operation}
        began = time.perf_counter()
        with self._tracer.start_as_current_span(
            f"{self._prefix}.{operation}",
            attributes={"nearkin.documents": documents},
            # messages of exceptions may contain ids
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                span.set_status(self._status_codes.ERROR, type(error).__name__)
                raise
            finally:
                self._durations.record(time.perf_counter() - began, attributes)
                self._documents.add(documents, attributes)

    def record_comparisons(self, compared: int) -> None:
        """Records the number of exact comparisons of a document with its candidates."""
        self._comparisons.record(compared)


_UNMEASURED = nullcontext()
"""The context of calls without telemetry."""


IS_OFF: ContextVar[bool] = ContextVar("telemetry_is_off", default=False)
"""A flag that is set while indexes are opened whose calls no user makes."""


@contextmanager
def without_telemetry() -> Iterator[None]:
    """Lets indexes that are opened meanwhile record nothing."""
    token = IS_OFF.set(True)
    try:
        yield
    finally:
        IS_OFF.reset(token)


def telemetry_of(measure: str) -> IndexTelemetry | None:
    """Returns the telemetry of an index, or None if the program does not use OpenTelemetry.

    A program that configures an SDK has imported the API.
    """
    is_used = "opentelemetry" in sys.modules and not IS_OFF.get()
    return IndexTelemetry(measure) if is_used else None


def measured_call(
    telemetry: IndexTelemetry | None, operation: str, documents: int
) -> AbstractContextManager[None]:
    """Returns a context that measures a call of an index, or does nothing without telemetry."""
    if telemetry is None:
        return _UNMEASURED
    return telemetry.measure_call(operation, documents)
