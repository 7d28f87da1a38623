"""Golden pairs that a server queries at regular intervals to measure its recall."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
from pydantic import ConfigDict, ValidationError

from nearkin.errors import UsageError
from nearkin.index.documents import Document
from nearkin.index.entry import GOLDEN_SCOPE
from nearkin.index.index import Index
from nearkin.index.stats import uncounted_searches
from nearkin.service.server.routes.models import Model

MAX_PAIRS = 10_000


class GoldenPair(Model):
    """Two documents, and whether they are near-duplicates at the threshold of the index.

    Attributes:
        a: Text or vector that is upserted.
        b: Text or vector that is queried.
        similar: Whether the query must find the other document.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    a: str | list[float]
    b: str | list[float]
    similar: bool = True


@dataclass(frozen=True)
class GoldenResult:
    """The result of querying all golden pairs once.

    Attributes:
        similar: Number of pairs that must be found.
        found: Number of these pairs that were found.
        distinct: Number of pairs that must not be found.
        mistaken: Number of these pairs that were found.
        at: Time of the measurement, in seconds since 1970.
    """

    similar: int
    found: int
    distinct: int
    mistaken: int
    at: float

    @property
    def recall(self) -> float | None:
        """The share of the similar pairs that were found, or None without such pairs."""
        if not self.similar:
            return None
        return self.found / self.similar

    def to_dict(self) -> dict[str, float | None]:
        """Returns the result as JSON-serializable values."""
        return {**asdict(self), "recall": self.recall}


def read_golden_pairs(path: Path) -> list[GoldenPair]:
    """Reads golden pairs from JSON lines with a, b and similar (true by default)."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"cannot read the golden pairs {path}: {error.strerror}") from error
    pairs: list[GoldenPair] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            pairs.append(GoldenPair.model_validate(orjson.loads(line)))
        except (orjson.JSONDecodeError, ValidationError) as error:
            raise UsageError(
                f'{path}:{number} is not a pair like {{"a": text, "b": text, "similar": true}}'
            ) from error
    if not 1 <= len(pairs) <= MAX_PAIRS:
        raise UsageError(f"{path} has {len(pairs):,} golden pairs; it must have 1 to {MAX_PAIRS:,}")
    return pairs


def query_golden_pairs(index: Index, pairs: Sequence[GoldenPair]) -> GoldenResult:
    """Upserts the first document of each pair, and queries the second one.

    The searches are left out of the statistics of the index.
    """
    with uncounted_searches():
        return _query_golden_pairs(index, pairs)


def _query_golden_pairs(index: Index, pairs: Sequence[GoldenPair]) -> GoldenResult:
    ids = [f"pair-{number}" for number in range(len(pairs))]
    batch_size = index.settings.max_batch
    representatives: list[str] = []
    for start in range(0, len(pairs), batch_size):
        documents: list[Document] = [pair.a for pair in pairs[start : start + batch_size]]
        outcomes = index.upsert_many(GOLDEN_SCOPE, documents, ids[start : start + batch_size])
        representatives += [outcome.representative for outcome in outcomes]
    found_similar = 0
    found_distinct = 0
    for pair, id, representative in zip(pairs, ids, representatives, strict=True):
        matches = index.query(GOLDEN_SCOPE, pair.b, top=index.settings.max_candidates)
        is_found = any(match.id in (id, representative) for match in matches)
        if pair.similar:
            found_similar += is_found
        else:
            found_distinct += is_found
    similar = sum(pair.similar for pair in pairs)
    return GoldenResult(similar, found_similar, len(pairs) - similar, found_distinct, index.now())
