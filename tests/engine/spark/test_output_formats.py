"""Dialects of CSV, patterns of inputs and files of kept documents over Spark."""

import io
import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from warcio.warcwriter import WARCWriter

from nearkin.cli.app import run
from tests.corpus.formats.record_files import write_responses
from tests.engine.spark.test_files import same_outputs

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


def write_files_of_other_tools(folder: Path) -> Path:
    """Writes a saved dataset, an archive, a crawl and rows of several types."""
    (folder / "saved").mkdir(parents=True)
    (folder / "saved" / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    for name in ("data.arrow", "cache-97eeb50443c558fd.arrow"):
        table = pa.table({"text": [TEXT, TEXT]})
        with pa.ipc.new_stream(folder / "saved" / name, table.schema) as writer:
            writer.write_table(table)
    (folder / "_SUCCESS").touch()
    (folder / ".a.jsonl.crc").write_bytes(b"crc")
    with tarfile.open(folder / "a.tar", "w") as archive:
        for name in ("0.txt", "1.txt", "0.jpg", "2.txt", "2.jpg"):
            member = tarfile.TarInfo(name)
            member.size = 12
            archive.addfile(member, io.BytesIO(f"words {name}.".encode()))
    page = "<meta charset=windows-1251>Привет, мир"
    responses = [("200 OK", "text/html", page.encode("cp1251")), ("200 OK", "text/html", b"GIF89a")]
    write_responses(folder / "a.warc.gz", responses)
    with (folder / "a.warc.gz").open("ab") as file:
        writer = WARCWriter(file, gzip=True)
        record = writer.create_warc_record("http://a.example/", "revisit", payload=io.BytesIO())
        writer.write_record(record)
    values = (1, "x", [1], 1 << 70)
    rows = [{"text": f"row {at} of four", "n": value} for at, value in enumerate(values)]
    rows.append({"text": f"{TEXT} eight", "n": None})
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_files_of_other_tools_are_read_as_by_the_local_engine(
    spark: SparkSession, tmp_path: Path
) -> None:
    inputs = write_files_of_other_tools(tmp_path / "in")
    for engine in ("local", "spark"):
        out = tmp_path / f"{engine}.parquet"
        assert run(["dedup", str(inputs), "--engine", engine, "--out", str(out)]) == 0
    facts = same_outputs(tmp_path / "local.parquet.run", tmp_path / "spark.parquet.run")
    counts = facts["counts"]
    # The rows of the dataset repeat one of JSON lines. Two samples and one page are documents.
    assert (counts["read"], counts["kept"], counts["rejected"]) == (13, 8, 3)
    assert facts["skipped"]["count"] == 4
    assert any("1 revisit record" in warning for warning in facts["warnings"])
    kept = pq.read_table(tmp_path / "spark.parquet")
    assert kept.equals(pq.read_table(tmp_path / "local.parquet"))
    assert {"1", "x", "[1]", str(1 << 70)} <= set(kept["n"].to_pylist())
