"""Kernels of decontamination: documents that may hold an item, shared passages, and their chains.

A fingerprint is the shingle hash of a run of words (see `combine_tokens` of `stages.shingle`).
A passage that a document and a text of a suite share is a run of equal fingerprints.
"""

from typing import NamedTuple

import numpy as np

from nearkin.runtime.jit import inlined, kernel
from nearkin.stages.hashing.kernels import borrow, find_sorted
from nearkin.stages.lsh.kernels import has_filter_bit
from nearkin.stages.lsh.key_sets import KeyFilter
from nearkin.stages.shingle.kernels import SHINGLE, combine_tokens

U32 = np.uint32
U64 = np.uint64
I64 = np.int64

LOW_HALF = U64(0xFFFFFFFF)
NO_DOCUMENT = U64(0xFFFFFFFF << 32)
"""The count of a word that no document has yet, in a row of `scan_documents`."""


class HashLookup(NamedTuple):
    """Sorted distinct hashes, for `find_sorted`."""

    keys: np.ndarray
    """uint64 (n,)."""
    first: np.ndarray
    """int64: The position of the first key of each prefix, and the end."""
    shift: np.uint64


class KnownTexts(NamedTuple):
    """The fingerprints of the texts of suites."""

    fingerprints: np.ndarray
    """uint64 (f,): The fingerprints of all texts, one text after the other."""
    bounds: np.ndarray
    """int64 (t + 1,): The first fingerprint of each text, and the end."""
    texts: np.ndarray
    """int32 (f,): The number of the text of each fingerprint."""
    filter: KeyFilter
    """The bits of the fingerprints that are searched for."""
    searched: HashLookup
    """The fingerprints that are searched for."""
    places: np.ndarray
    """int64: The positions in `fingerprints` of each fingerprint that is searched for."""
    place_bounds: np.ndarray
    """int64: The first place of each fingerprint that is searched for, and the end."""


class KnownParts(NamedTuple):
    """The parts of the fingerprints that are searched for: all shorter runs of their tokens."""

    width: int
    """The number of tokens of a part."""
    filter: KeyFilter
    """The bits of the shingle hashes of the parts."""


class WordTable(NamedTuple):
    """A hash table of words. Words with equal first rows are in consecutive rows."""

    rows: np.ndarray
    """uint64 (2^k, 2): The hash of a word and its number plus 1, or two zeros."""
    shift: np.uint64
    """The number of bits by which a hash is shifted to give its first row, 64 - k."""


class KnownWords(NamedTuple):
    """The words of suites, and the short texts that begin with them."""

    table: WordTable
    lengths: np.ndarray
    """uint64: Bit L is set if a short text of L words begins with the word of a row of the table.
    It is empty if there are no words."""
    short: HashLookup
    """Hashes of the short texts."""


@kernel
def hash_parts(tokens: np.ndarray, offsets: np.ndarray, width: int, out: np.ndarray) -> None:
    """Computes the fingerprints of all runs of `width` tokens of texts. Shorter ones have none.

    Args:
        tokens: Token hashes, uint64.
        offsets: First token of each text, and the end, int64 (n + 1,).
        width: Number of tokens of a run.
        out: Array for the fingerprints, uint64.
    """
    at = U64(0)
    for t in range(offsets.shape[0] - 1):
        count = U64(offsets[t + 1] - offsets[t])
        if count >= U64(width):
            at = combine_tokens(tokens, U64(offsets[t]), count, width, out, at)


@inlined
def find_fingerprint(h: np.uint64, known: KnownTexts) -> np.int64:
    """Returns the position of a hash among the searched fingerprints, or -1.

    Args:
        h: The hash.
        known: Texts of suites.
    """
    if not has_filter_bit(h, known.filter.words, known.filter.shift):
        return I64(-1)
    searched = known.searched
    return find_sorted(h, searched.keys, searched.first, searched.shift)


@inlined
def hash_run(tokens: np.ndarray, first: np.uint64, length: np.uint64) -> np.uint64:
    """Returns the shingle hash of a run of tokens.

    Args:
        tokens: Token hashes, uint64.
        first: Position of the first token.
        length: Number of tokens.
    """
    h = U64(0)
    for i in range(length):
        h = ((h ^ (h >> U64(32))) + tokens[first + i]) * SHINGLE
    return h ^ (h >> U64(29))


