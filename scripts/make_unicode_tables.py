"""Writes nearkin/stages/shingle/unicode-15.1.0-v1.npz and -v2.npz from the module unicodedata.

There is a file for each version of the contract of texts. The tables are committed, so that
signatures do not change with the Unicode version of a library. Run the script with Python 3.13,
which has Unicode 15.1.0.
"""

import sys
import unicodedata as u
from pathlib import Path

import numpy as np

VERSION = "15.1.0"
CONTRACTS = (1, 2)
CODE_POINTS = 0x110000
BLOCK = 128
OTHER, WORD, SINGLE, SKIP, SPACE = range(5)
MARK = 1 << 3
DIGIT = 1 << 4
VISIBLE = 1 << 5
UNSTABLE = 1 << 6
CLASS_SHIFT = 8
BASE = 1 << 16
SYMBOL = 1 << 17
SIGN = 1 << 18
IGNORABLE = (
    "AD 34F 61C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF "
    "FFA0 FFF0-FFF8 "
    "1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)
WHITE_SPACE = "9-D 20 85 A0 1680 2000-200A 2028 2029 202F 205F 3000"
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
"""The beginnings of the names of letters and marks that are tokens in version 1."""
MORE_UNSPACED = (
    "AHOM ",
    "BALINESE ",
    "BATAK ",
    "BOPOMOFO ",
    "BRAHMI ",
    "BUGINESE ",
    "CHAM ",
    "CUNEIFORM ",
    "EGYPTIAN HIEROGLYPH",
    "JAVANESE ",
    "KAWI ",
    "KHITAN SMALL SCRIPT ",
    "MAKASAR ",
    "MARCHEN ",
    "NEW TAI LUE ",
    "NUSHU ",
    "PHAGS-PA ",
    "REJANG ",
    "SUNDANESE ",
    "TAI LE ",
    "TAI THAM ",
    "TAI VIET ",
    "TANGUT ",
    "TIBETAN ",
    "VAI ",
    "YI ",
)
"""The further scripts without spaces between words of version 2."""
BASES = ("LATIN ", "GREEK ", "CYRILLIC ", "HEBREW ", "ARABIC ")
"""The beginnings of the names of letters whose marks are optional."""
SIGNS = ("super", "sub", "fraction", "circle", "square", "compat")
"""The kinds of compatibility mappings that signs record. `compat` does so if it gives digits."""
FIRST_SIGN = CODE_POINTS
"""The first of the code points of signs, which are behind those of Unicode."""
STAND_IN = 0xFDD0
"""The first of the noncharacters that stand for signs in a Python text, which cannot have them."""
SYMBOLS = "23 25-26 2A 40 609-60A 66A 2030-2031"
"""The symbols that have a category of punctuation: # % & * @ and the signs of per cent."""
FOLDS = {0x130: 0x69, 0x131: 0x69, 0x643: 0x6A9, 0x64A: 0x6CC}
"""The folds of version 2 that are not those of Unicode: i, kaf and ya."""
VOICED_MARKS = {0x309B: 0x3099, 0x309C: 0x309A}
"""The voiced sound marks with a space, which become combining ones in version 2."""
YPOGEGRAMMENI = 0x345
DOT_ABOVE = 0x307


def code_points(text: str) -> set[int]:
    """Returns the code points of ranges in hexadecimal."""
    out = set()
    for part in text.split():
        first, _, last = part.partition("-")
        out |= set(range(int(first, 16), int(last or first, 16) + 1))
    return out


def compositions() -> dict[tuple[int, int], int]:
    """Returns the composites of canonical composition by their two parts.

    Hangul syllables, which are composed by an algorithm, are not included.
    """
    out = {}
    for c in range(CODE_POINTS):
        fields = u.decomposition(chr(c)).split()
        if (
            len(fields) == 2
            and not fields[0].startswith("<")
            and u.normalize("NFC", chr(c)) == chr(c)
        ):
            out[int(fields[0], 16), int(fields[1], 16)] = c
    return out


def properties(seconds: set[int], contract: int) -> np.ndarray:
    """Returns class, flags and canonical combining class of each code point, uint32.

    Args:
        seconds: Code points that compose with one before them.
        contract: Version of the contract.
    """
    ignorable, space = code_points(IGNORABLE), code_points(WHITE_SPACE)
    unspaced = UNSPACED if contract == 1 else UNSPACED + MORE_UNSPACED
    symbols = code_points(SYMBOLS) if contract > 1 else set()
    out = np.zeros(CODE_POINTS, np.uint32)
    for c in range(CODE_POINTS):
        char = chr(c)
        category = u.category(char)
        if category in ("Cn", "Cs", "Co") and c not in ignorable:
            continue
        kind = class_of(c, category, ignorable, space, unspaced)
        flags = (
            MARK * category.startswith("M")
            | DIGIT * (category == "Nd")
            | VISIBLE * (category[0] in "LMNPS")
        )
        if contract > 1:
            flags |= BASE * (category[0] == "L" and u.name(char, "").startswith(BASES))
            flags |= SYMBOL * (category[0] == "S" or c in symbols)
        unstable = u.normalize("NFKC", char) != char or c in seconds
        out[c] = kind | flags | UNSTABLE * unstable | u.combining(char) << CLASS_SHIFT
    return out


def class_of(
    c: int, category: str, ignorable: set[int], space: set[int], unspaced: tuple[str, ...]
) -> int:
    """Returns the class of a code point for the tokenizer.

    Args:
        c: Code point.
        category: General category of the code point, for example `Lu`.
        ignorable: Code points that are skipped.
        space: Code points that are white space.
        unspaced: Beginnings of the names of letters and marks that are tokens.
    """
    if c in ignorable:
        return SKIP
    if c in space:
        return SPACE
    if (category[0] in "LM" or category == "Nl") and u.name(chr(c), "").startswith(unspaced):
        return SINGLE
    if category[0] in "LM" or category == "Nd" or chr(c) == "_":
        return WORD
    return OTHER


def lower_cases() -> np.ndarray:
    """Returns the simple lower case of each code point, uint32. That of U+0130 is i."""
    out = np.arange(CODE_POINTS, dtype=np.uint32)
    for c in range(CODE_POINTS):
        lower = chr(c).lower()
        out[c] = ord(lower) if len(lower) == 1 else ord("i")
        if len(lower) != 1 and c != 0x130:
            raise SystemExit(f"U+{c:04X} has no simple lower case in str.lower")
    return out


def case_folds() -> tuple[np.ndarray, dict[int, str]]:
    """Returns the case folds to one code point, uint32, and those to several.

    A fold that only decomposes the code point is left out.
    """
    out = np.arange(CODE_POINTS, dtype=np.uint32)
    several = {}
    for c in range(CODE_POINTS):
        fold = chr(FOLDS[c]) if c in FOLDS else chr(c).casefold()
        if len(fold) == 1:
            out[c] = ord(fold)
        elif u.normalize("NFC", fold) != u.normalize("NFC", chr(c)):
            several[c] = fold
    return out, several


def decomposition(c: int, contract: int) -> str:
    """Returns the compatibility decomposition of a code point.

    Args:
        c: Code point.
        contract: Version of the contract. In version 2, a sign comes before the result of a
            mapping that loses where a digit or a letter stands.
    """
    if contract == 1:
        return u.normalize("NFKD", chr(c))
    if c in VOICED_MARKS:
        return chr(VOICED_MARKS[c])
    kind, _, mapping = u.decomposition(chr(c)).rpartition(">")
    parts = [decomposition(int(part, 16), contract) for part in mapping.split()]
    full = "".join(parts)
    if not parts:
        return chr(c)
    kind = kind.removeprefix("<")
    if kind not in SIGNS or (kind == "compat" and not any(u.category(x) == "Nd" for x in full)):
        return full
    return chr(STAND_IN + SIGNS.index(kind)) + full


def stored_points(text: str) -> list[int]:
    """Returns the code points of a decomposition, with those of signs."""
    stand_ins = range(STAND_IN, STAND_IN + len(SIGNS))
    shift = FIRST_SIGN - STAND_IN
    return [ord(char) + shift * (ord(char) in stand_ins) for char in text]


def decompositions(contract: int) -> tuple[np.ndarray, list[int]]:
    """Returns the position of each code point's decomposition, and the code points of these.

    A position is start << 5 | length, or 0 if there is no decomposition, uint32.

    Args:
        contract: Version of the contract.
    """
    index, data = np.zeros(CODE_POINTS, np.uint32), []
    for c in range(CODE_POINTS):
        full = decomposition(c, contract) if not 0xD800 <= c < 0xE000 else chr(c)
        if full != chr(c) and not 0xAC00 <= c < 0xD7A4:
            index[c] = len(data) << 5 | len(full)
            data += stored_points(full)
    return index, data


def tables(contract: int) -> dict[str, np.ndarray]:
    """Returns the arrays of a version of the contract.

    Args:
        contract: Version of the contract.
    """
    pairs = compositions()
    jamo = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    properties_ = properties({second for _, second in pairs} | jamo, contract)
    decomposed, data = decompositions(contract)
    several: dict[int, str] = {}
    if contract == 1:
        lower = lower_cases()
    else:
        lower, several = case_folds()
        # a text in lower case of str.lower has i and a dot for U+0130
        pairs[ord("i"), DOT_ABOVE] = ord("i")
        for c in VOICED_MARKS:
            properties_[c] |= UNSTABLE
    for c in range(CODE_POINTS):
        if lower[c] != c and not properties_[c] & UNSTABLE and properties_[lower[c]] & UNSTABLE:
            properties_[c] |= UNSTABLE
    ordered = sorted(pairs.items())
    arrays = {
        "pair_keys": np.array([a << 32 | b for (a, b), _ in ordered], np.uint64),
        "pair_values": np.array([c for _, c in ordered], np.uint32),
    }
    named = {
        "properties": properties_,
        "lower": lower - np.arange(CODE_POINTS, dtype=np.uint32),
        "decomposed": decomposed,
    }
    if contract > 1:
        folded = np.zeros(CODE_POINTS, np.uint32)
        for c, fold in several.items():
            folded[c] = len(data) << 5 | len(fold)
            data += map(ord, fold)
        named["folded"] = folded
        # the signs are one block behind the last code point
        named = {
            name: np.append(values, np.zeros(BLOCK, np.uint32)) for name, values in named.items()
        }
        named["properties"][FIRST_SIGN : FIRST_SIGN + len(SIGNS)] = SKIP | SIGN
    arrays["data"] = np.array(data, np.uint32)
    # the properties of a code point share one block number
    joint = np.stack(list(named.values()), axis=1)
    blocks, numbers = np.unique(joint.reshape(-1, BLOCK * len(named)), axis=0, return_inverse=True)
    arrays["stage"] = numbers.reshape(-1).astype(np.uint16)
    for i, name in enumerate(named):
        arrays[name] = np.ascontiguousarray(blocks.reshape(-1, BLOCK, len(named))[:, :, i]).reshape(
            -1
        )
    return arrays


def main() -> None:
    """Writes the tables."""
    if u.unidata_version != VERSION:
        raise SystemExit(
            f"this Python has Unicode {u.unidata_version}; run the script with one that has "
            f"{VERSION}"
        )
    folder = Path(__file__).parent.parent / "nearkin" / "stages" / "shingle"
    for contract in CONTRACTS:
        path = folder / f"unicode-{VERSION}-v{contract}.npz"
        np.savez_compressed(path, **tables(contract))
        sys.stdout.write(f"{path.name}: {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
