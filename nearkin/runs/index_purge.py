"""The removal of stored documents that are like given ones, for opt-outs and takedowns."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.errors import UsageError
from nearkin.index.entry import Entry, require_scope
from nearkin.index.index import Index
from nearkin.runs.purge_request import LikeFiles
from nearkin.runtime.actor import ACTOR, acting_as

ENTRIES_AT_ONCE = 512
"""The number of stored documents that are compared at a time."""


def read_like(files: LikeFiles, index: Index) -> Blocklist:
    """Returns a blocklist of given documents, with the Spec and the key of an index."""
    if index.holds_vectors:
        raise UsageError(
            "documents are purged by their texts, and this index holds vectors; remove them by "
            "their ids with nearkin index remove"
        )
    blocklist = Blocklist(index.spec, index.resources)
    files.add_to(blocklist)
    return blocklist


@dataclass(frozen=True)
class PurgedDocument:
    """A stored document that is like a given one.

    Attributes:
        id: Id of the stored document.
        cluster: Id of its cluster.
        like: Id of the given document that it is most similar to.
        similarity: Exact similarity to it.
    """

    id: str
    cluster: str
    like: str
    similarity: float


@dataclass(frozen=True)
class PurgeResult:
    """The outcome of a purge.

    Attributes:
        purged: Documents that are like a given one.
        removed: Number of them that were removed by this call. 0 for a trial.
        compared: Number of stored documents that were compared.
        unknown: Number of stored documents whose content the index does not keep, so that they
            could not be compared.
    """

    purged: tuple[PurgedDocument, ...]
    removed: int
    compared: int
    unknown: int

    def to_json(self) -> dict[str, object]:
        """Returns the result as `--json` prints it."""
        return {
            **self.__dict__,
            "purged": [dict(document.__dict__) for document in self.purged],
        }


def purge_index(index: Index, scope: str, like: Blocklist, *, removes: bool) -> PurgeResult:
    """Removes the documents of a scope that are like given ones. It can be repeated.

    All stored documents of the scope are compared, representatives or not. The other documents of
    a cluster whose representative is removed elect another one.
    """
    require_scope(scope)
    like.require_spec(index.spec, "the index", "give documents of its Spec")
    search = like.search(index.measure)
    purged: list[tuple[PurgedDocument, bytes]] = []
    compared = 0
    unknown = 0
    for entries in _iterate_batches(index.scan(scope)):
        known = [entry for entry in entries if entry.has_content or entry.size == 0]
        comparable = [entry for entry in known if entry.has_content and entry.size > 0]
        unknown += len(entries) - len(known)
        compared += len(known)
        if not comparable:
            continue
        matches = search.find(index.payload_of(comparable), index.threshold)
        for position, match in like.name_matches(matches):
            entry = comparable[position]
            document = PurgedDocument(entry.id, entry.cluster, match.entry, match.similarity)
            purged.append((document, entry.digest))
    removed = 0
    if removes:
        # the history of the index tells a purge from other removals
        with acting_as(ACTOR.get()._replace(purges=True)):
            removed = sum(_remove_unchanged(index, scope, one.id, digest) for one, digest in purged)
    return PurgeResult(tuple(document for document, _ in purged), removed, compared, unknown)


def _iterate_batches(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    """Yields stored documents in batches."""
    while batch := list(islice(entries, ENTRIES_AT_ONCE)):
        yield batch


def _remove_unchanged(index: Index, scope: str, id: str, digest: bytes) -> bool:
    """Removes a document whose content is still the one that was compared."""
    entry = index.get(scope, id)
    return entry is not None and entry.digest == digest and index.remove(scope, id)
