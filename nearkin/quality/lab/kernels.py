"""Kernels that generate synthetic documents.

A synthetic document is a function of (seed, group, member), so rows can be generated in any order
and repeatedly. A token consists of the number of a word (24 bits), the number of a typo (7 bits, 0
for none) and the bit SENTENCE, which is set at the end of a sentence.
"""

import numpy as np

from nearkin.runtime.jit import kernel
from nearkin.stages.hashing.kernels import mix64

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64
GOLDEN = U64(0x9E3779B97F4A7C15)
"""The number 2⁶⁴ divided by the golden ratio. Random streams advance by it."""
WORD = U32(0xFFFFFF)
"""The bits of a token that hold the number of its word."""
SENTENCE = U32(1 << 31)
"""The bit of a token that ends a sentence."""
TYPO = U32(24)
"""The position of the bits of a token that hold the number of its typo."""
SENTENCE_WORDS = U64(12)
"""The approximate mean number of words of a sentence. Sentences have 4 to 19 words."""
BOILERPLATE_WORDS = U64(60)
"""The number of words of a paragraph of boilerplate."""
FULL_STOP = U8(46)
SPACE = U8(32)
LINE_FEED = U8(10)
SUBSTITUTE = 0
DELETE = 1
INSERT = 2
SWAP = 3
MISSPELL = 4
COSTS = (6, 5, 5, 12, 6)
"""The number of 3-word shingles that each operation removes or adds, by its number."""


@kernel
def start_stream(seed: np.uint64, group: np.uint64, member: np.uint64) -> np.uint64:
    """Returns the initial state of an independent random stream.

    Args:
        seed: Seed of all streams.
        group: Number of a group of documents.
        member: Number of a document in its group.
    """
    return mix64(mix64(mix64(seed + GOLDEN) ^ (group * GOLDEN)) + member * U64(0xD6E8FEB86659FD93))


@kernel
def random_below(state: np.uint64, bound: np.uint64) -> np.uint64:
    """Returns a number in [0, bound) that follows from a state.

    Args:
        state: State, a word of 64 bits.
        bound: Number above all results, at least 1.
    """
    return ((mix64(state) >> U64(32)) * bound) >> U64(32)


@kernel
def permute_one(i: np.uint64, n: np.uint64, bits: np.uint64, seed: np.uint64) -> np.uint64:
    """Returns the image of i under a random permutation of [0, n).

    Four Feistel rounds over 2·bits bits are repeated until the value is below n (cycle walking).

    Args:
        i: Number in [0, n).
        n: Size of the permuted range, at most 4^bits.
        bits: Half the number of bits of the Feistel network, less than 32.
        seed: Seed of the permutation.
    """
    mask = (U64(1) << bits) - U64(1)
    x = i
    while True:
        left, right = x >> bits, x & mask
        for r in range(U64(4)):
            left, right = right, left ^ (mix64(right + (seed ^ (r * GOLDEN))) & mask)
        x = (left << bits) | right
        if x < n:
            return x


@kernel
def compose_words(
    state: np.uint64, words: np.uint64, frequencies: np.ndarray, out: np.ndarray
) -> np.uint64:
    """Writes random words in sentences into out and returns their number.

    Args:
        state: State of the random stream.
        words: Number of words.
        frequencies: Numbers of words, each as often as its probability demands, uint32 (n,).
        out: Receives the tokens, uint32, at least `words` of them.
    """
    size = U64(frequencies.shape[0])
    words_to_end = U64(0)
    for i in range(words):
        if words_to_end == U64(0):
            words_to_end = U64(4) + random_below(state, SENTENCE_WORDS + SENTENCE_WORDS - U64(8))
            state += GOLDEN
        token = U32(frequencies[random_below(state, size)])
        state += GOLDEN
        words_to_end -= U64(1)
        out[i] = token | (SENTENCE if words_to_end == U64(0) else U32(0))
    return words


