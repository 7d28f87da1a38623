"""Explains for one pair of texts why it is a match or not, by running every stage on the pair."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import zip_longest
from typing import Any, Self

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.runtime.arrow_types import to_text_array
from nearkin.runtime.notebook_view import TableView, render_view
from nearkin.runtime.number_format import format_fraction, format_similarity
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import FINGERPRINT, Spec
from nearkin.stages.lsh.band_keys import write_band_keys
from nearkin.stages.lsh.kernels import pair_agreements
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures.base import Measure, as_stored, band_layout_of
from nearkin.stages.measures.compared_sets import payload_builder_for_run
from nearkin.stages.measures.registry import measure_of
from nearkin.stages.packed_pairs import isin_sorted
from nearkin.stages.shingle.readable import shingle_texts
from nearkin.stages.sketch.resources import SpecResources
from nearkin.stages.verify.jaccard import SetBuilder

MAX_EXAMPLES = 20
"""The largest number of shingles that are listed as examples of each kind."""
EXAMPLE_CHARACTERS = 20_000
"""The number of characters at the beginning of a text that are searched for examples."""
FIRST_PAIR = np.ones(1, np.uint64)
"""The packed pair of documents 0 and 1."""


class PairVerdict(StrEnum):
    """The stage that decided about a pair, and what it decided."""

    EXACT = "exact"
    MATCH = "match"
    EMPTY = "empty"
    NOT_COMPARED = "not compared"
    NOT_A_CANDIDATE = "not a candidate"
    BELOW_MARGIN = "below the margin"
    BELOW_THRESHOLD = "below the threshold"
    NOT_ACCEPTED = "not accepted"


MISSED = (PairVerdict.NOT_A_CANDIDATE, PairVerdict.BELOW_MARGIN)
"""The verdicts on pairs that were not compared exactly, so that a near-duplicate may be missed."""


@dataclass(frozen=True)
class ShingleOverlap:
    """The overlap of the shingle sets of two texts.

    Attributes:
        sizes: Numbers of distinct shingles of the two texts.
        shared: Number of shingles that both texts contain.
        examples: Shingles in both texts, in the first only, and in the second only, as lower-case
            text. They come from the beginnings of the texts.
    """

    sizes: tuple[int, int]
    shared: int
    examples: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

    @property
    def jaccard(self) -> float:
        """The Jaccard similarity |A ∩ B| / |A ∪ B|, or 0 if both sets are empty."""
        union = sum(self.sizes) - self.shared
        return self.shared / union if union else 0.0

    @property
    def containment(self) -> tuple[float, float]:
        """The share of each text's shingles that the other text contains."""
        first, second = self.sizes
        return (self.shared / first if first else 0.0, self.shared / second if second else 0.0)


class VectorRule(StrEnum):
    """The ways in which vectors decide about documents that have texts as well."""

    EITHER = "either"
    """The texts or the vectors must reach their threshold."""
    BOTH = "both"
    """The texts and the vectors must reach their thresholds."""
    AFTER = "after"
    """The vectors of documents that the measure of texts keeps are compared."""


@dataclass(frozen=True)
class VectorComparison:
    """The comparison of two documents by their vectors, beside that by their texts.

    Attributes:
        similarity: Exact cosine of the vectors, or None if a document has no vector.
        is_near: True if the cosine reaches the threshold.
        threshold: Smallest cosine of near-duplicates.
        rule: Way in which the vectors decide, one of `VectorRule`.
        shared_bands: Number of bands in which the signatures of the vectors agree completely. None
            if the bands of vectors are not known, or the number is hidden.
    """

    similarity: float | None
    is_near: bool
    threshold: float
    rule: str
    shared_bands: int | None = None

    def describe(self) -> str:
        """Returns how the cosine compares with its threshold, in words."""
        if self.similarity is None:
            return "one of the documents has no vector"
        relation = "reaches" if self.is_near else "is below"
        return (
            f"the cosine {format_similarity(self.similarity, digits=4)} of the vectors {relation} "
            f"the threshold {self.threshold:g}"
        )


