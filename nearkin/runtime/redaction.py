"""Redaction: the replacement of passwords and tokens in texts that are shown, logged or stored."""

import re

HIDDEN = "***"
_NO_PASSWORD = (
    r"(?!//[a-z0-9-]{1,63}@[a-z0-9]{1,24}\.(?:dfs|blob)\.core\.)"
    r"(?!(?<=\bhf:)//(?:datasets/|spaces/)?[\w.-]{1,96}/[\w.-]{1,96}@)"
)
_SCHEME = r"\b[a-z][a-z0-9+.-]{0,32}:/{1,3}"
_PORT = r"(?!\d{1,5}(?:[/?#\s,;:'\")\]]|$))"
_URL = re.compile(
    rf"(?P<start>(?:{_SCHEME})?(?<![^\s/'\"=(\[,])[^\s:@/'\"]{{0,128}}):{_NO_PASSWORD}"
    r"(?:(?!:/)\S){1,256}@",
    re.IGNORECASE,
)
"""A URL, with or without its scheme, that has a colon before its host.

The password ends at the last @ before white space or the next URL. A password that is not
percent-encoded can contain @, / or :, and error messages quote such URLs. What precedes the host of
Azure Blob Storage is the name of a container, and what precedes the @ of hf://ORG/NAME@REVISION is
the name of a repository.
"""
_LONG_PASSWORD = re.compile(
    rf"(?P<start>{_SCHEME}[^\s:@/'\"]{{0,128}}):{_PORT}(?:(?!:/)[^\r\n]){{1,20000}}@", re.IGNORECASE
)
"""A URL with its scheme, whose password is long or contains white space.

It ends at the last @ of the line before the next URL. The number of a port is not a password.
"""
_OPTION = re.compile(
    r"(?P<name>\b(?:ssl|(?:[a-z]{1,20}[_-]){1,3})?(?:pass(?:word|wd)?|pwd|secret(?:[_-]?key)?|access[_-]?key(?:[_-]?id)?|api[_-]?key|auth[_-]?token|token|sig(?:nature)?)=)[^\s&'\"#,;]+",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"\bnk_(?P<name>[a-z0-9][a-z0-9-]{0,62})_[A-Za-z0-9_-]{43}\b")
"""A token of a server, which begins with nk_."""
_HUB_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{16,}")
"""A token of the Hugging Face Hub."""


def redact(text: str) -> str:
    """Returns a text in which passwords of URLs and tokens are replaced.

    Examples:
        >>> redact("redis://:se/cr@t@db:6379/0, postgresql://kin:secret@db/kin?sslpassword=other&schema=a")
        'redis://:***@db:6379/0, postgresql://kin:***@db/kin?sslpassword=***&schema=a'
        >>> redact("https://account.blob.core.windows.net/box?sv=2024&sig=s%2Fecret&se=2026")
        'https://account.blob.core.windows.net/box?sv=2024&sig=***&se=2026'
        >>> redact("cannot connect to redis://me:se c@ret@db:6379/0: the port is not a number")
        'cannot connect to redis://me:***@db:6379/0: the port is not a number'
        >>> redact("nothing to hide: http://db:8080/a?b=c, not even in someone@example.org")
        'nothing to hide: http://db:8080/a?b=c, not even in someone@example.org'
        >>> redact("cannot read hf://datasets/kin/news@main/a.jsonl with hf_abcdefghijklmnopqrst")
        'cannot read hf://datasets/kin/news@main/a.jsonl with hf_***'
    """
    if "@" in text:
        text = _LONG_PASSWORD.sub(rf"\g<start>:{HIDDEN}@", text)
        text = _URL.sub(rf"\g<start>:{HIDDEN}@", text)
    if "=" in text:
        text = _OPTION.sub(rf"\g<name>{HIDDEN}", text)
    if "hf_" in text:
        text = _HUB_TOKEN.sub(f"hf_{HIDDEN}", text)
    return _TOKEN.sub(rf"nk_\g<name>_{HIDDEN}", text) if "nk_" in text else text
