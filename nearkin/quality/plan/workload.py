"""The requirements of a deployment that is planned."""

from dataclasses import dataclass
from typing import TypedDict

from nearkin.errors import UsageError
from nearkin.quality.plan.index_sizes import INDEX_SIZES
from nearkin.runtime.argument_types import check_fields
from nearkin.runtime.number_range import (
    ABOVE_ZERO,
    COUNT,
    COUNT_OR_NONE,
    OPEN_SHARE,
    SHARE_ABOVE_0,
    NumberRange,
)
from nearkin.runtime.process_limits import LEAST_MEMORY
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import require_choice
from nearkin.settings.choices import Verify
from nearkin.settings.spec import MAX_DIMENSIONS
from nearkin.stages.lsh.slot_bands import require_bands_with_rows
from nearkin.stages.winnowing import LEAST_TOKENS, MOST_TOKENS

ENGINES = ("local", "index")
CHOICES = {"engine": ENGINES, "store": tuple(INDEX_SIZES), "verify": tuple(Verify)}
"""The values of the requirements that are names."""
DUPLICATES = 0.1
"""The share of near-duplicates that is planned for if nothing is known about the documents."""
SHINGLE_BYTES = 5
"""The size of text for each shingle of words, if the size of the text is not given."""


LIMITS = {
    **dict.fromkeys(("documents", "shingles", "cores"), COUNT),
    **dict.fromkeys(("clusters", "core_hour_price", "gb_month_price"), COUNT_OR_NONE),
    "memory": NumberRange(LEAST_MEMORY),
    **dict.fromkeys(("threshold", "vector_threshold", "precision"), SHARE_ABOVE_0),
    "recall": OPEN_SHARE,
    "duplicates": NumberRange(0, 1, excludes_most=True),
    **dict.fromkeys(("ingest", "signature_ram", "text_bytes", "input_bytes"), ABOVE_ZERO),
    **dict.fromkeys(("error", "disk", "seconds", "latency"), ABOVE_ZERO),
    "vector_dimensions": NumberRange(1, MAX_DIMENSIONS),
    "passages": NumberRange(LEAST_TOKENS, MOST_TOKENS),
}
"""The ranges of the numbers of a workload."""


class WorkloadKeywords(TypedDict, total=False):
    """The requirements that `plan` takes by keyword. `Workload` documents them."""

    threshold: float
    recall: float
    ingest: float | None
    signature_ram: float | None
    shingles: int
    clusters: int | None
    engine: str
    text_bytes: float | None
    input_bytes: float | None
    duplicates: float | None
    error: float | None
    bands: int | None
    rows: int | None
    memory: float
    disk: float | None
    seconds: float | None
    cores: int
    precision: float | None
    verify: str
    latency: float | None
    core_hour_price: float | None
    gb_month_price: float | None
    store: str
    store_text: bool
    passages: int | None
    vector_dimensions: int | None
    vector_threshold: float


