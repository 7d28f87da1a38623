"""The search for stored documents that share a passage with a text.

The stages are: fingerprints of the text, their buckets, candidates by shared fingerprints, and the
comparison of the words of each candidate. Texts come from strangers, so each stage has a bound.
"""

from contextlib import nullcontext
from threading import Lock
from typing import NamedTuple

import numpy as np

from nearkin.index.entry import REF_SHIFT, Entry
from nearkin.index.passage_matches import MatchedPassage, PassageMatch, PassageMatches
from nearkin.index.passage_postings import PassagePostings
from nearkin.index.settings import IndexSettings
from nearkin.index.stores.base import PORTION, Portions, Store
from nearkin.stages.shingle.shingler import LocatedTokens
from nearkin.stages.winnowing.matching_runs import find_matching_runs

KEYS_AT_ONCE = 1_000
"""The number of buckets that are read at once."""
MOST_POSTINGS = 4_000_000
"""The number of postings after which no more buckets are read."""
MOST_COMPARED_TOKENS = 20_000_000
"""The number of words, of the text and of candidates, after which no more are compared."""
MOST_PASSAGES = 100
"""The maximum number of passages of a document that are returned."""
LARGE_TOKENS = 1_000_000
"""The number of words from which comparisons wait for each other, because each takes memory."""


class _Candidates(NamedTuple):
    """Stored documents that share fingerprints with a text."""

    refs: np.ndarray
    """The numbers of the documents, int64 (n,), those with most fingerprints first."""
    is_complete: bool
    """True if all buckets were read, and none of them has lost postings."""


class _Compared(NamedTuple):
    """A candidate that shares passages with the text."""

    ref: int
    match: PassageMatch


class PassageSearcher:
    """Finds the documents of an open index that share a passage with a text. Safe for threads."""

    def __init__(self, store: Store, settings: IndexSettings, postings: PassagePostings) -> None:
        self._store = store
        self._settings = settings
        self.postings = postings
        self._large_comparisons = Lock()

    def find(self, scope: str, text: str, top: int) -> PassageMatches:
        """Returns the documents that share passages with a text."""
        tokens = self.postings.tokens_of(text)
        candidates = self._find_candidates(self.postings.keys_of(scope, tokens))
        refs = candidates.refs.tolist()
        found: list[_Compared] = []
        compared = 0
        words = 0
        portions = Portions(PORTION)
        most = min(len(refs), self._settings.max_candidates)
        while compared < most and words < MOST_COMPARED_TOKENS:
            portion = refs[compared : min(most, compared + portions.size)]
            entries = self._store.by_refs(portion)
            portions.read(len(portion), sum(len(entry.text or "") for entry in entries if entry))
            for ref, entry in zip(portion, entries, strict=True):
                if words >= MOST_COMPARED_TOKENS:
                    break
                compared += 1
                # a document that was deleted meanwhile shares nothing any more
                if entry is None or entry.text is None or entry.scope != scope:
                    continue
                stored = self.postings.tokens_of(entry.text)
                words += len(tokens.hashes) + len(stored.hashes)
                match = self._compare(tokens, entry, stored)
                if match is not None:
                    found.append(_Compared(ref, match))
        found.sort(key=lambda one: (-one.match.tokens, one.ref))
        return PassageMatches(
            documents=tuple(one.match for one in found[:top]),
            candidates=len(refs),
            compared=compared,
            complete=candidates.is_complete and compared == len(refs),
        )

    def _find_candidates(self, keys: np.ndarray) -> _Candidates:
        """Returns the documents in some buckets.

        Args:
            keys: Keys of the buckets, uint64 (m,).
        """
        parts = [np.empty(0, np.int64)]
        postings_read = 0
        is_complete = True
        for start in range(0, len(keys), KEYS_AT_ONCE):
            if postings_read > MOST_POSTINGS:
                is_complete = False
                break
            portion = keys[start : start + KEYS_AT_ONCE]
            postings = self._store.postings(portion)
            is_complete = is_complete and not self._store.overflowed(portion).any()
            parts.append(postings.words >> REF_SHIFT)
            postings_read += len(postings.words)
        refs, shared = np.unique(np.concatenate(parts), return_counts=True)
        return _Candidates(refs[np.lexsort((refs, -shared))], is_complete)

    def _compare(
        self, tokens: LocatedTokens, entry: Entry, stored: LocatedTokens
    ) -> PassageMatch | None:
        """Returns the passages that a text shares with a stored document, or None without any."""
        is_large = len(tokens.hashes) + len(stored.hashes) > LARGE_TOKENS
        with self._large_comparisons if is_large else nullcontext():
            runs = find_matching_runs(tokens.hashes, stored.hashes, self.postings.least)
        if not len(runs):
            return None
        listed = np.sort(np.argsort(-runs[:, 2], kind="stable")[:MOST_PASSAGES])
        passages = tuple(
            MatchedPassage(
                start=int(tokens.starts[first]),
                end=int(tokens.ends[first + length - 1]),
                stored_start=int(stored.starts[stored_first]),
                stored_end=int(stored.ends[stored_first + length - 1]),
                tokens=length,
            )
            for first, stored_first, length in runs[listed].tolist()
        )
        return PassageMatch(
            id=entry.id,
            cluster=entry.cluster,
            tokens=_count_covered(runs),
            passages=passages,
            found=len(runs),
        )


def _count_covered(runs: np.ndarray) -> int:
    """Returns the number of tokens that are in at least one run.

    Args:
        runs: First token and number of tokens of each run in columns 0 and 2, int64 (n, 3). Both
            ends of the runs ascend.
    """
    ends = runs[:, 0] + runs[:, 2]
    previous_ends = np.concatenate([[0], ends[:-1]])
    return int((ends - np.maximum(runs[:, 0], previous_ends)).sum())
