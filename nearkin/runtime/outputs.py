"""Output folders and files: what may be replaced, who writes, and how a result is published.

The output OUT is made in the work folder OUT.partial beside it. One process at a time holds that
folder, by a lock that the system releases when the process ends for any reason. A finished result
folder carries a marker that lists its files: only a folder that carries the marker and holds
nothing else is ever replaced. Before the new result takes its name, the old one moves into the work
folder; a process that finds it there, and nothing at OUT, moves it back.
"""

import errno
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from nearkin.errors import UsageError
from nearkin.runtime.file_locks import lock_exclusively
from nearkin.runtime.files import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    Readers,
    disk_errors,
    make_folders,
    rename_to_delete,
    replace_durably,
    require_file_path,
    set_readers,
    sync_file,
    sync_folder,
    sync_tree,
    to_json,
)
from nearkin.runtime.redaction import redact
from nearkin.runtime.setting_names import name_flag, name_setting

MARKER = ".nearkin-output.json"
"""The file that says that a folder is a result, and which files belong to it."""
UPLOAD_RECORD = ".nearkin-upload.json"
"""The object that names the files of an upload with their hashes. It stays beside the output."""
MANIFEST = "manifest.json"
"""The file of a work folder that records what is complete.

Without it there is nothing to resume.
"""
CHECKPOINT = "sketch/checkpoint.json"
"""The file of a work folder that records how much of the first stage is complete."""
LOCK = ".nearkin-lock"
"""The file of a work folder that its holder locks. It names the holder."""
GENERATOR = b'name="generator" content="nearkin"'
"""The mark in the head of every page that nearkin writes."""
TEMPORARY = re.compile(r"^((?:.*/)?)\.([^/]+)\.(?:[0-9a-f]{8}-)?\d+\.tmp$")
REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:$")
"""The first part of a URL that was taken for a path."""
UNUSABLE = (errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG)
"""Errors of a path that can never be an output, whatever the state of the disk."""
PREVIOUS = "previous"
"""The old result, inside the work folder, while the new one takes its place."""
RUN_SUFFIX = ".run"
"""The suffix of the folder beside a file of kept documents, which holds the other results."""
RESULT = "result"
"""The new result, inside the work folder, until it is complete."""


def is_output(folder: Path) -> bool:
    """Returns True if a folder is the finished result of a run."""
    return (folder / MARKER).is_file()


def is_work_folder(folder: Path) -> bool:
    """Returns True if a folder is the work folder of a run, also of an interrupted one."""
    return (folder / LOCK).is_file()


