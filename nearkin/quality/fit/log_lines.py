"""Recognizes lines of logs, which are duplicates if they differ in values only.

Lines of logs are made from few templates, and have values that only machines write: times with
seconds, addresses, paths, and hexadecimal numbers. The masks of the preset `logs` replace values.
Forms, titles and records can also be equal but for numbers and dates, and are distinct then.
"""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nearkin.settings.spec import MASK_STEPS
from nearkin.stages.shingle.masks import MASKS, SECONDS, START, mask_texts

MACHINE_VALUE = "|".join(
    [
        rf"(?:{START}|[0-9]T){SECONDS}\b",
        *(MASKS[step].pattern for step in ("uuid", "ip", "path", "hex")),
    ]
)
"""A value that people rarely write."""
WORDS = r"(?:\b[\pL_]{2,}\b.*){2}"
"""The pattern of a text of two words or more. Lists of addresses are not logs."""
LEAST_TEXTS = 2
"""The number of different texts from which equal masked texts are those of a template."""
MOST_BYTES = 1000
"""The size from which a text is not a line of a log. Long texts are not searched for values."""
LEAST_SHARE = 0.5
"""The share of the texts that are made from a template, and of those that have a value of machines,
from which texts are lines of logs."""


class LogShares(NamedTuple):
    """The shares of texts that show whether they are lines of logs."""

    repeated: float
    """The share that is equal to others but for values."""
    machine: float
    """The share that has a value of machines."""

    @property
    def are_logs(self) -> bool:
        """True if the texts are lines of logs."""
        return min(self) >= LEAST_SHARE


def measure_log_shares(texts: pa.Array) -> LogShares:
    """Returns the shares of texts, large_string (n,), that look like lines of logs.

    Examples:
        >>> lines = [f"10:00:0{second} disk sda has 0 errors" for second in range(9)]
        >>> measure_log_shares(pa.array(lines, pa.large_string())).are_logs
        True
        >>> cards = [f"Birthday card for child no. {age}" for age in range(9)]
        >>> measure_log_shares(pa.array(cards, pa.large_string())).are_logs
        False
    """
    lines = texts.filter(pc.less(pc.binary_length(texts), MOST_BYTES))
    if len(lines) < LEAST_SHARE * len(texts) or not len(lines):
        return LogShares(0.0, 0.0)
    table = pa.table({"masked": mask_texts(lines, MASK_STEPS), "text": lines})
    templates = table.group_by("masked").aggregate([("text", "count"), ("text", "count_distinct")])
    has_words = pc.match_substring_regex(_without_values(templates["masked"]), WORDS)
    is_template = pc.and_(
        has_words, pc.greater_equal(templates["text_count_distinct"], LEAST_TEXTS)
    )
    repeated = pc.sum(pc.if_else(is_template, templates["text_count"], 0)).as_py()
    machine = pc.sum(pc.match_substring_regex(lines, MACHINE_VALUE)).as_py()
    return LogShares(repeated / len(texts), machine / len(texts))


def _without_values(masked: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns masked texts without the names of the kinds of values."""
    return pc.replace_substring_regex(masked, rf"\b(?:{'|'.join(MASK_STEPS)})\b", "")
