"""Probes of live scopes: altered copies of stored documents that queries must find.

A probe reads a stored representative, leaves out some of its shingles (or turns its vector by an
angle) in memory, and queries the scope of the document with the copy. The similarity of the copy is
known, and is above the threshold, so that a correct index returns the document. Nothing is written,
the copy never leaves the process, and only numbers are reported.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock

import numpy as np

from nearkin.errors import UsageError
from nearkin.index.documents import CheckedPair, Document, ShingledDocument
from nearkin.index.entry import RESERVED, Entry, Outcome
from nearkin.index.index import Index
from nearkin.index.settings import VectorEvidence
from nearkin.index.stats import uncounted_searches
from nearkin.runtime.sliding_window import SlidingWindow
from nearkin.service.server.telemetry import MAX_SCOPE_LABELS, Instruments

MAX_SAMPLED = 100
"""The number of documents that are remembered for each label of a scope."""
MAX_PROBES_PER_ROUND = 1000
"""The number of probes of all scopes together in one round."""


@dataclass
class _Sample:
    """A uniform sample of the documents that were added (reservoir sampling, Vitter 1985, R)."""

    added: int = 0
    names: list[tuple[str, str]] = field(default_factory=list)

    def add(self, scope: str, id: str) -> None:
        """Adds a document, which may replace another one."""
        self.added += 1
        if len(self.names) < MAX_SAMPLED:
            self.names.append((scope, id))
            return
        place = int(random.random() * self.added)
        if place < MAX_SAMPLED:
            self.names[place] = (scope, id)


@dataclass
class _ProbeCounts:
    """The probes of one scope label in some time."""

    probed: int = 0
    found: int = 0


class LiveProbes:
    """Samples representatives of live scopes, and measures the recall of queries with them."""

    def __init__(self, instruments: Instruments, index: Index, per_scope: int) -> None:
        self._instruments = instruments
        self._per_scope = per_scope
        self._samples: dict[str, _Sample] = {}
        self._counts = SlidingWindow(dict[str, _ProbeCounts], index.now)
        self._lock = Lock()
        self._is_seeded = False

    def add_outcomes(self, scope: str, outcomes: Sequence[Outcome]) -> None:
        """Adds the representatives that upserts returned to the sample of their scope."""
        with self._lock:
            sample = self._sample_of(scope)
            for outcome in outcomes:
                sample.add(scope, outcome.representative)

    def _sample_of(self, scope: str) -> _Sample:
        return self._samples.setdefault(self._instruments.scope_label(scope), _Sample())

    def _sample_stored(self, index: Index) -> None:
        """Samples the oldest documents of scopes that an earlier process filled."""
        for scope in islice(index.iterate_scopes(), MAX_SCOPE_LABELS):
            if scope.startswith(RESERVED):
                continue
            entries = islice(index.scan(scope, content=False), MAX_SAMPLED)
            ids = [entry.id for entry in entries if entry.is_leader]
            with self._lock:
                sample = self._sample_of(scope)
                for id in ids:
                    sample.add(scope, id)

    def probe(self, index: Index) -> None:
        """Probes each scope with some of its sampled documents."""
        if not self._is_seeded:
            self._sample_stored(index)
            self._is_seeded = True
        with self._lock:
            samples = {label: list(sample.names) for label, sample in self._samples.items()}
        most = min(self._per_scope, max(1, MAX_PROBES_PER_ROUND // max(1, len(samples))))
        for label, names in samples.items():
            for scope, id in random.sample(names, min(most, len(names))):
                is_found = probe_document(index, scope, id)
                if is_found is None:
                    continue
                with self._lock:
                    counts = self._counts.current().setdefault(label, _ProbeCounts())
                    counts.probed += 1
                    counts.found += is_found
                self._instruments.record_probe(found=is_found)

    def recall_by_scope(self) -> dict[str, float]:
        """Returns the share of the probes of the last ten minutes that were found, by label."""
        totals: dict[str, _ProbeCounts] = {}
        with self._lock:
            for part in self._counts.slices():
                for label, counts in part.items():
                    total = totals.setdefault(label, _ProbeCounts())
                    total.probed += counts.probed
                    total.found += counts.found
        return {label: total.found / total.probed for label, total in totals.items()}


def probe_document(index: Index, scope: str, id: str) -> bool | None:
    """Returns whether a query with an altered copy of a representative finds it."""
    entry = index.get(scope, id)
    if entry is None or not _must_be_found(index, entry):
        return None
    copy = altered_copy(index, entry)
    if copy is None:
        return None
    try:
        with uncounted_searches():
            matches = index.query(scope, copy, top=index.settings.max_candidates)
    except UsageError:
        # the document was stored with a larger max_document
        return None
    if any(match.id == id for match in matches):
        return True
    current = index.get(scope, id)
    is_unchanged = (
        current is not None and current.digest == entry.digest and _must_be_found(index, current)
    )
    return False if is_unchanged else None


def _must_be_found(index: Index, entry: Entry) -> bool:
    """Returns True if a document is a representative whose times to live are not over."""
    settings = index.settings
    times = (settings.bucket_ttl, settings.record_ttl, settings.window)
    now = index.now()
    return (
        entry.is_leader
        and entry.posted
        and all(ttl is None or entry.seen > now - ttl for ttl in times)
    )


def altered_copy(index: Index, entry: Entry) -> "Document | None":
    """Returns a copy of a document that is half as far from it as the threshold allows.

    A copy of a shingle set lacks randomly chosen shingles; a copy of a vector is turned in a random
    direction. For other measures, the copy is the document itself.
    """
    if index.settings.vector is not None:
        return _altered_pair(index, entry, index.settings.vector)
    if index.holds_vectors:
        vector = np.frombuffer(entry.payload, np.float32).astype(np.float64)
        return _turn_vector(vector, _probed_similarity(index.threshold))
    return _altered_text(index, entry)


def _probed_similarity(threshold: float) -> float:
    """Returns the similarity of a copy, which is half as far away as the threshold allows."""
    return (1 + threshold) / 2


def _altered_pair(index: Index, entry: Entry, settings: VectorEvidence) -> CheckedPair | None:
    """Returns an altered copy of a document of an index of texts and vectors.

    The text is altered if there is one. The copy has no vector then, unless it needs both kinds.
    """
    has_text = bool(entry.size)
    text = _altered_text(index, entry) if has_text else None
    vector = index.vector_of(entry)
    if index.settings.combine == "both":
        return None if text is None or vector is None else CheckedPair(text, vector)
    if text is not None:
        return CheckedPair(text, None)
    if has_text or vector is None:
        return None
    assert settings.threshold is not None
    similarity = _probed_similarity(settings.threshold)
    turned = _turn_vector(vector.astype(np.float64), similarity)
    return None if turned is None else CheckedPair(None, turned)


def _altered_text(index: Index, entry: Entry) -> "ShingledDocument | str | None":
    """Returns a copy of a text without some of its shingles; for other measures, the text."""
    if index.spec.measure == "jaccard":
        threshold = index.scope_status(entry.scope).settings.threshold or index.threshold
        similarity = _probed_similarity(threshold)
        hashes = index.payload_of([entry]).columns[0]
        if not len(hashes):
            return None
        # a subset of m of n shingles has the similarity m / n
        kept = math.ceil(similarity * len(hashes))
        rows = np.sort(np.random.default_rng().permutation(len(hashes))[:kept])
        return ShingledDocument(hashes[rows])
    return entry.text


def _turn_vector(vector: np.ndarray, cosine: float) -> np.ndarray | None:
    """Returns a unit vector at an angle to a vector, or None for a vector without a direction.

    Args:
        vector: The vector, float64 (n,).
    """
    length = float(np.linalg.norm(vector))
    if length == 0.0 or len(vector) < 2:
        return None
    unit = vector / length
    noise = np.random.default_rng().standard_normal(len(unit))
    noise -= unit * float(noise @ unit)
    noise /= np.linalg.norm(noise)
    turned = cosine * unit + math.sqrt(1 - cosine**2) * noise
    return turned.astype(np.float32)
