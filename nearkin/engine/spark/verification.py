"""Stage 4 inside tasks: from candidate pairs to scored pairs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.places import are_among
from nearkin.engine.acceptance import TEXT_FACTS, token_kinds_of
from nearkin.engine.options import RunOptions
from nearkin.engine.pair_acceptance import PairAcceptance
from nearkin.engine.spark.arrow_columns import (
    from_binary_rows,
    make_batch,
    payload_of,
    read_binary_column,
    to_numbers,
    to_unsigned,
)
from nearkin.engine.spark.document_parts import unite_parts
from nearkin.engine.spark.rereading import token_column
from nearkin.engine.spark.sketching import ACCEPTED_BY, ACROSS, TaskRequest
from nearkin.engine.token_runs import TokenKind, TokenRuns
from nearkin.errors import RunError
from nearkin.runtime.number_format import format_count
from nearkin.settings.acceptance.expression import collect_predicates
from nearkin.settings.choices import Verify
from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Payload
from nearkin.stages.measures.base import StoredPayloads, as_stored, band_layout_of
from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs, unpack_pairs
from nearkin.stages.pair_scope import PairScope

AGREED = "a long,b long,agree int,facts string"
"""Pairs that pass the prefilter, with the number of agreeing slots; and facts."""
ACCEPTANCE_COLUMNS = ("sort", "length", ACCEPTED_BY)
"""The columns of documents that an acceptance reads."""
NO_AGREEMENT = -1
"""The number of agreeing slots of pairs that the signatures of different fields find."""
SIZES = "size_a long,size_b long"
"""The numbers of different shingles of both documents of a pair. Null if only signatures were
compared, and in runs that were saved without them."""
SCORED = f"a long,b long,agree int,shared double,joint double,{SIZES},accepted boolean"
"""Scored pairs. `accepted` is true for those of duplicates, and false for those of documents that
are only related."""
SHARED = f"a long,b long,shared double,{SIZES}"


class HistogramFacts(TypedDict):
    """The facts that a task records that compares signatures."""

    histogram: list[int]
    """The number of compared pairs by the number of agreeing slots, from 0 to k."""


class Members:
    """The documents of a bin, which are found by their numbers."""

    def __init__(self, docs: np.ndarray) -> None:
        self.order = np.argsort(docs, kind="stable")
        self.docs = docs[self.order]

    def pack(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Returns packed pairs of positions in the bin, uint64 (m,).

        Args:
            a: First documents, int64 (m,).
            b: Second documents, int64 (m,).
        """
        return pack_pairs(self.places(a), self.places(b))

    def places(self, docs: np.ndarray) -> np.ndarray:
        """Returns the positions of documents in the bin, int64 (m,).

        Args:
            docs: Numbers of the documents, int64 (m,).
        """
        positions = np.searchsorted(self.docs, docs)
        is_found = are_among(docs, self.docs)
        if not is_found.all():
            raise RunError(
                f"{format_count(len(np.unique(docs[~is_found])), 'document')} could not be read "
                "again: files must not change during a run, a DataFrame must have the same rows "
                "each time, and before= must have those of all earlier documents"
            )
        return np.asarray(self.order[positions])


