"""Tests of the metrics schema, which runs, audits and shadow comparisons use."""

import json
from pathlib import Path

import jsonschema
import pytest

from nearkin.cli.app import run as command
from nearkin.runtime.metrics import QualityMetrics, weighted_percentile

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "reference" / "metrics.schema.json").read_text("utf-8")
)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert command([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_schema_names_every_metric() -> None:
    assert set(SCHEMA["properties"]) == {"schema", *QualityMetrics.__dataclass_fields__}
    jsonschema.validate(QualityMetrics().to_dict(), SCHEMA)


def test_percentiles_agree_with_listed_values() -> None:
    counts = [(1, 7), (2, 2), (50, 1)]
    values = [1] * 7 + [2] * 2 + [50]
    for share in (0.1, 0.5, 0.7, 0.8, 0.95, 1.0):
        assert (
            weighted_percentile(counts, share)
            == values[max(0, -(-int(share * 1000) * len(values) // 1000) - 1)]
        )
    assert weighted_percentile([], 0.5) is None


def test_run_audit_and_comparison_use_one_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, out = str(tmp_path / "s"), str(tmp_path / "d")
    command(["lab", "synth", "--out", corpus, "--documents", "3000", "--length", "fixed:600"])
    capsys.readouterr()
    options = ("--id", "id", "--bands", "13", "--rows", "7", "--save-signatures", "--out", out)
    summary = printed(capsys, "dedup", f"{corpus}/documents", *options)
    metrics = summary["metrics"]
    jsonschema.validate(metrics, SCHEMA)
    stages = summary["stages"]
    assert metrics["candidate_pairs_per_doc"] == stages["candidates"]["candidates"] / 3000
    assert sum(size * buckets for size, buckets in stages["candidates"]["bucket_sizes"]) == 13 * (
        3000 - stages["collapse"]["exact"]
    )
    assert (
        metrics["bucket_size_max"] >= metrics["bucket_size_p99"] >= metrics["bucket_size_p50"] == 1
    )
    assert metrics["index_memory_bytes"] == 3000 * (4 * 128 + 8 * 13)
    assert 0 < metrics["verify_drop_rate"] < 1
    assert metrics["signature_build_latency_p99"] >= metrics["signature_build_latency_p50"] > 0
    assert metrics["recall_on_labeled_set"] is None

    audited = printed(capsys, "audit", out, "--sample", "500")
    jsonschema.validate(audited["metrics"], SCHEMA)
    assert audited["metrics"]["recall_on_labeled_set"] == audited["recall"]["value"]
    assert json.loads((tmp_path / "d" / "run.json").read_bytes())["metrics"] == audited["metrics"]
    labels = tmp_path / "labels.csv"
    labels.write_text("id_a,id_b\nd0000000000,d0000000001\n")
    assert printed(capsys, "audit", out, "--golden", str(labels))["metrics"][
        "recall_on_labeled_set"
    ] in (0.0, 1.0)
    assert command(["audit", out, "--sample", "50", "--golden", str(labels), "--quiet"]) == 0
    assert "recall of labelled pairs" in capsys.readouterr().out

    compared = printed(capsys, "shadow", out, "--against", "b=16,r=8")
    for side in ("live", "shadow"):
        jsonschema.validate(compared[side]["metrics"], SCHEMA)


def test_brute_force_run_has_no_bucket_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one two three"}\n{"text": "one two three"}\n')
    metrics = printed(capsys, "dedup", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "d"))[
        "metrics"
    ]
    jsonschema.validate(metrics, SCHEMA)
    assert (
        metrics["bucket_size_max"]
        is metrics["candidate_pairs_per_doc"]
        is metrics["verify_drop_rate"]
        is None
    )
