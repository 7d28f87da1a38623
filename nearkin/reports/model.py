"""The data of a report: numbers and excerpts of a run, which are stored as report.json."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from nearkin.errors import UsageError
from nearkin.quality.evaluate.audit import Audit
from nearkin.quality.evaluate.boilerplate import Boilerplate
from nearkin.quality.evaluate.doubtful_removals import DoubtfulRemovals
from nearkin.quality.evaluate.lost_share import LostShare
from nearkin.quality.evaluate.overlap import Overlap
from nearkin.quality.evaluate.template_families import TemplateFamilies
from nearkin.reports.similarity_bins import Histogram
from nearkin.runtime.number_format import format_percent
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.version import VERSION
from nearkin.texts.passages.cutting.request import CutCounts

Restored = TypeVar("Restored")

NOTABLE_LOSS = 0.9
"""The share of removed documents above which a source is warned about. Such a source is probably
contained in another one."""

OPTIONAL_COUNTS = (
    "removed_reference",
    "removed_reference_same",
    "removed_same",
    "removed_blocked",
    "related",
    "related_pairs",
    "same_shingles",
)
"""The counts that only runs with some options have."""


@dataclass(frozen=True)
class Parameters:
    """The settings of a run and the values that were derived from them.

    Attributes:
        threshold: Smallest similarity of near-duplicates.
        recall: Requested share of the near-duplicate pairs to find.
        bands: Number of bands, or 0 if every pair was compared.
        rows: Number of slots in a band, or 0 if every pair was compared.
        k: Number of slots of a signature.
        scheme: Algorithm of the signatures, for example `binned` or `classic`.
        shingle: Shingle in the form of the option, for example `words:3`.
        verify: Verification: `exact`, `estimate` or `none`.
        cluster: Clustering method: `leaders` or `components`.
        keep: Keep policy, which decides which document of a cluster is kept.
        measure: Name of the measure, for example `jaccard`.
        distance: Maximum Hamming distance, if one was requested instead of a threshold.
        then: Second measure, for example `cosine:embedding:0.95`.
        expected_bucket: Number of documents that are expected to share a bucket by chance, for
            signatures of signs and the size of this corpus.
        curve: Candidate probabilities at similarities from 0 to 1 in even steps. Empty if every
            pair was compared, or if banding misses none.
        accept: Condition under which documents were removed, or None if the threshold decided.
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
    accept: str | None = None


