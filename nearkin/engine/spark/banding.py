"""Stage 3 inside tasks: from band keys to buckets, and from buckets to pairs.

The keys of a band are divided into parts, and a task cuts a part into buckets of equal keys. Keys
are sent as arrays, one row for each batch and part, because a row for each key would take more time
than the kernels.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import numpy as np
import pyarrow as pa

from nearkin.engine.banding import AgreementLimits, build_band_keys
from nearkin.engine.hot_buckets import JOINS_NO_LEADER, shuffle_keys
from nearkin.engine.spark.arrow_columns import (
    from_binary_rows,
    make_batch,
    read_binary_column,
    to_numbers,
    to_unsigned,
)
from nearkin.engine.spark.sketching import ACROSS, TaskRequest
from nearkin.engine.spark.verification import HistogramFacts
from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.band_keys import SourceBuckets
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures.base import band_layout_of
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, sorted_unique, unpack_pairs
from nearkin.stages.pair_scope import EVERY_SOURCE

KEYS = "part int,keys binary,docs binary,sources binary"
"""Keys (uint64), documents (int64) and sources (uint64) of one range of a band's keys.

The band is part // slices. The sources are empty unless the run has the option `across`.
"""
BUCKETS = "a long,b long,band int,key long,doc long,facts string"
"""Rows of three kinds: pairs of ordinary buckets (a < b), members of hot buckets, and facts."""
HOT = "a long,b long,agree int,band int,key long,doc long,facts string"
"""Rows of three kinds: pairs of hot buckets, with the number of agreeing slots; documents that are
left over, with the key of their group; and facts."""


SHUFFLED = "doc long,shuffled long"


class BucketFacts(TypedDict):
    """The facts that the task of a part of a band records."""

    sizes: list[tuple[int, int]]
    """The bucket sizes, each with the number of buckets of this size."""
    hot: int
    """The number of hot buckets."""
    members: int
    """The number of documents in hot buckets."""


class HotBucketFacts(HistogramFacts):
    """The facts that a task records that clusters hot buckets."""

    hottest: list[tuple[int, int, int]]
    """The largest hot buckets of the task, each as band, members and first member."""
    incomplete: int
    """The number of buckets with documents that are left over."""


@dataclass(frozen=True)
class BandingTasks:
    """The tasks that band documents.

    Attributes:
        request: Request of the run.
        banding: Bands and rows.
        slices: Number of parts of a band. The first bits of a key select the part.
    """

    request: TaskRequest
    banding: Banding
    slices: int

    @property
    def limits(self) -> AgreementLimits:
        """The numbers of agreeing slots that decide about a candidate pair."""
        return AgreementLimits.create(self.request.measure, self.banding, self.request.options)

    def keys(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields KEYS of documents."""
        spec = self.request.options.spec
        measure = self.request.measure
        for batch in batches:
            if not len(batch):
                continue
            signatures = from_binary_rows(
                batch["signature"], spec.signature_type, spec.signature_width
            )
            kept = (
                None
                if batch["keys"].null_count
                else from_binary_rows(batch["keys"], np.uint64).reshape(len(batch), -1)
            )
            band_layout = band_layout_of(measure.spec, self.banding, kept)
            salts = to_unsigned(batch["block"])
            if not self.request.options.bands_by_block:
                salts = np.zeros_like(salts)
            keys = build_band_keys(band_layout, self.banding, signatures, kept, salts)
            docs = np.repeat(to_numbers(batch["doc"]), keys.shape[2])
            sources = np.repeat(self.sources_of(batch), keys.shape[2])
            yield self.partition_keys(keys.reshape(len(keys), -1), docs, sources)

    def sources_of(self, rows: pa.RecordBatch) -> np.ndarray:
        """Returns the sources of rows of documents, uint64 (n,). It is empty without `across`."""
        if not self.request.across_columns:
            return EVERY_SOURCE
        return to_unsigned(rows[ACROSS])

    def partition_keys(
        self, keys: np.ndarray, docs: np.ndarray, sources: np.ndarray, first: int = 0
    ) -> pa.RecordBatch:
        """Returns KEYS of some bands.

        Args:
            keys: Band keys, uint64 (bands, n).
            docs: Documents of the keys, int64 (n,).
            sources: Sources of the documents, uint64 (n,), or an empty array.
        """
        parts = []
        key_rows = []
        doc_rows = []
        source_rows = []
        for band, row in enumerate(keys, first):
            part = (row >> np.uint64(32)) * np.uint64(self.slices) >> np.uint64(32)
            order = np.argsort(part, kind="stable")
            cuts = np.searchsorted(part[order], np.arange(1, self.slices))
            for number, members in enumerate(np.split(order, cuts)):
                if len(members):
                    parts.append(band * self.slices + number)
                    key_rows.append(row[members].tobytes())
                    doc_rows.append(docs[members].tobytes())
                    own_sources = sources[members] if len(sources) else sources
                    source_rows.append(own_sources.tobytes())
        return make_batch(
            KEYS,
            part=pa.array(parts, pa.int32()),
            keys=pa.array(key_rows, pa.binary()),
            docs=pa.array(doc_rows, pa.binary()),
            sources=pa.array(source_rows, pa.binary()),
        )

    def buckets(self, part: pa.Table) -> pa.Table:
        """Returns BUCKETS of one part of a band (KEYS)."""
        band = part["part"][0].as_py() // self.slices
        keys = read_binary_column(part["keys"])[0].view(np.uint64)
        docs = read_binary_column(part["docs"])[0].view(np.int64)
        sources = read_binary_column(part["sources"])[0].view(np.uint64)
        order = np.lexsort((docs, keys))
        keys = keys[order]
        docs = docs[order]
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        ends = np.append(starts[1:], len(keys))
        members = ends - starts
        sizes = members
        partners = np.arange(1, len(keys) + 1)
        if len(sources):
            positions = np.arange(len(keys), dtype=np.uint64)
            buckets = SourceBuckets.order(positions, starts, ends, sources[order])
            docs = docs[positions.astype(np.int64)]
            sizes = buckets.sizes
            partners = buckets.partners
        hot = sizes > self.request.options.complete_bucket_size
        cold = (sizes > 1) & ~hot
        values, times = np.unique(sizes, return_counts=True)
        facts: BucketFacts = {
            "sizes": list(zip(values.tolist(), times.tolist(), strict=True)),
            "hot": int(hot.sum()),
            "members": int(members[hot].sum()),
        }
        rows = [
            *_cold_pairs(docs, starts[cold], ends[cold], partners),
            *_members(band, keys, docs, starts[hot], members[hot]),
        ]
        return pa.Table.from_batches([*rows, make_batch(BUCKETS, facts=[json.dumps(facts)])])

    def hot(
        self, batches: Iterable[pa.RecordBatch], *, joins_leaders: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yields HOT of the members of hot buckets."""
        yield from _HotBuckets(self, joins_leaders=joins_leaders).pairs(batches)

    def shuffled(
        self, batches: Iterable[pa.RecordBatch], round_number: int
    ) -> Iterator[pa.RecordBatch]:
        """Yields (doc, shuffled): documents with their place in the order of a round."""
        spec = self.request.options.spec
        for batch in batches:
            signatures = from_binary_rows(
                batch["signature"], spec.signature_type, spec.signature_width
            )
            keys = shuffle_keys(signatures, round_number)
            yield make_batch(SHUFFLED, doc=to_numbers(batch["doc"]), shuffled=keys)


def _cold_pairs(
    docs: np.ndarray, starts: np.ndarray, ends: np.ndarray, partners: np.ndarray
) -> Iterator[pa.RecordBatch]:
    """Yields the pairs of each bucket. A probed document can be in a bucket twice.

    Args:
        docs: Documents, one bucket after the other, int64 (n,).
        starts: Position of the first document of each bucket, int64 (m,).
        ends: Position after the last document of each bucket, int64 (m,).
        partners: Position of the first document that each document is compared with, int64 (n,).
    """
    sizes = ends - starts
    rows = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
    counts = np.repeat(ends, sizes) - partners[rows]
    portions = np.cumsum(counts) // PAIRS_PER_BATCH
    for portion in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(portions)) + 1):
        own = counts[portion]
        within = np.arange(int(own.sum())) - np.repeat(np.cumsum(own) - own, own)
        a = docs[np.repeat(rows[portion], own)]
        b = docs[np.repeat(partners[rows[portion]], own) + within]
        apart = a != b
        yield make_batch(BUCKETS, a=np.minimum(a, b)[apart], b=np.maximum(a, b)[apart])


def _members(
    band: int, keys: np.ndarray, docs: np.ndarray, starts: np.ndarray, sizes: np.ndarray
) -> Iterator[pa.RecordBatch]:
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        members = sorted_unique(docs[start : start + size])
        count = len(members)
        key = keys[start].view(np.int64)
        yield make_batch(BUCKETS, band=np.full(count, band), key=np.full(count, key), doc=members)


class _OpenBucket(NamedTuple):
    """The state of a hot bucket whose members continue in the next batch."""

    bucket: tuple[int, int]
    docs: np.ndarray
    signatures: np.ndarray
    """The signatures of the leaders so far, in the order in which they were elected."""
    sources: np.ndarray
    """The sources of the leaders so far, or an empty array without `across`."""
    members: int
    first: int
    is_incomplete: bool = False
    """Whether there are documents for which there was no place among the leaders."""


def _group_left_over(
    bucket: tuple[int, int], docs: np.ndarray, leaders: np.ndarray
) -> pa.RecordBatch:
    """Returns HOT of documents that are left over, with the key of the group of their leader.

    Args:
        docs: Documents, int64 (n,).
        leaders: Leader nearest to each of them, int64 (n,).
    """
    band, key = bucket
    salts = np.full(len(docs), key, np.int64).view(np.uint64)
    groups = np.empty((1, len(docs)), np.uint64)
    kernels.salt_keys(leaders.view(np.uint64).reshape(-1, 1), salts, groups)
    return make_batch(HOT, band=np.full(len(docs), band), key=groups[0].view(np.int64), doc=docs)


class _HotBuckets:
    """The clustering of hot buckets, one after the other.

    A batch can end inside a bucket. Only the leaders are kept for the next batch.
    """

    def __init__(self, banded: BandingTasks, *, joins_leaders: bool) -> None:
        options = banded.request.options
        spec = options.spec
        self._spec = spec
        self._banded = banded
        self._fanout = options.fanout
        self._margin = banded.limits.margin
        self._join = banded.limits.join if joins_leaders else JOINS_NO_LEADER
        no_keys = np.empty((0, banded.banding.bands), np.uint64)
        self._layout = band_layout_of(banded.request.measure.spec, banded.banding, no_keys).layout
        self._histogram = np.zeros(spec.k + 1, np.int64)
        self._sizes: Counter[tuple[int, int, int]] = Counter()
        self._incomplete = 0
        self._open: _OpenBucket | None = None

    def pairs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            bands, keys = to_numbers(batch["band"]), to_numbers(batch["key"])
            docs = to_numbers(batch["doc"])
            signatures = from_binary_rows(
                batch["signature"], self._spec.signature_type, self._spec.signature_width
            )
            sources = self._banded.sources_of(batch)
            new = np.flatnonzero((bands[1:] != bands[:-1]) | (keys[1:] != keys[:-1])) + 1
            cuts = [0, *new.tolist(), len(batch)]
            for low, high in itertools.pairwise(cuts):
                if high == low:
                    continue
                bucket = (int(bands[low]), int(keys[low]))
                if self._open is None or self._open.bucket != bucket:
                    self._close()
                    self._open = _OpenBucket(
                        bucket, docs[:0], signatures[:0], sources[:0], 0, int(docs[low])
                    )
                rows = slice(low, high)
                yield from self._cluster_members(
                    self._open, docs[rows], signatures[rows], sources[rows]
                )
        self._close()
        yield make_batch(HOT, facts=[json.dumps(self._facts())])

    def _cluster_members(
        self,
        bucket: _OpenBucket,
        docs: np.ndarray,
        signatures: np.ndarray,
        sources: np.ndarray,
    ) -> Iterator[pa.RecordBatch]:
        """Yields HOT of further members of a bucket, and stores the state of the bucket."""
        known = len(bucket.docs)
        added = len(docs)
        all_docs = np.concatenate([bucket.docs, docs])
        all_signatures = np.concatenate([bucket.signatures, signatures])
        all_sources = np.concatenate([bucket.sources, sources])
        leaders = np.zeros(self._fanout, np.uint64)
        leaders[:known] = np.arange(known)
        nearest = np.empty(added, np.int64)
        out = np.empty(2 * added, np.uint64)
        members = np.arange(known, known + added, dtype=np.uint64)
        count, kept = kernels.hot_bucket_pairs(
            members,
            all_sources,
            all_signatures,
            self._layout,
            self._margin,
            self._join,
            leaders,
            known,
            self._histogram,
            nearest,
            out,
        )
        pairs = out[:count]
        agreeing = np.empty(count, np.int64)
        kernels.pair_agreements(pairs, all_signatures, self._layout, agreeing)
        first, second = unpack_pairs(pairs)
        a, b = all_docs[first], all_docs[second]
        places = leaders[:kept].astype(np.int64)
        self._open = bucket._replace(
            docs=all_docs[places],
            signatures=all_signatures[places],
            sources=all_sources[places] if len(all_sources) else all_sources,
            members=bucket.members + added,
            is_incomplete=bucket.is_incomplete or bool((nearest >= 0).any()),
        )
        yield make_batch(HOT, a=np.minimum(a, b), b=np.maximum(a, b), agree=agreeing)
        left_over = np.flatnonzero(nearest >= 0)
        if len(left_over):
            leaders_of_groups = all_docs[places[nearest[left_over]]]
            yield _group_left_over(bucket.bucket, docs[left_over], leaders_of_groups)

    def _close(self) -> None:
        if self._open is not None:
            band, _ = self._open.bucket
            self._sizes[(band, self._open.members, self._open.first)] += 1
            self._incomplete += self._open.is_incomplete

    def _facts(self) -> HotBucketFacts:
        hottest = sorted(self._sizes, key=lambda bucket: (-bucket[1], bucket[0], bucket[2]))[:100]
        return {
            "histogram": self._histogram.tolist(),
            "hottest": hottest,
            "incomplete": self._incomplete,
        }
