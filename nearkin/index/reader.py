"""The reads of an index: queries, entries, clusters and explanations. Nothing is written."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from nearkin.errors import UsageError
from nearkin.index.changes import ChangePage
from nearkin.index.description import IndexDescription
from nearkin.index.documents import Document, require_several
from nearkin.index.entry import (
    Cluster,
    ClusterPart,
    Entry,
    Match,
    MemberPosition,
    require_id,
    require_scope,
)
from nearkin.index.scope_settings import ScopeRecord, ScopeStatus, read_record_entry
from nearkin.index.stores.base import PORTION, Store
from nearkin.index.telemetry import measured_call
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.number_range import COUNT, NumberRange
from nearkin.runtime.setting_names import name_setting

if TYPE_CHECKING:
    from nearkin.index.document_preparation import PreparedBatch
    from nearkin.index.passage_matches import PassageMatches
    from nearkin.index.search import AgedMatch, Searcher
    from nearkin.stages.measures.base import Payload
    from nearkin.stages.measures.explanation import Explanation, VectorComparison

MAX_SCOPES = 100
"""The maximum number of scopes of a search."""
EXPLAINED_DOCUMENTS = 1_000_000
"""The number of documents for which an explanation solves the bands of sign signatures."""


class IndexReader(IndexDescription):
    """The reads of an open index. Nothing is written.

    Each method holds one searcher from begin to end, which keeps its store open. So a read that is
    under way while the index moves ends in the store in which it began.
    """

    @check_arguments
    def query(
        self,
        scope: str | Sequence[str],
        document: Document,
        top: int = 10,
        *,
        members: bool = False,
    ) -> list[Match]:
        """Finds representatives at or above the threshold. Nothing is written.

        With `postings="all"`, it finds any documents.

        Args:
            scope: Scope that is searched, or a list of at most 100. The matches of a list name
                their scope.
            document: A text, a vector, or a `TextAndVector`, as the index has them.
            top: Maximum number of matches.
            members: True to compare the members of the matching representatives, too: at most
                `max_candidates` of them, those of the most similar representatives first. Members
                whose content is not stored cannot be compared, and are left out. So is a member
                whose representative is below the threshold.

        Returns:
            The matches, most similar first, of equally similar ones the oldest. The similarity of
            each was computed exactly.

        Raises:
            UsageError: If the document is not valid, `top` is less than 1, or there are no scopes
                or too many.
        """
        COUNT.require("top", top)
        self._session.refresh_if_due()
        searcher = self._session.searcher
        with measured_call(self._session.telemetry, "query", 1):
            return _best_of_scopes(
                scope,
                lambda name: [self._find_matches(searcher, name, document, top, members=members)],
                top,
            )[0]

    @check_arguments
    def match_many(
        self, scope: str | Sequence[str], documents: Sequence[Document]
    ) -> list[Match | None]:
        """Finds the most similar stored document of each of several documents. Nothing is written.

        Of equally similar ones the oldest is found. The documents are not compared with each other.
        With `postings="leaders"`, representatives are found, and with `"all"` any documents.

        Args:
            scope: Scope that is searched, or a list of at most 100. The matches of a list name
                their scope.
            documents: Texts, vectors or `TextAndVector`, at most `max_batch` of them.

        Returns:
            A match for each document, or None if no stored document reaches the threshold.

        Raises:
            UsageError: If a document is not valid, or there are too many.

        Examples:
            >>> from nearkin import Index
            >>> index = Index.open("memory://")
            >>> stored = index.upsert("web", "the cat sat on the mat", id="a")
            >>> first, second = index.match_many("web", ["The cat sat on the mat!", "a dog"])
            >>> first.id, second
            ('a', None)
        """
        self._session.refresh_if_due()
        searcher = self._session.searcher
        with measured_call(self._session.telemetry, "query", len(documents)):
            matches = _best_of_scopes(
                scope,
                lambda name: searcher.of_scope(name).match(
                    self._prepare_many(searcher, name, documents), 1
                ),
                1,
            )
        return [found[0] if found else None for found in matches]

    @check_arguments
    def related_many(self, scope: str, documents: Sequence[Document]) -> list[list[Match]]:
        """Finds the representatives that are related to each of several documents.

        They are those that `upsert` would name: the most similar ones whose similarity reaches the
        setting `related`, at most 10, without the one that the document would be resolved to.
        Nothing is written, and the documents are not compared with each other.

        Args:
            scope: Scope that is searched.
            documents: Texts or vectors, at most `max_batch` of them.

        Returns:
            The related representatives of each document, most similar first.

        Raises:
            UsageError: If a document is not valid, there are too many, or the index has no setting
                `related`.

        Examples:
            >>> from nearkin import Index, Spec
            >>> index = Index.open("memory://", Spec(n=1), 0.8, related=0.5)
            >>> stored = index.upsert("web", "the cat sat on the mat", id="a")
            >>> (matches,) = index.related_many("web", ["the cat sat on a sofa"])
            >>> [(match.id, match.similarity) for match in matches]
            [('a', 0.5714285714285714)]
        """
        self._session.refresh_if_due()
        searcher = self._session.searcher
        if searcher.settings.related is None:
            raise UsageError(
                f"the index {self.url} was created without {name_setting('related')}, so that "
                "searches find similar documents only; create an index with it"
            )
        with measured_call(self._session.telemetry, "query", len(documents)):
            return searcher.of_scope(scope).match_related(
                self._prepare_many(searcher, scope, documents)
            )

    @check_arguments
    def passages(self, scope: str, text: str, top: int = 10) -> "PassageMatches":
        """Finds the stored documents that share a passage with a text. Nothing is written.

        A passage is a run of at least as many words as the setting `passages` says that both have,
        after normalization. Each stored text is searched, whether it is a representative or not.
        Those with most fingerprints in common are compared first, at most `max_candidates` of them.

        Args:
            scope: Scope that is searched.
            text: The text. If it is stored itself, it is found, too.
            top: Maximum number of documents.

        Returns:
            The documents with the bytes of the passages in both, and whether the search was
            complete.

        Raises:
            UsageError: If the text is not valid, `top` is less than 1, or the index has no setting
                `passages`.
            StoreError: If the store fails.

        Examples:
            >>> from nearkin import Index
            >>> index = Index.open("memory://", passages=4)
            >>> stored = index.upsert("web", "He said: the cat sat on the mat.", id="a")
            >>> found = index.passages("web", "Once, the cat sat on a sofa.").documents[0]
            >>> found.id, found.passages[0]
            ('a', MatchedPassage(start=6, end=20, stored_start=9, stored_end=23, tokens=4))
        """
        COUNT.require("top", top)
        self._session.refresh_if_due()
        searcher = self._session.searcher
        if searcher.passages is None:
            raise UsageError(
                f"the index {self.url} was created without {name_setting('passages')}, so that it "
                "has no fingerprints of passages; create an index with it"
            )
        searcher.documents.first.check(text)
        with measured_call(self._session.telemetry, "query", 1):
            return searcher.passages.find(require_scope(scope), text, top)

    def _prepare_many(
        self, searcher: "Searcher", scope: str, documents: Sequence[Document]
    ) -> "PreparedBatch":
        """Prepares documents that are searched for together."""
        require_several(documents)
        max_batch = searcher.settings.max_batch
        if len(documents) > max_batch:
            raise UsageError(
                f"a batch of {len(documents):,} documents is larger than max_batch={max_batch:,}"
            )
        checked = searcher.documents.check_all(documents)
        digests = searcher.documents.digests(checked)
        return searcher.documents.prepare(require_scope(scope), checked, digests)

    def _find_matches(
        self, searcher: "Searcher", scope: str, document: Document, top: int, *, members: bool
    ) -> "list[AgedMatch]":
        """Returns the matches of a document in one scope."""
        searcher = searcher.of_scope(scope)
        prepared = self._prepare_many(searcher, scope, [document])
        if not members or searcher.settings.postings == "all":
            return searcher.match(prepared, top)[0]
        from nearkin.index.search import rank_of_match

        matches = searcher.match(prepared)[0]
        left = searcher.settings.max_candidates
        entries: list[Entry] = []
        for match, _ in matches:
            if left <= 0:
                break
            portion = searcher.store.members(prepared.scope, match.id, left)
            left -= len(portion)
            entries += portion
        matches += searcher.match_members(prepared, entries)
        return sorted(matches, key=rank_of_match)[:top]

    @check_arguments
    def near_misses(self, scope: str, document: Document, top: int = 10) -> list[Match]:
        """Finds documents that share a bucket with a document but are below the threshold.

        They show how close a document is to a match. Documents of very different lengths and those
        that share no bucket are not found. Nothing is written.

        Args:
            scope: Scope that is searched.
            document: A text, a vector, or a `TextAndVector`, as the index has them.
            top: Maximum number of documents.

        Returns:
            The documents, most similar first, of equally similar ones the oldest. The similarity
            of each was computed exactly.

        Raises:
            UsageError: If the document is not valid, or `top` is less than 1.
        """
        COUNT.require("top", top)
        self._session.refresh_if_due()
        searcher = self._session.searcher.of_scope(scope)
        return searcher.near_misses(self._prepare_many(searcher, scope, [document]))[:top]

    @check_arguments
    def get(self, scope: str, id: str) -> Entry | None:
        """Returns the entry of a document.

        Args:
            scope: Scope of the document.
            id: Id of the document.

        Returns:
            The entry with its content, or None if the document does not exist.

        Raises:
            UsageError: If a name is not valid.
            StoreError: If the store fails.
        """
        self._session.refresh_if_due()
        return self._session.entry_of(scope, id)

    @check_arguments
    def get_many(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        """Returns the entries of several documents.

        Args:
            scope: Scope of the documents.
            ids: Ids of the documents.

        Returns:
            The entries in the order of the ids, with None for each document that does not exist.
        """
        self._session.refresh_if_due()
        searcher = self._session.searcher
        return searcher.store.entries(scope, ids)

    def get_by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        """Returns the entries of documents by the numbers that the store gave them."""
        searcher = self._session.searcher
        return searcher.store.by_refs(refs)

    @check_arguments
    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        """Yields the entries of a scope, or of all, in the order of insertion.

        Args:
            scope: Scope that is read, or None for all.
            content: False to leave signatures, texts and payloads out.
        """
        self._session.refresh_if_due()
        searcher = self._session.searcher
        yield from searcher.store.scan(scope, content=content)

    def scopes(self) -> list[str]:
        """Returns the scopes that have documents, sorted."""
        return sorted(self.iterate_scopes())

    def iterate_scopes(self) -> Iterator[str]:
        """Yields the scopes that have documents, in no particular order, as they are read."""
        self._session.refresh_if_due()
        searcher = self._session.searcher
        yield from searcher.store.scopes()

    @check_arguments
    def scope_status(self, scope: str) -> ScopeStatus:
        """Returns the settings of a scope, and the use of its quotas, as they are stored.

        Args:
            scope: The scope.
        """
        self._session.refresh_if_due()
        searcher = self._session.searcher
        entry = read_record_entry(searcher.store, require_scope(scope))
        return ScopeStatus() if entry is None else ScopeRecord.of(entry).status

    @check_arguments
    def cluster(self, scope: str, id: str) -> Cluster | None:
        """Returns the cluster of a document with all its members.

        Args:
            scope: Scope of the document.
            id: Id of any document of the cluster.

        Returns:
            The cluster, or None if the document does not exist. `cluster_part` reads a large
            cluster in parts.

        Raises:
            UsageError: If a name is not valid.
            StoreError: If the store fails.
        """
        self._session.refresh_if_due()
        searcher = self._session.searcher
        store = searcher.store
        entry = store.entries(require_scope(scope), [require_id(id)])[0]
        if entry is None:
            return None
        members = [(entry.leader, 1.0)]
        last = 0
        while page := store.members(scope, entry.leader, PORTION, after=last, content=False):
            members += [(member.id, member.similarity) for member in page]
            last = page[-1].ref
        return Cluster(entry.cluster, entry.leader, tuple(members))

    @check_arguments
    def cluster_part(
        self, scope: str, id: str, start: int = 0, limit: int = 100, after: str | None = None
    ) -> ClusterPart | None:
        """Returns a part of a cluster. No text is read.

        Args:
            scope: Scope of the document.
            id: Id of any document of the cluster.
            start: Position of the first document of the part. 0 is the representative.
            limit: Maximum number of documents, at least 1.
            after: Id of the document after which the part begins. If it still is in the cluster,
                it is looked up by key and `start` is ignored. `start` alone skips all members
                before it.

        Returns:
            The part, or None if the document does not exist.

        Raises:
            UsageError: If a name is not valid, `start` is negative, or `limit` is less than 1.
            StoreError: If the store fails.
        """
        if start < 0:
            raise UsageError(f"{name_setting('start', start)} is negative; 0 is the representative")
        COUNT.require("limit", limit)
        self._session.refresh_if_due()
        searcher = self._session.searcher
        store = searcher.store
        ids = [require_id(id)]
        if after is not None:
            ids.append(require_id(after))
        entry, *last_entries = store.entries(require_scope(scope), ids)
        leader = _leader_of(store, entry)
        if leader is None:
            return None
        last = last_entries[0] if last_entries else None
        if last is not None and last.leader != leader.id:
            last = None
        if last is None:
            return _cluster_part(
                store, leader, with_leader=start == 0, after=0, skip=max(0, start - 1), limit=limit
            )
        after_ref = 0 if last.is_leader else last.ref
        return _cluster_part(store, leader, with_leader=False, after=after_ref, skip=0, limit=limit)

    @check_arguments
    def cluster_part_after(
        self, scope: str, id: str, position: MemberPosition, limit: int = 100
    ) -> ClusterPart | None:
        """Returns the part of a cluster after a position.

        Documents that are in the cluster during all calls are listed once each, whatever is
        inserted or deleted between two calls.

        Args:
            scope: Scope of the document.
            id: Id of any document of the cluster.
            position: `ClusterPart.end` of the previous part, from this index in this store.
            limit: Maximum number of documents, at least 1.

        Returns:
            The part, or None if the document does not exist.

        Raises:
            UsageError: If a name is not valid, or `limit` is less than 1.
            StoreError: If the store fails.
        """
        COUNT.require("limit", limit)
        self._session.refresh_if_due()
        searcher = self._session.searcher
        store = searcher.store
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

    @property
    def keeps_history(self) -> bool:
        """True if the index keeps a history, which `changes` returns."""
        return self._session.keeps_history

    @check_arguments
    def changes(
        self,
        after: str | None = None,
        scope: str | None = None,
        limit: int = 1000,
        *,
        id: str | None = None,
        can_access: Callable[[str], bool] | None = None,
    ) -> ChangePage:
        """Returns what happened to documents since a cursor, for an index with a `history`.

        A follower first gets a cursor with `after="now"`, then reads the documents (`export` or
        `scan`), and then asks for the changes after the cursor again and again. Every change that
        was acknowledged before a call is in its pages, and changes of one document have their
        order. A change may come that the documents showed already.

        Args:
            after: `next` of the previous page, or `"now"` for the end. By default, the oldest
                change that is kept.
            scope: Scope of the changes; None for all scopes.
            limit: Maximum number of changes, at most 10,000.
            id: Id of the document whose changes are returned; None for all documents.
            can_access: Returns whether changes of a scope are returned; None for all scopes.

        Returns:
            A page. If few changes match, it may be empty although others follow.

        Raises:
            ChangesGoneError: If the changes after the cursor are not kept any more, or the index
                has moved to another store.
            UsageError: If the index keeps no history, or the cursor is not valid.

        Examples:
            >>> from nearkin import Index
            >>> index = Index.open("memory://", history=86_400)
            >>> stored = index.upsert_many("web", ["a b c d e", "a b c d e"], ["one", "two"])
            >>> [(change.kind, change.id, change.into) for change in index.changes().changes]
            [('inserted', 'one', ''), ('resolved', 'two', 'one')]
        """
        from nearkin.index.history import MAX_CHANGES, read_changes

        NumberRange(1, MAX_CHANGES).require("limit", limit)
        self._session.refresh_if_due()
        # it keeps the store open if the index moves meanwhile
        searcher = self._session.searcher
        page = read_changes(
            searcher.store,
            after,
            limit,
            lambda change: (
                scope in (None, change.scope)
                and id in (None, change.id)
                and (can_access is None or can_access(change.scope))
            ),
        )
        self._session.confirm_state()
        return page

    @check_arguments
    def explain(self, scope: str, a: str, b: str) -> "Explanation":
        """Explains why two stored documents match, or do not.

        In an index of texts and vectors, the stages are those of the texts, and the exact cosine
        of the vectors decides as the setting `combine` says.

        Args:
            scope: Scope of both documents.
            a: Id of the first document.
            b: Id of the second document.

        Raises:
            UsageError: If a document does not exist, or its text is not stored.
        """
        from nearkin.stages.measures.base import BandingRequest
        from nearkin.stages.measures.explanation import explain_pair

        session = self._session
        settings = session.searcher.of_scope(scope).settings
        assert settings.threshold is not None
        texts = []
        entries = []
        for id in (a, b):
            entry = self.get(scope, id)
            if entry is None:
                raise UsageError(f"the index has no document {id!r} in this scope")
            if entry.text is None:
                reason = "is not stored (store_text=False)"
                if session.documents.second is not None and not entry.size:
                    reason = "does not exist, and vectors are explained beside texts only"
                raise UsageError(
                    f"the text of {id!r} {reason}, so that the pair cannot be explained"
                )
            texts.append(entry.text)
            entries.append(entry)
        distance = session.settings.distance
        request = BandingRequest(
            threshold=settings.search_threshold,
            recall=session.settings.recall,
            bands=session.banding.bands,
            rows=session.banding.rows,
            probes=session.banding.probes,
            documents=EXPLAINED_DOCUMENTS,
        )
        # the bands of a distance follow from it alone
        banding = session.banding if distance is not None else session.measure.banding(request)
        return explain_pair(
            texts[0],
            texts[1],
            spec=session.spec,
            resources=session.resources,
            threshold=settings.threshold,
            banding=banding,
            distance=distance,
            names=(a, b),
            vectors=self._compare_vectors(scope, entries),
        )

    def _compare_vectors(self, scope: str, entries: Sequence[Entry]) -> "VectorComparison | None":
        """Returns the comparison of two documents by their vectors, or None if they have texts."""
        from nearkin.stages.measures.explanation import FIRST_PAIR, VectorComparison

        session = self._session
        second = session.documents.second
        if second is None:
            return None
        settings = session.settings
        assert settings.vector is not None
        assert settings.vector.threshold is not None
        comparer = session.searcher.of_scope(scope).comparer
        compared = comparer.compare_entries(entries, FIRST_PAIR)
        evidence = compared.evidence(0)
        assert evidence is not None
        shared_bands = 0
        if evidence.vector is not None:
            first_keys, second_keys = second.keys_of(scope, session.documents.split(entries)[1])
            shared_bands = int(np.count_nonzero(first_keys == second_keys))
        return VectorComparison(
            similarity=evidence.vector,
            is_near=evidence.vector_reached,
            threshold=settings.vector.threshold,
            rule=settings.combine,
            shared_bands=shared_bands,
        )

    def vector_of(self, entry: Entry) -> np.ndarray | None:
        """Returns the vector of a stored document.

        Args:
            entry: The document with its content.

        Returns:
            The vector, float32 (n,). None if the document has none, or its content is not stored.
        """
        documents = self._session.documents
        if documents.second is not None:
            return documents.vector_of(entry)
        is_stored = documents.first.vectors and bool(entry.payload)
        return np.frombuffer(entry.payload, np.float32) if is_stored else None

    def payload_of(self, entries: Sequence[Entry]) -> "Payload":
        """Returns the data of stored documents that exact comparison needs.

        It is that of their texts in an index of texts and vectors.

        Args:
            entries: Entries with their content.
        """
        session = self._session
        return session.preparer.payload_of(session.documents.split(entries)[0])


def _leader_of(store: Store, entry: Entry | None) -> Entry | None:
    """Returns the representative of a document, or None if either is missing."""
    if entry is None or entry.is_leader:
        return entry
    return store.entries(entry.scope, [entry.leader])[0]


def _cluster_part(
    store: Store, leader: Entry, *, with_leader: bool, after: int, skip: int, limit: int
) -> ClusterPart:
    """Returns some documents of a cluster."""
    most = limit - with_leader
    page = (
        store.members(leader.scope, leader.id, most, after=after, skip=skip, content=False)
        if most
        else []
    )
    members = [(leader.id, 1.0)] if with_leader else []
    members += [(member.id, member.similarity) for member in page]
    last = page[-1].ref if page else after
    end = MemberPosition(leader.id, last) if members and len(members) == limit else None
    size = 1 + store.member_count(leader.scope, leader.id)
    return ClusterPart(leader.cluster, leader.id, size, tuple(members), leader.created, end)


def _best_of_scopes(
    scope: str | Sequence[str], search: "Callable[[str], list[list[AgedMatch]]]", top: int
) -> list[list[Match]]:
    """Returns the best matches of each document in one scope, or in several of them together.

    Args:
        search: Returns the matches of each document in a scope, the best first.
    """
    if isinstance(scope, str):
        return [[match for match, _ in matches] for matches in search(scope)]
    from nearkin.index.search import rank_of_match

    if not 0 < len(scope) <= MAX_SCOPES:
        raise UsageError(
            f"a search is in 1 to {MAX_SCOPES} scopes, and {len(scope):,} are given; divide the "
            "list"
        )
    found = [
        [
            [aged._replace(match=replace(aged.match, scope=name)) for aged in of_one]
            for of_one in of_all
        ]
        for name, of_all in ((name, search(name)) for name in dict.fromkeys(scope))
    ]
    return [
        [match for match, _ in sorted(chain(*of_document), key=rank_of_match)[:top]]
        for of_document in zip(*found, strict=True)
    ]
