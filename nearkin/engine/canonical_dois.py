"""Canonical forms of DOIs, by which documents of the same DOI are recognized.

A DOI is written as it is, after `doi:` or `DOI`, or as an address of doi.org, or after both, in
brackets or not. The case of its letters does not count (DOI Handbook, section 2.4).
"""

import re
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

ADDRESS = r"(?:https?://)?(?:(?:dx|www)\.)?doi\.org/"
"""The beginnings of addresses of DOIs, without their case."""
DOI = re.compile(
    rf"(?:(?P<address>{ADDRESS})|(?:(?:info|urn):)?doi(?:[:/]\s*|\s+))*"
    r"(?P<doi>10\.\d[\d.]*(?:/|%2f)\S+)",
    re.IGNORECASE | re.ASCII,
)
"""A DOI in one of its forms, without brackets around it and punctuation behind it."""
BLANKS = " \t\n\r\f\v\u00a0\u200b\u2060\ufeff"
"""White space, also without a width, around a DOI."""
PUNCTUATION = ".,;/"
"""The characters that can follow a DOI in a sentence or an address."""
LONGEST_DOI = 4096
"""The number of characters up to which a value can be a DOI."""
BRACKETS = ("()", "[]", "<>", "{}")
PREFIX = "10."
"""The beginning of every DOI, so that other values are recognized without the expression."""
ADDRESS_PARTS = re.compile(r"[?#].*")
"""The query and the fragment of an address, which are no part of a DOI."""
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
TO_LOWER = str.maketrans(UPPER, UPPER.lower())


def canonicalize_dois(values: pa.Array) -> pa.Array:
    """Returns values in which each DOI has its canonical form, large_string (n,).

    Args:
        values: Values, large_string (n,). Null stays null, and what is not a DOI stays as it is.

    Examples:
        >>> forms = ["10.1/Ab", "doi:10.1/AB", "https://doi.org/10.1%2FaB?x=1", "page 10.1"]
        >>> canonicalize_dois(pa.array(forms, pa.large_string())).to_pylist()
        ['10.1/ab', '10.1/ab', '10.1/ab', 'page 10.1']
    """
    may_be_doi = pc.fill_null(pc.match_substring(values, PREFIX), fill_value=False)
    if not pc.any(may_be_doi).as_py():
        return values
    found = values.filter(may_be_doi).to_pylist()
    canonical = pa.array(map(_canonicalize, found), pa.large_string())
    return pc.replace_with_mask(values, may_be_doi, canonical)


def _strip(text: str) -> str:
    """Returns a text without white space, brackets around it and punctuation behind it."""
    while True:
        stripped = text.lstrip(BLANKS).rstrip(BLANKS + PUNCTUATION)
        if stripped[:1] + stripped[1:][-1:] in BRACKETS:
            stripped = stripped[1:-1]
        if stripped == text:
            return text
        text = stripped


def _canonicalize(text: str) -> str:
    """Returns the canonical form of a DOI, or the text itself if it is not one."""
    match = DOI.fullmatch(_strip(text)) if len(text) <= LONGEST_DOI else None
    if match is None:
        return text
    doi = match["doi"]
    if match["address"] is not None:
        doi = unquote(ADDRESS_PARTS.sub("", doi))
    return doi.translate(TO_LOWER)
