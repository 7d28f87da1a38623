"""Several fields of a document, all or some of which must be similar.

A document is a struct with a value of each field. A condition over the fields has alternatives:
sets of fields that suffice. Each alternative has a field whose signatures find its candidate pairs.
Every pair is then compared in all fields, exactly. Its similarity is that of the field with the
signatures, the highest one if several alternatives hold, or 0 if none holds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.settings.spec import Spec
from nearkin.stages.hashing.families import hash_rows
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures.base import (
    BandingRequest,
    DocumentSketcher,
    Estimator,
    Measure,
    Payload,
    PayloadBuilder,
    StoredPayloads,
    as_stored,
)
from nearkin.stages.packed_pairs import (
    PAIRS_PER_BATCH,
    ScoredPairs,
    merge_sorted_pairs,
    pack_pairs,
    sorted_unique,
    unpack_pairs,
)
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch.sketcher import EMPTY_STREAM, BandKeyBuilder, FieldSketches, Sketches
from nearkin.stages.verify.weighted import DEFAULT_MEMORY

HASHED_SLOTS = 8
"""The number of slots of texts of which only the hash of all shingles is needed."""
WORD = np.dtype(np.uint64)
"""The type of the words of which the payloads of all fields consist."""


class ComparedField(NamedTuple):
    """One field of documents."""

    measure: Measure
    """The measure of the field: jaccard of texts and tokens, hamming of fingerprints, or cosine of
    vectors."""
    threshold: float
    """The smallest similarity of the field of near-duplicates."""

    @property
    def row_words(self) -> int:
        """The number of words that a row of the field's payload takes."""
        return -(-self._row_bytes // WORD.itemsize)

    @property
    def _row_bytes(self) -> int:
        dtype, width = self.measure.column_types[0]
        return np.dtype(dtype).itemsize * (width or 1)

    def pack_rows(self, rows: np.ndarray) -> np.ndarray:
        """Returns rows of the field's payload as words, uint64 (n, words), filled with zeros."""
        packed = np.zeros((len(rows), self.row_words * WORD.itemsize), np.uint8)
        content = np.ascontiguousarray(rows).view(np.uint8)
        packed[:, : self._row_bytes] = content.reshape(len(rows), self._row_bytes)
        return packed.view(WORD)

    def unpack_rows(self, words: np.ndarray) -> np.ndarray:
        """Returns the rows of the field's payload that `pack_rows` packed, one after the other."""
        dtype, width = self.measure.column_types[0]
        if width is None:
            return words.view(dtype)
        row_numbers = self.row_words * WORD.itemsize // np.dtype(dtype).itemsize
        numbers = words.view(dtype).reshape(-1, row_numbers)
        return np.ascontiguousarray(numbers[:, :width])


@dataclass(frozen=True)
class FieldsMeasure:
    """The similarity of documents with several fields, as `Measure` describes it.

    Attributes:
        fields: The fields, in the order of the parts of a document.
        candidates: The positions of the fields with signatures. The Spec, the estimator and the
            banding are those of the first one.
        alternatives: The sets of fields that suffice, as positions. Each contains a candidate.
    """

    fields: tuple[ComparedField, ...]
    candidates: tuple[int, ...]
    alternatives: tuple[tuple[int, ...], ...]

    @property
    def candidate_measures(self) -> tuple[Measure, ...]:
        """The measures of the fields with signatures."""
        return tuple(self.fields[position].measure for position in self.candidates)

    @property
    def _signed(self) -> Measure:
        return self.candidate_measures[0]

    @property
    def spec(self) -> Spec:
        return self._signed.spec

    @property
    def estimator(self) -> Estimator:
        return self._signed.estimator

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        return ((np.uint64, None),)

    @cached_property
    def _alternatives_of_candidates(self) -> dict[int, tuple[tuple[int, ...], ...]]:
        """The alternatives by the field that finds their pairs: their first candidate."""
        found: dict[int, tuple[tuple[int, ...], ...]] = dict.fromkeys(self.candidates, ())
        for fields in self.alternatives:
            finder = next(at for at in self.candidates if at in fields)
            found[finder] += (fields,)
        return found

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> DocumentSketcher:
        return _FieldsSketcher(self, key_builder)

    def payload_builder(self) -> PayloadBuilder:
        return _FieldsPayloads(self)

    def banding(self, request: BandingRequest) -> Banding:
        return self._signed.banding(request)

    def compare(self, pairs: np.ndarray, stored: StoredPayloads) -> ScoredPairs:
        """Compares pairs in all fields, as described in `Measure`."""
        scored = [
            self.compare_field(position, pairs, stored) for position in range(len(self.fields))
        ]
        reached = np.stack(
            [
                field.meets_threshold(self.fields[position].threshold)
                for position, field in enumerate(scored)
            ],
            axis=1,
        )
        intersection = np.zeros(len(pairs))
        union = np.ones(len(pairs))
        best = np.zeros(len(pairs))
        for position, alternatives in self._alternatives_of_candidates.items():
            similarity = scored[position].similarity
            is_higher = holds_for_any(alternatives, reached) & (similarity > best)
            intersection[is_higher] = scored[position].intersection[is_higher]
            union[is_higher] = scored[position].union[is_higher]
            best[is_higher] = similarity[is_higher]
        return ScoredPairs(pairs, intersection, union)

    def compare_all(
        self,
        payload: Payload,
        scope: PairScope,
        threshold: float,
        workers: int,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[ScoredPairs]:
        """Yields every pair that reaches the threshold, as described in `Measure`."""
        stored = as_stored(payload)
        found = [
            self._similar_pairs(position, stored, scope, workers, memory)
            for position in self.candidates
        ]
        for pairs in merge_sorted_pairs(found):
            for start in range(0, len(pairs), PAIRS_PER_BATCH):
                compared = self.compare(pairs[start : start + PAIRS_PER_BATCH], stored)
                yield compared.select(compared.meets_threshold(threshold))

    def _similar_pairs(
        self, position: int, stored: StoredPayloads, scope: PairScope, workers: int, memory: int
    ) -> Iterator[np.ndarray]:
        """Yields the packed pairs of documents that are similar in a field, in order."""
        documents = np.arange(len(stored.place))
        documents = documents[self._find_parts(position, documents, stored).sizes > 0]
        payload = self._payload_of_field(position, documents, stored)
        field = self.fields[position]
        for portion in field.measure.compare_all(
            payload, scope.select(documents), field.threshold, workers, memory
        ):
            first, second = unpack_pairs(portion.pairs)
            yield pack_pairs(documents[first], documents[second])

    def compare_field(
        self, position: int, pairs: np.ndarray, stored: StoredPayloads
    ) -> ScoredPairs:
        """Compares packed pairs in one field."""
        first, second = unpack_pairs(pairs)
        has_field = self._find_parts(position, first, stored).sizes > 0
        has_field &= self._find_parts(position, second, stored).sizes > 0
        first, second = first[has_field], second[has_field]
        documents = sorted_unique(np.concatenate([first, second]))
        payload = self._payload_of_field(position, documents, stored)
        local_pairs = pack_pairs(
            np.searchsorted(documents, first), np.searchsorted(documents, second)
        )
        scored = self.fields[position].measure.compare(local_pairs, as_stored(payload))
        intersection = np.zeros(len(pairs))
        union = np.zeros(len(pairs))
        intersection[has_field] = scored.intersection
        union[has_field] = scored.union
        return ScoredPairs(pairs, intersection, union)

    def _find_parts(self, position: int, documents: np.ndarray, stored: StoredPayloads) -> "_Parts":
        headers = stored.starts[stored.place[documents].astype(np.int64)]
        words = stored.columns[0]
        starts = headers + len(self.fields)
        for earlier in range(position):
            starts = starts + np.asarray(words[headers + earlier]).astype(np.int64)
        return _Parts(starts, np.asarray(words[headers + position]).astype(np.int64))

    def _payload_of_field(
        self, position: int, documents: np.ndarray, stored: StoredPayloads
    ) -> Payload:
        starts, sizes = self._find_parts(position, documents, stored)
        before = np.cumsum(sizes) - sizes
        rows = np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))
        field = self.fields[position]
        words = np.ascontiguousarray(stored.columns[0][rows])
        return Payload(sizes // field.row_words, (field.unpack_rows(words),))


class _Parts(NamedTuple):
    """The parts of one field in the payloads of documents."""

    starts: np.ndarray
    """int64 (m,): The first word of each part."""
    sizes: np.ndarray
    """int64 (m,): The number of words of each part, 0 if a document lacks the field."""


class _FieldsSketcher:
    """A sketcher of documents with several fields."""

    def __init__(self, measure: FieldsMeasure, key_builder: BandKeyBuilder | None) -> None:
        self._candidates = measure.candidates
        self._alternatives = measure.alternatives
        self._sketchers = [
            _sketcher_of_hashes(field.measure) for position, field in enumerate(measure.fields)
        ]
        for position in measure.candidates:
            builder = key_builder if position == measure.candidates[0] else None
            self._sketchers[position] = measure.fields[position].measure.sketcher(builder)

    def sketch(
        self, documents: pa.Array, also: Callable[[Shingles], None] | None = None
    ) -> Sketches:
        """Returns the signatures of the candidate fields, and hashes of all fields.

        A document that lacks a field of each alternative has no shingles, so that it matches no
        other one. Otherwise its shingles are those of the candidate fields.
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
        is_empty = ~holds_for_any(self._alternatives, has_fields)
        # A null is not equal to the value that takes its place.
        words = np.hstack(
            [*(sketch.fingerprints for sketch in sketches), has_fields.astype(np.uint64)]
        )
        hashes = hash_rows(np.ascontiguousarray(words).view(np.uint8))
        hashes[is_empty] = EMPTY_STREAM
        shingles = np.zeros(len(documents), np.uint32)
        for position in self._candidates:
            is_counted = has_fields[:, position] & ~is_empty
            shingles[is_counted] += sketches[position].shingles[is_counted]
        signed = sketches[self._candidates[0]]._replace(shingles=shingles, fingerprints=hashes)
        if len(self._candidates) == 1:
            return signed
        by_field = tuple(
            FieldSketches(sketches[position].signatures, has_fields[:, position])
            for position in self._candidates
        )
        return signed._replace(fields=by_field)


class _FieldsPayloads:
    """A builder of payloads with a part for each field of a document."""

    def __init__(self, measure: FieldsMeasure) -> None:
        self._fields = measure.fields
        self._builders = [field.measure.payload_builder() for field in measure.fields]

    def build(self, documents: pa.Array) -> Payload:
        """Returns the payload of a batch of documents, see `PayloadBuilder`.

        The payload of a document consists of words: the size of the part of each field, then all
        parts. The part of a field that a document lacks is empty.
        """
        payloads = [
            _build_without_nulls(builder, documents.field(position))
            for position, builder in enumerate(self._builders)
        ]
        sizes = np.stack(
            [
                payload.sizes * field.row_words
                for payload, field in zip(payloads, self._fields, strict=True)
            ],
            axis=1,
        )
        totals = sizes.sum(axis=1) + len(self._fields)
        headers = np.cumsum(totals) - totals
        starts = headers + len(self._fields)
        words = np.empty(int(totals.sum()), np.uint64)
        for position, (payload, field) in enumerate(zip(payloads, self._fields, strict=True)):
            own = sizes[:, position]
            words[headers + position] = own
            before = np.cumsum(own) - own
            rows = np.repeat(starts - before, own) + np.arange(int(own.sum()))
            words[rows] = field.pack_rows(payload.columns[0]).reshape(-1)
            starts = starts + own
        return Payload(totals, (words,))


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


def holds_for_any(alternatives: tuple[tuple[int, ...], ...], holds: np.ndarray) -> np.ndarray:
    """Returns for which rows all fields of an alternative hold, by bool (n, fields)."""
    accepted = np.zeros(len(holds), bool)
    for fields in alternatives:
        accepted |= holds[:, list(fields)].all(axis=1)
    return accepted


def without_nulls(field: pa.Array) -> pa.Array:
    """Returns the values of a field with another value in place of each null."""
    if not field.null_count:
        return field
    kind = field.type
    if pa.types.is_fixed_size_binary(kind):
        return field.fill_null(bytes(kind.byte_width))
    if pa.types.is_large_list(kind):
        return field.fill_null(pa.scalar([], kind))
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        numbers = field.values.slice(field.offset * size, len(field) * size)
        vectors = numbers.to_numpy(zero_copy_only=False).reshape(-1, size).copy()
        vectors[field.is_null().to_numpy(zero_copy_only=False)] = 1
        return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), size)
    return field.fill_null("")
