"""Excerpts of the documents in which most text is repeated, with their passages."""

from typing import NamedTuple

import numpy as np

from nearkin.engine.documents import take_values
from nearkin.texts.passages.documents import BYTES, ID
from nearkin.texts.passages.run import PassageRun
from nearkin.texts.passages.tables import PassageTables

DOCUMENTS_QUOTED = 20
EXCERPT_BYTES = 4000
"""The maximum number of bytes of a document that are quoted."""
CONTEXT_BYTES = 300
"""The number of bytes that are quoted before the first passage of a document."""


class QuotedPart(NamedTuple):
    """A part of an excerpt."""

    text: str
    is_repeated: bool


class QuotedDocument(NamedTuple):
    """An excerpt of a document."""

    id: str
    share: float
    """The share of its bytes in at least one passage."""
    passages: int
    """The number of its passages."""
    begins: bool
    """True if the excerpt begins where the text does."""
    ends: bool
    """True if the excerpt ends where the text does."""
    parts: list[QuotedPart]


def quote_documents(
    run: PassageRun, tables: PassageTables, most: int = DOCUMENTS_QUOTED
) -> list[QuotedDocument]:
    """Returns excerpts of the documents with the most repeated bytes, these first.

    The documents that are quoted are read again.
    """
    repeated = tables.repeated_bytes
    order = np.lexsort((np.arange(len(repeated)), -repeated))[:most]
    order = order[repeated[order] > 0]
    wanted = np.sort(order)
    spans = _find_spans(run, wanted)
    ids = take_values(run.documents[ID], wanted).to_pylist()
    sizes = run.documents[BYTES].to_numpy()
    quoted = {}
    for position, text in enumerate(run.read_texts(wanted)):
        number = int(wanted[position])
        first = max(0, int(spans[number][0][0]) - CONTEXT_BYTES)
        content = memoryview(text.as_buffer())
        end = min(len(content), first + EXCERPT_BYTES)
        quoted[number] = QuotedDocument(
            id=ids[position],
            share=float(repeated[number] / max(sizes[number], 1)),
            passages=int(tables.passage_counts[number]),
            begins=first == 0,
            ends=end == len(content),
            parts=divide_excerpt(content, first, end, spans[number]),
        )
    return [quoted[number] for number in order.tolist()]


def _find_spans(run: PassageRun, wanted: np.ndarray) -> dict[int, list[tuple[int, int]]]:
    spans: dict[int, list[tuple[int, int]]] = {int(number): [] for number in wanted}
    for part in run.passages():
        rows = np.flatnonzero(np.isin(part.documents, wanted))
        for row in rows.tolist():
            span = (int(part.starts[row]), int(part.ends[row]))
            spans[int(part.documents[row])].append(span)
    return spans


def divide_excerpt(
    content: memoryview, first: int, end: int, spans: list[tuple[int, int]]
) -> list[QuotedPart]:
    """Returns the parts of an excerpt from the UTF-8 bytes of a text."""
    parts = []
    reached = first
    for start, stop in spans:
        start = min(max(start, reached), end)
        stop = min(stop, end)
        if start > reached:
            parts.append(QuotedPart(_decode(content[reached:start]), is_repeated=False))
            reached = start
        if stop > reached:
            parts.append(QuotedPart(_decode(content[reached:stop]), is_repeated=True))
            reached = stop
    if reached < end:
        parts.append(QuotedPart(_decode(content[reached:end]), is_repeated=False))
    return parts


def _decode(content: memoryview) -> str:
    """Returns a part of a text. Characters of which it has only some bytes are left out."""
    return bytes(content).decode(errors="ignore")
