"""Tests of the spans and metrics of an embedded index."""

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.index.stats import uncounted_searches
from tests.index.conftest import NEAR, TEXT


class Exported:
    """The spans and metrics that an SDK exports."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._reader = InMemoryMetricReader()
        self._spans = InMemorySpanExporter()
        tracing = TracerProvider()
        tracing.add_span_processor(SimpleSpanProcessor(self._spans))
        metering = MeterProvider([self._reader])
        monkeypatch.setattr(trace, "get_tracer", tracing.get_tracer)
        monkeypatch.setattr(metrics, "get_meter", metering.get_meter)

    def spans(self) -> list[Any]:
        return list(self._spans.get_finished_spans())

    def points(self) -> dict[tuple[str, str], Any]:
        """Returns the data points by the name of the metric and the operation."""
        metrics = self._reader.get_metrics_data()
        return {
            (metric.name, point.attributes.get("operation", "")): point
            for resource in metrics.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Exported:
    return Exported(monkeypatch)


def test_calls_have_spans_durations_and_documents(exported: Exported) -> None:
    with nk.Index.open("memory://", threshold=0.7) as index:
        index.upsert_many("a", [TEXT, "another text of some words"], ["one", "two"])
        index.query("a", NEAR)
        index.remove("a", "one")
    spans = exported.spans()
    assert [span.name for span in spans] == [
        "nearkin.jaccard.upsert",
        "nearkin.jaccard.query",
        "nearkin.jaccard.remove",
    ]
    assert [dict(span.attributes) for span in spans] == [
        {"nearkin.documents": 2},
        {"nearkin.documents": 1},
        {"nearkin.documents": 1},
    ]
    points = exported.points()
    for operation, documents in (("upsert", 2), ("query", 1), ("remove", 1)):
        assert points["nearkin.jaccard.documents", operation].value == documents
        assert points["nearkin.jaccard.duration", operation].count == 1
        assert points["nearkin.jaccard.duration", operation].sum > 0


def test_exact_comparisons_are_a_histogram_without_those_of_probes(exported: Exported) -> None:
    with nk.Index.open("memory://", threshold=0.7) as index:
        index.upsert("a", TEXT, "one")
        index.query("a", NEAR)
        index.query("a", NEAR)
        with uncounted_searches():
            index.query("a", NEAR)
        compared = index.search_stats.compared
    point = exported.points()["nearkin.jaccard.exact_comparisons", ""]
    assert (point.count, point.sum) == (2, compared)


@pytest.mark.parametrize(
    ("spec", "document", "prefix"),
    [
        (nk.Spec(measure="weighted-jaccard"), TEXT, "nearkin.weighted_jaccard"),
        (nk.Spec(measure="simhash"), TEXT, "nearkin.simhash"),
        (nk.Spec(measure="cosine", unit="vector", n=2), [1.0, 2.0], "nearkin.cosine"),
    ],
)
def test_names_begin_with_the_measure(
    exported: Exported, spec: nk.Spec, document: Any, prefix: str
) -> None:
    with nk.Index.open("memory://", spec, 0.95) as index:
        index.query("a", document)
    assert [span.name for span in exported.spans()] == [f"{prefix}.query"]
    assert (f"{prefix}.duration", "query") in exported.points()


def test_a_failed_call_is_an_error_without_message(exported: Exported) -> None:
    with nk.Index.open("memory://") as index, pytest.raises(UsageError, match="secret"):
        index.upsert("a", TEXT, "secret\0")
    (span,) = exported.spans()
    assert not span.status.is_ok
    assert span.status.description == "UsageError"
    assert "secret" not in span.to_json()


def test_a_program_without_opentelemetry_does_not_import_it() -> None:
    program = (
        "import sys, nearkin as nk\n"
        "index = nk.Index.open('memory://')\n"
        "index.upsert('a', 'some words of a text', 'one')\n"
        "assert index._session.telemetry is None\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
