"""Kernels of the wording of texts: its words, numbers and symbols, and what they say.

A token of a wording is a word of 64 bits: 60 bits of a hash, its type, and where it is: BEGINS if a
sentence or a line begins with it, and ATTACHED if no white space is before it. Two tokens say the
same if their types and hashes, the bits of SAID, are equal.

The kind of a code point has four bits. In the other four are the value of a digit, or the flags of
JOINS and the following constants.
"""

import numpy as np

from nearkin.runtime.jit import inlined, kernel
from nearkin.stages.hashing.kernels import borrow
from nearkin.stages.shingle.kernels import SHINGLE
from nearkin.stages.shingle.normalization.kernels import KIND as CLASS
from nearkin.stages.shingle.normalization.kernels import SKIP, CodePointTables, normalise, place
from nearkin.stages.shingle.tokens.kernels import decode_at, point_size

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

BEGINS = U64(1)
ATTACHED = U64(2)
WORD = U64(4)
NUMBER = U64(8)
SYMBOL_TOKEN = U64(12)
TYPE = U64(12)
HASH = ~U64(15)
SAID = ~U64(3)

OUTSIDE = U8(0)
WHITE = U8(1)
SKIPPED = U8(2)
LETTER = U8(3)
LONE_LETTER = U8(4)
DIGIT_KIND = U8(5)
NUMERAL = U8(6)
SYMBOL = U8(7)
DASH = U8(8)
SIGN = U8(9)
KIND = U8(15)
START = U8(10)
"""What is before the first token of a text."""
SHORT_WORD = U8(11)
"""A word of up to SHORT letters, as `LETTER`, if it is before something."""

"""The kinds of code points. OUTSIDE: punctuation, which says nothing. LETTER: a part of a word.
LONE_LETTER: a word of its own, in scripts without spaces. NUMERAL: a part of a number that is not a
decimal digit, for example ². DASH: a minus if a number follows. SIGN: a symbol that is a part of a
number which it is directly before.
"""

VALUE_SHIFT = U8(4)
JOINS = U8(16)
ENDS = U8(32)
ENDS_AT_ONCE = U8(64)
LINE = U8(128)

"""The flags of kinds. JOINS: It belongs to a number between two of its digits. ENDS: It ends a
sentence before white space. ENDS_AT_ONCE: It ends a sentence. LINE: It ends a line.
"""

SHORT = U64(2)
"""The number of letters of a word up to which a full stop after it may be that of an
abbreviation."""
WORD_BYTES = U64(512)
"""The number of bytes after which a longer word continues as another one."""
POINTS = 6 * (512 + 4)
"""The largest number of code points of a normalized word."""
LANES = (U64(0x9E3779B97F4A7C15), U64(0xC2B2AE3D27D4EB4F))
"""The factors of the two words of a hash of tokens."""
FULL_STOP = U32(0x2E)
COMMA = U32(0x2C)
HYPHEN = U32(0x2D)
APOSTROPHE = U32(0x27)
SLASH = U32(0x2F)
ZERO = U32(0x30)
OPENING = U32(0x28)
CLOSING = U32(0x29)
EXCLAMATION_MARK = U32(0x21)
QUOTATION_MARK = U32(0x22)
EQUALS_SIGN = U32(0x3D)
MINUS = U32(0x2212)
FIRST_FULLWIDTH = U32(0xFF01)
FULLWIDTH_COUNT = U32(0x5E)
FIRST_VISIBLE = U32(0x21)


@inlined
def mix(h: np.uint64, c: np.uint32) -> np.uint64:
    """Returns a hash that continues with one more code point.

    Args:
        h: Hash of what is before it.
        c: Code point.
    """
    return U64(((h ^ (h >> U64(32))) + U64(c)) * SHINGLE)


@inlined
def finish_token(h: np.uint64, kind: np.uint64) -> np.uint64:
    """Returns a token without BEGINS and ATTACHED.

    Args:
        h: Hash of its code points.
        kind: Its type.
    """
    return U64(((h ^ (h >> U64(29))) & HASH) | kind)


