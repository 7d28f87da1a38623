"""Metrics, logs and traces."""

import io
import json
import logging
import os
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from nearkin.index.entry import Outcome
from nearkin.service.server.app import create_app
from nearkin.service.server.golden_probe import query_golden_pairs
from nearkin.service.server.logs import JsonFormatter
from nearkin.service.server.settings import ServerSettings
from nearkin.service.server.telemetry import (
    MAX_SCOPE_LABELS,
    OTHER_SCOPES,
    DistinctCount,
    Exposition,
    Instruments,
    create_meter_provider,
    result_label,
)
from tests.service.server.conftest import Serve

NAMES = (
    "nearkin_upserts_total",
    "nearkin_upsert_duration_seconds_bucket",
    "nearkin_candidates_bucket",
    "nearkin_exact_comparisons_total",
    "nearkin_matches_returned_total",
    "nearkin_representatives_returned",
    "nearkin_http_requests_total",
    "nearkin_http_duration_seconds_bucket",
    "nearkin_refused_total",
    "nearkin_store_errors_total",
    "nearkin_queue_depth",
    "nearkin_queue_limit",
    "nearkin_candidate_pairs_per_doc",
    "nearkin_bucket_size_p99",
    "nearkin_bucket_capacity",
    "nearkin_candidate_limit",
    "nearkin_verify_drop_rate",
    "nearkin_exact_drop_rate",
    "nearkin_empty_bin_rate",
    "nearkin_signature_build_latency_p99",
    "nearkin_index_memory_bytes",
    "nearkin_store_bytes",
    "nearkin_live_recall",
    "nearkin_live_probes_total",
    "nearkin_memory_budget_bytes",
    "nearkin_recall_on_labeled_set",
    "nearkin_records",
    "process_resident_memory_bytes",
)


def test_all_metrics_are_exposed(serve: Serve, tmp_path: Path) -> None:
    golden = tmp_path / "pairs.jsonl"
    golden.write_text(
        json.dumps({"a": "one two three four five", "b": "one two three four five"}) + "\n"
    )
    client = serve(golden=golden, golden_every=0.05, live_probe_every=0.05, memory_budget=10**9)
    for text in (
        "the cat sat on the mat",
        "the cat sat on the mat today",
        "the cat sat on the mat",
    ):
        client.post("/v1/scopes/a/documents", json={"text": text})
    client.get("/v1/scopes/a/documents/nobody")
    client.app.state.service.instruments.record_store_error("test")  # type: ignore[attr-defined]
    service = client.app.state.service  # type: ignore[attr-defined]
    while service.golden_result is None or not service.live_probes.recall_by_scope():
        pass
    text = client.get("/metrics").text
    there = {
        line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")
    }
    assert [name for name in NAMES if name not in there] == []
    assert 'nearkin_upserts_total{result="new",scope="a"} 1.0' in text
    assert 'nearkin_upserts_total{result="match",scope="a"} 1.0' in text
    assert 'nearkin_upserts_total{result="l1_hit",scope="a"} 1.0' in text
    assert "nearkin_recall_on_labeled_set 1.0" in text


def test_each_layer_has_its_label() -> None:
    def of(kind: str, layer: str) -> str:
        return result_label(Outcome(kind, layer, "x", "x", "x", 1.0))

    found = [
        of("resolved", "memory"),
        of("resolved", "store"),
        of("exact", "record"),
        of("match", "search"),
        of("new", "search"),
    ]
    assert found == ["l1_hit", "l2_hit", "l3_hit", "match", "new"]


def test_number_of_scope_labels_is_limited() -> None:
    instruments = Instruments()
    labels = {instruments.scope_label(f"scope{i}") for i in range(3 * MAX_SCOPE_LABELS)}
    assert len(labels) == MAX_SCOPE_LABELS + 1
    assert OTHER_SCOPES in labels


def test_metrics_of_workers_are_merged(tmp_path: Path) -> None:
    provider, registry = create_meter_provider()
    instruments = Instruments(provider)
    instruments.record_problem("busy")
    (tmp_path / f"{os.getppid()}.prom").write_text(
        "# HELP n_total N.\n# TYPE n_total counter\nn_total 2.0\n"
    )
    (tmp_path / "999999999.prom").write_text(
        "# HELP n_total N.\n# TYPE n_total counter\nn_total 123457.0\n"
    )
    text = Exposition(registry, tmp_path).render().decode()
    assert f'n_total{{worker="{os.getppid()}"}} 2.0' in text
    assert "123457" not in text, "of a worker that is gone"
    assert 'nearkin_refused_total{code="busy",worker=' in text


