"""Band keys of signatures of any form, and buckets dealt out in even portions."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nearkin.lsh import kernels
from nearkin.lsh.kernels import SignForm, SlotForm


def make_keys(form: NamedTuple, signatures: np.ndarray, salts: np.ndarray, out: np.ndarray) -> None:
    """Keys of each band into out, uint64 (b, n); of cut slots, `signatures` are their keys without a block, (n, b)."""
    if isinstance(form, SlotForm):
        kernels.slot_keys(signatures, salts, form, out)
    elif isinstance(form, SignForm):
        kernels.sign_keys(signatures, salts, form, out)
    else:
        kernels.salt_keys(signatures, salts, out)


def whole_keys(slots: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """uint64 (n, b): keys of whole slots, uint32 (n, k), without a block."""
    out = np.empty((bands, len(slots)), np.uint64)
    kernels.slot_keys(slots, np.zeros(len(slots), np.uint64), SlotForm(np.int64(rows)), out)
    return np.ascontiguousarray(out.T)


def even_slabs(starts: np.ndarray, ends: np.ndarray, pairs: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Runs of buckets that together have about so many pairs."""
    if not len(starts):
        return
    sizes = ends - starts
    slab = np.cumsum(sizes * (sizes - 1) // 2) // pairs
    cuts = np.flatnonzero(np.diff(slab)) + 1
    for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), len(starts)], strict=True):
        yield starts[low:high], ends[low:high]