@dataclass(frozen=True)
class Workload:
    """The requirements of a deployment.

    Attributes:
        documents: Number of documents.
        threshold: Smallest similarity of near-duplicates.
        recall: Requested share of the near-duplicate pairs to find.
        ingest: Number of documents to sketch per second, or None if there is no requirement.
        signature_ram: Largest memory for signatures, in bytes.
        shingles: Number of shingles of a document.
        clusters: Number of kept documents, which are the representatives of an index. By default
            the documents that are not duplicates.
        engine: Engine: `local` (a run) or `index`.
        text_bytes: Size of the text of a document. Five bytes for each shingle by default.
        input_bytes: Size of the input files. By default the size of the texts.
        duplicates: Share of the documents that are near-duplicates of others, in [0, 1). By default
            that of the corpus, or 0.1 without a corpus.
        error: Requested standard error of an estimate at the threshold, from which k follows. The
            k of the Spec is used by default.
        bands: Number of bands. Solved by default.
        rows: Number of slots in a band. Solved by default.
        memory: Largest memory in bytes.
        disk: Largest disk space in bytes.
        seconds: Largest duration of a run in seconds.
        cores: Number of cores.
        precision: Requested share of the reported pairs that reach the threshold, in (0, 1]. It is
            1 with exact verification. With estimates, more slots are chosen for it, unless the
            Spec, the error or the bands are given.
        verify: Verification of candidates: `exact`, `estimate` or `none`.
        latency: Largest CPU time of a query in seconds (engine `index`).
        core_hour_price: Price of a core for an hour, in any currency.
        gb_month_price: Price of a GB for a month: of disk for runs, of memory and disk for an
            index.
        store: Store of an index: `memory`, `sqlite`, `redis`, `postgres` or `aerospike` (engine
            `index`).
        store_text: True if an index of texts stores them.
        passages: Smallest number of words of a passage that an index of texts finds, or None if it
            stores no fingerprints.
        vector_dimensions: Length of the vectors that texts have besides, or None (engine `index`).
        vector_threshold: Smallest cosine of these vectors at which documents are near-duplicates.
    """

    documents: int
    threshold: float = 0.8
    recall: float = 0.95
    ingest: float | None = None
    signature_ram: float | None = None
    shingles: int = 300
    clusters: int | None = None
    engine: str = "local"
    text_bytes: float | None = None
    input_bytes: float | None = None
    duplicates: float | None = None
    error: float | None = None
    bands: int | None = None
    rows: int | None = None
    memory: float = 4e9
    disk: float | None = None
    seconds: float | None = None
    cores: int = 2
    precision: float | None = None
    verify: str = "exact"
    latency: float | None = None
    core_hour_price: float | None = None
    gb_month_price: float | None = None
    store: str = "memory"
    store_text: bool = True
    passages: int | None = None
    vector_dimensions: int | None = None
    vector_threshold: float = 0.95

    def __post_init__(self) -> None:
        check_fields(self)
        for name, choices in CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        for name, limits in LIMITS.items():
            if getattr(self, name) is not None:
                limits.require(name, getattr(self, name))
        if self.engine == "index" and self.kept > self.documents:
            raise UsageError(
                f"{name_setting('clusters', self.clusters)} is more than "
                f"the {self.documents:,} documents; give at "
                "most one for each document"
            )
        require_bands_with_rows(self.bands, self.rows)
        if self.latency is not None and self.engine != "index":
            raise UsageError(
                f"{name_setting('latency', self.latency)} limits the seconds of a query, and "
                f"{name_setting('engine', self.engine)} has no queries; set "
                f"{name_setting('engine', 'index')}"
            )
        self._check_vectors()
        self._check_passages()

    def _check_vectors(self) -> None:
        if self.vector_dimensions is None:
            return
        setting = name_setting("vector_dimensions", self.vector_dimensions)
        if self.engine != "index":
            second_plan = (
                f"{name_setting('engine', self.engine)} {name_setting('measure', 'cosine')} "
                f"{name_setting('dimensions', self.vector_dimensions)}"
            )
            raise UsageError(
                f"{setting} is for {name_setting('engine', 'index')}; the second measure of a run "
                "compares the vectors of the kept documents only, so plan it as a run of its own, "
                f"over their number: {second_plan}"
            )

    def _check_passages(self) -> None:
        if self.passages is None:
            return
        setting = name_setting("passages", self.passages)
        if self.engine != "index" or not self.store_text or self.vector_dimensions is not None:
            raise UsageError(
                f"{setting} is for an index that stores texts, without vectors; set "
                f"{name_setting('engine', 'index')}, or leave it out"
            )

    @property
    def document_bytes(self) -> float:
        """The size of a document's text in bytes."""
        return self.text_bytes or SHINGLE_BYTES * self.shingles

    @property
    def kept(self) -> int:
        """The number of kept documents."""
        if self.clusters is not None:
            return self.clusters
        return round(self.documents * (1 - self.duplicate_share))

    @property
    def duplicate_share(self) -> float:
        """The share of the documents that are near-duplicates of others."""
        return DUPLICATES if self.duplicates is None else self.duplicates
