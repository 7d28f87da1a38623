"""A server that answers like S3, from a dictionary of objects."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

FORBIDDEN = b"<Error><Code>AccessDenied</Code><Message>refused</Message></Error>"
MISSING = b"<Error><Code>NoSuchKey</Code><Message>it does not exist</Message></Error>"


class S3Handler(BaseHTTPRequestHandler):
    """A handler that knows listings, and whole objects and ranges of them."""

    objects: dict[str, bytes]
    """The objects by bucket and key."""
    options: dict[str, Any]
    """`status`: The status of all answers; `breaks_at`: bytes after which connections break."""
    protocol_version = "HTTP/1.1"

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
        found = [key for key in keys if key.startswith(prefix)]
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


@contextmanager
def serve_objects(objects: dict[str, bytes], options: dict[str, Any]) -> Iterator[str]:
    """Yields the address of a server of objects.

    Args:
        objects: The objects by bucket and key. They may be changed while the server runs.
        options: Faults of the server, which may be changed, too.
    """
    handler = type("Handler", (S3Handler,), {"objects": objects, "options": options})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