@kernel
def match_short(
    tokens: np.ndarray, first: np.uint64, end: np.uint64, length: np.uint64, short: HashLookup
) -> np.int64:
    """Returns the number of the short text that tokens are, or -1.

    Args:
        tokens: Token hashes, uint64.
        first: Position of the first token.
        end: Position after the last token of the document.
        length: Number of tokens.
        short: Hashes of the short texts.
    """
    if first + length > end:
        return I64(-1)
    h = hash_run(tokens, first, length)
    return find_sorted(h, short.keys, short.first, short.shift)


@kernel
def fill_word_table(words: np.ndarray, rows: np.ndarray, shift: np.uint64) -> None:
    """Enters words into a table.

    Args:
        words: Distinct hashes of words, uint64 (n,).
        rows: Rows of zeros, uint64 (2^k, 2), more than words. See `WordTable`.
        shift: Number of bits by which a hash is shifted to give its first row.
    """
    mask = U64(rows.shape[0]) - U64(1)
    for i in range(U64(words.shape[0])):
        at = words[i] >> shift
        while rows[at, U64(1)] != U64(0):
            at = (at + U64(1)) & mask
        rows[at, U64(0)] = words[i]
        rows[at, U64(1)] = i + U64(1)


def make_word_table(words: np.ndarray) -> WordTable:
    """Returns the table of some words.

    Args:
        words: Distinct hashes of words, uint64 (n,).
    """
    bits = (2 * len(words)).bit_length()
    table = WordTable(np.zeros((1 << max(1, bits), 2), np.uint64), U64(64 - max(1, bits)))
    fill_word_table(words, table.rows, table.shift)
    return table


@inlined
def find_row(token: np.uint64, rows: np.ndarray, shift: np.uint64) -> np.uint64:
    """Returns the row of a word in a table, or the empty row at which the search for it ends.

    Args:
        token: Hash of the word.
        rows: Rows of a table, whose second column is 0 in empty rows alone. See `WordTable`.
        shift: Number of bits by which a hash is shifted to give its first row.
    """
    mask = U64(rows.shape[0]) - U64(1)
    at = token >> shift
    while rows[at, U64(0)] != token and rows[at, U64(1)] != U64(0):
        at = (at + U64(1)) & mask
    return at


@kernel
def find_words(tokens: np.ndarray, table: WordTable, numbers: np.ndarray) -> None:
    """Looks up the numbers of words.

    Args:
        tokens: Hashes of words that are in the table, uint64 (n,).
        table: The table.
        numbers: Array for the numbers, int64 (n,).
    """
    rows = borrow(table.rows)
    for i in range(U64(tokens.shape[0])):
        row = find_row(tokens[i], rows, table.shift)
        numbers[i] = I64(rows[row, U64(1)] - U64(1))


@kernel
def count_items(
    words: np.ndarray, items: np.ndarray, last_items: np.ndarray, counts: np.ndarray
) -> None:
    """Counts the items with each word.

    Args:
        words: Numbers of words, int64 (n,).
        items: Number of the item of each word, int64 (n,), ascending.
        last_items: Array in which the last item with each word is written, int64 (w,), of -1.
        counts: Array in which the items with each word are counted, int64 (w,).
    """
    for i in range(U64(words.shape[0])):
        word = U64(words[i])
        if last_items[word] != items[i]:
            last_items[word] = items[i]
            counts[word] += I64(1)


