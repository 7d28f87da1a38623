"""The sketches of two runs as those of one: what is left of the first, then all of the second."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.engine.documents import COLUMNS
from nearkin.engine.saved_sets import (
    CHECKSUMS,
    ENDS,
    TYPES,
    WORDS,
    PieceWriter,
    hash_files,
    list_pieces,
)
from nearkin.engine.sketching import REJECTED, Arrays, Position, read_checkpoint, write_checkpoint
from nearkin.engine.work_folder import map_file
from nearkin.runtime.files import copy_bytes

FILES = "files"
"""The file of the number of each document's file."""


def join_sketches(
    first: Path,
    left: np.ndarray,
    second: Path | None,
    target: Path,
    arrays: Arrays,
    files: int,
) -> None:
    """Writes the sketches of two runs into one folder.

    Args:
        first: Folder of the sketches of the first run, with its sets.
        left: Which of its documents are left, bool (n,).
        second: Folder of the sketches of the second run, with its sets, or None.
        arrays: The facts of fixed size.
        files: Number of files of the first run, which those of the second one follow.
    """
    folders = [first] if second is None else [first, second]
    runs = list(_runs_of(left))
    widths = {
        name: np.dtype(kind).itemsize * (width or 1) for name, (kind, width) in arrays.items()
    }
    for name, width in {**widths, CHECKSUMS: 8}.items():
        if name != FILES:
            _join_bytes(folders, name, [(low * width, high * width) for low, high in runs], target)
    numbers = [map_file(first / FILES, np.int32)[left]]
    ends = map_file(first / ENDS, np.int64)
    sizes = [np.diff(ends, prepend=0)[left]]
    if second is not None:
        numbers.append(map_file(second / FILES, np.int32) + np.int32(files))
        sizes.append(np.diff(map_file(second / ENDS, np.int64), prepend=0))
    np.concatenate(numbers).tofile(target / FILES)
    np.cumsum(np.concatenate(sizes)).tofile(target / ENDS)
    _join_sets(folders, ends, left, target)
    segments = _join_columns(folders, left, target)
    _join_bytes(folders, REJECTED, [(0, (first / REJECTED).stat().st_size)], target)
    documents = sum(map(len, sizes))
    write_checkpoint(
        target,
        Position(
            documents=documents,
            slots=documents,
            segments=segments,
            rejected_bytes=(target / REJECTED).stat().st_size,
            rejected=sum(read_checkpoint(folder).rejected for folder in folders),
        ),
    )


def _runs_of(mask: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yields the bounds of the consecutive true values of a mask.

    Examples:
        >>> list(_runs_of(np.array([True, True, False, True])))
        [(0, 2), (3, 4)]
    """
    padded = np.concatenate([[False], mask, [False]])
    bounds = np.flatnonzero(padded[1:] != padded[:-1])
    yield from zip(bounds[::2].tolist(), bounds[1::2].tolist(), strict=True)


def _join_sets(folders: list[Path], ends: np.ndarray, left: np.ndarray, target: Path) -> None:
    """Links the pieces of sets whose documents are all left, and writes the others again.

    Args:
        ends: End of the set of each document of the first run, int64 (n,).
    """
    names = hash_files(has_fields=(folders[0] / WORDS).exists())
    with PieceWriter(target, names) as pieces:
        start = 0
        for paths in list_pieces(folders[0], names):
            end = start + paths[0].stat().st_size // np.dtype(TYPES[names[0]]).itemsize
            low, high = np.searchsorted(ends, [start, end], "right").tolist()
            if left[low:high].all():
                _link(paths, pieces.take_paths(), like=target / ENDS)
            elif left[low:high].any():
                bounds = np.concatenate([[start], ends[low:high]]) - start
                runs = list(_runs_of(left[low:high]))
                for name, path, joined in zip(names, paths, pieces.take_paths(), strict=True):
                    width = np.dtype(TYPES[name]).itemsize
                    spans = [(int(bounds[a]) * width, int(bounds[b]) * width) for a, b in runs]
                    _copy_spans([(path, spans)], joined)
            start = end
        for folder in folders[1:]:
            for paths in list_pieces(folder, names):
                _link(paths, pieces.take_paths(), like=target / ENDS)


def _link(paths: Sequence[Path], targets: Sequence[Path], like: Path) -> None:
    """Links files, or copies them if links are not possible or others may read the new ones."""
    for path, target in zip(paths, targets, strict=True):
        try:
            if path.stat().st_mode == like.stat().st_mode:
                target.hardlink_to(path)
                continue
        except OSError:
            # The file system has no links, or this is another one.
            pass
        shutil.copyfile(path, target)


def _join_bytes(folders: list[Path], name: str, spans: list[tuple[int, int]], target: Path) -> None:
    """Writes spans of a file of the first folder, and the whole file of the second one."""
    others = [(folder / name, [(0, (folder / name).stat().st_size)]) for folder in folders[1:]]
    _copy_spans([(folders[0] / name, spans), *others], target / name)


def _copy_spans(sources: Sequence[tuple[Path, Sequence[tuple[int, int]]]], target: Path) -> None:
    """Writes the spans of each file, one after the other."""
    with target.open("wb") as joined:
        for path, spans in sources:
            with path.open("rb", buffering=0) as file:
                for start, end in spans:
                    file.seek(start)
                    _copy_span(file, joined, end - start)


def _copy_span(source: IO[bytes], target: IO[bytes], count: int) -> None:
    """Copies bytes from the position of a file without a buffer, in the system if it can."""
    target.flush()
    while count and hasattr(os, "copy_file_range"):
        try:
            copied = os.copy_file_range(source.fileno(), target.fileno(), count)
        except OSError:
            # Some file systems cannot do it.
            break
        if not copied:
            break
        count -= copied
    copy_bytes(source, target, count)


def _join_columns(folders: list[Path], left: np.ndarray, target: Path) -> int:
    """Writes the segments of ids and carried columns, and returns their number."""
    (target / COLUMNS).mkdir(exist_ok=True)
    segments = 0
    seen = 0
    for number, folder in enumerate(folders):
        for path in sorted((folder / COLUMNS).glob("*.arrow")):
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
                if number == 0:
                    mask = left[seen : seen + len(table)]
                    seen += len(table)
                    table = table if mask.all() else table.filter(pa.array(mask))
                joined = target / COLUMNS / f"{segments:06d}.arrow"
                with (
                    pa.OSFile(str(joined), "wb") as sink,
                    pa.ipc.new_file(sink, table.schema) as writer,
                ):
                    writer.write_table(table)
            segments += 1
    return segments
