"""What every measure does."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from nearkin.lsh.band_keys import BandLayout
from nearkin.lsh.slot_bands import Banding
from nearkin.packed_pairs import ScoredPairs
from nearkin.sketch.sketcher import BandKeyBuilder, Sketches
from nearkin.spec import Spec
from nearkin.verify.weighted import MEMORY, WeightedBuilder


class Payload(NamedTuple):
    """What exact comparison needs of some documents, one after the other."""

    sizes: np.ndarray
    """int64 (n,): rows of each document in the columns."""
    columns: tuple[np.ndarray, ...]
    """Each (sum of sizes,) or (sum of sizes, width)."""


class Stored(NamedTuple):
    """Payloads of the documents that may be compared, mapped or in memory."""

    place: np.ndarray
    """uint32 (documents,): where each document stands among the stored ones."""
    starts: np.ndarray
    """int64 (stored + 1,)"""
    columns: tuple[np.ndarray, ...]


def joined(parts: list[Payload]) -> Payload:
    """Payloads, one after the other."""
    columns = zip(*(part.columns for part in parts), strict=True)
    return Payload(
        np.concatenate([part.sizes for part in parts]),
        tuple(np.concatenate(column) for column in columns),
    )


def starts_of(payload: Payload) -> np.ndarray:
    """int64 (n + 1,): where each document's rows begin."""
    return np.concatenate([[0], np.cumsum(payload.sizes)]).astype(np.int64)


def stored_of(payload: Payload) -> Stored:
    """For comparing documents by their position in a payload."""
    return Stored(np.arange(len(payload.sizes), dtype=np.uint32), starts_of(payload), payload.columns)


class DocumentSketcher(Protocol):
    """Documents to signatures; one for each thread."""

    def sketch(self, documents: pa.Array) -> Sketches:
        """The signatures of a batch."""


class PayloadBuilder(Protocol):
    """Documents to payloads; one for each thread."""

    def build(self, documents: pa.Array) -> Payload:
        """The payloads of a batch."""


class WeightedPayloads:
    """Weighted shingles as payloads."""

    def __init__(self, builder: WeightedBuilder) -> None:
        self._builder = builder

    def build(self, documents: pa.Array) -> Payload:
        """Hashes and weights."""
        sets = self._builder.sets(documents)
        return Payload(sets.sizes, (sets.hashes, sets.weights))


class Request(NamedTuple):
    """What banding is solved for."""

    threshold: float
    recall: float
    bands: int | None = None
    rows: int | None = None
    tables: int = 1
    probes: int = 0
    documents: int = 0


class Measure(Protocol):
    """One similarity, over signatures of one Spec."""

    @property
    def spec(self) -> Spec:
        """Of the signatures."""

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        """Type and width (None: one number a row) of the payload's columns."""

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> DocumentSketcher:
        """A new one; `key_builder` makes band keys that do not follow from MinHash signatures."""

    def payload_builder(self) -> PayloadBuilder:
        """A new one."""

    def compare(self, pairs: np.ndarray, stored: Stored) -> ScoredPairs:
        """Exact similarity of packed pairs."""

    def compare_all(
        self,
        payload: Payload,
        blocks: np.ndarray,
        threshold: float,
        workers: int,
        memory: int = MEMORY,
    ) -> Iterator[ScoredPairs]:
        """Yields every pair of one block that reaches the threshold, by position among the payload's documents, in order."""

    def slot_collision_probability(self, similarity: np.ndarray) -> np.ndarray:
        """Chance that a banded slot agrees at a similarity, from which every S-curve follows."""

    def estimate(self, pairs: np.ndarray, agreeing: np.ndarray) -> ScoredPairs:
        """Similarity of packed pairs as estimated from how many slots agree."""

    def expected_agreements(self, similarity: float) -> float:
        """How many slots agree at an estimated similarity; inverse of `estimate`."""

    def standard_error(self, similarity: float) -> float:
        """Of the estimate at a similarity."""

    def banding(self, request: Request) -> Banding:
        """Bands and rows for a request, or the error that says what can be had."""

    def band_layout(self, banding: Banding, keys: np.ndarray | None) -> BandLayout:
        """How kernels band and compare signatures."""

    def distance(self, similarity: np.ndarray) -> np.ndarray | None:
        """Hamming distances, where the similarity is one."""
