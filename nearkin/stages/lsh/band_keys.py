"""Band keys of signatures, and the layouts by which kernels read signatures."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.kernels import SignLayout, SlotLayout, TruncatedLayout
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.sketch.sketcher import BandKeyBuilder


class BandLayout(NamedTuple):
    """A description of how kernels band and compare signatures."""

    layout: NamedTuple
    """The numbers that describe the signatures. Its type selects the kernels' functions."""
    masks_or_keys: np.ndarray
    """The masks of the bands (signs), the band keys (truncated slots), or an empty array."""


def slot_layout(rows: int) -> BandLayout:
    """Returns the layout of whole MinHash slots, in bands of so many slots."""
    return BandLayout(SlotLayout(np.int64(rows)), np.empty((0, 0), np.uint64))


def sign_layout(masks: np.ndarray) -> BandLayout:
    """Returns the layout of signs, with the bits of each band as masks, uint64 (b, words)."""
    return BandLayout(SignLayout(np.int64(masks.shape[1])), masks)


def truncated_layout(slots: int, bits: int, keys: np.ndarray) -> BandLayout:
    """Returns the layout of MinHash slots of which some bits are kept.

    `keys` are the band keys of the whole slots, without a block, uint64 (n, b).
    """
    lowest_bits = (2**64 - 1) // ((1 << bits) - 1)
    layout = TruncatedLayout(np.uint64(bits), np.uint64(lowest_bits), np.int64(slots))
    return BandLayout(layout, keys)


def write_band_keys(
    band_layout: BandLayout, signatures: np.ndarray, salts: np.ndarray, out: np.ndarray
) -> None:
    """Writes the band keys of whole slots or signs, (n, w), into an array, uint64 (b, n).

    `salts` are those of the blocks of documents, uint64 (n,).
    """
    if isinstance(band_layout.layout, SlotLayout):
        kernels.slot_keys(signatures, salts, band_layout.layout, out)
    else:
        kernels.sign_keys(signatures, salts, band_layout.masks_or_keys, out)


