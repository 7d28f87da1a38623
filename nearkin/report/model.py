"""What a run hands over to be reported: plain numbers and excerpts, with a JSON round trip (run.json holds it)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, NamedTuple, Self, get_args, get_origin, get_type_hints

import numpy as np

from nearkin.errors import UsageError
from nearkin.evaluate.audit import Audit
from nearkin.evaluate.boilerplate import Boilerplate
from nearkin.evaluate.overlap import Overlap

BINS = 50
EDGES = np.arange(BINS + 1) / BINS
"""Bin edges of similarity histograms: 0 to 1 in steps of 0.02; a bin holds its left edge, the last one both."""
NOTABLE_LOSS = 0.9
"""A source that loses more than this share is warned about: likely it is contained in another one."""


@dataclass(frozen=True)
class Parameters:
    """What was asked for and what followed from it.

    Attributes:
        threshold: Similarity from which documents count as near duplicates.
        recall: The asked share of such pairs to be found.
        bands: b of the banding; 0 where every pair was compared.
        rows: r of the banding; 0 where every pair was compared.
        k: Slots of a signature.
        scheme: `binned` or `classic`.
        shingle: As `words:3`.
        verify: `exact`, `estimate` or `none`.
        cluster: `leaders` or `components`.
        keep: The expression that decides which member is kept.
        measure: As `jaccard`.
        distance: Hamming distance that was asked for instead of a threshold.
        then: A second measure, as `cosine:embedding:0.95`.
        expected_bucket: Of signs: documents that are expected to share a band's bucket by chance, at this corpus' size.
        curve: P(candidate) at similarities from 0 to 1 in even steps; empty where every pair was compared, or found.
    """

    threshold: float
    recall: float
    bands: int
    rows: int
    k: int
    scheme: str
    shingle: str
    verify: str
    cluster: str
    keep: str
    measure: str = "jaccard"
    distance: int | None = None
    then: str | None = None
    expected_bucket: float | None = None
    curve: tuple[float, ...] = ()


@dataclass(frozen=True)
class Counts:
    """Documents by what became of them; kept + removed + rejected is what was read.

    Attributes:
        read: Rows read, rejected ones included.
        kept: Documents kept.
        removed_exact: Removed as equal to a kept one.
        removed_near: Removed as similar to a kept one.
        empty: Documents without a shingle, kept or removed as asked.
        rejected: Rows in quarantine.
        repeated_ids: Rows whose id occurs more than once.
        clusters: Groups of a kept document and at least one removed one.
        removed_vector: Removed as similar to a kept one by the second measure.
    """

    read: int
    kept: int
    removed_exact: int = 0
    removed_near: int = 0
    empty: int = 0
    rejected: int = 0
    repeated_ids: int = 0
    clusters: int = 0
    removed_vector: int = 0

    @property
    def removed_empty(self) -> int:
        """Empty documents that were dropped: what remains of the rows read.

        Examples:
            >>> Counts(read=10, kept=6, removed_exact=1, removed_near=1, empty=1, rejected=1).removed_empty
            1
        """
        return (
            self.read
            - self.kept
            - self.removed_exact
            - self.removed_near
            - self.removed_vector
            - self.rejected
        )

    @property
    def removed(self) -> int:
        """Documents removed for whatever reason."""
        return self.read - self.kept - self.rejected


@dataclass(frozen=True)
class Histogram:
    """Pairs by similarity, in the bins of `EDGES`; histograms of parts add up.

    Examples:
        >>> both = Histogram.of(np.array([0.58, 1.0])) + Histogram.of(np.array([0.57]))
        >>> both.counts[28], both.counts[29], both.counts[49], both.total
        (1, 1, 1, 3)
    """

    counts: tuple[int, ...] = (0,) * BINS

    def __post_init__(self) -> None:
        if len(self.counts) != BINS:
            raise UsageError(f"a similarity histogram has {BINS} bins, not {len(self.counts)}")

    @classmethod
    def of(cls, similarities: np.ndarray) -> Self:
        """Counts similarities from 0 to 1."""
        return cls(tuple(np.histogram(similarities, bins=EDGES)[0].tolist()))

    def __add__(self, other: "Histogram") -> "Histogram":
        return Histogram(tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))

    @property
    def total(self) -> int:
        """Pairs counted."""
        return sum(self.counts)


class StageSeconds(NamedTuple):
    """Wall-clock seconds of a stage."""

    stage: str
    seconds: float


class SizeCount(NamedTuple):
    """How many clusters have a size (documents in them, the kept one included)."""

    size: int
    clusters: int


class SourceCount(NamedTuple):
    """Rows read and removed of one source (a value of the `--source` column)."""

    source: str
    read: int
    removed: int

    @property
    def share(self) -> float:
        """Share removed."""
        return self.removed / self.read if self.read else 0.0


class HotBucket(NamedTuple):
    """A bucket with more members than are compared with each other, and the shingles that its members share."""

    band: int
    members: int
    shingles: tuple[str, ...]


class ReasonCount(NamedTuple):
    """Rows in quarantine for one reason."""

    reason: str
    rows: int


class Step(NamedTuple):
    """What a threshold would have kept, and the pairs at or above it."""

    threshold: float
    kept: int
    pairs: int


class Borderline(NamedTuple):
    """A pair just above a step's threshold: excerpts of two documents."""

    threshold: float
    similarity: float
    id_a: str
    id_b: str
    text_a: str
    text_b: str


class Example(NamedTuple):
    """A removed member of a cluster, its similarity to the kept one, and an excerpt."""

    id: str
    similarity: float
    text: str


