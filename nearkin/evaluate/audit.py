"""A finished run measured on its own corpus: precision of what was removed, recall of what should have been found.

Precision: removed documents are compared with the kept one again. Recall: a sample of documents is compared with the whole
corpus by a prefilter that misses nothing at the threshold. If |A∩B| ≥ t·|A∪B|, B has at least ⌈t·|A|⌉ of A's shingles, so at
least one of any |A| − ⌈t·|A|⌉ + 1 of them (prefix filtering: Chaudhuri, Ganti, Kaushik, ICDE 2006; Bayardo, Ma, Srikant, WWW
2007). Intervals are Wilson's (1927), 95 %.
"""

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus import Batch, Columns, Corpus
from nearkin.engine.local.documents import block_hashes
from nearkin.engine.progress import Progress
from nearkin.engine.settings import Settings
from nearkin.errors import UsageError
from nearkin.evaluate import kernels
from nearkin.hashing.prefixes import PrefixIndex
from nearkin.lsh.curve import Banding, pass_probability
from nearkin.measures import measure_of
from nearkin.sketch import kernels as sketching
from nearkin.sketch.materials import Materials
from nearkin.sketch.minhash import splitmix64
from nearkin.sketch.sketcher import iterate_streams
from nearkin.threads import Borrowed, ordered_map
from nearkin.verify.exact import SetBuilder, distinct, inside

QUANTILE = 1.959963984540054
BIN = 0.05
ROUND = 200
"""Documents that one reading of the corpus is looked through for."""


@dataclass(frozen=True)
class Share:
    """A share and its Wilson 95 % interval.

    Attributes:
        hits: Of …
        total: … so many.
        low: Lower end.
        high: Upper end.

    Examples:
        >>> share = Share.of(95, 100)
        >>> share.value, round(share.low, 3), round(share.high, 3)
        (0.95, 0.888, 0.978)
    """

    hits: int
    total: int
    low: float
    high: float

    @classmethod
    def of(cls, hits: int, total: int) -> "Share":
        """From counts; nothing is known of none."""
        if total == 0:
            return cls(0, 0, 0.0, 1.0)
        p, z = hits / total, QUANTILE
        centre, width = p + z * z / (2 * total), z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
        scale = 1 + z * z / total
        return cls(hits, total, max(0.0, min(p, (centre - width) / scale)), min(1.0, max(p, (centre + width) / scale)))

    @property
    def value(self) -> float:
        """hits / total; 1 of none."""
        return self.hits / self.total if self.total else 1.0


@dataclass(frozen=True)
class Bin:
    """Pairs of similarities in [low, high), the last one closed.

    Attributes:
        low: Left end.
        high: Right end.
        recall: Found among those that there are.
        predicted: By the S-curve and the margin.
    """

    low: float
    high: float
    recall: Share
    predicted: float


@dataclass(frozen=True)
class Audit:
    """What was measured.

    Attributes:
        precision: Removed documents that resemble the kept one at least as much as the threshold.
        recall: Pairs at or above the threshold that the run found.
        asked: The recall that was asked for, at the threshold.
        bins: By similarity.
        sampled: Documents compared with the whole corpus.
        exact: Pairs among them that are exact duplicates, which are found another way and not counted.
        seconds: Taken.
        seed: Of the samples.
        advice: What to change, or that nothing needs it.
    """

    precision: Share
    recall: Share
    asked: float
    bins: tuple[Bin, ...]
    sampled: int
    exact: int
    seconds: float
    seed: int
    advice: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


class Finished(NamedTuple):
    """A run to be audited."""

    folder: Path
    corpus: Corpus
    columns: Columns
    settings: Settings
    materials: Materials
    banding: Banding | None
    """None where the run compared every pair."""


class Found(NamedTuple):
    """Similar pairs of sampled documents, a < b, each once."""

    a: np.ndarray
    b: np.ndarray
    similarity: np.ndarray


def audit(
    run: Finished, progress: Progress, sample: int = 1000, removed: int = 5000, budget: float | None = None, seed: int = 1
) -> Audit:
    """Measures a run.

    Args:
        run: Of measure jaccard.
        progress: Who is told.
        sample: Documents compared with the whole corpus.
        removed: Removed documents compared with the kept one.
        budget: Seconds after which no further part of the sample is begun.
        seed: Of the samples.

    Raises:
        UsageError: The run is of another measure.
    """
    if run.settings.spec.measure != "jaccard" or run.settings.second is not None:
        raise UsageError("an audit recomputes Jaccard similarities: it takes runs of measure jaccard without a second measure")
    began = time.monotonic()
    clusters = pq.read_table(run.folder / "clusters.parquet")
    chosen = sample_by_kind(clusters, sample, seed)
    scan = _Scan(run, len(clusters), progress)
    precision = scan.precision(clusters, removed, seed)
    parts, done = [], 0
    for start in range(0, len(chosen), ROUND):
        spent = time.monotonic() - began
        if done and budget is not None and spent * (1 + ROUND / done) > budget:
            break
        parts.append(scan.similar_to(np.sort(chosen[start : start + ROUND])))
        done += min(ROUND, len(chosen) - start)
    found = _united(parts)
    same = scan.groups[found.a] == scan.groups[found.b]
    blocks = scan.blocks[found.a] == scan.blocks[found.b]
    counted = np.flatnonzero(~same & blocks)
    hits = scan.known_pairs(clusters["id"])(found.a[counted], found.b[counted])
    similarity = found.similarity[counted]
    recall = Share.of(int(hits.sum()), len(hits))
    return Audit(
        precision,
        recall,
        run.settings.recall,
        tuple(bins_of(similarity, hits, run)),
        done,
        int(same.sum()),
        round(time.monotonic() - began, 3),
        seed,
        advice(precision, recall, run),
    )


