"""The option that says which part of the inputs is hashed."""

import hashlib
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nearkin.cli import app
from nearkin.corpus.input_manifest import SAMPLE_BYTES, SAMPLES
from nearkin.runs.pairs import FOOTER_KEY
from tests.cli.conftest import run


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A file that is larger than the samples, with few documents."""
    path = tmp_path / "large.jsonl"
    rows = [{"text": f"document {i} " + f"w{i} " * 60_000} for i in range(16)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert path.stat().st_size > SAMPLES * SAMPLE_BYTES
    return path


def change_between_samples(path: Path) -> None:
    """Changes a letter that is in no sample, and restores the time of modification."""
    status = path.stat()
    content = bytearray(path.read_bytes())
    second = (status.st_size - SAMPLE_BYTES) // (SAMPLES - 1)
    position = content.index(b"w", SAMPLE_BYTES + 10)
    assert position < second
    content[position : position + 1] = b"x"
    path.write_bytes(content)
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))


def test_run_json_says_which_part_was_hashed(corpus: Path, tmp_path: Path) -> None:
    assert run("dedup", corpus, "--out", tmp_path / "sampled") == 0
    assert run("dedup", corpus, "--out", tmp_path / "full", "--hash-inputs", "full") == 0
    whole = hashlib.sha256(corpus.read_bytes()).hexdigest()
    for part in ("sampled", "full"):
        (entry,) = json.loads((tmp_path / part / "run.json").read_bytes())["inputs"]
        assert entry["hashed"] == part
        assert (entry["sha256"] == whole) == (part == "full")
    assert run("pairs", corpus, "--out", tmp_path / "p.parquet", "--hash-inputs", "full") == 0
    (entry,) = json.loads(pq.read_schema(tmp_path / "p.parquet").metadata[FOOTER_KEY])["inputs"]
    assert (entry["hashed"], entry["sha256"]) == ("full", whole)


@pytest.mark.parametrize("part", ["sampled", "full"])
def test_a_finished_run_is_compared_as_it_was_hashed(
    part: str, corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = ["dedup", corpus, "--out", tmp_path / "out"]
    assert run(*line, "--hash-inputs", part) == 0
    assert run(*line, "--resume") == 0
    change_between_samples(corpus)
    capfd.readouterr()
    assert run(*line, "--resume") == (0 if part == "sampled" else app.USAGE)
    assert ("sha256 was" in capfd.readouterr().err) == (part == "full")
    os.utime(corpus, ns=(10**18, 10**18))
    assert run(*line, "--resume") == app.USAGE
    expected = "time of modification was" if part == "sampled" else "sha256 was"
    assert expected in capfd.readouterr().err


def test_an_unknown_part_is_rejected_before_anything_is_written(
    corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for command, out in (("dedup", "out"), ("pairs", "out.parquet")):
        line = [command, corpus, "--out", tmp_path / out, "--hash-inputs", "sample"]
        assert run(*line) == app.USAGE
        message = capfd.readouterr().err
        assert "--hash-inputs sample is not one of sampled, full" in message
        assert not (tmp_path / out).exists()
