"""Logs of Delta tables in object storage, which are copied to be read by the library of Delta.

The log is read by the drivers that also read the data files. So credentials, endpoints and time
limits are the same, and the library needs no access to the storage.
"""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nearkin.corpus.remote import open_filesystem
from nearkin.corpus.remote_errors import translate_listing_errors
from nearkin.runtime.temporary_folder import TemporaryFolder

LOG = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
"""The file that names the version of the newest complete checkpoint."""
COMMIT_OR_CHECKPOINT = re.compile(r"(\d{20})\.[^/]+")
"""The name of a file with the changes of a version, or with all that holds in it."""
SIDECAR = re.compile(r"_sidecars/[^/]+\.parquet")
"""The name of a part of a checkpoint."""
POINTER_BYTES = 1 << 20
"""The number of bytes of `_last_checkpoint` that are read."""


def list_log(url: str) -> list[str]:
    """Returns the names of the files of a log, relative to it and sorted."""
    with translate_listing_errors(f"{url}/{LOG}"):
        filesystem, path = open_filesystem(f"{url}/{LOG}")
        filesystem.invalidate_cache()
        start = len(path.rstrip("/")) + 1
        return sorted(name[start:] for name in filesystem.find(path))


@contextmanager
def copy_log(url: str) -> Iterator[str]:
    """Yields a temporary folder with a copy of a log, from the newest checkpoint on."""
    names = list_log(url)
    with TemporaryFolder() as folder:
        with translate_listing_errors(f"{url}/{LOG}"):
            filesystem, path = open_filesystem(f"{url}/{LOG}")
            first = _read_checkpoint_version(filesystem, path) if LAST_CHECKPOINT in names else 0
            for name in names:
                if _is_needed(name, first):
                    _copy_file(filesystem, f"{path.rstrip('/')}/{name}", folder / LOG / name)
        yield str(folder)


def _is_needed(name: str, first: int) -> bool:
    """Returns whether a file of a log is a part of the versions from one on."""
    match = COMMIT_OR_CHECKPOINT.fullmatch(name)
    if match is not None:
        return int(match[1]) >= first
    return name == LAST_CHECKPOINT or SIDECAR.fullmatch(name) is not None


def _read_checkpoint_version(filesystem: Any, path: str) -> int:
    """Returns the version of the newest complete checkpoint, or 0 if the file is damaged."""
    with filesystem.open(f"{path.rstrip('/')}/{LAST_CHECKPOINT}", "rb") as file:
        content = file.read(POINTER_BYTES)
    try:
        return int(json.loads(content)["version"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return 0


def _copy_file(filesystem: Any, source: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with filesystem.open(source, "rb") as stored, target.open("wb") as copy:
        shutil.copyfileobj(stored, copy)
