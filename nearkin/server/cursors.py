"""Cursors of listings: where a page ended, by the order of the listing and not by a count.

A count would skip and repeat what stays when something before it comes or goes. A cursor names the listing that it was made
for, so that one of another scope, order or index is refused, as is one that was changed on its way. It gives no access: the
token does.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Any

import orjson

from nearkin.server.http.problems import ProblemError

CHECK_BYTES = 8
MOST_LENGTH = 4096
"""Maximum number of characters of a cursor; the longest id makes about 1,500."""
FIRST = "0"
"""The cursor of the first page."""


def encode_cursor(listing: tuple[str, ...], position: list[Any]) -> str:
    """Returns the cursor of a position in a listing.

    Args:
        listing: What the listing is of: its kind, its scope, and whatever else makes it another one.
        position: Values by which the listing is in order, of the last row of the page, as JSON has them.

    Examples:
        >>> cursor = cursor_at(("clusters", "a"), [3, "one"])
        >>> position_of(cursor, ("clusters", "a"))
        [3, 'one']
    """
    body = orjson.dumps(position)
    return urlsafe_b64encode(_check(listing, body) + body).decode().rstrip("=")


def decode_cursor(cursor: str, listing: tuple[str, ...]) -> list[Any] | None:
    """Returns the position that a cursor of this listing says, or None for the first page.

    Raises:
        ProblemError: If the cursor was made for another listing, or was changed.
    """
    if cursor == FIRST:
        return None
    try:
        decoded = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (binascii.Error, ValueError):
        decoded = b""
    check, body = decoded[:CHECK_BYTES], decoded[CHECK_BYTES:]
    if not body or check != _check(listing, body):
        raise ProblemError(
            "invalid-request",
            "the cursor is not one of this listing: pass the one of the previous page as it is, with the same scope, order and "
            "index, or begin again without one",
            field="/cursor",
        )
    position: list[Any] = orjson.loads(body)
    return position


def _check(listing: tuple[str, ...], body: bytes) -> bytes:
    return blake2b(orjson.dumps(listing) + b"\0" + body, digest_size=CHECK_BYTES).digest()
