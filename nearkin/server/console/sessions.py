"""Who is logged in: a signed cookie that names a token without holding it, so that any worker can read it."""

import os
import secrets
from pathlib import Path

from itsdangerous import BadData, URLSafeTimedSerializer

LASTS = 12 * 3600
"""Seconds after which one logs in again."""
SECRET = "console.secret"


class Sessions:
    """Writes and reads the cookie.

    Args:
        secret: What it is signed with, 32 bytes.

    Examples:
        >>> own, other = Sessions(bytes(32)), Sessions(b"other")
        >>> own.read(own.write("reader", "mark")), other.read(own.write("reader", "mark")), own.read("reader")
        (('reader', 'mark'), None, None)
    """

    def __init__(self, secret: bytes) -> None:
        self._signer = URLSafeTimedSerializer(secret, salt="nearkin console")

    def write(self, name: str, mark: str) -> str:
        """The cookie of a token, by its name and its mark."""
        text: str = self._signer.dumps([name, mark])
        return text

    def read(self, cookie: str) -> tuple[str, str] | None:
        """Name and mark; None where it is too old, or not written by this server."""
        try:
            name, mark = self._signer.loads(cookie, max_age=LASTS)
        except BadData:
            return None
        return name, mark


def load_signing_secret(shared: Path | None) -> bytes:
    """What cookies are signed with: this process' own, or one for all workers of a server, from the folder that they share.

    It is not kept: whoever is logged in when a server is started anew logs in again.
    """
    made = secrets.token_bytes(32)
    if shared is None:
        return made
    path, staging = shared / SECRET, shared / f"{SECRET}.{os.getpid()}"
    with os.fdopen(os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(made)
    try:
        # whole or not at all, and the first worker's for all of them
        os.link(staging, path)
    except FileExistsError:
        made = path.read_bytes()
    finally:
        staging.unlink()
    return made
