"""Scripts and styles of the console's libraries: compressed once, kept, and answered from memory."""

import asyncio
import gzip
import hashlib
import mimetypes
import pkgutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dash.fingerprint import check_fingerprint
from starlette.requests import Request
from starlette.responses import Response

LEVEL = 6
SOURCE_MAP = ".map"
LASTING = "public, max-age=31536000, immutable"
"""The header for addresses that contain a fingerprint of the content."""
CHECKED = "public, no-cache"
"""The header for other addresses: a browser keeps the file and asks whether it has changed."""


@dataclass(frozen=True)
class Asset:
    """One file.

    Attributes:
        package: Python package that contains the file.
        name: Path of the file in the package.
        kind: Media type.
        etag: Fingerprint of the content, quoted.
        packed: Content, compressed by gzip.
    """

    package: str
    name: str
    kind: str
    etag: str
    packed: bytes

    @classmethod
    def load(cls, package: str, name: str) -> "Asset":
        """Reads and compresses a file; to be called in a thread."""
        content = pkgutil.get_data(package, name) or b""
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        return cls(package, name, kind, etag, gzip.compress(content, LEVEL, mtime=0))


class Assets:
    """The files that the pages may load, and no others.

    A request costs what it takes to send the file: each is read and compressed once, however many
    ask for it.

    Args:
        names: Paths of files by package.
    """

    def __init__(self, names: Mapping[str, Collection[str]]) -> None:
        self._known = {
            (package, name)
            for package, some in names.items()
            for name in some
            if not name.endswith(SOURCE_MAP)
        }
        self._loaded: dict[tuple[str, str], asyncio.Task[Asset]] = {}

    async def answer(self, request: Request, path: str) -> Response | None:
        """Returns the answer to a request for `package/name`, or None if there is no such file."""
        package, _, rest = path.partition("/")
        name, fingerprinted = check_fingerprint(rest)  # type: ignore[no-untyped-call]
        if (package, name) not in self._known:
            return None
        asset = await self._load(package, name)
        headers = {
            "Cache-Control": LASTING if fingerprinted else CHECKED,
            "ETag": asset.etag,
            "Vary": "Accept-Encoding",
        }
        if request.headers.get("if-none-match") == asset.etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                asset.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=asset.kind
            )
        # reading it again costs a tenth of unpacking it
        content = await asyncio.to_thread(pkgutil.get_data, package, name)
        return Response(content, headers=headers, media_type=asset.kind)

    async def _load(self, package: str, name: str) -> Asset:
        """Loads a file at the first request; others that come meanwhile wait for the same load."""
        if (package, name) not in self._loaded:
            self._loaded[package, name] = asyncio.create_task(
                asyncio.to_thread(Asset.load, package, name)
            )
        # a client that goes away must not cancel what others wait for
        return await asyncio.shield(self._loaded[package, name])
