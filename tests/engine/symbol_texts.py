"""Texts that have the same words and other symbols, which both engines and an index read."""

SYMBOL_TEXTS = [
    "learn C++ in ten days from a book",
    "learn C# in ten days from a book",
    "learn C in ten days from a book",
    "learn  C ++ in ten days\nfrom a book",
    "solve x+1 for all the numbers",
    "solve x-1 for all the numbers",
    "solve x\u22121 for all the numbers",
    "outside it is -5 degrees at noon",
    "outside it is 5 degrees at noon",
    "the field has 10\u00b2 square metres",
    "the field has 102 square metres",
    "the field has 10\u2082 square metres",
    "we liked this film very much \U0001f600",
    "we liked this film very much \U0001f621",
    "\U0001f600",
    "\U0001f600 ",
    "\U0001f621",
    "!!!",
    "!!!",
    "---",
    "",
    " \u200b\n",
]
SAME_SHINGLES = 8
"""The number of texts that are near-duplicates and have the shingles of a kept one."""
EXACT = 3
"""The number of exact duplicates."""
EMPTY = 2
"""The number of texts without words and symbols."""
