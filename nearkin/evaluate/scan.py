"""Readings of a finished run's corpus: documents compared again, and with every other one."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus import Batch, Columns, Corpus, riding
from nearkin.engine.local.documents import block_hashes
from nearkin.engine.options import RunOptions
from nearkin.evaluate import kernels
from nearkin.hashing.sorted_lookup import PrefixIndex
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import Measure, measure_of
from nearkin.measures.base import Payload, as_stored, concatenate_payloads, row_starts
from nearkin.packed_pairs import (
    PAIRS_PER_BATCH,
    ScoredPairs,
    isin_sorted,
    pack_pairs,
    sorted_unique,
    unpack_pairs,
)
from nearkin.runtime.progress import Progress
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.sketch import kernels as sketching
from nearkin.sketch.minhash import splitmix64
from nearkin.sketch.resources import SpecResources
from nearkin.sketch.sketcher import iterate_streams


class Finished(NamedTuple):
    """A run to be looked at again."""

    folder: Path
    corpus: Corpus
    columns: Columns
    settings: RunOptions
    resources: SpecResources
    banding: Banding | None
    """None where the run compared every pair."""

    @property
    def measure(self) -> Measure:
        """How its documents were compared."""
        return measure_of(self.settings.spec, self.resources, self.settings.distance)


class Found(NamedTuple):
    """Similar pairs of sampled documents, a < b."""

    a: np.ndarray
    b: np.ndarray
    similarity: np.ndarray


class Looked(NamedTuple):
    """What one batch gave."""

    found: Found
    prints: np.ndarray | None
    blocks: np.ndarray | None
    documents: int


def scan_of(run: Finished, documents: int, progress: Progress) -> "Scan":
    """The reading that goes with the measure of a run."""
    return (PrefixScan if run.settings.spec.measure == "jaccard" else EveryPairScan)(
        run, documents, progress
    )


class Scan(ABC):
    """Readings of the run's corpus.

    Attributes:
        groups: int64 (n,): numbers of the groups of exact duplicates, after the first `similar_to`.
        blocks: uint64 (n,): hashes of the block column, likewise.
    """

    at_once: int
    """Documents that one reading of the corpus is looked through for."""

    def __init__(self, run: Finished, documents: int, progress: Progress) -> None:
        self.run = run
        self.documents = documents
        self.progress = progress
        self.groups, self.blocks = np.empty(0, np.int64), np.empty(0, np.uint64)
        self.measure = run.measure
        self._builders = ObjectPool(self.measure.payload_builder)

    def payload(self, documents: pa.Array) -> Payload:
        """What exact comparison needs of some documents."""
        return self._builders.use(lambda builder: builder.build(documents))

    def payload_of(self, wanted: np.ndarray) -> Payload:
        """Of some ordinals (sorted)."""
        parts = []
        self.progress.stage("read samples", self.documents)
        for batch in self.run.corpus.batches(self.run.columns):
            low, high = np.searchsorted(wanted, [batch.first, batch.first + len(batch.rows)])
            if high > low:
                parts.append(
                    self.payload(
                        batch.documents[self.run.columns.content].take(
                            pa.array(wanted[low:high] - batch.first)
                        )
                    )
                )
            self.progress.advance(len(batch.rows))
        return (
            concatenate_payloads(parts)
            if parts
            else Payload(np.empty(0, np.int64), self._no_columns())
        )

    def _no_columns(self) -> tuple[np.ndarray, ...]:
        return tuple(
            np.empty((0,) if width is None else (0, width), kind)
            for kind, width in self.measure.column_types
        )

    def precision(self, clusters: pa.Table, most: int, seed: int) -> tuple[int, int]:
        """Of some removed documents, how many resemble the kept one as much as was asked for, and of how many."""
        kinds = clusters["kind"].to_numpy(zero_copy_only=False)
        removed = np.flatnonzero((kinds == "near") | (kinds == "exact"))
        ranks = splitmix64(seed + 1, len(kinds))
        removed = np.sort(removed[np.argsort(ranks[removed])[:most]])
        heads = (
            pc.index_in(clusters["cluster"].take(pa.array(removed)), clusters["id"])
            .to_numpy()
            .astype(np.int64)
        )
        wanted = sorted_unique(np.concatenate([removed, heads]))
        stored = as_stored(self.payload_of(wanted))
        settings = self.run.settings
        asked = settings.threshold if settings.cluster == "leaders" else settings.lowest_similarity
        pairs = pack_pairs(np.searchsorted(wanted, removed), np.searchsorted(wanted, heads))
        good = (
            self.measure.compare(pairs, stored).meets_threshold(asked)
            if len(pairs)
            else np.empty(0, bool)
        )
        return int(good.sum()), len(removed)

    def similar_to(self, searched: np.ndarray) -> Found:
        """Every document of the corpus at or above the threshold with some ordinals (sorted)."""
        compare = self.comparison(searched)
        first_time = not len(self.groups)
        self.progress.stage("compare", self.documents)

        def look(batch: Batch) -> Looked:
            prints, blocks = self._facts(batch) if first_time else (None, None)
            return Looked(compare(batch), prints, blocks, len(batch.rows))

        parts, prints, blocks = [NO_PAIRS], [np.empty((0, 2), np.uint64)], [np.empty(0, np.uint64)]
        for looked in ordered_map(
            look, self.run.corpus.batches(self.run.columns), self.run.settings.workers
        ):
            parts.append(looked.found)
            if looked.prints is not None and looked.blocks is not None:
                prints.append(looked.prints)
                blocks.append(looked.blocks)
            self.progress.advance(looked.documents)
        if first_time:
            self.groups, self.blocks = group_numbers(np.concatenate(prints)), np.concatenate(blocks)
        return Found(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    @abstractmethod
    def comparison(self, searched: np.ndarray) -> Callable[[Batch], Found]:
        """How a batch is compared with some ordinals."""

    @abstractmethod
    def fingerprints(self, documents: pa.Array) -> np.ndarray:
        """uint64 (n, 2): equal for exact duplicates."""

    def _facts(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        column = self.run.settings.block_by
        block = (
            np.zeros(len(batch.rows), np.uint64)
            if column is None
            else block_hashes(batch.documents[riding(column)])
        )
        return self.fingerprints(batch.documents[self.run.columns.content]), block

    def known_pairs(self, ids: pa.ChunkedArray) -> Any:
        """(a, b) to whether the run verified the pair, by any members of their exact groups."""
        pairs = pq.read_table(self.run.folder / "pairs.parquet", columns=["id_a", "id_b"])
        a, b = (
            self.groups[pc.index_in(pairs[name], ids).to_numpy().astype(np.int64)]
            for name in ("id_a", "id_b")
        )
        known = sorted_unique(pack_pairs(a, b)) if len(pairs) else np.empty(0, np.uint64)
        return lambda x, y: isin_sorted(pack_pairs(self.groups[x], self.groups[y]), known)


class PrefixScan(Scan):
    """Jaccard: by the shingles that a similar document must have one of."""

    at_once = 200

    def comparison(self, searched: np.ndarray) -> Callable[[Batch], Found]:
        threshold, content = self.run.settings.threshold, self.run.columns.content
        payload = self.payload_of(searched)
        sets, starts = payload.columns[0], row_starts(payload)
        prefixes = [
            sets[a : b - least(b - a, threshold) + 1]
            for a, b in itertools.pairwise(starts.tolist())
        ]
        hashes = np.concatenate([np.empty(0, np.uint64), *prefixes])
        rows = np.repeat(np.arange(len(prefixes)), [len(prefix) for prefix in prefixes])
        order = np.argsort(hashes, kind="stable")
        keys = sorted_unique(hashes)
        prefix = PrefixIndex.of(keys)
        firsts = np.append(np.searchsorted(hashes[order], keys), len(hashes)).astype(np.int64)

        def compare(batch: Batch) -> Found:
            own = self.payload(batch.documents[content])
            x, y, shared, union = kernels.find_similar_pairs(
                batch.first,
                own.columns[0],
                row_starts(own),
                keys,
                *prefix,
                firsts,
                rows[order],
                searched,
                sets,
                starts,
                threshold,
            )
            return Found(np.minimum(x, y), np.maximum(x, y), shared / np.maximum(union, 1))

        return compare

    def fingerprints(self, documents: pa.Array) -> np.ndarray:
        out, shingler = (
            np.empty((len(documents), 2), np.uint64),
            self.run.resources.shingler(self.run.settings.spec),
        )
        for start, stream in iterate_streams(shingler, documents):
            sketching.stream_fingerprints(
                stream.hashes, stream.offsets, out[start : start + len(stream.offsets) - 1]
            )
        return out


class EveryPairScan(Scan):
    """Any other measure: each sampled document with each of the corpus."""

    at_once = 50

    def comparison(self, searched: np.ndarray) -> Callable[[Batch], Found]:
        threshold, content = self.run.settings.threshold, self.run.columns.content
        sample = self.payload_of(searched)
        m = len(sample.sizes)

        def compare(batch: Batch) -> Found:
            own = self.payload(batch.documents[content])
            stored = as_stored(concatenate_payloads([sample, own]))
            ordinals = np.concatenate([searched, batch.first + np.arange(len(own.sizes))])
            parts = [NO_PAIRS]
            step = max(1, PAIRS_PER_BATCH // max(m, 1))
            for start in range(m, m + len(own.sizes), step):
                end = min(start + step, m + len(own.sizes))
                a, b = np.meshgrid(np.arange(m), np.arange(start, end), indexing="ij")
                scored = self.measure.compare(pack_pairs(a.ravel(), b.ravel()), stored)
                near = scored.select(scored.meets_threshold(threshold))
                parts.append(_named(near, ordinals))
            return Found(*(np.concatenate(column) for column in zip(*parts, strict=True)))

        return compare

    def fingerprints(self, documents: pa.Array) -> np.ndarray:
        return self.measure.sketcher().sketch(documents).fingerprints


NO_PAIRS = Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def _named(pairs: ScoredPairs, ordinals: np.ndarray) -> Found:
    """Pairs of positions as pairs of ordinals; a document is not compared with itself."""
    a, b = unpack_pairs(pairs.pairs)
    x, y = ordinals[a], ordinals[b]
    apart = x != y
    return Found(np.minimum(x, y)[apart], np.maximum(x, y)[apart], pairs.similarity[apart])


def least(size: int, threshold: float) -> int:
    """⌈t·|A|⌉, never rounded up by a product that is a little too large.

    Examples:
        >>> least(5, 0.8), least(100, 0.29)
        (4, 29)
    """
    return math.ceil(threshold * size - 1e-9)


def group_numbers(prints: np.ndarray) -> np.ndarray:
    """int64 (n,): a number for each distinct fingerprint, uint64 (n, 2).

    Examples:
        >>> group_numbers(np.array([[5, 1], [3, 9], [5, 1], [5, 2]], np.uint64)).tolist()
        [1, 0, 1, 2]
    """
    order = np.lexsort((prints[:, 1], prints[:, 0]))
    ordered = prints[order]
    new = np.ones(len(prints), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    out = np.empty(len(prints), np.int64)
    out[order] = np.cumsum(new) - 1
    return out
