"""Sessions of the console: signed cookies that identify a token."""

import os
import secrets
from pathlib import Path

from itsdangerous import BadData, URLSafeTimedSerializer

SESSION_SECONDS = 12 * 3600
"""Seconds after which a session expires."""
SECRET_FILE = "console.secret"


class Sessions:
    """A writer and reader of session cookies.

    Args:
        secret: Secret of 32 bytes with which cookies are signed.

    Examples:
        >>> own, other = Sessions(bytes(32)), Sessions(b"other")
        >>> cookie = own.write("reader", "mark")
        >>> own.read(cookie), other.read(cookie), own.read("reader")
        (('reader', 'mark'), None, None)
    """

    def __init__(self, secret: bytes) -> None:
        self._signer = URLSafeTimedSerializer(secret, salt="nearkin console")

    def write(self, name: str, mark: str) -> str:
        """Returns the cookie of a token."""
        text: str = self._signer.dumps([name, mark])
        return text

    def read(self, cookie: str) -> tuple[str, str] | None:
        """Returns the name and the session mark of a token; None if the cookie is not valid."""
        try:
            name, mark = self._signer.loads(cookie, max_age=SESSION_SECONDS)
        except BadData:
            return None
        return name, mark


def load_signing_secret(shared: Path | None) -> bytes:
    """Returns the secret for signing cookies, which all workers share.

    It is not stored permanently. Users log in again after a restart of the server.
    """
    secret = secrets.token_bytes(32)
    if shared is None:
        return secret
    path, staging = shared / SECRET_FILE, shared / f"{SECRET_FILE}.{os.getpid()}"
    with os.fdopen(os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(secret)
    try:
        # the link is atomic, and the secret of the first worker is used by all
        os.link(staging, path)
    except FileExistsError:
        secret = path.read_bytes()
    finally:
        staging.unlink()
    return secret
