"""A server that answers like S3, from a dictionary of objects."""

import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4
from xml.sax.saxutils import escape, unescape

import pytest

from nearkin.corpus import cloud_storage

FORBIDDEN = b"<Error><Code>AccessDenied</Code><Message>refused</Message></Error>"
MULTIPART = "<InitiateMultipartUploadResult><UploadId>{}</UploadId></InitiateMultipartUploadResult>"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_EC2_METADATA_DISABLED": "true",
}
MISSING = b"<Error><Code>NoSuchKey</Code><Message>it does not exist</Message></Error>"


class S3Handler(BaseHTTPRequestHandler):
    """A handler that knows listings, and whole objects and ranges of them.

    Objects are written whole or in parts, and deleted.
    """

    objects: dict[str, bytes]
    """The objects by bucket and key."""
    uploads: dict[str, dict[int, bytes]]
    """The parts of unfinished uploads, by the name of the upload."""
    options: dict[str, Any]
    """`status`: The status of all answers; `status_of_writes`: that of writes and deletions, or a
    function of the path that returns it, or None for success; `breaks_at`: bytes after which
    connections break; `reads`: receives what is read."""
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def handle_expect_100(self) -> bool:
        answered = super().handle_expect_100()
        self.wfile.flush()
        return answered

    def do_PUT(self) -> None:
        path, query, body = self._read_write()
        if (status := self._refused(path)) is not None:
            return self._answer(status, FORBIDDEN)
        if "uploadId" in query:
            self.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
        else:
            self.objects[path] = body
        tag = hashlib.md5(body).hexdigest()
        return self._answer(200, b"", headers={"ETag": f'"{tag}"'})

    def do_POST(self) -> None:
        path, query, body = self._read_write()
        if (status := self._refused(path)) is not None:
            return self._answer(status, FORBIDDEN)
        if "uploads" in query:
            name = uuid4().hex
            self.uploads[name] = {}
            return self._answer(200, MULTIPART.format(name).encode())
        if "delete" in query:
            for key in re.findall("<Key>(.*?)</Key>", body.decode()):
                self.objects.pop(f"{path}/{unescape(key)}", None)
            return self._answer(200, b"<DeleteResult></DeleteResult>")
        parts = self.uploads.pop(query["uploadId"][0])
        self.objects[path] = b"".join(parts[number] for number in sorted(parts))
        return self._answer(200, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")

    def do_DELETE(self) -> None:
        path, _, _ = self._read_write()
        if (status := self._refused(path)) is not None:
            return self._answer(status, FORBIDDEN)
        self.objects.pop(path, None)
        return self._answer(204, b"")

    def _refused(self, path: str) -> int | None:
        """Returns the status with which a write is refused, or None."""
        status: Any = self.options.get("status_of_writes")
        return status(path) if callable(status) else status

    def _read_write(self) -> tuple[str, dict[str, list[str]], bytes]:
        """Returns the path, the query and the body of a request that writes."""
        parts = urlsplit(self.path)
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = join_chunks(self.rfile)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "aws-chunked":
            body = join_chunks(io.BytesIO(body))
        query = parse_qs(parts.query, keep_blank_values=True)
        return unquote(parts.path).lstrip("/"), query, body

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if "status" in self.options:
            return self._answer(self.options["status"], FORBIDDEN)
        parts = urlsplit(self.path)
        path = unquote(parts.path).strip("/")
        query = parse_qs(parts.query)
        if "list-type" in query:
            return self._list(path, query)
        if any(name.startswith(f"{path}/") for name in self.objects) and "/" not in path:
            return self._answer(200, b"")
        if path not in self.objects:
            return self._answer(404, MISSING)
        data = self.objects[path]
        self.options.get("reads", []).append(path)
        given = self.headers.get("Range")
        if given is None:
            return self._answer(200, data, data)
        first, _, last = given.removeprefix("bytes=").partition("-")
        part = data[int(first) : int(last or len(data)) + 1]
        where = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        return self._answer(206, part, data, {"Content-Range": where})

    def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0]
        delimiter = query.get("delimiter", [""])[0]
        keys = sorted(
            name.removeprefix(f"{bucket}/") for name in self.objects if name.startswith(bucket)
        )
        after = query.get("start-after", [""])[0]
        found = [key for key in keys if key.startswith(prefix) and key > after]
        folders = set()
        if delimiter:
            folders = {
                prefix + key[len(prefix) :].partition(delimiter)[0] + delimiter
                for key in found
                if delimiter in key[len(prefix) :]
            }
            found = [key for key in found if delimiter not in key[len(prefix) :]]
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[f'{bucket}/{key}'])}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in found
        )
        entries += "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            for name in sorted(folders)
        )
        count = len(found) + len(folders)
        self._answer(
            200,
            f"<ListBucketResult><Name>{bucket}</Name><KeyCount>{count}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode(),
        )

    def _answer(
        self,
        status: int,
        body: bytes,
        whole: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/octet-stream" if whole else "application/xml")
        if whole is not None:
            self.send_header("ETag", f'"{hashlib.md5(whole).hexdigest()}"')
            self.send_header("Last-Modified", formatdate(1_700_000_000, usegmt=True))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        breaks_at = self.options.get("breaks_at")
        if self.command == "HEAD":
            return
        if breaks_at is not None and whole is not None and len(body) > breaks_at:
            self.wfile.write(body[:breaks_at])
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def join_chunks(file: Any) -> bytes:
    """Returns the content of a body of chunks, each of which follows a line with its size."""
    content = b""
    while size := int(file.readline().partition(b";")[0], 16):
        content += file.read(size)
        file.readline()
    while file.readline().strip():
        pass
    return content


@contextmanager
def serve_objects(objects: dict[str, bytes], options: dict[str, Any]) -> Iterator[str]:
    """Yields the address of a server of objects.

    Args:
        objects: The objects by bucket and key. They may be changed while the server runs.
        options: Faults of the server, which may be changed, too.
    """
    state = {"objects": objects, "uploads": {}, "options": options}
    handler = type("Handler", (S3Handler,), state)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Storage:
    """The objects and the faults of a server."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.options: dict[str, Any] = {}


@contextmanager
def serve_storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """Yields a storage that is the one of the protocol s3."""
    served = Storage()
    with serve_objects(served.objects, served.options) as address:
        point_to(address, monkeypatch)
        yield served
    cloud_storage._connect_s3.cache_clear()


def point_to(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a server that of the protocol s3."""
    cloud_storage._connect_s3.cache_clear()
    for name, value in {"AWS_ENDPOINT_URL": address, **CREDENTIALS}.items():
        monkeypatch.setenv(name, value)