@dataclass(frozen=True)
class Scoring:
    """The tasks that score pairs.

    Attributes:
        request: Request of the run.
        banding: Bands and rows.
        margin: Number of agreeing slots that a pair needs to pass the prefilter.
    """

    request: TaskRequest
    banding: Banding
    margin: int

    def agreements(self, pairs: np.ndarray, signatures: pa.ChunkedArray) -> np.ndarray:
        """Returns the number of agreeing slots of pairs, int64 (m,).

        Args:
            pairs: Packed pairs of positions in the column, uint64 (m,).
        """
        spec = self.request.options.spec
        keys = np.empty((0, self.banding.bands), np.uint64)
        values = from_binary_rows(signatures, spec.signature_type, spec.signature_width)
        out = np.empty(len(pairs), np.int64)
        kernels.pair_agreements(
            pairs, values, band_layout_of(self.request.measure.spec, self.banding, keys).layout, out
        )
        return out

    def estimated(self, pairs: pa.Table, documents: pa.Table) -> pa.Table:
        """Returns AGREED of pairs."""
        a, b = to_numbers(pairs["a"]), to_numbers(pairs["b"])
        agreeing = self.agreements(
            Members(to_numbers(documents["doc"])).pack(a, b), documents["signature"]
        )
        enough = agreeing >= self.margin
        histogram = np.bincount(agreeing, minlength=self.request.options.spec.k + 1)
        facts = make_batch(AGREED, facts=[json.dumps({"histogram": histogram.tolist()})])
        return pa.Table.from_batches(
            [make_batch(AGREED, a=a[enough], b=b[enough], agree=agreeing[enough]), facts]
        )

    def agreeing(self, pairs: pa.Table, documents: pa.Table) -> pa.Table:
        """Returns pairs (a, b, agree), however few slots agree."""
        a, b = to_numbers(pairs["a"]), to_numbers(pairs["b"])
        members = Members(to_numbers(documents["doc"]))
        agreeing = self.agreements(members.pack(a, b), documents["signature"])
        columns = [pa.array(a), pa.array(b), pa.array(agreeing).cast(pa.int32())]
        return pa.table(columns, ["a", "b", "agree"])

    def by_estimate(self, pairs: pa.Table) -> pa.Table:
        """Returns SCORED of pairs (a, b, agree), with estimated similarities."""
        agreeing = to_numbers(pairs["agree"]).astype(np.int64)
        scored = self.request.measure.estimator.estimate(
            np.zeros(len(agreeing), np.uint64), agreeing
        )
        options = self.request.options
        accepted = np.ones(len(agreeing), bool)
        if options.verify != Verify.NONE:
            accepted = scored.meets_threshold(options.threshold)
        a, b = to_numbers(pairs["a"]), to_numbers(pairs["b"])
        return _scored(a, b, agreeing, scored, accepted, options)

    def exactly(self, pairs: pa.Table, documents: pa.Table) -> pa.Table:
        """Returns SCORED of pairs, with exact similarities."""
        a, b = to_numbers(pairs["a"]), to_numbers(pairs["b"])
        documents, payload = with_payloads(documents, self.request)
        members = Members(to_numbers(documents["doc"]))
        packed = members.pack(a, b)
        stored = as_stored(payload)
        scored = self.request.measure.compare(packed, stored)
        accepted = self._are_accepted(scored, documents, stored)
        agreeing = to_numbers(pairs["agree"])
        sizes = _count_shingles(members.places(a), members.places(b), stored)
        return _scored(a, b, agreeing, scored, accepted, self.request.options, sizes)

    def count_shared(self, pairs: pa.Table, documents: pa.Table) -> pa.Table:
        """Returns SHARED of pairs, however similar they are."""
        a, b = to_numbers(pairs["a"]), to_numbers(pairs["b"])
        documents, payload = with_payloads(documents, self.request)
        members = Members(to_numbers(documents["doc"]))
        stored = as_stored(payload)
        scored = self.request.measure.compare(members.pack(a, b), stored)
        shared = np.asarray(scored.intersection)
        sizes = _count_shingles(members.places(a), members.places(b), stored)
        return pa.Table.from_batches([make_batch(SHARED, a=a, b=b, shared=shared, **sizes)])

    def _are_accepted(
        self, scored: ScoredPairs, documents: pa.Table, stored: StoredPayloads
    ) -> np.ndarray:
        """Returns which scored pairs are those of duplicates, bool (m,).

        They reach the threshold, and the acceptance of the run accepts them, if it has one.
        """
        reach_threshold = scored.meets_threshold(self.request.options.threshold)
        expression = self.request.options.acceptance
        if expression is None:
            return reach_threshold
        order = pc.sort_indices(documents["sort"]).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        predicates = collect_predicates(expression)
        widths = [2 if predicate in TEXT_FACTS else 1 for predicate in predicates]
        words = from_binary_rows(documents[ACCEPTED_BY], np.uint64, 1 + sum(widths))
        starts = np.cumsum([1, *widths]).tolist()
        facts = {
            predicate: words[:, start : start + width]
            for predicate, start, width in zip(predicates, starts, widths, strict=False)
        }
        acceptance = PairAcceptance(
            expression=expression,
            measure=self.request.options.spec.measure,
            stored=stored,
            rank=rank,
            lengths=to_numbers(documents["length"]),
            facts=facts,
            runs={kind: _read_runs(documents, kind) for kind in token_kinds_of(expression)},
        )
        is_accepted = np.zeros(len(scored.pairs), bool)
        is_accepted[acceptance.find_accepted(scored)] = True
        return np.asarray(is_accepted & reach_threshold)

    def compare_all(self, documents: pa.Table) -> pa.Table:
        """Returns SCORED of all pairs of a small corpus."""
        options = self.request.options
        documents, payload = with_payloads(documents, self.request)
        docs = to_numbers(documents["doc"])
        scope = PairScope(to_unsigned(documents["block"]))
        if self.request.across_columns:
            scope = scope._replace(sources=to_unsigned(documents[ACROSS]))
        compared = self.request.measure.compare_all(payload, scope, options.scored_threshold, 1)
        scored = ScoredPairs.concatenate(list(compared))
        stored = as_stored(payload)
        accepted = self._are_accepted(scored, documents, stored)
        first, second = unpack_pairs(scored.pairs)
        is_ascending = docs[first] < docs[second]
        a = np.where(is_ascending, first, second)
        b = np.where(is_ascending, second, first)
        agreeing = np.full(len(a), NO_AGREEMENT)
        if not self.request.signature_columns:
            agreeing = self.agreements(scored.pairs, documents["signature"])
        sizes = _count_shingles(a, b, stored)
        return _scored(docs[a], docs[b], agreeing, scored, accepted, options, sizes)

    @property
    def pairs_schema(self) -> str:
        """The schema of `named`. It has a Hamming distance if the run has one."""
        distance = "" if self.request.options.distance is None else ",distance int"
        return f"a long,b long,id_a string,id_b string,similarity double,estimate float{distance}"

    def named(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the pairs table of SCORED with id_a and id_b."""
        measure = self.request.measure
        for batch in batches:
            agreeing = to_numbers(batch["agree"]).astype(np.int64)
            scored = ScoredPairs(
                np.zeros(len(batch), np.uint64),
                to_numbers(batch["shared"]),
                to_numbers(batch["joint"]),
            )
            columns = {name: batch[name] for name in ("a", "b", "id_a", "id_b")}
            columns["similarity"] = scored.similarity
            estimate = measure.estimator.estimate(scored.pairs, agreeing).similarity
            columns["estimate"] = pa.array(estimate, pa.float32(), mask=agreeing == NO_AGREEMENT)
            if self.request.options.distance is not None:
                columns["distance"] = measure.estimator.hamming_distances(scored.similarity)
            yield make_batch(self.pairs_schema, **columns)


def _read_runs(documents: pa.Table, kind: TokenKind) -> TokenRuns:
    """Returns the tokens of a kind of documents that were read again."""
    data, sizes = read_binary_column(documents[token_column(kind)])
    tokens = data.view(np.uint64)
    starts = np.concatenate([[0], np.cumsum(sizes // tokens.itemsize)])
    return TokenRuns(np.arange(len(sizes), dtype=np.uint32), starts, tokens)


def with_payloads(documents: pa.Table, request: TaskRequest) -> tuple[pa.Table, Payload]:
    """Returns documents, each once, and their payloads."""
    names = [f"payload{i}" for i in range(len(request.measure.column_types))]
    payload = payload_of([documents[name] for name in names], request.measure)
    documents_without_payloads = documents.drop_columns(names)
    if not request.merge_parts:
        return documents_without_payloads, payload
    docs = to_numbers(documents["doc"])
    first_rows = np.unique(docs, return_index=True)[1]
    return documents_without_payloads.take(pa.array(first_rows)), unite_parts(docs, payload)


def _count_shingles(a: np.ndarray, b: np.ndarray, stored: StoredPayloads) -> dict[str, np.ndarray]:
    """Returns SIZES of pairs of stored documents.

    Args:
        a: Positions of the first documents, int64 (m,).
        b: Positions of the second documents, int64 (m,).
    """
    return {"size_a": stored.count_rows(a), "size_b": stored.count_rows(b)}


def _scored(
    a: np.ndarray,
    b: np.ndarray,
    agreeing: np.ndarray,
    scored: ScoredPairs,
    accepted: np.ndarray,
    options: RunOptions,
    sizes: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> pa.Table:
    """Returns SCORED of the pairs that are accepted, or those of related documents.

    Args:
        a: First documents, int64 (m,).
        b: Second documents, int64 (m,).
        agreeing: Number of agreeing slots, int64 (m,).
    """
    keep = accepted
    if options.related is not None:
        keep = accepted | scored.meets_threshold(options.related)
    columns: dict[str, np.ndarray] = {
        "a": a,
        "b": b,
        "agree": agreeing,
        "shared": scored.intersection,
        "joint": scored.union,
        "accepted": accepted,
        **sizes,
    }
    return pa.Table.from_batches(
        [make_batch(SCORED, **{name: np.asarray(column)[keep] for name, column in columns.items()})]
    )