@kernel
def swap_sentences(tokens: np.ndarray, count: np.uint64, at: np.uint64, spare: np.ndarray) -> bool:
    """Exchanges the sentence at a position with the next one.

    Args:
        tokens: Tokens of a document, uint32. They are changed.
        count: Number of tokens of the document.
        at: Position of any token of the sentence.
        spare: Scratch space, uint32, at least as long as the sentence.

    Returns:
        False if the sentence is the last one.
    """
    start = at
    while start > U64(0) and not tokens[start - U64(1)] & SENTENCE:
        start -= U64(1)
    middle = at
    while middle < count and not tokens[middle] & SENTENCE:
        middle += U64(1)
    middle += U64(1)
    end = middle
    while end < count and not tokens[end] & SENTENCE:
        end += U64(1)
    end += U64(1)
    if end > count:
        return False
    spare[: middle - start] = tokens[start:middle]
    tokens[start : start + end - middle] = tokens[middle:end]
    tokens[start + end - middle : end] = spare[: middle - start]
    return True


@kernel
def edit_words(
    tokens: np.ndarray,
    count: np.uint64,
    state: np.uint64,
    budget: np.int64,
    operations: np.ndarray,
    frequencies: np.ndarray,
    spare: np.ndarray,
) -> np.uint64:
    """Applies random operations in place and returns the new number of tokens.

    Operations are applied until the budget is spent.

    Args:
        tokens: Tokens of a document, uint32. They are changed. The caller provides room for one
            more token per insertion.
        count: Number of tokens of the document.
        state: State of the random stream.
        budget: Twice the number of 3-word shingles that may change.
        operations: Operations, each as often as its probability demands.
        frequencies: Numbers of words, each as often as its probability demands, uint32 (n,).
        spare: Scratch space, uint32, at least as long as the longest sentence.
    """
    while budget >= 5 and count > U64(1):
        operation = operations[random_below(state, U64(operations.shape[0]))]
        at = random_below(state + GOLDEN, count)
        word = U32(frequencies[random_below(state + GOLDEN * U64(2), U64(frequencies.shape[0]))])
        typo = U32(1) + U32(random_below(state + GOLDEN * U64(3), U64(126)))
        state += GOLDEN * U64(4)
        end = tokens[at] & SENTENCE
        if operation == SWAP and (
            budget < COSTS[SWAP] or not swap_sentences(tokens, count, at, spare)
        ):
            operation = SUBSTITUTE
        if operation == SUBSTITUTE:
            tokens[at] = word | end
        elif operation == MISSPELL:
            tokens[at] = (tokens[at] & WORD) | (typo << TYPO) | end
        elif operation == DELETE:
            for i in range(at, count - U64(1)):
                tokens[i] = tokens[i + U64(1)]
            count -= U64(1)
        elif operation == INSERT:
            for i in range(count, at, U64(-1)):
                tokens[i] = tokens[i - U64(1)]
            tokens[at] = word
            count += U64(1)
        budget -= COSTS[operation]
    return count


@kernel
def render_tokens(
    tokens: np.ndarray,
    count: np.uint64,
    words: np.ndarray,
    starts: np.ndarray,
    out: np.ndarray,
    at: np.uint64,
) -> np.uint64:
    """Writes tokens as text into out[at:] and returns the end.

    A typo replaces one ASCII letter of its word by another.

    Args:
        tokens: Tokens of a document, uint32.
        count: Number of tokens of the document.
        words: Letters of all words, one after the other, uint8.
        starts: Start of each word in `words`, and the end of the last one.
        out: Receives the text in UTF-8, uint8.
        at: Position in `out` where the text begins.
    """
    for i in range(count):
        token = tokens[i]
        w = token & WORD
        first, size = U64(starts[w]), U64(starts[w + U32(1)] - starts[w])
        for q in range(size):
            out[at + q] = words[first + q]
        typo = U64((token >> TYPO) & U32(127))
        if typo:
            q = at + typo % size
            c = out[q]
            if U8(97) <= c <= U8(122):
                out[q] = U8(97) + U8((U64(c) - U64(97) + U64(1) + typo % U64(25)) % U64(26))
        at += size
        if token & SENTENCE or i + U64(1) == count:
            out[at] = FULL_STOP
            at += U64(1)
        if i + U64(1) < count:
            out[at] = SPACE
            at += U64(1)
    return at


