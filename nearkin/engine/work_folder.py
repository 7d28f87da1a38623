"""The work folder of a run: the results of its stages, and a manifest of the finished ones."""

import hashlib
import json
import math
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict
from uuid import uuid4

import numpy as np
from numpy.typing import DTypeLike

from nearkin.corpus.input_manifest import InputRecord
from nearkin.engine.stats import StageRecord
from nearkin.errors import UsageError
from nearkin.runtime.compilation import Stopwatch
from nearkin.runtime.executor import RETURNED, TASKS
from nearkin.runtime.files import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    delete_shared_folder,
    disk_errors,
    reserve_blocks,
    sync_files,
    sync_folder,
    to_json,
    write_durably,
)
from nearkin.runtime.outputs import LOCK, MANIFEST, PREVIOUS, RESULT
from nearkin.runtime.setting_names import name_flag
from nearkin.runtime.threads import ARRAY_HEADERS, ordered_map
from nearkin.runtime.version import VERSION

KEPT_HASHES = "kept-hashes"
"""Folder of the shingle hashes that one process keeps of the first reading."""
CHECKED_AT_ONCE = 1 << 25
"""The number of bytes of a piece of a file whose checksum a thread computes."""
READ_AT_ONCE = 1 << 18
SPOOL = "spool"
"""Folder of what one stage writes and reads, for example candidate pairs and buckets."""
MERGED = "merged"
"""Folder of the values that kept rows get from their clusters."""
UNFINISHED = (TASKS, RETURNED, SPOOL, KEPT_HASHES, MERGED)
"""Folders of what a killed run left, which a resumed run does not read."""
AGAINST = "against"
"""Folder of the work folders of references."""
GROWN = "grown"
"""The work folder of the new files of a run that extends another one."""
UNRECORDED = frozenset({MANIFEST, LOCK, PREVIOUS, RESULT, *UNFINISHED, "then", AGAINST, GROWN})
"""Entries whose checksums the manifest does not record: no later stage of another process reads
them, or they check themselves (`then` is the work folder of the second measure)."""


class StageFiles(TypedDict):
    """The files of a finished stage, by name, with their checksums."""

    stage: str
    files: dict[str, str]


class Manifest(TypedDict):
    """The content of a manifest."""

    nearkin: str
    """The version of nearkin."""
    run: str
    """The id of the run."""
    identity: Mapping[str, object]
    """The parameters that must be unchanged for the run to be resumed."""
    stages: dict[str, StageRecord]
    """The records of the finished stages, by name, in the order of execution."""
    files: list[StageFiles]
    inputs: Sequence[InputRecord]
    against: NotRequired[Sequence[Sequence[InputRecord]]]
    """The files of each reference."""
    replaces: bool
    """True if the run may replace an existing output."""


class WorkFolder:
    """A folder of stage results, with a manifest of the finished stages.

    The files of a stage are synced before the manifest records the stage, and the manifest lists
    their checksums. So after a power cut a stage is either not recorded, or its files are complete,
    and files that were changed on the disk are not believed.
    """

    def __init__(self, path: Path, manifest: Manifest, *, durable: bool = True) -> None:
        self.path = path
        self.manifest = manifest
        self.durable = durable
        self._seen: dict[str, FileState] = {}

    @classmethod
    def create(
        cls,
        path: Path,
        identity: Mapping[str, object],
        *,
        durable: bool = True,
        inputs: Sequence[InputRecord] = (),
        against: Sequence[Sequence[InputRecord]] = (),
        replaces: bool = False,
    ) -> "WorkFolder":
        """Creates a work folder without results."""
        with disk_errors(path.parent):
            path.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        manifest: Manifest = {
            "nearkin": VERSION,
            "run": uuid4().hex,
            "identity": identity,
            "stages": {},
            "files": [],
            "inputs": inputs,
            "replaces": replaces,
        }
        if against:
            manifest["against"] = against
        work = cls(path, manifest, durable=durable)
        work._save()
        return work

    @classmethod
    def resume(cls, path: Path) -> "WorkFolder":
        """Opens the work folder of an interrupted run.

        If the files of a stage differ from the manifest, this stage and all later ones are run
        again.
        """
        manifest = read_manifest(path)
        # Workers of the killed run may still do its tasks.
        for name in UNFINISHED:
            delete_shared_folder(path / name)
        work = cls(path, manifest)
        work._check_files()
        return work

    def _check_files(self) -> None:
        """Forgets damaged stages. The files of the others count as written, and stay theirs.

        Damaged files are deleted, so that a stage with a checkpoint of its own starts again.
        """
        states = self._files()
        recorded = self.manifest["files"]
        for number, entry in enumerate(recorded):
            files = entry["files"]
            present = [name for name in files if name in states]
            checksums = _compute_checksums(self.path, present, workers=1)
            damaged = [name for name, checksum in files.items() if checksums.get(name) != checksum]
            if damaged:
                for name in damaged:
                    (self.path / name).unlink(missing_ok=True)
                for later in recorded[number:]:
                    self.manifest["stages"].pop(later["stage"], None)
                del recorded[number:]
                return
            self._seen.update({name: states[name] for name in files})

    def done(self, stage: str) -> StageRecord | None:
        """Returns the record of a finished stage, or None if it has not finished."""
        return self.manifest["stages"].get(stage)

    @contextmanager
    def stage(self, name: str, workers: int = 1) -> Iterator[dict[str, object]]:
        """Records a stage when the body ends without an error."""
        facts: dict[str, object] = {}
        watch = Stopwatch()
        with disk_errors(self.path):
            yield facts
            written = self._sync_new_files(workers) if self.durable else {}
        facts.update(watch.to_record())
        # A file that two stages wrote belongs to the last of them.
        kept: list[StageFiles] = [
            {"stage": entry["stage"], "files": _without(entry["files"], written)}
            for entry in self.manifest["files"]
            if entry["stage"] != name
        ]
        self.manifest["files"] = [*kept, {"stage": name, "files": written}]
        self.manifest["stages"][name] = facts
        self._save()

    def _sync_new_files(self, workers: int) -> dict[str, str]:
        """Syncs the files that were written since the last call, and returns their checksums."""
        before, now = self._seen, self._files()
        new = [name for name, state in now.items() if before.get(name) != state]
        sync_files([self.path / name for name in new])
        for folder in {self.path, *((self.path / name).parent for name in new)}:
            sync_folder(folder)
        self._seen = now
        # A file that another run has, too, is not written any more, and checks itself.
        own = [name for name in new if (self.path / name).stat().st_nlink == 1]
        return _compute_checksums(self.path, sorted(own), workers)

    def _files(self) -> dict[str, "FileState"]:
        states: dict[str, FileState] = {}
        for entry in os.scandir(self.path):
            if entry.name not in UNRECORDED:
                states.update(list_files(entry, entry.name))
        return states

    def folder(self, name: str) -> Path:
        """Returns a subfolder for the files of a stage, which is created if needed."""
        path = self.path / name
        path.mkdir(exist_ok=True)
        return path

    def save(self, name: str, array: np.ndarray) -> None:
        """Saves an array atomically."""
        temporary = self.path / f"{name}.tmp"
        with temporary.open("wb") as file:
            np.save(file, array)
        temporary.replace(self.path / f"{name}.npy")

    def load(self, name: str) -> np.ndarray:
        """Returns a saved array, mapped from disk."""
        with ARRAY_HEADERS:
            return np.asarray(np.load(self.path / f"{name}.npy", mmap_mode="r"))

    def _save(self) -> None:
        with disk_errors(self.path):
            if self.durable:
                write_durably(self.path / MANIFEST, to_json(self.manifest), PRIVATE_FILE)
            else:
                (self.path / MANIFEST).write_bytes(to_json(self.manifest))