def number_words(tokens: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Returns the position of each word among distinct words, int64 (n,).

    A table is several times faster than `numpy.searchsorted` and `numpy.unique` on millions.

    Args:
        tokens: Hashes of words, uint64 (n,), all of which are among `words`.
        words: Distinct hashes of words, uint64 (w,).

    Examples:
        >>> number_words(np.array([7, 5, 7], np.uint64), np.array([5, 7], np.uint64)).tolist()
        [1, 0, 1]
    """
    numbers = np.empty(len(tokens), np.int64)
    find_words(tokens, make_word_table(words), numbers)
    return numbers


@kernel
def begins_short_text(
    tokens: np.ndarray,
    first: np.uint64,
    end: np.uint64,
    lengths: np.uint64,
    short: HashLookup,
) -> bool:
    """Returns whether a short text begins at a position.

    Args:
        tokens: Token hashes, uint64.
        first: The position.
        end: Position after the last token of the document.
        lengths: Bit L is set if a short text of L words begins with the token.
        short: Hashes of the short texts.
    """
    length = U64(1)
    while lengths >> length:
        is_length = (lengths >> length) & U64(1) != U64(0)
        if is_length and match_short(tokens, first, end, length, short) >= I64(0):
            return True
        length += U64(1)
    return False


@inlined
def is_known_part(tokens: np.ndarray, first: np.uint64, parts: KnownParts) -> bool:
    """Returns whether a run of tokens may be a part of a fingerprint.

    Args:
        tokens: Token hashes, uint64.
        first: Position of the first token.
        parts: Parts of fingerprints.
    """
    h = hash_run(tokens, first, U64(parts.width))
    return has_filter_bit(h, parts.filter.words, parts.filter.shift)


@inlined
def has_fingerprint(
    tokens: np.ndarray,
    first: np.uint64,
    end: np.uint64,
    width: np.uint64,
    texts: KnownTexts,
    parts: KnownParts,
) -> bool:
    """Returns whether a run of `width` tokens of a document is a fingerprint that is searched for.

    Each run consists of `steps` + 1 parts, of which exactly one begins at a multiple of that. So
    most documents need a look at few parts. Around a known one, all parts of a run must be known.

    Args:
        tokens: Token hashes, uint64.
        first: Position of the first token of the document.
        end: Position after its last token.
        width: Number of tokens of a fingerprint.
        texts: Texts of suites.
        parts: Parts of their fingerprints.
    """
    part_width = U64(parts.width)
    steps = width - part_width
    at = first
    while at + part_width <= end:
        if is_known_part(tokens, at, parts):
            start = at
            while start > first and at - start < steps:
                if not is_known_part(tokens, start - U64(1), parts):
                    break
                start -= U64(1)
            last = at
            while last + part_width < end and last - at < steps:
                if not is_known_part(tokens, last + U64(1), parts):
                    break
                last += U64(1)
            while start + steps <= last:
                if find_fingerprint(hash_run(tokens, start, width), texts) >= I64(0):
                    return True
                start += U64(1)
        at += steps + U64(1)
    return False


@kernel
def scan_documents(
    tokens: np.ndarray,
    offsets: np.ndarray,
    numbers: np.ndarray,
    width: int,
    texts: KnownTexts,
    parts: KnownParts,
    words: KnownWords,
    counts: np.ndarray,
    out: np.ndarray,
) -> None:
    """Counts the documents with each known word, and marks those that may hold an item.

    Args:
        tokens: Token hashes, uint64.
        offsets: First token of each document, and the end, int64 (documents + 1,).
        numbers: Number of each document, int64 (documents,), below 2^32 - 1.
        width: Number of tokens of a fingerprint.
        texts: Texts of suites.
        parts: Parts of their fingerprints.
        words: Words of suites.
        counts: Rows of the table of words, uint64 (2^k, 2), with a count in place of the number of
            a word: the last document with it in the upper half, and the number of documents in the
            lower half; NO_DOCUMENT at first. So a word needs one line of the cache.
        out: Array for the marks, bool (documents,).
    """
    tokens, counts = borrow(tokens), borrow(counts)
    texts, words = borrow(texts), borrow(words)
    parts = borrow(parts)
    shift = words.table.shift
    documents = offsets.shape[0] - 1
    for d in range(documents):
        first, end = U64(offsets[d]), U64(offsets[d + 1])
        out[d] = has_fingerprint(tokens, first, end, U64(width), texts, parts)
    has_words = words.lengths.shape[0] > 0
    has_short = words.short.keys.shape[0] > 0
    for d in range(documents):
        first, end = U64(offsets[d]), U64(offsets[d + 1])
        document = U64(numbers[d])
        is_candidate = out[d]
        if has_words:
            for i in range(first, end):
                row = find_row(tokens[i], counts, shift)
                last = counts[row, U64(1)]
                if last == U64(0):
                    continue
                # Adding 0 is faster than a branch that cannot be predicted.
                is_first = U64(last >> U64(32) != document)
                counts[row, U64(1)] = (document << U64(32)) | ((last & LOW_HALF) + is_first)
                if has_short and not is_candidate:
                    lengths = words.lengths[row]
                    is_candidate = begins_short_text(tokens, U64(i), end, lengths, words.short)
        out[d] = is_candidate


@kernel
def find_passages(
    tokens: np.ndarray,
    offsets: np.ndarray,
    numbers: np.ndarray,
    width: int,
    texts: KnownTexts,
    most: int,
    most_further: int,
    hashes: np.ndarray,
    entries: np.ndarray,
    seen_by: np.ndarray,
    counts: np.ndarray,
    longest: np.ndarray,
    reached: np.ndarray,
    longest_reached: np.ndarray,
    out: np.ndarray,
) -> np.int64:
    """Writes the passages of at least `width` tokens that documents and texts of suites share.

    After the first `most` passages of a document and a text, one counts if it is longer than those
    that it overlaps, directly or through others; if it is as long as the longest of them, and at
    least half of it is after the last one of that length; or if at least half of it is after the
    ends of all before. So a copy of a text counts, unless half of it is in another copy. After
    `most_further` such passages of a document, those before are the passages of all texts, and only
    longer ones count besides.

    Args:
        tokens: Token hashes, uint64.
        offsets: First token of each document, and the end, int64 (documents + 1,).
        numbers: Number of each document, int64 (documents,), at least 0.
        width: Smallest number of tokens.
        texts: Texts of suites.
        most: Number of passages of a document and a text that are all written.
        most_further: Number of further passages of a document that are compared with those of
            their own text alone.
        hashes: Buffer of as many elements as the longest document has tokens, uint64.
        entries: Buffer of the same size, int64.
        seen_by: Number of the last document with each text, int64 (texts,), all -1 at first.
        counts: Buffer, int64 (texts,).
        longest: Buffer, int64 (texts,).
        reached: Buffer, int64 (texts,).
        longest_reached: Buffer, int64 (texts,).
        out: Array for the position of the document, the number of the text, the first token in the
            document and in the text, and the number of tokens, int64 (m, 5).

    Returns:
        The number of passages. If there are more than `out` has room for, the others are left out.
    """
    tokens, hashes = borrow(tokens), borrow(hashes)
    entries = borrow(entries)
    texts = borrow(texts)
    seen_by = borrow(seen_by)
    counts, longest = borrow(counts), borrow(longest)
    reached, longest_reached = borrow(reached), borrow(longest_reached)
    found = I64(0)
    for d in range(offsets.shape[0] - 1):
        first = U64(offsets[d])
        size = U64(offsets[d + 1]) - first
        if size < U64(width):
            continue
        count = combine_tokens(tokens, first, size, width, hashes, U64(0))
        for i in range(count):
            entries[i] = find_fingerprint(hashes[i], texts)
        further = I64(0)
        reached_by_any = I64(0)
        for i in range(count):
            if entries[i] < I64(0):
                continue
            entry = U64(entries[i])
            for q in range(U64(texts.place_bounds[entry]), U64(texts.place_bounds[entry + U64(1)])):
                place = U64(texts.places[q])
                text = U64(texts.texts[place])
                begin = U64(texts.bounds[text])
                end = U64(texts.bounds[text + U64(1)])
                before = U64(0)
                is_known = False
                while before < i and before < place - begin:
                    other = i - before - U64(1)
                    if texts.fingerprints[place - before - U64(1)] != hashes[other]:
                        break
                    if entries[other] >= I64(0):
                        # The passage was found from an earlier fingerprint.
                        is_known = True
                        break
                    before += U64(1)
                if is_known:
                    continue
                after = U64(1)
                while i + after < count and place + after < end:
                    if texts.fingerprints[place + after] != hashes[i + after]:
                        break
                    after += U64(1)
                length = I64(before + after + U64(width) - U64(1))
                if seen_by[text] != numbers[d]:
                    seen_by[text] = numbers[d]
                    counts[text] = I64(0)
                    longest[text] = I64(0)
                    reached[text] = I64(0)
                    longest_reached[text] = I64(0)
                passage_end = I64(i - before) + length
                has_many = further >= I64(most_further)
                if not has_many and passage_end - length >= reached[text]:
                    # It overlaps no passage before.
                    longest[text] = I64(0)
                if counts[text] >= I64(most):
                    end_before = reached[text]
                    if has_many:
                        end_before = reached_by_any
                    elif length == longest[text]:
                        end_before = longest_reached[text]
                    is_longer = length > longest[text]
                    if not is_longer and I64(2) * (passage_end - end_before) < length:
                        continue
                    further += I64(1)
                counts[text] += I64(1)
                if length >= longest[text]:
                    longest[text] = length
                    longest_reached[text] = passage_end
                reached[text] = max(reached[text], passage_end)
                reached_by_any = max(reached_by_any, passage_end)
                if found < out.shape[0]:
                    row = U64(found)
                    out[row, U64(0)] = I64(d)
                    out[row, U64(1)] = I64(text)
                    out[row, U64(2)] = I64(i - before)
                    out[row, U64(3)] = I64(place - before - begin)
                    out[row, U64(4)] = length
                found += I64(1)
    return found


@kernel
def find_short_texts(
    tokens: np.ndarray,
    offsets: np.ndarray,
    words: KnownWords,
    most: int,
    seen_by: np.ndarray,
    counts: np.ndarray,
    ends: np.ndarray,
    out: np.ndarray,
) -> np.int64:
    """Writes the places of short texts in each document.

    After the first `most` places of a text in a document, one counts if it overlaps none of those
    that count.

    Args:
        tokens: Token hashes, uint64.
        offsets: First token of each document, and the end, int64 (documents + 1,).
        words: Words of suites, and the short texts.
        most: Number of places of a text in a document that all count.
        seen_by: Position of the last document with each text, int64 (texts,), all -1 at first.
        counts: Buffer, int64 (texts,).
        ends: Buffer, int64 (texts,).
        out: Array for the position of the document, the number of the text, that of its first
            token in the document, and the number of tokens, int64 (m, 4).

    Returns:
        The number of places. If there are more than `out` has room for, the others are left out.
    """
    tokens, words = borrow(tokens), borrow(words)
    seen_by, counts = borrow(seen_by), borrow(counts)
    ends = borrow(ends)
    found = I64(0)
    rows = words.table.rows
    if words.short.keys.shape[0] == 0:
        return found
    for d in range(offsets.shape[0] - 1):
        first = U64(offsets[d])
        end = U64(offsets[d + 1])
        for i in range(first, end):
            row = find_row(tokens[i], rows, words.table.shift)
            if rows[row, U64(1)] == U64(0):
                continue
            lengths = words.lengths[row]
            length = U64(1)
            while lengths >> length:
                text = I64(-1)
                if (lengths >> length) & U64(1):
                    text = match_short(tokens, U64(i), end, length, words.short)
                if text >= I64(0) and seen_by[U64(text)] != I64(d):
                    seen_by[U64(text)] = I64(d)
                    counts[U64(text)] = I64(0)
                    ends[U64(text)] = I64(0)
                if text >= I64(0) and (counts[U64(text)] < I64(most) or I64(i) >= ends[U64(text)]):
                    counts[U64(text)] += I64(1)
                    ends[U64(text)] = I64(i + length)
                    if found < out.shape[0]:
                        row = U64(found)
                        out[row, U64(0)] = I64(d)
                        out[row, U64(1)] = text
                        out[row, U64(2)] = I64(i - first)
                        out[row, U64(3)] = I64(length)
                    found += I64(1)
                length += U64(1)
    return found


@kernel
def find_chains(
    passages: np.ndarray,
    text_words: np.ndarray,
    weights: np.ndarray,
    needed: np.ndarray,
    gap: int,
    out: np.ndarray,
) -> np.int64:
    """Writes the best chain that begins with each passage, if it covers enough of its text.

    A chain is one passage, or two of which the second one begins later in the document and ends
    later in both, at most `gap` tokens after the first one. The second passage counts from where it
    no longer overlaps the first one.

    Args:
        passages: Result of `find_passages`, int64 (m, 5), ordered by document, text, and position
            in the document and in the text.
        text_words: First word of each text in `weights`, int64 (texts + 1,).
        weights: Sums of the weights of all words before each one, int64 (words + 1,).
        needed: Weight that a chain must cover of each text, int64 (texts,).
        gap: Largest number of tokens between two passages, or -1 for chains of one passage.
        out: Array for the number of the first passage, that of the second one or -1, the number of
            tokens that the second one overlaps, and the covered weight, int64 (m, 4).

    Returns:
        The number of chains.
    """
    found = U64(0)
    count = U64(passages.shape[0])
    for a in range(count):
        text = U64(passages[a, U64(1)])
        base = U64(text_words[text])
        length = passages[a, U64(4)]
        end = passages[a, U64(2)] + length
        text_end = passages[a, U64(3)] + length
        own = weights[base + U64(text_end)] - weights[base + U64(passages[a, U64(3)])]
        best = own
        partner = I64(-1)
        overlap = I64(0)
        for b in range(a + U64(1), count):
            is_other = (
                passages[b, U64(0)] != passages[a, U64(0)]
                or passages[b, U64(1)] != passages[a, U64(1)]
            )
            if is_other or gap < 0 or passages[b, U64(2)] > end + I64(gap):
                break
            shared = max(I64(0), end - passages[b, U64(2)], text_end - passages[b, U64(3)])
            if shared >= passages[b, U64(4)]:
                continue
            start = passages[b, U64(2)] + shared
            text_start = passages[b, U64(3)] + shared
            if start - end > I64(gap) or text_start - text_end > I64(gap):
                continue
            other_end = passages[b, U64(3)] + passages[b, U64(4)]
            total = own + weights[base + U64(other_end)] - weights[base + U64(text_start)]
            if total > best:
                best = total
                partner = I64(b)
                overlap = shared
        if best >= needed[text]:
            out[found, U64(0)] = I64(a)
            out[found, U64(1)] = partner
            out[found, U64(2)] = overlap
            out[found, U64(3)] = best
            found += U64(1)
    return I64(found)
