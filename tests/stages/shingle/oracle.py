"""A slow and obvious oracle of tokens and shingles, based on unicodedata of Python."""

import re
import unicodedata as u

import xxhash

UNSPACED = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "IDEOGRAPHIC ",
    "VERTICAL IDEOGRAPHIC",
    "HANGZHOU ",
    "HIRAGANA ",
    "HENTAIGANA ",
    "KATAKANA ",
    "KATAKANA-HIRAGANA ",
    "COMBINING KATAKANA-HIRAGANA",
    "HALFWIDTH KATAKANA",
    "THAI ",
    "LAO ",
    "KHMER ",
    "MYANMAR ",
)
MORE_UNSPACED = (
    *("AHOM ", "BALINESE ", "BATAK ", "BOPOMOFO ", "BRAHMI ", "BUGINESE ", "CHAM ", "CUNEIFORM "),
    *("EGYPTIAN HIEROGLYPH", "JAVANESE ", "KAWI ", "KHITAN SMALL SCRIPT ", "MAKASAR ", "MARCHEN "),
    *("NEW TAI LUE ", "NUSHU ", "PHAGS-PA ", "REJANG ", "SUNDANESE ", "TAI LE ", "TAI THAM "),
    *("TAI VIET ", "TANGUT ", "TIBETAN ", "VAI ", "YI "),
)
"""The further scripts without spaces of version 2."""
IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
SPACES = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
WORD = 2**64


def xxh3(values: list[bytes], seed: int = 0) -> list[int]:
    """Computes the hash with the reference package."""
    return [xxhash.xxh3_64_intdigest(value, seed) for value in values]


SIGNS = ("super", "sub", "fraction", "circle", "square", "compat")
SIGN = 0xF0000
"""A private code point that stands for the first sign. Texts of tests do not have it."""
MINUS = "-"


def lower(c: str) -> str:
    return c.lower() if len(c.lower()) == 1 else "i"


def fold(c: str) -> str:
    """Returns the case fold of a code point, with the further folds of version 2."""
    special = {"İ": "i", "ı": "i", "\u0643": "\u06a9", "\u064a": "\u06cc"}
    folded = special.get(c, c.casefold())
    only_decomposes = u.normalize("NFC", folded) == u.normalize("NFC", c)
    return c if len(folded) > 1 and only_decomposes else folded


def decomposed(c: str) -> str:
    """Returns the compatibility decomposition of version 2, with signs."""
    if c in "\u309b\u309c":
        return chr(ord(c) - 2)
    kind, _, mapping = u.decomposition(c).rpartition(">")
    full = "".join(decomposed(chr(int(part, 16))) for part in mapping.split())
    kind = kind.removeprefix("<")
    is_signed = kind in SIGNS
    if kind == "compat":
        is_signed = any(u.category(part) == "Nd" for part in full)
    sign = chr(SIGN + SIGNS.index(kind)) if is_signed else ""
    return sign + full if full else c


def has_optional_marks(c: str) -> bool:
    names = ("LATIN ", "GREEK ", "CYRILLIC ", "HEBREW ", "ARABIC ")
    return u.category(c)[0] == "L" and u.name(c, "").startswith(names)


def without_marks(text: str, steps: tuple[str, ...], version: int) -> str:
    out = ""
    dropped = "\u0640" if "lower" in steps else ""
    drops = version == 1
    for c in text:
        if u.category(c)[0] == "M":
            out += "" if drops else c
            continue
        if version > 1 and not IGNORABLE.match(c) and c not in dropped:
            drops = has_optional_marks(c)
        out += c
    return out


def without_dots(text: str) -> str:
    """Drops the dot above an i, which has one already."""
    out = list(text)
    for at in [i for i, c in enumerate(out) if c == "i"]:
        end = at + 1
        while end < len(out) and (not out[end] or 0 < u.combining(out[end]) < 230):
            end += 1
        while end < len(out) and out[end] == "\u0307":
            out[end] = ""
            end += 1
    return u.normalize("NFC", "".join(out))


def normalised(text: str, steps: tuple[str, ...], version: int = 2) -> str:
    """Follows the definition in docs/reference/wire-format.md step by step."""
    folds = "lower" in steps and version > 1

    def form(value: str) -> str:
        if version > 1:
            value = "".join(map(decomposed, value))
        value = u.normalize("NFKD", value)
        if "marks" in steps:
            value = without_marks(value, steps, version)
        if folds:
            value = value.replace("\u0345", "\u03b9")
        return u.normalize("NFC", value)

    if "nfkc" in steps:
        text = form(text)
    if folds:
        text = "".join(map(fold, text))
    elif "lower" in steps:
        text = "".join(map(lower, text))
    if "nfkc" in steps:
        text = form(text)
    if folds and "nfkc" in steps:
        text = without_dots(text)
    if "digits" in steps:
        text = "".join("0" if u.category(c) == "Nd" else c for c in text)
    if folds:
        text = text.replace("\u0640", "")
    return IGNORABLE.sub("", text)


def is_sign(c: str) -> bool:
    return len(c) == 1 and SIGN <= ord(c) < SIGN + len(SIGNS)