def read_manifest(path: Path) -> Manifest:
    """Returns the manifest of a work folder."""
    try:
        manifest: Manifest = json.loads((path / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} holds no run to resume ({error}); run without {name_flag('resume')}"
        ) from error
    return manifest


class FileState(NamedTuple):
    """The properties of a file that change if it is written again."""

    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileState":
        """Returns the state of a file."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


def list_files(
    entry: os.DirEntry[str], name: str, *, follow_symlinks: bool = False
) -> Iterator[tuple[str, FileState]]:
    """Yields the files of an entry of a folder, by their names relative to the work folder."""
    if entry.is_file(follow_symlinks=follow_symlinks):
        yield name, FileState.of(entry.stat(follow_symlinks=follow_symlinks))
    elif entry.is_dir(follow_symlinks=follow_symlinks):
        for below in os.scandir(entry.path):
            yield from list_files(below, f"{name}/{below.name}", follow_symlinks=follow_symlinks)


def _compute_checksums(folder: Path, names: Sequence[str], workers: int) -> dict[str, str]:
    """Returns the SHA-256 of each file, or of the SHA-256 of its pieces if it has several."""
    pieces = [
        (name, start)
        for name in names
        for start in range(0, max((folder / name).stat().st_size, 1), CHECKED_AT_ONCE)
    ]

    def hash_piece(piece: tuple[str, int]) -> tuple[str, bytes]:
        name, start = piece
        digest = hashlib.sha256()
        with (folder / name).open("rb", buffering=0) as file:
            file.seek(start)
            for _ in range(0, CHECKED_AT_ONCE, READ_AT_ONCE):
                digest.update(file.read(READ_AT_ONCE))
        return name, digest.digest()

    checksums = {}
    hashed = ordered_map(hash_piece, pieces, workers)
    for name, digests_of_file in groupby(hashed, lambda entry: entry[0]):
        digests = [digest for _, digest in digests_of_file]
        whole = digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()
        checksums[name] = whole.hex()
    return checksums


def _without(files: dict[str, str], names: Container[str]) -> dict[str, str]:
    return {name: checksum for name, checksum in files.items() if name not in names}


def map_file(path: Path, dtype: DTypeLike, columns: int | None = None) -> np.ndarray:
    """Maps a raw file as a read-only array.

    Returns:
        An array (n,) or (n, columns).
    """
    if path.stat().st_size == 0:
        array: np.ndarray = np.empty((0,) if columns is None else (0, columns), dtype)
        array.flags.writeable = False
        return array
    return np.asarray(np.memmap(path, dtype, mode="r")).reshape(
        (-1,) if columns is None else (-1, columns)
    )


def create_mapped_file(path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> np.ndarray:
    """Creates a raw file, or replaces it, and maps it as an array that can be written."""
    with path.open("wb") as file:
        reserve_blocks(file, math.prod(shape) * np.dtype(dtype).itemsize)
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, mode="r+", shape=shape))