def advice(precision: Share, recall: Share, run: Finished) -> str:
    """What the intervals say, in words."""
    asked = run.settings.recall
    if precision.total and precision.high < 1 and precision.value < 1 and run.settings.verify == "exact":
        return f"{precision.total - precision.hits} removed documents do not reach the threshold: a defect, please report it"
    if precision.value < 1 and run.settings.verify != "exact":
        return f"verify={run.settings.verify} removed {1 - precision.value:.1%} wrongly; use --verify exact"
    if recall.total == 0:
        return "no pair at the threshold among the sample: sample more, or the corpus has none"
    if recall.high < asked:
        more = "leave out --bands and --rows to have them solved" if run.settings.bands else "raise --recall"
        return f"recall is below the asked {asked}: {more}, or raise --max-bucket if buckets were hot"
    return f"recall is what was asked for ({asked}) or better" if recall.low >= asked else "the interval holds the asked recall"


def bins_of(similarity: np.ndarray, hits: np.ndarray, run: Finished) -> Iterator[Bin]:
    """Recall by similarity, from the threshold to 1."""
    low = run.settings.threshold
    while low < 1 - 1e-9:
        high = min(1.0, (math.floor(low / BIN + 1e-9) + 1) * BIN)
        inside_bin = ((similarity >= low) | (low == run.settings.threshold)) & ((similarity < high) | (high >= 1))
        chances = [predicted(s, run) for s in similarity[inside_bin].tolist()] or [predicted((low + high) / 2, run)]
        recall = Share.of(int(hits[inside_bin].sum()), int(inside_bin.sum()))
        yield Bin(round(low, 6), round(high, 6), recall, round(float(np.mean(chances)), 6))
        low = high


def predicted(similarity: float, run: Finished) -> float:
    """P(candidate) × P(the estimate passes the margin)."""
    banding = run.banding
    if banding is None:
        return 1.0
    return banding.candidate_probability(similarity) * pass_probability(banding.k, banding.margin, similarity)


def sample_by_kind(clusters: pa.Table, size: int, seed: int) -> np.ndarray:
    """Ordinals, each kind of document in proportion, in a random order; empty documents have no pairs and are left out."""
    kinds = clusters["kind"].to_numpy(zero_copy_only=False)
    ranks = splitmix64(seed, len(kinds))
    present = [np.flatnonzero(kinds == kind) for kind in ("unique", "kept", "exact", "near")]
    total = sum(map(len, present))
    if total <= size:
        chosen = np.concatenate(present)
    else:
        wanted = [round(size * len(some) / total) for some in present]
        chosen = np.concatenate([some[np.argsort(ranks[some])[:n]] for some, n in zip(present, wanted, strict=True)])
    return chosen[np.argsort(ranks[chosen], kind="stable")]


def _united(parts: list[Found]) -> Found:
    packed = np.concatenate([np.empty(0, np.uint64), *(_packed(part.a, part.b) for part in parts)])
    similarity = np.concatenate([np.empty(0), *(part.similarity for part in parts)])
    _, first = np.unique(packed, return_index=True)
    a, b = packed[first] >> np.uint64(32), packed[first] & np.uint64(0xFFFFFFFF)
    return Found(a.astype(np.int64), b.astype(np.int64), similarity[first])


