"""The work folder of a run: stage results written atomically, and the manifest that says what is done."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from nearkin.errors import UsageError
from nearkin.runtime.files import disk_errors, to_json, write_durably

MANIFEST = "manifest.json"


class WorkFolder:
    """A folder of stage results; a stage is done when the manifest says so, and its files are then complete."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def create(cls, path: Path, identity: dict[str, Any], **other: Any) -> "WorkFolder":
        """An empty one; `identity` is what a resumed run must share, `other` goes into the manifest beside it."""
        with disk_errors(path.parent):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        work = cls(path, {"identity": identity, "stages": {}, **other})
        work._save()
        return work

    @classmethod
    def resume(cls, path: Path, identity: dict[str, Any]) -> "WorkFolder":
        """What a killed run left, if it was asked the same; else an error that names the difference."""
        try:
            manifest = json.loads((path / MANIFEST).read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} holds no run to resume ({error}); run without --resume") from error
        difference = first_difference(manifest["identity"], json.loads(json.dumps(identity)))
        if difference:
            raise UsageError(f"cannot resume {path}: {difference}. Run with --overwrite to start again")
        return cls(path, manifest)

    def done(self, stage: str) -> dict[str, Any] | None:
        """The facts a finished stage recorded, or None."""
        found: dict[str, Any] | None = self.manifest["stages"].get(stage)
        return found

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Records the facts put into the yielded dictionary, and the seconds, once the body ends well."""
        facts: dict[str, Any] = {}
        began = time.perf_counter()
        with disk_errors(self.path):
            yield facts
        facts["seconds"] = round(time.perf_counter() - began, 3)
        self.manifest["stages"][name] = facts
        self._save()

    def folder(self, name: str) -> Path:
        """A folder for a stage's files, made if needed."""
        path = self.path / name
        path.mkdir(exist_ok=True)
        return path

    def save(self, name: str, array: np.ndarray) -> None:
        """An array, atomically."""
        temporary = self.path / f"{name}.tmp"
        with temporary.open("wb") as file:
            np.save(file, array)
        temporary.replace(self.path / f"{name}.npy")

    def load(self, name: str) -> np.ndarray:
        """An array as a mapped file."""
        return np.asarray(np.load(self.path / f"{name}.npy", mmap_mode="r"))

    def remove(self) -> None:
        """Takes the folder away."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _save(self) -> None:
        with disk_errors(self.path):
            write_durably(self.path / MANIFEST, to_json(self.manifest))


def first_difference(before: Any, now: Any, where: str = "") -> str | None:
    """In words, the first place at which two JSON values differ; None when they are equal."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            found = first_difference(before.get(key), now.get(key), f"{where}.{key}" if where else str(key))
            if found:
                return found
        return None
    return None if before == now else f"{where} was {before!r} and is {now!r}"


def map_file(path: Path, dtype: DTypeLike, columns: int | None = None) -> np.ndarray:
    """A raw file as a read-only mapped array, (n,) or (n, columns)."""
    if path.stat().st_size == 0:
        array: np.ndarray = np.empty((0,) if columns is None else (0, columns), dtype)
        array.flags.writeable = False
        return array
    return np.asarray(np.memmap(path, dtype, mode="r")).reshape((-1,) if columns is None else (-1, columns))
