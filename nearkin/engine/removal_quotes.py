"""The check of removal limits, and the removed documents that it quotes."""

from collections import Counter

import numpy as np

from nearkin.corpus.batches import Corpus, read_content
from nearkin.corpus.columns import Columns
from nearkin.corpus.places import places_of
from nearkin.corpus.text_forms import format_content
from nearkin.engine.clustering import Clustering
from nearkin.engine.documents import take_values
from nearkin.engine.removal_limit import (
    MOST_BLAMED,
    QUOTED_CHARACTERS,
    QUOTED_PAIRS,
    BlamedDocument,
    QuotedPair,
    RemovedShare,
)
from nearkin.engine.result_schema import EXACT, NEAR, VECTOR
from nearkin.engine.run import Run


def quote_removed(run: Run, result: Clustering) -> list[QuotedPair]:
    """Returns the removed documents that are least similar to the kept ones.

    They are among those that count for the limit.
    """
    kind = np.asarray(result.kind)
    is_counted = run.limited_removals(kind) & np.isin(kind, (NEAR, EXACT))
    near = np.flatnonzero(is_counted | (kind == VECTOR))
    rank = np.asarray(run.work.load("rank"))[near]
    removed = near[np.lexsort((rank, np.asarray(result.similarity)[near]))[:QUOTED_PAIRS]]
    kept = np.asarray(result.leader)[removed].astype(np.int64)
    documents = run.documents()
    removed_ids = take_values(documents.ids, removed).to_pylist()
    kept_ids = take_values(documents.ids, kept).to_pylist()
    removed_places = places_of(documents.files[removed], documents.rows[removed]).tolist()
    kept_places = places_of(documents.files[kept], documents.rows[kept]).tolist()
    places = np.array([*removed_places, *kept_places], np.uint64)
    texts = read_texts(run.corpus, run.columns, places, QUOTED_CHARACTERS)
    matched: dict[int, str] = {}
    if result.matches is not None:
        matched = dict(
            zip(result.matches.documents.tolist(), result.matches.ids.to_pylist(), strict=True)
        )
    pairs = []
    for number, removed_id, removed_place, kept_id, kept_place in zip(
        removed.tolist(), removed_ids, removed_places, kept_ids, kept_places, strict=True
    ):
        pair = QuotedPair(
            similarity=float(result.similarity[number]),
            removed=removed_id,
            removed_text=texts[removed_place],
            kept=matched.get(number, kept_id),
            kept_text="" if number in matched else texts[kept_place],
        )
        pairs.append(pair)
    return pairs


def read_texts(
    corpus: Corpus, columns: Columns, places: np.ndarray, characters: int
) -> dict[int, str]:
    """Returns the beginnings of the contents of documents as texts, by their places.

    Args:
        corpus: The corpus.
        columns: Its columns.
        places: The places of the documents, in any order and shape, uint64.
        characters: Largest number of characters of a text.
    """
    ascending = np.unique(places)
    contents = [
        format_content(content.as_py(), characters)
        for batch in read_content(corpus, columns, ascending)
        for content in batch.documents[columns.content]
    ]
    return dict(zip(ascending.tolist(), contents, strict=True))


def require_column_limit(run: Run, result: Clustering) -> None:
    """Requires that a run removes no more of each value of a column than it may."""
    limit = run.options.removal_limits.column
    if limit is None:
        return
    documents = run.documents()
    hashes = documents.hash_values(limit.column)
    _, firsts, codes, counts = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    is_removed = ~np.asarray(result.kept)
    removed = np.bincount(codes[is_removed], minlength=len(counts))
    # Of values that lose the same share, the one with most documents is named.
    worst_first = np.lexsort((firsts, -counts, -removed / counts)).tolist()
    if not worst_first:
        return
    worst = worst_first[0]
    if not limit.is_exceeded(int(removed[worst]), int(counts[worst])):
        return
    is_worst = codes == worst
    leaders = np.asarray(result.leader)[result.removed_in_run & is_worst].astype(np.int64)
    # A document that is like a blocked one has no kept document in the run.
    kept, times = np.unique(leaders[np.asarray(result.kept)[leaders]], return_counts=True)
    largest = np.lexsort((kept, -times))[:MOST_BLAMED]
    names = take_values(documents.ids, kept[largest]).to_pylist()
    blamed = list(map(BlamedDocument, names, times[largest].tolist()))
    if result.matches is not None:
        matches = result.matches.select(np.flatnonzero(is_worst[result.matches.documents]))
        for name, count in Counter(sorted(matches.ids.to_pylist())).most_common(MOST_BLAMED):
            blamed.append(BlamedDocument(name, count, in_reference=True))
    values = take_values(documents.carried[limit.column], firsts[worst : worst + 1])
    excess = RemovedShare(values[0].as_py(), int(counts[worst]), int(removed[worst]))
    limit.refuse(excess, blamed, can_resume=True)