@dataclass(frozen=True)
class Counts:
    """The numbers of documents by what the run did with them.

    The numbers of kept, removed and rejected rows add up to the number of rows read.

    Attributes:
        read: Number of rows read, rejected rows included.
        kept: Number of kept documents.
        removed_exact: Number of removed exact duplicates.
        removed_near: Number of removed near-duplicates.
        empty: Number of documents without shingles, whether kept or removed.
        rejected: Number of rejected rows.
        repeated_ids: Number of rows whose id occurs more than once.
        clusters: Number of clusters with at least one removed document.
        removed_vector: Number of documents removed by the second measure.
        removed_reference: Number of documents removed as duplicates of a document of the reference,
            which do not count elsewhere. None without a reference.
        removed_reference_same: Number of those that have an equal value of a column, or None for a
            run without a reference or the options `same` and `url`.
        removed_same: Number of documents removed because of an equal value of a column, or None
            for a run without the options `same` and `url`.
        removed_blocked: Number of documents removed because they are like an entry of the
            blocklist, or None for a run without one.
        related: Number of kept documents that resemble a document of another cluster, or None for
            a run without the option `related`.
        related_pairs: Number of pairs of different clusters that are related, or None for a run
            without the option `related`.
        same_shingles: Number of near-duplicates with the shingles of the document that they
            repeat, or None if the run does not know it.
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
    removed_reference: int | None = None
    removed_reference_same: int | None = None
    removed_same: int | None = None
    removed_blocked: int | None = None
    related: int | None = None
    related_pairs: int | None = None
    same_shingles: int | None = None

    @property
    def removed_empty(self) -> int:
        """The number of empty documents that were removed.

        Examples:
            >>> Counts(read=10, kept=6, removed_exact=1, removed_near=1, rejected=1).removed_empty
            1
        """
        return (
            self.read
            - self.kept
            - self.removed_exact
            - self.removed_near
            - self.removed_vector
            - (self.removed_reference or 0)
            - (self.removed_same or 0)
            - (self.removed_blocked or 0)
            - self.rejected
        )

    @property
    def removed(self) -> int:
        """The number of removed documents, for any reason."""
        return self.read - self.kept - self.rejected

    def list_notes(self) -> list[str]:
        """Returns sentences about documents that are easily taken for something else.

        Examples:
            >>> Counts(read=9, kept=7, removed_near=2, empty=1, same_shingles=2).list_notes()[1]
            '1 document was not compared: it has no words.'
        """
        notes = []
        if self.same_shingles:
            have = "near-duplicate has" if self.same_shingles == 1 else "near-duplicates have"
            notes.append(
                f"{self.same_shingles:,} {have} the same shingles as the kept document: only "
                "symbols, punctuation, order or repetitions differ. The step symbols of "
                f"{name_setting('normalise')} makes symbols count as words."
            )
        if self.empty:
            were = "document was" if self.empty == 1 else "documents were"
            have = "it has" if self.empty == 1 else "they have"
            notes.append(f"{self.empty:,} {were} not compared: {have} no words.")
        return notes

    def describe_related(self) -> str:
        """Returns a sentence about related documents, or nothing if they were not asked for.

        Examples:
            >>> Counts(read=3, kept=3, related=2, related_pairs=1).describe_related()
            ' 2 kept documents are related to others (1 pair of different clusters).'
        """
        if self.related is None:
            return ""
        documents = "document is" if self.related == 1 else "documents are"
        pairs = "pair" if self.related_pairs == 1 else "pairs"
        return (
            f" {self.related:,} kept {documents} related to others ({self.related_pairs:,} {pairs} "
            "of different clusters)."
        )


class StageSeconds(NamedTuple):
    """The wall-clock time of a stage in seconds."""

    stage: str
    seconds: float


class SizeCount(NamedTuple):
    """The number of clusters of one size. The size counts all documents, the kept one included."""

    size: int
    clusters: int


class SourceCount(NamedTuple):
    """The numbers of rows read and removed of one source, a value of the `--source` column."""

    source: str
    read: int
    removed: int

    @property
    def share(self) -> float:
        """The share of the rows of the source that was removed."""
        return self.removed / self.read if self.read else 0.0


class QuotedBucket(NamedTuple):
    """A hot bucket: its band, the number of its documents, and shingles that they share."""

    band: int
    members: int
    shingles: tuple[str, ...]


class BetterCopies(NamedTuple):
    """The number of clusters in which a removed document is better than the kept one."""

    measure: str
    """The way in which it is better, for example `longer`."""
    clusters: int
    """The number of these clusters."""
    total: int
    """The number of all clusters with a removed document."""


class ReasonCount(NamedTuple):
    """The number of rows that were rejected for one reason."""

    reason: str
    rows: int


class ThresholdStep(NamedTuple):
    """The numbers of kept documents and of near-duplicate pairs at a higher threshold."""

    threshold: float
    kept: int
    pairs: int


BORDERLINE_CHARACTERS = 600
"""The largest number of characters that a report quotes of a document of a borderline pair."""


class BorderlinePair(NamedTuple):
    """A pair whose similarity is just above the threshold of a step, with excerpts."""

    threshold: float
    similarity: float
    id_a: str
    id_b: str
    text_a: str
    text_b: str


class RemovedExample(NamedTuple):
    """A removed document of a cluster, its similarity to the kept one, and an excerpt.

    The similarity of a duplicate by value is None.
    """

    id: str
    similarity: float | None
    text: str


@dataclass(frozen=True)
class ClusterExcerpt:
    """A cluster as a report quotes it: the kept document and some of the removed ones.

    Attributes:
        id: Id of the kept document.
        text: Excerpt of the kept document, at most 4,000 characters.
        members: Number of documents in the cluster, the kept one included.
        examples: Removed documents to show, the least similar first.
    """

    id: str
    text: str
    members: int
    examples: tuple[RemovedExample, ...] = ()


LOSSY_CHARACTERS = 1200
"""The largest number of characters that a report quotes of a document that lost much."""


class LossyExample(NamedTuple):
    """A removed document that lost much, beside the kept one."""

    kept: str
    """The id of the kept document."""
    removed: str
    """The id of the removed document."""
    lost: float
    """The share of the removed document's shingles that the kept one lacks."""
    text_kept: str
    """An excerpt of the kept document."""
    text_removed: str
    """An excerpt of the removed document."""
    in_reference: bool = False
    """True if the kept document is one of a reference."""


