"""An experiment that shows how bands and rows trade recall for candidates, and how the work grows.

It uses 100 documents of 80 common English words with 25 planted pairs, 3-character shingles, 100
slots and the threshold 0.5. Texts of common words share many shingles, so unrelated documents have
similarities of about 0.3, as in real text. The corpus is small enough to compare every pair, so
recall and precision are exact. The setup is that of a published case study, whose numbers of
candidates are listed beside the measured ones.
"""

import time
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from nearkin.lsh.band_keys import slot_band_keys
from nearkin.lsh.curve import classic_threshold
from nearkin.measures import measure_of
from nearkin.packed_pairs import ScoredPairs, isin_sorted, pack_pairs, unpack_pairs
from nearkin.pair_scope import PairScope
from nearkin.spec import Spec

PUBLISHED_CANDIDATES = {(5, 20): 0, (10, 10): 12, (20, 5): 775, (25, 4): 2187, (50, 2): 4947}
"""The bandings of the case study, and its numbers of candidates among 4,950 pairs."""
BANDINGS = tuple(PUBLISHED_CANDIDATES)
DOCUMENTS = 100
WORDS = 80
PLANTED = 25
THRESHOLD = 0.5
SPEC = Spec(unit="chars", n=3, k=100)
"""The Spec of the experiment. Every banding uses all slots."""
SIZES = (100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000)
GROWTH_BANDING = (20, 5)
MAX_MEASURED = 3_000
"""The largest number of documents whose pairs are compared. Larger numbers are projected."""
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


@dataclass(frozen=True)
class BandingResult:
    """The result of one banding.

    A pair is reported if it is a candidate and the estimate of its similarity reaches the
    threshold. Brute force reports the pairs whose exact similarity reaches it.

    Attributes:
        bands: Number of bands, or 0 for brute force.
        rows: Number of slots in a band, or 0 for brute force.
        threshold: (1/b)^(1/r).
        candidates: Number of compared pairs.
        published: Number of candidates in the case study, or None for brute force.
        reduction: Share of all pairs that were not compared.
        candidate_precision: Share of the compared pairs that reach the threshold. 1 if no pair was
            compared.
        precision: Share of the reported pairs that reach the threshold. 1 if no pair was reported.
        recall: Share of the pairs that reach the threshold that were reported.
        f1: Harmonic mean of precision and recall.
    """

    bands: int
    rows: int
    threshold: float
    candidates: int
    published: int | None
    reduction: float
    candidate_precision: float
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class GrowthResult:
    """The work for one size of the corpus.

    Attributes:
        documents: Number of documents.
        pairs: Number of all pairs.
        candidates: Number of candidate pairs of 20 bands of 5 rows.
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
        rows: Results of the bandings, and of brute force at the end.
        growth: Work for each size of the corpus.
    """

    rows: tuple[BandingResult, ...]
    growth: tuple[GrowthResult, ...]

    @property
    def optimum(self) -> BandingResult:
        """The banding with the highest F1, and of these the one with the fewest candidates."""
        bandings = [row for row in self.rows if row.bands]
        return max(bandings, key=lambda row: (row.f1, -row.candidates))

    def to_dict(self) -> dict[str, object]:
        """Returns the results as a JSON object."""
        return {**asdict(self), "optimum": asdict(self.optimum)}


def generate_texts(documents: int, planted: int, seed: int) -> list[str]:
    """Generates texts of common words. The last ones are edited copies of the first ones.

    The similarities of the copies are about 0.5 to 0.9, and those of other pairs about 0.3.

    Args:
        documents: Number of documents.
        planted: Number of edited copies.
        seed: Random seed.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    vocabulary = np.array(VOCABULARY)
    texts = [rng.choice(vocabulary, WORDS) for _ in range(documents - planted)]
    for i in range(planted):
        copy = texts[i].copy()
        places = rng.choice(WORDS, int(rng.integers(3, 20)), replace=False)
        copy[places] = rng.choice(vocabulary, len(places))
        texts.append(copy)
    return [" ".join(text.tolist()) for text in texts]


def find_candidates(slots: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """Returns the pairs of documents that share a band key.

    Args:
        slots: Signatures, uint32 (documents, k).
        bands: Number of bands.
        rows: Number of slots in a band.

    Returns:
        Packed pairs in ascending order, uint64 (m,).
    """
    candidates_of_bands = [np.empty(0, np.uint64)]
    for keys in slot_band_keys(slots, bands, rows).T:
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        # Documents of one bucket are neighbours. Each step pairs documents one place further apart.
        firsts = np.flatnonzero(ordered[1:] == ordered[:-1])
        step = 1
        while len(firsts):
            a = order[firsts]
            b = order[firsts + step]
            candidates_of_bands.append(pack_pairs(np.minimum(a, b), np.maximum(a, b)))
            step += 1
            firsts = firsts[firsts + step < len(ordered)]
            firsts = firsts[ordered[firsts] == ordered[firsts + step]]
    return np.unique(np.concatenate(candidates_of_bands))


def find_true_pairs(texts: list[str], threshold: float) -> np.ndarray:
    """Returns the pairs that reach a threshold, by comparing every pair.

    Args:
        texts: Texts of the documents.
        threshold: Smallest similarity of a pair.

    Returns:
        Packed pairs in ascending order, uint64 (m,).
    """
    measure = measure_of(SPEC)
    payload = measure.payload_builder().build(pa.array(texts, pa.large_string()))
    parts = measure.compare_all(payload, PairScope.of_all_pairs(len(texts)), threshold, 1)
    return np.sort(ScoredPairs.concatenate(list(parts)).pairs)


def select_estimated_pairs(candidates: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Returns the candidates whose estimated similarity reaches the threshold.

    Args:
        candidates: Packed pairs, uint64 (m,).
        slots: Signatures, uint32 (documents, k).
    """
    a, b = unpack_pairs(candidates)
    agreeing = (slots[a] == slots[b]).sum(axis=1)
    scored = measure_of(SPEC).estimator.estimate(candidates, agreeing)
    return scored.select(scored.meets_threshold(THRESHOLD)).pairs


