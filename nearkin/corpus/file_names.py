"""Names of inputs, and the places of their copies inside an output folder."""

import os
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from nearkin.errors import RunError
from nearkin.runtime.redaction import HIDDEN, redact

COMPRESSION_SUFFIXES = frozenset({".gz", ".zst", ".bz2", ".lz4"})
"""The suffixes of compressed files."""


def format_path(path: str) -> str:
    r"""Returns a path as valid Unicode text: bytes that are not UTF-8 become `\xNN`.

    Examples:
        >>> format_path(os.fsdecode(b"caf\xe9.txt"))
        'caf\\xe9.txt'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def hide_password(path: str) -> str:
    """Returns a URL without its password and without secrets among its parameters.

    Other paths are returned unchanged. Unlike in messages, only the places where a URL has secrets
    are searched, because the file must be found again by its path.

    Examples:
        >>> hide_password("https://user:pw@example.org/a:b@c?token=d"), hide_password("s3://bucket/token=1/a:b@c")
        ('https://user:***@example.org/a:b@c?token=***', 's3://bucket/token=1/a:b@c')
    """
    scheme, mark, rest = path.partition("://")
    if not mark:
        return path
    authority, slash, place = rest.partition("/")
    user, at, host = authority.rpartition("@")
    name, colon, _ = user.partition(":")
    if colon:
        user = f"{name}:{HIDDEN}"
    place, question, parameters = place.partition("?")
    return f"{scheme}://{user}{at}{host}{slash}{place}{question}{redact(parameters)}"


def has_hidden_password(path: str) -> bool:
    """Returns True if `hide_password` removed a secret from the URL."""
    return "://" in path and HIDDEN in path


def list_partition_folders(path: str) -> list[str]:
    """Returns the folders `NAME=VALUE` directly above a file, as Hive and Spark write them.

    Examples:
        >>> list_partition_folders("/crawl/year=2024/lang=en/part-0.parquet")
        ['year=2024', 'lang=en']
        >>> list_partition_folders("/a=1/crawl/part-0.parquet")
        []
    """
    if "://" in path:
        # The parameters of a URL can look like such folders.
        path = path.partition("?")[0]
    folders: list[str] = []
    for folder in reversed(path.split("/")[:-1]):
        name, equals, _ = folder.partition("=")
        if not (name and equals):
            break
        folders.insert(0, folder)
    return folders


def make_safe_name(path: str) -> str:
    """Returns a relative name without empty, `.` and `..` parts, which cannot lead out of a folder.

    Examples:
        >>> make_safe_name("/crawl/../a.jsonl"), make_safe_name("s3://bucket/./b.csv")
        ('crawl/__/a.jsonl', 's3:/bucket/b.csv')
    """
    parts = [
        "__" if part == ".." else part
        for part in format_path(path).split("/")
        if part not in ("", ".")
    ]
    return "/".join(parts).replace("\0", "_") or "_"


def make_distinct_names(names: Sequence[str]) -> list[str]:
    """Returns the names, with a number added to each that equals an earlier one.

    Examples:
        >>> make_distinct_names(["a.csv", "a.csv", "b.csv"])
        ['a.csv', 'a-2.csv', 'b.csv']
    """
    taken = set(names)
    used: set[str] = set()
    out = []
    for name in names:
        unique = name if name not in used else _append_number(name, taken | used)
        used.add(unique)
        out.append(unique)
    return out


def make_output_names(names: Sequence[str]) -> list[str]:
    """Returns a name for the copy of each input, so that no two copies share a place.

    Names that differ only by case or by Unicode normalization share a place on some file systems.
    Object storage may hold `a` and `a/b` at once, which no file system can.

    Examples:
        >>> make_output_names(["A.jsonl.gz", "a.jsonl.gz", "part", "part/one.txt"])
        ['A.jsonl.gz', 'a-2.jsonl.gz', 'part-2', 'part/one.txt']
    """
    folders = {_fold_name(str(parent)) for name in names for parent in PurePosixPath(name).parents}
    wanted = {_fold_name(name) for name in names}
    used: set[str] = set()
    out = []
    for name in names:
        free = name
        if _fold_name(name) in used | folders:
            free = _append_number(name, used | folders | wanted)
        used.add(_fold_name(free))
        out.append(free)
    return out


def join_inside(folder: Path, name: str) -> Path:
    """Returns the path of a relative name inside a folder."""
    parts = name.split("/")
    if not name or name.startswith("/") or ".." in parts or "\0" in name:
        raise RunError(
            f"cannot write {name!r}: the name leads out of {folder}; rename the input file"
        )
    return folder / name


def _fold_name(name: str) -> str:
    """Returns the form in which case-insensitive and normalizing file systems compare names."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _append_number(name: str, taken: Iterable[str]) -> str:
    path = PurePosixPath(name)
    suffixes = path.suffix
    if suffixes.lower() in COMPRESSION_SUFFIXES:
        suffixes = PurePosixPath(path.stem).suffix + suffixes
    stem = path.name.removesuffix(suffixes)
    places = {*taken}
    number = 2
    while True:
        candidate = str(path.with_name(f"{stem}-{number}{suffixes}"))
        if candidate not in places and _fold_name(candidate) not in places:
            return candidate
        number += 1
