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
IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
SPACES = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
WORD = 2**64


def xxh3(values: list[bytes], seed: int = 0) -> list[int]:
    """Computes the hash with the reference package."""
    return [xxhash.xxh3_64_intdigest(value, seed) for value in values]


def lower(c: str) -> str:
    return c.lower() if len(c.lower()) == 1 else "i"


def normalised(text: str, steps: tuple[str, ...]) -> str:
    """Follows the definition in docs/reference/wire-format.md step by step."""

    def form(value: str) -> str:
        if "marks" not in steps:
            return u.normalize("NFKC", value)
        return u.normalize(
            "NFC", "".join(c for c in u.normalize("NFKD", value) if u.category(c)[0] != "M")
        )

    if "nfkc" in steps:
        text = form(text)
    if "lower" in steps:
        text = "".join(map(lower, text))
    if "nfkc" in steps:
        text = form(text)
    if "digits" in steps:
        text = "".join("0" if u.category(c) == "Nd" else c for c in text)
    return IGNORABLE.sub("", text)


def kind(c: str, steps: tuple[str, ...]) -> str:
    category = u.category(c)
    if SPACES.fullmatch(c):
        return "space"
    if (category[0] in "LM" or category == "Nl") and u.name(c, "").startswith(UNSPACED):
        return "single"
    if category[0] in "LM" or category == "Nd" or c == "_":
        return "word"
    return "single" if "punctuation" in steps and category[0] in "LMNPS" else "other"


def tokens(text: str, steps: tuple[str, ...]) -> list[str]:
    out: list[str] = []
    inside = False
    for c in normalised(text, steps):
        what = kind(c, steps)
        if what == "word" and inside:
            out[-1] += c
        elif what in ("word", "single"):
            out.append(c)
        inside = what == "word"
    return out


def combine(hashes: list[int]) -> int:
    h = 0
    for token in hashes:
        h = ((h ^ (h >> 32)) + token) * 0xC2B2AE3D27D4EB4F % WORD
    return h ^ (h >> 29)


def windows(items: list, n: int) -> list[list]:
    return [items[i : i + n] for i in range(max(1, len(items) - n + 1))] if items else []


def word_shingles(text: str, n: int, steps: tuple[str, ...]) -> list[int]:
    return [
        combine(xxh3([t.encode() for t in window])) for window in windows(tokens(text, steps), n)
    ]


def character_shingles(text: str, n: int, steps: tuple[str, ...]) -> list[int]:
    folded = SPACES.sub(" ", normalised(text, steps)).strip(" ")
    return xxh3(["".join(window).encode() for window in windows(list(folded), n)])
