"""Several fields of a document, all or some of which must be similar.

A document is a struct with a value of each field. One field, which all near-duplicates need, has
the signatures from which candidate pairs are found. Every pair is then compared in all fields,
exactly. Its similarity is that of the field with the signatures, or 0 if other fields that it needs
are not similar enough.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.hashing.families import hash_rows
from nearkin.lsh.slot_bands import Banding
from nearkin.measures.base import (
    BandingRequest,
    DocumentSketcher,
    Estimator,
    Measure,
    Payload,
    PayloadBuilder,
    StoredPayloads,
    as_stored,
)
from nearkin.packed_pairs import ScoredPairs, pack_pairs, sorted_unique, unpack_pairs
from nearkin.pair_scope import PairScope
from nearkin.shingle import Shingles
from nearkin.sketch.sketcher import EMPTY_STREAM, BandKeyBuilder, Sketches
from nearkin.spec import Spec
from nearkin.verify.weighted import DEFAULT_MEMORY

HASHED_SLOTS = 8
"""The number of slots of texts of which only the hash of all shingles is needed."""


class ComparedField(NamedTuple):
    """One field of documents."""

    measure: Measure
    """The measure of the field: jaccard of texts, or hamming of fingerprints."""
    threshold: float
    """The smallest similarity of the field of near-duplicates."""


@dataclass(frozen=True)
class FieldsMeasure:
    """The similarity of documents with several fields, as `Measure` describes it.

    Attributes:
        fields: The fields, in the order of the parts of a document.
        candidate: The position of the field with the signatures.
        alternatives: The sets of fields that suffice, as positions. Each contains the candidate.
    """

    fields: tuple[ComparedField, ...]
    candidate: int
    alternatives: tuple[tuple[int, ...], ...]

    @property
    def _signed(self) -> Measure:
        return self.fields[self.candidate].measure

    @property
    def spec(self) -> Spec:
        return self._signed.spec

    @property
    def estimator(self) -> Estimator:
        return self._signed.estimator

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        return ((np.uint64, None),)

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> DocumentSketcher:
        return _FieldsSketcher(self, key_builder)

    def payload_builder(self) -> PayloadBuilder:
        return _FieldsPayloads(self)

    def banding(self, request: BandingRequest) -> Banding:
        return self._signed.banding(request)

    def compare(self, pairs: np.ndarray, stored: StoredPayloads) -> ScoredPairs:
        """Compares pairs in all fields, as described in `Measure`.

        Args:
            pairs: Packed pairs of document numbers, uint64 (m,).
            stored: Payloads of the documents. Each has a part for each field.

        Returns:
            The pairs with the similarity of the field with the signatures. It is 0 for pairs of
            which the other fields of no alternative are all similar enough.
        """
        scored = self._compare_field(self.candidate, pairs, stored)
        reached = [
            np.ones(len(pairs), bool)
            if position == self.candidate
            else self._reach_threshold(position, pairs, stored)
            for position in range(len(self.fields))
        ]
        is_accepted = _holds_for_any(self.alternatives, np.stack(reached, axis=1))
        return scored._replace(intersection=np.where(is_accepted, scored.intersection, 0))

    def compare_all(
        self,
        payload: Payload,
        scope: PairScope,
        threshold: float,
        workers: int,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[ScoredPairs]:
        """Yields every pair that reaches the threshold, as described in `Measure`.

        Args:
            payload: Payload of the documents. Pairs consist of positions in it.
            scope: Pairs that are compared.
            threshold: Smallest similarity of the field with the signatures.
            workers: Number of threads.
            memory: Maximum number of bytes of intermediate results.
        """
        parts = as_stored(payload)
        documents = len(payload.sizes) // len(self.fields)
        stored = parts._replace(place=np.arange(documents, dtype=np.uint32))
        signed = self._payload_of_field(self.candidate, np.arange(documents), stored)
        for portion in self._signed.compare_all(signed, scope, threshold, workers, memory):
            compared = self.compare(portion.pairs, stored)
            yield compared.select(compared.meets_threshold(threshold))

    def _reach_threshold(
        self, position: int, pairs: np.ndarray, stored: StoredPayloads
    ) -> np.ndarray:
        """Returns for which pairs a field reaches its threshold, bool (m,).

        It does not if one of the documents lacks the field.
        """
        first, second = unpack_pairs(pairs)
        has_field = self._have_field(position, first, stored)
        has_field &= self._have_field(position, second, stored)
        compared = self._compare_field(position, pairs[has_field], stored)
        is_reached = np.zeros(len(pairs), bool)
        is_reached[has_field] = compared.meets_threshold(self.fields[position].threshold)
        return is_reached

    def _have_field(
        self, position: int, documents: np.ndarray, stored: StoredPayloads
    ) -> np.ndarray:
        """Returns which stored documents have a value of a field, bool (m,)."""
        parts = stored.place[documents].astype(np.int64) * len(self.fields) + position
        return np.asarray(stored.starts[parts + 1] > stored.starts[parts])

    def _compare_field(
        self, position: int, pairs: np.ndarray, stored: StoredPayloads
    ) -> ScoredPairs:
        """Compares pairs in one field."""
        first, second = unpack_pairs(pairs)
        documents = sorted_unique(np.concatenate([first, second]))
        payload = self._payload_of_field(position, documents, stored)
        local_pairs = pack_pairs(
            np.searchsorted(documents, first), np.searchsorted(documents, second)
        )
        scored = self.fields[position].measure.compare(local_pairs, as_stored(payload))
        return scored._replace(pairs=pairs)

    def _payload_of_field(
        self, position: int, documents: np.ndarray, stored: StoredPayloads
    ) -> Payload:
        """Returns the payloads of one field of stored documents."""
        parts = stored.place[documents].astype(np.int64) * len(self.fields) + position
        sizes = np.asarray(stored.starts[parts + 1] - stored.starts[parts])
        before = np.cumsum(sizes) - sizes
        rows = np.repeat(stored.starts[parts] - before, sizes) + np.arange(int(sizes.sum()))
        values = np.asarray(stored.columns[0][rows])
        _, width = self.fields[position].measure.column_types[0]
        if width is None:
            return Payload(sizes, (values,))
        return Payload(np.ones(len(documents), np.int64), (values.reshape(-1, width),))


class _FieldsSketcher:
    """A sketcher of documents with several fields."""

    def __init__(self, measure: FieldsMeasure, key_builder: BandKeyBuilder | None) -> None:
        self._candidate = measure.candidate
        self._alternatives = measure.alternatives
        self._sketchers = [
            field.measure.sketcher(key_builder)
            if position == measure.candidate
            else _sketcher_of_hashes(field.measure)
            for position, field in enumerate(measure.fields)
        ]

    def sketch(
        self, documents: pa.Array, also: Callable[[Shingles], None] | None = None
    ) -> Sketches:
        """Returns the signatures of the candidate field, and hashes of all fields.

        A document that lacks a field of each alternative has no shingles, so that it matches no
        other one.

        Args:
            documents: The documents, a struct of their fields.
            also: Is not called, because the shingles of one field are not those of the document.
        """
        fields = [documents.field(position) for position in range(len(self._sketchers))]
        sketches = [
            sketcher.sketch(without_nulls(field))
            for sketcher, field in zip(self._sketchers, fields, strict=True)
        ]
        has_fields = np.stack(
            [
                (sketch.shingles > 0) & field.is_valid().to_numpy(zero_copy_only=False)
                for sketch, field in zip(sketches, fields, strict=True)
            ],
            axis=1,
        )
        is_empty = ~_holds_for_any(self._alternatives, has_fields)
        # A null is not equal to the value that takes its place.
        words = np.hstack(
            [*(sketch.fingerprints for sketch in sketches), has_fields.astype(np.uint64)]
        )
        hashes = hash_rows(np.ascontiguousarray(words).view(np.uint8))
        hashes[is_empty] = EMPTY_STREAM
        signed = sketches[self._candidate]
        shingles = np.where(is_empty, np.uint32(0), signed.shingles)
        return signed._replace(shingles=shingles, fingerprints=hashes)


class _FieldsPayloads:
    """A builder of payloads with a part for each field of a document."""

    def __init__(self, measure: FieldsMeasure) -> None:
        self._builders = [field.measure.payload_builder() for field in measure.fields]

    def build(self, documents: pa.Array) -> Payload:
        """Returns the payload of a batch of documents, see `PayloadBuilder`.

        Its sizes are those of the parts, int64 (n · fields,): all parts of the first document, then
        those of the second one. The part of a field that a document lacks is empty.
        """
        payloads = [
            _build_without_nulls(builder, documents.field(position))
            for position, builder in enumerate(self._builders)
        ]
        widths = [payload.columns[0][:1].size or 1 for payload in payloads]
        sizes = np.stack(
            [payload.sizes * width for payload, width in zip(payloads, widths, strict=True)], axis=1
        )
        flat_sizes = sizes.reshape(-1)
        starts = (np.cumsum(flat_sizes) - flat_sizes).reshape(sizes.shape)
        values = np.empty(int(flat_sizes.sum()), np.uint64)
        for position, payload in enumerate(payloads):
            own = sizes[:, position]
            before = np.cumsum(own) - own
            rows = np.repeat(starts[:, position] - before, own) + np.arange(int(own.sum()))
            values[rows] = payload.columns[0].reshape(-1)
        return Payload(flat_sizes, (values,))


def _sketcher_of_hashes(measure: Measure) -> DocumentSketcher:
    """Returns a sketcher of a field of which only the hashes and the shingles are counted."""
    spec = measure.spec
    if not spec.has_slots:
        return measure.sketcher()
    return replace(measure, spec=replace(spec, k=HASHED_SLOTS)).sketcher()  # type: ignore[type-var]


def _build_without_nulls(builder: PayloadBuilder, field: pa.Array) -> Payload:
    """Returns the payload of a field, in which nulls have no rows."""
    payload = builder.build(without_nulls(field))
    if not field.null_count:
        return payload
    is_valid = field.is_valid().to_numpy(zero_copy_only=False)
    rows = np.repeat(is_valid, payload.sizes)
    columns = tuple(column[rows] for column in payload.columns)
    return Payload(np.where(is_valid, payload.sizes, 0), columns)


def _holds_for_any(alternatives: tuple[tuple[int, ...], ...], holds: np.ndarray) -> np.ndarray:
    """Returns for which rows all fields of an alternative hold, bool (n,).

    Args:
        alternatives: The positions of the fields of each alternative.
        holds: For which rows each field holds, bool (n, fields).
    """
    accepted = np.zeros(len(holds), bool)
    for fields in alternatives:
        accepted |= holds[:, list(fields)].all(axis=1)
    return accepted


def without_nulls(field: pa.Array) -> pa.Array:
    """Returns the values of a field with an empty value in place of each null.

    Args:
        field: Texts (large_string), or fingerprints (fixed_size_binary).
    """
    if not field.null_count:
        return field
    if pa.types.is_fixed_size_binary(field.type):
        return field.fill_null(bytes(field.type.byte_width))
    return field.fill_null("")
