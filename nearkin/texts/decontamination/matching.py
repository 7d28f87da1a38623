"""The items that documents hold, with the score and the bytes of each."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nearkin.stages.packed_pairs import meets_threshold
from nearkin.stages.winnowing.fingerprints import Buffers
from nearkin.stages.winnowing.tokens import TokenPiece
from nearkin.texts.decontamination import kernels
from nearkin.texts.decontamination.index import ONE, ShortItem, SuiteIndex
from nearkin.texts.decontamination.request import GAP_WORDS, DecontaminationRequest

NEIGHBOUR_WORDS = 50
"""The number of words before and after a short text in which another field of the item must be."""
MOST_PASSAGES = 64
"""The number of passages of a document and a text, and of places of a short text in a document,
that count although they overlap."""
MOST_FURTHER_PASSAGES = 1 << 20
"""The number of passages of a document after these that count although those of other texts contain
them."""
FIRST_ROWS = 1 << 12


class Hit(NamedTuple):
    """A field of an item in a document."""

    document: int
    item: int
    field: int
    score: float
    """The share of the weight of its words that the best chain covers."""
    spans: list[tuple[int, int]]
    """The first byte, and the byte after the last one, of the parts of the document that it shares
    with the item, ascending and apart from each other."""


class Weights:
    """The weights of the words of suites in a corpus.

    A word weighs ln((N + 2) / (n + 1)) times its rarity in its suite, where n of N documents
    contain it. Where only fingerprints of a suite are known, it weighs its rarity.

    Args:
        frequencies: Number of documents with each word of the index, int64 (words,).
    """

    def __init__(self, index: SuiteIndex, frequencies: np.ndarray, documents: int) -> None:
        self.inverse = np.log((documents + 2) / (frequencies + 1))
        """The first factor for each word of the index, float64 (words,)."""
        self.information = float(np.log(max(documents, 1)))
        """The sum of these factors from which words together are rarer than one document."""
        rows = index.rows_of_texts
        weights = index.suites.rarity[rows].astype(np.float64)
        if index.suites.width is None:
            weights = weights * self.inverse[index.word_numbers[rows]]
        whole = np.maximum(1, np.round(weights * ONE)).astype(np.int64)
        self.sums = np.concatenate([[0], np.cumsum(whole)]).astype(np.int64)
        """The weights of all words of texts before each one, int64 (words of texts + 1,)."""
        self.totals = self.sums[index.text_words[1:]] - self.sums[index.text_words[:-1]]
        """The weight of each text, int64 (texts,)."""


class Matcher:
    """Finds the items that documents hold. Each thread needs its own."""

    def __init__(
        self, index: SuiteIndex, request: DecontaminationRequest, weights: Weights
    ) -> None:
        self._index = index
        self._weights = weights
        self._gap = GAP_WORDS if request.point.has_gap else -1
        suites = index.suites
        thresholds = np.array([request.threshold_of(name) for name in suites.fields])
        self._owners, self._owner_bounds = index.owners
        owned = np.repeat(np.arange(index.texts), np.diff(self._owner_bounds))
        thresholds = thresholds[suites.part_fields[self._owners]]
        self._owner_needs = least_weights(weights.totals[owned], thresholds)
        self._needed = np.full(index.texts, np.iinfo(np.int64).max)
        np.minimum.at(self._needed, owned, self._owner_needs)
        self._buffers = Buffers()
        self._seen_by = np.full(index.texts, -1, np.int64)
        self._counts = np.empty(index.texts, np.int64)
        self._longest = np.empty(index.texts, np.int64)
        self._reached = np.empty(index.texts, np.int64)
        self._longest_reached = np.empty(index.texts, np.int64)

    def find(self, piece: TokenPiece) -> list[Hit]:
        """Returns the fields that documents hold, ordered by document, item and field."""
        hits: dict[tuple[int, int, int], list[Hit]] = {}
        for hit in (*self._find_long(piece), *self._find_short(piece)):
            hits.setdefault((hit.document, hit.item, hit.field), []).append(hit)
        return [_join_hits(hits[key]) for key in sorted(hits)]

    def _find_long(self, piece: TokenPiece) -> Iterator[Hit]:
        passages = self._find_passages(piece)
        chains = np.empty((len(passages), 4), np.int64)
        count = kernels.find_chains(
            passages,
            self._index.text_words,
            self._weights.sums,
            self._needed,
            self._gap,
            chains,
        )
        chains = chains[: int(count)]
        first = passages[chains[:, 0]]
        begins = np.ones(len(chains), bool)
        begins[1:] = (first[1:, :2] != first[:-1, :2]).any(axis=1)
        bounds = [*np.flatnonzero(begins).tolist(), len(chains)]
        for low, high in pairwise(bounds):
            yield from self._describe_chains(piece, passages, chains[low:high])

    def _describe_chains(
        self, piece: TokenPiece, passages: np.ndarray, chains: np.ndarray
    ) -> Iterator[Hit]:
        """Yields the hits of the chains that `find_chains` returns of one document and text."""
        first = passages[chains[:, 0]]
        position, text = int(first[0, 0]), int(first[0, 1])
        has_second = chains[:, 1] >= 0
        second = passages[chains[:, 1]]
        covered = chains[:, 3]
        places = [
            np.stack([first[:, 2], first[:, 2] + first[:, 4]], axis=1),
            np.stack([second[:, 2] + chains[:, 2], second[:, 2] + second[:, 4]], axis=1),
        ]
        base = int(piece.offsets[position])
        document = int(piece.places[position] >> np.uint64(32))
        total = int(self._weights.totals[text])
        suites = self._index.suites
        for owner in range(self._owner_bounds[text], self._owner_bounds[text + 1]):
            is_hit = covered >= self._owner_needs[owner]
            if not is_hit.any():
                continue
            words = np.concatenate([places[0][is_hit], places[1][is_hit & has_second]]) + base
            part = self._owners[owner]
            yield Hit(
                document=document,
                item=int(suites.part_items[part]),
                field=int(suites.part_fields[part]),
                score=int(covered[is_hit].max()) / total,
                spans=_join_words(piece, words),
            )

    def _find_passages(self, piece: TokenPiece) -> np.ndarray:
        """Returns the passages that documents and texts share, ordered as for `find_chains`."""
        longest = piece.longest
        rows = FIRST_ROWS
        while True:
            out = np.empty((rows, 5), np.int64)
            self._seen_by[:] = -1
            found = int(
                kernels.find_passages(
                    piece.hashes,
                    piece.offsets,
                    (piece.places >> np.uint64(32)).astype(np.int64),
                    self._index.least,
                    self._index.known_texts,
                    MOST_PASSAGES,
                    MOST_FURTHER_PASSAGES,
                    self._buffers.array("hashes", np.uint64, longest),
                    self._buffers.array("entries", np.int64, longest),
                    self._seen_by,
                    self._counts,
                    self._longest,
                    self._reached,
                    self._longest_reached,
                    out,
                )
            )
            if found <= rows:
                break
            rows = found
        passages = out[:found]
        order = np.lexsort((passages[:, 3], passages[:, 2], passages[:, 1], passages[:, 0]))
        return np.ascontiguousarray(passages[order])

    def _find_short(self, piece: TokenPiece) -> Iterator[Hit]:
        rows = FIRST_ROWS
        while True:
            out = np.empty((rows, 4), np.int64)
            texts = len(self._index.short_order)
            found = int(
                kernels.find_short_texts(
                    piece.hashes,
                    piece.offsets,
                    self._index.known_words,
                    MOST_PASSAGES,
                    np.full(texts, -1, np.int64),
                    np.empty(texts, np.int64),
                    np.empty(texts, np.int64),
                    out,
                )
            )
            if found <= rows:
                break
            rows = found
        found_places = out[:found]
        found_places = found_places[np.lexsort((found_places[:, 1], found_places[:, 0]))]
        _, firsts = np.unique(found_places[:, :2], axis=0, return_index=True)
        for low, high in pairwise([*firsts.tolist(), found]):
            position, text, _, length = found_places[low].tolist()
            starts = found_places[low:high, 2]
            for item in self._index.short_order[text]:
                hit = self._match_short(piece, position, starts, length, item)
                if hit is not None:
                    yield hit

    def _match_short(
        self, piece: TokenPiece, position: int, starts: np.ndarray, length: int, item: ShortItem
    ) -> Hit | None:
        """Returns the hit of a short item at places of its longest part, or None.

        The places are first tokens in the document, int64 (k,), ascending. Before or after one,
        another part must be near, if there is one, and the words together must be rare.
        """
        index = self._index
        first, end = int(piece.offsets[position]), int(piece.offsets[position + 1])
        starts = starts + first
        information = np.full(len(starts), self._information_of(item.part))
        near: list[tuple[np.ndarray, np.ndarray]] = []
        for part in item.neighbours:
            tokens = index.tokens_of(part)
            margin = NEIGHBOUR_WORDS + len(tokens)
            lows = np.maximum(starts - margin, first)
            highs = np.minimum(starts + length + margin, end)
            window = piece.hashes[int(lows[0]) : int(highs[-1])]
            # The end stands for a place that does not exist.
            places = np.append(find_places(window, tokens) + lows[0], end)
            before = places[np.searchsorted(places, lows)]
            after = places[np.searchsorted(places, starts + length)]
            is_before = before + len(tokens) <= starts
            nearest = np.where(is_before, before, after)
            is_near = is_before | (after + len(tokens) <= highs)
            information[is_near] += self._information_of(part)
            near.append((is_near, np.stack([nearest, nearest + len(tokens)], axis=1)))
        is_hit = information >= self._weights.information
        if near:
            is_hit &= np.any([is_near for is_near, _ in near], axis=0)
        if not is_hit.any():
            return None
        words = [np.stack([starts, starts + length], axis=1)[is_hit]]
        words += [places[is_near & is_hit] for is_near, places in near]
        document = int(piece.places[position] >> np.uint64(32))
        field = int(index.suites.part_fields[item.part])
        spans = _join_words(piece, np.concatenate(words))
        return Hit(document, item.item, field, 1.0, spans)

    def _information_of(self, part: int) -> float:
        offsets = self._index.suites.offsets
        words = self._index.word_numbers[offsets[part] : offsets[part + 1]]
        return float(self._weights.inverse[words].sum())


def least_weights(totals: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Returns the smallest weights whose shares of the totals reach thresholds, int64 (n,).

    Examples:
        >>> least_weights(np.array([20, 20]), np.array([0.55, 0.56])).tolist()
        [11, 12]
    """
    weights = np.floor(thresholds * totals).astype(np.int64)
    # The product can be rounded: 0.55 · 20 is 11.000000000000002.
    return np.where(meets_threshold(weights, totals, thresholds), weights, weights + 1)


