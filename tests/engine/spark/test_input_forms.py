"""Forms of files that need more than a suffix, over Spark and with the local engine."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from nearkin.cli import app
from tests.cli.conftest import run
from tests.corpus.test_long_windows import make_frame
from tests.engine.spark.test_files import same_outputs

TEXTS = [" ".join(f"w{number // 2}x{at}" for at in range(40)) + f" {number}" for number in range(8)]


def write_inputs(folder: Path) -> Path:
    """Writes texts in several forms of files, below partition folders."""
    rows = [{"text": text, "score": float("nan"), "size": len(text)} for text in TEXTS]
    for language in ("en", "de"):
        part = folder / f"lang={language}"
        part.mkdir(parents=True)
        (part / "app.log").write_text("\n\n".join(TEXTS))
        (part / "objects.json").write_text("\n".join(json.dumps(row, indent=1) for row in rows))
        (part / "list.json").write_text(json.dumps({"n": len(rows), "data": rows, "more": [1]}))
        lines = [f"{row['text']};{row['size']}".encode() for row in rows]
        content = b"\n".join([b"sep=;", b"text;size", *lines, "Größe;1".encode("cp1252"), b"one"])
        (part / "excel.csv").write_bytes(content)
        (part / "long.jsonl.zst").write_bytes(
            make_frame("".join(json.dumps(row) + "\n" for row in rows).encode())
        )
        pq.write_table(pa.Table.from_pylist(rows), part / "rows.parquet")
    pq.write_table(pa.table({"text": pa.nulls(2000, pa.string())}), part / "nulls.parquet")
    return folder


def test_forms_of_files_are_those_of_the_local_engine(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_inputs(tmp_path / "in")
    options = ("--lines", "--encoding", "utf-8,windows-1252", "--block-by", "lang")
    common = (folder, *options, "--source", "lang", "--threshold", "0.7", "--quiet")
    outs = [tmp_path / "local", tmp_path / "spark"]
    assert run("dedup", *common, "--out", outs[0]) == app.DONE
    assert run("dedup", *common, "--engine", "spark", "--out", outs[1]) == app.DONE
    record = same_outputs(*outs)
    assert record["counts"]["kept"] == 10
    assert record["counts"]["rejected"] == 2002
    sketches = [json.loads((out / "run.json").read_text())["stages"]["sketch"] for out in outs]
    assert sketches[0]["rejected_reasons"] == sketches[1]["rejected_reasons"]
    assert sketches[0]["rejected_reasons"]["text is null"] == 2000
