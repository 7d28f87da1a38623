"""The similarities of documents by a definition: of given pairs, or of the most similar ones."""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.engine.document_facts import mix_hashes
from nearkin.engine.document_frequencies import count_repeated
from nearkin.engine.exact_groups import number_groups
from nearkin.quality.fit.definition import CONTAINMENT, Definition
from nearkin.quality.fit.documents import FitDocuments
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.spec import IDF_JACCARD, Spec
from nearkin.stages.cluster.components import Compare
from nearkin.stages.measures import Measure, Payload, measure_of
from nearkin.stages.measures.base import as_stored, concatenate_payloads
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, ScoredPairs, pack_pairs, unpack_pairs
from nearkin.stages.sketch.resources import DocumentFrequencies, SpecResources
from nearkin.stages.sketch.sketcher import Sketches
from nearkin.stages.verify.jaccard import SetBuilder
from nearkin.stages.wording import hash_wordings

DOCUMENTS_AT_ONCE = 512
"""The number of documents of which a thread makes payloads at a time."""
LEAST_SIMILARITY = 0.03
"""The similarity below which pairs are not compared. Signatures of 128 slots cannot find them with
a recall of 95 %."""
LEAST_CONTAINMENT = 0.3
"""The containment below which pairs are not listed."""
FLOOR_DOCUMENTS = 500
"""The number of documents from whose pairs it is estimated how many pairs are similar."""
SPARE_PAIRS = 2
"""The number of pairs that are sought, as a multiple of those that are kept."""


class ScoredDocuments(NamedTuple):
    """Pairs of documents with their similarities, sorted by the later document of each pair."""

    later: np.ndarray
    """uint32 (m,): The later document of each pair."""
    earlier: np.ndarray
    """uint32 (m,): The earlier document of each pair."""
    similarity: np.ndarray
    """float64 (m,): The similarity, or the containment, that reaches a threshold or not."""
    preference: np.ndarray
    """float64 (m,): The similarity by which a document joins one of several kept ones."""
    floor: float
    """Every pair above this similarity is listed."""
    compare: Compare
    """Scores other pairs of the documents."""
    first_copies: np.ndarray
    """int64 (n,): The first document of the exact group of each document, by the definition."""

    def select(self, rows: np.ndarray) -> "ScoredDocuments":
        """Returns some of the pairs."""
        return ScoredDocuments(
            self.later[rows],
            self.earlier[rows],
            self.similarity[rows],
            self.preference[rows],
            self.floor,
            self.compare,
            self.first_copies,
        )

    def keep_most_similar(self, limit: int) -> "ScoredDocuments":
        """Returns the most similar pairs."""
        if len(self.similarity) <= limit:
            return self
        position = len(self.similarity) - limit - 1
        floor = float(np.partition(self.similarity, position)[position])
        return self.select(self.similarity > floor)._replace(floor=floor)


