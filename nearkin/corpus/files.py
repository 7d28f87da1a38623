"""Input files: found by path, glob, folder or URL, named relative to their common folder, opened through their compression."""

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa

from nearkin.errors import MissingExtraError, UsageError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
EXTRAS = {"s3": "remote", "s3a": "remote", "gs": "remote", "gcs": "remote"}
MAGIC = frozenset("*?[")


@dataclass(frozen=True)
class InputFile:
    """One input.

    Attributes:
        path: As it is opened: an absolute path, or a URL.
        name: Relative to the inputs' common folder, with slashes.
    """

    path: str
    name: str

    @property
    def remote(self) -> bool:
        """Whether it is a URL."""
        return "://" in self.path

    @property
    def compression(self) -> str | None:
        """By its last suffix, as Arrow names it."""
        return COMPRESSIONS.get(Path(self.name).suffix.lower())

    @property
    def suffix(self) -> str:
        """The suffix that tells the format, as `.jsonl`."""
        name = Path(self.name)
        return (Path(name.stem) if self.compression else name).suffix.lower()

    def open(self) -> Any:
        """The bytes of the file as an Arrow file, mapped when local."""
        if not self.remote:
            return pa.OSFile(self.path) if Path(self.path).stat().st_size == 0 else pa.memory_map(self.path)
        return pa.PythonFile(_filesystem(self.path)[0].open(self.path, "rb"), "r")

    def open_decompressed(self) -> Any:
        """The content as a stream."""
        stream = self.open()
        return pa.CompressedInputStream(stream, self.compression) if self.compression else stream

    def status(self) -> tuple[int, float]:
        """(bytes, modification time in seconds; 0 where the storage has none)."""
        if not self.remote:
            found = Path(self.path).stat()
            return found.st_size, found.st_mtime
        filesystem, path = _filesystem(self.path)
        info = filesystem.info(path)
        changed = info.get("LastModified") or info.get("mtime") or info.get("updated") or 0
        return int(info["size"]), float(changed.timestamp() if hasattr(changed, "timestamp") else changed or 0)


def find_files(inputs: Sequence[str]) -> tuple[InputFile, ...]:
    """Every file that the inputs name, each once, by relative path (bytes)."""
    paths = sorted({path for given in inputs for path in _expand(os.fspath(given))}, key=os.fsencode)
    if not paths:
        raise UsageError("no inputs given")
    common = _common_folder(paths)
    files = [InputFile(path, path[len(common) :]) for path in paths]
    return tuple(sorted(files, key=lambda file: os.fsencode(file.name)))


def _common_folder(paths: Sequence[str]) -> str:
    """The longest folder that starts every path, with its slash."""
    folders = [path.split("/")[:-1] for path in paths]
    shared = takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    return "".join(f"{names[0]}/" for names in shared)


def _expand(given: str) -> Iterable[str]:
    if given.startswith("file://"):
        given = given.removeprefix("file://")
    return _expand_url(given) if "://" in given else _expand_local(given)


def _expand_local(given: str) -> Iterable[str]:
    path = Path(given).absolute()
    if path.is_dir():
        found = [file for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path).parts)]
    elif path.exists():
        found = [path]
    elif MAGIC & set(given):
        matches = (Path(match) for match in glob.glob(str(path), recursive=True))  # noqa: PTH207 (absolute patterns)
        found = [file for file in matches if file.is_file()]
    else:
        raise UsageError(f"no such file or folder: {given}")
    if not found:
        raise UsageError(f"no files match {given}" if MAGIC & set(given) else f"no files in the folder {given}")
    return [file.as_posix() for file in found]


def _hidden(parts: Sequence[str]) -> bool:
    """As `.git/…`, `_SUCCESS`: what tools leave beside data."""
    return any(part.startswith((".", "_")) for part in parts)


def _expand_url(given: str) -> Iterable[str]:
    filesystem, path = _filesystem(given)
    protocol = given.partition("://")[0]
    try:
        if MAGIC & set(path):
            found = [name for name in filesystem.glob(path) if not filesystem.isdir(name)]
        elif filesystem.isdir(path):
            found = [name for name in filesystem.find(path) if not _hidden(name[len(path) :].strip("/").split("/"))]
        else:
            found = [path] if filesystem.exists(path) else []
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot list {given}: {error}") from error
    if not found:
        raise UsageError(f"no files match {given}")
    return [f"{protocol}://{name.lstrip('/')}" for name in found]


def _filesystem(url: str) -> tuple[Any, str]:
    protocol = url.partition("://")[0]
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        extra = EXTRAS.get(protocol)
        way = f"pip install 'nearkin[{extra}]'" if extra else str(error)
        raise MissingExtraError(f"{url} needs a package that is not installed: {way}") from error
    except ValueError as error:
        raise UsageError(f"cannot open {url}: {error}") from error
    return filesystem, path