def _join_hits(hits: list[Hit]) -> Hit:
    if len(hits) == 1:
        return hits[0]
    spans = join_spans([span for hit in hits for span in hit.spans])
    return hits[0]._replace(score=max(hit.score for hit in hits), spans=spans)


def _join_words(piece: TokenPiece, words: np.ndarray) -> list[tuple[int, int]]:
    """Returns the bytes of runs of tokens, int64 (n, 2). Those that touch are one span."""
    rows = np.unique(words, axis=0)
    starts = piece.starts[rows[:, 0]].astype(np.int64)
    ends = np.maximum.accumulate(piece.ends[rows[:, 1] - 1].astype(np.int64))
    begins = np.ones(len(rows), bool)
    begins[1:] = starts[1:] > ends[:-1]
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts[1:], len(rows)) - 1
    return list(zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True))


def find_places(window: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Returns all positions of some tokens in a window of others, ascending, int64 (k,).

    Examples:
        >>> find_places(np.array([5, 7, 5, 8, 5, 8], np.uint64), np.array([5, 8], np.uint64))
        array([2, 4])
    """
    places = np.flatnonzero(window[: max(0, len(window) - len(tokens) + 1)] == tokens[0])
    for offset in range(1, len(tokens)):
        places = places[window[places + offset] == tokens[offset]]
    return places


def join_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns spans in order, those that overlap or touch as one.

    Examples:
        >>> join_spans([(5, 9), (0, 2), (1, 3)])
        [(0, 3), (5, 9)]
    """
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
