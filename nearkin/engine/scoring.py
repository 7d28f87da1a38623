"""The scores of candidate pairs, which any process can compute from the files of a run."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from nearkin.engine.acceptance import token_kinds_of
from nearkin.engine.candidates import SignatureComparison
from nearkin.engine.compared_facts import create_acceptance
from nearkin.engine.documents import Documents
from nearkin.engine.options import RunOptions
from nearkin.engine.pair_acceptance import PairAcceptance
from nearkin.engine.token_runs import load_token_runs
from nearkin.engine.verification import (
    PAIRS_PER_TASK,
    Estimates,
    JudgedPairs,
    JudgedWriter,
    Payloads,
    judge_pairs,
    keep_all,
)
from nearkin.engine.work_folder import WorkFolder, map_file
from nearkin.runtime.executor import Executor, Task
from nearkin.runtime.progress import Progress
from nearkin.settings.acceptance import Expression
from nearkin.settings.choices import Verify
from nearkin.stages.measures import Measure
from nearkin.stages.packed_pairs import ScoredPairs


@dataclass(frozen=True)
class PairScorer(Task):
    """A comparison of documents: exact, by the payloads that the run stored, or by signatures.

    Attributes:
        comparison: The way in which signatures are compared, or None for an exact comparison.
    """

    measure: Measure
    options: RunOptions
    work: WorkFolder
    documents: Documents
    comparison: SignatureComparison | None

    def __call__(self, pairs: np.ndarray) -> JudgedPairs:
        """Scores packed pairs, sorted, uint64 (m,), and drops those that nothing follows from."""
        if self.comparison is None:
            return judge_pairs(self.payloads.compare(pairs), self.options, self.accept)
        estimates = Estimates(self.measure, self.documents, self.comparison.band_layout)
        scored = estimates.compare(pairs)
        if self.options.verify == Verify.NONE:
            return JudgedPairs(scored, scored.select(slice(0)))
        return judge_pairs(scored, self.options, keep_all)

    @cached_property
    def payloads(self) -> Payloads:
        """The payloads of the documents in candidate pairs."""
        return Payloads.load(self.measure, self.work)

    @cached_property
    def _acceptance(self) -> PairAcceptance | None:
        if self.options.acceptance is None:
            return None
        return self.create_acceptance(self.options.acceptance, self.work.load("rank"))

    def accept(self, scored: ScoredPairs) -> ScoredPairs:
        """Drops scored pairs that the acceptance of the run does not accept."""
        return scored if self._acceptance is None else self._acceptance.select(scored)

    def create_acceptance(self, expression: Expression, rank: np.ndarray) -> PairAcceptance:
        """Returns the acceptance of scored pairs of documents whose payloads the run stored.

        Args:
            rank: Position of each document in the order that gives pairs their direction, integers
                (n,). The later document of a pair takes the place of the removed one.
        """
        runs = {kind: load_token_runs(kind, self.work) for kind in token_kinds_of(expression)}
        return create_acceptance(expression, self.documents, rank, self.payloads, runs)


@dataclass(frozen=True)
class ScorePortion(Task):
    """A task that scores some of the packed pairs of a file."""

    score: PairScorer
    path: Path

    @cached_property
    def _pairs(self) -> np.ndarray:
        return map_file(self.path, np.uint64)

    def __call__(self, bounds: tuple[int, int]) -> JudgedPairs:
        """Scores the pairs from one place to another."""
        return self.score(np.asarray(self._pairs[slice(*bounds)]))


def write_scored_pairs(
    path: Path, score: PairScorer, executor: Executor, writer: JudgedWriter, progress: Progress
) -> int:
    """Scores the packed pairs of a file, sorted, writes them in order, and returns their number."""
    pairs = len(map_file(path, np.uint64))
    starts = range(0, pairs, PAIRS_PER_TASK)
    portions = [(start, min(start + PAIRS_PER_TASK, pairs)) for start in starts]
    judged = executor.map(ScorePortion(score, path), portions)
    for (start, end), portion in zip(portions, judged, strict=True):
        writer.add(portion)
        progress.advance(end - start)
    return pairs
