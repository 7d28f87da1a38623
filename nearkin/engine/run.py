"""A run: its stages in their order, which leave their results in a work folder."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from nearkin.corpus import Columns, Corpus, FileCorpus, TableCorpus
from nearkin.corpus.document_count import estimate_documents
from nearkin.corpus.places import places_of
from nearkin.corpus.rejects import count_reasons, list_top_reasons
from nearkin.corpus.writer import limit_copying_workers
from nearkin.engine import sketching
from nearkin.engine.acceptance import text_facts_of, token_kinds_of
from nearkin.engine.banding import builds_keys_while_sketching
from nearkin.engine.candidates import (
    CandidateFinder,
    SignatureComparison,
    write_keys,
)
from nearkin.engine.chosen_settings import ChosenSettings
from nearkin.engine.clustering import (
    Clustering,
    ExactGroupOrder,
    cluster_documents,
    count_between,
    keep_further_copies,
)
from nearkin.engine.containment_search import ContainmentSearch
from nearkin.engine.decisions import DIFFERENT_PAIRS, load_pairs_apart, number_decisions
from nearkin.engine.documents import Documents
from nearkin.engine.exact_groups import load_pair_scope, save_exact_groups
from nearkin.engine.hot_bucket_loop import HotBucketLoop
from nearkin.engine.keep_function import KeepFunction, choose_by_function
from nearkin.engine.kept_hashes import MEMORY_SHARE as KEPT_HASHES_SHARE
from nearkin.engine.kept_hashes import KeptHashes
from nearkin.engine.options import DEFAULT_PAIR_BUDGET, SMALL_CORPUS, RunOptions
from nearkin.engine.pair_acceptance import PairAcceptance
from nearkin.engine.pair_files import (
    BucketWriter,
    KnownPairs,
    PairSpool,
    merge_scored,
    read_scored,
    write_pairs,
)
from nearkin.engine.payload_batches import (
    CorpusPayloads,
    PayloadSource,
    SignaturePayloads,
)
from nearkin.engine.reference_matches import (
    RELATED_PREFIX,
    ComparedReference,
    ReferenceMatches,
)
from nearkin.engine.removal_limit import LEAST_DOUBTED, SHORT_TEXT
from nearkin.engine.repeated_ids import separate_repeated_ids
from nearkin.engine.result_schema import EXACT, NEAR
from nearkin.engine.saved_sets import write_sets
from nearkin.engine.scoring import PairScorer, write_scored_pairs
from nearkin.engine.stats import (
    BlocklistStats,
    CandidateStats,
    ClusterStats,
    CollapseStats,
    MissingPairsStats,
    ReferenceStats,
    RunStats,
    SketchStats,
    Stage,
    StageRecord,
    StageRecords,
    StageStats,
    VerifyStats,
)
from nearkin.engine.token_runs import (
    DocumentTokens,
    TokenKind,
    read_tokens,
    store_token_runs,
)
from nearkin.engine.verification import (
    RELATED_PAIRS,
    SCORED,
    Estimates,
    JudgedWriter,
    Payloads,
    compare_all_pairs,
    documents_in_pairs,
)
from nearkin.engine.work_folder import KEPT_HASHES, SPOOL, WorkFolder, map_file
from nearkin.errors import RunError, UsageError
from nearkin.runtime.executor import Executor, Threads
from nearkin.runtime.files import disk_errors, write_durably
from nearkin.runtime.progress import Progress, ignore_count
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.acceptance import Expression
from nearkin.settings.choices import Verify
from nearkin.settings.decisions import Decisions
from nearkin.settings.spec import HAMMING
from nearkin.stages.cluster.election import NO_PAIRS
from nearkin.stages.lsh.band_keys import key_builder_for
from nearkin.stages.lsh.sign_bands import fixed_sign_banding
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure
from nearkin.stages.measures.fields import FieldsMeasure
from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs, sorted_unique, unpack_pairs
from nearkin.stages.pair_scope import NO_BLOCK, PairScope
from nearkin.stages.sketch.minhash import fill_shares
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.stages.sketch.sketcher import BandKeyBuilder

BYTES_PER_PAIR = 32
"""Anonymous memory of a candidate pair, in bytes."""
BYTES_PER_WORKER = 32 << 20
"""Anonymous memory of a thread, in bytes: the texts of a batch, their shingles, and the buffers of
a sketcher."""
BLOCKED_PREFIX = "blocked"
"""The beginning of the names of the files of blocked documents."""
SURVIVORS = "survivors"
"""The file of the candidate pairs that passed the prefilter."""
HOT_MEMBERS = "hot-members"
"""Folder of the documents of hot buckets."""
MOST_DOCUMENTS = 2**32 - 1
FILL_SAMPLE = 10_000
"""Number of signatures from which the rate of empty bins is computed."""


class DocumentMatcher(Protocol):
    """A comparison of the documents of a run with those of a reference."""

    @property
    def only_reference(self) -> bool:
        """True if the documents of the run are not compared with each other."""

    def match(self, run: "Run") -> ComparedReference:
        """Finds the documents that repeat one of the reference, or are related to one."""

    def read_contents(self, run: "Run", matches: ReferenceMatches) -> dict[int, Any]:
        """Returns the content of a document of a reference by the number of the removed one."""


class DocumentBlocker(Protocol):
    """A comparison of the documents of a run with a blocklist."""

    def match(self, run: "Run") -> tuple[ReferenceMatches, BlocklistStats]:
        """Finds the documents that are like an entry."""


class GrownRun(Protocol):
    """A finished run that another one extends."""

    def sketch(self, run: "Run") -> list[float] | None:
        """Writes the sketches of both runs, as `sketching.sketch_corpus` does."""

    def restore(self, run: "Run") -> None:
        """Gives a run what it takes over besides, after the sketches are written."""


@dataclass
class Run:
    """A run over one corpus in one work folder.

    Attributes:
        corpus: Documents.
        columns: Columns of the corpus that are read.
        options: Options of the run. Fewer workers are used if the memory bound requires it.
        work: Folder of the stage results.
        progress: Receives progress updates.
        resources: Data that the Spec refers to but does not contain.
        order_of: Returns the keep order of the documents, uint32 (n,). Replaces the keep policy.
        sources_of: Returns the source of each document, uint64 (n,). Replaces the column of the
            option `across`.
        shared_hashes: Shingle hashes that another run keeps of the same documents.
        payloads: Source of what is compared exactly. By default, the texts of the corpus.
        token_reader: Yields the tokens of a kind of documents by their sorted numbers, for an
            acceptance that compares their order. By default, they are those of the corpus.
        matcher: Comparison with a reference, whose duplicates are removed first.
        keep_function: Chooses the kept document of each cluster. The corpus is a table then.
        decisions: Decisions about pairs of documents, or None without decisions.
        blocker: Comparison with a blocklist, whose matches are removed before all others.
        saves_sets: Whether the sets of shingle hashes are written beside the signatures.
        keeps_hashes: Whether shingle hashes are kept until documents are compared. If not, their
            texts are read again.
        given_executor: Does the tasks of the stages, as `Executor.at` returned it for the work
            folder or for one above it. By default, threads of this process do.
        chosen: The choice of the settings, if nobody gave any.
        growth: The finished run that this one extends, whose sketches and pairs it takes over.
    """

    corpus: Corpus
    columns: Columns
    options: RunOptions
    work: WorkFolder
    progress: Progress
    resources: SpecResources = NO_RESOURCES
    order_of: Callable[[Documents], np.ndarray] | None = None
    sources_of: Callable[[Documents], np.ndarray] | None = None
    shared_hashes: KeptHashes | None = None
    payloads: PayloadSource | None = None
    token_reader: Callable[[TokenKind, np.ndarray], Iterator[DocumentTokens]] | None = None
    matcher: DocumentMatcher | None = None
    keep_function: KeepFunction | None = None
    decisions: Decisions | None = None
    blocker: DocumentBlocker | None = None
    saves_sets: bool = False
    keeps_hashes: bool = True
    given_executor: Executor | None = None
    chosen: ChosenSettings | None = None
    growth: "GrownRun | None" = None
    known: KnownPairs | None = field(init=False, default=None)
    _requested_workers: int = field(init=False)
    _documents: Documents | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._requested_workers = self.options.workers
        most_workers = max(1, self.options.memory // 2 // BYTES_PER_WORKER)
        if self.options.workers > most_workers:
            self.options = replace(self.options, workers=most_workers)

    @cached_property
    def executor(self) -> Executor:
        """The executor that does the tasks of the stages."""
        if self.given_executor is None or not isinstance(self.corpus, FileCorpus):
            return Threads(self.options.workers)
        return self.given_executor

    @property
    def copying_workers(self) -> int:
        """The number of threads that copy the inputs, which the memory bound limits."""
        return limit_copying_workers(self.options.workers, self.options.memory)

    @property
    def stages(self) -> StageRecords:
        """The records of the finished stages, by name."""
        return self.work.manifest["stages"]

    def stage(self, name: str) -> AbstractContextManager[dict[str, object]]:
        """Records a stage in the manifest of the work folder."""
        return self.work.stage(name, self.options.workers)

    def progress_of(self, stage: Stage) -> tuple[str, int | None]:
        """Returns the name and the number of steps under which progress reports a stage."""
        if stage == Stage.SKETCH:
            return str(stage), estimate_documents(self.corpus, self.columns)
        if stage == Stage.CANDIDATES:
            # The keys of each band are sorted first, and then its buckets are compared.
            return "bands", 2 * sum(banding.bands for banding in self.bandings)
        if stage == Stage.VERIFY and self._compares_candidates_exactly:
            # the documents are counted while their sets are made, and then the compared pairs
            return "reread", self.sketch_stats.documents
        if stage == Stage.VERIFY and not self.brute_force:
            return str(stage), len(self.survivors())
        return str(stage), self.sketch_stats.documents

    @property
    def _compares_candidates_exactly(self) -> bool:
        return not self.brute_force and self.options.verify == Verify.EXACT

    def _document_limit(self) -> int:
        """Returns the largest size of a document in the first reading."""
        sketched = self.stats.sketch
        if sketched is not None:
            return sketched.document_limit
        path = self.work.folder("sketch") / "document-limit"
        if not path.exists():
            with disk_errors(path.parent):
                write_durably(path, b"%d\n" % self.columns.document_limit)
        return int(path.read_text())

    def sketch_documents(self) -> SketchStats:
        """Writes signatures, fingerprints, ids and carried columns to `sketch/`."""
        if self.growth is not None:
            latency = self.growth.sketch(self)
        else:
            latency = sketching.sketch_corpus(
                self.corpus,
                self.columns,
                self.measure,
                self.work,
                self.executor,
                self.progress,
                self._key_builder(),
                self.kept_hashes,
                text_facts=text_facts_of(self.options.acceptance),
                further=self.options.further_specs,
            )
        repeated_ids = 0
        if self.columns.id:
            repeated_ids = separate_repeated_ids(self.documents(), self.corpus.names)
        documents = self.documents()
        if len(documents) > MOST_DOCUMENTS:
            raise RunError(
                f"the corpus has {len(documents)} documents, but a run takes at most "
                f"{MOST_DOCUMENTS}; split the corpus"
            )
        if self.saves_sets:
            has_fields = bool(self.options.fields)
            write_sets(self.payload_source(), self.work.path / "sketch", has_fields=has_fields)
        empty_bins, completed_slots = self._fill_shares(documents)
        limited = self.options.workers < self._requested_workers
        rejected = sketching.read_checkpoint(self.work.path / "sketch").rejected
        reasons = None
        if rejected:
            quarantine = self.work.path / "sketch" / sketching.REJECTED
            reasons = list_top_reasons(count_reasons(quarantine))
        return SketchStats(
            documents=len(documents),
            rejected=rejected,
            rejected_reasons=reasons,
            shingles=int(np.asarray(documents.shingles).sum(dtype=np.int64)),
            text_bytes=int(np.asarray(documents.lengths).sum()),
            signature_bytes=documents.signatures.nbytes,
            empty_bin_rate=round(empty_bins, 6),
            completed_slot_rate=round(completed_slots, 6),
            repeated_ids=repeated_ids,
            build_latency=latency,
            document_limit=self.columns.document_limit,
            workers_limited=[self._requested_workers, self.options.workers] if limited else None,
            keyed=self._key_shape if self._builds_keys else None,
        )

    def _fill_shares(self, documents: Documents) -> tuple[float, float]:
        spec = self.options.spec
        if spec.scheme != "binned" or spec.truncated:
            return 0.0, 0.0
        step = max(1, len(documents) // FILL_SAMPLE)
        return fill_shares(np.asarray(documents.signatures[::step]))

    @property
    def _builds_keys(self) -> bool:
        return builds_keys_while_sketching(self.options)

    @property
    def _key_shape(self) -> list[int]:
        return [self.banding.bands, self.banding.rows, self.banding.probes]

    def _key_builder(self) -> BandKeyBuilder | None:
        # `banding` is cached, and bands of signs depend on the number of documents, which is known
        # only after sketching.
        if not self._builds_keys:
            return None
        return key_builder_for(self.banding, truncated=self.options.spec.truncated)

    def documents(self) -> Documents:
        """Returns the documents that the sketch stage wrote. They are opened once."""
        if self._documents is not None:
            return self._documents
        sketched = self.stats.sketch
        shape: Any = self._key_shape if self._builds_keys else (0, 0, 0)
        if sketched is not None and sketched.keyed is not None:
            shape = sketched.keyed
        bands, _, probes = shape
        documents = Documents(
            self.work.path / "sketch",
            self.options.spec,
            key_count=bands * (1 + probes),
            carried=self.columns.carried_columns,
            further=self.options.further_specs,
        )
        if sketched is not None:
            self._documents = documents
        return documents

    def group_exact_duplicates(self) -> CollapseStats:
        """Saves keep order, blocks and exact groups in the work folder."""
        documents = self.documents()
        order = None if self.order_of is None else self.order_of(documents)
        sources = None if self.sources_of is None else self.sources_of(documents)
        removed = np.empty(0, np.int64)
        if self.has_mixed_groups and self.has_blocklist:
            removed = self.blocked().documents
        if self.has_mixed_groups and self.has_reference:
            removed = np.union1d(removed, self.matches().documents)
        decided = None
        if self.decisions is not None:
            decided = number_decisions(self.decisions, documents.ids).without(removed)
            self.work.save(DIFFERENT_PAIRS, decided.different)
        return save_exact_groups(
            documents,
            self.options,
            self.work,
            self.progress.advance,
            order,
            sources,
            decided,
            removed,
        )

    def exact_representatives(self) -> np.ndarray:
        """Returns the first document with the same content as each document, uint32 (n,)."""
        if not self.has_mixed_groups:
            return np.asarray(self.work.load("representative"))
        return ExactGroupOrder.load(self.documents(), self.work).exact_representatives()

    def first_of_groups(self) -> np.ndarray:
        """Returns which documents are the first of their exact group, bool (n,)."""
        representative = self.work.load("representative")
        return np.asarray(representative == np.arange(len(representative), dtype=np.uint32))

    def active(self) -> np.ndarray:
        """Returns which documents are compared with each other, bool (n,).

        They are the first documents of exact groups that have a shingle to compare. Those that
        repeat a document of the reference, or are like a blocked entry, are not among them.
        """
        is_active = self.first_of_groups() & ~self.documents().matchless
        is_active &= np.asarray(self.work.load("blocks")) != NO_BLOCK
        if self.matcher is not None:
            is_active &= not self.matcher.only_reference
            is_active[self.matches().documents] = False
        if self.blocker is not None:
            is_active[self.blocked().documents] = False
        return is_active

    @property
    def has_blocklist(self) -> bool:
        """True if the documents are compared with a blocklist."""
        return self.blocker is not None

    def match_blocklist(self) -> BlocklistStats:
        """Saves the documents that are like an entry of the blocklist in the work folder."""
        assert self.blocker is not None
        blocked, stats = self.blocker.match(self)
        blocked.save(self.work, BLOCKED_PREFIX)
        return stats

    def blocked(self) -> ReferenceMatches:
        """Returns the documents that are like an entry of the blocklist."""
        return ReferenceMatches.load(self.work, BLOCKED_PREFIX)

    @property
    def has_reference(self) -> bool:
        """True if the documents are compared with a reference."""
        return self.matcher is not None

    def match_reference(self) -> ReferenceStats:
        """Saves the documents that repeat a document of the reference in the work folder.

        With the option `related`, those that are related to one are saved, too.
        """
        assert self.matcher is not None
        matches, related, stats = self.matcher.match(self)
        if self.blocker is not None:
            matches = matches.without(self.blocked().documents)
            related = related.without(self.blocked().documents)
            stats = matches.add_to(stats)
        matches.save(self.work)
        if self.options.related is not None:
            related.save(self.work, RELATED_PREFIX)
        return stats

    def matches(self) -> ReferenceMatches:
        """Returns the documents that repeat a document of the reference."""
        return ReferenceMatches.load(self.work)

    def related_in_reference(self) -> ReferenceMatches:
        """Returns the documents that are related to one of the reference, by their numbers.

        There are none without a reference or the option `related`.
        """
        if self.matcher is None or self.options.related is None:
            return ReferenceMatches.concatenate([])
        related = ReferenceMatches.load(self.work, RELATED_PREFIX)
        if not self.has_mixed_groups or self.matcher.only_reference:
            return related
        # All documents were compared, because they were not grouped yet.
        return related.select(np.flatnonzero(self.first_of_groups()[related.documents]))

    @property
    def pair_scope(self) -> PairScope:
        """The pairs that the run compares."""
        return load_pair_scope(self.work, self.options)

    @cached_property
    def comparison(self) -> SignatureComparison:
        """The way in which signatures are banded and compared."""
        keyed = self.sketch_stats.keyed
        if (keyed or self._builds_keys) and keyed != self._key_shape:
            built = f"built for bands, rows, probes = {keyed}" if keyed else "not built"
            raise UsageError(
                f"the signatures cannot be banded for bands, rows, probes = {self._key_shape}: "
                f"their band keys were {built}; give the same {name_setting('bands')}, "
                f"{name_setting('rows')} and {name_setting('probes')}, or sketch the inputs again"
            )
        return self._comparison_of(0)

    def _comparison_of(self, number: int) -> SignatureComparison:
        """Returns the way in which the signatures of a field are banded and compared."""
        return SignatureComparison.create(
            self.candidate_measures[number],
            self.bandings[number],
            self.documents(),
            self.options.candidate_options[number],
            number,
        )

    def _candidate_finders(self, known: KnownPairs | None = None) -> list[CandidateFinder]:
        """Returns the searches for candidate pairs: one, or one for each of several fields."""
        documents = self.documents()
        active = self.active()
        self.work.folder(SPOOL)
        fresh_name = None
        if known is not None:
            fresh_name = f"{SPOOL}/fresh"
            self.work.save(fresh_name, active & ~known.compared)
        finders = []
        for number, options in enumerate(self.options.candidate_options):
            comparison = self._comparison_of(number) if number else self.comparison
            name = f"{SPOOL}/active-{number}"
            self.work.save(name, active & documents.have_field(number))
            finders.append(
                CandidateFinder.create(
                    comparison, self.work, options, name, self.executor, fresh_name
                )
            )
        return finders

    def find_candidates(self) -> CandidateStats:
        """Writes the candidate pairs that pass the prefilter to the file `survivors`.

        Pairs that are known from a run that this one extends are left out. The pairs of a hot
        bucket depend on all its documents, so that none are known if there is one.
        """
        if self.known is not None:
            stats = self._find_candidates(self.known)
            if not stats.hot_buckets:
                return replace(stats, known=len(self.known.among(self.active()).pairs))
        return self._find_candidates(None)

    def _find_candidates(self, known: KnownPairs | None) -> CandidateStats:
        finders = self._candidate_finders(known)
        documents = len(self.documents())
        spool = PairSpool(self.work.folder(SPOOL), documents, self.pairs_in_memory)
        is_salted = self.options.bands_by_block
        with ExitStack() as stack:
            hot_members = None
            if self.options.pair_budget is not None:
                hot_members = stack.enter_context(BucketWriter(self.work.folder(HOT_MEMBERS)))
            counts = []
            for finder in finders:
                write_keys(finder.comparison, self.work, self.executor, is_salted=is_salted)
                found = finder.find_pairs(self.executor, spool, self.progress, hot_members)
                counts.append(found)
        hot_shingles = self._find_contained(spool)
        self.work.save("hot", np.logical_or.reduce([count.is_hot for count in counts]))
        hot = [bucket for count in counts for bucket in count.hot]
        return CandidateStats.summarize(
            histogram=counts[0].histogram,
            further_candidates=sum(int(count.histogram.sum()) for count in counts[1:]),
            bucket_sizes=sum((count.sizes for count in counts), Counter()),
            hot=hot,
            hot_buckets=len(hot),
            hot_members=sum(bucket.members for bucket in hot),
            survivors=len(write_pairs(self.work.path / SURVIVORS, spool)),
            key_bytes=self.key_bytes,
            hot_shingles=hot_shingles,
        )

    def _find_contained(self, spool: PairSpool) -> int | None:
        """Adds the candidate pairs of which one document may contain the other."""
        threshold = self.options.containment_threshold
        if threshold is None:
            return None
        search = ContainmentSearch.prepare(
            self.payload_source,
            self.options,
            threshold,
            self.progress,
            self.active(),
            self.pair_scope,
            self.work.path / "smallest-hashes",
        )
        for pairs in search.find_pairs():
            contained, containing = unpack_pairs(pairs)
            spool.add(pack_pairs(contained, containing))
        return len(search.smallest.crowded)

    def compare_all(self) -> None:
        """Compares all pairs of active documents exactly, and writes the scored pairs."""
        active = np.flatnonzero(self.active())
        payloads = self.build_payloads(active)
        self.release_hashes()
        accept = self._create_scorer(is_exact=True).accept
        with JudgedWriter(self.work, self.options) as writer:
            compare_all_pairs(payloads, active, self.pair_scope, self.options, accept, writer)

    def hot_bucket_loop(self) -> HotBucketLoop | None:
        """Returns the loop over the documents of hot buckets, or None if there are none."""
        hot = np.asarray(self.work.load("hot"))
        if not hot.any():
            return None
        return HotBucketLoop(
            self._candidate_finders(),
            self.work,
            hot,
            self.scorer(),
            self.options,
            self.pairs_in_memory,
            self.executor,
        )

    def _store_candidates(self) -> None:
        """Stores what is compared of the documents in candidate pairs or in hot buckets."""
        in_pairs = documents_in_pairs(self.survivors(), self.sketch_stats.documents)
        in_hot_buckets = np.flatnonzero(np.asarray(self.work.load("hot")) & self.active())
        known = documents_in_pairs(self._taken_pairs().pairs, self.sketch_stats.documents)
        self.build_payloads(sorted_unique(np.concatenate([in_pairs, in_hot_buckets, known])))
        self.release_hashes()

    def _taken_pairs(self) -> ScoredPairs:
        """Returns the scored pairs that were not compared again, of a run that this one extends."""
        candidates = self.stats.candidates
        if self.known is None or candidates is None or candidates.known is None:
            return ScoredPairs.concatenate([])
        return self.known.among(self.active())

    def scorer(self) -> PairScorer:
        """Returns what scores pairs of documents whose payloads the run stored."""
        return self._create_scorer(is_exact=self.options.verify == Verify.EXACT)

    def _create_scorer(self, *, is_exact: bool) -> PairScorer:
        comparison = None if is_exact else self.comparison
        return PairScorer(self.measure, self.options, self.work, self.documents(), comparison)

    def create_pair_acceptance(self, expression: Expression, rank: np.ndarray) -> PairAcceptance:
        """Returns the acceptance of scored pairs, as `PairScorer.create_acceptance` does."""
        return self._create_scorer(is_exact=True).create_acceptance(expression, rank)

    @property
    def pairs_in_memory(self) -> int:
        """The number of candidate pairs that are kept in memory."""
        return self.options.memory // 8 // BYTES_PER_PAIR

    @cached_property
    def kept_hashes(self) -> KeptHashes | None:
        """The shingle hashes of the documents, which the sketch stage keeps for the verification.

        None if documents are compared by something else.
        """
        if self.shared_hashes is not None:
            return self.shared_hashes
        options = self.options
        if options.fields or options.verify != Verify.EXACT or not KeptHashes.serves(options.spec):
            return None
        if self.payloads is not None or not (self.keeps_hashes and self.executor.shares_files):
            return None
        memory = options.memory // KEPT_HASHES_SHARE
        processes = 0 if self.executor.shares_memory else self.executor.workers
        return KeptHashes(self.work.path / KEPT_HASHES, memory, options.workers, processes)

    def release_hashes(self) -> None:
        """Releases the kept shingle hashes, unless they are those of another run."""
        if self.kept_hashes is not None and self.shared_hashes is None:
            self.kept_hashes.release()

    def payload_source(self) -> PayloadSource:
        """Returns the payloads of the documents: kept hashes, fingerprints, or the texts again."""
        if self.payloads is not None:
            return self.payloads
        documents = self.documents()
        if self.options.spec.measure == HAMMING and not self.options.fields:
            return SignaturePayloads(documents.signatures)
        if self.kept_hashes is not None and self.kept_hashes.covers(len(documents)):
            return self.kept_hashes.source(documents.shingles)
        return CorpusPayloads(
            corpus=self.corpus,
            columns=self.columns,
            measure=self.measure,
            workers=self.options.workers,
            files=documents.files,
            rows=documents.rows,
        )

    def read_tokens(self, kind: TokenKind, wanted: np.ndarray) -> Iterator[DocumentTokens]:
        """Yields the tokens of some documents of the corpus, in batches.

        Args:
            wanted: Numbers of the documents, sorted, int64 (m,).
        """
        documents = self.documents()
        return read_tokens(
            kind,
            self.corpus,
            self.columns,
            places_of(documents.files[wanted], documents.rows[wanted]),
            self.options.spec,
            self.resources,
            self.options.workers,
        )

    def build_payloads(self, wanted: np.ndarray) -> Payloads:
        """Stores what the exact comparison of some documents needs.

        Args:
            wanted: Numbers of the documents, sorted, int64 (m,).
        """
        read = self.read_tokens if self.token_reader is None else self.token_reader
        for kind in token_kinds_of(self.options.acceptance):
            store_token_runs(kind, wanted, read(kind, wanted), self.work)
        source = self.payload_source()
        self.work.folder(SPOOL)
        return Payloads.build(source, wanted, self.measure, self.work, self.progress, self.executor)

    @cached_property
    def estimates(self) -> Estimates:
        """The comparison of documents by their signatures."""
        return Estimates(self.measure, self.documents(), self.comparison.band_layout)

    def comparing(self) -> Payloads | Estimates:
        """Returns what compares further pairs of documents: exactly, if the run verified so."""
        if Payloads.exist(self.work):
            return Payloads.load(self.measure, self.work)
        return self.estimates

    def estimate(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the estimated similarity of packed pairs, float64 (m,).

        It is NaN if a document lacks the field that the signatures are of.
        """
        estimated = self.estimates.compare(pairs).similarity
        if len(self.options.candidate_options) > 1:
            has_field = self.documents().have_field(0)
            first, second = unpack_pairs(pairs)
            estimated[~(has_field[first] & has_field[second])] = np.nan
        return estimated

    def agreements(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the number of agreeing slots of packed pairs, int64 (m,)."""
        return self.estimates.agreements(pairs)

    def survivors(self) -> np.ndarray:
        """Returns the candidate pairs that passed the prefilter, packed and sorted, uint64 (m,)."""
        return map_file(self.work.path / SURVIVORS, np.uint64)

    def scored(self) -> ScoredPairs:
        """Returns the scored pairs that reach the threshold, sorted and mapped from disk."""
        return self.scored_at(self.options.threshold)

    def scored_at(self, threshold: float) -> ScoredPairs:
        """Returns the scored pairs that reach a threshold, sorted and mapped from disk."""
        scored = read_scored(self.work.path / SCORED)
        if threshold > self.stages[Stage.VERIFY]["threshold"]:
            return scored.select(scored.meets_threshold(threshold))
        return scored

    def related_pairs(self) -> ScoredPairs:
        """Returns the scored pairs of documents that are similar without being duplicates.

        They are sorted and mapped from disk, in a run with the option `related`.
        """
        return read_scored(self.work.path / RELATED_PAIRS)

    def elect_documents(self) -> ClusterStats:
        """Saves the clusters in the work folder."""
        clustering = self._elect_counted(self.options.threshold, self.progress.advance)
        clustering.save(self.work)
        return self.count_clusters(clustering)

    def limited_removals(self, kind: np.ndarray) -> np.ndarray:
        """Returns which documents count for the limit of removals, bool (n,).

        Exact copies do not, unless their texts are so short that unique documents share them, or
        differ in values that the Spec masks.
        """
        if self.options.masks_values:
            return np.ones(len(kind), bool)
        is_counted = self.first_of_groups() & (np.asarray(kind) != EXACT)
        if self.options.has_short_texts:
            is_counted |= np.asarray(self.documents().lengths) <= SHORT_TEXT
        return is_counted

    def count_clusters(self, clustering: Clustering) -> ClusterStats:
        """Returns the statistics of clusters of this run."""
        stats = ClusterStats.from_dict(clustering.counts())
        options = self.options
        if stats.near + stats.exact >= LEAST_DOUBTED:
            is_counted = self.limited_removals(clustering.kind)
            is_removed = is_counted & np.isin(clustering.kind, (NEAR, EXACT))
            stats = replace(
                stats,
                contents=int(np.count_nonzero(is_counted)),
                contents_removed=int(np.count_nonzero(is_removed)),
                between=count_between(self.scored(), is_removed, clustering),
            )
        return replace(
            stats,
            same=stats.same if self.has_mixed_groups else None,
            further=stats.further if options.keep_up_to > 1 else None,
            blocked=None if self.blocker is None else stats.blocked,
            same_shingles=(stats.same_shingles or None) if options.compares_sets else None,
        )

    def elect(self) -> Clustering:
        """Returns the clusters that follow from the scored pairs."""
        return self.elect_at(self.options.threshold)

    def elect_at(self, threshold: float) -> Clustering:
        """Returns the clusters of a threshold, from the stored scored pairs."""
        return self._elect_counted(threshold, ignore_count)

    def _elect_counted(self, threshold: float, advance: Callable[[int], None]) -> Clustering:
        groups = ExactGroupOrder.load(self.documents(), self.work)
        if self.matcher is not None and self.matcher.only_reference:
            groups = groups.ungrouped()
        scored = self.scored_at(threshold)
        clustering = cluster_documents(
            scored,
            groups,
            self.comparing(),
            self.options,
            floor=self.options.floor_at(threshold),
            advance=advance,
            apart=NO_PAIRS if self.decisions is None else load_pairs_apart(self.work),
        )
        if self.keep_function is not None:
            assert isinstance(self.corpus, TableCorpus)
            clustering = choose_by_function(
                clustering,
                scored,
                groups,
                self.documents(),
                self.corpus.table,
                self.keep_function,
            )
        clustering = self._remove_matches(clustering)
        if self.options.keep_up_to > 1:
            return keep_further_copies(clustering, groups.rank, self.options.keep_up_to)
        return clustering

    def _remove_matches(self, clustering: Clustering) -> Clustering:
        """Returns clusters without the documents of the reference and of the blocklist."""
        if self.matcher is not None:
            clustering = clustering.with_matches(self.matches())
        return clustering if self.blocker is None else clustering.with_blocked(self.blocked())

    def at(self, threshold: float) -> "Run":
        """Returns this run with a higher threshold, to be clustered again."""
        options = self.options
        distance = None
        if options.distance is not None:
            distance = int((1 - threshold) * options.spec.k + 1e-9)
        floor = None if options.floor is None else min(options.floor, threshold)
        higher = replace(options, threshold=threshold, distance=distance, floor=floor)
        if not self.brute_force and distance is None:
            # The signatures stay banded as they are; another threshold would be solved again.
            bands, rows = self.banding.bands, self.banding.rows
            higher = replace(higher, bands=bands, rows=rows, tables=1)
        return replace(self, options=higher)

    def clustering(self) -> Clustering:
        """Returns the clusters that the cluster stage saved."""
        return self._remove_matches(Clustering.load(self.work))

    @property
    def compares_others(self) -> bool:
        """True if documents are compared with others: of a reference or of a blocklist."""
        return self.has_reference or self.has_blocklist

    @property
    def has_mixed_groups(self) -> bool:
        """True if documents of different contents can be in one group before they are compared."""
        return self.options.groups_by_value or self.decisions is not None

    @cached_property
    def measure(self) -> Measure:
        """The measure of the run."""
        return self.options.create_measure(self.resources)

    @cached_property
    def candidate_measures(self) -> tuple[Measure, ...]:
        """The measures whose signatures find candidate pairs: one, or those of several fields."""
        if isinstance(self.measure, FieldsMeasure):
            return self.measure.candidate_measures
        return (self.measure,)

    @property
    def banding(self) -> Banding:
        """The bands and rows of the signatures, or of the first field that finds candidates."""
        return self.bandings[0]

    @cached_property
    def bandings(self) -> tuple[Banding, ...]:
        """The bands and rows of each kind of signatures that finds candidate pairs.

        For signatures of signs they depend on the size of the corpus.
        """
        sketched = self.stats.sketch
        documents = 0 if sketched is None else sketched.documents
        compares_all = sketched is not None and not self._is_bandable and self.brute_force
        bandings = []
        for options, measure in zip(
            self.options.candidate_options, self.candidate_measures, strict=True
        ):
            if compares_all and options.banding_if_possible(measure, documents) is None:
                # All pairs are compared. The layout of the signatures is read, and no band.
                banding: Banding = fixed_sign_banding(
                    options.threshold, options.recall, options.spec.k, documents, bands=1, rows=1
                )
            else:
                banding = options.banding(measure, documents)
            bandings.append(banding)
        return tuple(bandings)

    @cached_property
    def _is_bandable(self) -> bool:
        """True if a banding reaches the recall at the threshold.

        Signatures of signs have none at a low similarity. Those of slots were checked before.
        """
        documents = self.sketch_stats.documents
        return all(
            options.banding_if_possible(measure, documents) is not None
            for options, measure in zip(
                self.options.candidate_options, self.candidate_measures, strict=True
            )
        )

    @property
    def stats(self) -> RunStats:
        """The statistics of the finished stages."""
        return RunStats.from_stages(self.stages)

    @property
    def sketch_stats(self) -> SketchStats:
        """The statistics of the sketch stage."""
        record = self.stages.get(Stage.SKETCH)
        if record is None:
            raise RunError("the documents are not sketched yet; run the stage sketch first")
        return SketchStats.from_dict(record)

    def recorded(self, stage: str) -> StageRecord:
        """Returns the record of a stage as in run.json, or an empty one if it did not run."""
        return self.stages.get(stage, {})

    @property
    def brute_force(self) -> bool:
        """True if the corpus is small enough to compare all pairs. Given bands are always used.

        It has few documents, however long they are. Only several fields must not be too long.
        A corpus that no banding suits may be larger: up to the default pair budget.
        """
        sketched = self.sketch_stats
        if self.options.bands is not None:
            return False
        is_short = self.options.can_compare_all(sketched.shingles)
        if sketched.documents < SMALL_CORPUS and is_short:
            return True
        pairs = sketched.documents * (sketched.documents - 1) // 2
        return pairs <= DEFAULT_PAIR_BUDGET and not self._is_bandable

    @property
    def compares_all_for_recall(self) -> bool:
        """True if all pairs of a corpus are compared because no banding reaches the recall."""
        return not self._is_bandable and self.brute_force

    @property
    def hot_buckets(self) -> int:
        """The number of hot buckets, whose documents were compared with leaders only."""
        candidates = self.stats.candidates
        return 0 if candidates is None else candidates.hot_buckets

    @property
    def is_exact(self) -> bool:
        """True if the similarities of scored pairs are exact, not estimates."""
        return self.brute_force or self.options.verify == Verify.EXACT

    @property
    def key_bytes(self) -> int:
        """The size of the band keys of all documents, in bytes."""
        keys_per_document = sum(banding.bands * (1 + banding.probes) for banding in self.bandings)
        return 8 * self.sketch_stats.documents * keys_per_document

    def sketch(self) -> None:
        """Runs stage 1: reads the corpus and sketches its documents."""
        self.corpus.check(self.columns)
        # Another limit in a later reading would reject other rows.
        self.columns = replace(self.columns, document_limit=self._document_limit())
        self._run_stage(Stage.SKETCH, self.sketch_documents)
        if self.growth is not None:
            self.growth.restore(self)

    def collapse(self) -> None:
        """Runs stage 2: finds exact duplicates."""
        self._run_stage(Stage.COLLAPSE, self.group_exact_duplicates)

    def block(self) -> None:
        """Compares the documents with the blocklist, if the run has one."""
        if self.has_blocklist:
            self._run_stage(Stage.BLOCKLIST, self.match_blocklist)

    def against(self) -> None:
        """Compares the documents with those of the reference, if the run has one."""
        if self.has_reference:
            self._run_stage(Stage.AGAINST, self.match_reference)

    def candidates(self) -> None:
        """Runs stage 3: finds candidate pairs. Brute force needs none."""
        if not self.brute_force:
            self._run_stage(Stage.CANDIDATES, self.find_candidates)

    def verify(self) -> None:
        """Runs stage 4: verifies candidate pairs, or all pairs of a small corpus."""
        self._run_stage(Stage.VERIFY, self._verify)

    def cluster(self) -> None:
        """Runs stage 5: forms clusters, and decides which documents are kept."""
        self._run_stage(Stage.CLUSTER, self.elect_documents)

    def to_exact_groups(self) -> None:
        """Runs all stages up to exact duplicates.

        If groups can have different contents, blocked documents and those that repeat one of a
        reference are found before, so that none of them is in a group.
        """
        self.sketch()
        if self.has_mixed_groups:
            self.block()
            self.against()
        self.collapse()

    def to_pairs(self) -> None:
        """Runs all stages up to scored pairs."""
        self.to_exact_groups()
        self.block()
        self.against()
        self.candidates()
        self.verify()

    def to_clusters(self) -> None:
        """Runs all stages up to clusters.

        If hot buckets were not compared completely, the pairs that are missing are estimated.
        """
        self.to_pairs()
        self.cluster()
        verified = self.stats.verify
        if verified is not None and verified.hot_incomplete:
            self._run_stage(Stage.MISSING_PAIRS, self._estimate_missing)

    def _estimate_missing(self) -> MissingPairsStats:
        verified = self.stats.verify
        loop = self.hot_bucket_loop()
        assert verified is not None
        assert loop is not None
        return loop.count_missing().estimate(
            truncated=verified.hot_incomplete or 0, listed=len(self.scored().pairs)
        )

    def _run_stage(self, stage: Stage, run: Callable[[], StageStats]) -> None:
        """Runs and records a stage, unless it is recorded already."""
        if stage in self.stages:
            return
        label, steps = self.progress_of(stage)
        self.progress.stage(label, steps)
        with self.stage(stage) as record:
            record.update(run().to_dict())

    def _verify(self) -> VerifyStats:
        if self.brute_force:
            self.compare_all()
            return VerifyStats(brute_force=True, threshold=self.options.scored_threshold)
        with JudgedWriter(self.work, self.options) as writer:
            if self._compares_candidates_exactly:
                self._store_candidates()
                self.progress.stage(str(Stage.VERIFY), len(self.survivors()))
            path = self.work.path / SURVIVORS
            compared = write_scored_pairs(path, self.scorer(), self.executor, writer, self.progress)
        known = self._taken_pairs()
        if len(known.pairs):
            merge_scored(self.work.path / SCORED, known)
        loop = self.hot_bucket_loop()
        rounds = None if loop is None else loop.run()
        return VerifyStats(
            brute_force=False,
            threshold=self.options.scored_threshold,
            compared=compared,
            passed=writer.pairs,
            hot_kept=[] if rounds is None else rounds.kept,
            hot_incomplete=None if rounds is None else rounds.incomplete,
        )