@dataclass(frozen=True)
class Cluster:
    """A kept document and some of those removed in its favour.

    Attributes:
        id: Of the kept document.
        text: Excerpt of it, at most a few thousand characters.
        members: Documents in the cluster, the kept one included.
        examples: Removed members to show, the most telling first.
    """

    id: str
    text: str
    members: int
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True)
class ReportData:
    """Everything the report shows.

    Attributes:
        title: Of the page, as the names of the inputs.
        parameters: Of the run.
        counts: What became of the documents.
        seconds: Wall-clock seconds per stage, in the order they ran.
        peak_memory: Largest anonymous memory of the process tree, bytes.
        cluster_sizes: Clusters by size, ascending.
        verified: Scored pairs at or above the threshold, by similarity.
        estimated: Candidate pairs by estimated similarity.
        sources: Rows by source; empty without `--source`.
        hot_buckets: Buckets that were clustered inside themselves.
        rejected: Quarantined rows by reason.
        clusters: The largest clusters, largest first. The page shows twenty.
        audit: Measured recall and precision, if the run was audited.
        boilerplate: Phrases that many kept documents have; None of vectors.
        overlap: Documents of each source with duplicates in others; None without `--source`.
        leakage: Documents of each split with duplicates in others; None without `--split`.
        what_if: Higher thresholds; empty where pairs do not tell.
        borderline: Pairs just above them.
        warnings: Sentences.

    Examples:
        >>> parameters = Parameters(0.8, 0.95, 13, 7, 128, "binned", "words:3", "exact", "leaders", "length desc")
        >>> data = ReportData("crawl", parameters, Counts(read=3, kept=2, removed_near=1, clusters=1))
        >>> data.headline
        'Of 3 documents 2 are kept; 0 exact and 1 near duplicate removed.'
        >>> ReportData.from_json(data.to_json()) == data
        True
    """

    title: str
    parameters: Parameters
    counts: Counts
    seconds: tuple[StageSeconds, ...] = ()
    peak_memory: int = 0
    cluster_sizes: tuple[SizeCount, ...] = ()
    verified: Histogram = field(default_factory=Histogram)
    estimated: Histogram = field(default_factory=Histogram)
    sources: tuple[SourceCount, ...] = ()
    hot_buckets: tuple[HotBucket, ...] = ()
    rejected: tuple[ReasonCount, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    warnings: tuple[str, ...] = ()
    audit: Audit | None = None
    boilerplate: Boilerplate | None = None
    overlap: Overlap | None = None
    leakage: Overlap | None = None
    what_if: tuple[Step, ...] = ()
    borderline: tuple[Borderline, ...] = ()

    @property
    def headline(self) -> str:
        """The run in one sentence."""
        counts = self.counts
        documents = "document" if counts.read == 1 else "documents"
        are = "is" if counts.kept == 1 else "are"
        vector = f", {counts.removed_vector:,} more by vector" if counts.removed_vector else ""
        duplicates = "duplicate" if counts.removed_near == 1 else "duplicates"
        return (
            f"Of {counts.read:,} {documents} {counts.kept:,} {are} kept; "
            f"{counts.removed_exact:,} exact and {counts.removed_near:,} near {duplicates} removed{vector}."
        )

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The run's warnings, one for each source that loses more than `NOTABLE_LOSS`, and one for each split that leaks."""
        losing = (
            f"{source.source} loses {source.share:.1%} of its documents ({source.removed:,} of {source.read:,})"
            for source in self.sources
            if source.share > NOTABLE_LOSS
        )
        return (*self.warnings, *losing, *(_leaking(self.leakage) if self.leakage else ()))

    @property
    def total_seconds(self) -> float:
        """Of all stages."""
        return sum(stage.seconds for stage in self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON has them but for tuples."""
        return asdict(self)

    def to_json(self) -> str:
        """As a JSON object."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From what `to_dict` or a JSON reader returned.

        Raises:
            UsageError: A field is missing, or unknown because a newer nearkin wrote it.
        """
        restored: Self = _restore(cls, values)
        return restored

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """From a JSON object; raises as `from_dict`."""
        return cls.from_dict(json.loads(text))


def _leaking(found: Overlap) -> Iterator[str]:
    for a, b in found.leaks:
        share = f"{found.share(a, b):.1%} of the documents of {found.column} {found.labels[a]}"
        counts = f"{found.similar[a][b]:,} of {found.documents[a]:,}"
        yield f"{share} have a duplicate in {found.labels[b]} ({counts})"


def _restore(kind: Any, value: Any) -> Any:
    """The value of an annotated type from its plain form: dataclasses, named tuples and tuples, nested."""
    if get_origin(kind) is UnionType:
        return None if value is None else _restore(get_args(kind)[0], value)
    if is_dataclass(kind):
        return restore_dataclass(kind, value)
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        return tuple(_restore(inner, item) for item in value)
    if hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return kind(
            *(_restore(hints[name], item) for name, item in zip(kind._fields, value, strict=True))
        )
    return value


def restore_dataclass(kind: Any, values: Any) -> Any:
    if not isinstance(values, Mapping):
        raise UsageError(f"{kind.__name__} of a report is a JSON object, not {str(values)[:40]!r}")
    known = {item.name for item in fields(kind)}
    if unknown := sorted(set(values) - known):
        raise UsageError(
            f"{kind.__name__} has the unknown field {unknown[0]!r}: a newer nearkin wrote it; upgrade"
        )
    hints = get_type_hints(kind)
    try:
        return kind(**{name: _restore(hints[name], value) for name, value in values.items()})
    except TypeError as error:
        raise UsageError(
            f"this report's {kind.__name__} is not complete ({error}); run nearkin dedup again"
        ) from error
