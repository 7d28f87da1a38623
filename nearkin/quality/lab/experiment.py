"""An experiment that shows how bands and rows trade recall for candidates, and how the work grows.

By default it uses 100 documents of 80 common English words with 25 planted pairs, 3-character
shingles, 100 slots and the threshold 0.5. Texts of common words share many shingles, so unrelated
documents have similarities of about 0.3. The setup is that of a published case study, whose numbers
of candidates are listed beside the measured ones.

Every pair is compared, so recall and precision are exact. A banding reports the candidates whose
exact similarity reaches the threshold, as a run with exact verification does.
"""

import math
import re
import time
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus import Columns, Corpus
from nearkin.corpus.ids import make_ids
from nearkin.errors import UsageError
from nearkin.quality.evaluate.golden import GoldenSet
from nearkin.runtime.number_range import NumberRange
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import MEASURES, Spec
from nearkin.stages.lsh.band_keys import slot_band_keys
from nearkin.stages.lsh.curve import classic_threshold
from nearkin.stages.measures import measure_of
from nearkin.stages.packed_pairs import ScoredPairs, unpack_pairs
from nearkin.stages.pair_scope import PairScope

PUBLISHED_CANDIDATES = {(5, 20): 0, (10, 10): 12, (20, 5): 775, (25, 4): 2187, (50, 2): 4947}
"""The bandings of the case study, and its numbers of candidates among 4,950 pairs."""
BANDINGS = tuple(PUBLISHED_CANDIDATES)
MOST_DOCUMENTS = 10_000
"""The largest number of documents, every pair of which is compared and has a byte in memory."""
LEAST_WORDS = 8
"""The least number of words of a generated text. Copies of shorter texts could not be edited."""
SIZES = (100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000)
MAX_MEASURED = 3_000
"""The largest number of documents whose growth is measured. Larger numbers are projected."""
COMMON_WORDS = """
the be to of and a in that have it for not on with he as you do at this but his by from they we
say her she or an will my one all would there their what so up out if about who get which go me
when make can like time no just him know take people into year your good some could them see
other than then now look only come its over think also back after use two how our work first
well way even new want because any these give day most us is are was were been has had more very
where here those should must many ever
"""
VOCABULARY = COMMON_WORDS.split()
"""115 common English words, of which the texts consist."""
BANDING = re.compile(r"(\d{1,9})\s*[x×*]\s*(\d{1,9})")


@dataclass(frozen=True)
class BandSettings:
    """The settings of an experiment.

    Attributes:
        bandings: Numbers of bands and of rows of a band that are compared.
        threshold: Smallest similarity of a similar pair.
        shingle: Unit and length of a shingle, for example `("chars", 3)`.
    """

    bandings: tuple[tuple[int, int], ...] = BANDINGS
    threshold: float = 0.5
    shingle: tuple[str, int] = ("chars", 3)

    @property
    def spec(self) -> Spec:
        """The Spec of the signatures, with the slots of the largest banding."""
        unit, n = self.shingle
        return Spec(unit=unit, n=n, k=max(bands * rows for bands, rows in self.bandings))


@dataclass(frozen=True)
class GeneratedTexts:
    """The settings of generated texts of common words.

    Attributes:
        documents: Number of documents.
        words: Number of words of a document.
        similar_pairs: Number of documents that are edited copies of another one.
        seed: Random seed.
    """

    documents: int = 100
    words: int = 80
    similar_pairs: int = 25
    seed: int = 1

    def __post_init__(self) -> None:
        _require_comparable(self.documents)
        NumberRange(LEAST_WORDS).require("words", self.words)
        if not 0 <= self.similar_pairs <= self.documents // 2:
            raise UsageError(
                f"{name_setting('similar_pairs', self.similar_pairs)} is out of range; it must be "
                f"from 0 to {self.documents // 2}, so that each pair has two documents of its own"
            )

    def resize(self, documents: int) -> "GeneratedTexts":
        """Returns the settings of as similar texts, of another number of documents."""
        pairs = documents * self.similar_pairs // self.documents
        return GeneratedTexts(documents, self.words, pairs, self.seed)


class LabelledPairs(NamedTuple):
    """The pairs of which it is known if they are similar. Others count neither for nor against."""

    similar: np.ndarray
    """The pairs that are similar: numbers of pairs, int64 (m,)."""
    distinct: np.ndarray | None
    """The pairs that are not similar, int64, or None if they are all others."""