@dataclass(frozen=True)
class LostReport:
    """The information that a run lost: the shingles of removed documents that kept ones lack.

    Attributes:
        total: Loss of all removed documents.
        sources: Loss by source. Empty without `--source`.
        unmeasured: Number of removed documents whose loss is not known.
        worst: Removed documents that lost most, the worst first.
    """

    total: LostShare
    sources: tuple[LostShare, ...] = ()
    unmeasured: int = 0
    worst: tuple[LossyExample, ...] = ()

    def to_record(self) -> dict[str, object]:
        """Returns the numbers as run.json holds them, without ids and texts."""
        return {
            "total": self.total._asdict(),
            "sources": [share._asdict() for share in self.sources],
            "unmeasured": self.unmeasured,
        }


@dataclass(frozen=True)
class PassageReport:
    """The passages that were cut from the kept documents.

    Attributes:
        min_tokens: Smallest number of words of a passage, or of characters.
        unit: Unit of a passage: `words` or `chars`.
        cut: What was cut, as it is written on the command line.
        min_left: Number of words below which the rest of a cut document was removed.
        counts: Counts of the cut.
    """

    min_tokens: int
    unit: str
    cut: str
    min_left: int
    counts: CutCounts


class LineSource(NamedTuple):
    """A source of a repeated line."""

    source: str | None
    documents: int
    """The number of its documents with the line."""
    share: float
    """The share of its documents that have the line."""


@dataclass(frozen=True)
class ListedLine:
    """A repeated line or paragraph of a report.

    Attributes:
        documents: Number of documents with the line.
        places: Number of its places.
        id: Document of its first place in keep order.
        text: Beginning of the line there.
        sources: Sources with most documents that have the line.
    """

    documents: int
    places: int
    id: str
    text: str
    sources: tuple[LineSource, ...] = ()


@dataclass(frozen=True)
class LinesReport:
    """The repeated lines or paragraphs of documents.

    Attributes:
        unit: `line` or `paragraph`.
        least: Number from which a line is repeated.
        counted: What is counted: `documents` or `places`.
        action: What was done with repeated lines.
        repeated_lines: Number of different lines that are repeated.
        repeated_places: Number of their places.
        counts: Counts of the cut, or None if nothing was cut.
        listed: The lines in most documents.
    """

    unit: str
    least: int
    counted: str
    action: str
    repeated_lines: int
    repeated_places: int
    counts: CutCounts | None
    listed: tuple[ListedLine, ...] = ()

    def to_record(self) -> dict[str, object]:
        """Returns the numbers as run.json holds them, without ids and texts."""
        values = asdict(self)
        del values["listed"]
        return values


@dataclass(frozen=True)
class MergedValue:
    """A value that a kept row got from other rows of its cluster.

    Attributes:
        id: Id of the kept row.
        before: Beginning of its own value as a text, or None for a missing one.
        after: Beginning of the value that it got.
        sources: Ids of the first rows that the value is from.
        source_count: Number of these rows.
    """

    id: str
    before: str | None
    after: str | None
    sources: tuple[str, ...]
    source_count: int


@dataclass(frozen=True)
class MergedColumnReport:
    """A column of which kept rows got values of their clusters.

    Attributes:
        column: Name of the column.
        rule: Rule by which a value was chosen or made.
        count: Number of kept rows that got a value.
        examples: First values that they got.
    """

    column: str
    rule: str
    count: int
    examples: tuple[MergedValue, ...] = ()


@dataclass(frozen=True)
class MergeReport:
    """The values that kept rows got from their clusters.

    Attributes:
        rows: Number of kept rows that got a value.
        clusters: Number of clusters of several rows.
        columns: The columns, in the order in which they were given.
    """

    rows: int
    clusters: int
    columns: tuple[MergedColumnReport, ...]

    def to_record(self) -> dict[str, object]:
        """Returns the numbers as run.json holds them, without ids and values."""
        columns = {column.column: column.count for column in self.columns}
        return {"rows": self.rows, "clusters": self.clusters, "columns": columns}


class ClosestCall(NamedTuple):
    """The removed near-duplicate that is least similar to its kept document."""

    kept: str
    """The id of the kept document."""
    removed: str
    """The id of the removed document."""
    similarity: float


@dataclass(frozen=True)
class Provenance:
    """The origin of a report.

    Attributes:
        created: Time at which the report was made, in UTC, for example `2026-11-22T07:45:10Z`.
        version: Version of nearkin.
        inputs: Paths, patterns, folders and URLs of the inputs, without passwords.
        command: Command line of the run without passwords. Empty for the library.
    """

    created: str
    version: str
    inputs: tuple[str, ...] = ()
    command: str = ""

    @classmethod
    def now(cls, inputs: Iterable[str] = (), command: str = "") -> Self:
        """Returns the provenance of a report that is made now by this version."""
        created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return cls(created=created, version=VERSION, inputs=tuple(inputs), command=command)