@inlined
def read_point(data: np.ndarray, at: np.uint64) -> np.uint32:
    """Returns the code point at a position. A fullwidth form of ASCII is read as ASCII.

    Args:
        data: UTF-8 bytes, uint8.
        at: Position of the first byte of the code point.
    """
    c = decode_at(data, at)
    if c - FIRST_FULLWIDTH < FULLWIDTH_COUNT:
        return U32(c - FIRST_FULLWIDTH + FIRST_VISIBLE)
    return c


@kernel
def skip_kind(
    data: np.ndarray, at: np.uint64, end: np.uint64, kind: np.uint8, kinds: np.ndarray
) -> np.uint64:
    """Returns the first position from `at` on whose code point is not of a kind.

    Args:
        data: UTF-8 bytes, uint8.
        at: Position of the first byte of a code point.
        end: Position after the last byte of the text.
        kind: Kind of code points, which do not end a line.
        kinds: Kind of each code point, uint8.
    """
    while at < end and kinds[read_point(data, at)] == kind:
        at += point_size(data[at])
    return at


@kernel
def begins_number(data: np.ndarray, at: np.uint64, end: np.uint64, kinds: np.ndarray) -> bool:
    """Returns whether a number without a sign begins at a position.

    Args:
        data: UTF-8 bytes, uint8.
        at: Position of the first byte of a code point, or `end`.
        end: Position after the last byte of the text.
        kinds: Kind of each code point, uint8.
    """
    at = skip_kind(data, at, end, SKIPPED, kinds)
    if at >= end:
        return False
    c = read_point(data, at)
    if c in (FULL_STOP, COMMA):
        at = skip_kind(data, at + point_size(data[at]), end, SKIPPED, kinds)
        if at >= end:
            return False
        c = read_point(data, at)
    kind = kinds[c] & KIND
    return bool(kind in (DIGIT_KIND, NUMERAL))


@kernel
def begins_amount(data: np.ndarray, at: np.uint64, end: np.uint64, kinds: np.ndarray) -> bool:
    """Returns whether a symbol, such as that of a currency, and a number begin at a position.

    Args:
        data: UTF-8 bytes, uint8.
        at: Position of the first byte of a code point, or `end`.
        end: Position after the last byte of the text.
        kinds: Kind of each code point, uint8.
    """
    at = skip_kind(data, at, end, SKIPPED, kinds)
    if at >= end or kinds[read_point(data, at)] & KIND != SYMBOL:
        return False
    return bool(begins_number(data, at + point_size(data[at]), end, kinds))


@kernel
def begins_bracketed(data: np.ndarray, at: np.uint64, end: np.uint64, kinds: np.ndarray) -> bool:
    """Returns whether nothing but a number, with or without a symbol, is in an open bracket.

    Args:
        data: UTF-8 bytes of a text, uint8.
        at: Position after the bracket.
        end: Position after the last byte of the text.
        kinds: Kind of each code point, uint8.
    """
    at = skip_kind(data, at, end, SKIPPED, kinds)
    if begins_amount(data, at, end, kinds):
        at += point_size(data[at])
    if not begins_number(data, at, end, kinds):
        return False
    _, at = hash_number(data, at, end, U32(0), kinds)
    at = skip_kind(data, at, end, WHITE, kinds)
    if at < end and kinds[read_point(data, at)] & KIND == SYMBOL:
        at = skip_kind(data, at + point_size(data[at]), end, SKIPPED, kinds)
    return bool(at < end and read_point(data, at) == CLOSING)


@inlined
def is_operator(
    data: np.ndarray,
    at: np.uint64,
    end: np.uint64,
    c: np.uint32,
    before: np.uint8,
    kinds: np.ndarray,
) -> bool:
    """Returns whether a sign of sentences says something where it stands.

    It does as a negation of source code (`!=`, `!ready` and `!(a)`), and as a unit after a number
    (`5'` and `5"`).

    Args:
        data: UTF-8 bytes, uint8.
        at: Position after the sign.
        end: Position after the last byte of the text.
        c: Code point of the sign.
        before: Kind of what is before it.
        kinds: Kind of each code point, uint8.
    """
    at = skip_kind(data, at, end, SKIPPED, kinds)
    following = read_point(data, at) if at < end else U32(0)
    is_before_letter = at < end and kinds[following] & KIND in (LETTER, LONE_LETTER)
    if c == EXCLAMATION_MARK:
        is_after_word = before in (LETTER, LONE_LETTER, SHORT_WORD, DIGIT_KIND)
        is_first = not is_after_word and (is_before_letter or following == OPENING)
        return bool(following == EQUALS_SIGN or is_first)
    is_quote = c in (QUOTATION_MARK, APOSTROPHE)
    return bool(is_quote and before == DIGIT_KIND and not is_before_letter)


