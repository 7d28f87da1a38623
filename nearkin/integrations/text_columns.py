"""Functions of columns of texts, from Arrow to Arrow, for SQL engines and data frames.

A null text has a null result.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus.arrow_conversion import decode_column, replace_nulls, to_chunked, to_texts
from nearkin.errors import UsageError
from nearkin.index.signatures.sketching import sketch_documents, sketcher_pool
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.band_keys import write_band_keys
from nearkin.stages.measures import measure_of
from nearkin.stages.measures.base import BandingRequest, as_stored, band_layout_of
from nearkin.stages.measures.compared_sets import compares_sets
from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources

NO_KEYS = np.empty((0, 0), np.uint64)


class TextColumns:
    """The functions of columns of texts of one Spec.

    Examples:
        >>> columns = TextColumns(Spec(k=8))
        >>> texts = ["the cat sat on the mat", None]
        >>> columns.compare(texts, ["the cat sat on the mat now", "a dog"]).to_pylist()
        [0.8, None]
    """

    def __init__(self, spec: Spec, resources: SpecResources = NO_RESOURCES) -> None:
        if not spec.has_shingles:
            raise UsageError(f"the Spec is of {spec.unit}s; columns of texts need a Spec of texts")
        self.spec = spec
        self._measure = measure_of(spec, resources)
        self._sketchers = sketcher_pool(self._measure)

    def sketch(self, texts: Any) -> pa.Array:
        """Returns the signature of each text."""
        column = _read_column(texts)
        return _as_lists(self._signatures(column.texts), column.nulls)

    def band_keys(self, texts: Any, threshold: float = 0.8, recall: float = 0.95) -> pa.Array:
        """Returns the band keys of each text.

        Documents that share the key of a band, at the same position, are candidates.

        Returns:
            fixed_size_list of uint64, one for each band.
        """
        return self.keys_of_banding(texts, BandingRequest(threshold, recall))

    def keys_of_banding(self, texts: Any, request: BandingRequest) -> pa.Array:
        """Returns the band keys of each text, as `band_keys` does."""
        if self.spec.truncated:
            raise UsageError(
                f"slot_bits={self.spec.slot_bits} keeps a part of each slot, and band keys need "
                "whole ones; use slot_bits=32"
            )
        column = _read_column(texts)
        signatures = self._signatures(column.texts)
        banding = self._measure.banding(request)
        layout = band_layout_of(self.spec, banding, NO_KEYS)
        keys = np.empty((banding.bands, len(signatures)), np.uint64)
        write_band_keys(layout, signatures, np.zeros(len(signatures), np.uint64), keys)
        return _as_lists(np.ascontiguousarray(keys.T), column.nulls)

    def compare(self, first: Any, second: Any) -> pa.Array:
        """Returns the exact similarity of the two texts of each row, by the measure of the Spec."""
        return self._combine(first, second, lambda scored, _sizes: scored.similarity)

    def containment(self, first: Any, second: Any) -> pa.Array:
        """Returns the share of the first text's shingles that the second contains, in each row.

        It is 0 for a first text without shingles.
        """
        if not compares_sets(self.spec.measure):
            raise UsageError(
                f"containment is a share of shingles, and the measure {self.spec.measure!r} does "
                "not compare sets of them; use measure='jaccard'"
            )
        return self._combine(
            first, second, lambda scored, sizes: scored.intersection / np.maximum(sizes, 1)
        )

    def _signatures(self, texts: pa.ChunkedArray) -> np.ndarray:
        sketched = sketch_documents(texts, self._measure, self._sketchers, workers=1)
        return np.ascontiguousarray(sketched.signatures)

    def _combine(
        self,
        first: Any,
        second: Any,
        to_number: Callable[[ScoredPairs, np.ndarray], np.ndarray],
    ) -> pa.Array:
        """Compares two columns row by row, and returns a number for each row, float64."""
        columns = [_read_column(first), _read_column(second)]
        rows = len(columns[0].texts)
        if len(columns[1].texts) != rows:
            raise UsageError(
                f"the columns have different numbers of rows: {rows}, {len(columns[1].texts)}"
            )
        nulls = columns[0].nulls | columns[1].nulls
        chunks = [chunk for column in columns for chunk in column.texts.chunks]
        documents = pa.chunked_array(chunks, pa.large_string())
        payload = self._measure.payload_builder().build(documents.combine_chunks())
        numbers = np.arange(rows)
        pairs = pack_pairs(numbers, numbers + rows)
        scored = self._measure.compare(pairs, as_stored(payload))
        return pa.array(to_number(scored, payload.sizes[:rows]), pa.float64(), mask=nulls)


class _TextColumn(NamedTuple):
    """A column of texts.

    Attributes:
        texts: The texts, large_string (n,). Nulls are empty.
        nulls: Whether a row is null, bool (n,).
    """

    texts: pa.ChunkedArray
    nulls: np.ndarray


def _read_column(values: Any) -> _TextColumn:
    """Returns a column of texts of any library."""
    column = decode_column(to_chunked(values))
    nulls = np.asarray(column.is_null(), bool)
    return _TextColumn(pa.chunked_array(to_texts(replace_nulls(column)), pa.large_string()), nulls)


def _as_lists(values: np.ndarray, nulls: np.ndarray) -> pa.Array:
    """Returns the rows of a matrix (n, w) as lists, which are null where the column is."""
    return pa.FixedSizeListArray.from_arrays(
        pa.array(values.reshape(-1)), values.shape[1], mask=pa.array(nulls)
    )