class _Scan:
    """Readings of the run's corpus."""

    def __init__(self, run: Finished, documents: int, progress: Progress) -> None:
        self.run = run
        self.documents = documents
        self.progress = progress
        self.groups, self.blocks = np.empty(0, np.int64), np.empty(0, np.uint64)
        self._builders = Borrowed(lambda: SetBuilder(run.materials.shingler(run.settings.spec)))

    def _sets(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Hashes and starts of a batch's sets."""
        documents = batch.documents[self.run.columns.content]
        found = self._builders.use(lambda builder: builder.sets(documents))
        return found.hashes, np.concatenate([[0], np.cumsum(found.sizes)]).astype(np.int64)

    def _sets_of(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sets of some ordinals (sorted)."""
        hashes, sizes = [np.empty(0, np.uint64)], [np.zeros(1, np.int64)]
        self.progress.stage("read samples", self.documents)
        for batch in self.run.corpus.batches(self.run.columns):
            low, high = np.searchsorted(wanted, [batch.first, batch.first + len(batch.rows)])
            if high > low:
                rows = pa.array(wanted[low:high] - batch.first)
                some = self._builders.use(
                    lambda builder, b=batch, r=rows: builder.sets(b.documents[self.run.columns.content].take(r))  # type: ignore[misc]
                )
                hashes.append(some.hashes)
                sizes.append(some.sizes)
            self.progress.advance(len(batch.rows))
        return np.concatenate(hashes), np.cumsum(np.concatenate(sizes))

    def precision(self, clusters: pa.Table, most: int, seed: int) -> Share:
        """Removed documents (near ones: exact ones are equal by their fingerprints) compared with the kept one."""
        kinds = clusters["kind"].to_numpy(zero_copy_only=False)
        removed = np.flatnonzero((kinds == "near") | (kinds == "exact"))
        ranks = splitmix64(seed + 1, len(kinds))
        removed = np.sort(removed[np.argsort(ranks[removed])[:most]])
        heads = pc.index_in(clusters["cluster"].take(pa.array(removed)), clusters["id"]).to_numpy().astype(np.int64)
        wanted = distinct(np.concatenate([removed, heads]))
        hashes, starts = self._sets_of(wanted)
        settings, good = self.run.settings, 0
        asked = settings.threshold if settings.cluster == "leaders" else settings.lowest_similarity
        for a, b in zip(np.searchsorted(wanted, removed).tolist(), np.searchsorted(wanted, heads).tolist(), strict=True):
            x, y = hashes[starts[a] : starts[a + 1]], hashes[starts[b] : starts[b + 1]]
            shared = len(np.intersect1d(x, y, assume_unique=True))
            good += shared >= asked * (len(x) + len(y) - shared)
        return Share.of(good, len(removed))

    def similar_to(self, searched: np.ndarray) -> Found:
        """Every document of the corpus at or above the threshold with some ordinals (sorted)."""
        threshold = self.run.settings.threshold
        sets, starts = self._sets_of(searched)
        prefixes = [sets[a : b - least(b - a, threshold) + 1] for a, b in itertools.pairwise(starts.tolist())]
        hashes = np.concatenate([np.empty(0, np.uint64), *prefixes])
        rows = np.repeat(np.arange(len(prefixes)), [len(prefix) for prefix in prefixes])
        order = np.argsort(hashes, kind="stable")
        keys = distinct(hashes)
        prefix = PrefixIndex.of(keys)
        firsts = np.append(np.searchsorted(hashes[order], keys), len(hashes)).astype(np.int64)
        first_time = not len(self.groups)
        prints, blocks, parts = [np.empty((0, 2), np.uint64)], [np.empty(0, np.uint64)], [np.empty((4, 0), np.int64)]
        self.progress.stage("compare", self.documents)

        def look(batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
            own, own_starts = self._sets(batch)
            found = kernels.similar_pairs(
                batch.first, own, own_starts, keys, *prefix, firsts, rows[order], searched, sets, starts, threshold
            )
            return found, *(self._facts(batch) if first_time else (prints[0], blocks[0])), len(batch.rows)

        for found, print_, block, count in ordered_map(
            look, self.run.corpus.batches(self.run.columns), self.run.settings.workers
        ):
            parts.append(found)
            prints.append(print_)
            blocks.append(block)
            self.progress.advance(count)
        if first_time:
            self.groups, self.blocks = group_numbers(np.concatenate(prints)), np.concatenate(blocks)
        x, y, shared, union = np.concatenate(parts, axis=1)
        return Found(np.minimum(x, y), np.maximum(x, y), shared / np.maximum(union, 1))

    def _facts(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Fingerprints of the shingle streams, and hashes of the block column."""
        documents = batch.documents[self.run.columns.content]
        out = np.empty((len(documents), 2), np.uint64)

        def fill(builder: SetBuilder) -> None:
            for start, shingles in iterate_streams(builder.shingler, documents):
                sketching.stream_fingerprints(shingles.hashes, shingles.offsets, out[start : start + len(shingles.offsets) - 1])

        self._builders.use(fill)
        column = self.run.settings.block_by
        block = np.zeros(len(documents), np.uint64) if column is None else block_hashes(batch.documents[column])
        return out, block

    def known_pairs(self, ids: pa.ChunkedArray) -> Any:
        """(a, b) to whether the run verified the pair, by any members of their exact groups."""
        pairs = pq.read_table(self.run.folder / "pairs.parquet", columns=["id_a", "id_b"])
        a, b = (self.groups[pc.index_in(pairs[name], ids).to_numpy().astype(np.int64)] for name in ("id_a", "id_b"))
        known = distinct(_packed(a, b)) if len(pairs) else np.empty(0, np.uint64)
        return lambda x, y: inside(_packed(self.groups[x], self.groups[y]), known)


def _packed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (np.minimum(a, b).astype(np.uint64) << np.uint64(32)) | np.maximum(a, b).astype(np.uint64)


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


def banding_of(settings: Settings, documents: int, compared_all: bool) -> Banding | None:
    """Of a run."""
    return None if compared_all else settings.banding(measure_of(settings.spec), documents)