@inlined
def canonical_joiner(c: np.uint32, kind: np.uint8) -> np.uint32:
    """Returns the form in which a sign between digits is compared.

    Args:
        c: Its code point.
        kind: Its kind.
    """
    if kind == DASH:
        return HYPHEN
    if c == U32(0x2019):
        return APOSTROPHE
    if c == U32(0x2044) or c == U32(0x2215):
        return SLASH
    if c == U32(0x066B):
        return FULL_STOP
    if c == U32(0x066C):
        return COMMA
    return c


@inlined
def hash_number(
    data: np.ndarray, at: np.uint64, end: np.uint64, sign: np.uint32, kinds: np.ndarray
) -> tuple[np.uint64, np.uint64]:
    """Computes the token of a number: digits by their values, and what is between and after them.

    Args:
        data: UTF-8 bytes, uint8.
        at: Position of the first byte after the sign.
        end: Position after the last byte of the text.
        sign: Code point of the sign, or 0.
        kinds: Kind of each code point, uint8.

    Returns:
        The token without BEGINS and ATTACHED, and the position after the number.
    """
    h = NUMBER
    if sign:
        h = mix(h, sign)
    is_after_digit = False
    while at < end:
        c = read_point(data, at)
        entry = kinds[c]
        kind = entry & KIND
        following = at + point_size(data[at])
        if kind == DIGIT_KIND:
            h = mix(h, U32(ZERO + U32(entry >> VALUE_SHIFT)))
        elif kind == NUMERAL:
            h = mix(h, c)
        elif kind == SKIPPED:
            at = following
            continue
        elif entry & JOINS:
            next_at = skip_kind(data, following, end, SKIPPED, kinds)
            if next_at >= end:
                break
            next_kind = kinds[read_point(data, next_at)] & KIND
            if next_kind != DIGIT_KIND and next_kind != NUMERAL:
                break
            h = mix(h, canonical_joiner(c, kind))
            following = next_at
        elif is_after_digit and (c == U32(0x65) or c == U32(0x45)):
            # an exponent, with or without a sign
            exponent_sign = U32(0)
            next_at = following
            if next_at < end:
                exponent_sign = read_point(data, next_at)
                next_kind = kinds[exponent_sign] & KIND
                if next_kind == DASH:
                    exponent_sign = HYPHEN
                if next_kind in (DASH, SIGN):
                    next_at += point_size(data[next_at])
                else:
                    exponent_sign = U32(0)
            if next_at >= end or kinds[read_point(data, next_at)] & KIND != DIGIT_KIND:
                break
            h = mix(h, U32(0x65))
            if exponent_sign:
                h = mix(h, exponent_sign)
            following = next_at
        else:
            break
        is_after_digit = bool(kind == DIGIT_KIND)
        at = following
    return finish_token(h, NUMBER), at


