"""Outputs in object stores, whose marker is written when all other objects are complete.

The object `.nearkin-upload.json` names the files of the upload before they are written, with their
hashes. So an interrupted upload differs from other objects, and the next one writes only what is
missing or has changed. Objects that neither it nor the marker names are never replaced.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any

import orjson
from pyarrow.fs import FileSelector, FileType

from nearkin.corpus.foreign_errors import translate_foreign_errors
from nearkin.corpus.remote import open_filesystem
from nearkin.corpus.remote_errors import (
    CREDENTIALS,
    first_line,
    is_denied,
    make_storage_error,
    parse_protocol,
)
from nearkin.errors import RunError, UsageError
from nearkin.runs.destinations import Destination
from nearkin.runtime.files import to_json
from nearkin.runtime.outputs import MARKER, UPLOAD_RECORD, files_below
from nearkin.runtime.redaction import redact
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.threads import ordered_map

AT_ONCE = 8
"""The number of objects that are written at a time."""
BLOCK = 8 << 20
"""The number of bytes of an object that are sent at a time."""


@dataclass(frozen=True)
class StoreState:
    """The objects at the place of an output.

    Attributes:
        sizes: The sizes of the objects, by their paths relative to the place. That of an object
            which is the place itself is the empty path.
        hashes: The hashes that the last upload recorded. None for an object that it deletes.
        marker: The content of the marker, which is empty if the object does not exist.
    """

    sizes: Mapping[str, int]
    hashes: Mapping[str, str | None]
    marker: bytes

    @property
    def files(self) -> set[str]:
        """The objects that are not about the upload."""
        return self.sizes.keys() - {MARKER, UPLOAD_RECORD}

    def find_stranger(self) -> str | None:
        """Returns an object that no run of nearkin wrote, or None."""
        try:
            listed = set(map(str, orjson.loads(self.marker)["files"])) if self.marker else set()
        except (ValueError, LookupError, TypeError):
            listed = set()
        return min(self.files - listed - self.hashes.keys() - {""}, default=None)


@dataclass(frozen=True)
class StoreOutput(Destination):
    """A folder or an object of an object store.

    Attributes:
        given: The URL.
    """

    given: str

    @classmethod
    def parse(cls, url: str) -> "StoreOutput":
        """Returns the place that a URL names."""
        protocol, _, place = url.partition("://")
        parts = place.rstrip("/").split("/")
        if redact(url) != url or len(parts) < 2 or not {"", ".", ".."}.isdisjoint(parts):
            raise UsageError(
                f"{url} cannot be an output; write {protocol}://BUCKET/FOLDER, and set credentials "
                f"in the environment"
            )
        return cls(f"{protocol}://{'/'.join(parts)}")

    @property
    def url(self) -> str:
        """The URL of the place."""
        return self.given

    @property
    def local(self) -> Path:
        """The path below the current folder where the output is made: BUCKET/FOLDER."""
        bucket, _, key = self.given.partition("://")[2].partition("/")
        return Path(bucket.partition("@")[0], key)

    def require_writable(self, *, may_exist: bool) -> None:
        """Requires that the place is free, or may be replaced, and can be written."""
        with self._translated_errors("correct that and run again"):
            state = self._read_state()
            stranger = state.find_stranger()
            if stranger is not None:
                raise UsageError(
                    f"{self.url} has {stranger!r}, which no nearkin run wrote, so it is never "
                    f"replaced; choose another {name_setting('out')}"
                )
            if state.files and not may_exist:
                kind = "has an output" if state.marker else "has an incomplete upload"
                if "" in state.files:
                    kind = "exists"
                raise UsageError(
                    f"{self.url} {kind}; replace it with {name_flag('overwrite')}, continue with "
                    f"{name_flag('resume')}, or choose another {name_setting('out')}"
                )
            # The right to write is known once something has been written.
            if self.local.suffix:
                # The output is one object, which needs no record.
                self._write_beside()
            else:
                self._write_record(state.hashes)

    def require_permission(self) -> None:
        """Requires that objects can be written beside the place."""
        with self._translated_errors("correct that and run again"):
            self._write_beside()

    def _write_beside(self) -> None:
        fs, path = self._open()
        self._write_at(f"{path}{UPLOAD_RECORD}", b"")
        fs.delete_file(f"{path}{UPLOAD_RECORD}")

    def publish(self, *, overwrite: bool) -> str:
        """Uploads what the store does not have, and the marker last."""
        with self._translated_errors(
            f"{self.local} is complete; repeat the command with {name_flag('resume')} if it has "
            f"that option, or with {name_flag('overwrite')}, or copy the folder"
        ):
            if self.local.is_file():
                self._put(self.local, "")
            else:
                self._upload_folder(overwrite=overwrite)
        return f"uploaded {self.local} to {self.url}"

    def _upload_folder(self, *, overwrite: bool) -> None:
        paths = {name: self.local / name for name in files_below(self.local)}
        hashes: dict[str, str | None] = {name: hash_file(path) for name, path in paths.items()}
        own = self.local / MARKER
        listed = {"nearkin": 1, "files": sorted(paths), "hashes": hashes}
        marker = own.read_bytes() if own.is_file() else to_json(listed)
        state = self._read_state()
        if state.marker not in (b"", marker) and not overwrite:
            raise UsageError(
                f"{self.url} has another output; replace it with {name_flag('overwrite')}, or "
                f"choose another {name_setting('out')}"
            )
        stranger = state.find_stranger()
        if stranger is not None:
            raise UsageError(f"{stranger!r} has appeared in {self.url}; move it elsewhere first")
        stored = {
            name
            for name, path in paths.items()
            if state.hashes.get(name) == hashes[name]
            and state.sizes.get(name) == path.stat().st_size
        }
        outdated = state.files - stored - {""}
        if state.marker and (state.marker != marker or stored != paths.keys() or outdated):
            # An output without its marker is incomplete. What is named without a hash is deleted.
            known = {name: hashes[name] for name in stored}
            self._write_record({**known, **dict.fromkeys(outdated)})
            self._delete(MARKER)
        for name in sorted(outdated):
            self._delete(name)
        self._write_record(hashes)
        missing = sorted(paths.keys() - stored)
        for _ in ordered_map(lambda name: self._put(paths[name], name), missing, AT_ONCE):
            pass
        if orjson.loads(self._read(UPLOAD_RECORD))["files"] != hashes:
            raise RunError(f"another run is writing to {self.url}")
        self._write(MARKER, marker)

    def _read_state(self) -> StoreState:
        """Returns what the store has at the place."""
        fs, path = self._open()
        entries = fs.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
        sizes = {
            entry.path[len(path) + 1 :]: entry.size
            for entry in [*entries, fs.get_file_info(path)]
            if entry.type == FileType.File
        }
        hashes: Mapping[str, str | None] = {}
        if UPLOAD_RECORD in sizes:
            try:
                hashes = dict(orjson.loads(self._read(UPLOAD_RECORD))["files"])
            except (ValueError, LookupError, TypeError) as error:
                raise UsageError(
                    f"{self.url}/{UPLOAD_RECORD} is damaged ({error}); delete the folder, or "
                    f"choose another {name_setting('out')}"
                ) from error
        return StoreState(sizes, hashes, self._read(MARKER) if MARKER in sizes else b"")

    def _write_record(self, hashes: Mapping[str, str | None]) -> None:
        self._write(UPLOAD_RECORD, to_json({"nearkin": 1, "files": hashes}))

    def _open(self) -> tuple[Any, str]:
        """Returns the driver of pyarrow, and the path of the place in it."""
        storage, path = open_filesystem(self.url)
        return storage.fs, path

    def _read(self, name: str) -> bytes:
        fs, path = self._open()
        with fs.open_input_stream(f"{path}/{name}", compression=None) as stream:
            content: bytes = stream.read()
        return content

    def _write(self, name: str, content: bytes) -> None:
        _, path = self._open()
        self._write_at(f"{path}/{name}", content)

    def _write_at(self, path: str, content: bytes) -> None:
        fs, _ = self._open()
        with fs.open_output_stream(path, compression=None) as stream:
            stream.write(content)

    def _put(self, source: Path, name: str) -> None:
        """Writes a file to an object, in parts if it is large."""
        fs, path = self._open()
        target = f"{path}/{name}" if name else path
        with (
            source.open("rb") as file,
            fs.open_output_stream(target, compression=None) as stream,
        ):
            shutil.copyfileobj(file, stream, BLOCK)

    def _delete(self, name: str) -> None:
        fs, path = self._open()
        fs.delete_file(f"{path}/{name}")

    @contextmanager
    def _translated_errors(self, advice: str) -> Iterator[None]:
        """Raises the errors of drivers as errors of nearkin."""

        def translate(error: BaseException) -> BaseException:
            known = make_storage_error(self.url, error)
            if isinstance(known, UsageError):
                return known
            reason = f"cannot write to {self.url}: {first_line(error)}; "
            if is_denied(error):
                credentials = CREDENTIALS[parse_protocol(self.url)]
                reason += f"check the policy of the bucket and the credentials ({credentials}); "
            return (UsageError if is_denied(error) else RunError)(reason + advice)

        with translate_foreign_errors(translate):
            yield


def hash_file(path: Path) -> str:
    """Returns the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