def slot_band_keys(slots: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """Returns the band keys of whole slots, uint32 (n, k), without a block, uint64 (n, b)."""
    out = np.empty((bands, len(slots)), np.uint64)
    write_band_keys(slot_layout(rows), slots, np.zeros(len(slots), np.uint64), out)
    return np.ascontiguousarray(out.T)


def probing_band_keys(
    slots: np.ndarray, runner_ups: np.ndarray, bands: int, rows: int, probes: int
) -> np.ndarray:
    """Returns the band keys of whole slots, each with its P probe keys, uint64 (n, b·(1 + P)).

    Each probe key replaces one of the first P slots of a band by its runner-up, the second smallest
    element. Both are uint32 (n, k), and there are no blocks.
    """
    out = np.empty((len(slots), bands * (1 + probes)), np.uint64)
    kernels.probe_keys(slots, runner_ups, rows, probes, out)
    return out


def key_builder_for(banding: Banding, *, truncated: bool) -> BandKeyBuilder | None:
    """Returns the builder of band keys that cannot be computed from signatures afterwards."""
    if not banding.probes and not truncated:
        return None
    key_count = banding.bands * (1 + banding.probes)
    uses_runner_ups = banding.probes > 0
    return BandKeyBuilder(key_count, partial(_build_keys, banding), uses_runner_ups)


def _build_keys(banding: Banding, slots: np.ndarray, runner_ups: np.ndarray) -> np.ndarray:
    if not banding.probes:
        return slot_band_keys(slots, banding.bands, banding.rows)
    return probing_band_keys(slots, runner_ups, banding.bands, banding.rows, banding.probes)


EVERY_LATER = np.empty(0, np.int64)
"""The partners of documents that are compared with all later documents of their bucket."""
NEVER_HOT = np.empty(0, np.uint16)
"""The first hot band of documents if no bucket is hot."""
# Numba compiles kernels only for read-only arrays then, as that of a run with hot buckets is.
NEVER_HOT.flags.writeable = False


class BucketRows(NamedTuple):
    """The rows of buckets whose pairs are compared: each document with the later ones."""

    starts: np.ndarray
    """The position of each bucket's first document that is compared with later ones, int64 (m,)."""
    stops: np.ndarray
    """The position after the last such document, int64 (m,)."""
    ends: np.ndarray
    """The position after the last document of each bucket, int64 (m,)."""
    pairs: int
    """The number of pairs."""

    @classmethod
    def with_later(cls, starts: np.ndarray, stops: np.ndarray, ends: np.ndarray) -> "BucketRows":
        """Returns rows of documents that are compared with all later documents of their bucket.

        Of each bucket, the documents from a start to a stop are compared. It ends at its end.
        """
        pairs = int(((stops - starts) * (2 * ends - starts - stops - 1) // 2).sum())
        return cls(starts, stops, ends, pairs)


def split_buckets(starts: np.ndarray, ends: np.ndarray, pairs: int) -> Iterator[BucketRows]:
    """Yields consecutive buckets, from starts to ends, in portions of about equal numbers of pairs.

    A bucket with more pairs than a portion is divided by its first documents.

    Examples:
        >>> for rows in split_buckets(np.array([0, 2, 4]), np.array([2, 4, 8]), 3):
        ...     print(rows.starts.tolist(), rows.stops.tolist(), rows.ends.tolist(), rows.pairs)
        [0, 2] [2, 4] [2, 4] 2
        [4] [6] [8] 5
        [6] [8] [8] 1
    """
    sizes = ends - starts
    counts = sizes * (sizes - 1) // 2
    portions = np.cumsum(counts) // pairs
    first = 0
    for large in [*np.flatnonzero(counts > pairs).tolist(), len(starts)]:
        cuts = np.flatnonzero(np.diff(portions[first:large])) + first + 1
        for low, high in itertools.pairwise([first, *cuts.tolist(), large]):
            if high > low:
                yield BucketRows.with_later(starts[low:high], ends[low:high], ends[low:high])
        if large < len(starts):
            yield from _split_bucket(int(starts[large]), int(ends[large]), pairs)
        first = large + 1


def _split_bucket(start: int, end: int, pairs: int) -> Iterator[BucketRows]:
    """Yields the rows of one bucket in portions of about equal numbers of pairs."""
    positions = np.arange(start, end)
    portions = np.cumsum(end - 1 - positions) // pairs
    cuts = np.flatnonzero(np.diff(portions)) + 1
    for rows in np.split(positions, cuts):
        yield BucketRows.with_later(rows[:1], rows[-1:] + 1, np.array([end]))


class SourceBuckets(NamedTuple):
    """Buckets of which only the documents of different sources are compared."""

    partners: np.ndarray
    """The position of the first document that each document is compared with, int64."""
    pairs: np.ndarray
    """The number of pairs of each bucket, int64 (m,)."""

    @classmethod
    def order(
        cls, ordinals: np.ndarray, starts: np.ndarray, ends: np.ndarray, sources: np.ndarray
    ) -> "SourceBuckets":
        """Sorts the documents of each bucket by source, in place.

        `ordinals` are the documents, one bucket after the other, uint64, and `sources` those of all
        documents, uint64 (n,).

        Examples:
            >>> ordinals = np.array([0, 1, 2, 3], np.uint64)
            >>> sources = np.array([7, 9, 7, 9], np.uint64)
            >>> buckets = SourceBuckets.order(ordinals, np.array([0]), np.array([4]), sources)
            >>> ordinals.tolist(), buckets.partners.tolist(), buckets.pairs.tolist()
            ([0, 2, 1, 3], [2, 2, 4, 4], [4])
        """
        partners = np.empty(len(ordinals), np.int64)
        pairs = np.empty(len(starts), np.int64)
        kernels.order_by_source(ordinals, starts, ends, sources, partners, pairs)
        return cls(partners, pairs)

    @property
    def sizes(self) -> np.ndarray:
        """The sizes of the largest buckets that have no more pairs without sources, int64 (m,).

        So a bucket of one source has the size 1, however many documents it has.
        """
        return np.floor((1 + np.sqrt(1 + 8.0 * self.pairs)) / 2).astype(np.int64)

    def split(self, starts: np.ndarray, ends: np.ndarray, pairs: int) -> Iterator[BucketRows]:
        """Yields some of the buckets in portions of about equal numbers of pairs.

        A bucket with more pairs than a portion is divided by its first documents.

        Args:
            starts: Position of the first document of each bucket, int64 (m,).
            ends: Position after the last document of each bucket, int64 (m,).
        """
        sizes = ends - starts
        bucket = np.repeat(np.arange(len(starts)), sizes)
        positions = np.arange(len(bucket)) + (starts - (np.cumsum(sizes) - sizes))[bucket]
        counts = ends[bucket] - self.partners[positions]
        portion = np.cumsum(counts) // pairs
        is_new = np.ones(len(bucket), bool)
        is_new[1:] = (portion[1:] != portion[:-1]) | (bucket[1:] != bucket[:-1])
        pieces = np.flatnonzero(is_new)
        last = np.append(pieces[1:], len(bucket)) - 1
        counts_of_pieces = np.add.reduceat(counts, pieces) if len(pieces) else counts
        cuts = np.flatnonzero(np.diff(portion[pieces])) + 1
        for low, high in itertools.pairwise([0, *cuts.tolist(), len(pieces)]):
            count = int(counts_of_pieces[low:high].sum())
            if count:
                yield BucketRows(
                    starts=positions[pieces[low:high]],
                    stops=positions[last[low:high]] + 1,
                    ends=ends[bucket[pieces[low:high]]],
                    pairs=count,
                )