@dataclass(frozen=True, repr=False)
class Explanation:
    """The results of all stages for a pair of documents.

    Attributes:
        names: Names of the two documents.
        texts: Texts of the two documents.
        measure: Name of the measure, for example `jaccard`.
        threshold: Smallest similarity of near-duplicates. With a condition, the smallest one for
            which the condition can hold.
        similarity: Exact similarity of the pair.
        estimate: Similarity estimated from the signatures. None if it is hidden.
        agreeing: Number of slots (or signs) in which the signatures agree. None if it is hidden.
        slots: Number of slots (or signs) of a signature.
        margin: Number of agreeing slots from which a candidate pair is compared exactly.
        shared_bands: Number of bands in which the signatures agree completely. None if it is
            hidden.
        bands: Number of bands.
        rows: Number of slots in a band.
        probability: Probability that a pair of this similarity becomes a candidate.
        shingles: Overlap of the shingle sets.
        verdict: Decision of the stages, one of `PairVerdict`.
        why: Reason for the verdict, in words.
        run: Rows of the two documents in the clusters table of a run, if the pair was explained
            for a run.
        vectors: Comparison of the vectors of the two documents, or None if they have texts alone.
        condition: Condition under which a run removed documents, or None if the threshold decided.
    """

    names: tuple[str, str]
    texts: tuple[str, str]
    measure: str
    threshold: float
    similarity: float
    estimate: float | None
    agreeing: int | None
    slots: int
    margin: int
    shared_bands: int | None
    bands: int
    rows: int
    probability: float
    shingles: ShingleOverlap
    verdict: str
    why: str
    run: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
    vectors: VectorComparison | None = None
    condition: str | None = None

    @property
    def limit(self) -> str:
        """The threshold, or the condition that takes its place, in words."""
        if self.condition is None:
            return f"threshold {self.threshold:g}"
        return f"condition {self.condition}"

    def __repr__(self) -> str:
        first, second = self.names
        return (
            f"<Explanation: {first!r} and {second!r}: {self.verdict}, {self.measure} "
            f"{format_similarity(self.similarity, digits=4)}, {self.limit}>"
        )

    def _repr_html_(self) -> str:
        first, second = self.names
        limit_name = "threshold" if self.condition is None else "condition"
        numbers = {
            "verdict": str(self.verdict),
            self.measure: format_similarity(self.similarity, digits=4),
            limit_name: self.condition or self.threshold,
        }
        if self.estimate is not None:
            numbers["estimate"] = self.estimate
        if self.shared_bands is not None:
            numbers["shared bands"] = f"{self.shared_bands} of {self.bands}"
        both, only_first, only_second = self.shingles.examples
        columns = (f"only in {first}", f"only in {second}", "in both")
        rows = list(zip_longest(only_first, only_second, both, fillvalue=""))
        shown = TableView(self.why, columns, rows)
        return render_view(f"{first} and {second}", numbers, [], [shown])

    def without_counts(self) -> Self:
        """Returns the explanation without what tells how to change a text so that it is not found.

        These are the numbers of slots and bands that agree, and the estimate.
        """
        vectors = None if self.vectors is None else replace(self.vectors, shared_bands=None)
        return replace(self, estimate=None, agreeing=None, shared_bands=None, vectors=vectors)

    def to_dict(self) -> dict[str, object]:
        """Returns the explanation as a JSON object."""
        shingles = {
            **asdict(self.shingles),
            "jaccard": self.shingles.jaccard,
            "containment": self.shingles.containment,
        }
        return {**asdict(self), "shingles": shingles, "verdict": str(self.verdict)}


def explain_pair(
    a: str,
    b: str,
    *,
    spec: Spec,
    resources: SpecResources,
    threshold: float,
    banding: Banding,
    distance: int | None = None,
    names: tuple[str, str] = ("a", "b"),
    vectors: VectorComparison | None = None,
) -> Explanation:
    """Runs the stages on a pair of texts and says which of them decides."""
    if spec.unit == FINGERPRINT:
        raise UsageError(
            "fingerprints have no words to explain; their distance is the number of bits that "
            "differ, which nearkin pairs writes"
        )
    if spec.unit == "vector":
        raise UsageError(
            "vectors have no words to explain; compare them with nk.estimate and their cosine"
        )
    documents = to_text_array([a, b])
    measure = measure_of(spec, resources, distance)
    whole = measure
    if spec.truncated:
        # Bands are made of whole slots, even if signatures are stored with truncated slots.
        whole = measure_of(replace(spec, slot_bits=32), resources, distance)
    sketches = whole.sketcher().sketch(documents)
    layout = band_layout_of(whole.spec, banding, None)
    keys = np.empty((banding.bands, 2), np.uint64)
    write_band_keys(layout, sketches.signatures, np.zeros(2, np.uint64), keys)
    agreeing = np.empty(1, np.int64)
    pair_agreements(FIRST_PAIR, sketches.signatures, layout.layout, agreeing)
    similarity = _exact_similarity(measure, documents)
    slot_probability = float(measure.estimator.slot_collision_probability(np.array(similarity)))
    explanation = Explanation(
        names=names,
        texts=(a, b),
        measure=spec.measure,
        threshold=threshold,
        similarity=similarity,
        estimate=float(whole.estimator.estimate(FIRST_PAIR, agreeing).similarity[0]),
        agreeing=int(agreeing[0]),
        slots=spec.k,
        margin=banding.margin,
        shared_bands=int((keys[:, 0] == keys[:, 1]).sum()),
        bands=banding.bands,
        rows=banding.rows,
        probability=float(banding.candidate_probability(slot_probability)),
        shingles=overlap_of_shingles(a, b, spec, resources),
        verdict="",
        why="",
        vectors=vectors,
    )
    is_exact = bool((sketches.fingerprints[0] == sketches.fingerprints[1]).all())
    is_empty = bool((sketches.shingles == 0).any())
    explained = _with_verdict(
        explanation,
        is_exact=is_exact,
        is_empty=is_empty,
        is_below_margin=bool(agreeing[0] < banding.margin),
        has_same_shingles=similarity == 1 and spec.has_slots and spec.cut is None,
    )
    return explained if vectors is None else _decide_by_vectors(explained, vectors)


