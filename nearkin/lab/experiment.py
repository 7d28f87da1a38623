"""The classic experiment: how bands and rows trade recall for candidates, on a small generated set; and how both grow.

100 documents of 80 words, 25 planted similar pairs, 3-character shingles, 100 hashes, threshold 0.5: small enough to compare
every pair, so recall and precision are exact.
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
DOCUMENTS, WORDS, PLANTED, THRESHOLD = 100, 80, 25, 0.5
SPEC = Spec(unit="chars", n=3, k=104)
"""Signatures have a multiple of 8 slots; bands use the first 100."""
SIZES = (100, 1_000, 10_000, 100_000)
GROWN = (20, 5)
ALL_PAIRS = 3_000
"""Documents up to which every pair is compared and timed."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Row:
    """One banding.

    Attributes:
        bands: b; 0 for brute force.
        rows: r; 0 for brute force.
        threshold: (1/b)^(1/r).
        precision: Of the verified pairs.
        recall: Of the pairs that reach the threshold.
        f1: Their harmonic mean.
        candidates: Pairs compared.
        reduction: Share of all pairs that were not.
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
class Growth:
    """One corpus size.

    Attributes:
        documents: N.
        pairs: N(N − 1)/2.
        candidates: Of 20 × 5.
        seconds: From texts to candidates.
        brute: Seconds of comparing every pair; None where it was not done.
    """

    documents: int
    pairs: int
    candidates: int
    seconds: float
    brute: float | None


@dataclass(frozen=True)
class Experiment:
    """Everything that was measured."""

    rows: tuple[Row, ...]
    growth: tuple[Growth, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def generate(documents: int, planted: int, seed: int) -> list[str]:
    """Texts of random words; the last `planted` are edited copies of the first ones, of similarities around 0.5 to 0.9."""
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


def candidates_of(slots: np.ndarray, bands: int, rows: int) -> set[tuple[int, int]]:
    """Pairs that share a band."""
    found: set[tuple[int, int]] = set()
    for keys in slot_band_keys(slots, bands, rows).T:
        order = np.argsort(keys, kind="stable")
        cuts = np.flatnonzero(np.diff(keys[order])) + 1
        for bucket in np.split(order, cuts):
            if len(bucket) > 1:
                found.update(combinations(sorted(bucket.tolist()), 2))
    return found


def true_pairs(texts: list[str], threshold: float) -> set[tuple[int, int]]:
    """By comparing every pair."""
    measure = measure_of(SPEC)
    payload = measure.payload_builder().build(pa.array(texts, pa.large_string()))
    parts = measure.compare_all(payload, np.zeros(len(texts), np.uint64), threshold, 1)
    found = ScoredPairs.concatenate(list(parts)).pairs
    a, b = unpack_pairs(found)
    return set(zip(a.tolist(), b.tolist(), strict=True))


def table(seed: int = 1) -> tuple[Row, ...]:
    """The classic table, brute force last."""
    texts = generate(DOCUMENTS, PLANTED, seed)
    slots = measure_of(SPEC).sketcher().sketch(pa.array(texts, pa.large_string())).signatures
    truth, everything = true_pairs(texts, THRESHOLD), DOCUMENTS * (DOCUMENTS - 1) // 2
    out = []
    for bands, rows in BANDINGS:
        candidates = candidates_of(slots, bands, rows)
        recall = len(candidates & truth) / len(truth)
        f1 = 2 * recall / (1 + recall)
        reduction = 1 - len(candidates) / everything
        out.append(
            Row(
                bands,
                rows,
                classic_threshold(bands, rows),
                1.0,
                recall,
                f1,
                len(candidates),
                reduction,
            )
        )
    return (*out, Row(0, 0, THRESHOLD, 1.0, 1.0, 1.0, everything, 0.0))


def growth(sizes: tuple[int, ...] = SIZES, seed: int = 1) -> tuple[Growth, ...]:
    """Candidates and time as the corpus grows; a quarter of the documents are planted."""
    out = []
    for size in sizes:
        texts = generate(size, size // 4, seed)
        began = time.perf_counter()
        documents = pa.array(texts, pa.large_string())
        measure = measure_of(SPEC)
        candidates = candidates_of(measure.sketcher().sketch(documents).signatures, *GROWN)
        seconds = time.perf_counter() - began
        brute = None
        if size <= ALL_PAIRS:
            began = time.perf_counter()
            true_pairs(texts, THRESHOLD)
            brute = time.perf_counter() - began
        out.append(Growth(size, size * (size - 1) // 2, len(candidates), seconds, brute))
    return tuple(out)


def experiment(sizes: tuple[int, ...] = SIZES, seed: int = 1) -> Experiment:
    """The table and the growth."""
    true_pairs(generate(4, 1, seed), THRESHOLD)
    return Experiment(table(seed), growth(sizes, seed))
