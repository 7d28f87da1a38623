"""Tests of files in object storage, and of storage that fails."""

import gzip
import sys
from pathlib import Path
from types import ModuleType

import fsspec
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from fsspec.implementations.memory import MemoryFile

from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.inputs import find_inputs
from nearkin.errors import MissingExtraError, RunError, UsageError
from tests.corpus.samples import (
    FILE_WRITERS,
    SAMPLE_TEXTS,
    lines_of,
    read_corpus,
    to_json_lines,
    words_of,
)


def test_missing_driver_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.http", raising=False)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[remote\]"'):
        FileCorpus.open(["https://kin.example/key.jsonl"])


@pytest.mark.parametrize(
    "given",
    ["memory://bucket/data", "memory://bucket/data/*.jsonl", "memory://bucket/data/b.jsonl"],
)
def test_remote_files_are_read(given: str, tmp_path: Path) -> None:
    import fsspec

    storage = fsspec.filesystem("memory")
    storage.pipe("/bucket/data/b.jsonl", to_json_lines())
    corpus = FileCorpus.open([given])
    assert [row["text"] for row in read_corpus(corpus, Columns())[0]] == SAMPLE_TEXTS
    assert corpus.files[0].status().size == len(to_json_lines())
    storage.rm("/bucket", recursive=True)


class NoCredentialsError(Exception):
    """An error like those of botocore, which is neither an OSError nor a ValueError."""


class BucketError(Exception):
    """An error like those of other drivers."""


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (
            NoCredentialsError("Unable to locate credentials"),
            "no credentials for s3://bucket/a.jsonl; set AWS_ACCESS_KEY_ID",
        ),
        (
            BucketError("ClientError (InvalidRegion)"),
            r"cannot list s3://bucket/a.jsonl: ClientError \(InvalidRegion\)",
        ),
        (
            FileNotFoundError("The specified bucket does not exist"),
            r"s3://bucket/a.jsonl does not exist \(The specified bucket",
        ),
        (PermissionError("Forbidden"), r"no permission to list s3://bucket/a.jsonl \(Forbidden\)"),
        (TimeoutError(), "cannot list s3://bucket/a.jsonl: TimeoutError"),
    ],
)
def test_unreachable_storage_is_one_error_with_a_remedy(
    raised: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Storage:
        def isdir(self, path: str) -> bool:
            raise raised

    driver = ModuleType("botocore.exceptions")
    driver.__dict__.update(BotoCoreError=NoCredentialsError, ClientError=BucketError)
    monkeypatch.setitem(sys.modules, "botocore.exceptions", driver)
    monkeypatch.setattr(
        "nearkin.corpus.inputs.open_filesystem", lambda url: (Storage(), "bucket/a.jsonl")
    )
    with pytest.raises(UsageError, match=message):
        find_inputs(["s3://bucket/a.jsonl"])


@pytest.mark.parametrize(
    "name", ["a.jsonl", "a.jsonl.gz", "a.parquet", "a.arrow", "a.csv", "a.orc"]
)
def test_broken_connection_is_an_error_and_not_a_rejection(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines_of(*range(20_000)).encode()))
    if name == "a.orc":
        rows = pa.table({"text": [words_of(number) for number in range(20_000)]})
        orc.write_table(rows, tmp_path / name, compression="uncompressed")
    if name in FILE_WRITERS:
        FILE_WRITERS[name](
            tmp_path / name, pa.table({"text": [words_of(i) for i in range(20_000)]})
        )
    data = (tmp_path / name).read_bytes()
    url = f"memory://broken/{name}"
    with fsspec.open(url, "wb") as file:
        file.write(data)
    corpus = FileCorpus.open([url])
    corpus.check(Columns())
    read = MemoryFile.read

    def breaking(self: MemoryFile, size: int = -1) -> bytes:
        if 0 < self.tell() < len(data) // 2 + 1 and size > 0:
            raise ConnectionResetError("the connection was reset")
        found: bytes = read(self, size)
        return found

    monkeypatch.setattr(MemoryFile, "read", breaking)
    with pytest.raises(
        RunError, match=r"cannot read memory://broken/.*: the connection was reset; run again"
    ):
        list(corpus.batches(Columns()))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://localhost:1/x.jsonl", "Connection refused"),
        ("zip://a.zip", "cannot open zip://a.zip: "),
        ("zip://a.csv::file:///nowhere/a.zip", "No such file or directory"),
        ("reference://x", "file systems of reference:// need options"),
        ("dbfs://x", "file systems of dbfs:// need options"),
        ("dir://x", "file systems of dir:// need options"),
        ("generic://x", "file systems of generic:// need options"),
        ("http://[::1/x", "addresses in brackets are not supported"),
        ("https://user:secret@[::1]:80/x", r"user:\*\*\*@.* addresses in brackets"),
        ("xyz://a", "Protocol not known"),
        ("http://host:port/x.csv", "cannot list http://host:port/x.csv: "),
    ],
)
def test_url_that_a_driver_refuses_is_a_usage_error(url: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        find_inputs([url])
