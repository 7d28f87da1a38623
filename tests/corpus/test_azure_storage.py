"""Tests of Azure Blob Storage over a server that answers as it does, from a dictionary of blobs."""

import functools
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest
from pyarrow import fs

import nearkin as nk
from nearkin.cli.app import run
from nearkin.corpus import Columns, FileCorpus, cloud_storage
from tests.corpus.samples import SAMPLE_TEXTS, read_corpus, to_json_lines

ACCOUNT = "kin"
URL = f"abfs://box@{ACCOUNT}.dfs.core.windows.net"


class BlobHandler(BaseHTTPRequestHandler):
    """A handler that knows listings of a container, and whole blobs and ranges of them."""

    blobs: dict[str, bytes]
    """The blobs of the only container, `box`, by name."""
    status: list[int]
    """The status of all answers, if there is one."""
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        container, _, name = unquote(parts.path).removeprefix(f"/{ACCOUNT}/").partition("/")
        if self.status:
            return self._answer(self.status[0], b"", {"x-ms-error-code": "AuthorizationFailure"})
        if query.get("action") == ["getAccessControl"]:
            # the account has no hierarchical namespace
            return self._answer(400, b"", {"x-ms-error-code": "HierarchicalNamespaceNotEnabled"})
        if container != "box":
            return self._answer(404, b"", {"x-ms-error-code": "ContainerNotFound"})
        if query.get("comp") == ["list"]:
            return self._answer(200, self._list(query), {"Content-Type": "application/xml"})
        if "restype" in query:
            return self._answer(200, b"")
        if name not in self.blobs:
            return self._answer(404, b"", {"x-ms-error-code": "BlobNotFound"})
        content = self.blobs[name]
        given = self.headers.get("x-ms-range")
        if given is None:
            return self._answer(200, content)
        first, _, last = given.removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last or len(content)) + 1]
        end = int(first) + len(part) - 1
        return self._answer(206, part, {"Content-Range": f"bytes {first}-{end}/{len(content)}"})

    def _list(self, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        delimiter = query.get("delimiter", [""])[0]
        entries = []
        folders = set()
        for name, content in sorted(self.blobs.items()):
            below, found, _ = name[len(prefix) :].partition(delimiter or "\0")
            if not name.startswith(prefix):
                continue
            if found:
                folders.add(f"{prefix}{below}{delimiter}")
                continue
            entries.append(
                f"<Blob><Name>{escape(name)}</Name><Properties>"
                f"<Last-Modified>{formatdate(0, usegmt=True)}</Last-Modified>"
                f"<Etag>1</Etag><Content-Length>{len(content)}</Content-Length>"
                "<BlobType>BlockBlob</BlobType></Properties></Blob>"
            )
        entries += [
            f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in sorted(folders)
        ]
        return (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="box">'
            f"<Blobs>{''.join(entries)}</Blobs><NextMarker/></EnumerationResults>"
        ).encode()

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        described: dict[str, str] = {
            "Content-Length": str(len(body)),
            "Last-Modified": formatdate(0, usegmt=True),
            "ETag": '"1"',
            "x-ms-blob-type": "BlockBlob",
            "x-ms-request-id": "1",
            # the driver ends the process if one of the following is missing
            "Content-Type": "application/octet-stream",
            "x-ms-creation-time": formatdate(0, usegmt=True),
            "x-ms-lease-state": "available",
            "x-ms-lease-status": "unlocked",
            "x-ms-server-encrypted": "true",
            "x-ms-access-tier": "Hot",
            **(headers or {}),
        }
        for name, value in described.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Storage:
    """The blobs and the faults of a server."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.status: list[int] = []


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    held = Storage()
    handler = type("Handler", (BlobHandler,), {"blobs": held.blobs, "status": held.status})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_port}"
        local: dict[str, Any] = {
            "blob_storage_authority": place,
            "dfs_storage_authority": place,
            "blob_storage_scheme": "http",
            "dfs_storage_scheme": "http",
        }
        connect = functools.partial(fs.AzureFileSystem, **local)
        monkeypatch.setattr(cloud_storage.fs, "AzureFileSystem", connect)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
        monkeypatch.delenv("AZURE_STORAGE_SAS_TOKEN", raising=False)
        cloud_storage._connect_azure.cache_clear()
        yield held
        server.shutdown()
    cloud_storage._connect_azure.cache_clear()


@pytest.mark.parametrize("given", [f"{URL}/data", f"{URL}/data/*.jsonl", f"{URL}/data/b.jsonl"])
def test_folders_patterns_and_files_of_azure_are_read(given: str, storage: Storage) -> None:
    storage.blobs["data/b.jsonl"] = to_json_lines()
    storage.blobs["other/c.txt"] = b"another text"
    corpus = FileCorpus.open([given])
    assert [row["text"] for row in read_corpus(corpus, Columns())[0]] == SAMPLE_TEXTS
    assert corpus.files[0].status().size == len(to_json_lines())


def test_blobs_of_azure_are_deduplicated(storage: Storage) -> None:
    storage.blobs["data/a.jsonl"] = to_json_lines()
    storage.blobs["data/b.jsonl"] = to_json_lines()
    result = nk.dedup(f"{URL}/data")
    assert len(result.removed) == len(SAMPLE_TEXTS)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, f"no permission to list {URL}/data/b.jsonl"),
        (0, f"no files match {URL}/data/b.jsonl"),
    ],
)
def test_refusal_of_azure_is_one_sentence(
    status: int, message: str, storage: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage.blobs["data/a.jsonl"] = to_json_lines()
    if status:
        storage.status.append(status)
    assert run(["dedup", f"{URL}/data/b.jsonl", "--out", str(tmp_path / "out")]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    if status:
        assert "AZURE_STORAGE_ACCOUNT_KEY" in shown
    assert list(tmp_path.iterdir()) == []
