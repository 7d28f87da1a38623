"""The windows of a corpus that may occur twice, in files, and the places where they occur first."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nearkin.engine.work_folder import create_mapped_file, map_file
from nearkin.stages.winnowing import kernels
from nearkin.stages.winnowing.fingerprints import Buffers, anchor_width
from nearkin.stages.winnowing.matching_runs import outermost_runs, write_sources
from nearkin.stages.winnowing.tokens import TokenPiece
from nearkin.texts.passages.partitions import PartitionWriter, read_partitions

HASH_BITS = 61
WINDOWS = "windows"
"""The name of the partitions."""
PLACES = "places"
SPANS = "spans"
SOURCES = "sources"
PREFIXES = "prefixes"


class Windows(NamedTuple):
    """Windows of documents, in the order of their places."""

    hashes: np.ndarray
    """uint64 (m,): The hashes of the tokens."""
    checks: np.ndarray
    """uint64 (m,): The hashes by the second polynomial."""
    places: np.ndarray
    """uint64 (m,): The number of the document in the upper half, that of the first token in the
    lower half."""
    spans: np.ndarray
    """uint32 (m, 2): The first byte, and the byte after the last one, in the document."""


def collect_windows(piece: TokenPiece, least: int, twice: np.ndarray, buffers: Buffers) -> Windows:
    """Returns the windows of documents whose anchors may occur twice."""
    total, longest = len(piece.hashes), piece.longest
    hashes = buffers.array("out_hashes", np.uint64, total)
    checks = buffers.array("out_checks", np.uint64, total)
    places = buffers.array("out_places", np.uint64, total)
    spans = buffers.array("out_spans", np.uint32, 2 * total).reshape(-1, 2)
    count = int(
        kernels.collect_windows(
            piece.hashes,
            piece.starts,
            piece.ends,
            piece.offsets,
            piece.places,
            np.uint64(least),
            np.uint64(anchor_width(least)),
            twice,
            buffers.array("hashes", np.uint64, longest),
            buffers.array("suffix", np.uint32, longest),
            buffers.array("anchors", np.uint32, longest),
            buffers.array("checks", np.uint64, longest),
            hashes,
            checks,
            places,
            spans,
        )
    )
    return Windows(
        hashes=hashes[:count].copy(),
        checks=checks[:count].copy(),
        places=places[:count].copy(),
        spans=spans[:count].copy(),
    )


class WindowWriter:
    """A writer of the windows of a corpus, in the order of their places.

    Places and bytes are written one after the other. Hashes and numbers of windows are written to
    partitions by hash.
    """

    def __init__(self, folder: Path) -> None:
        self._files = ExitStack()
        self._places = self._files.enter_context((folder / PLACES).open("wb"))
        self._spans = self._files.enter_context((folder / SPANS).open("wb"))
        self._partitions = PartitionWriter(folder, WINDOWS, HASH_BITS)

    def __enter__(self) -> "WindowWriter":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._files:
            if kind is None:
                self._partitions.flush()

    @property
    def written(self) -> int:
        """The number of windows."""
        return self._partitions.written

    def add(self, windows: Windows) -> None:
        """Appends the windows of documents that follow the previous ones."""
        count = len(windows.places)
        if not count:
            return
        self._places.write(windows.places.data)
        self._spans.write(windows.spans.data)
        numbers = np.arange(self.written, self.written + count, dtype=np.uint64)
        self._partitions.add(np.stack([windows.hashes, windows.checks, numbers], axis=1))


class WindowFiles:
    """The files that `WindowWriter` wrote, and the sources of the windows."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self.count = count
        self.places = map_file(folder / PLACES, np.uint64)
        self.spans = map_file(folder / SPANS, np.uint32, 2)

    def write_sources(self) -> None:
        """Writes the first other place of each window, and the hashes of all contents before it.

        The partitions stay, because a resumed run requires the files of the stage before.
        """
        sources = create_mapped_file(self._folder / SOURCES, np.uint64, (self.count,))
        sources[:] = kernels.NONE
        for entries in read_partitions(self._folder, WINDOWS, 3):
            write_sources(entries, sources)
        prefixes = create_mapped_file(self._folder / PREFIXES, np.uint64, (self.count + 1,))
        kernels.hash_contents(sources, prefixes)

    def sources(self) -> np.ndarray:
        """Returns the number of the first other window of the same content, or NONE, uint64 (n,).

        For the first window itself it is the second one.
        """
        return map_file(self._folder / SOURCES, np.uint64)

    def prefixes(self) -> np.ndarray:
        """Returns the hash of the contents of all windows before each one, uint64 (n + 1,)."""
        return map_file(self._folder / PREFIXES, np.uint64)


class Passages(NamedTuple):
    """Passages, ordered by document and first byte."""

    documents: np.ndarray
    """uint32 (m,): The number of the document."""
    starts: np.ndarray
    """uint32 (m,): The first byte."""
    ends: np.ndarray
    """uint32 (m,): The byte after the last one."""
    tokens: np.ndarray
    """uint32 (m,): The number of tokens."""
    source_documents: np.ndarray
    """uint32 (m,): The document that has the passage at another place."""
    source_starts: np.ndarray
    """uint32 (m,): The first byte in it."""
    source_ends: np.ndarray
    """uint32 (m,): The byte after the last one in it."""
    contents: np.ndarray
    """uint64 (m,): A hash that equal passages share."""


RUNS_AT_ONCE = 1 << 16
"""The number of runs that are searched at a time, if no document has more."""


def find_passages(windows: WindowFiles, least: int) -> Iterator[Passages]:
    """Yields the passages of a corpus."""
    sources, prefixes = windows.sources(), windows.prefixes()
    waiting = np.empty((0, 3), np.uint64)
    at = 0
    while at < windows.count:
        out = np.empty((RUNS_AT_ONCE, 3), np.uint64)
        next_window, found = kernels.find_runs(
            np.uint64(at), np.uint64(windows.count), windows.places, sources, prefixes, out
        )
        at = int(next_window)
        runs = np.concatenate([waiting, out[: int(found)]])
        if at < windows.count and len(runs):
            # A later run of the last document may begin before these or contain them.
            last = windows.places[int(runs[-1, 0])] >> np.uint64(32)
            is_last = (windows.places[runs[:, 0]] >> np.uint64(32)) == last
            waiting, runs = runs[is_last], runs[~is_last]
        if len(runs):
            yield _describe(outermost_runs(runs), windows, prefixes, least)


def _describe(runs: np.ndarray, windows: WindowFiles, prefixes: np.ndarray, least: int) -> Passages:
    first, source, length = (runs[:, column].astype(np.int64) for column in range(3))
    contents = np.empty(len(runs), np.uint64)
    kernels.hash_rows(runs, prefixes, contents)
    half = np.uint64(32)
    return Passages(
        documents=(windows.places[first] >> half).astype(np.uint32),
        starts=windows.spans[first, 0],
        ends=windows.spans[first + length - 1, 1],
        tokens=(length - 1 + least).astype(np.uint32),
        source_documents=(windows.places[source] >> half).astype(np.uint32),
        source_starts=windows.spans[source, 0],
        source_ends=windows.spans[source + length - 1, 1],
        contents=contents,
    )
