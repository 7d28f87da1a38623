"""The number of pairs of a document at each similarity, from which expected candidates follow."""

import math
from dataclasses import dataclass, replace

import numpy as np

from nearkin.quality.plan.background import background_of
from nearkin.quality.plan.data_kind import DataProfile
from nearkin.settings.spec import Spec

GAP_WIDTH = 0.05
"""The distance from a threshold within which the pairs are close to it."""
MIN_GAP_PAIRS = 20
"""The number of compared pairs from which the crowding is known."""


@dataclass(frozen=True)
class Distribution:
    """The number of pairs of a document at each similarity.

    Attributes:
        documents: Number of documents of the corpus.
        similarities: Similarities in ascending order, float64 (m,).
        pairs: Number of pairs of a document at each similarity, float64 (m,).
        source: Origin of the distribution, in words.
        shingles: Number of distinct shingles of each sampled document, int64 (s,), or None without
            a sample.
        characters: Median length of the sampled texts in characters, or None without texts.
        compared: Number of sampled pairs at each similarity, int64 (m,), or None without a sample.
        profile: Description of the sampled texts, or None without texts.
        exact_copies: Share of the documents that are exact copies of others. They have no pairs.
        text_bytes: Mean size of the sampled texts in bytes, or None without texts.
    """

    documents: int
    similarities: np.ndarray
    pairs: np.ndarray
    source: str
    shingles: np.ndarray | None = None
    characters: float | None = None
    compared: np.ndarray | None = None
    profile: DataProfile | None = None
    exact_copies: float = 0.0
    text_bytes: float | None = None

    def scale_to(self, documents: int) -> "Distribution":
        """Returns the distribution of a corpus of another size with documents of the same kind.

        A document then has as many more pairs at each similarity as there are more documents.

        Args:
            documents: Number of documents of that corpus, at least 2.
        """
        factor = (documents - 1) / max(self.documents - 1, 1)
        source = f"{self.source}, scaled to {documents:,} documents"
        return replace(self, documents=documents, pairs=self.pairs * factor, source=source)

    def count_pairs(self, similarity: float) -> float:
        """Returns the number of pairs of a document at a similarity and above.

        Args:
            similarity: Smallest similarity of the pairs.
        """
        return float(self.pairs[self.similarities >= similarity].sum())

    @property
    def mean_shingles(self) -> int | None:
        """The mean number of shingles of the sampled texts, at least 1, or None without texts."""
        if self.text_bytes is None or self.shingles is None:
            return None
        return max(1, round(float(self.shingles.mean())))

    def duplicate_share(self, threshold: float) -> float:
        """Returns the share of the documents that a deduplication removes, approximately.

        Each pair of near-duplicates removes a document, unless another pair does. A document of a
        large cluster has many pairs, and is removed once.

        Args:
            threshold: Smallest similarity of near-duplicates.
        """
        near = 1 - math.exp(-self.count_pairs(threshold) / 2)
        return self.exact_copies + (1 - self.exact_copies) * near

    def crowding(self, threshold: float) -> float | None:
        """Returns how dense pairs are around a threshold, relative to their density from there up.

        It is the mean number of pairs in the bins within `GAP_WIDTH` of the threshold, divided by
        the mean number in all bins from the lowest of these to the similarity 1. It is 0 if there
        is a gap around the threshold, and 1 if the pairs are spread evenly. The width is smaller
        from a threshold of 0.9, so that as many bins are left above it.

        Args:
            threshold: Smallest similarity of near-duplicates, in (0, 1].

        Returns:
            The crowding, or None if fewer than `MIN_GAP_PAIRS` pairs were compared there and above.
        """
        if self.compared is None:
            return None
        width = min(GAP_WIDTH, (1 - threshold) / 2)
        is_above = self.similarities >= threshold - width
        is_near = is_above & (self.similarities < threshold + width)
        if not is_near.any() or self.compared[is_above].sum() < MIN_GAP_PAIRS:
            return None
        return float(self.pairs[is_near].mean() / self.pairs[is_above].mean())

    @classmethod
    def assumed(cls, documents: int, spec: Spec | None = None) -> "Distribution":
        """Returns the distribution of unrelated documents, as `benchmarks/background.py` fitted it.

        Args:
            documents: Number of documents of the corpus.
            spec: Spec of the documents. The default Spec if it is None.
        """
        background = background_of(spec or Spec())
        pairs = background.shares * max(documents - 1, 0)
        return cls(documents, background.similarities, pairs, background.source)