@inlined
def hash_word(
    data: np.ndarray,
    at: np.uint64,
    end: np.uint64,
    kinds: np.ndarray,
    tables: CodePointTables,
    points: np.ndarray,
    spare: np.ndarray,
) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Computes the token of a word, whatever the case and the form of its letters.

    Args:
        data: UTF-8 bytes, uint8.
        at: Position of the first byte of the word.
        end: Position after the last byte of the text.
        kinds: Kind of each code point, uint8.
        tables: Properties of all code points, for NFKC and lower case.
        points: Buffer for the code points of a word, uint32 (POINTS,).
        spare: Another buffer for them, uint32 (POINTS,).

    Returns:
        The token without BEGINS and ATTACHED, the position after the word, and the number of its
        letters.
    """
    first = at
    is_lone = kinds[read_point(data, at)] & KIND == LONE_LETTER
    is_ascii = data[at] < U8(0x80)
    at += point_size(data[at])
    while at < end and not is_lone and at - first < WORD_BYTES:
        kind = kinds[read_point(data, at)] & KIND
        if kind != LETTER and kind != SKIPPED:
            break
        is_ascii = is_ascii and data[at] < U8(0x80)
        at += point_size(data[at])
    h = WORD
    if is_ascii:
        for i in range(first, at):
            c = U32(data[i])
            # U+0041 to U+005A become lower case
            h = mix(h, U32(c + U32(32)) if c - U32(0x41) < U32(26) else c)
        return finish_token(h, WORD), at, at - first
    count = normalise(data, first, at, tables, points, spare)
    letters = U64(0)
    for i in range(count):
        if tables.properties[place(tables.stage, points[i])] & CLASS != SKIP:
            h = mix(h, points[i])
            letters += U64(1)
    return finish_token(h, WORD), at, letters


@inlined
def next_token(
    data: np.ndarray,
    at: np.uint64,
    end: np.uint64,
    before: np.uint8,
    kinds: np.ndarray,
    tables: CodePointTables,
    points: np.ndarray,
    spare: np.ndarray,
) -> tuple[np.uint64, np.uint64, np.uint8]:
    """Finds the next token of a text.

    Args:
        data: UTF-8 bytes, uint8.
        at: Position after the previous token, or that of the first byte.
        end: Position after the last byte of the text.
        before: Kind of the previous token, or START.
        kinds: Kind of each code point, uint8.
        tables: Properties of all code points, for NFKC and lower case.
        points: Buffer for the code points of a word, uint32 (POINTS,).
        spare: Another buffer for them, uint32 (POINTS,).

    Returns:
        The token, or 0 if there is none; the position after it; and its kind.
    """
    begins = before == START
    may_end = False
    is_attached_to_token = before not in (START, WHITE, LONE_LETTER)
    last = U32(0)
    while at < end:
        c = read_point(data, at)
        entry = kinds[c]
        kind = entry & KIND
        following = at + point_size(data[at])
        if kind == SKIPPED:
            at = following
            continue
        if kind == WHITE:
            is_attached_to_token = False
            begins = begins or may_end or entry & LINE != U8(0)
            before = WHITE
            last = c
            at = following
            continue
        is_attached = before in (LETTER, LONE_LETTER, SHORT_WORD, DIGIT_KIND)
        where = BEGINS if begins else U64(0)
        if is_attached_to_token and kind != LONE_LETTER:
            where |= ATTACHED
        if kind in (LETTER, LONE_LETTER):
            token, after, letters = hash_word(data, at, end, kinds, tables, points, spare)
            if kind == LETTER and letters <= SHORT:
                kind = SHORT_WORD
            return token | where, after, kind
        sign = U32(0)
        number_at = end
        if kind in (DIGIT_KIND, NUMERAL):
            number_at = at
        elif c in (FULL_STOP, COMMA):
            if not is_attached and last != FULL_STOP and begins_number(data, at, end, kinds):
                number_at = at
        elif (
            kind in (DASH, SIGN) and not is_attached and begins_number(data, following, end, kinds)
        ):
            sign = HYPHEN if kind == DASH else c
            number_at = following
        if number_at < end:
            token, after = hash_number(data, number_at, end, sign, kinds)
            return token | where, after, DIGIT_KIND
        if kind in (SYMBOL, SIGN) or is_operator(data, following, end, c, before, kinds):
            return finish_token(mix(SYMBOL_TOKEN, c), SYMBOL_TOKEN) | where, following, SYMBOL
        if kind == DASH:
            if not is_attached and begins_amount(data, following, end, kinds):
                return finish_token(mix(NUMBER, HYPHEN), NUMBER) | where, following, SYMBOL
            next_at = skip_kind(data, following, end, WHITE, kinds)
            if c == MINUS or begins_number(data, next_at, end, kinds):
                token = finish_token(mix(SYMBOL_TOKEN, HYPHEN), SYMBOL_TOKEN)
                return token | where, following, SYMBOL
        if c == OPENING and not is_attached and begins_bracketed(data, following, end, kinds):
            return finish_token(mix(NUMBER, c), NUMBER) | where, following, SYMBOL
        if entry & ENDS:
            may_end = may_end or c != FULL_STOP or (before != SHORT_WORD and before != DIGIT_KIND)
        begins = begins or entry & ENDS_AT_ONCE != U8(0)
        before = OUTSIDE
        last = c
        at = following
    return U64(0), end, before


@kernel
def read_wordings(
    data: np.ndarray,
    offsets: np.ndarray,
    lists: np.ndarray,
    kinds: np.ndarray,
    tables: CodePointTables,
    tokens: np.ndarray,
    starts: np.ndarray,
) -> None:
    """Writes the tokens of the wording of each document.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (texts + 1,).
        lists: First text of each document, and the end, int64 (n + 1,).
        kinds: Kind of each code point, uint8.
        tables: Properties of all code points, for NFKC and lower case.
        tokens: Receives the tokens, uint64, with room for one of each byte.
        starts: Receives the first token of each document, and the end, int64 (n + 1,).
    """
    data = borrow(data)
    kinds = borrow(kinds)
    tables = borrow(tables)
    buffer = np.empty((2, POINTS), np.uint32)
    points = borrow(buffer[0])
    spare = borrow(buffer[1])
    count = np.int64(0)
    starts[0] = 0
    for d in range(lists.shape[0] - 1):
        before = START
        for text in range(lists[d], lists[d + 1]):
            at = U64(offsets[text])
            end = U64(offsets[text + 1])
            token = WORD
            while token:
                token, at, before = next_token(data, at, end, before, kinds, tables, points, spare)
                if token:
                    tokens[count] = token
                    count += 1
            before = WHITE
        starts[d + 1] = count


@kernel
def hash_documents(
    tokens: np.ndarray, starts: np.ndarray, numbers: np.ndarray, wordings: np.ndarray
) -> None:
    """Computes a hash of 128 bits of the numbers of each document, and one of all its tokens.

    Args:
        tokens: Tokens of the documents, uint64.
        starts: First token of each document, and the end, int64 (n + 1,).
        numbers: Receives the hashes of the numbers, uint64 (n, 2).
        wordings: Receives the hashes of all tokens, uint64 (n, 2).
    """
    for d in range(starts.shape[0] - 1):
        of_numbers = (U64(0), U64(0))
        of_all = (U64(0), U64(0))
        for i in range(starts[d], starts[d + 1]):
            of_all = add_token(tokens[i], of_all)
            if tokens[i] & TYPE == NUMBER:
                of_numbers = add_token(tokens[i], of_numbers)
        numbers[d, 0], numbers[d, 1] = of_numbers
        wordings[d, 0], wordings[d, 1] = of_all


@inlined
def add_token(token: np.uint64, lanes: tuple[np.uint64, np.uint64]) -> tuple[np.uint64, np.uint64]:
    """Returns the hash of tokens that continue with one more.

    Args:
        token: Token.
        lanes: Both words of the hash of the tokens before it.
    """
    said = token & SAID
    first = ((lanes[0] ^ (lanes[0] >> U64(32))) + said) * LANES[0]
    second = ((lanes[1] ^ (lanes[1] >> U64(32))) + said) * LANES[1]
    return first, second


@inlined
def changes_neighbor(
    outside: np.uint64, inside: np.uint64, later: np.uint64, negations: np.ndarray
) -> bool:
    """Returns whether a token that is beside a run changes what the run says.

    Args:
        outside: Token beside the run.
        inside: The nearest token of the run.
        later: The later one of both, in the document with the token beside the run.
        negations: What the tokens of negations say, sorted, uint64.
    """
    if later & BEGINS:
        return False
    if later & ATTACHED or outside & TYPE == SYMBOL_TOKEN:
        return True
    said = outside & SAID
    at = np.searchsorted(negations, said)
    if at < negations.shape[0] and negations[at] == said:
        return True
    # `cost 5 million` does not say `cost 5`, and a number after a symbol belongs to it
    return bool(inside & TYPE == NUMBER or (outside & TYPE == NUMBER and inside & TYPE != WORD))


@inlined
def say_same(a: np.ndarray, i: int, b: np.ndarray, j: int, size: int) -> bool:
    """Returns whether some tokens of two documents say the same.

    Args:
        a: Tokens of one document, uint64.
        i: Position of the first of them that is compared.
        b: Tokens of the other document, uint64.
        j: Position of the first of them that is compared.
        size: Number of tokens that are compared.
    """
    equal = 0
    while equal < size and not (a[i + equal] ^ b[j + equal]) & SAID:
        equal += 1
    return equal == size


@kernel
def contains_run(removed: np.ndarray, kept: np.ndarray, negations: np.ndarray) -> bool:
    """Returns whether the tokens of one document are a run of those of another one.

    Beside the run may be anything but a symbol, a negation, anything beside a number of the run, a
    number beside a symbol of the run, and the rest of a word, for example that of `can't` beside
    `can`, unless a sentence or a line begins there.

    The search is that of Knuth, Morris and Pratt (1977), which is linear.

    Args:
        removed: Tokens of the one, uint64 (m,).
        kept: Tokens of the other, uint64 (n,).
        negations: What the tokens of negations say, sorted, uint64.
    """
    size = removed.shape[0]
    if size == 0:
        return True
    if size > kept.shape[0]:
        return False
    if size == kept.shape[0]:
        return say_same(removed, 0, kept, 0, size)
    # the longest shorter beginning of the tokens that ends at each of them
    fallback = np.zeros(size, np.int64)
    length = 0
    for i in range(1, size):
        while length and (removed[i] ^ removed[length]) & SAID:
            length = fallback[length - 1]
        if not (removed[i] ^ removed[length]) & SAID:
            length += 1
        fallback[i] = length
    length = 0
    for i in range(kept.shape[0]):
        while length and (kept[i] ^ removed[length]) & SAID:
            length = fallback[length - 1]
        if not (kept[i] ^ removed[length]) & SAID:
            length += 1
        if length == size:
            first = i + 1 - size
            after = i + 1
            is_changed = False
            if first > 0:
                is_changed = changes_neighbor(kept[first - 1], kept[first], kept[first], negations)
            if after < kept.shape[0] and not is_changed:
                is_changed = changes_neighbor(kept[after], kept[i], kept[after], negations)
            if not is_changed:
                return True
            length = fallback[length - 1]
    return False


@inlined
def end_of_sentence(tokens: np.ndarray, first: int) -> int:
    """Returns the position after the sentence, or the line, that begins with a token.

    Args:
        tokens: Tokens of a document, uint64.
        first: Position of the token.
    """
    end = first + 1
    while end < tokens.shape[0] and not tokens[end] & BEGINS:
        end += 1
    return end


@kernel
def contains_sentences(removed: np.ndarray, kept: np.ndarray) -> bool:
    """Returns whether all sentences or lines of one document are in another one, in order.

    Args:
        removed: Tokens of the one, uint64 (m,).
        kept: Tokens of the other, uint64 (n,).
    """
    i = 0
    j = 0
    while i < removed.shape[0]:
        if j >= kept.shape[0]:
            return False
        end = end_of_sentence(removed, i)
        other_end = end_of_sentence(kept, j)
        size = end - i
        if size == other_end - j and say_same(removed, i, kept, j, size):
            i = end
        j = other_end
    return True


@kernel
def find_said(
    removed: np.ndarray,
    kept: np.ndarray,
    starts: np.ndarray,
    tokens: np.ndarray,
    negations: np.ndarray,
    out: np.ndarray,
) -> None:
    """Writes for which pairs of documents the second one says all that the first one says.

    Args:
        removed: Position of the first document of each pair among the stored ones, int64 (m,).
        kept: Position of the second document of each pair, int64 (m,).
        starts: First token of each stored document, and the end, int64 (stored + 1,).
        tokens: Tokens of the wordings of the stored documents, uint64 (starts[-1],).
        negations: What the tokens of negations say, sorted, uint64.
        out: Receives the truth of each pair, bool (m,).
    """
    for pair in range(removed.shape[0]):
        a = tokens[starts[removed[pair]] : starts[removed[pair] + 1]]
        b = tokens[starts[kept[pair]] : starts[kept[pair] + 1]]
        out[pair] = contains_run(a, b, negations) or contains_sentences(a, b)
