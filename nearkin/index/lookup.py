"""The reads of an index: queries, entries, clusters and statistics. Nothing is written."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearkin.errors import UsageError
from nearkin.index.entry import (
    REF_SHIFT,
    Cluster,
    ClusterPart,
    Entry,
    Match,
    MemberPosition,
    require_id,
    require_scope,
)
from nearkin.index.preparation import Document
from nearkin.index.session import Session
from nearkin.index.stores.base import PORTION, Store
from nearkin.measures import BandingRequest

if TYPE_CHECKING:
    from nearkin.measures.explanation import Explanation

EXPLAINED_DOCUMENTS = 1_000_000
"""The number of documents for which an explanation solves the bands of sign signatures."""


class Lookups:
    """The reads of an open index.

    Each method uses one searcher, and its store, from begin to end. So a read that is under way
    while the index moves ends in the store in which it began.

    Args:
        session: The open index.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def query(self, scope: str, document: Document, top: int) -> list[Match]:
        """Finds similar documents, as `Index.query` does."""
        if top < 1:
            raise UsageError(f"top={top} is less than 1")
        self._session.refresh_if_due()
        searcher = self._session.searcher
        preparer = searcher.preparer
        checked = preparer.check(document)
        prepared = preparer.prepare(require_scope(scope), [checked], [preparer.digest(checked)])
        if prepared.empty[0]:
            return []
        ranked = searcher.rank(prepared, leaders_only=searcher.settings.postings == "leaders")
        pool = searcher.fetch(prepared, ranked)
        refs = (ranked.words >> REF_SHIFT).tolist()
        shared = dict(zip(refs, ranked.shared.tolist(), strict=True))
        # position 0 of the pool is the query itself
        positions = np.arange(1, 1 + len(pool.entries), dtype=np.uint64)
        similarities = searcher.similarity(np.uint64(0), positions, pool).tolist()
        matches = [
            Match(entry.id, entry.cluster, similarity, int(shared[entry.ref]))
            for entry, similarity in zip(pool.entries, similarities, strict=True)
            if similarity >= 0
        ]
        return sorted(matches, key=lambda match: (-match.similarity, match.id))[:top]

    def get(self, scope: str, id: str) -> Entry | None:
        """Returns the entry of a document, as `Index.get` does."""
        self._session.refresh_if_due()
        return self._session.entry_of(scope, id)

    def cluster(self, scope: str, id: str) -> Cluster | None:
        """Returns the cluster of a document, as `Index.cluster` does."""
        self._session.refresh_if_due()
        store = self._session.searcher.store
        entry = store.entries(require_scope(scope), [require_id(id)])[0]
        if entry is None:
            return None
        members = [(entry.leader, 1.0)]
        last = 0
        while page := store.member_page(scope, entry.leader, last, 0, PORTION):
            members += [(member.id, member.similarity) for member in page]
            last = page[-1].ref
        return Cluster(entry.cluster, entry.leader, tuple(members))

    def cluster_part(
        self, scope: str, id: str, start: int, limit: int, after: str | None
    ) -> ClusterPart | None:
        """Returns a part of a cluster, as `Index.cluster_part` does."""
        self._session.refresh_if_due()
        store = self._session.searcher.store
        ids = [require_id(id)]
        if after is not None:
            ids.append(require_id(after))
        entry, *others = store.entries(require_scope(scope), ids)
        leader = _leader_of(store, entry)
        if leader is None:
            return None
        last = others[0] if others else None
        if last is not None and last.leader != leader.id:
            last = None
        if last is None:
            return _cluster_part(
                store, leader, with_leader=start == 0, after=0, skip=max(0, start - 1), limit=limit
            )
        after_ref = 0 if last.is_leader else last.ref
        return _cluster_part(store, leader, with_leader=False, after=after_ref, skip=0, limit=limit)

    def cluster_part_after(
        self, scope: str, id: str, position: MemberPosition, limit: int
    ) -> ClusterPart | None:
        """Returns a part of a cluster, as `Index.cluster_part_after` does."""
        self._session.refresh_if_due()
        store = self._session.searcher.store
        entry = store.entries(require_scope(scope), [require_id(id)])[0]
        leader = _leader_of(store, entry)
        if leader is None:
            return None
        is_same = leader.id == position.representative
        # a new representative that was a member when the part before was listed, and not yet listed
        with_leader = not is_same and leader.ref > position.number
        part = _cluster_part(
            store, leader, with_leader=with_leader, after=position.number, skip=0, limit=limit
        )
        # a member that was listed as the representative is left out
        members = [row for row in part.members if is_same or row[0] != position.representative]
        return replace(part, members=tuple(members))

    def explain(self, scope: str, a: str, b: str) -> "Explanation":
        """Explains a pair of stored documents, as `Index.explain` does."""
        from nearkin.measures.explanation import explain_pair

        session = self._session
        texts = []
        for id in (a, b):
            entry = self.get(scope, id)
            if entry is None:
                raise UsageError(f"the index has no document {id!r} in this scope")
            if entry.text is None:
                raise UsageError(
                    f"the text of {id!r} is not stored (store_text=False), so "
                    "that the pair cannot be explained"
                )
            texts.append(entry.text)
        request = BandingRequest(
            threshold=session.threshold,
            recall=session.settings.recall,
            bands=session.banding.bands,
            rows=session.banding.rows,
            probes=session.banding.probes,
            documents=EXPLAINED_DOCUMENTS,
        )
        return explain_pair(
            texts[0],
            texts[1],
            spec=session.spec,
            resources=session.resources,
            threshold=session.threshold,
            banding=session.measure.banding(request),
            names=(a, b),
        )

    def stats(self) -> dict[str, Any]:
        """Returns counts of the store and of the cache, and the parameters of the index."""
        session = self._session
        session.refresh_if_due()
        return {
            **session.store.counts(),
            "cached": len(session.cache),
            "cached_bytes": session.cache.nbytes,
            "threshold": session.threshold,
            "bands": session.banding.bands,
            "rows": session.banding.rows,
            "spec_fingerprint": session.spec.fingerprint,
            "url": session.store.url,
        }

    def hot_buckets(self, limit: int) -> list[tuple[int, Entry]]:
        """Returns the largest buckets, as `Index.hot_buckets` does."""
        searcher = self._session.searcher
        hot = searcher.stats.hot_buckets()[:limit]
        entries = searcher.store.by_refs([bucket.oldest for bucket in hot])
        return [
            (bucket.size, entry)
            for bucket, entry in zip(hot, entries, strict=True)
            if entry is not None
        ]


def _leader_of(store: Store, entry: Entry | None) -> Entry | None:
    """Returns the representative of a document, or None if either is missing."""
    if entry is None or entry.is_leader:
        return entry
    return store.entries(entry.scope, [entry.leader])[0]


def _cluster_part(
    store: Store, leader: Entry, *, with_leader: bool, after: int, skip: int, limit: int
) -> ClusterPart:
    """Returns some documents of a cluster.

    Args:
        store: Store of the cluster.
        leader: The representative.
        with_leader: True if the part begins with the representative.
        after: Number of the member after which the part begins, or 0.
        skip: Number of members that are passed over.
        limit: Maximum number of documents.
    """
    most = limit - with_leader
    page = store.member_page(leader.scope, leader.id, after, skip, most) if most else []
    members = [(leader.id, 1.0)] if with_leader else []
    members += [(member.id, member.similarity) for member in page]
    last = page[-1].ref if page else after
    end = MemberPosition(leader.id, last) if members and len(members) == limit else None
    size = 1 + store.member_count(leader.scope, leader.id)
    return ClusterPart(leader.cluster, leader.id, size, tuple(members), leader.created, end)
