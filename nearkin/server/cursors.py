"""Cursors of paginated listings.

A cursor contains the position at which a page ended in the order of the listing, not a row count. A
count would skip or repeat rows when earlier rows are inserted or deleted. A cursor also contains a
checksum of the listing that it was created for, so that a cursor of another scope, order or index
is rejected, as is a modified one. It grants no access; the token does.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Any

import orjson

from nearkin.server.http.problems import ProblemError

CHECKSUM_BYTES = 8
MAX_CURSOR_LENGTH = 1 << 15
"""Maximum number of characters of a cursor.

Two ids of 1,024 bytes result in up to 16,400 characters, because JSON escapes some of theirs.
"""
FIRST_PAGE = "0"
"""The cursor of the first page."""


def encode_cursor(listing: tuple[str, ...], position: list[Any]) -> str:
    """Returns the cursor of a position in a listing.

    Args:
        listing: Identity of the listing: its kind, its scope, and whatever else distinguishes it.
        position: Sort key of the last row of the page, as JSON values.

    Examples:
        >>> cursor = encode_cursor(("clusters", "a"), [3, "one"])
        >>> decode_cursor(cursor, ("clusters", "a"))
        [3, 'one']
    """
    body = orjson.dumps(position)
    return _encode(_checksum(listing, body) + body)


def decode_cursor(cursor: str, listing: tuple[str, ...]) -> list[Any] | None:
    """Returns the position in a cursor, or None for the cursor of the first page.

    Args:
        cursor: The cursor that the client sent.
        listing: Identity of the listing that is requested.

    Raises:
        ProblemError: If the cursor belongs to another listing or was modified.
    """
    if cursor == FIRST_PAGE:
        return None
    try:
        decoded = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (binascii.Error, ValueError):
        decoded = b""
    checksum = decoded[:CHECKSUM_BYTES]
    body = decoded[CHECKSUM_BYTES:]
    # the decoder skips characters that are not of the alphabet
    if not body or checksum != _checksum(listing, body) or _encode(decoded) != cursor:
        raise ProblemError(
            "invalid-request",
            "the cursor does not belong to this listing; pass the cursor of the previous page "
            "unchanged with the same scope, "
            "order and index, or start again without a cursor",
            field="/cursor",
        )
    position: list[Any] = orjson.loads(body)
    return position


def _encode(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _checksum(listing: tuple[str, ...], body: bytes) -> bytes:
    return blake2b(orjson.dumps(listing) + b"\0" + body, digest_size=CHECKSUM_BYTES).digest()
