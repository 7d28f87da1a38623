"""Dialects of CSV, patterns of inputs and files of kept documents over Spark."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

from nearkin.cli.app import run

TEXT = "one two three four five six seven"


def test_dialect_and_kept_file_are_those_of_the_local_engine(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    rows = f"id;text\r\n1;{TEXT}\r\n2;{TEXT}\r\n3;Größe und Farbe sind schön\r\n4;x;y\r\n"
    (tmp_path / "in" / "a.csv").write_bytes(rows.encode("cp1252"))
    (tmp_path / "in" / "README.md").write_text("how to use these data")
    common = ["dedup", str(tmp_path / "in"), "--exclude", "*.md", "--id", "id"]
    for engine in ("local", "spark"):
        out = tmp_path / f"{engine}.csv"
        assert run([*common, "--engine", engine, "--out", str(out)]) == 0
    expected = f"id;text\r\n1;{TEXT}\r\n3;Größe und Farbe sind schön\r\n".encode("cp1252")
    assert (tmp_path / "spark.csv").read_bytes() == expected
    assert (tmp_path / "local.csv").read_bytes() == expected
    rejected = [
        json.loads((tmp_path / f"{engine}.csv.run" / "rejected.jsonl").read_text())
        for engine in ("local", "spark")
    ]
    assert rejected[0] == rejected[1]
    assert rejected[0]["line"] == 5