@kernel
def render_documents(
    groups: np.ndarray,
    members: np.ndarray,
    lengths: np.ndarray,
    similarities: np.ndarray,
    boilerplate: np.ndarray,
    seed: np.uint64,
    frequencies: np.ndarray,
    operations: np.ndarray,
    words: np.ndarray,
    starts: np.ndarray,
    tokens: np.ndarray,
    out: np.ndarray,
    offsets: np.ndarray,
) -> None:
    """Writes the texts of documents into out, one after the other, and their offsets.

    Member 0 of a group is its original. The other members are edited copies of it with a planned
    similarity.

    Args:
        groups: Number of the group of each document, shape (m,).
        members: Number of each document in its group, shape (m,).
        lengths: Number of words of each document, equal for all members of a group, shape (m,).
        similarities: Planned similarity of each document to its original, float64 (m,).
        boilerplate: Number of the paragraph that is appended to each document, or -1, shape (m,).
        seed: Seed of all documents.
        frequencies: Numbers of words, each as often as its probability demands, uint32 (n,).
        operations: Operations, each as often as its probability demands.
        words: Letters of all words, one after the other, uint8.
        starts: Start of each word in `words`, and the end of the last one.
        tokens: Scratch space, uint32 of shape (2, room).
        out: Receives the texts in UTF-8, uint8.
        offsets: Receives the start of each text, and the end of the last one, int64 (m + 1,).
    """
    at = U64(0)
    offsets[0] = 0
    for d in range(groups.shape[0]):
        group, member = U64(groups[d]), U64(members[d])
        count = compose_words(
            start_stream(seed, group, U64(0)), U64(lengths[d]), frequencies, tokens[0]
        )
        if member > U64(0):
            budget = np.int64(
                2.0 * np.float64(count) * (1.0 - similarities[d]) / (1.0 + similarities[d])
            )
            count = edit_words(
                tokens[0],
                count,
                start_stream(seed, group, member),
                budget,
                operations,
                frequencies,
                tokens[1],
            )
        at = render_tokens(tokens[0], count, words, starts, out, at)
        if boilerplate[d] >= 0:
            out[at] = LINE_FEED
            count = compose_words(
                start_stream(seed + U64(1), U64(boilerplate[d]), U64(0)),
                BOILERPLATE_WORDS,
                frequencies,
                tokens[0],
            )
            at = render_tokens(tokens[0], count, words, starts, out, at + U64(1))
        offsets[d + 1] = at


@kernel
def permute_all(
    first: int, n: np.uint64, bits: np.uint64, seed: np.uint64, out: np.ndarray
) -> None:
    """Writes the images of first, first + 1, … under a permutation of [0, n).

    Args:
        first: First number, in [0, n).
        n: Size of the permuted range, at most 4^bits.
        bits: Half the number of bits of the Feistel network, less than 32.
        seed: Seed of the permutation.
        out: Receives the images of as many numbers as it is long.
    """
    for i in range(out.shape[0]):
        out[i] = permute_one(U64(first + i), n, bits, seed)


@kernel
def draw_uniform(seed: np.uint64, keys: np.ndarray, out: np.ndarray) -> None:
    """Writes a uniform random number in [0, 1) for each key.

    Args:
        seed: Seed of the numbers.
        keys: Integers of shape (m,). Equal keys receive equal numbers.
        out: Receives the numbers, float64 of shape (m,).
    """
    for i in range(keys.shape[0]):
        out[i] = (
            np.float64(mix64(mix64(seed) ^ (U64(keys[i]) * GOLDEN)) >> U64(11)) / 9007199254740992.0
        )