@dataclass(frozen=True)
class DocumentScorer:
    """A scorer of the pairs of some documents.

    Attributes:
        documents: The documents.
        workers: Number of threads.
    """

    documents: FitDocuments
    workers: int = 2

    def measure(self, definition: Definition) -> Measure:
        """Returns the measure of a definition, with document frequencies if it needs some."""
        spec = definition.to_spec()
        if definition.measure != IDF_JACCARD:
            return measure_of(spec)
        frequencies = self._count_frequencies(definition)
        resources = SpecResources(frequencies=frequencies)
        return measure_of(resources.complete(spec), resources)

    def _count_frequencies(self, definition: Definition) -> DocumentFrequencies:
        """Counts in how many documents of the background each shingle occurs."""
        spec = definition.to_spec()
        builders = ObjectPool(lambda: SetBuilder(SpecResources().shingler(spec)))
        background = self.documents.background

        def build(documents: pa.Array) -> np.ndarray:
            return builders.use(lambda builder: builder.build(documents).hashes)

        parts = list(ordered_map(build, _slice_documents(background), self.workers))
        hashes, counts = count_repeated(np.concatenate(parts))
        return DocumentFrequencies(len(background), hashes, counts)

    def payload(self, measure: Measure) -> Payload:
        """Returns what the exact comparison of the documents needs."""
        builders = ObjectPool(measure.payload_builder)

        def build(documents: pa.Array) -> Payload:
            return builders.use(lambda builder: builder.build(documents))

        parts = ordered_map(build, _slice_documents(self.documents.contents), self.workers)
        return concatenate_payloads(list(parts))

    def score_pairs(self, definition: Definition, pairs: np.ndarray) -> np.ndarray:
        """Returns the similarity of packed pairs, float64 (m,). It is 0 within a source."""
        if definition.columns:
            chosen = self.choose_columns(definition)
            return chosen.scorer.score_pairs(chosen.definition, chosen.renumber_pairs(pairs))
        measure = self.measure(definition)
        payload = self.payload(measure)
        stored = as_stored(payload)
        judge = self._make_judge(definition, payload)
        parts = [
            judge.score(measure.compare(pairs[start : start + PAIRS_PER_BATCH], stored))
            for start in range(0, len(pairs), PAIRS_PER_BATCH)
        ]
        similarity = np.concatenate([np.empty(0), *parts])
        return np.where(self.documents.scope.allows_packed(pairs), similarity, 0.0)

    def choose_columns(self, definition: Definition) -> "ChosenColumns":
        """Returns a scorer of the documents with the texts of the columns of a definition."""
        documents = self.documents.with_columns(definition.columns)
        order = documents.find_keep_order()
        scorer = DocumentScorer(documents.select(order), self.workers)
        return ChosenColumns(scorer, replace(definition, columns=()), order)

    def _make_judge(self, definition: Definition, payload: Payload) -> "_PairJudge":
        numbers = None
        if definition.needs_equal_numbers:
            numbers = hash_wordings(self.documents.contents).numbers
        return _PairJudge(definition, payload.sizes, numbers)

    def most_similar_pairs(self, definition: Definition, limit: int) -> ScoredDocuments:
        """Returns the most similar pairs of all documents, without those of one source."""
        measure = self.measure(definition)
        payload = self.payload(measure)
        scope = self.documents.scope
        judge = self._make_judge(definition, payload)
        if definition.measure == CONTAINMENT:
            floor = LEAST_CONTAINMENT
            least_similarity = LEAST_SIMILARITY
        else:
            floor = self._estimate_floor(measure, limit)
            least_similarity = floor
        kept = ScoredPairs.concatenate([])
        for compared in measure.compare_all(payload, scope, least_similarity, self.workers):
            part = judge.select(compared)
            kept = ScoredPairs.concatenate([kept, part.select(part.similarity > floor)])
            if len(kept.pairs) > 2 * limit:
                kept, floor = _most_similar(kept, limit)
        if len(kept.pairs) > limit:
            kept, floor = _most_similar(kept, limit)
        earlier, later = unpack_pairs(kept.pairs)
        order = np.argsort(later, kind="stable")
        return ScoredDocuments(
            later[order].astype(np.uint32),
            earlier[order].astype(np.uint32),
            kept.similarity[order],
            judge.preference(kept)[order],
            floor,
            partial(measure.compare, stored=as_stored(payload)),
            self.find_first_copies(definition),
        )

    def find_first_copies(self, definition: Definition) -> np.ndarray:
        """Returns the first document of the exact group of each document, int64 (n,).

        The exact groups are those of a run: documents whose normalized contents are equal. A
        document without shingles is in no group.
        """
        # The fingerprints depend on the unit and the normalization, not on the signature.
        sketches = self.sketch(definition, slots=8)
        groups = number_groups(sketches.fingerprints)
        if definition.needs_equal_numbers:
            for words in hash_wordings(self.documents.contents).numbers.T:
                groups = mix_hashes(groups.astype(np.uint64), words)
        _, firsts, numbers = np.unique(groups, return_index=True, return_inverse=True)
        is_filled = sketches.shingles > 0
        return np.where(is_filled, firsts[numbers], np.arange(len(groups))).astype(np.int64)

    def sketch(self, definition: Definition, slots: int) -> Sketches:
        """Returns MinHash signatures of the documents, or the signatures of their vectors."""
        spec = definition.to_spec()
        if spec.unit != "vector":
            spec = Spec(
                unit=spec.unit, n=spec.n, normalise=spec.normalise, k=slots, version=spec.version
            )
        sketchers = ObjectPool(measure_of(spec).sketcher)

        def sketch_slice(documents: pa.Array) -> Sketches:
            return sketchers.use(lambda sketcher: sketcher.sketch(documents))

        parts = list(
            ordered_map(sketch_slice, _slice_documents(self.documents.contents), self.workers)
        )
        return Sketches(
            np.concatenate([part.signatures for part in parts]),
            np.concatenate([part.shingles for part in parts]),
            np.concatenate([part.fingerprints for part in parts]),
        )

    def _estimate_floor(self, measure: Measure, limit: int) -> float:
        """Returns a similarity above which there are more pairs than `limit`, probably.

        Listing and sorting pairs that are dropped later takes longer than comparing them.
        """
        count = len(self.documents)
        all_pairs = count * (count - 1) // 2
        if all_pairs <= SPARE_PAIRS * limit:
            return LEAST_SIMILARITY
        places = np.linspace(0, count - 1, min(FLOOR_DOCUMENTS, count)).astype(np.int64)
        sample = measure.payload_builder().build(self.documents.contents.take(pa.array(places)))
        scope = self.documents.scope.select(places)
        parts = measure.compare_all(sample, scope, LEAST_SIMILARITY, 1)
        similarity = np.sort(ScoredPairs.concatenate(list(parts)).similarity)
        sampled_pairs = len(places) * (len(places) - 1) // 2
        wanted_pairs = sampled_pairs * SPARE_PAIRS * limit // all_pairs
        if len(similarity) <= wanted_pairs:
            return LEAST_SIMILARITY
        return max(LEAST_SIMILARITY, float(similarity[-1 - wanted_pairs]))