def test_logs_are_json_without_texts_and_tokens(serve: Serve, tmp_path: Path) -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    level = root.level
    root.setLevel(logging.DEBUG)
    try:
        client = serve()
        secret = "nk_someone_" + "S" * 43
        response = client.post(
            "/v1/scopes/a/documents",
            json={"id": "confidential-id", "text": "top secret words"},
            headers={"authorization": secret},
        )
        client.post(
            "/v1/scopes/a/documents",
            content=b'{"text": top secret',
            headers={"content-type": "application/json"},
        )
        client.post("/v1/scopes/a/query", json={"text": 5, "top secret": 1})
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    mine = [row for row in rows if row.get("request_id") == response.headers["x-request-id"]]
    assert mine[0]["route"] == "/v1/scopes/{scope}/documents"
    assert mine[0]["status"] == 200
    for word in ("top secret", "confidential-id", "S" * 43):
        assert word not in out.getvalue()


def test_internal_error_is_logged_but_not_returned(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve()

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("inner words")

    monkeypatch.setattr(client.app.state.service.index, "query", broken)  # type: ignore[attr-defined]
    response = client.post("/v1/scopes/a/query", json={"text": "x"})
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert "inner words" not in response.text
    assert "inner words" in caplog.text


def test_requests_and_batches_have_spans(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    settings = ServerSettings.read(
        store="memory://", key_file=str(tmp_path / "key"), tokens=tmp_path / "tokens.json"
    )
    with TestClient(
        create_app(settings, instruments=Instruments(tracing=tracing)), "http://localhost"
    ) as client:
        while client.get("/readyz").status_code != 200:
            pass
        client.post("/v1/scopes/a/documents", json={"text": "the cat sat"})
    spans = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
    assert spans["POST /v1/scopes/{scope}/documents"]["http.response.status_code"] == 200
    assert spans["upsert"]["nearkin.documents"] == 1
    assert "nearkin.seconds.search" in spans["upsert"]


def test_representatives_are_counted_once_however_often_they_are_returned(serve: Serve) -> None:
    client = serve()
    text = "the cat sat on the mat and looked at the big dog"
    for number in range(3):
        client.post("/v1/scopes/a/documents", json={"text": f"{text} number {number} {number}"})
    for number in range(20):
        client.post("/v1/scopes/a/documents", json={"id": f"copy-{number}", "text": text})
        client.post("/v1/scopes/a/query", json={"text": text})
    text = client.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    clusters = {
        row["id"]
        for row in client.get("/v1/scopes/a/clusters").json()["clusters"]
        if row["size"] > 1
    }
    assert float(values["nearkin_representatives_returned"]) == len(clusters)
    assert float(values['nearkin_matches_returned_total{by="upsert"}']) >= 19


def test_number_of_representatives_is_estimated_within_its_error() -> None:
    distinct = DistinctCount(lambda: 0.0)
    for part in range(100):
        distinct.add("shop", [f"cluster-{part * 1000 + i}" for i in range(1000)])
        distinct.add("shop", [f"cluster-{i}" for i in range(1000)])
    # the standard error of 100,000 in 131,072 bits is 0.2 %
    assert abs(distinct.estimate() - 100_000) < 100_000 * 6 * 0.002


def test_probes_of_golden_pairs_do_not_hide_hot_buckets(serve: Serve, tmp_path: Path) -> None:
    golden = tmp_path / "pairs.jsonl"
    pairs = [
        {"a": f"golden {i} one two three", "b": f"golden {i} one two three"} for i in range(50)
    ]
    golden.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    client = serve(golden=golden, golden_every=10_000.0, index={"bands": "20", "rows": "1"})
    service = client.app.state.service  # type: ignore[attr-defined]
    shared = " ".join(f"shared{i}" for i in range(30))
    for number in range(100):
        own = " ".join(f"own{number}-{i}" for i in range(30))
        client.post("/v1/scopes/a/documents", json={"text": f"{shared} {own}"})

    def read_metrics() -> dict[str, object]:
        counts = service.index.search_stats.recent_counts()
        return {"compared": counts.compared, **counts.metrics().values()}

    before = read_metrics()
    assert before["bucket_size_p99"] > 50  # type: ignore[operator]
    for _ in range(60):
        query_golden_pairs(service.index, service.golden_pairs)
    assert read_metrics() == before