def compare_bandings(seed: int = 1) -> tuple[BandingResult, ...]:
    """Returns the result of each banding, and that of brute force at the end.

    Args:
        seed: Random seed for the texts.
    """
    texts = generate_texts(DOCUMENTS, PLANTED, seed)
    slots = measure_of(SPEC).sketcher().sketch(pa.array(texts, pa.large_string())).signatures
    truth = find_true_pairs(texts, THRESHOLD)
    compared = []
    for bands, rows in BANDINGS:
        candidates = find_candidates(slots, bands, rows)
        reported = select_estimated_pairs(candidates, slots)
        compared.append(_score_banding(bands, rows, candidates, reported, truth))
    first, second = np.triu_indices(DOCUMENTS, 1)
    compared.append(_score_banding(0, 0, pack_pairs(first, second), truth, truth))
    return tuple(compared)


def _score_banding(
    bands: int, rows: int, candidates: np.ndarray, reported: np.ndarray, truth: np.ndarray
) -> BandingResult:
    """Returns the result of a banding, or of brute force if there are no bands.

    Args:
        bands: Number of bands, or 0.
        rows: Number of slots in a band, or 0.
        candidates: Compared pairs, packed, uint64.
        reported: Reported pairs, packed, uint64.
        truth: Pairs that reach the threshold, packed and in ascending order, uint64.
    """
    true_candidates = int(isin_sorted(candidates, truth).sum())
    true_reported = int(isin_sorted(reported, truth).sum())
    everything = DOCUMENTS * (DOCUMENTS - 1) // 2
    precision = true_reported / len(reported) if len(reported) else 1.0
    recall = true_reported / len(truth) if len(truth) else 1.0
    total = precision + recall
    return BandingResult(
        bands=bands,
        rows=rows,
        threshold=classic_threshold(bands, rows) if bands else THRESHOLD,
        candidates=len(candidates),
        published=PUBLISHED_CANDIDATES.get((bands, rows)),
        reduction=1 - len(candidates) / everything,
        candidate_precision=true_candidates / len(candidates) if len(candidates) else 1.0,
        precision=precision,
        recall=recall,
        f1=2 * precision * recall / total if total else 0.0,
    )


def measure_growth(sizes: tuple[int, ...] = SIZES, seed: int = 1) -> tuple[GrowthResult, ...]:
    """Returns candidates and time for growing corpora, a quarter of which are planted copies.

    The candidates of more than MAX_MEASURED documents are projected from the largest measured
    corpus: unrelated texts are candidates with the same probability in a corpus of any size.

    Args:
        sizes: Numbers of documents in ascending order. The first is at most MAX_MEASURED.
        seed: Random seed for the texts.
    """
    growth: list[GrowthResult] = []
    for size in sizes:
        if size <= MAX_MEASURED:
            growth.append(_measure_size(size, seed))
            continue
        measured = max(
            (point for point in growth if not point.is_projected),
            key=lambda point: point.documents,
        )
        pairs = size * (size - 1) // 2
        growth.append(
            GrowthResult(
                documents=size,
                pairs=pairs,
                candidates=round(pairs * measured.candidates / measured.pairs),
                is_projected=True,
                seconds=None,
                brute=None,
            )
        )
    return tuple(growth)


def _measure_size(size: int, seed: int) -> GrowthResult:
    """Counts the candidates of a corpus, and measures the time.

    Args:
        size: Number of documents.
        seed: Random seed for the texts.
    """
    texts = generate_texts(size, size // 4, seed)
    began = time.perf_counter()
    signatures = measure_of(SPEC).sketcher().sketch(pa.array(texts, pa.large_string())).signatures
    candidates = find_candidates(signatures, *GROWTH_BANDING)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    find_true_pairs(texts, THRESHOLD)
    brute = time.perf_counter() - began
    return GrowthResult(
        documents=size,
        pairs=size * (size - 1) // 2,
        candidates=len(candidates),
        is_projected=False,
        seconds=seconds,
        brute=brute,
    )


def run_experiment(sizes: tuple[int, ...] = SIZES, seed: int = 1) -> Experiment:
    """Runs the experiment.

    Args:
        sizes: Numbers of documents for which the growth is measured.
        seed: Random seed for the texts.
    """
    # Compiles the kernels before anything is timed.
    find_true_pairs(generate_texts(4, 1, seed), THRESHOLD)
    return Experiment(compare_bandings(seed), measure_growth(sizes, seed))
