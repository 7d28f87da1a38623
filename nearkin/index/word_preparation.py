"""The preparation of texts by one kernel, for the Specs that most indexes have."""

from typing import NamedTuple

import numpy as np

from nearkin.index import kernels
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.shingle.shingler import SYMBOL_WORDS
from nearkin.stages.sketch.minhash import Binned
from nearkin.stages.sketch.resources import SpecResources
from nearkin.stages.verify.jaccard import SORT_BUCKETS, ShingleSets


class PreparedWords(NamedTuple):
    """The signatures, band keys and shingle sets of n texts."""

    signatures: np.ndarray
    """The signatures of whole slots, uint32 (n, k)."""
    keys: np.ndarray
    """The band keys, uint64 (n, b)."""
    sets: ShingleSets
    """The shingle sets."""


class WordPreparer:
    """A preparer of texts. It owns buffers, so each thread needs its own.

    The results are those of `Sketcher`, `write_band_keys` and `distinct_sets`.
    """

    def __init__(self, spec: Spec, resources: SpecResources, banding: Banding) -> None:
        self._shingler = resources.shingler(spec)
        self._scheme = Binned(spec.k, spec.seed)
        self._spec = spec
        self._banding = banding
        self._bucket_ends = np.empty(SORT_BUCKETS, np.int64)

    @staticmethod
    def is_applicable(spec: Spec, resources: SpecResources, banding: Banding) -> bool:
        """Returns True if shingles are plain words and signatures are whole binned slots."""
        return (
            spec.measure == "jaccard"
            and spec.scheme == "binned"
            and not spec.truncated
            and not banding.probes
            and resources.shingler(spec).has_plain_words
        )

    def prepare(self, data: np.ndarray, offsets: np.ndarray, salt: np.uint64) -> PreparedWords:
        """Returns the signatures, band keys and shingle sets of texts.

        Args:
            data: Valid UTF-8 bytes of the texts, uint8, read-only.
            offsets: First byte of each text, and the end, int64 (n + 1,), read-only.
        """
        shingler = self._shingler
        n = len(offsets) - 1
        scratch, stream = shingler.word_buffers(data, offsets)
        slots = np.empty((n, self._spec.k), np.uint32)
        keys = np.empty((n, self._banding.bands), np.uint64)
        sizes = np.empty(n, np.int64)
        sets = np.empty(len(stream), np.uint64)
        total = kernels.prepare_words(
            data,
            offsets,
            self._spec.n,
            shingler.fast,
            shingler.tables,
            scratch,
            shingler.key,
            self._scheme.rounds,
            self._scheme.completion,
            salt,
            self._banding.rows,
            stream,
            np.empty(n + 1, np.int64),
            np.empty((n, SYMBOL_WORDS), np.uint64),
            self._bucket_ends,
            slots,
            keys,
            sizes,
            sets,
        )
        shingler.release_large_buffers()
        return PreparedWords(slots, keys, ShingleSets(sets[:total].copy(), sizes))