@dataclass(frozen=True, repr=False)
class ReportData:
    """The data that a report shows.

    Attributes:
        title: Title of the page: the names of the inputs.
        parameters: Settings of the run.
        counts: Numbers of documents by what the run did with them.
        seconds: Wall-clock time of each stage without the compilation of kernels, in the order of
            execution.
        compile_seconds: Time in which kernels were compiled, in seconds.
        peak_memory: Largest anonymous memory of the process tree, in bytes.
        cluster_sizes: Number of clusters of each size, in ascending order of the sizes.
        verified: Histogram of the scored pairs at or above the threshold.
        estimated: Histogram of the candidate pairs by estimated similarity.
        sources: Numbers of rows by source. Empty without `--source`.
        hot_buckets: Hot buckets, which were clustered internally.
        rejected: Numbers of rejected rows by reason.
        clusters: Largest clusters, the largest first. The page shows twenty.
        warnings: Warnings, each a sentence.
        audit: Measured recall and precision, if the run was audited.
        boilerplate: Phrases that many kept documents share, or None for vectors.
        overlap: Duplicates between sources, or None without `--source`.
        leakage: Duplicates between splits, or None without `--split`.
        better_copies: Clusters in which a removed document is better than the kept one, by other
            measures than the keep policy.
        what_if: Results at higher thresholds. Empty if the stored pairs do not determine them.
        borderline: Pairs just above these thresholds.
        sampled_clusters: Clusters that were drawn at random from the others.
        closest_call: Removed near-duplicate that is least similar to its kept document, if any.
        provenance: Date, version, inputs and command, or None in reports of older versions.
        lost: Information that the run lost, or None if it was not measured.
        passages: Passages that were cut from the kept documents, or None if none were asked for.
        lines: Repeated lines that were cut from the kept documents, or None if none were asked for.
        merged: Values that kept rows got from their clusters, or None if none were asked for.
        chosen: Settings that were chosen for the inputs, in words. Empty if they were given, or are
            those of a run without options.
        templates: Documents that are equal but for values such as dates, or None if a sample of
            the documents shows none.
        doubtful: Removed near-duplicates that may be distinct documents, or None if too few were
            removed, or the documents are not texts.

    Examples:
        >>> parameters = Parameters(
        ...     threshold=0.8, recall=0.95, bands=13, rows=7, k=128, scheme="binned",
        ...     shingle="words:3", verify="exact", cluster="leaders", keep="length desc",
        ... )
        >>> counts = Counts(read=3, kept=2, removed_near=1, clusters=1)
        >>> data = ReportData("crawl", parameters, counts)
        >>> data.headline
        '2 of 3 documents kept; 0 exact duplicates and 1 near-duplicate removed.'
        >>> ReportData.from_json(data.to_json()) == data
        True
    """

    title: str
    parameters: Parameters
    counts: Counts
    seconds: tuple[StageSeconds, ...] = ()
    compile_seconds: float = 0.0
    peak_memory: int = 0
    cluster_sizes: tuple[SizeCount, ...] = ()
    verified: Histogram = field(default_factory=Histogram)
    estimated: Histogram = field(default_factory=Histogram)
    sources: tuple[SourceCount, ...] = ()
    hot_buckets: tuple[QuotedBucket, ...] = ()
    rejected: tuple[ReasonCount, ...] = ()
    clusters: tuple[ClusterExcerpt, ...] = ()
    warnings: tuple[str, ...] = ()
    audit: Audit | None = None
    boilerplate: Boilerplate | None = None
    overlap: Overlap | None = None
    leakage: Overlap | None = None
    what_if: tuple[ThresholdStep, ...] = ()
    borderline: tuple[BorderlinePair, ...] = ()
    sampled_clusters: tuple[ClusterExcerpt, ...] = ()
    closest_call: ClosestCall | None = None
    provenance: Provenance | None = None
    lost: LostReport | None = None
    templates: TemplateFamilies | None = None
    doubtful: DoubtfulRemovals | None = None
    better_copies: tuple[BetterCopies, ...] = ()
    passages: PassageReport | None = None
    lines: LinesReport | None = None
    merged: MergeReport | None = None
    chosen: str = ""

    def __repr__(self) -> str:
        return f"<ReportData: {self.title}: {self.headline}>"

    @property
    def headline(self) -> str:
        """The result of the run in one sentence."""
        counts = self.counts
        documents = "document" if counts.read == 1 else "documents"
        exact = "duplicate" if counts.removed_exact == 1 else "duplicates"
        near = "near-duplicate" if counts.removed_near == 1 else "near-duplicates"
        vector = ""
        if counts.removed_vector:
            vector = f", {counts.removed_vector:,} more by the second measure"
        reference = ""
        if counts.removed_reference is not None:
            reference = f", {counts.removed_reference:,} more as duplicates of the reference"
        if counts.removed_reference_same:
            reference += f" ({counts.removed_reference_same:,} by equal values)"
        same = ""
        if counts.removed_same:
            same = f", {counts.removed_same:,} more by equal values or decisions"
        blocked = ""
        if counts.removed_blocked is not None:
            blocked = f", {counts.removed_blocked:,} more by the blocklist"
        return (
            f"{counts.kept:,} of {counts.read:,} {documents} kept; {counts.removed_exact:,} exact "
            f"{exact} and {counts.removed_near:,} {near} removed{vector}{reference}{same}"
            f"{blocked}."
            f"{counts.describe_related()}"
        )

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The warnings of leaking splits, of the run, and of sources that lose nearly all rows.

        The most important ones come first, see `nearkin.reports.run_warnings.warn_of_run`.
        """
        losing_sources = (
            f"the source {source.source or '(empty)'} lost {source.removed:,} of {source.read:,} "
            f"documents ({format_percent(source.share)})"
            for source in self.sources
            if source.share > NOTABLE_LOSS
        )
        leaking_splits = _leakage_warnings(self.leakage) if self.leakage else ()
        return (*leaking_splits, *self.warnings, *losing_sources)

    @property
    def total_seconds(self) -> float:
        """The wall-clock time of all stages in seconds, without the compilation of kernels."""
        return sum(stage.seconds for stage in self.seconds)

    def require_precision(self, least: float | None) -> None:
        """Raises a RunError if the run is expected to have a lower precision than a required one.

        Nothing is expected of a run that removes fewer near-duplicates than are examined.
        """
        if least is not None and self.doubtful is not None:
            self.doubtful.require_precision(least)

    def to_dict(self) -> dict[str, object]:
        """Returns the data as a dictionary of plain values, with tuples in place of lists."""
        values = asdict(self)
        for name in OPTIONAL_COUNTS:
            if values["counts"][name] is None:
                del values["counts"][name]
        if self.passages is None:
            del values["passages"]
        if self.lines is None:
            del values["lines"]
        if self.merged is None:
            del values["merged"]
        if self.templates is None:
            del values["templates"]
        if self.doubtful is None:
            del values["doubtful"]
        if not self.chosen:
            del values["chosen"]
        return values

    def to_json(self) -> str:
        """Returns the data as a JSON object."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Restores the data from what `to_dict` or a JSON reader returned.

        Args:
            values: Fields of the report by name.

        Raises:
            UsageError: If a field is missing, or unknown because a newer nearkin wrote it.
        """
        return restore_dataclass(cls, values)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Restores the data from a JSON object. Raises the same errors as `from_dict`."""
        return cls.from_dict(json.loads(text))


def _leakage_warnings(leakage: Overlap) -> Iterator[str]:
    for a, b in leakage.leaks:
        yield (
            f"{format_percent(leakage.share(a, b))} of the documents of {leakage.column} "
            f"{leakage.labels[a] or '(empty)'} have a duplicate in "
            f"{leakage.labels[b] or '(empty)'} "
            f"({leakage.similar[a][b]:,} of {leakage.documents[a]:,})"
        )


def restore_dataclass(kind: type[Restored], values: object) -> Restored:
    """Restores a dataclass from its plain form, nested dataclasses and named tuples included.

    Older versions wrote fewer fields. Those of a newer one are not known.
    """
    if not isinstance(values, Mapping):
        raise UsageError(
            f"{kind.__name__} of a report must be a JSON object, not {str(values)[:40]!r}"
        )
    if unknown := sorted(set(values) - set(kind.__annotations__)):
        raise UsageError(
            f"{kind.__name__} has the unknown field {unknown[0]!r}, which a newer nearkin wrote; "
            "upgrade nearkin"
        )
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{kind.__name__} of the report is not complete ({error}); run nearkin dedup again"
        ) from error
