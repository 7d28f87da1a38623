"""The stages over a corpus, in order, each skipped when the work folder says it is done."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nearkin.corpus import Columns, Corpus, FileCorpus
from nearkin.corpus.columns import MAX_DOCUMENT
from nearkin.engine.banding import keeps_keys
from nearkin.engine.local import exact_groups as collapse
from nearkin.engine.local import sketching
from nearkin.engine.local import verification as verifying
from nearkin.engine.local.candidates import Banded, CandidateCounts, CandidateFinder, write_band_keys
from nearkin.engine.local.clustering import Clustering, Grouped, cluster
from nearkin.engine.local.documents import Documents
from nearkin.engine.local.hot_buckets import HotBuckets
from nearkin.engine.local.pair_files import PairSpool, ScoredWriter, read_scored
from nearkin.engine.local.repeated_ids import separate_repeated_ids
from nearkin.engine.local.work_folder import WorkFolder, map_file
from nearkin.engine.options import SMALL_CORPUS, SMALL_SHINGLES, RunOptions
from nearkin.errors import RunError, UsageError
from nearkin.lsh.band_keys import key_builder_for
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import Measure, measure_of
from nearkin.packed_pairs import ScoredPairs, sorted_unique
from nearkin.runtime.files import disk_errors, write_durably
from nearkin.runtime.progress import Progress
from nearkin.sketch.minhash import fill_shares
from nearkin.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.sketch.sketcher import BandKeyBuilder

BYTES_PER_PAIR = 32
BYTES_PER_WORKER = 32 << 20
"""Anonymous bytes of a batch in work: its texts, their shingles, and the buffers of a sketcher."""
MOST_DOCUMENTS = 2**32 - 1


@dataclass
class LocalRun:
    """One corpus, one request, one work folder.

    Attributes:
        corpus: Where documents come from; read again to verify.
        columns: What of it is read.
        options: The request.
        work: Where stages leave their results.
        progress: Who is told.
        resources: What the Spec names but does not hold.
        order_of: Keep order of the documents, uint32 (n,), in the policy's place.
    """

    corpus: Corpus
    columns: Columns
    options: RunOptions
    work: WorkFolder
    progress: Progress
    resources: SpecResources = NO_RESOURCES
    order_of: Callable[[Documents], np.ndarray] | None = None

    def __post_init__(self) -> None:
        self._asked_workers = self.options.workers
        most = max(1, self.options.memory // 2 // BYTES_PER_WORKER)
        if self.options.workers > most:
            self.options = replace(self.options, workers=most)

    @cached_property
    def measure(self) -> Measure:
        """How documents are compared."""
        return measure_of(self.options.spec, self.resources, self.options.distance)

    @cached_property
    def banding(self) -> Banding:
        """Bands and rows, for this corpus' size where that matters."""
        return self.options.banding(self.measure, (self.work.done("sketch") or {}).get("documents", 0))

    def recorded(self, stage: str) -> dict[str, Any]:
        """The facts of a stage that is done; none of another one."""
        return self.work.done(stage) or {}

    def _banded(self) -> Banded:
        keyed = (self.work.done("sketch") or {}).get("keyed")
        if (keyed or self._keeps_keys) and keyed != self._key_shape:
            made = f"made for bands, rows, probes = {keyed}" if keyed else "not made"
            raise UsageError(
                f"this run cannot be banded anew: its keys were {made}, and this asks for {self._key_shape}; give the same "
                "--bands, --rows and --probes, or sketch the inputs again"
            )
        return Banded.of(self.measure, self.banding, self.documents(), self.options)

    def _key_builder(self) -> BandKeyBuilder | None:
        # `banding` is cached, and bands of signs depend on the number of documents, which is known
        # only after sketching.
        if not self._keeps_keys:
            return None
        return key_builder_for(self.banding, truncated=self.options.spec.truncated)

    @property
    def _keeps_keys(self) -> bool:
        return keeps_keys(self.options)

    @property
    def _key_shape(self) -> list[int]:
        return [self.banding.bands, self.banding.rows, self.banding.probes]

    def sketch(self) -> None:
        """Stage 1: signatures, fingerprints, ids and columns that ride along."""
        self.corpus.check(self.columns)
        if isinstance(self.corpus, FileCorpus):
            self.corpus.set_scratch_folder(self.work.path)
        self.columns = replace(self.columns, document_limit=self._document_limit())
        if self.work.done("sketch") is None:
            self.progress.stage("sketch", None)
            with self.work.stage("sketch") as facts:
                latency = sketching.sketch_corpus(
                    self.corpus,
                    self.columns,
                    self.measure,
                    self.work,
                    self.options.workers,
                    self.progress,
                    self._key_builder(),
                )
                repeated = separate_repeated_ids(self.documents(), self.corpus.names) if self.columns.id else 0
                facts.update(self._sketch_facts(), repeated_ids=repeated, build_latency=latency)
                facts["document_limit"] = self.columns.document_limit
                if self.options.workers < self._asked_workers:
                    facts["workers_limited"] = [self._asked_workers, self.options.workers]
                if self._keeps_keys:
                    facts["keyed"] = self._key_shape

    def _document_limit(self) -> int:
        """The limit that the first reading had: another one would tell documents from rejected rows in another way."""
        if (facts := self.work.done("sketch")) is not None:
            return int(facts.get("document_limit", MAX_DOCUMENT))
        path = self.work.folder("sketch") / "document-limit"
        if not path.exists():
            with disk_errors(path.parent):
                write_durably(path, b"%d\n" % self.columns.document_limit)
        return int(path.read_text())

    def _sketch_facts(self) -> dict[str, Any]:
        documents = self.documents()
        if len(documents) > MOST_DOCUMENTS:
            raise RunError(f"{len(documents)} documents are more than one machine's {MOST_DOCUMENTS}; split the corpus")
        sample = np.asarray(documents.signatures[:: max(1, len(documents) // 10_000)])
        spec = self.options.spec
        shares = fill_shares(sample) if spec.scheme == "binned" and not spec.truncated else (0.0, 0.0)
        position = sketching.read_checkpoint(self.work.path / "sketch")
        return {
            "documents": len(documents),
            "rejected": position.rejected,
            "shingles": int(np.asarray(documents.shingles).sum(dtype=np.int64)),
            "text_bytes": int(np.asarray(documents.lengths).sum()),
            "signature_bytes": documents.signatures.nbytes,
            "empty_bin_rate": round(shares[0], 6),
            "completed_slot_rate": round(shares[1], 6),
        }

    def documents(self) -> Documents:
        """What the sketch stage left."""
        bands, _, probes = (self.work.done("sketch") or {}).get("keyed", self._key_shape if self._keeps_keys else (0, 0, 0))
        return Documents(self.work.path / "sketch", self.options.spec, bands * (1 + probes))

    def collapse(self) -> None:
        """Stage 2: keep order, exact duplicates."""
        if self.work.done("collapse") is None:
            self.progress.stage("collapse", None)
            with self.work.stage("collapse") as facts:
                documents = self.documents()
                order = None if self.order_of is None else self.order_of(documents)
                facts.update(collapse.collapse(documents, self.options, self.work, order))

    @property
    def brute_force(self) -> bool:
        """Whether the corpus is small enough to compare everything; asked bands and rows are always honoured."""
        facts = self.work.done("sketch") or {}
        few = facts["documents"] < SMALL_CORPUS and facts["shingles"] <= SMALL_SHINGLES
        return few and self.options.bands is None

    def active(self) -> np.ndarray:
        """bool (n,): representatives with at least one shingle to compare."""
        representative = self.work.load("representative")
        own = representative == np.arange(len(representative), dtype=np.uint32)
        return np.asarray(own & ~self.documents().matchless)

    def candidates(self) -> None:
        """Stage 3: bands, buckets, candidates that pass the estimate's margin."""
        if self.work.done("candidates") is not None or self.brute_force:
            return
        documents, banded = self.documents(), self._banded()
        with self.work.stage("candidates") as facts:
            self.progress.stage("bands", banded.banding.bands)
            blocks = self.work.load("blocks")
            write_band_keys(documents, blocks, banded, self.work, self.options.workers)
            spool = PairSpool(self.work.folder("spool"), len(documents), self._pairs_in_memory)
            finder = CandidateFinder(documents, self.work, self.options, self.active(), banded)
            counts = finder.run(spool, self.progress)
            facts.update(_candidate_facts(counts))
            self.work.save("hot", finder.hot)
            facts["survivors"] = self._save_survivors(spool)
            facts["key_bytes"] = 8 * len(documents) * banded.banding.bands * (1 + banded.banding.probes)

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
            recorded.update(brute_force=self.brute_force, threshold=self.options.threshold)
            if not self.brute_force:
                recorded.update(compared=len(self.survivors()), passed=writer.pairs)
            if not self.brute_force:
                hot = np.asarray(self.work.load("hot"))
                documents, limit = self.documents(), self._pairs_in_memory
                rounds = HotBuckets(documents, self.work, self.options, self._banded(), hot, score, limit)
                recorded["hot_kept"] = rounds.thin()

    def _first_verification(self, count: int, writer: ScoredWriter) -> Callable[[np.ndarray], ScoredPairs]:
        """Writes the scored pairs; returns how further ones are scored."""
        options = self.options
        if self.brute_force:
            wanted = np.flatnonzero(self.active())
            payloads = self._payloads(wanted)
            verifying.compare_everything(payloads, wanted, self.work.load("blocks"), options, writer)
            return verifying.exactly(payloads, options)
        if options.verify == "exact":
            pairs = self.survivors()
            wanted = verifying.documents_of(pairs, count)
            hot = np.flatnonzero(self.work.load("hot") & self.active())
            wanted = sorted_unique(np.concatenate([wanted, hot]))
            score = verifying.exactly(self._payloads(wanted), options)
        else:
            pairs, score = self.survivors(), verifying.by_estimate(self._estimates(), options)
        verifying.verify(pairs, score, options.workers, writer)
        return score

    @property
    def _pairs_in_memory(self) -> int:
        return self.options.memory // 8 // BYTES_PER_PAIR

    def _payloads(self, wanted: np.ndarray) -> verifying.Payloads:
        where = (self.corpus, self.columns, wanted)
        return verifying.Payloads.build(*where, self.measure, self.options.workers, self.work, self.progress)

    def _estimates(self) -> verifying.Estimates:
        return verifying.Estimates(self.measure, self.documents(), self._banded().band_layout)

    def comparing(self) -> verifying.Payloads | verifying.Estimates:
        """How further pairs of candidate documents are compared: exactly, where that was asked for."""
        if verifying.Payloads.exist(self.work):
            return verifying.Payloads.load(self.measure, self.work)
        return self._estimates()

    def estimate(self, pairs: np.ndarray) -> np.ndarray:
        """Estimated similarity of packed pairs, float64."""
        return self._estimates().compare(pairs).similarity

    def agreements(self, pairs: np.ndarray) -> np.ndarray:
        """Slots in which the signatures of packed pairs agree, int64 (m,): what the margin is about."""
        return self._estimates().agreements(pairs)

    def survivors(self) -> np.ndarray:
        """Candidates that passed the margin, packed, sorted, mapped."""
        return map_file(self.work.path / "survivors", np.uint64)

    def scored(self) -> ScoredPairs:
        """Scored pairs, sorted, mapped; those of a lower threshold's run that reach this one's."""
        scored = read_scored(self.work.path / "scored")
        facts = self.work.done("verify") or {}
        if self.options.threshold > facts["threshold"]:
            return scored.select(scored.meets_threshold(self.options.threshold))
        return scored

    def cluster(self) -> None:
        """Stage 5: the kept document of each document."""
        if self.work.done("cluster") is None:
            self.progress.stage("cluster", None)
            with self.work.stage("cluster") as facts:
                result = self.elect()
                result.save(self.work)
                facts.update(result.counts())

    def elect(self) -> Clustering:
        """Clusters from the scored pairs."""
        return cluster(self.scored(), Grouped.of(self.documents(), self.work), self.comparing(), self.options)

    def at(self, threshold: float) -> "LocalRun":
        """This run at a higher threshold, to be elected again from its stored pairs."""
        options = self.options
        distance = None if options.distance is None else int((1 - threshold) * options.spec.k + 1e-9)
        floor = None if options.floor is None else min(options.floor, threshold)
        asked = replace(options, threshold=threshold, distance=distance, floor=floor)
        if not self.brute_force and distance is None:
            # bands and rows are those of the run: they would be solved anew for another threshold
            asked = replace(asked, bands=self.banding.bands, rows=self.banding.rows, tables=1)
        return replace(self, options=asked)

    def clustering(self) -> Clustering:
        """What stage 5 left."""
        return Clustering.load(self.work)

    def to_exact_groups(self) -> None:
        """Everything up to exact duplicates."""
        self.sketch()
        self.collapse()

    def to_pairs(self) -> None:
        """Everything up to scored pairs."""
        self.to_exact_groups()
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
        "bucket_sizes": sorted([size, buckets] for size, buckets in counts.sizes.items() if buckets),
        "hot_buckets": len(counts.hot),
        "hot_members": sum(bucket.members for bucket in counts.hot),
        "hottest": [list(bucket) for bucket in hottest],
    }
