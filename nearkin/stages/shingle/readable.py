"""Shingles as readable text, for reports and explanations that show a user what documents share."""

import re
from unicodedata import category

from nearkin.settings.spec import Spec

WORD = re.compile(r"\w+")
WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")
"""A word, or a sign that can count as a word with the steps `symbols` and `punctuation`."""
MORE_SYMBOLS = frozenset("#%&*@؉؊٪‰‱")
"""The signs that are symbols besides those of the category S."""


def split_units(text: str, spec: Spec) -> tuple[list[str], str]:
    """Splits a text into the units that shingles consist of, in lower case.

    Normalization steps of the Spec other than lower-casing are not applied.
    """
    if spec.unit == "words":
        return _split_words(text.lower(), spec), " "
    return list(" ".join(text.lower().split())), ""


def _split_words(text: str, spec: Spec) -> list[str]:
    """Returns the words of a text, with the signs that a Spec counts as words."""
    if "punctuation" in spec.normalise:
        return WORD_OR_SIGN.findall(text)
    if "symbols" not in spec.normalise:
        return WORD.findall(text)
    return [
        unit
        for unit in WORD_OR_SIGN.findall(text)
        if WORD.match(unit) or unit in MORE_SYMBOLS or category(unit)[0] == "S"
    ]


def shingle_texts(text: str, spec: Spec) -> list[str]:
    """Returns the shingles of a text as lower-case text, in order and with repetitions.

    They are close to what is hashed: other normalization steps of the Spec are not applied.

    Examples:
        >>> shingle_texts("The cat sat down.", Spec(n=3))
        ['the cat sat', 'cat sat down']
        >>> shingle_texts("Jobs in C++, Ada.", Spec(n=3, normalise=("nfkc", "lower", "symbols")))
        ['jobs in c', 'in c +', 'c + +', '+ + ada']
    """
    units, separator = split_units(text, spec)
    if not units:
        return []
    return [separator.join(units[i : i + spec.n]) for i in range(max(1, len(units) - spec.n + 1))]
