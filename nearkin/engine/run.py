"""The stages of a run, which both engines share. An engine supplies the hooks."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import NamedTuple, final

from nearkin.engine.hot_buckets import HotBucketLoop
from nearkin.engine.options import DEFAULT_PAIR_BUDGET, SMALL_CORPUS, RunOptions
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
from nearkin.errors import RunError
from nearkin.runtime.progress import Progress
from nearkin.settings.choices import Verify
from nearkin.settings.decisions import Decisions
from nearkin.stages.lsh.sign_bands import fixed_sign_banding
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure
from nearkin.stages.measures.fields import FieldsMeasure
from nearkin.stages.sketch.resources import SpecResources


class VerifiedCandidates(NamedTuple):
    """The outcome of the first verification."""

    compared: int
    passed: int


class Run(ABC):
    """A run over one corpus: the order of its stages, the brute-force rule and the recording.

    Attributes:
        options: Options of the run.
        resources: Data that the Spec refers to but does not contain.
        progress: Receives progress updates.
        decisions: Decisions about pairs of documents, or None without decisions.
    """

    options: RunOptions
    resources: SpecResources
    progress: Progress
    decisions: Decisions | None

    @property
    @abstractmethod
    def stages(self) -> StageRecords:
        """The records of the finished stages, by name, as in run.json."""

    @abstractmethod
    def stage(self, name: str) -> AbstractContextManager[dict[str, object]]:
        """Records the statistics that are put into the yielded dictionary, and the duration."""

    @abstractmethod
    def sketch_documents(self) -> SketchStats:
        """Reads the corpus and computes signatures, fingerprints, ids and carried columns."""

    @abstractmethod
    def group_exact_duplicates(self) -> CollapseStats:
        """Sorts documents into keep order, and finds exact duplicates."""

    @abstractmethod
    def find_candidates(self) -> CandidateStats:
        """Bands the documents and keeps the candidate pairs that pass the prefilter."""

    @abstractmethod
    def compare_all(self) -> None:
        """Compares all pairs of documents, for a small corpus."""

    @abstractmethod
    def verify_candidates(self) -> VerifiedCandidates:
        """Compares the candidate pairs and keeps those that reach the threshold."""

    @abstractmethod
    def hot_bucket_loop(self) -> HotBucketLoop | None:
        """Returns the loop over the documents of hot buckets, or None if there are none."""

    @abstractmethod
    def count_scored_pairs(self) -> int:
        """Returns the number of scored pairs that reach the threshold."""

    @abstractmethod
    def elect_documents(self) -> ClusterStats:
        """Decides which document of each cluster is kept."""

    @property
    def has_reference(self) -> bool:
        """True if the documents are compared with a reference."""
        return False

    def match_reference(self) -> ReferenceStats:
        """Finds the documents that repeat a document of the reference."""
        raise RunError("this engine cannot compare with a reference; use the local engine")

    @property
    @final
    def compares_others(self) -> bool:
        """True if documents are compared with others: of a reference or of a blocklist."""
        return self.has_reference or self.has_blocklist

    @property
    def has_blocklist(self) -> bool:
        """True if the documents are compared with a blocklist."""
        return False

    @property
    @final
    def has_mixed_groups(self) -> bool:
        """True if documents of different contents can be in one group before they are compared."""
        return self.options.groups_by_value or self.decisions is not None

    def match_blocklist(self) -> BlocklistStats:
        """Finds the documents that are like an entry of the blocklist.

        All documents are compared if groups can have different contents, and otherwise the first
        ones of the groups.
        """
        raise RunError("this engine cannot compare with a blocklist; use the local engine")

    def progress_of(self, stage: Stage) -> tuple[str, int | None]:
        """Returns the name and the number of steps under which progress reports a stage."""
        return str(stage), None

    def prepare_inputs(self) -> None:
        """Prepares the corpus for reading, before the first stage of a new or a resumed run."""
        return

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
    @final
    def stats(self) -> RunStats:
        """The statistics of the finished stages."""
        return RunStats.from_stages(self.stages)

    @property
    @final
    def sketch_stats(self) -> SketchStats:
        """The statistics of the sketch stage."""
        record = self.stages.get(Stage.SKETCH)
        if record is None:
            raise RunError("the documents are not sketched yet; run the stage sketch first")
        return SketchStats.from_dict(record)

    @final
    def recorded(self, stage: str) -> StageRecord:
        """Returns the record of a stage as in run.json, or an empty one if it did not run."""
        return self.stages.get(stage, {})

    @property
    @final
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
    @final
    def compares_all_for_recall(self) -> bool:
        """True if all pairs of a corpus are compared because no banding reaches the recall."""
        return not self._is_bandable and self.brute_force

    @property
    @final
    def hot_buckets(self) -> int:
        """The number of hot buckets, whose documents were compared with leaders only."""
        candidates = self.stats.candidates
        return 0 if candidates is None else candidates.hot_buckets

    @property
    @final
    def is_exact(self) -> bool:
        """True if the similarities of scored pairs are exact, not estimates."""
        return self.brute_force or self.options.verify == Verify.EXACT

    @property
    @final
    def key_bytes(self) -> int:
        """The size of the band keys of all documents, in bytes."""
        keys_per_document = sum(banding.bands * (1 + banding.probes) for banding in self.bandings)
        return 8 * self.sketch_stats.documents * keys_per_document

    @final
    def sketch(self) -> None:
        """Runs stage 1: reads the corpus and sketches its documents."""
        self.prepare_inputs()
        self._run_stage(Stage.SKETCH, self.sketch_documents)

    @final
    def collapse(self) -> None:
        """Runs stage 2: finds exact duplicates."""
        self._run_stage(Stage.COLLAPSE, self.group_exact_duplicates)

    @final
    def block(self) -> None:
        """Compares the documents with the blocklist, if the run has one."""
        if self.has_blocklist:
            self._run_stage(Stage.BLOCKLIST, self.match_blocklist)

    @final
    def against(self) -> None:
        """Compares the documents with those of the reference, if the run has one."""
        if self.has_reference:
            self._run_stage(Stage.AGAINST, self.match_reference)

    @final
    def candidates(self) -> None:
        """Runs stage 3: finds candidate pairs. Brute force needs none."""
        if not self.brute_force:
            self._run_stage(Stage.CANDIDATES, self.find_candidates)

    @final
    def verify(self) -> None:
        """Runs stage 4: verifies candidate pairs, or all pairs of a small corpus."""
        self._run_stage(Stage.VERIFY, self._verify)

    @final
    def cluster(self) -> None:
        """Runs stage 5: forms clusters, and decides which documents are kept."""
        self._run_stage(Stage.CLUSTER, self.elect_documents)

    @final
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

    @final
    def to_pairs(self) -> None:
        """Runs all stages up to scored pairs."""
        self.to_exact_groups()
        self.block()
        self.against()
        self.candidates()
        self.verify()

    @final
    def to_clusters(self) -> None:
        """Runs all stages up to clusters.

        If hot buckets were not compared completely, the pairs that are missing are estimated.
        """
        self.to_pairs()
        self.cluster()
        verified = self.stats.verify
        if verified is not None and verified.hot_incomplete:
            self._run_stage(Stage.MISSING_PAIRS, self._estimate_missing)

    @final
    def _estimate_missing(self) -> MissingPairsStats:
        verified = self.stats.verify
        loop = self.hot_bucket_loop()
        assert verified is not None
        assert loop is not None
        return loop.count_missing().estimate(
            truncated=verified.hot_incomplete or 0, listed=self.count_scored_pairs()
        )

    @final
    def _run_stage(self, stage: Stage, run: Callable[[], StageStats]) -> None:
        """Runs and records a stage, unless it is recorded already."""
        if stage in self.stages:
            return
        label, steps = self.progress_of(stage)
        self.progress.stage(label, steps)
        with self.stage(stage) as record:
            record.update(run().to_dict())

    @final
    def _verify(self) -> VerifyStats:
        if self.brute_force:
            self.compare_all()
            return VerifyStats(brute_force=True, threshold=self.options.scored_threshold)
        verified = self.verify_candidates()
        loop = self.hot_bucket_loop()
        rounds = None if loop is None else loop.run()
        return VerifyStats(
            brute_force=False,
            threshold=self.options.scored_threshold,
            compared=verified.compared,
            passed=verified.passed,
            hot_kept=[] if rounds is None else rounds.kept,
            hot_incomplete=None if rounds is None else rounds.incomplete,
        )
