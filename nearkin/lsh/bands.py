"""Band keys of signatures of any form, and buckets dealt out in even portions."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nearkin.lsh import kernels
from nearkin.lsh.kernels import SignLayout, SlotLayout, TruncatedLayout


class BandLayout(NamedTuple):
    """What kernels take to band and compare signatures."""

    layout: NamedTuple
    masks_or_keys: np.ndarray
    """What the kind says."""


def slot_layout(rows: int) -> BandLayout:
    """Bands of so many whole slots."""
    return BandLayout(SlotLayout(np.int64(rows)), np.empty((0, 0), np.uint64))


def sign_layout(masks: np.ndarray) -> BandLayout:
    """Bands of the bits of masks, uint64 (b, words)."""
    return BandLayout(SignLayout(np.int64(masks.shape[1])), masks)


def truncated_layout(slots: int, bits: int, keys: np.ndarray) -> BandLayout:
    """Slots of so many bits; `keys`, uint64 (n, b), were made of the whole ones."""
    ones = (2**64 - 1) // ((1 << bits) - 1)
    return BandLayout(TruncatedLayout(np.uint64(bits), np.uint64(ones), np.int64(slots)), keys)


def make_keys(band_layout: BandLayout, signatures: np.ndarray, salts: np.ndarray, out: np.ndarray) -> None:
    """Keys of each band into out, uint64 (b, n), of whole slots or signs."""
    if isinstance(band_layout.layout, SlotLayout):
        kernels.slot_keys(signatures, salts, band_layout.layout, out)
    else:
        kernels.sign_keys(signatures, salts, band_layout.masks_or_keys, out)


def whole_keys(slots: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """uint64 (n, b): keys of whole slots, uint32 (n, k), without a block."""
    out = np.empty((bands, len(slots)), np.uint64)
    make_keys(slot_layout(rows), slots, np.zeros(len(slots), np.uint64), out)
    return np.ascontiguousarray(out.T)


def probing_keys(slots: np.ndarray, runners: np.ndarray, bands: int, rows: int, probes: int) -> np.ndarray:
    """uint64 (n, b·(1 + P)): keys of whole slots, and with each of a band's first P replaced by its runner-up; no block."""
    out = np.empty((len(slots), bands * (1 + probes)), np.uint64)
    kernels.probe_keys(slots, runners, rows, probes, out)
    return out


def even_slabs(starts: np.ndarray, ends: np.ndarray, pairs: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Runs of buckets that together have about so many pairs."""
    if not len(starts):
        return
    sizes = ends - starts
    slab = np.cumsum(sizes * (sizes - 1) // 2) // pairs
    cuts = np.flatnonzero(np.diff(slab)) + 1
    for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), len(starts)], strict=True):
        yield starts[low:high], ends[low:high]
