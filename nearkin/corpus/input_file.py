"""One input file: how it is opened and decompressed, and how a change of it is detected."""

from dataclasses import dataclass
from os import fsencode
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from nearkin.corpus.decompression import DecompressedStream
from nearkin.corpus.file_names import format_path, list_partition_folders
from nearkin.corpus.remote import RemoteStream, open_filesystem, read_file_info
from nearkin.corpus.remote_errors import translate_driver_errors

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
"""The codecs of Arrow, by suffix."""
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value of a partition folder whose rows have none."""


class FileStatus(NamedTuple):
    """Properties that differ if the content of a file differs, without reading it."""

    size: int
    """The size in bytes."""
    modified: float
    """The time of modification in seconds since 1970, or 0 if the storage has none."""
    identity: str
    """The device, inode and nanoseconds of modification of a local file. A remote file has its
    ETag, generation or checksum instead, if there is one."""


@dataclass(frozen=True)
class InputFile:
    """One input file.

    Attributes:
        path: An absolute path, or a URL.
        name: The name relative to the common folder of all inputs, with slashes. It is valid
            Unicode without `..`.
    """

    path: str
    name: str

    @property
    def remote(self) -> bool:
        """True if the path is a URL."""
        return "://" in self.path

    @property
    def shown_path(self) -> str:
        """The path for messages. Of a Lance table, it is the folder and not the manifest."""
        folder, _, name = self.path.rpartition("/_versions/")
        is_manifest = bool(folder) and name.endswith(".manifest")
        return format_path(folder if is_manifest else self.path)

    @property
    def compression(self) -> str | None:
        """The codec of Arrow that the last suffix stands for, or None."""
        return COMPRESSIONS.get(Path(self.name).suffix.lower())

    @property
    def suffix(self) -> str:
        """The suffix that decides the format, for example `.jsonl`, in lower case."""
        name = Path(self.name)
        return (Path(name.stem) if self.compression else name).suffix.lower()

    @property
    def partitions(self) -> dict[str, str | None]:
        """The values of the columns that the folders `NAME=VALUE` above the file stand for."""
        values: dict[str, str | None] = {}
        for folder in list_partition_folders(self.path):
            name, _, value = format_path(folder).partition("=")
            values[unquote(name)] = None if value == NULL_PARTITION else unquote(value)
        return values

    def open(self) -> Any:
        """Returns the stored bytes as an Arrow file.

        Local files are read and not mapped. If another process truncated a mapped file, this
        process would end by SIGBUS.
        """
        if not self.remote:
            return pa.OSFile(fsencode(self.path))
        with translate_driver_errors(self.path):
            filesystem, path = open_filesystem(self.path)
            return pa.PythonFile(RemoteStream(self.path, filesystem.open(path, "rb")), "r")

    def open_decompressed(self) -> Any:
        """Returns the content as a stream. It yields everything before damage, then raises."""
        return DecompressedStream(self.open, self.compression) if self.compression else self.open()

    def status(self) -> FileStatus:
        """Returns the current size, time and identity of the file."""
        if not self.remote:
            status = Path(self.path).stat()
            return FileStatus(
                status.st_size,
                status.st_mtime,
                f"{status.st_dev}:{status.st_ino}:{status.st_mtime_ns}",
            )
        info = read_file_info(self.path)
        changed = info.get("LastModified") or info.get("mtime") or info.get("updated") or 0
        tags = [
            str(info[key])
            for key in ("ETag", "etag", "generation", "md5Hash", "blob_id", "created")
            if info.get(key)
        ]
        return FileStatus(
            int(info["size"] or 0),
            float(
                changed.timestamp() if hasattr(changed, "timestamp") else _parse_seconds(changed)
            ),
            ":".join([*tags, str(changed)]),
        )


def identify_file(path: str) -> str | tuple[int, int]:
    """Returns what all links of a local file share, its device and inode, or a URL as it is."""
    if "://" in path:
        return path
    try:
        status = Path(path).stat()
    except OSError:
        # Reading the file fails later, with its path.
        return path
    return status.st_dev, status.st_ino


def _parse_seconds(changed: object) -> float:
    try:
        return float(str(changed))
    except ValueError:
        return 0.0
