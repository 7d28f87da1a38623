"""Tests of S3, Google Cloud Storage and Azure Blob Storage through the drivers of pyarrow."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import Columns, FileCorpus, cloud_storage
from nearkin.corpus.inputs import Selection, find_inputs
from nearkin.corpus.remote import open_filesystem
from nearkin.errors import RunError, UsageError
from tests.corpus.object_storage import Storage, point_to, serve_storage
from tests.corpus.samples import SAMPLE_TEXTS, read_corpus, to_json_lines
from tests.services import free_port


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    with serve_storage(monkeypatch) as served:
        yield served


def texts_of(*given: str, **selection: Any) -> list[str]:
    corpus = FileCorpus.open(list(given), selection=Selection(**selection))
    return [str(row["text"]) for row in read_corpus(corpus, Columns())[0]]


@pytest.mark.parametrize(
    "given",
    [
        "s3://bucket/data",
        "s3a://bucket/data/",
        "s3://bucket/data/*.jsonl",
        "s3://bucket/**/b.jsonl",
    ],
)
def test_folders_and_patterns_of_s3_are_read(given: str, storage: Storage) -> None:
    storage.objects["bucket/data/b.jsonl"] = to_json_lines()
    storage.objects["bucket/other/c.txt"] = b"another text"
    assert texts_of(given) == SAMPLE_TEXTS


def test_formats_compressions_and_names_of_s3_are_read(storage: Storage, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": SAMPLE_TEXTS}), tmp_path / "a.parquet")
    storage.objects["bucket/a b#1?/a.parquet"] = (tmp_path / "a.parquet").read_bytes()
    storage.objects["bucket/zipped.jsonl.gz"] = gzip.compress(to_json_lines())
    assert texts_of("s3://bucket/a b#1?/a.parquet") == SAMPLE_TEXTS
    assert texts_of("s3://bucket/zipped.jsonl.gz") == SAMPLE_TEXTS
    result = nk.dedup("s3://bucket", exclude=["*.gz"])
    assert len(result) == len(SAMPLE_TEXTS)


def test_files_of_s3_are_included_excluded_and_hidden(storage: Storage) -> None:
    for name in ("a.jsonl", "b.jsonl", "_SUCCESS", "old/c.jsonl"):
        storage.objects[f"bucket/data/{name}"] = to_json_lines()
    listing = find_inputs(["s3://bucket/data"], Selection(exclude=("old",), include=("*.jsonl",)))
    assert [file.path for file in listing.files] == [
        "s3://bucket/data/a.jsonl",
        "s3://bucket/data/b.jsonl",
    ]
    assert {entry.path for entry in listing.skipped} == {
        "s3://bucket/data/_SUCCESS",
        "s3://bucket/data/old/c.jsonl",
    }


def test_a_changed_object_has_another_status(storage: Storage) -> None:
    storage.objects["bucket/a.jsonl"] = b'{"text": "one two three"}\n'
    [file] = FileCorpus.open(["s3://bucket/a.jsonl"]).files
    before = file.status()
    assert before == file.status()
    assert before.size == len(storage.objects["bucket/a.jsonl"])
    # the size and the time are the same
    storage.objects["bucket/a.jsonl"] = b'{"text": "one two other"}\n'
    assert file.status().identity != before.identity


def test_a_broken_connection_to_s3_is_an_error_and_not_a_rejection(storage: Storage) -> None:
    storage.objects["bucket/a.jsonl"] = to_json_lines() * 2000
    corpus = FileCorpus.open(["s3://bucket/a.jsonl"])
    corpus.check(Columns())
    storage.options["breaks_at"] = 1000
    with pytest.raises(RunError, match=r"cannot read s3://bucket/a.jsonl: .*; run again"):
        list(corpus.batches(Columns()))


def test_a_refusal_of_s3_is_one_sentence_with_a_remedy(storage: Storage) -> None:
    storage.options["status"] = 403
    with pytest.raises(UsageError, match=r"no permission to list s3://bucket/a.jsonl") as raised:
        FileCorpus.open(["s3://bucket/a.jsonl"])
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_objects_of_s3_are_named(storage: Storage) -> None:
    with pytest.raises(UsageError, match=r"no files match s3://bucket/none.jsonl"):
        FileCorpus.open(["s3://bucket/none.jsonl"])


def test_an_endpoint_where_nothing_listens_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point_to(f"http://127.0.0.1:{free_port()}", monkeypatch)
    with pytest.raises(UsageError, match=r"cannot list s3://bucket/a.jsonl: .*NETWORK_CONNECTION"):
        FileCorpus.open(["s3://bucket/a.jsonl"])
    cloud_storage._connect_s3.cache_clear()


@pytest.mark.parametrize(
    "url", ["abfs://box@account.dfs.core.windows.net/a/b.csv", "abfss://box/a/b.csv"]
)
def test_the_account_of_azure_is_in_the_url_or_the_environment(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    filesystem, path = open_filesystem(url)
    assert path == "box/a/b.csv"
    assert filesystem.fs.type_name == "abfs"
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
    with pytest.raises(UsageError, match="names no storage account; write it after the container"):
        open_filesystem("abfs://box/a/b.csv")


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9", "localhost:9", "ftp://localhost:9"])
def test_an_endpoint_without_http_is_named(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point_to(endpoint, monkeypatch)
    with pytest.raises(UsageError, match=f"AWS_ENDPOINT_URL={endpoint} is not a URL of HTTP"):
        nk.dedup("s3://bucket/a.jsonl")


def test_a_bucket_name_with_a_password_is_refused_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud_storage._connect_s3.cache_clear()
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError) as error:
        nk.dedup("s3://id:hunter2@bucket/a.jsonl")
    assert "hunter2" not in str(error.value)


def test_two_credentials_of_azure_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud_storage._connect_azure.cache_clear()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=hunter2")
    with pytest.raises(UsageError, match="are both set; unset one of them"):
        nk.dedup("abfs://box@account.dfs.core.windows.net/a.jsonl")


def test_errors_hide_the_sas_token_of_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("Check on 'https://a.blob.core.windows.net/sv=1&sig=hunter2/box' failed")

    cloud_storage._connect_azure.cache_clear()
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=hunter2")
    monkeypatch.setattr(cloud_storage.CloudStorage, "info", refuse)
    with pytest.raises(UsageError, match="sig=") as error:
        nk.dedup("abfs://box@account.dfs.core.windows.net/a.jsonl")
    assert "hunter2" not in str(error.value)
