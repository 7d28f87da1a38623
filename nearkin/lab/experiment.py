"""An experiment that shows how bands and rows trade recall for candidates, and how the work grows.

It uses 100 documents of 80 words with 25 planted pairs, 3-character shingles, 100 slots and the
threshold 0.5. This is small enough to compare every pair, so recall and precision are exact.
"""

import time
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.lsh.band_keys import slot_band_keys
from nearkin.lsh.curve import classic_threshold
from nearkin.measures import measure_of
from nearkin.packed_pairs import ScoredPairs, unpack_pairs
from nearkin.spec import Spec

BANDINGS = ((5, 20), (10, 10), (20, 5), (25, 4), (50, 2))
DOCUMENTS = 100
WORDS = 80
PLANTED = 25
THRESHOLD = 0.5
SPEC = Spec(unit="chars", n=3, k=104)
"""The Spec of the experiment. Signatures have a multiple of 8 slots, of which bands use 100."""
SIZES = (100, 1_000, 10_000, 100_000)
GROWTH_BANDING = (20, 5)
MAX_BRUTE_FORCE = 3_000
"""The largest number of documents of which every pair is compared."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class BandingResult:
    """The result of one banding.

    Attributes:
        bands: Number of bands, or 0 for brute force.
        rows: Number of slots in a band, or 0 for brute force.
        threshold: (1/b)^(1/r).
        precision: Precision of the verified pairs.
        recall: Recall of the pairs that reach the threshold.
        f1: Harmonic mean of precision and recall.
        candidates: Number of compared pairs.
        reduction: Share of all pairs that were not compared.
    """

    bands: int
    rows: int
    threshold: float
    precision: float
    recall: float
    f1: float
    candidates: int
    reduction: float


@dataclass(frozen=True)
class GrowthResult:
    """The work for one size of the corpus.

    Attributes:
        documents: Number of documents.
        pairs: Number of all pairs.
        candidates: Number of candidate pairs of 20 bands of 5 rows.
        seconds: Time from texts to candidates, in seconds.
        brute: Time for comparing every pair, in seconds, or None if they were not compared.
    """

    documents: int
    pairs: int
    candidates: int
    seconds: float
    brute: float | None


@dataclass(frozen=True)
class Experiment:
    """The results of the experiment: for each banding, and for each size of the corpus."""

    rows: tuple[BandingResult, ...]
    growth: tuple[GrowthResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns the results as a JSON object."""
        return asdict(self)


def generate_texts(documents: int, planted: int, seed: int) -> list[str]:
    """Generates texts of random words. The last ones are edited copies of the first ones.

    The similarities of the copies are about 0.5 to 0.9.

    Args:
        documents: Number of documents.
        planted: Number of edited copies.
        seed: Random seed.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    letters = np.array(list(LETTERS))

    def words(count: int) -> list[str]:
        return ["".join(letters[rng.integers(0, 26, size)]) for size in rng.integers(3, 9, count)]

    texts = [words(WORDS) for _ in range(documents - planted)]
    for i in range(planted):
        copy = list(texts[i])
        places = rng.choice(WORDS, int(rng.integers(3, 20)), replace=False)
        for place, word in zip(places.tolist(), words(len(places)), strict=True):
            copy[place] = word
        texts.append(copy)
    return [" ".join(text) for text in texts]


def find_candidates(slots: np.ndarray, bands: int, rows: int) -> set[tuple[int, int]]:
    """Returns the pairs of documents that share a band key.

    Args:
        slots: Signatures, uint32 (documents, k).
        bands: Number of bands.
        rows: Number of slots in a band.
    """
    found: set[tuple[int, int]] = set()
    for keys in slot_band_keys(slots, bands, rows).T:
        order = np.argsort(keys, kind="stable")
        cuts = np.flatnonzero(np.diff(keys[order])) + 1
        for bucket in np.split(order, cuts):
            if len(bucket) > 1:
                found.update(combinations(sorted(bucket.tolist()), 2))
    return found


def find_true_pairs(texts: list[str], threshold: float) -> set[tuple[int, int]]:
    """Returns the pairs that reach a threshold, by comparing every pair.

    Args:
        texts: Texts of the documents.
        threshold: Smallest similarity of a pair.
    """
    measure = measure_of(SPEC)
    payload = measure.payload_builder().build(pa.array(texts, pa.large_string()))
    parts = measure.compare_all(payload, np.zeros(len(texts), np.uint64), threshold, 1)
    found = ScoredPairs.concatenate(list(parts)).pairs
    a, b = unpack_pairs(found)
    return set(zip(a.tolist(), b.tolist(), strict=True))


def compare_bandings(seed: int = 1) -> tuple[BandingResult, ...]:
    """Returns the result of each banding, and that of brute force at the end."""
    texts = generate_texts(DOCUMENTS, PLANTED, seed)
    slots = measure_of(SPEC).sketcher().sketch(pa.array(texts, pa.large_string())).signatures
    truth = find_true_pairs(texts, THRESHOLD)
    everything = DOCUMENTS * (DOCUMENTS - 1) // 2
    out = []
    for bands, rows in BANDINGS:
        candidates = find_candidates(slots, bands, rows)
        recall = len(candidates & truth) / len(truth)
        f1 = 2 * recall / (1 + recall)
        reduction = 1 - len(candidates) / everything
        out.append(
            BandingResult(
                bands=bands,
                rows=rows,
                threshold=classic_threshold(bands, rows),
                precision=1.0,
                recall=recall,
                f1=f1,
                candidates=len(candidates),
                reduction=reduction,
            )
        )
    out.append(
        BandingResult(
            bands=0,
            rows=0,
            threshold=THRESHOLD,
            precision=1.0,
            recall=1.0,
            f1=1.0,
            candidates=everything,
            reduction=0.0,
        )
    )
    return tuple(out)


def measure_growth(sizes: tuple[int, ...] = SIZES, seed: int = 1) -> tuple[GrowthResult, ...]:
    """Returns candidates and time for growing corpora, a quarter of which are planted copies.

    Args:
        sizes: Numbers of documents.
        seed: Random seed.
    """
    out = []
    for size in sizes:
        texts = generate_texts(size, size // 4, seed)
        began = time.perf_counter()
        documents = pa.array(texts, pa.large_string())
        measure = measure_of(SPEC)
        candidates = find_candidates(
            measure.sketcher().sketch(documents).signatures, *GROWTH_BANDING
        )
        seconds = time.perf_counter() - began
        brute = None
        if size <= MAX_BRUTE_FORCE:
            began = time.perf_counter()
            find_true_pairs(texts, THRESHOLD)
            brute = time.perf_counter() - began
        out.append(GrowthResult(size, size * (size - 1) // 2, len(candidates), seconds, brute))
    return tuple(out)


def run_experiment(sizes: tuple[int, ...] = SIZES, seed: int = 1) -> Experiment:
    """Runs the experiment.

    Args:
        sizes: Numbers of documents for which the growth is measured.
        seed: Random seed.
    """
    # compiles the kernels before anything is timed
    find_true_pairs(generate_texts(4, 1, seed), THRESHOLD)
    return Experiment(compare_bandings(seed), measure_growth(sizes, seed))
