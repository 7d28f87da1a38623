"""The interfaces of measures, and the data that exact comparison needs of documents."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from nearkin.settings.spec import Spec
from nearkin.stages.lsh.band_keys import BandLayout, slot_layout, truncated_layout
from nearkin.stages.lsh.sign_bands import SignBanding
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.packed_pairs import ScoredPairs
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch.sketcher import BandKeyBuilder, Sketches
from nearkin.stages.verify.weighted import DEFAULT_MEMORY


class Payload(NamedTuple):
    """The data of some documents for exact comparison, one document after the other."""

    sizes: np.ndarray
    """int64 (n,): The number of rows of each document in the columns."""
    columns: tuple[np.ndarray, ...]
    """The columns, each of shape (sum of sizes,) or (sum of sizes, width)."""


class StoredPayloads(NamedTuple):
    """The payloads of all documents that can be compared, mapped or in memory."""

    place: np.ndarray
    """uint32 (documents,): The position of each document among the stored ones."""
    starts: np.ndarray
    """int64 (stored + 1,): The first row of each stored document in the columns."""
    columns: tuple[np.ndarray, ...]
    """The columns, as in `Payload`."""

    def count_rows(self, documents: np.ndarray) -> np.ndarray:
        """Returns the numbers of rows of stored documents, int64 (m,)."""
        places = self.place[documents].astype(np.int64)
        return np.asarray(self.starts[places + 1] - self.starts[places])


def concatenate_payloads(parts: list[Payload]) -> Payload:
    """Returns several payloads as one, in order."""
    columns = zip(*(part.columns for part in parts), strict=True)
    sizes = np.concatenate([part.sizes for part in parts])
    return Payload(sizes, tuple(np.concatenate(column) for column in columns))


def row_starts(payload: Payload) -> np.ndarray:
    """Returns the first row of each document of a payload, and the end, int64 (n + 1,)."""
    return np.concatenate([[0], np.cumsum(payload.sizes)]).astype(np.int64)


def select_documents(payload: Payload, documents: np.ndarray) -> Payload:
    """Returns the payloads of some documents, by their positions, in the given order.

    Examples:
        >>> payload = Payload(np.array([1, 2]), (np.array([7, 8, 9]),))
        >>> [part.tolist() for part in select_documents(payload, np.array([1])).columns]
        [[8, 9]]
    """
    sizes = payload.sizes[documents]
    offsets = np.cumsum(sizes) - sizes
    first = row_starts(payload)[documents]
    rows = np.repeat(first - offsets, sizes) + np.arange(int(sizes.sum()))
    return Payload(sizes, tuple(column[rows] for column in payload.columns))


def as_stored(payload: Payload) -> StoredPayloads:
    """Returns a payload whose documents are compared by their positions in it."""
    place = np.arange(len(payload.sizes), dtype=np.uint32)
    return StoredPayloads(place, row_starts(payload), payload.columns)


class DocumentSketcher(Protocol):
    """A sketcher of documents. It is used by one thread at a time."""

    def sketch(
        self, documents: pa.Array, also: Callable[[Shingles], None] | None = None
    ) -> Sketches:
        """Returns the signatures of a batch of documents.

        Args:
            documents: The documents.
            also: Is called with the compared shingles of each slice of texts.
        """


class PayloadBuilder(Protocol):
    """A builder of payloads. It is used by one thread at a time."""

    def build(self, documents: pa.Array) -> Payload:
        """Returns the payload of a batch of documents."""


class BandingRequest(NamedTuple):
    """The requirements that a banding is chosen for."""

    threshold: float
    """The smallest similarity of near-duplicates."""
    recall: float
    """The required recall at the threshold, in (0, 1)."""
    bands: int | None = None
    """The number of bands, or None to choose it."""
    rows: int | None = None
    """The number of rows of a band, or None to choose it."""
    tables: int = 1
    """The number of independent tables (MinHash only)."""
    probes: int = 0
    """The number of probed slots of a band (MinHash only)."""
    documents: int = 0
    """The number of documents of the corpus. It decides the rows of bands of signs."""


class Estimator(Protocol):
    """The relation between a similarity and the agreement of two signatures."""

    def slot_collision_probability(self, similarity: np.ndarray) -> np.ndarray:
        """Returns the probability that one banded slot agrees at each similarity, float64."""

    def expected_agreements(self, similarity: float) -> float:
        """Returns the expected number of agreeing slots; the inverse of `estimate`."""

    def estimate(self, pairs: np.ndarray, agreeing: np.ndarray) -> ScoredPairs:
        """Estimates the similarity of pairs.

        Args:
            pairs: Packed pairs, uint64 (m,).
            agreeing: Number of agreeing slots or bits of each pair, int64 (m,).

        Returns:
            The pairs with the estimated intersection and union, whose quotient is the similarity.
        """

    def standard_error(self, similarity: float) -> float:
        """Returns the standard error of the estimate at a similarity."""

    def hamming_distances(self, similarity: np.ndarray) -> np.ndarray | None:
        """Returns Hamming distances, int64, or None if the similarity is not one of signatures."""


class Measure(Protocol):
    """A definition of similarity, with the signatures of one Spec."""

    @property
    def spec(self) -> Spec:
        """The Spec of the signatures."""

    @property
    def estimator(self) -> Estimator:
        """The relation between similarity and signatures."""

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        """The type and the width of each column of a payload; None for one number in a row."""

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> DocumentSketcher:
        """Returns a new sketcher.

        Args:
            key_builder: Builder of the band keys that cannot be computed from signatures.

        Raises:
            UsageError: If documents cannot be sketched with the weights of the Spec.
        """

    def payload_builder(self) -> PayloadBuilder:
        """Returns a new builder of payloads."""

    def compare(self, pairs: np.ndarray, stored: StoredPayloads) -> ScoredPairs:
        """Computes the exact similarity of packed pairs.

        Args:
            pairs: Packed pairs of document numbers, uint64 (m,).
            stored: Payloads of the documents.

        Returns:
            The pairs with intersection and union, whose quotient is the similarity.
        """

    def compare_all(
        self,
        payload: Payload,
        scope: PairScope,
        threshold: float,
        workers: int,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[ScoredPairs]:
        """Yields every pair of a scope that reaches the threshold, in order (brute force).

        Args:
            payload: Payload of the documents. Pairs consist of positions in it.
            scope: Pairs that are compared.
            threshold: Smallest similarity of a pair.
            workers: Number of threads.
            memory: Maximum number of bytes of intermediate results.
        """

    def banding(self, request: BandingRequest) -> Banding:
        """Returns the banding for a request.

        Raises:
            UsageError: If no banding satisfies the request. The message says what is possible.
        """


def band_layout_of(spec: Spec, banding: Banding, keys: np.ndarray | None) -> BandLayout:
    """Returns how kernels band and compare the signatures of a Spec.

    Args:
        spec: Spec of the signatures.
        banding: Bands of the signatures.
        keys: Band keys of the whole slots, uint64 (n, b). They are required for truncated slots.
    """
    if isinstance(banding, SignBanding):
        return banding.band_layout
    if not spec.truncated:
        return slot_layout(banding.rows)
    assert keys is not None
    return truncated_layout(spec.k, spec.slot_bits, keys)
