"""The section of a dataset card with the figures of a run, and its place in a README.md.

Cards of the Hugging Face Hub are Markdown with metadata in YAML at the beginning.
"""

import json
import re
from collections.abc import Sequence

import numpy as np

from nearkin.errors import UsageError
from nearkin.reports.model import ReportData
from nearkin.reports.row_categories import categorize_rows
from nearkin.runtime.number_format import format_fraction, format_percent
from nearkin.runtime.visible_text import make_visible
from nearkin.settings.spec import HAMMING

BEGIN = "<!-- nearkin card: begin -->"
END = "<!-- nearkin card: end -->"
"""The lines around the section. What is between them is replaced, and nothing else."""
MAX_INPUTS = 20
"""The number of inputs that a card lists."""
SIZE_CATEGORIES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"),
    (1_000_000_000, "100M<n<1B"),
    (10_000_000_000, "1B<n<10B"),
    (100_000_000_000, "10B<n<100B"),
    (1_000_000_000_000, "100B<n<1T"),
)
"""The numbers of rows below which the hub has a category, and the names of the categories."""
LARGEST_CATEGORY = "n>1T"


def render_section(data: ReportData, inputs: Sequence[str]) -> str:
    """Returns the section of a card, with the lines around it."""
    version = "" if data.provenance is None else f" {data.provenance.version}"
    sentence = f"Near-duplicates were removed with nearkin{version}: {data.headline}"
    rows = [("Rows read", f"{data.counts.read:,}")]
    rows += [
        (category.name, f"{category.rows:,} ({format_percent(category.share)})")
        for category in categorize_rows(data)
    ]
    rows += [
        ("Clusters of near-duplicates", f"{data.counts.clusters:,}"),
        *_method_rows(data),
        ("Recall of the pairs at the threshold", _describe_recall(data)),
        *_loss_rows(data),
    ]
    if inputs:
        rows.append(("Inputs", _list_inputs(inputs)))
    table = [f"| {_escape(name)} | {value} |" for name, value in rows]
    lines = [BEGIN, "## Deduplication", "", sentence, "", "| | |", "| --- | --- |", *table, "", END]
    return "\n".join(lines) + "\n"


def render_metadata(data: ReportData, sources: Sequence[str], data_files: str | None = None) -> str:
    """Returns the metadata of a new card, in YAML between two lines of dashes."""
    lines = ["---", "tags:", "- deduplicated", "- nearkin", "size_categories:"]
    lines.append(f"- {json.dumps(_size_category(data.counts.kept))}")
    if sources:
        lines += ["source_datasets:", *(f"- {json.dumps(name)}" for name in sources)]
    if data_files is not None:
        lines += ["configs:", "- config_name: default", f"  data_files: {json.dumps(data_files)}"]
    return "\n".join([*lines, "---", ""])


def insert_section(readme: bytes, section: str) -> bytes:
    r"""Returns a README.md with a section in place of an earlier one, or at its end.

    All other bytes stay as they are.

    Examples:
        >>> section = f"{BEGIN}\nnew\n{END}\n"
        >>> once = insert_section(b"# News\n", section)
        >>> insert_section(once, section) == once
        True
    """
    ending = "\r\n" if b"\r\n" in readme else "\n"
    inserted = section.replace("\n", ending).encode()
    place = find_section(readme)
    if place is not None:
        return readme[: place.start] + inserted.rstrip() + readme[place.stop :]
    if not readme:
        return inserted
    gap = ending.encode()
    return readme + (gap if readme.endswith(gap) else gap * 2) + inserted


def find_section(readme: bytes) -> slice | None:
    """Returns the place of a section in the content of a README.md, or None without one."""
    begins = [match.start() for match in re.finditer(re.escape(BEGIN.encode()), readme)]
    ends = [match.end() for match in re.finditer(re.escape(END.encode()), readme)]
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        raise UsageError(
            f"the lines {BEGIN} and {END} of README.md are not one pair ({len(begins)} and "
            f"{len(ends)} of them); delete the earlier section from the file"
        )
    return slice(begins[0], ends[0])


def _method_rows(data: ReportData) -> list[tuple[str, str]]:
    parameters = data.parameters
    compared = "vectors" if parameters.measure == "cosine" else _code(parameters.shingle)
    if parameters.measure == HAMMING:
        compared = "fingerprints"
    limit = f"at least {parameters.threshold}"
    if data.chosen:
        limit += " (chosen for these documents)"
    if parameters.distance is not None:
        limit = f"Hamming distance at most {parameters.distance}"
    candidates = "all pairs were compared"
    if parameters.bands:
        candidates = f"{parameters.bands} bands of {parameters.rows}"
        candidates += f", signatures of {parameters.k} ({_code(parameters.scheme)})"
    rows = [
        ("Similarity", f"{_code(parameters.measure)} of {compared}, {limit}"),
        ("Verification", _code(parameters.verify)),
        ("Candidates", candidates),
        ("Clusters by", _code(parameters.cluster)),
        ("Kept of each cluster", _code(parameters.keep)),
    ]
    if parameters.accept is not None:
        rows.append(("Removed if", _code(parameters.accept)))
    if parameters.then is not None:
        rows.append(("Second measure", _code(parameters.then)))
    return rows


def _describe_recall(data: ReportData) -> str:
    """Returns the recall that an audit measured, or the one that the bands are expected to have."""
    if data.audit is not None and data.audit.recall.total:
        recall = data.audit.recall
        low, high = format_fraction(recall.low), format_fraction(recall.high)
        return f"{format_fraction(recall.value)} measured (95% interval {low} to {high})"
    parameters = data.parameters
    if not parameters.bands:
        return "1, because all pairs were compared"
    if not parameters.curve:
        return f"{format_fraction(parameters.recall)} requested"
    similarities = np.linspace(0, 1, len(parameters.curve))
    expected = float(np.interp(parameters.threshold, similarities, parameters.curve))
    return f"{format_fraction(expected)} expected, {format_fraction(parameters.recall)} requested"


def _loss_rows(data: ReportData) -> list[tuple[str, str]]:
    rows = []
    if data.lost is not None and data.lost.total.removed:
        total = data.lost.total
        lost = f"{format_percent(total.mean)} of the shingles of a removed document on average, "
        rows.append(("Information lost", f"{lost}at most {format_percent(total.worst)}"))
    if data.doubtful is not None:
        rows.append(("Doubtful removals", data.doubtful.describe()))
    if data.passages is not None:
        counts = data.passages.counts
        cut = f"{counts.cuts:,} of at least {data.passages.min_tokens} words, from "
        rows.append(("Passages cut", f"{cut}{counts.documents_cut:,} documents"))
    return rows


def _list_inputs(inputs: Sequence[str]) -> str:
    shown = ", ".join(map(_code, inputs[:MAX_INPUTS]))
    more = len(inputs) - MAX_INPUTS
    return f"{shown} and {more:,} more" if more > 0 else shown


def _size_category(rows: int) -> str:
    """Returns the category of the hub for a number of rows.

    Examples:
        >>> _size_category(999), _size_category(1000), _size_category(10**13)
        ('n<1K', '1K<n<10K', 'n>1T')
    """
    names = (name for limit, name in SIZE_CATEGORIES if rows < limit)
    return next(names, LARGEST_CATEGORY)


def _code(text: str) -> str:
    """Returns a text of a user or a stranger as code in a cell of a table."""
    return f"`{_escape(text).replace('`', chr(39))}`"


def _escape(text: str) -> str:
    one_line = " ".join(make_visible(text).split())
    return one_line.replace("|", "\\|").replace("<!--", "<! --")
