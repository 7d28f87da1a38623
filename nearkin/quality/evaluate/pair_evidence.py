"""Finds what speaks against two similar texts being copies of each other, without labels.

The two texts are compared with each other, and with a random sample of the corpus, which shows what
is usual in it:

- Which words has each text that the other lacks? A copy has errors, or leaves something out.
  Different things of one kind have different words, and other documents have these words, too: two
  members of a household have the given names of other people.
- How many other documents would be as similar by chance? The distances of a text to its nearest
  neighbours in the sample are extrapolated to that of the pair, by the local intrinsic
  dimensionality (Amsaleg et al., "Estimating Local Intrinsic Dimensionality", KDD 2015, the
  maximum-likelihood estimator).
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.settings.spec import MASK_STEPS, Spec
from nearkin.stages.shingle.masks import mask_texts
from nearkin.stages.sketch.resources import SpecResources
from nearkin.stages.verify.jaccard import SetBuilder, ShingleSets

MOST_CHARACTERS = 4000
"""The number of characters at the beginning of a text that are compared."""
UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""The characters of scripts without spaces between words: Thai, Lao, Myanmar, Khmer, Kana, Han."""
WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
"""A word. Each character of scripts without spaces is one."""
CHARACTERS = Spec(unit="chars", n=3)
"""The shingles by which texts are compared, whatever those of the run are."""
SHINGLED_CHARACTERS = 500
"""The number of characters at the beginning of a text whose shingles are compared."""
NEIGHBOURS = 40
"""The number of nearest neighbours from which the dimensionality is estimated."""
LEAST_DISTANCE = 1e-3
LEAST_SPREAD = 1e-3
MOST_UNMATCHED = 60
"""The number of words that only one text has, for both texts, up to which other forms of them are
sought."""
SAME_WORD = 0.6
"""The similarity from which two words are one with an error. The distance counts changed, missing
and added letters, and neighbours that changed places (optimal string alignment)."""
SAME_NUMBER = 0.75
"""The same similarity of words with digits, of which each character counts."""

LEAST_USUAL = 0.03
"""The share of the documents from which a word is usual."""

LEAST_TOLD_APART = 0.15
"""The share of the pairs from which a word tells many of them apart, and at least five pairs."""
MOST_IN_COMMON = 2
"""How many times as many pairs a word must tell apart as have it in common."""


class PairEvidence(NamedTuple):
    """The evidence against a removed text being a copy of the kept one.

    Words are weighted by their information: a rare word counts more. Shares are those of the
    information of all words of both texts.
    """

    common: float
    """The share of the words that both texts have, also in other forms. One word in another form
    does not count: names of different things can resemble each other."""
    misspelled: float
    """The share of the words without digits that one text has with an error: not both forms occur
    in other documents. It is that of the text with the smaller share."""
    replaced: float
    """The share of the words that other documents have, and of the two texts only one. It is that
    of the text with the smaller share. If the share of the number of usual words among them is
    larger, it is this one: the sizes of a product have little information, and are no errors."""
    differing: float
    """The same share of all words of only one text, whether other documents have them or not."""
    qualified: float
    """The share of the number of words that one text has beside all of the other, if these words
    tell many pairs apart: `pro`, `part 2`, `not included`. It is that of the text with more."""
    chance: float
    """The natural logarithm of the number of documents that are expected to be as similar to the
    removed text by chance."""
    removed_words: tuple[str, ...]
    """Words that only the removed text has, those that other documents have first."""
    kept_words: tuple[str, ...]
    """Words that only the kept text has, in the same order."""


