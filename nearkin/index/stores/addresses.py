"""URLs of stores as they may be written down."""

from collections.abc import Iterable
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from nearkin.errors import UsageError
from nearkin.runtime.suggestions import did_you_mean

MEMORY_URL = "memory://"
"""The URL of each store that is in the memory of its process."""
SECRET = ("password", "sslpassword")
"""Options of a URL that are never written down."""


def require_known_options(given: Iterable[str], valid: Iterable[str], shown_url: str) -> None:
    """Requires that a URL has no unknown option.

    Examples:
        >>> require_known_options(["prefx"], ["prefix"], "redis://db/0")
        Traceback (most recent call last):
        ...
        nearkin.errors.UsageError: unknown option 'prefx' of redis://db/0; did you mean 'prefix'?
    """
    known = sorted(valid)
    unknown = sorted(set(given) - set(known))
    if not unknown:
        return
    advice = f"; valid options are {', '.join(known)}" if known else "; it has no options"
    raise UsageError(
        f"unknown option {unknown[0]!r} of {shown_url}{did_you_mean(unknown[0], known) or advice}"
    )


def without_password(url: str, **options: str) -> str:
    """Returns a URL without its passwords, with some options in place of its own.

    Examples:
        >>> without_password("postgresql://nearkin:secret@db/kin?schema=next&password=secret")
        'postgresql://nearkin@db/kin?schema=next'
        >>> without_password("redis://me:secret@db:6379/0?prefix=kin", prefix="other")
        'redis://me@db:6379/0?prefix=other'
    """
    parts = urlsplit(url)
    userinfo, _, host = parts.netloc.rpartition("@")
    user = userinfo.partition(":")[0]
    given = [
        (name, value)
        for name, value in parse_qsl(parts.query)
        if name not in SECRET and name not in options
    ]
    query = urlencode([*given, *options.items()])
    return join_url(parts._replace(netloc=f"{user}@{host}" if user else host, query=query))


def join_url(parts: SplitResult) -> str:
    """Returns the URL of its parts. `urlunsplit` leaves out the slashes of an empty host."""
    return f"{parts.scheme}://{parts.netloc}{parts.path}" + (
        f"?{parts.query}" if parts.query else ""
    )
