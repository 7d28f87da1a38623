"""Band keys of signatures of any form, and buckets dealt out in even portions."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nearkin.lsh import kernels
from nearkin.lsh.kernels import SignForm, SlotForm, TruncatedForm


class Form(NamedTuple):
    """What kernels take to band and compare signatures."""

    kind: NamedTuple
    table: np.ndarray
    """What the kind says."""


def slot_form(rows: int) -> Form:
    """Bands of so many whole slots."""
    return Form(SlotForm(np.int64(rows)), np.empty((0, 0), np.uint64))


def sign_form(masks: np.ndarray) -> Form:
    """Bands of the bits of masks, uint64 (b, words)."""
    return Form(SignForm(np.int64(masks.shape[1])), masks)


def truncated_form(slots: int, bits: int, keys: np.ndarray) -> Form:
    """Slots of so many bits; `keys`, uint64 (n, b), were made of the whole ones."""
    ones = (2**64 - 1) // ((1 << bits) - 1)
    return Form(TruncatedForm(np.uint64(bits), np.uint64(ones), np.int64(slots)), keys)


def make_keys(form: Form, signatures: np.ndarray, salts: np.ndarray, out: np.ndarray) -> None:
    """Keys of each band into out, uint64 (b, n), of whole slots or signs."""
    if isinstance(form.kind, SlotForm):
        kernels.slot_keys(signatures, salts, form.kind, out)
    else:
        kernels.sign_keys(signatures, salts, form.table, out)


def whole_keys(slots: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """uint64 (n, b): keys of whole slots, uint32 (n, k), without a block."""
    out = np.empty((bands, len(slots)), np.uint64)
    make_keys(slot_form(rows), slots, np.zeros(len(slots), np.uint64), out)
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
