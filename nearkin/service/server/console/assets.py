"""Scripts and styles of the console's libraries, which are compressed once."""

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

GZIP_LEVEL = 6
SOURCE_MAP = ".map"
IMMUTABLE = "public, max-age=31536000, immutable"
"""The Cache-Control header for URLs that contain a fingerprint of the content."""
REVALIDATED = "public, no-cache"
"""The Cache-Control header for other URLs. Browsers check whether the file has changed."""


@dataclass(frozen=True)
class Asset:
    """A file of a library.

    Attributes:
        package: Python package that contains the file.
        name: Path of the file in the package.
        media_type: Media type.
        etag: Fingerprint of the content, quoted.
        content: Content. It is kept, so that slow clients do not each keep a copy.
        packed: Content, compressed by gzip.
    """

    package: str
    name: str
    media_type: str
    etag: str
    content: bytes
    packed: bytes

    @classmethod
    def load(cls, package: str, name: str) -> "Asset":
        """Reads and compresses a file. It should be called in a thread."""
        content = pkgutil.get_data(package, name) or b""
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        packed = gzip.compress(content, GZIP_LEVEL, mtime=0)
        return cls(package, name, media_type, etag, content, packed)


class Assets:
    """The files that pages may load. Other files are not served.

    A request costs what it takes to send the file: each is read and compressed once, however many
    ask for it.
    """

    def __init__(self, names: Mapping[str, Collection[str]]) -> None:
        self._known = {
            (package, name)
            for package, files in names.items()
            for name in files
            if not name.endswith(SOURCE_MAP)
        }
        self._loaded: dict[tuple[str, str], asyncio.Task[Asset]] = {}

    async def answer(self, request: Request, path: str) -> Response | None:
        """Returns the response for a file, or None if it does not exist."""
        package, _, rest = path.partition("/")
        name, fingerprinted = check_fingerprint(rest)  # type: ignore[no-untyped-call]
        if (package, name) not in self._known:
            return None
        asset = await self._load(package, name)
        headers = {
            "Cache-Control": IMMUTABLE if fingerprinted else REVALIDATED,
            "ETag": asset.etag,
            "Vary": "Accept-Encoding",
        }
        if request.headers.get("if-none-match") == asset.etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                asset.packed,
                headers={**headers, "Content-Encoding": "gzip"},
                media_type=asset.media_type,
            )
        return Response(asset.content, headers=headers, media_type=asset.media_type)

    async def _load(self, package: str, name: str) -> Asset:
        """Returns a file, which the first request loads.

        Concurrent requests wait for the same load.
        """
        if (package, name) not in self._loaded:
            self._loaded[package, name] = asyncio.create_task(
                asyncio.to_thread(Asset.load, package, name)
            )
        # a cancelled request must not cancel the load that others wait for
        return await asyncio.shield(self._loaded[package, name])