def _most_similar(scored: ScoredPairs, limit: int) -> tuple[ScoredPairs, float]:
    """Returns the pairs above the similarity of the pair after `limit`, and this similarity."""
    similarity = scored.similarity
    position = len(similarity) - limit - 1
    floor = float(np.partition(similarity, position)[position])
    return scored.select(similarity > floor), floor


class ChosenColumns(NamedTuple):
    """Documents with the texts of some columns, which have a keep order of their own."""

    scorer: DocumentScorer
    """Scores the documents in their own keep order."""
    definition: Definition
    """The definition, of which these texts are all."""
    order: np.ndarray
    """int64 (n,): The position of each document among those of the fit."""

    def renumber_pairs(self, pairs: np.ndarray) -> np.ndarray:
        """Returns packed pairs of the fit with the positions in the keep order of the columns."""
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(self.order))
        first, second = unpack_pairs(pairs)
        return pack_pairs(place[first], place[second])


class _PairJudge(NamedTuple):
    """Applies the conditions of a definition to compared pairs.

    The later document of a pair is the one that would be removed.
    """

    definition: Definition
    sizes: np.ndarray
    """int64 (n,): The number of shingles of each document."""
    numbers: np.ndarray | None
    """uint64 (n, 2): The hashes of the numbers of each document, if they must be equal."""

    def select(self, scored: ScoredPairs) -> ScoredPairs:
        return self._to_judged(scored.select(self._meet_conditions(scored)))

    def score(self, scored: ScoredPairs) -> np.ndarray:
        """Returns what the threshold applies to, float64 (m,). It is 0 if a condition fails."""
        return np.where(self._meet_conditions(scored), self._to_judged(scored).similarity, 0.0)

    def preference(self, judged: ScoredPairs) -> np.ndarray:
        """Returns the similarity of pairs by the measure of a run, float64 (m,)."""
        if self.definition.measure != CONTAINMENT:
            return judged.similarity
        first, second = unpack_pairs(judged.pairs)
        union = self.sizes[first] + self.sizes[second] - judged.intersection
        return np.asarray(judged.intersection / np.maximum(union, 1))

    def _to_judged(self, scored: ScoredPairs) -> ScoredPairs:
        if self.definition.measure != CONTAINMENT:
            return scored
        _, later = unpack_pairs(scored.pairs)
        return ScoredPairs(scored.pairs, scored.intersection, np.maximum(self.sizes[later], 1))

    def _meet_conditions(self, scored: ScoredPairs) -> np.ndarray:
        earlier, later = unpack_pairs(scored.pairs)
        meets = np.ones(len(scored.pairs), bool)
        least = self.definition.least_containment
        if least > 0:
            meets &= scored.intersection / np.maximum(self.sizes[later], 1) >= least
        if self.numbers is not None:
            meets &= (self.numbers[earlier] == self.numbers[later]).all(axis=1)
        return meets


def _slice_documents(documents: pa.Array) -> list[pa.Array]:
    """Returns slices of documents. There is at least one, which can be empty."""
    starts = range(0, max(len(documents), 1), DOCUMENTS_AT_ONCE)
    return [documents.slice(start, DOCUMENTS_AT_ONCE) for start in starts]