class Background:
    """A random sample of a corpus, with which the texts of pairs are compared."""

    def __init__(
        self,
        texts: Sequence[str],
        clusters: np.ndarray,
        documents: int,
        *,
        has_sources: bool = False,
    ) -> None:
        """Takes prepared texts of a corpus of some documents, and their clusters, int64 (m,).

        If documents of different sources are compared, usual words and those that tell many pairs
        apart can be words of one source, such as the names of its venues. They do not count then.
        """
        self.documents = documents
        self.has_sources = has_sources
        self._builder = SetBuilder(SpecResources().shingler(CHARACTERS))
        self._words = [split_words(text) for text in texts]
        self._frequencies = Counter(word for words in self._words for word in words)
        self._postings = _Postings.of(self._build_sets(texts))
        self.group(clusters)

    def group(self, clusters: np.ndarray) -> None:
        """Gives the texts other clusters, int64 (m,)."""
        self.clusters = clusters
        # by cluster, so that a large one is not searched for each word
        self._own_frequencies: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for cluster, words in zip(clusters.tolist(), self._words, strict=True):
            self._own_frequencies[cluster].update(words)

    def compare(
        self, removed: Sequence[str], kept: Sequence[str], clusters: np.ndarray
    ) -> list[PairEvidence]:
        """Compares prepared texts with the kept ones of their clusters, int64 (p,)."""
        chances = self._expect_by_chance(removed, kept, clusters)
        pairs = [
            (split_words(first), split_words(second))
            for first, second in zip(removed, kept, strict=True)
        ]
        compared = [
            self._compare_words(first, second, cluster, chance)
            for (first, second), cluster, chance in zip(
                pairs, clusters.tolist(), chances, strict=True
            )
        ]
        if self.has_sources:
            return compared
        qualifiers = find_qualifiers(compared, pairs)
        return [
            evidence._replace(qualified=_share_of(qualifiers, evidence, len(first | second)))
            for evidence, (first, second) in zip(compared, pairs, strict=True)
        ]

    def _compare_words(
        self, first: frozenset[str], second: frozenset[str], cluster: int, chance: float
    ) -> PairEvidence:
        total = self._inform(first | second) or 1.0
        only = sorted(first - second), sorted(second - first)
        forms = self._match_forms(*only)
        variants = [pair for pair in forms if all(self._is_known(form, cluster) for form in pair)]
        matched = [{pair[side] for pair in forms} for side in (0, 1)]
        errors = [matched[side] - {pair[side] for pair in variants} for side in (0, 1)]
        misspelled = [[word for word in words if not _has_digit(word)] for words in errors]
        unmatched = [[word for word in only[side] if word not in matched[side]] for side in (0, 1)]
        known = [[word for word in words if self._is_known(word, cluster)] for words in unmatched]
        usual = [[word for word in words if self._is_usual(word, cluster)] for words in known]
        in_common = self._inform(first & second) + min(map(self._inform_beside_one, matched))
        return PairEvidence(
            common=in_common / total,
            misspelled=min(map(self._inform, misspelled)) / total,
            replaced=max(
                min(map(self._inform, known)) / total,
                min(map(len, usual)) / max(len(first | second), 1),
            ),
            differing=min(map(self._inform, unmatched)) / total,
            qualified=0.0,
            chance=chance,
            removed_words=_begin_with(known[0], unmatched[0]),
            kept_words=_begin_with(known[1], unmatched[1]),
        )

    def _match_forms(self, first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
        """Returns the words of one text with their other forms in the other text."""
        if len(first) * len(second) > MOST_UNMATCHED**2:
            return []
        return [(word, other) for word in first for other in second if self._are_same(word, other)]

    def _inform_beside_one(self, words: Collection[str]) -> float:
        """Returns the information of words without that of the most informative one."""
        return self._inform(words) - max((self._inform([word]) for word in words), default=0.0)

    def _are_same(self, first: str, second: str) -> bool:
        """Returns whether two words are one. Two numbers that several documents have are not."""
        if not are_similar_words(first, second):
            return False
        is_repeated = self._frequencies[first] > 1 and self._frequencies[second] > 1
        return not (is_repeated and _has_digit(first + second))

    def _is_known(self, word: str, cluster: int) -> bool:
        """Returns whether a document of another cluster has a word."""
        return self._count_others(word, cluster) > 0

    def _is_usual(self, word: str, cluster: int) -> bool:
        """Returns whether so many other documents have a word that it is not an error."""
        if self.has_sources:
            return False
        return self._count_others(word, cluster) >= LEAST_USUAL * len(self._words)

    def _count_others(self, word: str, cluster: int) -> int:
        """Returns the number of documents of other clusters that have a word."""
        own = self._own_frequencies.get(cluster)
        return self._frequencies[word] - (0 if own is None else own[word])

    def _inform(self, words: Iterable[str]) -> float:
        """Returns the information of words. That of a word that no document has is 1."""
        count = len(self._words) + 1
        # The exact sum does not depend on the order of a set.
        information = math.fsum(math.log(count / (self._frequencies[word] + 0.5)) for word in words)
        return information / math.log(2 * count)

    def _build_sets(self, texts: Sequence[str]) -> ShingleSets:
        beginnings = [text[:SHINGLED_CHARACTERS] for text in texts]
        return self._builder.build(pa.array(beginnings, pa.large_string()))

    def _expect_by_chance(
        self, removed: Sequence[str], kept: Sequence[str], clusters: np.ndarray
    ) -> list[float]:
        sets = self._build_sets([*removed, *kept])
        hashes = np.split(sets.hashes, np.cumsum(sets.sizes)[:-1])
        chances = []
        for row, cluster in enumerate(clusters.tolist()):
            first = hashes[row]
            similarity = self._postings.compare_sets(first, hashes[len(removed) + row])
            others = self._postings.compare(first)[self.clusters != cluster]
            chances.append(expect_by_chance(1 - others, 1 - similarity, self.documents))
        return chances


def find_qualifiers(
    compared: Sequence[PairEvidence], pairs: Sequence[tuple[frozenset[str], frozenset[str]]]
) -> set[str]:
    """Returns the words that tell many pairs apart, and that few pairs have in common.

    Copies leave out one word here and another one there. A word that variants have in addition is
    seldom in both texts of a pair, because each variant exists once.
    """
    least = max(5.0, LEAST_TOLD_APART * len(pairs))
    differing = Counter[str]()
    common = Counter[str]()
    for evidence, (first, second) in zip(compared, pairs, strict=True):
        differing.update(evidence.removed_words)
        differing.update(evidence.kept_words)
        common.update(first & second)
    return {
        word
        for word, count in differing.items()
        if count >= least and count > MOST_IN_COMMON * common[word]
    }


def _share_of(qualifiers: Collection[str], evidence: PairEvidence, words: int) -> float:
    """Returns the share of the words of a pair that are qualifiers of one of its texts."""
    sides = (evidence.removed_words, evidence.kept_words)
    return max(sum(word in qualifiers for word in side) for side in sides) / max(words, 1)


def expect_by_chance(distances: np.ndarray, distance: float, documents: int) -> float:
    """Returns the natural logarithm of the number of documents expected within a distance.

    Args:
        distances: Distances of a text to those of a random sample, float64 (m,).
        distance: Distance of the pair.
        documents: Number of documents of the corpus from which the sample was drawn.

    Examples:
        >>> distances = np.linspace(0.6, 1, 100)
        >>> expect_by_chance(distances, 0.6, 100) > expect_by_chance(distances, 0.2, 100)
        True
    """
    if not len(distances):
        return 0.0
    count = min(NEIGHBOURS, len(distances))
    nearest = np.sort(np.partition(distances, count - 1)[:count])
    nearest = np.maximum(nearest, LEAST_DISTANCE)
    farthest = nearest[-1]
    spread = float(np.log(farthest / nearest[:-1]).mean()) if count > 1 else 0.0
    dimensions = 1 / max(spread, LEAST_SPREAD)
    closeness = math.log(min(1.0, max(distance, LEAST_DISTANCE) / farthest))
    return math.log(count * max(documents / len(distances), 1)) + dimensions * closeness


@lru_cache(1 << 16)
def are_similar_words(first: str, second: str) -> bool:
    """Returns whether two words seem to be one word, with an error or shortened.

    Examples:
        >>> are_similar_words("smith", "smyth"), are_similar_words("street", "st")
        (True, True)
        >>> are_similar_words("anna", "peter"), are_similar_words("a7", "a8")
        (False, False)
    """
    # Most commands load this module, and compare no words.
    from rapidfuzz.distance import OSA

    least = SAME_NUMBER if _has_digit(first + second) else SAME_WORD
    if least == SAME_WORD and (first.startswith(second) or second.startswith(first)):
        return True
    return OSA.normalized_similarity(first, second) >= least


def _begin_with(first: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    return (*first, *(word for word in words if word not in first))


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def split_words(text: str) -> frozenset[str]:
    """Returns the distinct words of a prepared text.

    Examples:
        >>> sorted(split_words("the cat, the dog")), sorted(split_words("東京 2024"))
        (['cat', 'dog', 'the'], ['2024', '京', '東'])
    """
    return frozenset(WORD.findall(text))


def prepare_texts(texts: pa.Array, normalise: Collection[str]) -> list[str]:
    """Returns the beginnings of texts, large_string (n,), in the form that is compared.

    The steps of normalization of a run mask values, so that a run that ignores numbers is not
    blamed for them.
    """
    prepared = pc.utf8_slice_codeunits(texts, 0, MOST_CHARACTERS)
    if masks := [step for step in MASK_STEPS if step in normalise]:
        prepared = mask_texts(prepared, masks)
    prepared = pc.utf8_lower(pc.utf8_normalize(prepared, "NFKC"))
    if "digits" in normalise:
        prepared = pc.replace_substring_regex(prepared, r"\pN", "0")
    result: list[str] = prepared.to_pylist()
    return result


class _Postings(NamedTuple):
    """The texts of a sample by their shingles."""

    hashes: np.ndarray
    """uint64 (h,): The shingles, ascending."""
    starts: np.ndarray
    """int64 (h + 1,): The first entry of each shingle in `texts`, and the end."""
    texts: np.ndarray
    """int64 (total,): The positions of the texts that have a shingle."""
    weights: np.ndarray
    """float64 (h,): The inverse document frequency of each shingle."""
    totals: np.ndarray
    """float64 (m,): The sum of the weights of each text."""

    @classmethod
    def of(cls, sets: ShingleSets) -> "_Postings":
        count = len(sets.sizes)
        texts = np.repeat(np.arange(count), sets.sizes)
        order = np.argsort(sets.hashes, kind="stable")
        hashes, places, frequencies = np.unique(
            sets.hashes, return_inverse=True, return_counts=True
        )
        weights = np.log((count + 1) / (frequencies + 0.5))
        totals = np.bincount(texts, weights=weights[places], minlength=count)
        starts = np.concatenate([[0], np.cumsum(frequencies)])
        return cls(hashes, starts, texts[order], weights, totals)

    def weigh(self, hashes: np.ndarray) -> float:
        """Returns the sum of the weights of shingles, uint64 (n,)."""
        known = self._find(hashes)
        rarest = math.log(2 * (len(self.totals) + 1))
        return float(self.weights[known].sum() + (len(hashes) - len(known)) * rarest)

    def compare_sets(self, first: np.ndarray, second: np.ndarray) -> float:
        """Returns the similarity of two sets of shingles, uint64 (n,) and (m,)."""
        shared = self.weigh(np.intersect1d(first, second, assume_unique=True))
        union = self.weigh(first) + self.weigh(second) - shared
        return shared / max(union, LEAST_DISTANCE)

    def compare(self, hashes: np.ndarray) -> np.ndarray:
        """Returns the similarity of a set of shingles, uint64 (n,), to each text, float64 (m,)."""
        known = self._find(hashes)
        lengths = self.starts[known + 1] - self.starts[known]
        before = np.cumsum(lengths) - lengths
        entries = np.repeat(self.starts[known] - before, lengths) + np.arange(lengths.sum())
        shared = np.bincount(
            self.texts[entries],
            weights=np.repeat(self.weights[known], lengths),
            minlength=len(self.totals),
        )
        union = self.totals + self.weigh(hashes) - shared
        return np.asarray(shared / np.maximum(union, LEAST_DISTANCE))

    def _find(self, hashes: np.ndarray) -> np.ndarray:
        """Returns the positions of the shingles that texts have, int64 (k,)."""
        if not len(self.hashes):
            return np.empty(0, np.int64)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return places[self.hashes[places] == hashes]