def holds_results(work_folder: Path) -> bool:
    """Returns whether a work folder holds results that a run need not make again."""
    try:
        stages = json.loads((work_folder / MANIFEST).read_bytes())["stages"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(stages) or (work_folder / CHECKPOINT).exists()


def work_folder_of(out: Path, option: str = "out") -> Path:
    """Returns the folder in which an output is made until it is complete."""
    if len(out.parts) > 1 and REMOTE.match(out.parts[0]) and not Path(out.parts[0]).is_dir():
        raise UsageError(
            f"{out} cannot be an output: outputs are local, and this is a URL; give a path with "
            f"{name_setting(option)} and copy it"
        )
    shown = redact(os.fspath(out))
    if shown != os.fspath(out):
        raise UsageError(
            f"{shown} cannot be an output: it looks like the address of a server with a password; "
            f"give a path with {name_setting(option)}"
        )
    place = _make_absolute(out)
    try:
        os.fspath(place).encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(place).decode("utf-8", "backslashreplace")
        raise UsageError(
            f"{shown} cannot be an output: its path is not UTF-8; choose another "
            f"{name_setting(option)}"
        ) from error
    if not place.name:
        raise UsageError(
            f"{out} cannot be an output: it is the root of the file system; choose another "
            f"{name_setting(option)}"
        )
    require_outside_work_folders(out)
    return place.with_name(place.name + ".partial")


def require_outside_work_folders(out: Path) -> None:
    """Requires that a new file or folder is not inside the work folder of a run.

    The run deletes its work folder when it ends.
    """
    place = _make_absolute(out)
    for folder in (*place.parents, *place.resolve().parents):
        if is_work_folder(folder):
            raise UsageError(
                f"{out} cannot be written: it is inside {folder}, the work folder of a run, which "
                f"is deleted when that "
                "run ends; choose another place"
            )


def _make_absolute(path: Path) -> Path:
    """Returns an absolute path without `.` and `..`.

    Unlike `resolve` it does not follow the last link.
    """
    return Path(os.path.abspath(path))  # noqa: PTH100 (Path.absolute keeps `..`)


# Which files and folders may be replaced


def require_apart(
    out: Path, inputs: Iterable[Path | str], *, marked: bool = True, option: str = "out"
) -> None:
    """Requires that an output replaces no input, and is not read as an input next time."""
    names = [str(path).removeprefix("file://") for path in inputs]
    local = [Path(name) for name in names if "://" not in name]
    real = _resolve_links(local)
    for place in (_make_absolute(out), work_folder_of(out, option)):
        real_place = place.resolve()
        for given_path, path in zip(local, real, strict=True):
            if path == real_place:
                raise UsageError(
                    f"{out} cannot be the output: {place} is an input; choose another "
                    f"{name_setting(option)}"
                )
            if real_place in path.parents:
                raise UsageError(
                    f"{out} cannot be the output: {place} contains the input {given_path}; choose "
                    f"another {name_setting(option)}"
                )
        _require_other_inodes(out, place, local, option)
    above = _make_absolute(out).resolve().parents
    for given_path, path in zip(local, real, strict=True):
        inside = path in above and path.is_dir()
        if inside and is_output(path):
            raise UsageError(
                f"{out} cannot be the output: it is inside {given_path}, which is the "
                f"result of a run; choose another {name_setting(option)}"
            )
        if inside and not marked:
            raise UsageError(
                f"{out} cannot be the output: it is inside the input folder {given_path}, so "
                f"the next run would read it; "
                f"choose an {name_setting(option)} outside of the inputs"
            )


def _resolve_links(paths: list[Path]) -> list[Path]:
    """Returns paths without links.

    A corpus may be a hundred thousand files, so each folder is looked up once.
    """
    folders = {folder: folder.resolve() for folder in {path.parent for path in paths}}
    return [
        path.resolve()
        if path.is_symlink() or path.name == ".."
        else folders[path.parent] / path.name
        for path in paths
    ]


def _require_other_inodes(out: Path, place: Path, inputs: list[Path], option: str) -> None:
    """Requires that no input is in a folder, also by another name of the folder.

    Bind mounts and case-insensitive file systems give one folder two names.
    """
    if (folder := _file_identity(place)) is None:
        return
    above = {parent for path in inputs for parent in path.absolute().parents}
    for path in (*inputs, *above):
        if _file_identity(path) == folder:
            raise UsageError(
                f"{out} cannot be the output: {place} is or contains an input ({path}); choose "
                f"another {name_setting(option)}"
            )


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Returns the device and inode of a path, or None if nothing is there."""
    try:
        file_status = path.stat()
    except OSError:
        return None
    return file_status.st_dev, file_status.st_ino


def require_replaceable_folder(out: Path) -> None:
    """Requires that an existing folder is empty, or the result of a run and nothing else."""
    advice = f"move or delete it, or choose another {name_setting('out')}"
    if out.is_symlink():
        raise UsageError(
            f"{out} is a symbolic link; give the folder that it points to with "
            f"{name_setting('out')}"
        )
    if not out.is_dir():
        raise UsageError(f"{out} is a file, which is never replaced by a folder; {advice}")
    place = _make_absolute(out)
    if place.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise UsageError(
            f"{out} is the current folder or contains it, which is never replaced; choose another "
            f"{name_setting('out')}"
        )
    if next(out.iterdir(), None) is None:
        return
    marker = read_marker(out)
    if marker is None:
        raise UsageError(
            f"{out} is not the result of a nearkin run (it has no {MARKER}), so "
            f"{name_flag('overwrite')} does not replace it; {advice}"
        )
    own = set(marker["files"])
    stranger = next(
        (name for name in files_below(out) if name not in own and _written_for(name) not in own),
        None,
    )
    if stranger is not None:
        raise UsageError(
            f"{out} contains {stranger!r}, which no nearkin run wrote, so {name_flag('overwrite')} "
            "does not replace it; move it "
            "elsewhere first"
        )


def is_half_written(name: str) -> bool:
    """Returns True if a file is a half-written file of `write_durably`."""
    return TEMPORARY.match(name) is not None


def _written_for(name: str) -> str:
    """Returns the final path of a temporary file that a killed `write_durably` has left."""
    return TEMPORARY.sub(r"\1\2", name)


def require_replaceable_file(
    out: Path, recognise: Callable[[Path], bool], what: str, option: str = "out"
) -> None:
    """Requires that an existing file is of the kind that a command writes."""
    try:
        same = out.is_file() and not out.is_symlink() and recognise(out)
    except (OSError, ValueError):
        same = False
    if not same:
        raise UsageError(
            f"{out} exists and is not {what} that nearkin wrote, so it is never replaced; move or "
            f"delete it, or "
            f"choose another {name_setting(option)}"
        )


def begins_with(path: Path, beginnings: tuple[bytes, ...]) -> bool:
    """Returns True if a file begins with one of some byte strings, after optional white space."""
    with path.open("rb") as file:
        return file.read(64).lstrip().lower().startswith(beginnings)


def require_picture_output(path: Path, inputs: Iterable[Path | str], option: str) -> None:
    """Requires that the path of a picture is free or a picture, and is not an input."""
    _require_drawn_output(path, inputs, option, _is_picture, "a picture")


def require_page_output(
    path: Path, inputs: Iterable[Path | str], option: str, result: Path | None = None
) -> None:
    """Requires that the path of a page is free or a page of nearkin, and is not an input."""
    _require_drawn_output(path, inputs, option, _is_page, "a page")
    folder = path.resolve().parent
    marker = read_marker(folder)
    is_own = result is not None and folder == result.resolve()
    if marker is not None and path.name in marker["files"] and not is_own:
        raise UsageError(
            f"{path} is a page of {path.parent}, the result of a run, so it is never replaced; "
            f"choose another {name_setting(option)}"
        )


def _require_drawn_output(
    path: Path,
    inputs: Iterable[Path | str],
    option: str,
    recognise: Callable[[Path], bool],
    what: str,
) -> None:
    """Requires that the path of a picture or a page is free or one, and is not an input."""
    require_apart(path, inputs, option=option)
    require_file_path(path)
    if os.path.lexists(path):
        require_replaceable_file(path, recognise, what, option)


def _is_picture(path: Path) -> bool:
    return begins_with(path, (b"<?xml", b"<svg", b"\x89png"))


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(1 << 16).lower()
    return head.lstrip().startswith(b"<!doctype html") and GENERATOR in head


def files_below(folder: Path) -> Iterator[str]:
    """Yields the relative paths of the files and links in a folder, without the marker."""
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for name in (*names, *links):
            relative_path = Path(parent, name).relative_to(folder).as_posix()
            if relative_path != MARKER:
                yield relative_path


class Marker(TypedDict):
    """The content of the marker of a result."""

    run: str
    """The id of the run."""
    identity: Mapping[str, object]
    """The parameters that decided the result."""
    files: list[str]
    """The relative paths of the files of the result."""


def read_marker(folder: Path) -> Marker | None:
    """Returns the marker of a result, or None without one."""
    try:
        marker: Marker = json.loads((folder / MARKER).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return marker if isinstance(marker, dict) and isinstance(marker.get("files"), list) else None


# Which process writes


@dataclass
class Claim:
    """A work folder that only this process uses, until `remove` or `release`.

    Attributes:
        out: The output that is made in it.
        path: The work folder.
    """

    out: Path
    path: Path
    _handle: int
    _made: list[Path] = field(default_factory=list)

    @classmethod
    def take(cls, out: Path, command: str) -> "Claim":
        """Creates the work folder of an output if needed, and locks it.

        A previous result is moved back if a killed process had moved it away and not yet published
        the new one.
        """
        place, path = _make_absolute(out), work_folder_of(out)
        with disk_errors(path.parent), _path_errors(path):
            made_folders = make_folders(path.parent)
            try:
                handle = _lock(path, out)
            except BaseException:
                _remove_folders(made_folders)
                raise
            claim = cls(place, path, handle, made_folders)
            try:
                os.ftruncate(handle, 0)
                os.pwrite(handle, to_json(_record_holder(command)), 0)
                # After a power cut the lock file must still name the owner of the folder.
                os.fsync(handle)
                sync_folder(path)
                sync_folder(path.parent)
                claim._recover()
            except BaseException:
                claim.release()
                raise
        return claim

    def _recover(self) -> None:
        previous = self.path / PREVIOUS
        if previous.is_dir() and not os.path.lexists(self.out):
            replace_durably(previous, self.out)

    def clear(self) -> None:
        """Deletes the content of the work folder except for the lock."""
        # The manifest is deleted first: without it there is nothing to resume, even if other files
        # are left.
        paths = sorted(self.path.iterdir(), key=lambda path: (path.name != MANIFEST, path.name))
        for path in paths:
            if path.name != LOCK:
                _delete(path)

    def remove(self) -> None:
        """Deletes the work folder, and the empty folders above it that were created for it.

        Workers of an interrupted run may still write into it. If they do not stop, the folder stays
        with its lock, so that a later run can take it.
        """
        self.clear()
        if self._has_files():
            self.clear()
        if not self._has_files():
            with suppress(OSError):
                # Another process may take the folder between the two steps, and then keeps it.
                (self.path / LOCK).unlink()
                self.path.rmdir()
        self.release()
        _remove_folders(self._made)

    def _has_files(self) -> bool:
        return any(path.name != LOCK for path in self.path.iterdir())

    def release(self) -> None:
        """Unlocks the work folder without deleting it, so that a run can be resumed."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def publish_folder(
        self, staged: Path, run: str, identity: Mapping[str, object], *, replaces: bool
    ) -> None:
        """Moves a complete result to the place of the output.

        A previous result stays until then.
        """
        with disk_errors(self.out.parent):
            marker = {
                "nearkin": 1,
                "run": run,
                "identity": identity,
                "files": sorted(files_below(staged)),
            }
            (staged / MARKER).write_text(json.dumps(marker, indent=1), "ascii")
            # Users who may list the folder may read the list of its files.
            (staged / MARKER).chmod(staged.stat().st_mode & 0o666)
            sync_tree(staged)
            if os.path.lexists(self.out):
                if not replaces:
                    raise UsageError(
                        f"{self.out} has appeared while the run was working; resume it with "
                        f"{name_flag('overwrite')} to replace it"
                    )
                require_replaceable_folder(self.out)
                _delete(self.path / PREVIOUS)
                replace_durably(self.out, self.path / PREVIOUS)
            replace_durably(staged, self.out)

    def publish_new_folder(self, staged: Path) -> None:
        """Gives a complete folder its name, without a marker.

        The folder is a corpus, which other commands read.
        """
        with disk_errors(self.out.parent):
            sync_tree(staged)
            if os.path.lexists(self.out):
                raise UsageError(f"{self.out} has appeared meanwhile; choose another folder")
            replace_durably(staged, self.out)

    def publish_file(self, staged: Path, out: Path | None = None) -> None:
        """Gives a complete file its name, over the old one if there is one."""
        with disk_errors(self.out.parent):
            sync_file(staged)
            replace_durably(staged, self.out if out is None else out)