@dataclass(frozen=True)
class BandingResult:
    """The result of one banding.

    A pair is reported if it is a candidate and its exact similarity reaches the threshold. Brute
    force compares every pair.

    Attributes:
        bands: Number of bands, or 0 for brute force.
        rows: Number of slots in a band, or 0 for brute force.
        threshold: (1/b)^(1/r), or the threshold of brute force.
        precision: Share of the reported pairs that are similar. 1 if no pair was reported.
        recall: Share of the similar pairs that were reported. 1 if there are none.
        f1: Harmonic mean of precision and recall.
        candidates: Number of compared pairs.
        reduction: Share of all pairs that were not compared.
        candidate_precision: Share of the compared pairs that reach the threshold. 1 if no pair was
            compared.
        published: Number of candidates in the case study, or None if the setup is another one.
    """

    bands: int
    rows: int
    threshold: float
    precision: float
    recall: float
    f1: float
    candidates: int
    reduction: float
    candidate_precision: float
    published: int | None


@dataclass(frozen=True)
class GrowthResult:
    """The work for one size of the corpus.

    Attributes:
        documents: Number of documents.
        pairs: Number of all pairs.
        candidates: Number of candidate pairs.
        is_projected: True if the candidates are not counted, but are the same share of all pairs
            as in the largest measured corpus.
        seconds: Time from texts to candidates, in seconds, or None if it is projected.
        brute: Time for comparing every pair, in seconds, or None if it is projected.
    """

    documents: int
    pairs: int
    candidates: int
    is_projected: bool
    seconds: float | None
    brute: float | None


@dataclass(frozen=True)
class Experiment:
    """The results of the experiment.

    Attributes:
        documents: Number of documents.
        similar_pairs: Number of similar pairs: labelled ones, or pairs that reach the threshold.
        threshold: Smallest similarity of a reported pair.
        k: Number of slots of a signature.
        rows: Results of the bandings, and of brute force at the end.
        growth: Work of the optimum for each size of a corpus of generated texts, or none.
    """

    documents: int
    similar_pairs: int
    threshold: float
    k: int
    rows: tuple[BandingResult, ...]
    growth: tuple[GrowthResult, ...] = ()

    @property
    def optimum(self) -> BandingResult:
        """The banding with the highest F1, and of these the one with the fewest candidates."""
        bandings = [row for row in self.rows if row.bands]
        return max(bandings, key=lambda row: (row.f1, -row.candidates))

    def to_dict(self) -> dict[str, object]:
        """Returns the results as a JSON object."""
        return {**asdict(self), "optimum": asdict(self.optimum)}


def parse_bandings(text: str) -> tuple[tuple[int, int], ...]:
    """Parses numbers of bands and rows.

    Examples:
        >>> parse_bandings("5x20,10x10")
        ((5, 20), (10, 10))
    """
    most = MEASURES["jaccard"].largest_k
    bandings = []
    for part in text.split(","):
        match = BANDING.fullmatch(part.strip())
        if match is None:
            raise UsageError(
                f"{name_setting('bands_rows', text)} is not of the form 5x20,10x10: bands x rows, "
                "separated by commas"
            )
        bands = int(match[1])
        rows = int(match[2])
        if not 1 <= bands * rows <= most:
            raise UsageError(
                f"{name_setting('bands_rows', part.strip())} needs {bands * rows:,} slots; bands "
                f"times rows must be from 1 to {most:,}"
            )
        bandings.append((bands, rows))
    return tuple(dict.fromkeys(bandings))


