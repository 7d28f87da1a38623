"""Shingles as readable text, for reports and explanations that show a user what documents share."""

import re

from nearkin.settings.spec import Spec

WORD = re.compile(r"\w+")


def split_units(text: str, spec: Spec) -> tuple[list[str], str]:
    """Splits a text into the units that shingles consist of, in lower case.

    Normalization steps of the Spec other than lower-casing are not applied.
    """
    if spec.unit == "words":
        return WORD.findall(text.lower()), " "
    return list(" ".join(text.lower().split())), ""


def shingle_texts(text: str, spec: Spec) -> list[str]:
    """Returns the shingles of a text as lower-case text, in order and with repetitions.

    They are close to what is hashed: other normalization steps of the Spec are not applied.

    Examples:
        >>> shingle_texts("The cat sat down.", Spec(n=3))
        ['the cat sat', 'cat sat down']
    """
    units, separator = split_units(text, spec)
    if not units:
        return []
    return [separator.join(units[i : i + spec.n]) for i in range(max(1, len(units) - spec.n + 1))]
