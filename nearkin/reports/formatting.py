"""Numbers as text, in the same form in the HTML report, in the terminal and in the console."""

import math

from nearkin.runtime.number_format import format_similarity


def format_bytes(size: int) -> str:
    """Formats a number of bytes in decimal units.

    Examples:
        >>> format_bytes(812), format_bytes(1_340_000_000)
        ('812 B', '1.3 GB')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def format_compact(count: float) -> str:
    """Formats a number so that it is short enough for an axis.

    Examples:
        >>> [format_compact(n) for n in (7, 950, 1000, 1234, 45_678, 999_999, 2_500_000)]
        ['7', '950', '1k', '1.2k', '46k', '1M', '2.5M']
    """
    units = (
        (999.5, 1, ""),
        (999_500, 1000, "k"),
        (999_500_000, 10**6, "M"),
        (math.inf, 10**9, "G"),
    )
    for limit, unit, suffix in units:
        if count < limit:
            value = count / unit
            if unit > 1 and value < 9.95:
                return f"{value:.1f}".removesuffix(".0") + suffix
            return f"{value:.0f}{suffix}"
    return str(count)


def describe_match(similarity: float | None) -> str:
    """Describes why a removed document is a duplicate of the kept one.

    Examples:
        >>> describe_match(0.81234), describe_match(None)
        ('similarity 0.812', 'equal value')
    """
    return "equal value" if similarity is None else f"similarity {format_similarity(similarity)}"
