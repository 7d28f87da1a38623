"""One input file: opened through its compression, and recognised when it changes."""

from dataclasses import dataclass
from os import fsencode
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from nearkin.corpus.decompression import DecompressedStream
from nearkin.corpus.remote import RemoteStream, open_filesystem, translate_driver_errors

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


class FileStatus(NamedTuple):
    """The facts that distinguish one content of a file from another one without reading it."""

    size: int
    """The size in bytes."""
    modified: float
    """Seconds since 1970; 0 if the storage has no time of modification."""
    identity: str
    """Device, inode and nanoseconds of modification; of remote files their ETag, generation or checksum if there is one."""


@dataclass(frozen=True)
class InputFile:
    """One input.

    Attributes:
        path: An absolute path, or a URL.
        name: The name relative to the common folder of all inputs, with slashes. It is valid Unicode and has no `..`.
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
        """Returns the bytes of the file as an Arrow file.

        Local files are read, not mapped: a mapped file that another process truncates ends this one by SIGBUS.
        """
        if not self.remote:
            return pa.OSFile(fsencode(self.path))
        with translate_driver_errors(self.path):
            filesystem, path = open_filesystem(self.path)
            return pa.PythonFile(RemoteStream(self.path, filesystem.open(path, "rb")), "r")

    def open_decompressed(self) -> Any:
        """Returns the content as a stream. Everything before a damage is read before its error is raised."""
        return DecompressedStream(self.open, self.compression) if self.compression else self.open()

    def status(self) -> FileStatus:
        """Returns the current size, time and identity.

        Raises:
            OSError: If the file cannot be reached.
        """
        if not self.remote:
            found = Path(self.path).stat()
            return FileStatus(found.st_size, found.st_mtime, f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}")
        with translate_driver_errors(self.path):
            filesystem, path = open_filesystem(self.path)
            filesystem.invalidate_cache()
            info = filesystem.info(path)
        changed = info.get("LastModified") or info.get("mtime") or info.get("updated") or 0
        tags = [str(info[key]) for key in ("ETag", "etag", "generation", "md5Hash", "created") if info.get(key)]
        return FileStatus(
            int(info["size"] or 0),
            float(changed.timestamp() if hasattr(changed, "timestamp") else _seconds(changed)),
            ":".join([*tags, str(changed)]),
        )


def _seconds(changed: object) -> float:
    try:
        return float(str(changed))
    except ValueError:
        return 0.0
