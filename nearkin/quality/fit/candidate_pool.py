"""The pairs of documents about which questions can be asked, with their similarity by all settings.

All pairs of a sample of documents are compared by each competing definition of similarity. The most
similar pairs of each definition are listed, and if they are many, some are drawn of each doubling
of the rank. Of all other pairs, a few are drawn at random. A drawn pair stands for others by its
weight, so that sums over the pool estimate sums over all pairs.

If there are more documents, similar pairs of all of them are sought by locality-sensitive hashing
and drawn too, so that rare duplicates are among the pairs. The pairs of the sample then stand for
the pairs of all documents that were not found in this way.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearkin.errors import UsageError
from nearkin.quality.fit.definition import BASE_STEPS, Definition
from nearkin.quality.fit.documents import FitDocuments, content_sizes, limit_compared
from nearkin.quality.fit.scoring import DocumentScorer
from nearkin.quality.fit.similar_pairs import SimilarPairs, find_similar_pairs
from nearkin.runtime.progress import Progress
from nearkin.settings.spec import IDF_JACCARD, NORMALISATIONS
from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs, unpack_pairs
from nearkin.stages.pair_scope import PairScope

SEARCHED_DOCUMENTS = 50_000
"""The number of documents among which similar pairs are sought, at most."""
POOL_DOCUMENTS = 3000
"""The number of documents of which all pairs are compared, at most."""
MOST_POOL_PAIRS = 60_000
"""The number of listed pairs above which some of them are drawn."""
PAIRS_PER_DOUBLING = 600
"""The number of pairs that are drawn of each doubling of the rank by a definition, on average."""
PAIRS_PER_DOCUMENT = 20
"""The number of pairs that a definition lists for each document, approximately."""
RANDOM_PAIRS = 8000
"""The number of pairs that stand for all pairs that no definition lists."""
LISTED_SIMILARITY = 0.1
"""The similarity from which pairs are listed."""


def _with_digits_folded(unit: str, n: int) -> Definition:
    steps = tuple(step for step in NORMALISATIONS if step in (*BASE_STEPS, "digits"))
    return Definition(unit, n, "jaccard", steps)


COMPETING_DEFINITIONS = (
    Definition("words", 1, "jaccard"),
    Definition("words", 2, "jaccard"),
    Definition("words", 3, "jaccard"),
    Definition("chars", 3, "jaccard"),
    Definition("chars", 5, "jaccard"),
    Definition("words", 1, IDF_JACCARD),
    Definition("chars", 3, IDF_JACCARD),
    _with_digits_folded("words", 1),
    _with_digits_folded("words", 3),
    _with_digits_folded("chars", 5),
)
"""The definitions between which the answers decide: short and long shingles, rare words and folded
digits. Each was the best one on some kind of data."""
SEARCH_DEFINITIONS = (
    Definition("words", 1, "jaccard"),
    Definition("chars", 3, "jaccard"),
    _with_digits_folded("words", 2),
)
"""The definitions by which similar pairs of many documents are sought. Longer shingles would find a
part of the same pairs."""


@dataclass(frozen=True)
class CandidatePool:
    """Pairs of sampled documents with their similarity by each definition.

    Attributes:
        documents: Documents of the pairs.
        definitions: Competing definitions of similarity.
        pairs: Positions of the documents of each pair, int64 (m, 2).
        weights: Number of pairs for which each pair stands, float64 (m,). It is 0 for answered
            pairs outside the sample.
        similarity: Similarity of each pair by each definition, float64 (m, d).
        compared: Number of documents of which all pairs were compared.
        searched: Number of documents for whose pairs the pool stands.
    """

    documents: FitDocuments
    definitions: tuple[Definition, ...]
    pairs: np.ndarray
    weights: np.ndarray
    similarity: np.ndarray
    compared: int
    searched: int

    def __len__(self) -> int:
        return len(self.pairs)

    def find_pairs(self, id_pairs: Iterable[tuple[str, str]]) -> list[int | None]:
        """Returns the number of each pair of ids in the pool, or None if it is not there."""
        positions = {id: position for position, id in enumerate(self.documents.ids)}
        numbers = {tuple(sorted(pair)): number for number, pair in enumerate(self.pairs.tolist())}
        return [
            numbers.get(tuple(sorted((positions.get(a, -1), positions.get(b, -1)))))
            for a, b in id_pairs
        ]


def build_pool(
    documents: FitDocuments,
    answered: Sequence[tuple[str, str]],
    *,
    seed: int,
    workers: int,
    progress: Progress,
) -> CandidatePool:
    """Compares documents by all competing definitions, and lists the pairs to ask about."""
    progress.stage("compare", None)
    searched = len(documents)
    rng = np.random.default_rng(seed)
    order = rng.permutation(searched)
    limit = limit_compared(POOL_DOCUMENTS)
    sizes = content_sizes(documents.contents)[order[:POOL_DOCUMENTS]]
    compared = order[: limit.count_within(sizes)]
    similar = SimilarPairs.empty()
    is_sample = len(compared) < searched
    if is_sample:
        similar = find_similar_pairs(DocumentScorer(documents, workers), SEARCH_DEFINITIONS, rng)
    answered_pairs = _answered_pairs(documents, answered)
    ends = unpack_pairs(np.concatenate([similar.drawn, answered_pairs]))
    used = np.unique(np.concatenate([compared, *ends]))
    scorer = DocumentScorer(documents.select(used), workers)
    sampled = _sample_pairs(scorer, rng, np.searchsorted(used, compared), progress)
    if is_sample:
        sampled = sampled.stand_for_others(used, similar.listed, searched)
    known = np.concatenate([sampled.pairs, similar.drawn])
    extra = answered_pairs[~np.isin(answered_pairs, known)]
    packed = np.concatenate([known, extra])
    if len(packed) < 10:
        raise UsageError(
            f"{searched} documents have too few pairs to ask about; give more documents"
        )
    weights = np.concatenate([sampled.weights, similar.weights, np.zeros(len(extra))])
    first, second = unpack_pairs(packed)
    pairs = np.stack([np.searchsorted(used, first), np.searchsorted(used, second)], axis=1)
    renumbered = pack_pairs(pairs[:, 0], pairs[:, 1])
    similarity = np.stack(
        [scorer.score_pairs(definition, renumbered) for definition in COMPETING_DEFINITIONS], axis=1
    )
    return CandidatePool(
        scorer.documents,
        COMPETING_DEFINITIONS,
        pairs.astype(np.int64),
        weights,
        similarity,
        compared=len(compared),
        searched=searched,
    )


class _SampledPairs(NamedTuple):
    """Pairs of a sample of documents, of which all pairs were compared."""

    pairs: np.ndarray
    """uint64 (m,): Packed pairs."""
    weights: np.ndarray
    """float64 (m,): The number of pairs of the sample for which each pair stands."""

    def stand_for_others(
        self, used: np.ndarray, listed: np.ndarray, searched: int
    ) -> "_SampledPairs":
        """Returns the pairs with weights by which they stand for all unlisted pairs of a corpus.

        `used` are the ascending positions of the documents in the corpus, int64 (d,), and `listed`
        the packed pairs for which other pairs stand, uint64 (l,).
        """
        first, second = unpack_pairs(self.pairs)
        pairs = pack_pairs(used[first], used[second])
        is_other = ~np.isin(pairs, listed)
        weights = self.weights[is_other]
        weights *= (math.comb(searched, 2) - len(listed)) / weights.sum()
        return _SampledPairs(pairs[is_other], weights)


def _sample_pairs(
    scorer: DocumentScorer, rng: np.random.Generator, rows: np.ndarray, progress: Progress
) -> _SampledPairs:
    """Compares documents in random order. Returns the most similar pairs and some others."""
    of_definitions = _list_pairs(scorer, rows, progress)
    listed = np.unique(np.concatenate([scored.pairs for scored in of_definitions]))
    others = _draw_other_pairs(rng, rows, listed)
    weight = (math.comb(len(rows), 2) - len(listed)) / max(len(others), 1)
    listed_weights = np.ones(len(listed))
    if len(listed) > MOST_POOL_PAIRS:
        chances = _chances_of_listed(listed, of_definitions)
        is_drawn = rng.random(len(listed)) < chances
        listed = listed[is_drawn]
        listed_weights = 1 / chances[is_drawn]
    weights = np.concatenate([listed_weights, np.full(len(others), weight)])
    return _SampledPairs(np.concatenate([listed, others]), weights)


def _chances_of_listed(listed: np.ndarray, of_definitions: Sequence[ScoredPairs]) -> np.ndarray:
    """Returns the probability with which each listed pair, uint64 (m,) ascending, is drawn.

    Each definition draws about equally many pairs of each doubling of the rank, and all pairs of
    the first ranks.
    """
    missed = np.ones(len(listed))
    for scored in of_definitions:
        doublings = np.floor(np.log2(1 + np.arange(len(scored.pairs)))).astype(np.int64)
        by_rank = np.minimum(1.0, PAIRS_PER_DOUBLING / np.bincount(doublings)[doublings])
        ranked = scored.pairs[np.argsort(-scored.similarity, kind="stable")]
        missed[np.searchsorted(listed, ranked)] *= 1 - by_rank
    return np.asarray(1 - missed)


def _list_pairs(scorer: DocumentScorer, rows: np.ndarray, progress: Progress) -> list[ScoredPairs]:
    is_used = np.zeros(len(scorer.documents), bool)
    is_used[rows] = True
    limit = PAIRS_PER_DOCUMENT * len(rows)
    of_definitions = []
    for definition in COMPETING_DEFINITIONS:
        measure = scorer.measure(definition)
        payload = scorer.payload(measure)
        # Documents that are not used are each in a block of their own.
        scope = PairScope(np.where(is_used, 0, 1 + np.arange(len(is_used))).astype(np.uint64))
        scored = ScoredPairs.concatenate(
            list(measure.compare_all(payload, scope, LISTED_SIMILARITY, scorer.workers))
        )
        if len(scored.pairs) > limit:
            place = len(scored.pairs) - limit
            least = np.partition(scored.similarity, place)[place]
            scored = scored.select(scored.similarity >= least)
        of_definitions.append(scored)
        progress.advance(1)
    return of_definitions


def _draw_other_pairs(rng: np.random.Generator, rows: np.ndarray, listed: np.ndarray) -> np.ndarray:
    """Returns random pairs of documents that are not listed, packed, uint64 (p,)."""
    first = rng.choice(rows, 2 * RANDOM_PAIRS)
    second = rng.choice(rows, 2 * RANDOM_PAIRS)
    is_pair = first < second
    drawn = np.unique(pack_pairs(first[is_pair], second[is_pair]))
    unlisted = drawn[~np.isin(drawn, listed)]
    return rng.permutation(unlisted)[:RANDOM_PAIRS]


def _answered_pairs(documents: FitDocuments, answered: Sequence[tuple[str, str]]) -> np.ndarray:
    positions = {id: position for position, id in enumerate(documents.ids)}
    pairs = [
        sorted((positions[a], positions[b]))
        for a, b in answered
        if a in positions and b in positions and a != b
    ]
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return np.unique(pack_pairs(rows[:, 0], rows[:, 1]))
