"""Excerpts of contaminated documents, a few for each suite."""

from typing import NamedTuple

import numpy as np

from nearkin.engine.documents import take_values
from nearkin.texts.decontamination.run import DecontaminationRun
from nearkin.texts.decontamination.tables import ContaminationTables
from nearkin.texts.passages.documents import ID
from nearkin.texts.passages.quotes import CONTEXT_BYTES, EXCERPT_BYTES, QuotedPart, divide_excerpt

QUOTED_PER_SUITE = 5
"""The number of hits of a suite that are quoted: those with the largest scores, each of another
item."""
SUITES_QUOTED = 50


class QuotedHit(NamedTuple):
    """An excerpt of a document that holds an item."""

    suite: str
    item: str
    field: str
    id: str
    score: float
    begins: bool
    """True if the excerpt begins where the text does."""
    ends: bool
    """True if the excerpt ends where the text does."""
    parts: list[QuotedPart]


def quote_contaminations(run: DecontaminationRun, tables: ContaminationTables) -> list[QuotedHit]:
    """Returns excerpts of contaminated documents, ordered by suite and score."""
    chosen = _choose_hits(run, tables)
    hits = run.hits.take(chosen)
    suites = run.index.suites
    wanted = np.unique(hits["document"].to_numpy())
    read = (text for batch in run.read_candidates(wanted) for text in batch.texts)
    texts = {
        int(number): text.as_buffer().to_pybytes()
        for number, text in zip(wanted, read, strict=True)
    }
    ids = take_values(run.documents[ID], hits["document"].to_numpy()).to_pylist()
    quoted = []
    for hit, id in zip(hits.to_pylist(), ids, strict=True):
        spans = [(span["start"], span["end"]) for span in hit["spans"]]
        content = memoryview(texts[hit["document"]])
        first = max(0, spans[0][0] - CONTEXT_BYTES)
        end = min(len(content), first + EXCERPT_BYTES)
        item = suites.items.slice(hit["item"], 1).to_pylist()[0]
        quoted.append(
            QuotedHit(
                suite=suites.names[item["suite"]],
                item=item["id"],
                field=suites.fields[hit["field"]],
                id=id,
                score=hit["score"],
                begins=first == 0,
                ends=end == len(content),
                parts=divide_excerpt(content, first, end, spans),
            )
        )
    return quoted


def _choose_hits(run: DecontaminationRun, tables: ContaminationTables) -> np.ndarray:
    """Returns the rows of the hits that are quoted, int64."""
    items = run.hits["item"].to_numpy()
    scores = run.hits["score"].to_numpy()
    suites = tables.item_suites[items]
    order = np.lexsort((np.arange(len(items)), -scores, items))
    firsts = order[np.unique(items[order], return_index=True)[1]]
    chosen: list[int] = []
    for suite in np.unique(suites)[:SUITES_QUOTED]:
        own = firsts[suites[firsts] == suite]
        best = own[np.lexsort((own, -scores[own]))]
        chosen += best[:QUOTED_PER_SUITE].tolist()
    return np.array(chosen, np.int64)
