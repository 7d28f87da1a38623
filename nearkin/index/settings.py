"""How an index behaves; what it *is* (Spec, banding, threshold) is in its header."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from nearkin.errors import UsageError
from nearkin.spec import Spec

POSTINGS = ("leaders", "all")
SPECIAL = ("SHINGLE", "SEED", "K", "DIMENSIONS")
"""Variables that make a Spec."""
DAY = 86400.0
SERVER_TIMES = {"record_ttl": 90 * DAY, "bucket_ttl": 14 * DAY}
"""Times to live that a server starts with; an embedded index keeps everything."""


@dataclass(frozen=True)
class IndexSettings:
    """Parameters of an index.

    Attributes:
        spec: How documents become signatures; an existing index's wins.
        threshold: Similarity from which a document is resolved to another one; an existing index's wins where none is given.
        recall: Asked share of them to be found.
        bands: b, or None to solve for it.
        rows: r, or None to solve for it.
        probes: Slots of a band that are probed (MinHash).
        documents: About how many there will be; what signs are banded for.
        postings: `leaders` (a bucket grows with clusters) or `all` (every stored document can be found).
        store_text: Keep texts; else what exact comparison needs of them, hashes.
        max_candidates: Documents compared with one, those first that share most bands.
        cache: Maximum number of resolutions kept in memory. 0 keeps none.
        cache_bytes: Maximum memory of those resolutions, in bytes, in each process that has the index open.
        record_ttl: Seconds that a document is kept after it was last seen; None for ever.
        bucket_ttl: Seconds that a posting is kept after it was last used; None for ever.
        window: Seconds: representatives not seen for longer are not matched; None for no such limit.
        bucket_capacity: Postings of a bucket; the oldest go first, counted.
        max_document: Bytes of a document, at most.
        max_batch: Documents of a batch, at most.
        max_memory: Of memory://, bytes beyond which documents not used for longest leave their buckets, counted.
    """

    spec: Spec | None = None
    threshold: float | None = None
    recall: float = 0.95
    bands: int | None = None
    rows: int | None = None
    probes: int = 0
    documents: int = 1_000_000
    postings: str = "leaders"
    store_text: bool = True
    max_candidates: int = 100
    cache: int = 500_000
    cache_bytes: int = 128 << 20
    record_ttl: float | None = None
    bucket_ttl: float | None = None
    window: float | None = None
    bucket_capacity: int = 10_000
    max_document: int = 10_000_000
    max_batch: int = 10_000
    max_memory: int | None = None

    def __post_init__(self) -> None:
        if self.postings not in POSTINGS:
            raise UsageError(f"postings={self.postings!r} is not one of {', '.join(POSTINGS)}")
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise UsageError(f"threshold {self.threshold} is outside 0 (exclusive) to 1")
        if (self.bands is None) != (self.rows is None):
            raise UsageError("bands and rows go together: give both, or neither to have them solved for the asked recall")
        least = {
            "max_candidates": 1,
            "cache": 0,
            "cache_bytes": 0,
            "bucket_capacity": 1,
            "max_document": 1,
            "max_batch": 1,
            "documents": 1,
            "probes": 0,
        }
        for name, low in least.items():
            if getattr(self, name) < low:
                raise UsageError(f"{name}={getattr(self, name)} is less than {low}")
        for name in ("record_ttl", "bucket_ttl", "window", "max_memory"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{name}={value} is no number more than 0; leave it out for no limit")

    @classmethod
    def from_env(cls, prefix: str = "NEARKIN_TEXT_", environment: Mapping[str, str] | None = None) -> Self:
        """From variables like NEARKIN_TEXT_BANDS or NEARKIN_VECTOR_DIMENSIONS.

        Args:
            prefix: NEARKIN_TEXT_ or NEARKIN_VECTOR_, so that both kinds of index are set apart.
            environment: The process' by default.

        Beside the fields of this class there are SHINGLE (`words:3`), SEED, K, and DIMENSIONS, which makes it an index of
        vectors.

        Examples:
            >>> named = {"T_BANDS": "16", "T_ROWS": "8", "T_SHINGLE": "chars:5", "T_THRESHOLD": "0.7"}
            >>> found = IndexSettings.from_env("T_", named)
            >>> found.bands, found.spec.shingle, found.threshold
            (16, 'chars:5', 0.7)
        """
        given = os.environ if environment is None else environment
        named = {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix) and value != ""}
        kinds = get_type_hints(cls)
        known = {field.name.upper(): field.name for field in fields(cls) if field.name != "spec"}
        special: dict[str, str] = {name: named.pop(name) for name in SPECIAL if name in named}
        if unknown := sorted(set(named) - set(known)):
            raise UsageError(f"{prefix}{unknown[0]} is no setting; there are {', '.join(sorted((*known, *SPECIAL)))}")
        values = {known[name]: _parsed(kinds[known[name]], value, prefix + name) for name, value in named.items()}
        settings = cls(**values)
        return replace(settings, spec=_spec(special, prefix)) if special else settings


def _spec(named: Mapping[str, str], prefix: str) -> Spec:
    numbers = {"SEED": "seed", "K": "k"}
    fields_: dict[str, Any] = {numbers[n]: _parsed(int, v, prefix + n) for n, v in named.items() if n in numbers}
    if "DIMENSIONS" in named:
        return Spec(measure="cosine", unit="vector", n=_parsed(int, named["DIMENSIONS"], prefix + "DIMENSIONS"), **fields_)
    return Spec.for_shingle(named.get("SHINGLE", "words:3"), **fields_)


def _parsed(kind: Any, text: str, name: str) -> Any:
    kind = get_args(kind)[0] if get_origin(kind) is UnionType else kind
    if kind is bool:
        if text.lower() not in ("0", "1", "true", "false"):
            raise UsageError(f"{name}={text!r} is neither true nor false")
        return text.lower() in ("1", "true")
    try:
        return kind(text)
    except ValueError as error:
        raise UsageError(f"{name}={text!r} is not a number") from error
