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
from nearkin.engine.exact_groups import ExactGroups
from nearkin.engine.spark.arrow_columns import content, numbers, table, unpacked, unsigned
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.lsh import kernels
from nearkin.lsh.slot_bands import Banding
from nearkin.measures.base import band_layout_of
from nearkin.packed_pairs import sorted_unique, unpack_pairs

KEYS = "part int,keys binary,docs binary"
"""Keys (uint64) and documents (int64) of one range of a band's keys. The band is part // slices."""
BUCKETS = "a long,b long,band int,key long,doc long,facts string"
"""Rows of three kinds: pairs of ordinary buckets (a < b), members of hot buckets, and facts."""
HOT = "a long,b long,agree int,facts string"
"""Pairs of hot buckets, with the number of agreeing slots; and facts."""


class BucketFacts(TypedDict):
    """The facts that the task of a part of a band records."""

    sizes: list[tuple[int, int]]
    """The bucket sizes, each with the number of buckets of this size."""
    hot: int
    """The number of hot buckets."""
    members: int
    """The number of documents in hot buckets."""


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
        """Yields KEYS of documents.

        Args:
            batches: Documents (doc, block, signature, keys).
        """
        spec = self.request.options.spec
        measure = self.request.measure
        for batch in batches:
            if not len(batch):
                continue
            signatures = unpacked(batch["signature"], spec.signature_type, spec.signature_width)
            kept = (
                None
                if batch["keys"].null_count
                else unpacked(batch["keys"], np.uint64).reshape(len(batch), -1)
            )
            band_layout = band_layout_of(measure.spec, self.banding, kept)
            keys = build_band_keys(
                band_layout, self.banding, signatures, kept, unsigned(batch["block"])
            )
            docs = np.repeat(numbers(batch["doc"]), keys.shape[2])
            yield self.partition_keys(keys.reshape(len(keys), -1), docs)

    def partition_keys(self, keys: np.ndarray, docs: np.ndarray, first: int = 0) -> pa.RecordBatch:
        """Returns KEYS of some bands.

        Args:
            keys: Band keys, uint64 (bands, n).
            docs: Documents of the keys, int64 (n,).
            first: Number of the first band.
        """
        parts = []
        key_rows = []
        doc_rows = []
        for band, row in enumerate(keys, first):
            part = (row >> np.uint64(32)) * np.uint64(self.slices) >> np.uint64(32)
            order = np.argsort(part, kind="stable")
            cuts = np.searchsorted(part[order], np.arange(1, self.slices))
            for number, members in enumerate(np.split(order, cuts)):
                if len(members):
                    parts.append(band * self.slices + number)
                    key_rows.append(row[members].tobytes())
                    doc_rows.append(docs[members].tobytes())
        return table(
            KEYS,
            part=pa.array(parts, pa.int32()),
            keys=pa.array(key_rows, pa.binary()),
            docs=pa.array(doc_rows, pa.binary()),
        )

    def buckets(self, part: pa.Table) -> pa.Table:
        """Returns BUCKETS of one part of a band (KEYS)."""
        band = part["part"][0].as_py() // self.slices
        keys = content(part["keys"])[0].view(np.uint64)
        docs = content(part["docs"])[0].view(np.int64)
        order = np.lexsort((docs, keys))
        keys = keys[order]
        docs = docs[order]
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        sizes = np.diff(np.append(starts, len(keys)))
        hot = sizes > self.request.options.complete_bucket_size
        cold = (sizes > 1) & ~hot
        values, times = np.unique(sizes, return_counts=True)
        facts: BucketFacts = {
            "sizes": list(zip(values.tolist(), times.tolist(), strict=True)),
            "hot": int(hot.sum()),
            "members": int(sizes[hot].sum()),
        }
        rows = [
            *_cold_pairs(docs, starts[cold], sizes[cold]),
            *_members(band, keys, docs, starts[hot], sizes[hot]),
        ]
        return pa.Table.from_batches([*rows, table(BUCKETS, facts=[json.dumps(facts)])])

    def hot(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields HOT of the members of hot buckets.

        Args:
            batches: Members (band, key, doc, signature), sorted by bucket and keep order.
        """
        yield from _HotBuckets(self).pairs(batches)


def _cold_pairs(
    docs: np.ndarray, starts: np.ndarray, sizes: np.ndarray
) -> Iterator[pa.RecordBatch]:
    """Yields all pairs of each bucket. A probed document can be in a bucket twice."""
    ends = np.cumsum(sizes)
    members = np.repeat(starts - (ends - sizes), sizes) + np.arange(int(sizes.sum()))
    groups = ExactGroups(
        members, np.concatenate([[0], ends]).astype(np.int64), np.empty(0, np.int32)
    )
    for pairs in groups.own_pairs():
        first, second = unpack_pairs(pairs)
        a, b = docs[first], docs[second]
        apart = a != b
        yield table(BUCKETS, a=np.minimum(a, b)[apart], b=np.maximum(a, b)[apart])


def _members(
    band: int, keys: np.ndarray, docs: np.ndarray, starts: np.ndarray, sizes: np.ndarray
) -> Iterator[pa.RecordBatch]:
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        members = sorted_unique(docs[start : start + size])
        count = len(members)
        key = keys[start].view(np.int64)
        yield table(BUCKETS, band=np.full(count, band), key=np.full(count, key), doc=members)


class _OpenBucket(NamedTuple):
    """The state of a hot bucket whose members continue in the next batch."""

    bucket: tuple[int, int]
    docs: np.ndarray
    signatures: np.ndarray
    """The signatures of the leaders so far, in the order in which they were elected."""
    members: int
    first: int


class _HotBuckets:
    """The clustering of hot buckets, one after the other.

    A batch can end inside a bucket. Only the leaders are kept for the next batch.
    """

    def __init__(self, banded: BandingTasks) -> None:
        options = banded.request.options
        spec = options.spec
        self._spec = spec
        self._fanout = options.fanout
        self._limits = banded.limits
        no_keys = np.empty((0, banded.banding.bands), np.uint64)
        self._layout = band_layout_of(banded.request.measure.spec, banded.banding, no_keys).layout
        self._histogram = np.zeros(spec.k + 1, np.int64)
        self._sizes: Counter[tuple[int, int, int]] = Counter()

    def pairs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        open_: _OpenBucket | None = None
        for batch in batches:
            bands, keys = numbers(batch["band"]), numbers(batch["key"])
            docs = numbers(batch["doc"])
            signatures = unpacked(
                batch["signature"], self._spec.signature_type, self._spec.signature_width
            )
            new = np.flatnonzero((bands[1:] != bands[:-1]) | (keys[1:] != keys[:-1])) + 1
            cuts = [0, *new.tolist(), len(batch)]
            for low, high in itertools.pairwise(cuts):
                if high == low:
                    continue
                bucket = (int(bands[low]), int(keys[low]))
                if open_ is None or open_.bucket != bucket:
                    self._close(open_)
                    open_ = _OpenBucket(bucket, docs[:0], signatures[:0], 0, int(docs[low]))
                pairs, open_ = self._cluster_members(open_, docs[low:high], signatures[low:high])
                yield pairs
        self._close(open_)
        yield table(HOT, facts=[json.dumps(self._facts())])

    def _cluster_members(
        self, bucket: _OpenBucket, docs: np.ndarray, signatures: np.ndarray
    ) -> tuple[pa.RecordBatch, _OpenBucket]:
        """Returns HOT of further members of a bucket, and the state of the bucket after them."""
        known = len(bucket.docs)
        added = len(docs)
        all_docs = np.concatenate([bucket.docs, docs])
        all_signatures = np.concatenate([bucket.signatures, signatures])
        leaders = np.zeros(self._fanout, np.uint64)
        leaders[:known] = np.arange(known)
        out = np.empty(2 * added, np.uint64)
        members = np.arange(known, known + added, dtype=np.uint64)
        count, kept = kernels.hot_bucket_pairs(
            members,
            all_signatures,
            self._layout,
            self._limits.margin,
            self._limits.join,
            leaders,
            known,
            self._histogram,
            out,
        )
        pairs = out[:count]
        agreeing = np.empty(count, np.int64)
        kernels.pair_agreements(pairs, all_signatures, self._layout, agreeing)
        first, second = unpack_pairs(pairs)
        a, b = all_docs[first], all_docs[second]
        places = leaders[:kept].astype(np.int64)
        state = bucket._replace(
            docs=all_docs[places], signatures=all_signatures[places], members=bucket.members + added
        )
        return table(HOT, a=np.minimum(a, b), b=np.maximum(a, b), agree=agreeing), state

    def _close(self, bucket: _OpenBucket | None) -> None:
        if bucket is not None:
            self._sizes[(bucket.bucket[0], bucket.members, bucket.first)] += 1

    def _facts(self) -> dict[str, object]:
        hottest = sorted(self._sizes, key=lambda bucket: (-bucket[1], bucket[0], bucket[2]))[:100]
        return {"histogram": self._histogram.tolist(), "hottest": hottest}
