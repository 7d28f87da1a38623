"""Canonical forms of URLs, by which documents of the same address are recognized.

Two URLs are equal if RFC 3986 (section 6.2) says that they are, and if they differ in nothing but
their fragment and their tracking parameters. yarl normalizes the case of scheme and host,
international host names, default ports, dot segments and percent-encoding.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from nearkin.errors import MissingExtraError

if TYPE_CHECKING:
    import yarl

TRACKING_PREFIXES = ("utm_", "mtm_", "pk_", "hsa_", "at_custom", "vero_")
"""Beginnings of the names of parameters that campaigns append to URLs."""
TRACKING_PARAMETERS = frozenset(
    {
        "_ga",
        "_gl",
        "_hsenc",
        "_hsmi",
        "_openstat",
        "dclid",
        "fb_action_ids",
        "fb_action_types",
        "fb_ref",
        "fb_source",
        "fbclid",
        "gad_source",
        "gbraid",
        "gclid",
        "gclsrc",
        "igshid",
        "li_fat_id",
        "mc_cid",
        "mc_eid",
        "mkt_tok",
        "msclkid",
        "oly_anon_id",
        "oly_enc_id",
        "srsltid",
        "ttclid",
        "twclid",
        "wbraid",
        "wickedid",
        "yclid",
        "ysclid",
    }
)
"""Names of parameters by which advertisers and mailing services recognize visitors. None of them
changes the page."""

PARSER_ERRORS = (ValueError, IndexError)
"""The exceptions that yarl raises for texts that are not URLs. IndexError is that of some hosts in
brackets."""


def load_url_parser() -> "Callable[[str], yarl.URL]":
    """Returns the class that parses URLs."""
    try:
        from yarl import URL
    except ImportError as error:
        raise MissingExtraError.for_extra("the option url requires yarl", "urls") from error
    return URL


def canonicalize_urls(values: pa.Array) -> pa.Array:
    """Returns the canonical form of each URL, large_string (n,).

    The fragment and tracking parameters are dropped. The other parameters stay in their order. A
    value that is not an absolute URL with a host stays as it is, without the white space around it.

    Args:
        values: URLs, large_string (n,). Null stays null.

    Examples:
        >>> urls = ["HTTP://Example.COM:80/a/../b%7e?utm_source=x&id=1#top", " not a URL "]
        >>> canonicalize_urls(pa.array(urls, pa.large_string())).to_pylist()
        ['http://example.com/b~?id=1', 'not a URL']
    """
    parse = load_url_parser()
    canonical = [
        None if text is None else _canonicalize(text.strip(), parse) for text in values.to_pylist()
    ]
    return pa.array(canonical, pa.large_string())


def _canonicalize(text: str, parse: "Callable[[str], yarl.URL]") -> str:
    """Returns the canonical form of a URL, or the text itself if it is not one."""
    try:
        url = parse(text)
        if not url.absolute or not url.scheme or not url.raw_host:
            return text
        kept = [part for part in url.raw_query_string.split("&") if not _is_tracking(part)]
        authority = url.raw_authority
        if url.is_default_port():
            authority = authority.removesuffix(f":{url.explicit_port}")
    except PARSER_ERRORS:
        return text
    address = f"{url.scheme}://{authority}{url.raw_path or '/'}"
    query = "&".join(kept)
    return f"{address}?{query}" if query else address


def _is_tracking(parameter: str) -> bool:
    """Returns True if a parameter, for example `utm_source=x`, does not change the page."""
    name = parameter.partition("=")[0].lower()
    return not parameter or name in TRACKING_PARAMETERS or name.startswith(TRACKING_PREFIXES)
