"""Writes nearkin/stages/wording/characters-15.1.0.npz from the module unicodedata.

It has the kind of each code point in the wording of a text, with its flags. The table is committed,
so that saved hashes of wordings do not change with the Unicode version of a library. Run the script
with Python 3.13, which has Unicode 15.1.0, after `make_unicode_tables.py`.
"""

import sys
import unicodedata
from pathlib import Path

import numpy as np

from nearkin.stages.shingle.normalization import kernels as normalization
from nearkin.stages.shingle.unicode_tables import tables_for
from nearkin.stages.wording import kernels

VERSION = "15.1.0"
PATH = Path(__file__).parent.parent / "nearkin" / "stages" / "wording" / f"characters-{VERSION}.npz"
CODE_POINTS = 0x110000
LINE_BREAKS = "\n\v\f\r\x85\u2028\u2029"
SIGNS = "+±∓"
"""The symbols that are the sign of a number if they are directly before it, beside dashes."""
DASHES = "-‐‑‒–−﹣"
"""The dashes that can be a minus. An em dash is not one."""
JOINERS = ".,:'’·/⁄∕٫٬"
"""The characters, beside dashes, that belong to a number if they are between two of its digits."""
SENTENCE_ENDS = ".!?…‼⁇⁈⁉؟۔՞։।॥"
"""The characters that end a sentence before white space."""
ENDS_WITHOUT_SPACE = "。｡！？．።"
"""The characters that end a sentence in scripts that write no space after it."""
SYMBOLS_OF_PUNCTUATION = "#%&*/@\\§¶†‡‰‱′″‴‵‶‷⁗※٪؉؊﹟﹠﹡﹨﹪﹫"
"""Characters of the categories P that say something, unlike the punctuation of sentences."""
QUOTES = "`´"
"""Characters of the categories S that are quotes."""
TOKENS = {
    int(normalization.SKIP): kernels.SKIPPED,
    int(normalization.SPACE): kernels.WHITE,
    int(normalization.SINGLE): kernels.LONE_LETTER,
}
"""The kinds of the code points that are of a class of the tokenizer."""


def kind_of(char: str, token_class: int) -> np.uint8:
    """Returns the kind of a character, without flags.

    Unassigned code points are symbols, because many symbols of later versions are pictures.

    Args:
        char: Character.
        token_class: Its class for the tokenizer.
    """
    if token_class in TOKENS:
        return TOKENS[token_class]
    if char in SIGNS:
        return kernels.SIGN
    if char in DASHES:
        return kernels.DASH
    category = unicodedata.category(char)
    if category == "Nd":
        return kernels.DIGIT_KIND
    if category[0] == "N":
        return kernels.NUMERAL
    if unicodedata.decomposition(char).startswith(("<super>", "<sub>")):
        return kernels.SYMBOL
    if token_class == normalization.WORD:
        return kernels.LETTER
    is_punctuation = category[0] == "P" and char not in SYMBOLS_OF_PUNCTUATION
    if is_punctuation or char in QUOTES or category in ("Cc", "Cs"):
        return kernels.OUTSIDE
    return kernels.SYMBOL


def flags_of(char: str, kind: np.uint8) -> int:
    """Returns the flags of a character, or the value of a digit in their place.

    Args:
        char: Character.
        kind: Its kind.
    """
    if kind == kernels.DIGIT_KIND:
        return unicodedata.decimal(char) << int(kernels.VALUE_SHIFT)
    return (
        int(kernels.JOINS) * (char in JOINERS or char in DASHES)
        | int(kernels.ENDS) * (char in SENTENCE_ENDS)
        | int(kernels.ENDS_AT_ONCE) * (char in ENDS_WITHOUT_SPACE)
        | int(kernels.LINE) * (char in LINE_BREAKS)
    )


def main() -> None:
    """Writes the table."""
    if unicodedata.unidata_version != VERSION:
        raise SystemExit(
            f"this Python has Unicode {unicodedata.unidata_version}; run the script with one that "
            f"has {VERSION}"
        )
    tables = tables_for(())
    kinds = np.zeros(CODE_POINTS, np.uint8)
    for c in range(CODE_POINTS):
        char = chr(c)
        where = int(tables.stage[c >> 7]) << 7 | c & 127
        kind = kind_of(char, int(tables.properties[where] & normalization.KIND))
        kinds[c] = int(kind) | flags_of(char, kind)
    np.savez_compressed(PATH, kinds=kinds)
    sys.stdout.write(f"{PATH.name}: {PATH.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
