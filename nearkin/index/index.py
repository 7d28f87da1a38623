"""The online index, which resolves each new document to a representative that it resembles.

`Index` is the interface of all of it. Its reads are in `reader`, its parameters and statistics in
`description`. The steps that write are in `upsert`, `removal`, `expiry` and `parts`, and the search
is in `search`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from nearkin.errors import UsageError
from nearkin.index.decided_pairs import PairGuard
from nearkin.index.documents import Document
from nearkin.index.entry import Outcome, require_id, require_scope, require_unreserved_scope
from nearkin.index.opening import open_index, require_matching_key, require_used_resources
from nearkin.index.reader import IndexReader
from nearkin.index.removal import Removals
from nearkin.index.scope_settings import ScopeConfiguration, ScopeSettings, ScopeStatus
from nearkin.index.session import Session, with_frequencies
from nearkin.index.settings import IndexKeywords, IndexSettings, merge_settings
from nearkin.index.telemetry import measured_call
from nearkin.index.upsert import Upserts
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.number_range import COUNT
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import Spec

if TYPE_CHECKING:
    from nearkin.engine.blocklist.blocklist import Blocklist
    from nearkin.index.deciding import DecisionSteps
    from nearkin.index.expiry import Expiry
    from nearkin.index.parts import DocumentParts
    from nearkin.index.stores.base import Store
    from nearkin.settings.decisions import Decision, Decisions
    from nearkin.stages.sketch.resources import SpecResources


class Index(IndexReader):
    """An index of documents in scopes. Documents of different scopes are never compared.

    Open one with `Index.open`. An index is a context manager. It is safe for threads, and for
    processes that share a store.

    Examples:
        >>> index = Index.open("memory://", threshold=0.5)
        >>> print(index.upsert("tenant-a", "the cat sat on the mat", id="one").kind)
        new
        >>> outcome = index.upsert("tenant-a", "the cat sat on the mat today", id="two")
        >>> print(outcome.kind, outcome.representative, outcome.similarity)
        match one 0.8
        >>> print(index.upsert("tenant-b", "the cat sat on the mat").kind)
        new
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._removals = Removals(session)
        self._upserts = Upserts(session, self._removals)

    @cached_property
    def _expiry(self) -> "Expiry":
        # few programs expire documents, receive them in parts, or store decisions
        from nearkin.index.expiry import Expiry

        return Expiry(self._session)

    @cached_property
    def _parts(self) -> "DocumentParts":
        from nearkin.index.parts import DocumentParts

        return DocumentParts(self._session, self.upsert)

    @cached_property
    def _decisions(self) -> "DecisionSteps":
        from nearkin.index.deciding import DecisionSteps

        return DecisionSteps(self._session, self._removals)

    @classmethod
    @check_arguments
    def open(
        cls,
        url: str | Sequence[str] | None = None,
        spec: Spec | None = None,
        threshold: float | None = None,
        *,
        store: "Store | None" = None,
        settings: IndexSettings | str | Path | Mapping[str, object] | None = None,
        preset: str | None = None,
        resources: "SpecResources | None" = None,
        spec_resources: str | Path | None = None,
        clock: Callable[[], float] | None = None,
        decisions: "Mapping[str, str | Path | Decisions] | None" = None,
        follow: bool = True,
        must_exist: bool = False,
        blocklist: "Blocklist | None" = None,
        warm_up: bool = True,
        **fields: Unpack[IndexKeywords],
    ) -> Self:
        """Opens an index, or creates one if the store is empty and `must_exist` is False.

        Args:
            url: URL of the store: `memory://`, `sqlite:///file.db`, `redis://…`, `postgresql://…`
                or `aerospike://…`, or a scheme that another package registers. Several URLs name
                the shards of one index.
            spec: Spec of the signatures. By default that of the existing index, or `Spec()`.
            threshold: Minimum similarity of a document to the representative it is resolved to, in
                (0, 1]. By default that of the existing index, or 0.8.
            store: An open store, in place of a URL. The index closes it.
            settings: Further parameters; or a settings file of runs, for example of `nearkin fit`,
                or its values. Of these, an index takes the Spec, the threshold or the distance,
                the recall, the bands and `related`.
            preset: Settings of runs for a kind of data: `web`, `articles`, `records`,
                `bibliography`, `logs`, `code` or `titles`. Excludes a settings file.
            resources: The hash key and the data that the Spec refers to.
            spec_resources: Folder of a run with the data that the Spec refers to (document
                frequencies, cut shingles); or a file of document frequencies. A Spec of
                `idf-jaccard` that names no document frequencies gets them from here, or from
                `resources`.
            clock: Returns the time in seconds, for times to live, for the window and for the
                interval of refreshes. By default the machine's clock, or the store's if they
                differ.
            decisions: People's decisions about pairs of documents, or files of them, by scope. A
                document is never resolved to a representative of a document from which it is
                decided to be different, and always to that of one that it is decided to be the
                same as. They hold for the steps of this index object, and are not stored. `decide`
                stores decisions.
            follow: False for a copy in the making, whose steps fail (MovedError) if a migration
                begins or ends. By default the index follows migrations to other stores.
            must_exist: True to open an existing index only. A store without an index is refused,
                and nothing is written to it.
            blocklist: Blocklist of the Spec of the index. Texts that are like one of its entries
                are not stored, in any scope: their upsert has the kind `blocked`. See
                `use_blocklist`.
            warm_up: True to compile the kernels that upserts and queries call, if that was never
                done on this machine. The installed releases bring them compiled. False lets the
                first documents wait for the compiler.
            **fields: Fields of IndexSettings that replace those of `settings`; and, in place of a
                Spec, its options as `dedup` has them, for example `shingle` and `normalise`.

        Raises:
            UsageError: If a field is unknown or not valid, not exactly one of a URL and a store
                is given, or the Spec needs document frequencies and none are given.
            MissingIndexError: If the store has no index, and `must_exist` is True.
            KeyRequiredError: If the key in `resources` is not that of the Spec.
            IncompatibleError: If the index was created with another Spec, threshold or document
                frequencies, or the blocklist has another Spec.
            StoreError: If the store cannot be reached.
        """
        requested = merge_settings(settings, preset, spec, threshold, fields)
        if (url is None) == (store is None):
            raise UsageError("an index is opened by a URL or by a store; give exactly one of them")
        if store is not None and requested.max_memory is not None:
            raise UsageError(
                f"{name_setting('max_memory', requested.max_memory)} does not apply to a store "
                f"that is given; "
                "remove the setting"
            )
        guard = PairGuard(_read_all(decisions) if decisions else {})
        urls = store.url if store is not None else url
        assert urls is not None
        folder = None if spec_resources is None else Path(spec_resources)
        requested = with_frequencies(requested, resources, folder)
        require_matching_key(requested, None if resources is None else resources.secret)
        opened = open_index(urls, requested, follow=follow, store=store, must_exist=must_exist)
        try:
            require_used_resources(folder, opened.settings)
            index = cls(Session(opened, resources, clock, folder, follow=follow, guard=guard))
            index.use_blocklist(blocklist)
            if requested.history is not None and follow:
                index._session.set_history(requested.history)
            if warm_up:
                # It imports the compiler, which an index that answers no request does not need.
                from nearkin.index.warm_up import prepare_upserts

                prepare_upserts(index.settings, index.resources, Index.open)
        except BaseException:
            opened.store.close()
            raise
        return index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the store and releases its connections."""
        self._session.store.close()

    def refresh(self) -> None:
        """Reads the state of the store. Switches to another store if the index has moved.

        Every method does this by itself if the last time is 5 seconds ago.

        Raises:
            StoreError: If the store, or the one that the index has moved to, cannot be reached.
        """
        self._session.refresh()

    @property
    def blocklist(self) -> "Blocklist | None":
        """The blocklist of this process, or None."""
        blocker = self._upserts.blocker
        return None if blocker is None else blocker.blocklist

    @check_arguments
    def use_blocklist(self, blocklist: "Blocklist | None") -> None:
        """Sets the blocklist that upserts of this process are compared with from now on.

        Documents that are stored already stay. Entries that are added to the list later count after
        another call.

        Args:
            blocklist: Blocklist of the Spec of the index, or None for no blocklist.

        Raises:
            IncompatibleError: If the list has another Spec.
        """
        self._upserts.use_blocklist(blocklist)

    @check_arguments
    def upsert(self, scope: str, document: Document, id: str | None = None) -> Outcome:
        """Inserts a document, or resolves it to a similar representative.

        Args:
            scope: Scope of the document, for example a tenant.
            document: A text, a vector, or a `TextAndVector`, as the index has them.
            id: Id of the document. By default it is derived from the content. Another content
                under a known id is an update.

        Raises:
            UsageError: If the document is of the wrong kind or too large, or a name is not valid.
            StoreError: If the store fails.
        """
        ids = None if id is None else [id]
        with measured_call(self._session.telemetry, "upsert", 1):
            return self._upserts.upsert_many(scope, [document], ids)[0]

    @check_arguments
    def upsert_many(
        self, scope: str, documents: Sequence[Document], ids: Sequence[str | None] | None = None
    ) -> list[Outcome]:
        """Upserts documents in order, with a few round trips for all of them.

        Args:
            scope: Scope of the documents.
            documents: Texts, vectors or `TextAndVector`, at most `max_batch` of them.
            ids: Ids of the documents; None for one that is derived from the content.

        Raises:
            UsageError: If a document is of the wrong kind or too large, or if there are too many.
                Nothing is written then.
            StoreError: If the store fails. Usually nothing is written then. Documents that change
                what later ones find (updates, buckets that overflow) are written one by one: those
                before the failure are written. The same batch may be sent again.
        """
        with measured_call(self._session.telemetry, "upsert", len(documents)):
            return self._upserts.upsert_many(scope, documents, ids)

    @check_arguments
    def check_document(self, document: Document) -> None:
        """Verifies that a document can be upserted or queried.

        Raises:
            UsageError: If the document is of the wrong kind, too large, or a vector of the wrong
                dimensions.
        """
        self._session.documents.check(document)

    @check_arguments
    def require_writable(self, scope: str) -> None:
        """Refuses a new scope whose name could be confused with another one.

        See `nearkin.index.scope_names`. A copy in the making accepts every scope of its source.

        Raises:
            UsageError: If the name is refused.
        """
        self._upserts.require_writable(scope)

    @check_arguments
    def add_part(self, scope: str, id: str, part: str | Sequence[str]) -> int:
        """Adds a part to a document that arrives in parts.

        Args:
            scope: Scope of the document.
            id: Id of the document.
            part: A text, or tokens. Shingles do not extend from one part into the next one.

        Returns:
            The number of shingles of all parts. Those of several parts may count more than once.

        Raises:
            UsageError: If the documents of the index are not sets of shingles, or the document
                becomes too large.
        """
        self.require_writable(scope)
        return self._parts.add_part(scope, id, part)

    @check_arguments
    def finish(self, scope: str, id: str) -> Outcome | None:
        """Upserts a document from its parts, which are then deleted.

        If this is interrupted, it can be repeated with the same result.

        Args:
            scope: Scope of the document.
            id: Id of the document.

        Returns:
            The outcome of the upsert, or None if the document has no parts.
        """
        return self._parts.finish(scope, id)

    @check_arguments
    def remove(self, scope: str, id: str) -> bool:
        """Deletes a document. If it is a representative, its members elect another one.

        The parts of an unfinished document of this id are deleted, too.

        Args:
            scope: Scope of the document.
            id: Id of the document.

        Returns:
            False if the document did not exist, and had no parts.
        """
        with measured_call(self._session.telemetry, "remove", 1):
            had_parts = self._parts.discard(require_scope(scope), require_id(id))
            return self._removals.remove(scope, id) or had_parts

    @check_arguments
    def remove_many(self, scope: str, ids: Sequence[str]) -> int:
        """Deletes documents in portions, as `remove` does one by one.

        Each portion is one step of the store, between which other calls are served. If this is
        interrupted, it can be repeated.

        Args:
            scope: Scope of the documents.
            ids: Ids of the documents. Those that do not exist are passed over.

        Returns:
            The number of ids that had a document, or parts of an unfinished one.
        """
        with measured_call(self._session.telemetry, "remove", len(ids)):
            unfinished = self._parts.discard_many(require_scope(scope), ids)
            return len(self._removals.remove_many(scope, ids) | unfinished)

    @check_arguments
    def remove_scope(self, scope: str, limit: int | None = None) -> int:
        """Deletes all documents of a scope in portions, with the parts of unfinished ones.

        Other scopes are served meanwhile. If this is interrupted, it can be repeated. Decisions
        about the documents stay.

        Args:
            scope: The scope.
            limit: Number of documents after which this ends, at least 1; None for no limit. Fewer
                are deleted only if no others are left.

        Returns:
            The number of documents that were deleted. Unfinished ones do not count.
        """
        if limit is not None:
            COUNT.require("limit", limit)
        with measured_call(self._session.telemetry, "remove", 1):
            self._parts.discard_scope(require_scope(scope))
            return self._removals.remove_scope(scope, math.inf if limit is None else limit)

    @check_arguments
    def decide(self, scope: str, decisions: "Sequence[Decision]") -> int:
        """Stores people's decisions about documents of a scope, and follows them at once.

        Stored documents that are decided to be different leave their common cluster, and those that
        are decided to be the same are joined. All processes that have the index open follow the
        decisions from then on, and so do copies of the index. A repeated call has no effect.

        Args:
            scope: Scope of the documents.
            decisions: Decisions about pairs of ids, which need not be stored. Of two about a pair,
                the later one counts, and they must agree if one of them has no time. A decision
                without a time gets the current one.

        Returns:
            The number of decisions that were not stored before.

        Raises:
            UsageError: If decisions contradict each other or stored ones, or an id is not valid.
                Nothing is written then.
            StoreError: If the store fails.

        Examples:
            >>> from nearkin import Spec
            >>> from nearkin.settings.decisions import Decision, Verdict
            >>> index = Index.open("memory://", Spec(n=1), 0.5)
            >>> outcomes = index.upsert_many("web", ["a b c d", "a b c d e"], ["one", "two"])
            >>> index.decide("web", [Decision("one", "two", Verdict.DIFFERENT)])
            1
            >>> index.get("web", "two").leader
            'two'
        """
        return self._decisions.add(scope, decisions)

    @check_arguments
    def decisions(self, scope: str) -> "Decisions":
        """Returns the decisions about documents of a scope that the index stores.

        Args:
            scope: Scope of the documents.
        """
        return self._decisions.read(scope)

    @check_arguments
    def decisions_version(self, scope: str) -> str:
        """Returns a text that changes whenever decisions about documents of a scope are stored.

        It costs one small read, so that a caller that lists decisions can find out if its list is
        current.

        Args:
            scope: Scope of the documents.

        Returns:
            Hexadecimal digits. The text is empty if the index stores no decision about the scope.
        """
        return self._decisions.read_version(scope)

    @check_arguments
    def configure_scope(self, scope: str, settings: ScopeSettings) -> ScopeStatus:
        """Stores the settings of a scope, which replace its previous ones.

        Steps of all processes follow them at once, and searches of others within 5 seconds. Stored
        documents stay where they were resolved to. They are counted if there is a quota, while
        others are served; an interrupted call can be repeated.

        Args:
            scope: The scope. It need not have documents.
            settings: Its settings. `ScopeSettings()` has those of the index.

        Raises:
            UsageError: If the bands of the index do not find documents at the threshold. Nothing is
                written then.
            StoreError: If the store fails.

        Examples:
            >>> index = Index.open("memory://")
            >>> limit = ScopeSettings(max_documents=1)
            >>> index.configure_scope("acme", limit).used_documents
            0
            >>> index.upsert("acme", "the cat sat on the mat", id="one").kind.value
            'new'
            >>> index.scope_status("acme").used_documents
            1
        """
        self.require_writable(require_unreserved_scope(scope))
        configuration = ScopeConfiguration(self._session)
        configuration.write(scope, settings)
        self._session.fence()
        if settings.has_quota:
            configuration.count(scope)
        return self.scope_status(scope)

    @check_arguments
    def merge_into_older(self, scope: str, id: str) -> int:
        """Resolves a representative, with its members, to a similar older representative.

        Args:
            scope: Scope of the representative.
            id: Id of the representative.

        Returns:
            The number of documents that moved, which is 0 if no older representative is similar.
        """
        return self._removals.merge_into_older(scope, id)

    @check_arguments
    def expire(self, *, trust_clock: bool = False) -> dict[str, int]:
        """Deletes documents and postings whose time to live is over.

        Args:
            trust_clock: True if the caller has confirmed that the machine's clock is right,
                although most documents are due at once. A clock that differs from the store's is
                refused all the same.

        Returns:
            The numbers of deleted `records` and `postings`.

        Raises:
            ClockError: If the clock of this process is not plausible. Nothing is deleted then.
        """
        return self._expiry.expire(trust_clock=trust_clock)

    @check_arguments
    def sweep(self, every: float) -> dict[str, int]:
        """Does what `expire` does, in one of the processes that have the index open.

        Args:
            every: Interval at which a process calls this, in seconds. Another process takes over
                if the sweeping one has not called for one and a half intervals.

        Returns:
            The numbers of deleted `records` and `postings`.

        Raises:
            ClockError: If the clock of this process is not plausible. Nothing is deleted then.
        """
        return self._expiry.sweep(every)

    def protect(self) -> None:
        """Marks the index permanently as one that was served with tokens."""
        # it keeps the store open if the index moves meanwhile
        searcher = self._session.searcher
        searcher.store.protect()

    @check_arguments
    def export(self, path: str | Path) -> int:
        """Writes all documents to a parquet file, which `nearkin index migrate` can load.

        Args:
            path: Path of the file.

        Returns:
            The number of documents.

        Raises:
            UsageError: If the file is inside the work folder of a run.
            StoreError: If the store fails or the file cannot be written.
        """
        from nearkin.index.exports import write_export

        # It keeps the store open if the index moves meanwhile.
        searcher = self._session.searcher
        return write_export(searcher.store, Path(path))


def _read_all(decisions: "Mapping[str, str | Path | Decisions]") -> "dict[str, Decisions]":
    """Returns the decisions of each scope, of which some are given as files."""
    # Few indexes have decisions, and every process with an index imports this module.
    from nearkin.settings.decisions import read_decisions

    return {
        scope: read_decisions(given) if isinstance(given, str | Path) else given
        for scope, given in decisions.items()
    }