@contextmanager
def _path_errors(path: Path) -> Iterator[None]:
    """Raises UsageError for a path that can never be created."""
    try:
        yield
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        raise UsageError(
            f"cannot make {path}: {error.strerror}; choose another {name_setting('out')}"
        ) from error


@contextmanager
def claimed(out: Path, command: str, *, replaces: bool) -> Iterator[Claim]:
    """Holds the work folder of an output that is not resumed.

    The folder is cleared first, and deleted afterwards in any case.
    """
    claim = Claim.take(out, command)
    if not replaces and holds_results(claim.path):
        claim.release()
        raise UsageError(
            f"{claim.path} holds a run that was killed; finish it with its own command and "
            f"{name_flag('resume')}, or delete the folder, "
            "or choose another output"
        )
    try:
        if not replaces and os.path.lexists(claim.out):
            # It was moved back, or another process has just published it.
            raise UsageError(
                f"{out} exists; replace it with {name_flag('overwrite')}, or choose another "
                f"{name_setting('out')}"
            )
        with disk_errors(claim.path):
            claim.clear()
        yield claim
    finally:
        claim.remove()


@contextmanager
def published_folder(out: Path, command: str) -> Iterator[Path]:
    """Yields a folder for the content of a new one, which gets its name after the block."""
    if os.path.lexists(out):
        raise UsageError(f"{out} exists; choose another folder")
    with claimed(out, command, replaces=False) as claim, disk_errors(out.parent):
        staged = claim.path / RESULT
        staged.mkdir()
        yield staged
        claim.publish_new_folder(staged)


