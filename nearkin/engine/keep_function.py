"""The choice of the kept document of each cluster by a function of the caller.

As with the criteria of clusters, only a document that was verified against every other document of
its cluster can be kept, so that each removed document was verified against the kept one. Exact
duplicates of such a document can be kept in its place.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from nearkin.corpus import Corpus, TableCorpus
from nearkin.corpus.corpus import require_unique_columns
from nearkin.engine.clustering import Clustering, ExactGroupOrder
from nearkin.engine.documents import Documents
from nearkin.engine.leader_similarity import find_leader_similarities
from nearkin.engine.options import RunOptions
from nearkin.engine.result_schema import KEPT, SAME
from nearkin.errors import RunError, UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.choices import Verify
from nearkin.stages.cluster.kept_documents import may_be_kept
from nearkin.stages.packed_pairs import ScoredPairs

KeepFunction: TypeAlias = Callable[[Sequence[dict[str, Any]]], object]
"""A function of the rows of a cluster that may be kept. It returns one of them, or its id."""
ROWS_AT_ONCE = 1 << 14
"""The number of rows that are read from the table together. The result does not depend on it."""


class _Choice(NamedTuple):
    """The documents of a cluster that may be kept, in keep order."""

    leader: int
    """The number of the document that is kept so far."""
    documents: np.ndarray
    """The numbers of the documents, int64 (m,)."""
    rows: list[dict[str, Any]]


def require_choosable(options: RunOptions, corpus: Corpus) -> None:
    """Requires that a function can choose the kept documents of a run."""
    function = f"a function as {name_setting('keep')}"
    if not isinstance(corpus, TableCorpus):
        raise UsageError(
            f"{function} needs rows in memory, and the data are files; read them into a table, or "
            "give a keep policy, which is a text"
        )
    require_unique_columns(
        corpus.table.column_names,
        "the table",
        f"{function} gets rows as dictionaries",
        "rename all but one",
    )
    if options.acceptance is not None:
        raise UsageError(
            f"{function} and a condition ({options.acceptance}) exclude each other: the condition "
            "decides about the documents of a pair in keep order; leave out one of them"
        )
    preferred = "the second measure compares the documents that the keep order prefers"
    options.require_defaults(function, {"second_measure": preferred})
    if options.verify == Verify.NONE:
        raise UsageError(
            f"{function} needs verified pairs; leave out {name_setting('verify', 'none')}"
        )


def choose_by_function(
    clustering: Clustering,
    scored: ScoredPairs,
    groups: ExactGroupOrder,
    documents: Documents,
    table: pa.Table,
    function: KeepFunction,
) -> Clustering:
    """Returns the clusters with the kept documents that a function chooses.

    Clusters are visited in the order of their first documents in the corpus. The rows of a cluster
    are in keep order. Clusters of which one document alone may be kept are left as they are.
    """
    own = np.arange(len(groups.order), dtype=np.uint32)
    chosen = own.copy()
    for choice in _iterate_choices(clustering, scored, groups, documents, table):
        chosen[choice.leader] = _call(function, choice, documents.ids)
    leader = chosen[clustering.leader]
    changed = np.flatnonzero(leader != clustering.leader)
    representative = groups.representative
    is_first = representative == own
    between_first = np.where(is_first, representative[leader], own).astype(np.uint32)
    similarity = np.array(clustering.similarity)
    similarity[changed] = find_leader_similarities(scored, between_first)[representative[changed]]
    kind = np.array(clustering.kind)
    kind[changed] = groups.name_kinds(changed, leader[changed])
    kept = np.array(clustering.kept)
    kept[changed] = leader[changed] == changed
    kind[changed[kept[changed]]] = KEPT
    similarity[changed[kept[changed]]] = 1.0
    similarity[kind == SAME] = np.nan
    return replace(clustering, leader=leader, similarity=similarity, kind=kind, kept=kept)


def _iterate_choices(
    clustering: Clustering,
    scored: ScoredPairs,
    groups: ExactGroupOrder,
    documents: Documents,
    table: pa.Table,
) -> Iterator[_Choice]:
    """Yields the clusters of which several documents may be kept."""
    leader = np.asarray(clustering.leader)
    own = np.arange(len(leader), dtype=np.uint32)
    first_of_group = groups.representative
    is_first = first_of_group == own
    between_first = np.where(is_first, leader, own).astype(np.uint32)
    has_content_of_first = is_first | groups.are_copies(own, first_of_group)
    is_candidate = may_be_kept(scored, between_first)[first_of_group] & has_content_of_first
    candidates = np.flatnonzero(is_candidate)
    counts = np.bincount(leader[candidates], minlength=len(leader))
    candidates = candidates[counts[leader[candidates]] > 1]
    first_in_corpus = np.full(len(leader), len(leader), np.int64)
    np.minimum.at(first_in_corpus, leader, own)
    order = np.lexsort((groups.rank[candidates], first_in_corpus[leader[candidates]]))
    candidates = candidates[order]
    ends = np.flatnonzero(np.diff(leader[candidates], append=len(leader))) + 1
    table_rows = np.asarray(documents.rows)
    start = 0
    for stops in _split_clusters(ends.tolist()):
        rows = table.take(pa.array(table_rows[candidates[start : stops[-1]]])).to_pylist()
        first_row = start
        for stop in stops:
            members = candidates[start:stop]
            own_rows = rows[start - first_row : stop - first_row]
            yield _Choice(int(leader[members[0]]), members, own_rows)
            start = stop


def _split_clusters(ends: list[int]) -> Iterator[list[int]]:
    """Yields the ends of clusters in portions: of about ROWS_AT_ONCE rows, or of one cluster."""
    portion: list[int] = []
    start = 0
    for end in ends:
        if portion and end - start > ROWS_AT_ONCE:
            yield portion
            start = portion[-1]
            portion = []
        portion.append(end)
    if portion:
        yield portion


def _call(function: KeepFunction, choice: _Choice, ids: pa.ChunkedArray) -> int:
    """Returns the number of the document that a function chooses."""
    names = [ids[number].as_py() for number in choice.documents.tolist()]
    cluster = f"the cluster of document {names[0]!r} ({len(names)} documents)"
    try:
        answer = function(choice.rows)
    except Exception as error:
        raise RunError(
            f"the function in {name_setting('keep')} failed for {cluster}: "
            f"{type(error).__name__}: {error}"
        ) from error
    for number, row in zip(choice.documents.tolist(), choice.rows, strict=True):
        if answer is row:
            return int(number)
    is_name = isinstance(answer, str | int | np.integer) and not isinstance(answer, bool)
    if is_name and str(answer) in names:
        return int(choice.documents[names.index(str(answer))])
    raise UsageError(
        f"the function in {name_setting('keep')} returned {str(answer)[:100]!r} for {cluster}, "
        "which is neither one of its rows nor an id of them; return one of the rows"
    )