def kind(c: str, steps: tuple[str, ...], version: int) -> str:
    if is_sign(c):
        return "single" if "symbols" in steps else "sign"
    category = u.category(c)
    if SPACES.fullmatch(c):
        return "space"
    unspaced = UNSPACED if version == 1 else UNSPACED + MORE_UNSPACED
    if (category[0] in "LM" or category == "Nl") and u.name(c, "").startswith(unspaced):
        return "single"
    if category[0] in "LM" or category == "Nd" or c == "_":
        return "word"
    is_token = "punctuation" in steps and category[0] in "LMNPS"
    is_token |= "symbols" in steps and (
        category[0] == "S" or c in "#%&*@\u0609\u060a\u066a\u2030\u2031"
    )
    return "single" if is_token else "other"


def encode(token: str) -> bytes:
    """Returns the UTF-8 of a token. A sign is a code point behind those of Unicode."""
    if is_sign(token):
        return bytes([0xF4, 0x90, 0x80, 0x80 + ord(token) - SIGN])
    return token.encode()


class Content:
    """The tokens of a text, and the symbols between them with what is before them."""

    def __init__(self, text: str, steps: tuple[str, ...], version: int = 2) -> None:
        self.tokens: list[str] = []
        self.symbols: list[tuple[int, int, int]] = []
        inside = False
        clean = normalised(text, steps, version)
        for i, c in enumerate(clean):
            what = kind(c, steps, version)
            if what == "sign":
                within = len(self.tokens[-1].encode()) if inside else 0
                point = 0x110000 + ord(c) - SIGN
                self.symbols.append((point, len(self.tokens) - inside, within))
                continue
            is_minus = c == MINUS and "symbols" in steps and what == "other" and not inside
            if is_minus and u.category(clean[i + 1 : i + 2] or " ") == "Nd":
                what = "single"
            if what == "word" and inside:
                self.tokens[-1] += c
            elif what in ("word", "single"):
                self.tokens.append(c)
            elif what == "other":
                self.symbols.append((ord(c), len(self.tokens), 0))
            inside = what == "word"


def tokens(text: str, steps: tuple[str, ...], version: int = 2) -> list[str]:
    return Content(text, steps, version).tokens


def mix64(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB % WORD
    return x ^ x >> 31


def symbol_sums(symbols: list[tuple[int, int, int]]) -> tuple[int, int]:
    low, high = 0, 0
    for number, (point, preceding, within) in enumerate(symbols, 1):
        e = (point | preceding << 21) ^ within * 0xBF58476D1CE4E5B9 % WORD
        x = (e ^ number * 0x9E3779B97F4A7C15 % WORD) * 0xC2B2AE3D27D4EB4F % WORD
        x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 % WORD
        x ^= x >> 29
        y = x * 0x9E3779B97F4A7C15 % WORD
        low, high = (low + x) % WORD, (high + (y ^ y >> 32)) % WORD
    return low, high


def content_hash(hashes: list[int], symbols: list[tuple[int, int, int]]) -> list[int]:
    """Returns the content hash of shingles and of the symbols between them."""
    low, high = symbol_sums(symbols)
    for i, h in enumerate(hashes):
        t = (h ^ i * 0x9E3779B97F4A7C15 % WORD) * 0xC2B2AE3D27D4EB4F % WORD
        t ^= t >> 32
        v = t * 0x9E3779B97F4A7C15 % WORD
        low, high = (low + t) % WORD, (high + (v ^ v >> 29)) % WORD
    return [mix64((low + len(hashes)) % WORD), mix64(high ^ len(hashes))]


def combine(hashes: list[int]) -> int:
    h = 0
    for token in hashes:
        h = ((h ^ (h >> 32)) + token) * 0xC2B2AE3D27D4EB4F % WORD
    return h ^ (h >> 29)


def windows(items: list, n: int) -> list[list]:
    return [items[i : i + n] for i in range(max(1, len(items) - n + 1))] if items else []


def word_shingles(text: str, n: int, steps: tuple[str, ...], version: int = 2) -> list[int]:
    content = Content(text, steps, version)
    if version > 1 and content.symbols and not content.tokens:
        return [mix64(symbol_sums(content.symbols)[0] ^ len(content.symbols))]
    return [combine(xxh3([encode(t) for t in window])) for window in windows(content.tokens, n)]


def folded_characters(text: str, steps: tuple[str, ...], version: int = 2) -> list[str]:
    return list(SPACES.sub(" ", normalised(text, steps, version)).strip(" "))


def character_shingles(text: str, n: int, steps: tuple[str, ...], version: int = 2) -> list[int]:
    characters = folded_characters(text, steps, version)
    if "symbols" not in steps:
        characters = [c for c in characters if not is_sign(c)]
    return xxh3([b"".join(map(encode, window)) for window in windows(characters, n)])


def word_content_hash(text: str, n: int, steps: tuple[str, ...], version: int = 2) -> list[int]:
    symbols = Content(text, steps, version).symbols if version > 1 else []
    return content_hash(word_shingles(text, n, steps, version), symbols)


def character_content_hash(
    text: str, n: int, steps: tuple[str, ...], version: int = 2
) -> list[int]:
    symbols = []
    size = 0
    for c in folded_characters(text, steps, version):
        if is_sign(c) and "symbols" not in steps:
            symbols.append((0x110000 + ord(c) - SIGN, 0, size))
        else:
            size += len(encode(c))
    return content_hash(character_shingles(text, n, steps, version), symbols)
