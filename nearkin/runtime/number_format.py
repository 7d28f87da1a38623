"""Counts, shares and similarities as text. Shares never read as 0 or 1 unless they are."""

import math


def format_count(count: int, noun: str) -> str:
    """Formats a number of things, with the noun in the plural unless there is one.

    Examples:
        >>> format_count(1, "row"), format_count(1500, "row"), format_count(0, "row")
        ('1 row', '1,500 rows', '0 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_percent(share: float) -> str:
    """Formats a share as a percentage. Only 0 and 1 themselves read as 0 % and 100 %.

    Examples:
        >>> [format_percent(share) for share in (0, 0.00001, 0.256, 0.9995, 1)]
        ['0%', '<0.1%', '25.6%', '>99.9%', '100%']
    """
    if share in (0, 1):
        return f"{share:.0%}"
    text = f"{share:.1%}"
    return {"0.0%": "<0.1%", "100.0%": ">99.9%"}.get(text, text)


def format_part(count: int, total: int, noun: str = "document") -> str:
    """Formats a number of things with the number of all things, and its share of them.

    Examples:
        >>> format_part(234, 430), format_part(0, 0)
        ('234 of 430 documents (54.4%)', '0 of 0 documents')
    """
    text = f"{count:,} of {format_count(total, noun)}"
    return f"{text} ({format_percent(count / total)})" if total else text


def format_similarity(similarity: float, digits: int = 3) -> str:
    """Formats a similarity, rounded down.

    Only equal sets read as 1, and no similarity below a threshold reads as the threshold.

    Examples:
        >>> format_similarity(0.99996), format_similarity(0.8), format_similarity(1.0)
        ('0.999', '0.800', '1.000')
        >>> format_similarity(0.79999, digits=4)
        '0.7999'
    """
    scale = 10**digits
    return f"{math.floor(similarity * scale + 1e-9) / scale:.{digits}f}"


def format_fraction(value: float, digits: int = 3) -> str:
    """Formats a share, a probability or an estimate. Only 0 and 1 themselves read as 0 and 1.

    Examples:
        >>> [format_fraction(value) for value in (0, 0.00001, 0.2567, 0.9995, 1)]
        ['0.000', '0.001', '0.257', '0.999', '1.000']
    """
    least = 10**-digits
    if 0 < value < 1:
        value = min(max(value, least), 1 - least)
    return f"{value:.{digits}f}"
