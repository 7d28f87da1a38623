"""The items that documents hold, with the score and the bytes of each."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nearkin.decontamination import kernels
from nearkin.decontamination.index import ONE, ShortItem, SuiteIndex
from nearkin.decontamination.request import GAP_WORDS, DecontaminationRequest
from nearkin.winnowing.fingerprints import Buffers
from nearkin.winnowing.tokens import TokenPiece

NEIGHBOUR_WORDS = 50
"""The number of words before and after a short text in which another field of the item must be."""
MOST_PASSAGES = 64
"""The number of passages that a document and a text share from which only longer ones count, and
the number of places of a short text in a document that count."""
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
        index: Index of the suites.
        frequencies: Number of documents with each word of the index, int64 (words,).
        documents: Number of documents.
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
    """Finds the items that documents hold. Each thread needs its own.

    Args:
        index: Index of the suites.
        request: What counts as found.
        weights: Weights of the words of the suites.
    """

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
        fields = suites.part_fields[self._owners]
        self._owner_needs = np.ceil(thresholds[fields] * weights.totals[owned]).astype(np.int64)
        self._needed = np.full(index.texts, np.iinfo(np.int64).max)
        np.minimum.at(self._needed, owned, self._owner_needs)
        self._buffers = Buffers()
        self._seen_by = np.full(index.texts, -1, np.int64)
        self._counts = np.empty(index.texts, np.int64)
        self._longest = np.empty(index.texts, np.int64)

    def find(self, piece: TokenPiece) -> list[Hit]:
        """Returns the fields that documents hold, ordered by document, item and field.

        Args:
            piece: All tokens of some documents.
        """
        hits: dict[tuple[int, int, int], Hit] = {}
        for hit in (*self._find_long(piece), *self._find_short(piece)):
            key = (hit.document, hit.item, hit.field)
            other = hits.get(key)
            if other is not None:
                spans = join_spans([*other.spans, *hit.spans])
                hit = hit._replace(score=max(hit.score, other.score), spans=spans)
            hits[key] = hit
        return [hits[key] for key in sorted(hits)]

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
        first_words = piece.offsets[:-1]
        parts = self._index.suites
        for first, second, overlap, covered in chains[: int(count)].tolist():
            position, text, start, _, length = passages[first].tolist()
            base = int(first_words[position])
            words = [(base + start, base + start + length)]
            if second >= 0:
                _, _, start, _, length = passages[second].tolist()
                words.append((base + start + overlap, base + start + length))
            spans = join_spans([self._bytes_of(piece, begin, end) for begin, end in words])
            document = int(piece.places[position] >> np.uint64(32))
            score = covered / int(self._weights.totals[text])
            for owner in range(self._owner_bounds[text], self._owner_bounds[text + 1]):
                if covered >= self._owner_needs[owner]:
                    part = self._owners[owner]
                    item, field = int(parts.part_items[part]), int(parts.part_fields[part])
                    yield Hit(document, item, field, score, spans)

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
                    self._buffers.array("hashes", np.uint64, longest),
                    self._buffers.array("entries", np.int64, longest),
                    self._seen_by,
                    self._counts,
                    self._longest,
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
                    out,
                )
            )
            if found <= rows:
                break
            rows = found
        for position, text, start, length in out[:found].tolist():
            for item in self._index.short_order[text]:
                hit = self._match_short(piece, position, start, length, item)
                if hit is not None:
                    yield hit

    def _match_short(
        self, piece: TokenPiece, position: int, start: int, length: int, item: ShortItem
    ) -> Hit | None:
        """Returns the hit of a short item at a place of its longest part, or None.

        Another part must be near, if there is one, and the words together must be rare.
        """
        index = self._index
        first, end = int(piece.offsets[position]), int(piece.offsets[position + 1])
        start += first
        spans = [self._bytes_of(piece, start, start + length)]
        information = self._information_of(item.part)
        for part in item.neighbours:
            tokens = index.tokens_of(part)
            margin = NEIGHBOUR_WORDS + len(tokens)
            low = max(first, start - margin)
            window = piece.hashes[low : min(end, start + length + margin)]
            place = find_tokens(window, tokens)
            if place is not None:
                information += self._information_of(part)
                spans.append(self._bytes_of(piece, low + place, low + place + len(tokens)))
        is_alone = bool(item.neighbours) and len(spans) == 1
        if is_alone or information < self._weights.information:
            return None
        document = int(piece.places[position] >> np.uint64(32))
        field = int(index.suites.part_fields[item.part])
        return Hit(document, item.item, field, 1.0, join_spans(spans))

    def _information_of(self, part: int) -> float:
        offsets = self._index.suites.offsets
        words = self._index.word_numbers[offsets[part] : offsets[part + 1]]
        return float(self._weights.inverse[words].sum())

    @staticmethod
    def _bytes_of(piece: TokenPiece, begin: int, end: int) -> tuple[int, int]:
        return int(piece.starts[begin]), int(piece.ends[end - 1])


def find_tokens(window: np.ndarray, tokens: np.ndarray) -> int | None:
    """Returns the first position of some tokens in others, or None.

    Args:
        window: Token hashes, uint64 (n,).
        tokens: Token hashes that are looked for, uint64 (m,), at least one.

    Examples:
        >>> find_tokens(np.array([5, 7, 5, 8], np.uint64), np.array([5, 8], np.uint64))
        2
    """
    for place in np.flatnonzero(window[: len(window) - len(tokens) + 1] == tokens[0]).tolist():
        if np.array_equal(window[place : place + len(tokens)], tokens):
            return int(place)
    return None


def join_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns spans in order, those that overlap or touch as one.

    Args:
        spans: First byte, and byte after the last one, of each span.

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
