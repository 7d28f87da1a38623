"""The documents that clients send, and the results that they return."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearkin.index.documents import Document
    from nearkin.quality.plan.tune import OperatingPoint


@dataclass(frozen=True)
class NewDocument:
    """A document with its id.

    Attributes:
        document: A text, a vector of numbers, or a `TextAndVector`.
        id: The id, or None for an id that is made from the content.
    """

    document: "Document"
    id: str | None = None


@dataclass(frozen=True)
class StoredDocument:
    """A document as a server stores it.

    Attributes:
        id: The id of the document.
        cluster: The id of its cluster.
        representative: The id of the representative of its cluster.
        similarity: The exact similarity to the representative.
        shingles: The number of distinct shingles. It is 0 for vectors.
        created: The time of its creation, in seconds since 1970.
        seen: The time of its last match in seconds since 1970, if documents have a time to live.
        text: The text, or None if the index does not store texts.
    """

    id: str
    cluster: str
    representative: str
    similarity: float
    shingles: int
    created: float
    seen: float
    text: str | None = None


@dataclass(frozen=True)
class ClusterHead:
    """A cluster in a list.

    Attributes:
        id: The id of the cluster.
        representative: The id of its representative.
        size: The number of its documents.
        created: The creation time of its representative, in seconds since 1970.
    """

    id: str
    representative: str
    size: int
    created: float


@dataclass(frozen=True)
class ClusterPage:
    """A page of the clusters of a scope.

    Attributes:
        clusters: The clusters of the page.
        next: The cursor of the next page, or None on the last page.
        as_of: The time at which clusters were counted, in seconds since 1970.
    """

    clusters: tuple[ClusterHead, ...]
    next: str | None
    as_of: float


@dataclass(frozen=True)
class TuningResult:
    """The operating points for the signatures of a server.

    Attributes:
        measure: The measure of the index.
        k: The number of slots or bits of a signature.
        threshold: The requested threshold.
        recall: The requested recall.
        documents: The number of documents for which candidates are expected.
        distribution: The distribution of similarities from which candidates are counted.
        points: The operating points, the cheapest first.
    """

    measure: str
    k: int
    threshold: float
    recall: float
    documents: int
    distribution: str
    points: "tuple[OperatingPoint, ...]"
