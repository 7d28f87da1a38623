"""What a run is asked for: parsed once at the edge, frozen, written into manifests."""

import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from nearkin.cluster.keep import KeepPolicy
from nearkin.errors import UsageError
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import BandingRequest, Measure, measure_of
from nearkin.spec import Spec

VERIFY = ("exact", "estimate", "none")
CLUSTER = ("leaders", "components")
EMPTY = ("keep", "drop")
SMALL_CORPUS = 5000
"""Documents below which everything is compared exactly."""
SMALL_SHINGLES = 1 << 25
"""... unless they hold more shingles than this, which would not be small."""
SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)(?P<binary>i?)B?", re.IGNORECASE)
LEAST_MEMORY = 512 << 20


def parse_size(text: str) -> int:
    """Bytes from `4GB`, `512MiB`, `1.5G`.

    Examples:
        >>> parse_size("4GB"), parse_size("1.5KiB")
        (4000000000, 1536)
    """
    found = SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"memory {text!r} is not a size like 4GB or 512MiB")
    base = 1024 if found["binary"] else 1000
    return int(float(found["number"]) * base ** " KMGT".index(found["unit"].upper() or " "))


def ride_along(policy: KeepPolicy, *others: str | None) -> tuple[str, ...]:
    """Columns that are read beside documents and ids, each once."""
    named = (*policy.columns, *others)
    return tuple(dict.fromkeys(name for name in named if name is not None))


class Then(NamedTuple):
    """A second measure over what the first one keeps."""

    measure: str
    column: str
    threshold: float

    @classmethod
    def parse(cls, text: str) -> "Then":
        """From the command line's form.

        Examples:
            >>> Then.parse("cosine:embedding:0.95")
            Then(measure='cosine', column='embedding', threshold=0.95)
        """
        measure, _, rest = text.partition(":")
        column, _, number = rest.rpartition(":")
        try:
            threshold = float(number)
        except ValueError:
            threshold = 0.0
        if measure != "cosine" or not column or not 0 < threshold <= 1:
            raise UsageError(f"then={text!r} is not of the form cosine:COLUMN:0.95")
        return cls(measure, column, threshold)


@dataclass(frozen=True)
class Settings:
    """Parameters that decide the result of a run, and the two (memory, workers) that do not.

    Attributes:
        threshold: Similarity from which two documents are near-duplicates.
        distance: Of signs: Hamming distance up to which they are; in the threshold's place.
        recall: Asked share of the pairs at the threshold to be found.
        bands: b, or None to solve for it.
        rows: r, or None to solve for it.
        tables: Independent tables of disjoint MinHash slots: b bands each, or b a multiple of them.
        probes: Slots of each band that are probed by their runner-up minima, from both sides: MinHash only.
        verify: `exact`, `estimate` or `none`.
        cluster: `leaders` or `components`.
        floor: For components: lowest similarity to the kept document (default threshold − 0.2).
        keep: Which document of a cluster stays.
        empty: Whether documents without shingles are kept or dropped; they never match.
        block_by: Only documents with the same value of this column are compared.
        source: Column by which the report counts removals and overlaps.
        split: Column of training and test splits, whose overlap the report shows.
        then: A second measure over what the first one keeps, as `cosine:COLUMN:THRESHOLD`.
        max_bucket: Documents from which a bucket is clustered inside itself instead of yielding all its pairs.
        fanout: Leaders that a member of such a bucket is compared with.
        memory: Bytes of anonymous memory for the whole run.
        workers: Threads.
    """

    spec: Spec = field(default_factory=Spec)
    threshold: float = 0.8
    distance: int | None = None
    recall: float = 0.95
    bands: int | None = None
    rows: int | None = None
    tables: int = 1
    probes: int = 0
    verify: str = "exact"
    cluster: str = "leaders"
    floor: float | None = None
    keep: str = "length desc"
    empty: str = "keep"
    block_by: str | None = None
    source: str | None = None
    split: str | None = None
    then: str | None = None
    max_bucket: int = 100
    fanout: int = 100
    memory: int = 4_000_000_000
    workers: int = 2

    def __post_init__(self) -> None:
        for name, allowed in (("verify", VERIFY), ("cluster", CLUSTER), ("empty", EMPTY)):
            if getattr(self, name) not in allowed:
                raise UsageError(f"{name}={getattr(self, name)!r} is not one of {', '.join(allowed)}")
        if self.distance is not None:
            if not 0 <= self.distance < self.spec.k:
                raise UsageError(
                    f"distance {self.distance} is outside 0 to {self.spec.k - 1}, less than the {self.spec.k} bits"
                )
            object.__setattr__(self, "threshold", (self.spec.k - self.distance) / self.spec.k)
        if not 0 < self.threshold <= 1:
            raise UsageError(f"threshold {self.threshold} is outside 0 (exclusive) to 1")
        if self.floor is not None and not 0 <= self.floor <= self.threshold:
            raise UsageError(f"floor {self.floor} is outside 0 to the threshold {self.threshold}")
        if (self.bands is None) != (self.rows is None):
            raise UsageError("bands and rows go together: give both, or neither to have them solved for the asked recall")
        if self.memory < LEAST_MEMORY:
            raise UsageError(
                f"memory {self.memory} bytes is below {LEAST_MEMORY} ({LEAST_MEMORY >> 20}MiB), the least a run needs"
            )
        if self.tables < 1:
            raise UsageError(f"tables={self.tables} is not at least 1")
        if self.probes < 0:
            raise UsageError(f"probes={self.probes} is below 0")
        if self.workers < 1 or self.max_bucket < 2 or self.fanout < 1:
            raise UsageError("workers and fanout are at least 1, max_bucket at least 2")
        self.second  # noqa: B018
        self.policy  # noqa: B018  (a bad expression is an error now, not after an hour)
        measure = measure_of(self.spec, distance=self.distance)
        if self.bands is not None or self.spec.measure in ("jaccard", "weighted-jaccard"):
            self.banding(measure, SMALL_CORPUS)

    def banding(self, measure: Measure, documents: int) -> Banding:
        """The asked bands and rows, or those solved for threshold and recall; signs are banded for a corpus size."""
        asked = (self.threshold, self.recall, self.bands, self.rows, self.tables, self.probes)
        return measure.banding(BandingRequest(*asked, documents))

    @property
    def second(self) -> "Then | None":
        """The second measure, parsed."""
        return None if self.then is None else Then.parse(self.then)

    @property
    def policy(self) -> KeepPolicy:
        """The parsed keep expression."""
        return KeepPolicy.parse(self.keep)

    @property
    def lowest_similarity(self) -> float:
        """Floor of components."""
        return max(0.0, self.threshold - 0.2) if self.floor is None else self.floor

    @property
    def extra_columns(self) -> tuple[str, ...]:
        """Columns that ride along: of the keep policy, the block, the source, the split."""
        return ride_along(self.policy, self.block_by, self.source, self.split)

    def parameters(self) -> dict[str, Any]:
        """What decides the result, JSON-able: without Spec, memory and workers."""
        return {name: value for name, value in asdict(self).items() if name not in ("spec", "memory", "workers")}

    def with_spec(self, spec: Spec) -> "Settings":
        """The same request over signatures of another Spec (an existing artefact's Spec wins)."""
        return replace(self, spec=spec)
