"""Writes nearkin/shingle/unicode-15.1.0.npz from the module unicodedata.

The tables are committed, so that signatures do not change with the Unicode version of a library.
Run the script with Python 3.13, which has Unicode 15.1.0.
"""

import sys
import unicodedata as u
from pathlib import Path

import numpy as np

VERSION = "15.1.0"
CODE_POINTS = 0x110000
BLOCK = 128
OTHER, WORD, SINGLE, SKIP, SPACE = range(5)
MARK = 1 << 3
DIGIT = 1 << 4
VISIBLE = 1 << 5
UNSTABLE = 1 << 6
CLASS_SHIFT = 8
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


def properties(seconds: set[int]) -> np.ndarray:
    """Returns class, flags and canonical combining class of each code point, uint32."""
    ignorable, space = code_points(IGNORABLE), code_points(WHITE_SPACE)
    out = np.zeros(CODE_POINTS, np.uint32)
    for c in range(CODE_POINTS):
        char = chr(c)
        category = u.category(char)
        if category in ("Cn", "Cs", "Co") and c not in ignorable:
            continue
        kind = class_of(c, char, category, ignorable, space)
        flags = (
            MARK * category.startswith("M")
            | DIGIT * (category == "Nd")
            | VISIBLE * (category[0] in "LMNPS")
        )
        unstable = u.normalize("NFKC", char) != char or c in seconds
        out[c] = kind | flags | UNSTABLE * unstable | u.combining(char) << CLASS_SHIFT
    return out


def class_of(c: int, char: str, category: str, ignorable: set[int], space: set[int]) -> int:
    """Returns the class of a code point for the tokenizer.

    Args:
        c: Code point.
        char: Character of the code point.
        category: General category of the code point, for example `Lu`.
        ignorable: Code points that are skipped.
        space: Code points that are white space.
    """
    if c in ignorable:
        return SKIP
    if c in space:
        return SPACE
    if (category[0] in "LM" or category == "Nl") and u.name(char, "").startswith(UNSPACED):
        return SINGLE
    if category[0] in "LM" or category == "Nd" or char == "_":
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


def decompositions() -> tuple[np.ndarray, np.ndarray]:
    """Returns the position of each code point's NFKD form, and the code points of these forms.

    A position is start << 5 | length, or 0 if there is no form, uint32.
    """
    index, data = np.zeros(CODE_POINTS, np.uint32), []
    for c in range(CODE_POINTS):
        full = u.normalize("NFKD", chr(c)) if not 0xD800 <= c < 0xE000 else chr(c)
        if full != chr(c) and not 0xAC00 <= c < 0xD7A4:
            index[c] = len(data) << 5 | len(full)
            data += map(ord, full)
    return index, np.array(data, np.uint32)


def main() -> None:
    """Writes the tables."""
    if u.unidata_version != VERSION:
        raise SystemExit(
            f"this Python has Unicode {u.unidata_version}; run the script with one that has "
            f"{VERSION}"
        )
    pairs = compositions()
    jamo = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    lower = lower_cases()
    properties_ = properties({second for _, second in pairs} | jamo)
    for c in range(CODE_POINTS):
        if lower[c] != c and not properties_[c] & UNSTABLE and properties_[lower[c]] & UNSTABLE:
            properties_[c] |= UNSTABLE
    decomposed, data = decompositions()
    ordered = sorted(pairs.items())
    arrays = {
        "data": data,
        "pair_keys": np.array([a << 32 | b for (a, b), _ in ordered], np.uint64),
    }
    arrays["pair_values"] = np.array([c for _, c in ordered], np.uint32)
    # the three properties of a code point share one block number
    joint = np.stack(
        [properties_, lower - np.arange(CODE_POINTS, dtype=np.uint32), decomposed], axis=1
    )
    blocks, numbers = np.unique(joint.reshape(-1, BLOCK * 3), axis=0, return_inverse=True)
    arrays["stage"] = numbers.reshape(-1).astype(np.uint16)
    for i, name in enumerate(("properties", "lower", "decomposed")):
        arrays[name] = np.ascontiguousarray(blocks.reshape(-1, BLOCK, 3)[:, :, i]).reshape(-1)
    path = Path(__file__).parent.parent / "nearkin" / "shingle" / f"unicode-{VERSION}.npz"
    np.savez_compressed(path, **arrays)
    sys.stdout.write(f"{path.name}: {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
