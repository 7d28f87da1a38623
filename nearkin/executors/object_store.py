"""The work folder of a run in an object store, for workers that share no folder with the driver.

Before the driver sends a task, it puts the files that it has written into the store. Each machine
of workers has a copy of the work folder, for which a file is read from the store once. What a task
has written goes into the store with its result. Paths below the work folder are sent relative to
it, so tasks and stages do not know where they are.
"""

import io
import logging
import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias
from uuid import uuid4
from weakref import finalize

from nearkin.corpus.remote import CLOUDS, open_filesystem
from nearkin.corpus.remote_errors import first_line, parse_protocol
from nearkin.engine.work_folder import AGAINST, SPOOL, UNRECORDED, FileState, list_files
from nearkin.errors import NearkinError, RunError, UsageError
from nearkin.runtime.file_locks import lock_exclusively
from nearkin.runtime.files import DISK_REMEDIES, PRIVATE_FILE, PRIVATE_FOLDER
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.threads import ordered_map

LOG = logging.getLogger("nearkin.run")
COPIES = "nearkin-work-"
"""The beginning of the names of the folders of copies, in the folder for temporary files."""
OBJECTS = "objects"
"""The folder of the files that were read from the store, of which copies have links."""
SENT = (SPOOL, AGAINST)
"""The unrecorded folders that tasks read."""
READ_ONLY = 0o400
AT_ONCE = 8
"""The number of files that are read or written at a time."""
COPIED_AT_ONCE = 8 << 20
"""The number of bytes that are read or written at a time."""
OLD_SECONDS = 86_400
"""The time without a task after which the copies of another run are deleted, in seconds."""


class StoredFile(NamedTuple):
    """A file in the store."""

    name: str
    size: int


StoredFiles: TypeAlias = Mapping[str, StoredFile]
"""Files by their names relative to the work folder."""


@dataclass(frozen=True)
class StoreFolder:
    """The folder of the objects of a run.

    Attributes:
        url: URL of the folder.
    """

    url: str

    def put(self, content: BinaryIO) -> StoredFile:
        """Writes an open file to a new object."""
        stored = StoredFile(uuid4().hex, content.seek(0, os.SEEK_END))
        content.seek(0)
        with self._opened("write", stored) as stream:
            shutil.copyfileobj(content, stream, COPIED_AT_ONCE)
        return stored

    def get(self, stored: StoredFile, target: BinaryIO) -> None:
        """Reads an object into an open file."""
        with self._opened("read", stored) as stream:
            shutil.copyfileobj(stream, target, COPIED_AT_ONCE)
        if target.tell() != stored.size:
            raise RunError(
                f"{self.url}/{stored.name} has {target.tell()} bytes in place of {stored.size}; "
                "run again"
            )

    def put_file(self, path: Path) -> StoredFile:
        """Writes a file to a new object."""
        with path.open("rb") as file:
            return self.put(file)

    def get_file(self, stored: StoredFile, path: Path, mode: int) -> None:
        """Reads an object into a file, which appears when it is complete."""
        part = path.with_name(f".{uuid4().hex}")
        with part.open("wb") as file:
            self.get(stored, file)
            os.fchmod(file.fileno(), mode)
        part.replace(path)

    def delete(self) -> None:
        """Deletes the folder. If that fails, the run is complete anyway."""
        with suppress(FileNotFoundError, NearkinError):
            storage, path = open_filesystem(self.url)
            try:
                storage.fs.delete_dir(path)
            except OSError as error:
                LOG.warning("cannot delete %s: %s; delete it", self.url, first_line(error))

    @contextmanager
    def _opened(self, action: str, stored: StoredFile) -> Iterator[Any]:
        """Yields an open object. Errors of the store become those of nearkin."""
        try:
            storage, path = open_filesystem(f"{self.url}/{stored.name}")
            fs = storage.fs
            open_stream = fs.open_input_stream if action == "read" else fs.open_output_stream
            with open_stream(path, compression=None) as stream:
                yield stream
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in DISK_REMEDIES:
                # one of the disk
                raise
            raise RunError(
                f"cannot {action} {self.url}: {first_line(error)}; check the name of the bucket "
                "and what the credentials of this machine permit"
            ) from error