def _exact_similarity(measure: Measure, documents: pa.Array) -> float:
    payload = payload_builder_for_run(measure).build(documents)
    return float(measure.compare(FIRST_PAIR, as_stored(payload)).similarity[0])


def _with_verdict(
    pair: Explanation,
    *,
    is_exact: bool,
    is_empty: bool,
    is_below_margin: bool,
    has_same_shingles: bool,
) -> Explanation:
    """Returns the explanation with the verdict of the stage that decided, and the reason."""
    is_near = pair.similarity >= pair.threshold
    if is_empty:
        verdict = PairVerdict.EMPTY
        why = "documents without shingles match nothing"
    elif is_exact:
        verdict = PairVerdict.EXACT
        why = "exact duplicates: both have the same words and symbols in the same order"
    elif pair.shared_bands == 0 and not (pair.vectors and pair.vectors.shared_bands):
        verdict = PairVerdict.NOT_A_CANDIDATE
        why = (
            f"none of the {pair.bands} bands agrees; a pair of similarity "
            f"{format_similarity(pair.similarity)} becomes a candidate with probability "
            f"{format_fraction(pair.probability)}"
        )
    elif is_below_margin:
        verdict = PairVerdict.BELOW_MARGIN
        why = (
            f"too few of {pair.slots} slots agree; an exact comparison needs at least "
            f"{pair.margin} agreeing slots"
        )
    elif not is_near:
        verdict = PairVerdict.BELOW_THRESHOLD
        why = (
            f"the exact similarity {format_similarity(pair.similarity, digits=4)} is below the "
            f"threshold {pair.threshold:g}"
        )
    else:
        verdict = PairVerdict.MATCH
        why = (
            f"the exact similarity {format_similarity(pair.similarity, digits=4)} reaches the "
            f"threshold {pair.threshold:g}"
        )
        if has_same_shingles:
            why += "; only symbols, punctuation, order or repetitions differ"
    if is_near and verdict in MISSED:
        why += (
            "; the pair is a near-duplicate that was missed "
            f"(a higher {name_setting('recall')} finds more of them)"
        )
    return replace(pair, verdict=verdict, why=why)


def _decide_by_vectors(pair: Explanation, vectors: VectorComparison) -> Explanation:
    verdict = pair.verdict
    why = f"{pair.why}; {vectors.describe()}"
    has_matching_texts = verdict in (PairVerdict.EXACT, PairVerdict.MATCH)
    if vectors.rule == VectorRule.BOTH:
        if has_matching_texts and not vectors.is_near:
            verdict = PairVerdict.BELOW_THRESHOLD
            why += ", and both must reach theirs"
    elif vectors.is_near and not has_matching_texts:
        is_candidate = vectors.shared_bands is None or bool(
            vectors.shared_bands or pair.shared_bands
        )
        if is_candidate:
            verdict = PairVerdict.MATCH
            why = f"{vectors.describe()}; by their texts: {pair.why}"
        else:
            why += ", but none of the bands of the vectors agrees"
    return replace(pair, verdict=verdict, why=why)


def overlap_of_shingles(a: str, b: str, spec: Spec, resources: SpecResources) -> ShingleOverlap:
    """Counts the shingles that two texts share, and finds examples of them.

    Shingles are counted by their hashes. Examples are shown as they are written in the text.
    """
    builder = SetBuilder(resources.shingler(spec))
    sets = builder.build(pa.array([a, b], pa.large_string()))
    first, second = np.split(sets.hashes, [int(sets.sizes[0])])
    shared = int(isin_sorted(second, first).sum())
    shared_examples, only_first = _example_shingles(a, first, second, builder, spec)
    _, only_second = _example_shingles(b, second, first, builder, spec)
    return ShingleOverlap(
        (len(first), len(second)), shared, (shared_examples, only_first, only_second)
    )


def _example_shingles(
    text: str, own: np.ndarray, others: np.ndarray, builder: SetBuilder, spec: Spec
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Finds shingles of a text that the other text contains too, and some that it does not contain.

    Both texts have sorted distinct shingle hashes, uint64. Only the beginning of the text is
    searched, and shingles are classified by their hashes. Time and memory therefore do not grow
    with the text beyond what its hashes take.
    """
    candidates = list(dict.fromkeys(shingle_texts(text[:EXAMPLE_CHARACTERS], spec)))
    sets = builder.build(pa.array(candidates, pa.large_string()))
    # A candidate that does not yield exactly one shingle of the text is skipped; for example, the
    # last one may be cut off.
    single = np.flatnonzero(sets.sizes == 1)
    hashes = sets.hashes[(np.cumsum(sets.sizes) - sets.sizes)[single]]
    in_text = isin_sorted(hashes, own)
    single = single[in_text]
    is_shared = isin_sorted(hashes[in_text], others)
    shared_examples = tuple(candidates[i] for i in single[is_shared][:MAX_EXAMPLES])
    only = tuple(candidates[i] for i in single[~is_shared][:MAX_EXAMPLES])
    return shared_examples, only
