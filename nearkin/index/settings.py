"""The settings of an index. What an index is (Spec, banding, threshold) is in its header."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import UnionType
from typing import TYPE_CHECKING, Any, Self, TypedDict, cast, get_args, get_origin, get_type_hints

from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_arguments, check_fields
from nearkin.runtime.number_range import (
    ABOVE_ZERO,
    COUNT,
    COUNT_OR_NONE,
    SHARE_ABOVE_0,
    NumberRange,
)
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean, require_choice
from nearkin.settings.keys import HashKey
from nearkin.settings.keywords import SpecOptionKeywords
from nearkin.settings.spec import FINGERPRINT, Spec

if TYPE_CHECKING:
    from nearkin.engine.settings_file import SettingsSource

POSTINGS = ("leaders", "all")
"""The values of the setting `postings`."""
COMBINATIONS = ("either", "both")
"""The values of the setting `combine`."""
VECTOR_VARIABLES = tuple(
    f"VECTOR_{name}"
    for name in (
        "DIMENSIONS",
        "SEED",
        "K",
        "THRESHOLD",
        "RECALL",
        "BANDS",
        "ROWS",
        "LOOKUP_PROBES",
    )
)
"""The variables of an environment that define the vectors of an index of texts and vectors."""
LEAST_MAX_MEMORY = 1 << 20
"""The smallest value of the setting `max_memory`, in bytes."""
CACHE_SHARE = 8
"""The part of `max_memory` that cached resolutions may take is one divided by this number."""
DAY = 86400.0
LIFETIMES = ("record_ttl", "bucket_ttl", "window")
"""The settings after which documents are forgotten. By default, nothing is."""
SIZES = ("cache_bytes", "max_document", "max_memory")
"""The settings that are sizes: a number of bytes, or a text such as `2GB`."""
RANGES = {
    "threshold": SHARE_ABOVE_0,
    **dict.fromkeys(("cache", "cache_bytes", "probes", "lookup_probes"), COUNT_OR_NONE),
    **dict.fromkeys(("max_candidates", "bucket_capacity", "max_document", "max_batch"), COUNT),
    **dict.fromkeys(("max_documents", "max_bytes"), COUNT_OR_NONE),
    "documents": COUNT,
    **dict.fromkeys(LIFETIMES, ABOVE_ZERO),
    "history": NumberRange(0),
    "max_memory": NumberRange(LEAST_MAX_MEMORY),
}
"""The ranges of the settings that are numbers. One without a value is not limited."""


@dataclass(frozen=True)
class VectorEvidence:
    """The vectors of an index whose documents have a text, a vector, or both.

    Attributes:
        spec: Spec of the signatures, `Spec(measure="cosine", unit="vector", n=DIMENSIONS)`.
        threshold: Minimum cosine of two vectors, in (0, 1]. None for that of the existing index, or
            for 0.95 in a new one.
        recall: Share of similar vectors that a search must find, in (0, 1).
        bands: Number of bands of the vectors, or None to derive it from the recall.
        rows: Number of rows of a band, or None to derive it from the recall.
        lookup_probes: Number of additional buckets of each band of vectors that a look-up reads. It
            can differ each time the index is opened.
    """

    spec: Spec
    threshold: float | None = None
    recall: float = 0.95
    bands: int | None = None
    rows: int | None = None
    lookup_probes: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.spec.unit != "vector":
            raise UsageError(
                f"the Spec of vectors has unit={self.spec.unit!r}; pass "
                "Spec(measure='cosine', unit='vector', n=DIMENSIONS)"
            )
        require_in_ranges(self)
        _require_both_or_none(self.bands, self.rows)

    def keyed_with(self, secret: HashKey) -> Self:
        """Returns these settings with hyperplanes that depend on a key."""
        return replace(self, spec=self.spec.keyed_with(secret))


@dataclass(frozen=True)
class IndexSettings:
    """The parameters of an index.

    Attributes:
        spec: Spec of the signatures. None for that of the existing index.
        threshold: Minimum similarity of a document to the representative it is resolved to, in
            (0, 1]. None for that of the existing index.
        distance: Maximum Hamming distance of a document to the representative it is resolved to, in
            bits (measure simhash only). It decides the threshold, 1 − distance / k, and the bands.
            None to compare exact similarities.
        related: Minimum similarity of related representatives, above 0 and below the threshold: an
            upsert names them, and resolves no document to them. None to search for similar ones
            only, and in the settings of an existing index for its value.
        passages: Smallest number of words of a passage, 2 to 1,048,576: `Index.passages` finds the
            stored documents that share a passage with a text. Their fingerprints are stored, about
            4 postings for as many words as a passage has. None to store none, and in the settings
            of an existing index for its value.
        vector: The vectors that documents have besides their texts, whose settings are `spec`,
            `threshold`, the bands and `lookup_probes`. None for an index of texts or of vectors.
        combine: `either` (two documents are similar if their texts or their vectors reach the
            threshold) or `both` (both thresholds must be reached, and each document must have
            both). It is only for an index with `vector`.
        recall: Share of similar representatives that a search must find, in (0, 1).
        bands: Number of bands, or None to derive it from the recall.
        rows: Number of rows of a band, or None to derive it from the recall.
        probes: Number of slots of a band that are probed (MinHash only).
        lookup_probes: Number of additional buckets of each band that a look-up reads. Nothing more
            is stored, and the setting can differ each time the index is opened (measure jaccard
            with whole slots, and vectors).
        documents: Approximate number of documents. Bands of signs are derived from it.
        postings: `leaders` (a bucket grows with clusters) or `all` (every stored document can be
            found).
        store_text: True to keep texts. False to keep only the hashes that exact comparison needs.
        member_content: True to keep these hashes, or the vectors, of documents that are resolved to
            a representative, too. By default such a document keeps its id, digest, cluster and
            similarity only. It has no effect if texts are kept, if all documents are posted, or
            with `vector`: the content of all documents is kept then.
        max_candidates: Number of documents that are compared exactly with one document: those whose
            signatures agree most. If none of them is a match, the next ones are compared. At most
            20 times as many signatures are compared, those of documents with the most shared bands
            first.
        cache: Maximum number of resolutions kept in memory. 0 keeps none.
        cache_bytes: Maximum memory of those resolutions in each process that has the index open, in
            bytes or as a size such as `64MB`.
        record_ttl: Seconds that a document is kept after it was last seen. None for no limit.
        bucket_ttl: Seconds that a posting is kept after it was last used. None for no limit.
        window: Seconds after which a representative that was not seen is not matched any more. None
            for no limit.
        history: Seconds that the lines of the history are kept, which `changes` returns. All
            processes that have the index open write them from then on. 0 ends the history. None for
            what was set last, at first no history.
        bucket_capacity: Maximum number of postings that a search reads from a bucket: the oldest
            ones. The others are counted, and read as soon as there is room.
        max_document: Maximum size of a document, in bytes or as a size such as `5MB`.
        max_batch: Maximum number of documents of a batch.
        max_memory: Maximum memory that a process keeps for the index, in bytes or as a size such as
            `2GB`, at least 1 MiB (`memory://` and `sqlite://` only): its documents, buckets, pages
            and cached resolutions. Documents beyond it are refused with `IndexFullError`.
    """

    spec: Spec | None = None
    threshold: float | None = None
    distance: int | None = None
    related: float | None = None
    passages: int | None = None
    vector: VectorEvidence | None = None
    combine: str = "either"
    recall: float = 0.95
    bands: int | None = None
    rows: int | None = None
    probes: int = 0
    lookup_probes: int = 0
    documents: int = 1_000_000
    postings: str = "leaders"
    store_text: bool = True
    member_content: bool = False
    max_candidates: int = 100
    cache: int = 500_000
    cache_bytes: int | str = 128 << 20
    record_ttl: float | None = None
    bucket_ttl: float | None = None
    window: float | None = None
    history: float | None = None
    bucket_capacity: int = 10_000
    max_document: int | str = 10_000_000
    max_batch: int = 10_000
    max_memory: int | str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in SIZES:
            size = getattr(self, name)
            object.__setattr__(self, name, None if size is None else parse_bytes(size, name))
        require_choice("postings", self.postings, POSTINGS)
        require_choice("combine", self.combine, COMBINATIONS)
        require_in_ranges(self)
        _require_both_or_none(self.bands, self.rows)
        self._require_no_fingerprints()
        self._require_passages_possible()
        if self.vector is not None:
            self._require_texts()
        if self.spec is not None:
            require_probeable(self.spec, self.probes, self.lookup_probes)

    def _require_no_fingerprints(self) -> None:
        """Verifies that the index is not of fingerprints."""
        if self.spec is not None and self.spec.unit == FINGERPRINT:
            raise UsageError(
                "an index of documents makes their signatures, and fingerprints are given; store "
                "them in nearkin.HammingIndex"
            )

    def _require_passages_possible(self) -> None:
        """Verifies that the passages of the documents can be found, if they are asked for."""
        if self.passages is None:
            return
        # few indexes have passages, and every process with an index imports this module
        from nearkin.stages.winnowing import LEAST_TOKENS, MOST_TOKENS

        setting = name_setting("passages", self.passages)
        NumberRange(LEAST_TOKENS, MOST_TOKENS).require("passages", self.passages)
        if self.spec is not None and self.spec.unit == "vector":
            raise UsageError(
                f"{setting} is for an index of texts, and the Spec of this index is of vectors; "
                "leave it out"
            )
        if not self.store_text:
            raise UsageError(
                f"{setting} needs the texts of the documents; leave out "
                f"{name_setting('store_text', value=False)}"
            )

    def _require_texts(self) -> None:
        """Verifies that vectors come besides texts that are compared by their similarity."""
        if self.spec is not None and self.spec.unit == "vector":
            raise UsageError(
                f"{name_setting('vector')} adds vectors to an index of texts, and the Spec of this "
                f"index is of vectors; leave {name_setting('vector')} out, or give a Spec of texts"
            )
        if self.distance is not None:
            raise UsageError(
                f"{name_setting('distance', self.distance)} cannot be combined with "
                f"{name_setting('vector')}; give a {name_setting('threshold')} for the texts "
                f"instead"
            )

    @property
    def search_threshold(self) -> float:
        """The smallest similarity of documents that a search must find, in an open index."""
        assert self.threshold is not None
        return self.threshold if self.related is None else self.related

    @cached_property
    def shortest_lifetime(self) -> float:
        """The shortest time to live or window, in seconds; infinite if there are none."""
        times = (self.record_ttl, self.bucket_ttl, self.window)
        return min((float(ttl) for ttl in times if ttl is not None), default=math.inf)

    @property
    def retention(self) -> str:
        """A sentence about how long documents are kept, for people.

        Examples:
            >>> IndexSettings().retention
            'documents are kept until somebody deletes them'
            >>> IndexSettings(record_ttl=90 * DAY, window=3600).retention
            'documents are deleted 90 days, and are not matched 1 hour, after they were last seen'
        """
        effects = {
            "are deleted": self.record_ttl,
            "leave their buckets": self.bucket_ttl,
            "are not matched": self.window,
        }
        parts = [f"{effect} {_describe_time(ttl)}" for effect, ttl in effects.items() if ttl]
        if not parts:
            return "documents are kept until somebody deletes them"
        joined = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, and {parts[-1]},"
        return f"documents {joined} after they were last seen"

    @property
    def _memory_bound(self) -> int | None:
        """The setting `max_memory` in bytes."""
        return None if self.max_memory is None else parse_bytes(self.max_memory)

    @property
    def max_document_bytes(self) -> int:
        """The maximum size of a document, in bytes."""
        return parse_bytes(self.max_document)

    @property
    def max_cache_bytes(self) -> int:
        """The maximum memory of cached resolutions, in bytes."""
        bound = self._memory_bound
        cache_bytes = parse_bytes(self.cache_bytes)
        return cache_bytes if bound is None else min(cache_bytes, bound // CACHE_SHARE)

    @property
    def max_store_memory(self) -> int | None:
        """The maximum memory of the store in this process, in bytes, or None for no limit."""
        bound = self._memory_bound
        return None if bound is None else bound - self.max_cache_bytes

    @classmethod
    @check_arguments
    def from_env(
        cls,
        prefix: str = "NEARKIN_TEXT_",
        environment: Mapping[str, str] | None = None,
        base: "IndexSettings | None" = None,
    ) -> Self:
        """Returns the settings that environment variables define, such as NEARKIN_TEXT_BANDS.

        The variables are named after the fields of this class. SHINGLE (for example `words:3`),
        MEASURE, NORMALISE, STEM, SCHEME, K, SLOT_BITS, SEED, BASE_HASH and SPEC_VERSION define the
        Spec. DIMENSIONS makes it an index of vectors, and VECTOR_DIMENSIONS an index of texts and
        vectors. Further variables with VECTOR_ are named after the fields of
        `VectorEvidence`, with VECTOR_SEED and VECTOR_K for its Spec.

        Args:
            prefix: NEARKIN_TEXT_ or NEARKIN_VECTOR_, which keep the two kinds of index apart.
            environment: Variables. By default those of the process.
            base: The settings that no variable replaces. By default those of a new index.

        Raises:
            UsageError: If a variable with the prefix is unknown, or a value is not valid.

        Examples:
            >>> variables = {"T_BANDS": "16", "T_ROWS": "8", "T_SHINGLE": "chars:5"}
            >>> settings = IndexSettings.from_env("T_", variables)
            >>> settings.bands, settings.rows, settings.spec.shingle
            (16, 8, 'chars:5')
        """
        variables = os.environ if environment is None else environment
        given_variables = {
            name.removeprefix(prefix): value
            for name, value in variables.items()
            if name.startswith(prefix) and value != ""
        }
        # a program that reads no variables does not load the settings of runs
        from nearkin.settings.table import SPEC_KEYWORDS

        spec_variables = [*(name.upper() for name in ("measure", *SPEC_KEYWORDS)), "DIMENSIONS"]
        types = get_type_hints(cls)
        names = [field.name for field in fields(cls) if field.name not in ("spec", "vector")]
        known = {name.upper(): name for name in names}
        of_vector = {
            name: given_variables.pop(name) for name in VECTOR_VARIABLES if name in given_variables
        }
        of_spec = {
            name: given_variables.pop(name) for name in spec_variables if name in given_variables
        }
        unknown = sorted(set(given_variables) - set(known))
        if unknown:
            valid = ", ".join(sorted((*known, *spec_variables, *VECTOR_VARIABLES)))
            raise UsageError(
                f"unknown setting {prefix}{unknown[0]}; valid settings (after {prefix}) are {valid}"
                f"{did_you_mean(unknown[0], (*known, *spec_variables, *VECTOR_VARIABLES))}"
            )
        parsed = {
            known[name]: _parse_value(types[known[name]], value, prefix + name)
            for name, value in given_variables.items()
        }
        settings = replace(cls() if base is None else base, **parsed)
        if of_vector:
            settings = replace(settings, vector=_parse_vector_evidence(of_vector, prefix))
        return cast(Self, _parse_spec(settings, of_spec, prefix) if of_spec else settings)


def require_in_ranges(settings: object) -> None:
    """Verifies the settings that are numbers."""
    for name, limits in RANGES.items():
        value = getattr(settings, name, None)
        if value is not None:
            limits.require(name, value)


def _describe_time(seconds: float) -> str:
    """Returns a time in the largest unit in which it is a whole number."""
    for unit, length in (("day", DAY), ("hour", 3600), ("minute", 60)):
        if seconds % length == 0:
            number = int(seconds // length)
            return f"{number:,} {unit}{'' if number == 1 else 's'}"
    return f"{seconds:g} seconds"


def _require_both_or_none(bands: int | None, rows: int | None) -> None:
    """Verifies that bands are given with their rows."""
    if (bands is None) != (rows is None):
        raise UsageError(
            "bands and rows must be given together; leave both out to derive them from the recall"
        )


def parse_bytes(size: int | str, name: str = "") -> int:
    """Returns a size in bytes.

    Args:
        size: Number of bytes, or a text such as `2GB`.
    """
    if not isinstance(size, str):
        return size
    # most programs give numbers
    from nearkin.runtime.sizes import parse_size

    return parse_size(size, name)


def require_related(settings: IndexSettings, threshold: float) -> None:
    """Requires that related representatives can be found, if they are asked for."""
    if settings.related is None:
        return
    related = name_setting("related", settings.related)
    for name, value in (("distance", settings.distance), ("vector", settings.vector)):
        if value is not None:
            raise UsageError(
                f"{related} and {name_setting(name)} exclude each other: related documents are "
                "those of a lower similarity of one kind; leave out one of them"
            )
    if not 0 < settings.related < threshold:
        raise UsageError(
            f"{related} is out of range; it must be above 0 and below the threshold {threshold:g}"
        )


def require_probeable(spec: Spec, probes: int, lookup_probes: int) -> None:
    """Requires that look-ups can read additional buckets."""
    has_whole_slots = spec.measure == "jaccard" and not spec.truncated
    if lookup_probes and (probes or not (has_whole_slots or spec.measure == "cosine")):
        raise UsageError(
            f"{name_setting('lookup_probes', lookup_probes)} is for whole MinHash slots of "
            f"measure jaccard and for "
            f"vectors, without probes; this index has {name_setting('measure', spec.measure)}, "
            f"{name_setting('slot_bits', spec.slot_bits)} and {name_setting('probes', probes)}"
        )


class SettingsFields(TypedDict, total=False):
    """The fields of IndexSettings that callers may pass by name, without Spec and threshold."""

    distance: int | None
    related: float | None
    passages: int | None
    vector: VectorEvidence | None
    combine: str
    recall: float
    bands: int | None
    rows: int | None
    probes: int
    lookup_probes: int
    documents: int
    postings: str
    store_text: bool
    member_content: bool
    max_candidates: int
    cache: int
    cache_bytes: int | str
    record_ttl: float | None
    bucket_ttl: float | None
    window: float | None
    history: float | None
    bucket_capacity: int
    max_document: int | str
    max_batch: int
    max_memory: int | str | None


class IndexKeywords(SettingsFields, SpecOptionKeywords, total=False):
    """The settings, and options of a Spec, that callers may pass by name to open an index."""

    measure: str | None


def merge_settings(
    settings: "IndexSettings | SettingsSource",
    preset: str | None,
    spec: Spec | None,
    threshold: float | None,
    changed: Mapping[str, Any],
) -> IndexSettings:
    """Returns the settings of an index, some of which are replaced.

    Args:
        preset: Name of a preset of runs, or None.
    """
    base = settings if isinstance(settings, IndexSettings) else IndexSettings()
    changed = dict(changed)
    known = IndexSettings.__dataclass_fields__
    of_spec = {name: changed.pop(name) for name in [*changed] if name not in known}
    if of_spec or preset is not None or not (settings is None or settings is base):
        # most programs give none of them
        from nearkin.engine.settings_file import Settings
        from nearkin.index.run_settings import settings_of_run

        source = None if isinstance(settings, IndexSettings) else settings
        has_spec = spec is not None or base.spec is not None
        run = Settings.resolve(source, preset)
        if base.distance is not None:
            changed.setdefault("distance", base.distance)
        base = replace(base, **settings_of_run(run, of_spec, changed, has_spec=has_spec))
    merged = replace(base, **changed)
    if spec is not None:
        merged = replace(merged, spec=spec)
    if threshold is not None:
        merged = replace(merged, threshold=threshold)
    return merged


def threshold_of_distance(spec: Spec, settings: IndexSettings) -> float:
    """Returns the threshold that follows from the Hamming distance of an index."""
    from nearkin.stages.lsh.sign_bands import block_banding

    distance = settings.distance
    assert distance is not None
    if spec.measure != "simhash":
        raise UsageError(
            f"{name_setting('distance', distance)} is for measure simhash, and the Spec of the "
            f"index has "
            f"{spec.measure}; make the Spec with {name_setting('measure', 'simhash')}, or give a "
            f"{name_setting('threshold')} in place of the distance"
        )
    if settings.bands is not None or settings.probes:
        raise UsageError(
            f"{name_setting('distance', distance)} chooses its own bands; leave out bands, rows "
            f"and probes"
        )
    threshold = (spec.k - distance) / spec.k
    if settings.threshold not in (None, threshold):
        raise UsageError(
            f"{name_setting('distance', distance)} and "
            f"{name_setting('threshold', settings.threshold)} contradict each other; leave "
            "one of them out"
        )
    block_banding(spec.k, distance, settings.documents)
    return threshold


def _parse_spec(settings: IndexSettings, given: Mapping[str, str], prefix: str) -> IndexSettings:
    """Returns settings with the Spec that variables define."""
    hints = get_type_hints(IndexKeywords)
    named = {variable.lower(): (prefix + variable, text) for variable, text in given.items()}
    values: dict[str, Any] = {
        name: _parse_value(hints[name], text, variable)
        for name, (variable, text) in named.items()
        if name != "dimensions"
    }
    if "dimensions" not in named:
        return merge_settings(settings, None, None, None, values)
    variable, text = named["dimensions"]
    if values.pop("measure", "cosine") != "cosine" or not values.keys() <= {"seed", "k"}:
        raise UsageError(
            f"{variable}={text!r} is for an index of vectors, which are compared by their cosine "
            f"and have {prefix}SEED and {prefix}K only; leave out the other settings of the Spec"
        )
    dimensions = _parse_value(int, text, variable)
    return replace(settings, spec=Spec(measure="cosine", unit="vector", n=dimensions, **values))


def _parse_vector_evidence(given: Mapping[str, str], prefix: str) -> VectorEvidence:
    """Returns the settings of the vectors that texts have besides, from variables."""
    if "VECTOR_DIMENSIONS" not in given:
        raise UsageError(
            f"{prefix}{next(iter(given))} is for an index of texts and vectors; set "
            f"{prefix}VECTOR_DIMENSIONS, too"
        )
    types = get_type_hints(VectorEvidence) | dict.fromkeys(("dimensions", "seed", "k"), int)
    values = {}
    for variable, text in given.items():
        name = variable.removeprefix("VECTOR_").lower()
        values[name] = _parse_value(types[name], text, prefix + variable)
    numbers = {name: values.pop(name) for name in ("seed", "k") if name in values}
    spec = Spec(measure="cosine", unit="vector", n=values.pop("dimensions"), **numbers)
    return VectorEvidence(spec, **values)


def _parse_value(kind: Any, text: str, name: str) -> Any:
    """Returns the value of a variable, as the type of its field."""
    if name.lower().endswith(SIZES):
        return parse_bytes(text, name)
    if get_origin(kind) is UnionType:
        kind = get_args(kind)[0]
    if kind is bool:
        if text.lower() not in ("0", "1", "true", "false"):
            raise UsageError(f"{name}={text!r} is neither true nor false")
        return text.lower() in ("1", "true")
    try:
        return kind(text)
    except ValueError as error:
        raise UsageError(f"{name}={text!r} is not a number") from error
