"""The upsert of documents: resolve each to a representative, or make it the first of a cluster.

A document is looked up in layers: in the resolution cache, in its own entry in the store, and then
by a search for similar representatives.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from nearkin.errors import UsageError
from nearkin.index.cache import Resolution
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.clock import TOLERANCE
from nearkin.index.documents import CheckedDocument, Document, default_ids, require_several
from nearkin.index.entry import (
    Entry,
    Layer,
    Outcome,
    OutcomeKind,
    require_id,
    require_scope,
)
from nearkin.index.entry_builder import EntryBuilder
from nearkin.index.removal import Removals
from nearkin.index.session import Session

if TYPE_CHECKING:
    from nearkin.engine.blocklist.blocklist import Blocklist
    from nearkin.index.blocking import UpsertBlocker
    from nearkin.index.document_preparation import PreparedBatch
    from nearkin.index.search import Decision

REFRESH_SHARE = 0.01
"""The share of a time to live within which a second hit does not write the time again."""


class _Known(NamedTuple):
    """The facts about a document before a search."""

    resolution: Resolution | None
    layer: Layer
    entry: Entry | None
    """The entry in the store, if it was read: the document itself, or another content under its
    id."""


_UNKNOWN = _Known(None, Layer.SEARCH, None)


class _Batch(NamedTuple):
    """Documents of one scope that are upserted together, with their digests and ids."""

    scope: str
    documents: Sequence[CheckedDocument]
    digests: list[bytes]
    ids: list[str]

    def select(self, positions: Sequence[int]) -> "_Batch":
        """Returns the documents at some positions, which are ascending."""
        if len(positions) == len(self.ids):
            return self
        return _Batch(
            scope=self.scope,
            documents=[self.documents[i] for i in positions],
            digests=[self.digests[i] for i in positions],
            ids=[self.ids[i] for i in positions],
        )


class Upserts:
    """The upserts of an open index."""

    def __init__(self, session: Session, removals: Removals) -> None:
        self._session = session
        self._removals = removals
        self.blocker: UpsertBlocker | None = None
        """Finds documents that are not stored, or None without a blocklist."""

    def use_blocklist(self, blocklist: "Blocklist | None") -> None:
        """Sets the blocklist, as `Index.use_blocklist` does."""
        if blocklist is None:
            self.blocker = None
            return
        from nearkin.index.blocking import UpsertBlocker

        self.blocker = UpsertBlocker(self._session, blocklist)

    def upsert_many(
        self, scope: str, documents: Sequence[Document], ids: Sequence[str | None] | None
    ) -> list[Outcome]:
        """Upserts documents, as `Index.upsert_many` does."""
        began = time.perf_counter()
        session = self._session
        self.require_writable(scope)
        require_several(documents)
        max_batch = session.settings.max_batch
        if len(documents) > max_batch:
            raise UsageError(
                f"a batch of {len(documents):,} documents is larger than max_batch={max_batch:,}"
            )
        if ids is not None and len(ids) != len(documents):
            raise UsageError(f"{len(ids)} ids for {len(documents)} documents")
        checked = session.documents.check_all(documents)
        digests = session.documents.digests(checked)
        names = default_ids(digests)
        if ids is not None:
            names = [
                name if id is None else require_id(id) for id, name in zip(ids, names, strict=True)
            ]
        batch = _Batch(scope, checked, digests, names)
        blocker = self.blocker
        if blocker is not None:
            return self._upsert_allowed(batch, blocker, began)
        return session.run_step(scope, lambda: self._upsert(batch, began))

    def _upsert_allowed(
        self, batch: _Batch, blocker: "UpsertBlocker", began: float
    ) -> list[Outcome]:
        """Upserts the documents of a batch that are not like an entry of the blocklist."""
        from nearkin.index.blocking import blocked_outcome

        session = self._session
        blocked = blocker.find(batch.scope, batch.documents, batch.digests)
        positions = [i for i in range(len(batch.ids)) if i not in blocked]
        seconds = (time.perf_counter() - began) / max(len(batch.ids), 1)
        outcomes = {
            i: blocked_outcome(batch.ids[i], match, seconds) for i, match in blocked.items()
        }
        if positions:
            rest = batch.select(positions)
            upserted = session.run_step(batch.scope, lambda: self._upsert(rest, began))
            outcomes |= zip(positions, upserted, strict=True)
        return [outcomes[i] for i in range(len(batch.ids))]

    def require_writable(self, scope: str) -> None:
        """Refuses a new scope with a confusable name, as `Index.require_writable` does."""
        if self._session.follow:
            self._session.scope_names.require(require_scope(scope))

    def _upsert(self, batch: _Batch, began: float) -> list[Outcome]:
        session = self._session
        if len(set(batch.ids)) < len(batch.ids):
            return self._upsert_repeated_ids(batch, began)
        clear_count = session.cache.clear_count
        known = self._look_up(batch)
        pending = [i for i, one in enumerate(known) if one.resolution is None]
        replaced = [entry for entry in (known[i].entry for i in pending) if entry is not None]
        if len(batch.ids) > 1 and replaced:
            return self._upsert_one_by_one(batch)
        looked_up = time.perf_counter()
        now = session.clock()
        changes = Changes()
        if len(pending) < len(known):
            self._renew_times(batch, known, changes, now)
        decisions: list[Decision] = []
        exact: list[bool | None] = []
        new: list[KeyedEntry] = []
        if pending:
            rest = batch.select(pending)
            prepared = session.documents.prepare(rest.scope, rest.documents, rest.digests)
            sketched = time.perf_counter()
            excluded: frozenset[int] = frozenset()
            if replaced:
                self._removals.stage_removal(replaced[0], changes, inherits_cluster=False)
                excluded = frozenset((replaced[0].ref,))
            decisions = session.searcher.of_scope(rest.scope).decide(
                prepared, rest.ids, excluded, changes
            )
            is_binned = session.spec.scheme == "binned" and not session.spec.truncated
            session.searcher.stats.record_batch(
                documents=len(pending),
                candidates=sum(decision.compared for decision in decisions),
                slots=prepared.kinds[0].signatures[: len(pending) if is_binned else 0],
                seconds=sketched - looked_up,
            )
            if changes.may_overflow and len(batch.ids) > 1:
                return self._upsert_one_by_one(batch)
            new = self._add_entries(rest, prepared, decisions, changes, now)
            exact = [
                self._is_exact_copy(prepared, i, decision) for i, decision in enumerate(decisions)
            ]
        searched = time.perf_counter()
        n = max(len(batch.ids), 1)
        seconds = {"look_up": (looked_up - began) / n, "search": (searched - looked_up) / n}
        outcomes = _new_outcomes(new, decisions, exact, seconds)
        if session.settings.related is not None:
            outcomes = [
                _with_related(outcome, decision)
                for outcome, decision in zip(outcomes, decisions, strict=True)
            ]
        if replaced:
            outcomes = [replace(outcome, kind=OutcomeKind.UPDATED) for outcome in outcomes]
        if changes:
            changes.outcomes = outcomes
            session.apply(changes)
        seconds["write"] = (time.perf_counter() - searched) / n
        if len(pending) < len(known):
            new_outcomes = iter(outcomes)
            outcomes = [
                next(new_outcomes)
                if one.resolution is None
                else self._known_outcome(id, one, one.resolution, seconds)
                for id, one in zip(batch.ids, known, strict=True)
            ]
        resolutions = [
            (
                outcome.id,
                Resolution(digest, outcome.representative, outcome.cluster, outcome.similarity),
            )
            for outcome, digest in zip(outcomes, batch.digests, strict=True)
            if outcome.layer is not Layer.MEMORY
        ]
        session.cache.put_many(batch.scope, resolutions, clear_count)
        return outcomes

    def _is_exact_copy(
        self, prepared: "PreparedBatch", position: int, decision: "Decision"
    ) -> bool | None:
        """Returns whether a document is an exact duplicate of its representative."""
        other = decision.position if decision.entry is None else decision.entry
        if other is None:
            return None
        documents = self._session.documents
        return documents.is_exact_copy(prepared, position, other, decision.similarity)

    def _upsert_repeated_ids(self, batch: _Batch, began: float) -> list[Outcome]:
        """Upserts a batch in which an id occurs more than once."""
        first: dict[str, int] = {}
        for i, id in enumerate(batch.ids):
            if batch.digests[first.setdefault(id, i)] != batch.digests[i]:
                return self._upsert_one_by_one(batch)
        outcomes = self._upsert(batch.select(list(first.values())), began)
        by_id = dict(zip(first, outcomes, strict=True))
        return [
            by_id[id] if first[id] == i else _repeated_outcome(by_id[id])
            for i, id in enumerate(batch.ids)
        ]

    def _upsert_one_by_one(self, batch: _Batch) -> list[Outcome]:
        """Upserts a batch in which an update or an overflow changes what later documents find."""
        outcomes: list[Outcome] = []
        for i in range(len(batch.ids)):
            outcomes += self._upsert(batch.select([i]), time.perf_counter())
        return outcomes

    def _look_up(self, batch: _Batch) -> list[_Known]:
        """Looks a batch up in the cache and in the store.

        A known document is not written. So it must be in the store while this runs, and the index
        must be in this store. One small read confirms both for all cached documents, whatever other
        processes have deleted or moved meanwhile.
        """
        session = self._session
        stamp = session.cache.stamp()
        cached: list[int] = []
        missing: list[int] = []
        known = [_UNKNOWN] * len(batch.ids)
        for i, resolution in enumerate(session.cache.get_many(batch.scope, batch.ids)):
            if resolution is not None and resolution.digest == batch.digests[i]:
                known[i] = _Known(resolution, Layer.MEMORY, None)
                cached.append(i)
            else:
                missing.append(i)
        if missing:
            self._look_up_in_store(batch, missing, known)
        is_confirmed = True
        if cached:
            generation = session.confirm_state().generation
            is_confirmed = session.cache.sync_generation(generation, stamp)
        if not is_confirmed:
            self._look_up_in_store(batch, cached, known)
        if not (cached and is_confirmed) and any(one.resolution is not None for one in known):
            session.confirm_state()
        return known

    def _look_up_in_store(self, batch: _Batch, positions: list[int], known: list[_Known]) -> None:
        """Looks some documents of a batch up in the store.

        Args:
            positions: Positions of the documents in the batch, ascending.
        """
        rest = batch.select(positions)
        entries = self._session.store.entries(rest.scope, rest.ids)
        for i, entry in zip(positions, entries, strict=True):
            if entry is None:
                known[i] = _UNKNOWN
                continue
            if entry.digest != batch.digests[i]:
                known[i] = _Known(None, Layer.SEARCH, entry)
                continue
            resolution = Resolution(batch.digests[i], entry.leader, entry.cluster, entry.similarity)
            layer = Layer.RECORD if entry.is_leader else Layer.STORE
            known[i] = _Known(resolution, layer, entry)

    def _known_outcome(
        self, id: str, known: _Known, resolution: Resolution, seconds: dict[str, float]
    ) -> Outcome:
        """Returns the outcome of a document that was known before.

        Args:
            seconds: Duration of each phase, in seconds for each document.
        """
        return Outcome(
            kind=OutcomeKind.EXACT if resolution.leader == id else OutcomeKind.RESOLVED,
            layer=known.layer,
            id=id,
            cluster=resolution.cluster,
            representative=resolution.leader,
            similarity=resolution.similarity,
            candidates=0,
            seconds=seconds,
            related=None if self._session.settings.related is None else (),
        )

    def _renewal_limit(self, scope: str, now: float) -> float:
        """Returns the time before which a document that is hit gets the current time."""
        settings = self._session.searcher.of_scope(scope).settings
        return now - REFRESH_SHARE * settings.shortest_lifetime

    def _renew_times(
        self, batch: _Batch, known: list[_Known], changes: Changes, now: float
    ) -> None:
        """Keeps known documents and their representatives alive if they have a time to live."""
        oldest = self._renewal_limit(batch.scope, now)
        hits = {
            id: one.resolution
            for id, one in zip(batch.ids, known, strict=True)
            if one.resolution is not None
        }
        if oldest == -math.inf:
            return
        wanted = set(hits) | {resolution.leader for resolution in hits.values()}
        entries = {
            one.entry.id: one.entry
            for one in known
            if one.resolution is not None and one.entry is not None
        }
        missing = sorted(wanted - set(entries))
        for entry in self._session.store.entries(batch.scope, missing):
            if entry is not None:
                entries[entry.id] = entry
        leaders: list[str] = []
        for entry in entries.values():
            # a time that is ahead is corrected, too: otherwise the document would never expire
            is_due = entry.seen < oldest or entry.seen > now + TOLERANCE
            leader = entries.get(entry.leader)
            if is_due and leader is not None and leader.is_leader:
                changes.changed.append(entry._replace(seen=now))
                leaders.append(entry.leader)
        # the entry is written as it was read, so its leader must still be one
        changes.required_leaders += [entries[id] for id in dict.fromkeys(leaders)]

    def _add_entries(
        self,
        batch: _Batch,
        prepared: "PreparedBatch",
        decisions: "list[Decision]",
        changes: Changes,
        now: float,
    ) -> list[KeyedEntry]:
        """Adds the entries of new documents to the changes, as was decided, and returns them."""
        leaders = list(batch.ids)
        clusters = list(batch.ids)
        similarities = [1.0] * len(batch.ids)
        renewed = {entry.id for entry in changes.changed}
        # these become representatives in the same step, so they need not be ones before
        promoted = {entry.id for entry in changes.changed if entry.is_leader}
        oldest = self._renewal_limit(batch.scope, now)
        for i, decision in enumerate(decisions):
            if decision.entry is not None:
                leaders[i] = decision.entry.id
                clusters[i] = decision.entry.cluster
                similarities[i] = decision.similarity
                if leaders[i] not in promoted:
                    changes.required_leaders.append(decision.entry)
                if decision.entry.seen < oldest and leaders[i] not in renewed:
                    renewed.add(leaders[i])
                    changes.changed.append(decision.entry._replace(seen=now))
            elif decision.position is not None:
                leaders[i] = batch.ids[decision.position]
                clusters[i] = leaders[i]
                similarities[i] = decision.similarity
        builder = EntryBuilder(
            self._session.documents,
            prepared,
            contents=batch.documents,
            settings=self._session.settings,
            now=now,
        )
        crowded = [i for i, decision in enumerate(decisions) if decision.crowded]
        new = builder.build(batch.ids, leaders, clusters, similarities, crowded)
        changes.new += new
        return new


def _with_related(outcome: Outcome, decision: "Decision") -> Outcome:
    """Returns an outcome with the related representatives that a search has found."""
    kind = outcome.kind
    if decision.related and kind is OutcomeKind.NEW:
        kind = OutcomeKind.RELATED
    return replace(outcome, kind=kind, related=decision.related)


def _new_outcomes(
    new: Sequence[KeyedEntry],
    decisions: "list[Decision]",
    exact: Sequence[bool | None],
    seconds: dict[str, float],
) -> list[Outcome]:
    """Returns the outcomes of documents that a search has decided about.

    Args:
        seconds: Duration of each phase, in seconds for each document.
    """
    return [
        Outcome(
            kind=OutcomeKind.NEW if entry.is_leader else OutcomeKind.MATCH,
            layer=Layer.SEARCH,
            id=entry.id,
            cluster=entry.cluster,
            representative=entry.leader,
            similarity=entry.similarity,
            candidates=decision.compared,
            seconds=seconds,
            evidence=decision.evidence,
            exact=is_exact,
        )
        for (entry, _), decision, is_exact in zip(new, decisions, exact, strict=True)
    ]


def _repeated_outcome(outcome: Outcome) -> Outcome:
    """Returns the outcome of a document that occurs again in the same batch."""
    kind = OutcomeKind.RESOLVED if outcome.duplicate else OutcomeKind.EXACT
    related = None if outcome.related is None else ()
    return replace(
        outcome, kind=kind, layer=Layer.MEMORY, candidates=0, related=related, exact=None
    )