@contextmanager
def locked(out: Path, command: str) -> Iterator[None]:
    """Holds the lock of an output that is changed in place.

    The content of its work folder is kept.
    """
    claim = Claim.take(out, command)
    try:
        yield
    finally:
        if any(path.name != LOCK for path in claim.path.iterdir()):
            claim.release()
        else:
            claim.remove()


def _lock(path: Path, out: Path) -> int:
    """Returns the handle of the locked lock file."""
    while True:
        require_work_folder(path)
        with suppress(FileExistsError):
            path.mkdir(PRIVATE_FOLDER)
        try:
            handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
        except FileNotFoundError:
            continue  # the holder has just finished and removed the folder
        try:
            lock_exclusively(handle, wait=False)
            identity = _file_identity(path / LOCK)
            if identity is not None and identity == (
                os.fstat(handle).st_dev,
                os.fstat(handle).st_ino,
            ):
                return handle
        except BlockingIOError:
            holder = _describe_holder(handle)
            os.close(handle)
            raise UsageError(
                f"{out} is being written by {holder}; wait until it has ended, or stop it, or "
                f"choose another {name_setting('out')}"
            ) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def require_work_folder(path: Path) -> None:
    """Requires that nothing is at a path, or the work folder of a run."""
    if not os.path.lexists(path):
        return
    own = (
        path.is_dir()
        and not path.is_symlink()
        and (is_work_folder(path) or next(path.iterdir(), None) is None)
    )
    # it may have been removed by its holder between the two looks
    if not own and os.path.lexists(path):
        raise UsageError(
            f"{path} exists and is not the work folder of a nearkin run, so it is not used; move "
            f"or delete it, or "
            f"choose another {name_setting('out')}"
        )


def _record_holder(command: str) -> dict[str, str | int]:
    """Returns who holds a work folder, as its lock file says it."""
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return {"command": command, "pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _describe_holder(handle: int) -> str:
    """Returns which process holds a work folder, as its lock file names it."""
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        return (
            f"{holder['command']} (pid {holder['pid']} on {holder['host']}, since "
            f"{holder['since']})"
        )
    except (ValueError, KeyError, TypeError):
        return "another process"


def _remove_folders(made: list[Path]) -> None:
    for folder in made:
        try:
            folder.rmdir()
        except OSError:
            return


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(rename_to_delete(path))
    else:
        path.unlink(missing_ok=True)


@contextmanager
def published_file(
    out: Path, command: str, readers: Readers | None = None, *, replaces: bool
) -> Iterator[Path]:
    """Yields a path for the content of an output file, which gets its name after the block.

    An output without content is not published. The readers are those of new files by default.
    """
    with claimed(out, command, replaces=replaces) as claim, disk_errors(out.parent):
        staged = claim.path / RESULT
        yield staged
        if staged.exists():
            if readers is not None:
                set_readers(staged, readers)
            claim.publish_file(staged)