def generate_texts(settings: GeneratedTexts) -> list[str]:
    """Generates texts of common words. The last ones are edited copies of the first ones.

    With 80 words, the similarities of the copies are about 0.5 to 0.9, and those of other pairs
    about 0.3.
    """
    rng = np.random.Generator(np.random.PCG64(settings.seed))
    vocabulary = np.array(VOCABULARY)
    words = settings.words
    originals = settings.documents - settings.similar_pairs
    texts = [rng.choice(vocabulary, words) for _ in range(originals)]
    fewest_edits = max(1, words * 3 // 80)
    for i in range(settings.similar_pairs):
        copy = texts[i].copy()
        places = rng.choice(words, int(rng.integers(fewest_edits, words // 4)), replace=False)
        copy[places] = rng.choice(vocabulary, len(places))
        texts.append(copy)
    return [" ".join(text.tolist()) for text in texts]


class OwnDocuments(NamedTuple):
    """The documents of files, and their ids."""

    contents: pa.Array
    ids: list[str]


def read_all_documents(corpus: Corpus, columns: Columns) -> OwnDocuments:
    """Reads the documents of a corpus that is small enough to compare every pair."""
    parts = []
    ids: list[str] = []
    for batch in corpus.batches(columns):
        parts.append(batch.documents[columns.content])
        ids.extend(make_ids(batch, columns, corpus.names).to_pylist())
        if len(ids) > MOST_DOCUMENTS:
            break
    _require_comparable(len(ids))
    return OwnDocuments(pa.concat_arrays(parts), ids)


def _require_comparable(documents: int) -> None:
    if documents < 2:
        raise UsageError(f"{documents} documents have no pair to compare; give at least two")
    if documents > MOST_DOCUMENTS:
        raise UsageError(
            f"there are more than {MOST_DOCUMENTS:,} documents, and every pair of them is "
            "compared; give fewer, or use nearkin tune for a large corpus"
        )


def number_pairs(a: np.ndarray, b: np.ndarray, documents: int) -> np.ndarray:
    """Returns the numbers of pairs in the order (0, 1), (0, 2) … (n - 2, n - 1), int64 (m,).

    `a` is the smaller document of each pair, and `b` the larger one.

    Examples:
        >>> number_pairs(np.array([0, 0, 1]), np.array([1, 2, 2]), 3).tolist()
        [0, 1, 2]
    """
    return np.asarray(a * (2 * documents - a - 1) // 2 + b - a - 1)


def label_pairs(golden: GoldenSet, ids: list[str]) -> LabelledPairs:
    """Returns the pairs that a golden set labels."""
    place_of = {id: place for place, id in enumerate(ids)}
    if unknown := golden.describe_unknown(place_of):
        raise UsageError(f"{unknown}; check the labels and {name_setting('id')}")
    places = np.array([place_of[id] for id in golden.ids], np.int64)

    def to_numbers(pairs: np.ndarray) -> np.ndarray:
        ends = np.sort(places[pairs], axis=1)
        return number_pairs(ends[:, 0], ends[:, 1], len(ids))

    if golden.clusters is None:
        assert golden.duplicates is not None
        assert golden.distinct is not None
        return LabelledPairs(to_numbers(golden.duplicates), to_numbers(golden.distinct))
    labelled = np.column_stack(np.triu_indices(len(places), 1))
    is_similar = golden.clusters[labelled[:, 0]] == golden.clusters[labelled[:, 1]]
    distinct = labelled[~is_similar] if golden.distinct is None else golden.distinct
    return LabelledPairs(to_numbers(labelled[is_similar]), to_numbers(distinct))


def find_candidates(slots: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """Returns which pairs of documents share a band key, by signatures, uint32 (documents, k)."""
    documents = len(slots)
    is_candidate = np.zeros(math.comb(documents, 2), bool)
    for keys in slot_band_keys(slots, bands, rows).T:
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        # Documents of one bucket are neighbours in ascending order. Each step pairs documents one
        # place further apart.
        firsts = np.flatnonzero(ordered[1:] == ordered[:-1])
        step = 1
        while len(firsts):
            pairs = number_pairs(order[firsts], order[firsts + step], documents)
            is_candidate[pairs] = True
            step += 1
            firsts = firsts[firsts + step < documents]
            firsts = firsts[ordered[firsts] == ordered[firsts + step]]
    return is_candidate


def find_similar_pairs(contents: pa.Array, spec: Spec, threshold: float) -> np.ndarray:
    """Returns the numbers of the pairs that reach a threshold, of all pairs, int64 (m,)."""
    measure = measure_of(spec)
    payload = measure.payload_builder().build(contents)
    scope = PairScope.of_all_pairs(len(contents))
    parts = measure.compare_all(payload, scope, threshold, 1)
    first, second = unpack_pairs(ScoredPairs.concatenate(list(parts)).pairs)
    return number_pairs(first, second, len(contents))


def compare_bandings(
    contents: pa.Array, settings: BandSettings, labels: LabelledPairs | None = None
) -> Experiment:
    """Compares bandings with brute force, over at least two documents."""
    spec = settings.spec
    slots = measure_of(spec).sketcher().sketch(contents).signatures
    near = find_similar_pairs(contents, spec, settings.threshold)
    labels = labels or LabelledPairs(near, None)
    results = []
    for bands, rows in settings.bandings:
        is_candidate = find_candidates(slots, bands, rows)
        results.append(_score_banding(bands, rows, is_candidate, near, labels, settings))
    every_pair = np.ones(math.comb(len(contents), 2), bool)
    results.append(_score_banding(0, 0, every_pair, near, labels, settings))
    return Experiment(
        documents=len(contents),
        similar_pairs=len(labels.similar),
        threshold=settings.threshold,
        k=spec.k,
        rows=tuple(results),
    )


def _score_banding(
    bands: int,
    rows: int,
    is_candidate: np.ndarray,
    near: np.ndarray,
    labels: LabelledPairs,
    settings: BandSettings,
) -> BandingResult:
    """Returns the result of a banding, or of brute force if there are no bands.

    `near` are the pairs that reach the threshold, int64.
    """
    candidates = int(is_candidate.sum())
    is_reported = np.zeros(len(is_candidate), bool)
    is_reported[near] = is_candidate[near]
    reported = int(is_reported.sum())
    true = int(is_reported[labels.similar].sum())
    wrong = reported - true
    if labels.distinct is not None:
        wrong = int(is_reported[labels.distinct].sum())
    precision = true / (true + wrong) if true + wrong else 1.0
    recall = true / len(labels.similar) if len(labels.similar) else 1.0
    total = precision + recall
    return BandingResult(
        bands=bands,
        rows=rows,
        threshold=classic_threshold(bands, rows) if bands else settings.threshold,
        precision=precision,
        recall=recall,
        f1=2 * precision * recall / total if total else 0.0,
        candidates=candidates,
        reduction=1 - candidates / len(is_candidate),
        candidate_precision=reported / candidates if candidates else 1.0,
        published=None,
    )


def measure_growth(
    texts: GeneratedTexts,
    settings: BandSettings,
    banding: tuple[int, int],
    sizes: tuple[int, ...] = SIZES,
) -> tuple[GrowthResult, ...]:
    """Returns candidates and time for ascending sizes with the same share of similar pairs.

    The candidates of more than MAX_MEASURED documents are projected from the largest measured
    corpus: unrelated texts are candidates with the same probability in a corpus of any size.
    """
    measured = [
        _measure_size(texts.resize(size), settings, banding)
        for size in sizes
        if size <= MAX_MEASURED
    ]
    last = measured[-1]
    projected = [
        GrowthResult(
            documents=size,
            pairs=math.comb(size, 2),
            candidates=round(math.comb(size, 2) * last.candidates / last.pairs),
            is_projected=True,
            seconds=None,
            brute=None,
        )
        for size in sizes
        if size > MAX_MEASURED
    ]
    return (*measured, *projected)


def _measure_size(
    texts: GeneratedTexts, settings: BandSettings, banding: tuple[int, int]
) -> GrowthResult:
    contents = _generate_contents(texts)
    bands, rows = banding
    began = time.perf_counter()
    signatures = measure_of(settings.spec).sketcher().sketch(contents).signatures
    is_candidate = find_candidates(signatures, bands, rows)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    find_similar_pairs(contents, settings.spec, settings.threshold)
    brute = time.perf_counter() - began
    return GrowthResult(
        documents=texts.documents,
        pairs=math.comb(texts.documents, 2),
        candidates=int(is_candidate.sum()),
        is_projected=False,
        seconds=seconds,
        brute=brute,
    )


def _generate_contents(texts: GeneratedTexts) -> pa.Array:
    return pa.array(generate_texts(texts), pa.large_string())


def run_experiment(
    texts: GeneratedTexts, settings: BandSettings, sizes: tuple[int, ...] = SIZES
) -> Experiment:
    """Compares bandings with brute force on generated texts; measures the growth of the best."""
    # Compiles the kernels before anything is timed.
    find_similar_pairs(_generate_contents(texts.resize(4)), settings.spec, settings.threshold)
    result = compare_bandings(_generate_contents(texts), settings)
    is_case_study = replace(texts, seed=GeneratedTexts.seed) == GeneratedTexts()
    if is_case_study and settings.shingle == BandSettings.shingle:
        rows = tuple(
            replace(row, published=PUBLISHED_CANDIDATES.get((row.bands, row.rows)))
            for row in result.rows
        )
        result = replace(result, rows=rows)
    best = (result.optimum.bands, result.optimum.rows)
    return replace(result, growth=measure_growth(texts, settings, best, sizes))
