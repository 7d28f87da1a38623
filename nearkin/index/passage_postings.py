"""The fingerprints of passages in the buckets of an index.

Each stored text has the anchors of its windows as keys of buckets (`stages.winnowing`). Texts that
share a passage share at least one of them. The postings are apart from those of band keys: they
stay as long as the document, whether it is a representative or not.
"""

import numpy as np

from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import RESERVED, Entry, posting_of
from nearkin.index.preparation import scope_salt
from nearkin.index.stores.base import Store
from nearkin.runtime.threads import ObjectPool
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.stages.lsh import kernels
from nearkin.stages.packed_pairs import sorted_unique
from nearkin.stages.shingle.shingler import LocatedTokens, Shingler, require_located_tokens
from nearkin.stages.winnowing.fingerprints import Buffers, collect_anchors
from nearkin.stages.winnowing.tokens import TokenPiece, locate_all_tokens


def passage_spec(spec: Spec) -> Spec:
    """Returns the Spec of the words whose runs are the passages of an index."""
    words = Spec(
        n=1,
        normalise=spec.normalise,
        base_hash=spec.base_hash,
        hash_seed=spec.hash_seed,
        key_id=spec.key_id,
        version=spec.version,
    )
    require_located_tokens(words)
    return words


class PassagePostings:
    """The fingerprints of the texts of an index. Safe for threads."""

    def __init__(self, spec: Spec, secret: HashKey | None, least: int) -> None:
        words = passage_spec(spec)
        self.least = least
        self._salt = f"passages:{words.fingerprint}:{least}".encode()
        self._shinglers = ObjectPool(lambda: Shingler(words, secret))

    def tokens_of(self, text: str) -> LocatedTokens:
        """Returns the words of a text, with their bytes."""
        return self._shinglers.use(lambda shingler: locate_all_tokens(shingler, text))

    def keys_of(self, scope: str, tokens: LocatedTokens) -> np.ndarray:
        """Returns the keys of the buckets of a text, uint64 (m,), distinct and ascending."""
        piece = TokenPiece(
            hashes=tokens.hashes,
            starts=tokens.starts,
            ends=tokens.ends,
            offsets=tokens.offsets,
            places=np.zeros(1, np.uint64),
        )
        distinct = sorted_unique(collect_anchors(piece, self.least, Buffers()))
        keys = np.empty((1, len(distinct)), np.uint64)
        salts = np.full(len(distinct), scope_salt(self._salt, scope), np.uint64)
        kernels.salt_keys(distinct.reshape(-1, 1), salts, keys)
        return sorted_unique(keys[0])

    def keys_of_entry(self, entry: Entry) -> np.ndarray:
        """Returns the keys of the buckets of a stored document, which may have none."""
        if entry.text is None or entry.scope.startswith(RESERVED):
            return np.empty(0, np.uint64)
        return self.keys_of(entry.scope, self.tokens_of(entry.text))

    def stage(self, changes: Changes, store: Store) -> None:
        """Adds the fingerprints of new and deleted documents to the changes of a step."""
        for entry, _ in changes.dropped:
            keys = self.keys_of_entry(entry)
            if len(keys):
                changes.postings_removed.append((entry.ref, keys))
        new_keys = [self.keys_of_entry(entry) for entry, _ in changes.new]
        if not any(map(len, new_keys)):
            return
        numbers = iter(store.reserve(sum(not entry.ref for entry, _ in changes.new)))
        changes.new = [
            KeyedEntry(entry if entry.ref else entry._replace(ref=next(numbers)), band_keys)
            for entry, band_keys in changes.new
        ]
        changes.postings_added += [
            (posting_of(entry.ref, 0, leads=True), keys)
            for (entry, _), keys in zip(changes.new, new_keys, strict=True)
            if len(keys)
        ]
        # what all texts contain fills buckets, which the search for representatives does not read
        changes.may_overflow = True
