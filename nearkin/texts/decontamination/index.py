"""The index of suites that a run searches: the different texts of items and their words."""

import hashlib
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nearkin.stages.hashing.sorted_lookup import PrefixIndex
from nearkin.stages.lsh.key_sets import KeyFilter
from nearkin.stages.packed_pairs import sorted_unique
from nearkin.texts.decontamination.kernels import (
    HashLookup,
    KnownParts,
    KnownTexts,
    KnownWords,
    WordTable,
    hash_parts,
    make_word_table,
    number_words,
)
from nearkin.texts.decontamination.suites import Suites, run_counts

MOST_PLACES = 128
"""The number of places of the suites above which a fingerprint is that of a template, and the
number of items above which a text is one. Templates are not searched for."""
LEAST_WORDS = 4
"""The number of words below which an item cannot be found."""
ONE = 1 << 16
"""The factor of weights, which are whole numbers."""


class ShortItem(NamedTuple):
    """An item that has no text of enough words for a passage."""

    item: int
    part: int
    """The part with most words, which is searched for."""
    neighbours: tuple[int, ...]
    """The parts of its other fields."""


class SuiteIndex:
    """The index of suites for passages of a smallest number of words.

    Equal texts of several items are one text.
    """

    def __init__(self, suites: Suites, least: int) -> None:
        self.suites = suites
        self.least = least
        counts = np.diff(suites.offsets)
        self._fingerprints = suites.fingerprints_of(least)
        self._bounds = np.concatenate([[0], np.cumsum(run_counts(suites.offsets, least))])
        self.long_parts = np.flatnonzero(counts >= least)
        """The parts of enough words, int64 (l,)."""
        self.part_texts, self.text_parts = self._find_equal_parts()
        """The number of the text of each long part, and the first part of each text, int64."""
        self.text_words = np.concatenate([[0], np.cumsum(counts[self.text_parts])]).astype(np.int64)
        """The number of words of all texts before each one, int64 (texts + 1,)."""
        self.short_items = self._find_short_items()

    def _find_equal_parts(self) -> tuple[np.ndarray, np.ndarray]:
        numbers: dict[bytes, int] = {}
        firsts: list[int] = []
        texts = np.empty(len(self.long_parts), np.int64)
        for position, part in enumerate(self.long_parts.tolist()):
            content = self._fingerprints[self._bounds[part] : self._bounds[part + 1]]
            digest = hashlib.blake2b(content.tobytes(), digest_size=16).digest()
            texts[position] = numbers.setdefault(digest, len(firsts))
            if texts[position] == len(firsts):
                firsts.append(part)
        return texts, np.array(firsts, np.int64)

    @cached_property
    def rows_of_texts(self) -> np.ndarray:
        """The position in the words of the suites of each word of the texts, int64."""
        starts = self.suites.offsets[self.text_parts]
        counts = np.diff(self.text_words)
        return np.repeat(starts - self.text_words[:-1], counts) + np.arange(self.text_words[-1])

    def prepare(self) -> None:
        """Computes what is searched, so that threads and tasks share it."""
        _ = (self.known_texts, self.known_parts, self.known_words, self.short_order)

    @property
    def texts(self) -> int:
        """The number of different texts of enough words."""
        return len(self.text_parts)

    @cached_property
    def owners(self) -> tuple[np.ndarray, np.ndarray]:
        """The long parts ordered by text, and the first one of each text and the end, int64."""
        order = np.argsort(self.part_texts, kind="stable")
        counts = np.bincount(self.part_texts, minlength=self.texts)
        return self.long_parts[order], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def known_texts(self) -> KnownTexts:
        """The fingerprints of the texts."""
        sizes = run_counts(self.suites.offsets, self.least)[self.text_parts]
        bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        texts = np.repeat(np.arange(self.texts, dtype=np.int32), sizes)
        rows = np.repeat(self._bounds[self.text_parts] - bounds[:-1], sizes)
        fingerprints = self._fingerprints[rows + np.arange(len(rows))]
        is_rare = np.diff(self.owners[1]) <= MOST_PLACES
        places = np.flatnonzero(is_rare[texts])
        order = places[np.argsort(fingerprints[places], kind="stable")]
        ordered = fingerprints[order]
        firsts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
        keys, counts = ordered[firsts], np.diff(np.append(firsts, len(ordered)))
        is_searched = counts <= MOST_PLACES
        order = order[np.repeat(is_searched, counts)]
        keys, counts = keys[is_searched], counts[is_searched]
        return KnownTexts(
            fingerprints=fingerprints,
            bounds=bounds,
            texts=texts,
            filter=KeyFilter.of(keys),
            searched=_lookup_of(keys),
            places=order.astype(np.int64),
            place_bounds=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        )

    @cached_property
    def known_parts(self) -> KnownParts:
        """The parts of the fingerprints that are searched for.

        Suites without words have no shorter parts than the fingerprints themselves.
        """
        if self.suites.width is not None:
            return KnownParts(self.least, self.known_texts.filter)
        width = self.least // 2
        sizes = np.diff(self.text_words) - width + 1
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        hashes = np.empty(int(offsets[-1]), np.uint64)
        hash_parts(self.suites.tokens[self.rows_of_texts], self.text_words, width, hashes)
        known = self.known_texts
        texts = known.texts[known.places]
        first_parts = known.places - known.bounds[texts] + offsets[texts]
        # The parts of a fingerprint begin at its first token and at as many more as it is longer.
        changes = np.zeros(len(hashes) + 1, np.int32)
        changes[first_parts] += 1
        changes[first_parts + self.least - width + 1] -= 1
        return KnownParts(width, KeyFilter.of(hashes[np.cumsum(changes[:-1]) > 0]))

    @cached_property
    def words(self) -> np.ndarray:
        """The different words of the suites, sorted, uint64 (w,). Empty without words."""
        return sorted_unique(self.suites.tokens)

    @cached_property
    def word_table(self) -> WordTable:
        """The table of the words."""
        return make_word_table(self.words)

    @cached_property
    def word_numbers(self) -> np.ndarray:
        """The position in `words` of each word of the suites, int64."""
        return number_words(self.suites.tokens, self.words)

    def tokens_of(self, part: int) -> np.ndarray:
        """Returns the hashes of the words of a part, uint64."""
        bounds = self.suites.offsets
        return self.suites.tokens[bounds[part] : bounds[part + 1]]

    def _find_short_items(self) -> list[ShortItem]:
        """Returns the items of enough words together that have no long part, of known words."""
        suites = self.suites
        if suites.width is not None:
            return []
        has_long = np.zeros(suites.items.num_rows, bool)
        has_long[suites.part_items[self.long_parts]] = True
        counts = np.diff(suites.offsets)
        firsts = np.searchsorted(suites.part_items, np.arange(suites.items.num_rows + 1))
        items = []
        for item in np.flatnonzero(~has_long).tolist():
            parts: dict[int, int] = {}
            for part in range(int(firsts[item]), int(firsts[item + 1])):
                parts.setdefault(int(suites.part_fields[part]), part)
            longest = max(parts.values(), key=lambda part: (counts[part], -part))
            if sum(int(counts[part]) for part in parts.values()) >= LEAST_WORDS:
                others = tuple(part for part in parts.values() if part != longest)
                items.append(ShortItem(item, longest, others))
        return items

    @cached_property
    def short_texts(self) -> list[list[ShortItem]]:
        """The short items of each different short text. One of too many items has none."""
        texts: dict[bytes, list[ShortItem]] = {}
        for item in self.short_items:
            texts.setdefault(self.tokens_of(item.part).tobytes(), []).append(item)
        return [items for items in texts.values() if len(items) <= MOST_PLACES]

    @cached_property
    def known_words(self) -> KnownWords:
        """The words, and the short texts that begin with them.

        The number of a short text is its position in `short_order`.
        """
        lengths = np.zeros(len(self.words) + 1, np.uint64)
        for items in self.short_texts:
            tokens = self.tokens_of(items[0].part)
            lengths[1 + np.searchsorted(self.words, tokens[0])] |= np.uint64(1 << len(tokens))
        lengths_of_rows = lengths[self.word_table.rows[:, 1]] if len(self.words) else lengths[:0]
        return KnownWords(
            self.word_table, lengths_of_rows, _lookup_of(sorted_unique(self._short_hashes))
        )

    @cached_property
    def _short_hashes(self) -> np.ndarray:
        hashes = np.empty(len(self.short_texts), np.uint64)
        for number, items in enumerate(self.short_texts):
            hashes[number] = hash_text(self.tokens_of(items[0].part))
        return hashes

    @cached_property
    def short_order(self) -> list[list[ShortItem]]:
        """The short items of each short text, by the number that kernels return."""
        return [self.short_texts[number] for number in np.argsort(self._short_hashes).tolist()]

    @cached_property
    def searched_items(self) -> np.ndarray:
        """True for each item that can be found, bool (items,)."""
        is_searched = np.zeros(self.suites.items.num_rows, bool)
        known = self.known_texts
        owners, bounds = self.owners
        has_place = np.zeros(self.texts, bool)
        has_place[known.texts[known.places]] = True
        is_searched[self.suites.part_items[owners[np.repeat(has_place, np.diff(bounds))]]] = True
        is_searched[[item.item for items in self.short_texts for item in items]] = True
        return is_searched


def hash_text(tokens: np.ndarray) -> np.uint64:
    """Returns the shingle hash of all words of a short text, by their hashes, uint64 (n,)."""
    out = np.empty(1, np.uint64)
    hash_parts(tokens, np.array([0, len(tokens)], np.int64), len(tokens), out)
    return out[0]


def _lookup_of(keys: np.ndarray) -> HashLookup:
    prefixes = PrefixIndex.of(keys)
    return HashLookup(keys, prefixes.first, prefixes.shift)
