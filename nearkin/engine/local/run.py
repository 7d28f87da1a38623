"""The stages over a corpus, in order, each skipped when the work folder says it is done."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearkin.corpus import Columns, Corpus
from nearkin.engine.local import collapse, sketching, verifying
from nearkin.engine.local.candidates import CandidateCounts, CandidateFinder, write_band_keys
from nearkin.engine.local.clustering import Clustering, Grouped, cluster
from nearkin.engine.local.documents import Documents
from nearkin.engine.local.hot import HotBuckets
from nearkin.engine.local.identity import separate_repeated_ids
from nearkin.engine.local.pairs import PairSpool, ScoredWriter, read_scored
from nearkin.engine.local.work import WorkFolder, map_file
from nearkin.engine.progress import Progress
from nearkin.engine.settings import SMALL_CORPUS, SMALL_SHINGLES, Settings
from nearkin.errors import RunError
from nearkin.sketch.minhash import fill_shares
from nearkin.verify.exact import Overlaps, distinct

BYTES_PER_PAIR = 32
MOST_DOCUMENTS = 2**32 - 1


@dataclass
class LocalRun:
    """One corpus, one request, one work folder.

    Attributes:
        corpus: Where documents come from; read again to verify.
        columns: What of it is read.
        settings: The request.
        work: Where stages leave their results.
        progress: Who is told.
    """

    corpus: Corpus
    columns: Columns
    settings: Settings
    work: WorkFolder
    progress: Progress

    def sketch(self) -> None:
        """Stage 1: signatures, fingerprints, ids and columns that ride along."""
        self.corpus.check(self.columns)
        if self.work.done("sketch") is None:
            self.progress.stage("sketch", None)
            with self.work.stage("sketch") as facts:
                sketching.sketch_corpus(
                    self.corpus, self.columns, self.settings.spec, self.work, self.settings.workers, self.progress
                )
                repeated = separate_repeated_ids(self.documents(), self.corpus.names) if self.columns.id else 0
                facts.update(self._sketch_facts(), repeated_ids=repeated)

    def _sketch_facts(self) -> dict[str, Any]:
        documents = self.documents()
        if len(documents) > MOST_DOCUMENTS:
            raise RunError(f"{len(documents)} documents are more than one machine's {MOST_DOCUMENTS}; split the corpus")
        sample = np.asarray(documents.signatures[:: max(1, len(documents) // 10_000)])
        shares = fill_shares(sample) if self.settings.spec.scheme == "binned" else (0.0, 0.0)
        position = sketching.read_checkpoint(self.work.path / "sketch")
        return {
            "documents": len(documents),
            "rejected": position.rejected,
            "shingles": int(np.asarray(documents.shingles).sum(dtype=np.int64)),
            "text_bytes": int(np.asarray(documents.lengths).sum()),
            "empty_bin_rate": round(shares[0], 6),
            "completed_slot_rate": round(shares[1], 6),
        }

    def documents(self) -> Documents:
        """What the sketch stage left."""
        return Documents(self.work.path / "sketch", self.settings.spec.k)

    def collapse(self) -> None:
        """Stage 2: keep order, exact duplicates."""
        if self.work.done("collapse") is None:
            self.progress.stage("collapse", None)
            with self.work.stage("collapse") as facts:
                facts.update(collapse.collapse(self.documents(), self.settings, self.work))

    @property
    def brute_force(self) -> bool:
        """Whether the corpus is small enough to compare everything; asked bands and rows are always honoured."""
        facts = self.work.done("sketch") or {}
        few = facts["documents"] < SMALL_CORPUS and facts["shingles"] <= SMALL_SHINGLES
        return few and self.settings.bands is None

    def active(self) -> np.ndarray:
        """bool (n,): representatives with at least one shingle."""
        representative = self.work.load("representative")
        own = representative == np.arange(len(representative), dtype=np.uint32)
        return np.asarray(own & ~self.documents().empty)

    def candidates(self) -> None:
        """Stage 3: bands, buckets, candidates that pass the estimate's margin."""
        if self.work.done("candidates") is not None or self.brute_force:
            return
        documents, banding = self.documents(), self.settings.banding
        with self.work.stage("candidates") as facts:
            self.progress.stage("bands", banding.bands)
            blocks = self.work.load("blocks")
            write_band_keys(documents, blocks, banding, self.work, self.settings.workers)
            spool = PairSpool(self.work.folder("spool"), len(documents), self._pairs_in_memory)
            finder = CandidateFinder(documents, self.work, self.settings, self.active())
            counts = finder.run(spool, self.progress)
            facts.update(_candidate_facts(counts))
            self.work.save("hot", finder.hot)
            facts["survivors"] = self._save_survivors(spool)

    def _save_survivors(self, spool: PairSpool) -> int:
        total = 0
        with (self.work.path / "survivors").open("wb") as file:
            for pairs in spool.sorted():
                file.write(pairs.data)
                total += len(pairs)
        return total

    def verify(self) -> None:
        """Stage 4: scored pairs at or above the threshold."""
        if self.work.done("verify") is not None:
            return
        facts = self.work.done("sketch") or {}
        with self.work.stage("verify") as recorded:
            self.progress.stage("verify", facts["documents"])
            with ScoredWriter(self.work.folder("scored")) as writer:
                score = self._first_verification(facts["documents"], writer)
            recorded.update(brute_force=self.brute_force, threshold=self.settings.threshold)
            if not self.brute_force:
                hot = np.asarray(self.work.load("hot"))
                rounds = HotBuckets(self.documents(), self.work, self.settings, hot, score, self._pairs_in_memory)
                recorded["hot_kept"] = rounds.thin()

    def _first_verification(self, count: int, writer: ScoredWriter) -> Callable[[np.ndarray], Overlaps]:
        """Writes the scored pairs; returns how further ones are scored."""
        settings = self.settings
        if self.brute_force:
            wanted = np.flatnonzero(self.active())
            payloads = self._payloads(wanted)
            verifying.compare_everything(payloads, wanted, self.work.load("blocks"), settings, writer)
            return verifying.exactly(payloads, settings)
        if settings.verify == "exact":
            pairs = self.survivors()
            wanted = verifying.documents_of(pairs, count)
            hot = np.flatnonzero(self.work.load("hot") & self.active())
            wanted = distinct(np.concatenate([wanted, hot]))
            score = verifying.exactly(self._payloads(wanted), settings)
        else:
            pairs, score = self.survivors(), verifying.by_estimate(self.documents(), settings)
        verifying.verify(pairs, score, settings.workers, writer)
        return score

    @property
    def _pairs_in_memory(self) -> int:
        return self.settings.memory // 8 // BYTES_PER_PAIR

    def _payloads(self, wanted: np.ndarray) -> verifying.Payloads:
        payloads = verifying.Payloads.build(self.corpus, self.columns, wanted, self.settings, self.work, self.progress)
        self.work.save("place", payloads.place)
        self.work.save("starts", payloads.starts)
        return payloads

    def payloads(self) -> verifying.Payloads | None:
        """The exact payloads of candidate documents, where they were compared exactly."""
        if not (self.work.path / "payloads").exists():
            return None
        hashes = map_file(self.work.path / "payloads", np.uint64)
        return verifying.Payloads(np.asarray(self.work.load("place")), np.asarray(self.work.load("starts")), hashes)

    def survivors(self) -> np.ndarray:
        """Candidates that passed the margin, packed, sorted, mapped."""
        return map_file(self.work.path / "survivors", np.uint64)

    def scored(self) -> Overlaps:
        """Scored pairs, sorted, mapped; those of a lower threshold's run that reach this one's."""
        scored = read_scored(self.work.path / "scored")
        facts = self.work.done("verify") or {}
        if self.settings.threshold > facts["threshold"]:
            return scored.where(scored.at_least(self.settings.threshold))
        return scored

    def cluster(self) -> None:
        """Stage 5: the kept document of each document."""
        if self.work.done("cluster") is None:
            self.progress.stage("cluster", None)
            with self.work.stage("cluster") as facts:
                documents = self.documents()
                grouped = Grouped.of(documents, self.work)
                result = cluster(self.scored(), grouped, documents, self.payloads(), self.settings)
                result.save(self.work)
                facts.update(result.counts())

    def clustering(self) -> Clustering:
        """What stage 5 left."""
        return Clustering.load(self.work)

    def to_pairs(self) -> None:
        """Everything up to scored pairs."""
        self.sketch()
        self.collapse()
        self.candidates()
        self.verify()

    def to_clusters(self) -> None:
        """Everything up to clusters."""
        self.to_pairs()
        self.cluster()


def _candidate_facts(counts: CandidateCounts) -> dict[str, Any]:
    hottest = sorted(counts.hot, key=lambda bucket: (-bucket.members, bucket.band, bucket.first))[:100]
    return {
        "candidates": counts.candidates,
        "histogram": counts.histogram.tolist(),
        "buckets": np.trim_zeros(counts.buckets, "b").tolist(),
        "largest_bucket": counts.largest,
        "hot_buckets": len(counts.hot),
        "hot_members": sum(bucket.members for bucket in counts.hot),
        "hottest": [list(bucket) for bucket in hottest],
    }