@dataclass(frozen=True)
class StoredWork:
    """The work folder of a run as a task finds it.

    Attributes:
        store: Folder of the objects.
        name: Name of the copy that a machine has of it.
        files: Files of the folder.
        folders: Folders of the folder, relative to it.
    """

    store: StoreFolder
    name: str
    files: StoredFiles
    folders: Sequence[str]

    @cached_property
    def folder(self) -> Path:
        """The copy of this machine, which one of its processes makes."""
        root = Path(tempfile.gettempdir()) / f"{COPIES}{self.store.url.rpartition('/')[2]}"
        _delete_old_copies(root)
        root.mkdir(PRIVATE_FOLDER, exist_ok=True)
        (root / OBJECTS).mkdir(exist_ok=True)
        with (root / "lock").open("w") as lock:
            lock_exclusively(lock)
            if not (root / self.name).exists():
                self._make_copy(root)
        return root / self.name

    def _make_copy(self, root: Path) -> None:
        """Makes the copy of this machine, and deletes that of the last task."""
        for old in root.iterdir():
            if old.is_dir() and old.name != OBJECTS:
                shutil.rmtree(old, ignore_errors=True)
        part = root / f".{self.name}"
        for name in self.folders:
            (part / name).mkdir(parents=True, exist_ok=True)

        def get(entry: tuple[str, StoredFile]) -> None:
            name, stored = entry
            read = root / OBJECTS / stored.name
            if not read.exists():
                # links of several copies share it
                self.store.get_file(stored, read, READ_ONLY)
            os.link(read, part / name)

        for _ in ordered_map(get, self.files.items(), AT_ONCE):
            pass
        part.rename(root / self.name)
        for read in (root / OBJECTS).iterdir():
            if read.stat().st_nlink == 1:
                read.unlink()

    def loads(self, pickled: bytes) -> Any:
        """Returns a task or an item, whose paths are those of the copy."""
        os.utime(self.folder.parent)
        return _Unpickler(io.BytesIO(pickled), self.folder, lambda _: None).load()

    def put_result(self, result: object) -> StoredFile:
        """Writes a result and the files that it names to the store."""
        pickled = io.BytesIO()
        _Pickler(pickled, self.folder, self._put_new_files).dump(result)
        return self.store.put(pickled)

    def _put_new_files(self, path: Path) -> StoredFiles:
        """Moves a file, or the files of a folder, to the store, unless they come from it."""
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        names = {str(file.relative_to(self.folder)): file for file in files}
        new = {name: file for name, file in names.items() if name not in self.files}
        stored = dict(zip(new, map(self.store.put_file, new.values()), strict=True))
        for file in new.values():
            file.unlink()
        return stored


class ObjectStore:
    """The store of a run, as its driver uses it. Its objects are deleted with the instance.

    Args:
        url: URL of the folder that the user has given.
        work: Work folder of the run.
    """

    def __init__(self, url: str, work: Path) -> None:
        self._work = work
        self._store = StoreFolder(f"{url.rstrip('/')}/nearkin-{uuid4().hex}")
        self._known: dict[str, tuple[FileState, StoredFile]] = {}
        finalize(self, self._store.delete)

    def put_work_folder(self) -> StoredWork:
        """Writes the files of the work folder to the store that are not there yet."""
        states: dict[str, FileState] = {}
        for entry in os.scandir(self._work):
            if entry.name in SENT or entry.name not in UNRECORDED:
                # the signatures of a saved run are a link
                states.update(list_files(entry, entry.name, follow_symlinks=True))
        known = self._known
        for name in [name for name, (state, _) in known.items() if states.get(name) != state]:
            del known[name]
        new = [name for name in states if name not in known]
        put = ordered_map(lambda name: self._store.put_file(self._work / name), new, AT_ONCE)
        known.update({name: (states[name], stored) for name, stored in zip(new, put, strict=True)})
        paths = (path for path, _, _ in os.walk(self._work, followlinks=True))
        folders = [str(Path(path).relative_to(self._work)) for path in paths]
        files = {name: stored for name, (_, stored) in known.items()}
        return StoredWork(self._store, uuid4().hex, files, folders)

    def dumps(self, value: object) -> bytes:
        """Returns a task or an item, whose paths are relative to the work folder."""
        pickled = io.BytesIO()
        _Pickler(pickled, self._work, lambda _: {}).dump(value)
        return pickled.getvalue()

    def take(self, stored: StoredFile) -> Any:
        """Returns a result after its files were written to the work folder."""
        pickled = io.BytesIO()
        self._store.get(stored, pickled)
        pickled.seek(0)
        return _Unpickler(pickled, self._work, self._get_files).load()

    def _get_files(self, files: StoredFiles) -> None:
        for name, stored in files.items():
            path = self._work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._store.get_file(stored, path, PRIVATE_FILE)
            self._known[name] = (FileState.of(path.stat()), stored)


class _Pickler(pickle.Pickler):
    """A pickler that writes paths relative to a work folder, with the files that they stand for."""

    def __init__(self, file: io.BytesIO, work: Path, put: Callable[[Path], StoredFiles]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._work = work
        self._put = put

    def persistent_id(self, value: object) -> tuple[str, StoredFiles] | None:
        if isinstance(value, Path) and value.is_relative_to(self._work):
            return str(value.relative_to(self._work)), self._put(value)
        return None


class _Unpickler(pickle.Unpickler):
    """A reader of what `_Pickler` writes."""

    def __init__(self, file: io.BytesIO, work: Path, get: Callable[[StoredFiles], None]) -> None:
        super().__init__(file)
        self._work = work
        self._get = get

    def persistent_load(self, written: tuple[str, StoredFiles]) -> Path:
        name, files = written
        self._get(files)
        return self._work / name


def open_store(url: str | None, work: Path) -> ObjectStore | None:
    """Returns the store of a run, or None without a URL."""
    if url is None:
        return None
    require_object_store(url)
    return ObjectStore(url, work)


def require_object_store(url: str) -> None:
    """Requires the URL of a folder of an object store."""
    if parse_protocol(url) not in CLOUDS or not url.partition("://")[2].strip("/"):
        raise UsageError(
            f"{name_setting('exchange', url)} is not a folder of an object store; give a URL such "
            "as s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or abfs://CONTAINER@ACCOUNT/FOLDER"
        )


def _delete_old_copies(own: Path) -> None:
    """Deletes the copies that workers of other runs have left."""
    for root in own.parent.glob(f"{COPIES}*"):
        with suppress(OSError):
            if root != own and root.stat().st_mtime < time.time() - OLD_SECONDS:
                shutil.rmtree(root, ignore_errors=True)
