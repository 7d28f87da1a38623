"""The plan of a cut: which places of repeated windows stay, and which are cut."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from nearkin.engine.work_folder import create_mapped_file
from nearkin.stages.winnowing.kernels import EMPTY
from nearkin.texts.passages.cutting import kernels
from nearkin.texts.passages.cutting.request import CutRequest, CutUnit
from nearkin.texts.passages.windows import WindowFiles

RUNS_AT_ONCE = 1 << 16
"""The number of runs of tokens that are collected at a time, if no document has more windows."""
KEEPERS = "keepers"


class PlannedCuts(NamedTuple):
    """The part of a plan that is about one document."""

    runs: np.ndarray
    """integers (m, 4): The rows of `CutPlan.runs` of the document."""
    holds_passage: bool
    """True if a passage stays in it that is cut from another place."""
    is_removed: bool
    """True if it is removed as a whole."""


class CutPlan(NamedTuple):
    """The tokens that are cut from documents before boundaries are considered."""

    runs: np.ndarray
    """uint32 (k, 4): The document, the number of the first token, that of the token after the last
    one, and the document that holds the content where the run begins; ordered by document and
    token. They are not bytes, because tokens can share a character, such as ½."""
    holds: np.ndarray
    """bool (n,): True for each document with a passage that is cut from another place."""
    removed: np.ndarray
    """bool (n,): True for each document that is removed as a whole."""

    @property
    def changed(self) -> np.ndarray:
        """The documents from which something may be cut, ascending, int64 (m,)."""
        return np.union1d(self.runs[:, 0], np.flatnonzero(self.removed)).astype(np.int64)

    def of_documents(self, numbers: np.ndarray) -> list[PlannedCuts]:
        """Returns what the plan says about some documents, int64 (m,) ascending."""
        planned_documents = np.ascontiguousarray(self.runs[:, 0])
        firsts = np.searchsorted(planned_documents, numbers)
        ends = np.searchsorted(planned_documents, numbers, side="right")
        return [
            PlannedCuts(
                runs=np.asarray(self.runs[first:end]),
                holds_passage=bool(self.holds[number]),
                is_removed=bool(self.removed[number]),
            )
            for number, first, end in zip(
                numbers.tolist(), firsts.tolist(), ends.tolist(), strict=True
            )
        ]


def plan_cuts(
    windows: WindowFiles,
    order: np.ndarray,
    least: int,
    sizes: np.ndarray,
    request: CutRequest,
    folder: Path,
) -> CutPlan:
    """Decides which windows stay complete, and which are cut.

    `order` are the documents in keep order, uint32 (n,), and `sizes` their bytes. The folder holds
    a temporary file of 4 bytes for each window.
    """
    documents = len(order)
    places = np.arange(documents + 1, dtype=np.uint64) << np.uint64(32)
    bounds = np.searchsorted(windows.places, places).astype(np.int64)
    keepers = create_mapped_file(folder / KEEPERS, np.uint32, (windows.count,))
    keepers[:] = EMPTY
    holds = np.zeros(documents, bool)
    removed = np.zeros(documents, bool)
    runs = np.empty((0, 4), np.uint32)
    if request.unit == CutUnit.DOCUMENT:
        kernels.plan_removals(
            order,
            bounds,
            windows.spans,
            windows.sources(),
            sizes,
            request.share,
            keepers,
            removed,
        )
    else:
        runs = _plan_runs(windows, order, least, bounds, keepers, holds)
    return CutPlan(runs, holds, removed)


def _plan_runs(
    windows: WindowFiles,
    order: np.ndarray,
    least: int,
    bounds: np.ndarray,
    keepers: np.ndarray,
    holds: np.ndarray,
) -> np.ndarray:
    most = int(np.diff(bounds).max(initial=0))
    is_known = np.empty(most, bool)
    out = np.empty((max(RUNS_AT_ONCE, most), 4), np.uint32)
    sources = windows.sources()
    parts = [np.empty((0, 4), np.uint32)]
    position = 0
    while position < len(order):
        reached, count = kernels.plan_cuts(
            order,
            np.uint64(position),
            bounds,
            windows.places,
            sources,
            np.uint64(least),
            keepers,
            holds,
            is_known,
            out,
        )
        parts.append(out[: int(count)].copy())
        position = int(reached)
    runs = np.concatenate(parts)
    return np.asarray(runs[np.lexsort((runs[:, 1], runs[:, 0]))])
