"""The bound of the memory that a store takes in this process."""

from nearkin.errors import IndexFullError
from nearkin.index.changes import Changes
from nearkin.index.entry import HANDOVERS_PREFIX


def growing_keys(changes: Changes) -> int | None:
    """Returns the number of postings that a step adds, or None if it adds no documents.

    Steps without new documents are never refused: they delete documents, or resolve the members of
    documents that are deleted. Handovers of clusters belong to such steps.
    """
    posted = sum(keyed.keys.size for keyed in changes.posted if keyed.keys is not None)
    posted += sum(keys.size for _, keys in changes.postings_added)
    new = [keyed for keyed in changes.new if not keyed.entry.scope.startswith(HANDOVERS_PREFIX)]
    if not new:
        return None
    return posted + sum(keyed.keys.size for keyed in new if keyed.keys is not None)


def require_room(needed: int, bound: int | None, url: str) -> None:
    """Verifies that a store stays within its memory.

    Args:
        needed: Memory that the store would need, in bytes.
        bound: Maximum memory of the store, in bytes, or None for no limit.
    """
    if bound is not None and needed > bound:
        raise IndexFullError(
            f"the index in {url} is full: its store would need {needed:,} bytes of memory, and "
            f"max_memory leaves it {bound:,}; delete documents, raise max_memory, or move the "
            "index to a store on a server"
        )
