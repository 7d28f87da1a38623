"""Additional buckets that a look-up reads, so that fewer bands find as many documents.

Stored documents have one posting for each band. Only the look-up probes: for MinHash, it replaces
one slot of a band by the runner-up; for signs of vectors, it flips the bits whose projections are
smallest (Lv, Josephson, Wang, Charikar, Li, *Multi-probe LSH*, VLDB 2007).
"""

import numpy as np

from nearkin.index.preparation import PreparedDocuments, Preparer
from nearkin.runtime.threads import ObjectPool
from nearkin.settings.spec import KEYED_HYPERPLANES
from nearkin.stages.lsh.band_keys import slot_layout, write_band_keys
from nearkin.stages.lsh.probing import perturbations
from nearkin.stages.lsh.sign_bands import SignBanding
from nearkin.stages.measures.base import row_starts
from nearkin.stages.sketch.hyperplanes import hyperplanes
from nearkin.stages.sketch.sketcher import BandKeyBuilder, Sketcher

KEYS_AT_ONCE = 1 << 21
"""The number of band keys of flipped signatures that are computed at a time."""


class LookupProber:
    """Computes the keys of the additional buckets of documents. Safe for threads.

    Args:
        lookup_probes: Number of additional buckets of each band, at least 1. A band of r slots has
            at most r of them, and a band of r bits 2^r − 1.
    """

    def __init__(self, preparer: Preparer, lookup_probes: int) -> None:
        self._preparer = preparer
        self._banding = preparer.banding
        spec = preparer.measure.spec
        most = 2 ** min(self._banding.rows, 62) - 1 if preparer.vectors else self._banding.rows
        self._probes = min(lookup_probes, most)
        if preparer.vectors:
            secret = None
            if spec.scheme == KEYED_HYPERPLANES:
                secret = spec.require_key(preparer.resources.secret)
            self._planes = hyperplanes(spec.n, spec.k, spec.seed, secret)
            self._lengths = np.linalg.norm(self._planes.astype(np.float64), axis=0)
            assert isinstance(self._banding, SignBanding)
            self._layout = self._banding.band_layout
            masks = self._layout.masks_or_keys
            bits = np.unpackbits(masks.astype("<u8").view(np.uint8), axis=1, bitorder="little")
            self._band_bits = [np.flatnonzero(band) for band in bits]
        else:
            self._layout = slot_layout(self._banding.rows)
            builder = BandKeyBuilder(spec.k, _read_runner_ups, uses_runner_ups=True)
            self._sketchers = ObjectPool(lambda: Sketcher(spec, preparer.resources, builder))

    def keys(self, prepared: PreparedDocuments) -> np.ndarray:
        """Returns the keys of the additional buckets, uint64 (n, b·P)."""
        salt = self._preparer.scope_salt(prepared.scope)
        if self._preparer.vectors:
            return self._flipped_keys(prepared, salt)
        return self._runner_up_keys(prepared, salt)

    def _runner_up_keys(self, prepared: PreparedDocuments, salt: np.uint64) -> np.ndarray:
        hashes = prepared.payload.columns[0]
        starts = row_starts(prepared.payload)
        sketches = self._sketchers.use(lambda sketcher: sketcher.sketch_hashes(hashes, starts))
        assert sketches.keys is not None
        runner_ups = sketches.keys.astype(np.uint32)
        n = len(runner_ups)
        bands = self._banding.bands
        out = np.empty((self._probes, bands, n), np.uint64)
        salts = np.full(n, salt, np.uint64)
        for probe in range(self._probes):
            places = np.arange(bands) * self._banding.rows + probe
            slots = sketches.signatures.copy()
            slots[:, places] = runner_ups[:, places]
            write_band_keys(self._layout, slots, salts, out[probe])
        return np.ascontiguousarray(out.reshape(-1, n).T)

    def _flipped_keys(self, prepared: PreparedDocuments, salt: np.uint64) -> np.ndarray:
        n = len(prepared.signatures)
        bands = self._banding.bands
        step = max(1, KEYS_AT_ONCE // (bands * bands * self._probes))
        parts = [
            self._flip_signatures(prepared, slice(start, start + step), salt)
            for start in range(0, n, step)
        ]
        return np.concatenate([np.empty((0, bands * self._probes), np.uint64), *parts])

    def _flip_signatures(
        self, prepared: PreparedDocuments, rows: slice, salt: np.uint64
    ) -> np.ndarray:
        """Returns the keys of some documents, uint64 (m, b·P).

        A signature is flipped for one band at a time, because bands may share bits.
        """
        signatures = prepared.signatures[rows]
        vectors = prepared.payload.columns[0][rows].astype(np.float64)
        margins = np.abs(vectors @ self._planes) / self._lengths
        n, words = signatures.shape
        bands = self._banding.bands
        flips = np.zeros((n, bands, self._probes, words), np.uint64)
        for i in range(n):
            for band, bits in enumerate(self._band_bits):
                for probe, flipped in enumerate(perturbations(margins[i, bits], self._probes)):
                    for bit in bits[list(flipped)].tolist():
                        flips[i, band, probe, bit // 64] ^= np.uint64(1 << bit % 64)
        flipped_signatures = (signatures[:, None, None, :] ^ flips).reshape(-1, words)
        salts = np.full(len(flipped_signatures), salt, np.uint64)
        out = np.empty((bands, len(flipped_signatures)), np.uint64)
        write_band_keys(self._layout, flipped_signatures, salts, out)
        keys = out.reshape(bands, n, bands, self._probes)
        own_band = np.arange(bands)
        # The band of the key is the band for which the signature was flipped.
        chosen = keys[own_band, :, own_band, :]
        return np.ascontiguousarray(chosen.transpose(1, 0, 2)).reshape(n, -1)


def _read_runner_ups(slots: np.ndarray, runner_ups: np.ndarray) -> np.ndarray:
    """Returns the runner-ups in the place of band keys, uint64 (n, k)."""
    return runner_ups.astype(np.uint64)
