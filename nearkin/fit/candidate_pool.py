"""The pairs of documents about which questions can be asked, with their similarity by all settings.

All pairs of a sample of documents are compared by each competing definition of similarity. The most
similar pairs of each definition are listed. Of all other pairs, a few are drawn at random, which
stand for the others by their weight, so that sums over the pool estimate sums over all pairs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nearkin.errors import UsageError
from nearkin.fit.definition import BASE_STEPS, Definition
from nearkin.fit.documents import FitDocuments
from nearkin.fit.scoring import DocumentScorer
from nearkin.packed_pairs import ScoredPairs, pack_pairs, unpack_pairs
from nearkin.pair_scope import PairScope
from nearkin.runtime.progress import Progress
from nearkin.spec import IDF_JACCARD, NORMALISATIONS

POOL_DOCUMENTS = 3000
"""The number of documents of which all pairs are compared, at most."""
MOST_POOL_PAIRS = 60_000
"""The number of listed pairs above which fewer documents are compared."""
PAIRS_PER_DOCUMENT = 20
"""The number of pairs that a definition lists for each document, approximately."""
RANDOM_PAIRS = 8000
"""The number of pairs that stand for all pairs that no definition lists."""
LISTED_SIMILARITY = 0.1
"""The similarity from which pairs are listed."""
SHRINKING = 0.7
"""The factor by which the number of documents is reduced if they have too many pairs."""


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


@dataclass(frozen=True)
class CandidatePool:
    """Pairs of sampled documents with their similarity by each definition.

    Attributes:
        documents: Sampled documents, and those of earlier answers.
        definitions: Competing definitions of similarity.
        pairs: Positions of the documents of each pair, int64 (m, 2).
        weights: Number of pairs for which each pair stands, float64 (m,). It is 0 for answered
            pairs outside the sample.
        similarity: Similarity of each pair by each definition, float64 (m, d).
        compared: Number of documents of which all pairs were compared.
    """

    documents: FitDocuments
    definitions: tuple[Definition, ...]
    pairs: np.ndarray
    weights: np.ndarray
    similarity: np.ndarray
    compared: int

    def __len__(self) -> int:
        return len(self.pairs)

    def find_pairs(self, id_pairs: Iterable[tuple[str, str]]) -> list[int | None]:
        """Returns the number of each pair of ids in the pool, or None if it is not there.

        Args:
            id_pairs: Pairs of ids, in any order.
        """
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
    """Compares documents by all competing definitions, and lists the pairs to ask about.

    Args:
        documents: Sampled documents, and those of earlier answers.
        answered: Ids of the pairs of earlier answers, which the pool contains if it has both
            documents.
        seed: Random seed.
        workers: Number of threads.
        progress: Receives the number of definitions.

    Raises:
        UsageError: If the documents have fewer than ten pairs to ask about.
    """
    progress.stage("compare", None)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(documents))
    scorer = DocumentScorer(documents, workers)
    count = min(len(order), POOL_DOCUMENTS)
    listed = _list_pairs(scorer, order[:count], progress)
    while len(listed) > MOST_POOL_PAIRS and count > 2:
        # All pairs of a smaller sample grow with its square, so few steps are needed.
        is_used = np.zeros(len(documents), bool)
        count = int(count * SHRINKING)
        is_used[order[:count]] = True
        first, second = unpack_pairs(listed)
        listed = listed[is_used[first] & is_used[second]]
    other_pairs = _draw_other_pairs(rng, order[:count], listed)
    all_pairs = count * (count - 1) // 2
    weight = (all_pairs - len(listed)) / max(len(other_pairs), 1)
    extra = _answered_pairs(documents, answered)
    extra = extra[~np.isin(extra, np.concatenate([listed, other_pairs]))]
    packed = np.concatenate([listed, other_pairs, extra])
    if len(packed) < 10:
        raise UsageError(
            f"{len(documents)} documents have too few pairs to ask about; give more documents"
        )
    weights = np.concatenate(
        [np.ones(len(listed)), np.full(len(other_pairs), weight), np.zeros(len(extra))]
    )
    similarity = np.stack(
        [scorer.score_pairs(definition, packed) for definition in COMPETING_DEFINITIONS], axis=1
    )
    pairs = np.stack(unpack_pairs(packed), axis=1).astype(np.int64)
    return CandidatePool(documents, COMPETING_DEFINITIONS, pairs, weights, similarity, count)


def _list_pairs(scorer: DocumentScorer, rows: np.ndarray, progress: Progress) -> np.ndarray:
    """Returns the most similar pairs of some documents by each definition, packed, uint64 (m,)."""
    is_used = np.zeros(len(scorer.documents), bool)
    is_used[rows] = True
    limit = PAIRS_PER_DOCUMENT * len(rows)
    parts = [np.empty(0, np.uint64)]
    for definition in COMPETING_DEFINITIONS:
        measure = scorer.measure(definition)
        payload = scorer.payload(measure)
        # Documents that are not used are each in a block of their own.
        scope = PairScope(np.where(is_used, 0, 1 + np.arange(len(is_used))).astype(np.uint64))
        scored = ScoredPairs.concatenate(
            list(measure.compare_all(payload, scope, LISTED_SIMILARITY, scorer.workers))
        )
        pairs = scored.pairs
        if len(pairs) > limit:
            place = len(pairs) - limit
            least = np.partition(scored.similarity, place)[place]
            pairs = pairs[scored.similarity >= least]
        parts.append(pairs)
        progress.advance(1)
    return np.unique(np.concatenate(parts))


def _draw_other_pairs(rng: np.random.Generator, rows: np.ndarray, listed: np.ndarray) -> np.ndarray:
    """Returns random pairs of documents that are not listed, packed, uint64 (p,)."""
    first = rng.choice(rows, 2 * RANDOM_PAIRS)
    second = rng.choice(rows, 2 * RANDOM_PAIRS)
    is_pair = first < second
    drawn = np.unique(pack_pairs(first[is_pair], second[is_pair]))
    unlisted = drawn[~np.isin(drawn, listed)]
    return rng.permutation(unlisted)[:RANDOM_PAIRS]


def _answered_pairs(documents: FitDocuments, answered: Sequence[tuple[str, str]]) -> np.ndarray:
    """Returns the pairs of earlier answers whose documents are there, packed, uint64 (p,)."""
    positions = {id: position for position, id in enumerate(documents.ids)}
    pairs = [
        sorted((positions[a], positions[b]))
        for a, b in answered
        if a in positions and b in positions and a != b
    ]
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return np.unique(pack_pairs(rows[:, 0], rows[:, 1]))
