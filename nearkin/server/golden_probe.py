"""Known pairs, asked for from time to time: whether what must be found is found, measured where requests are answered."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import ConfigDict, ValidationError

from nearkin.errors import UsageError
from nearkin.index.entry import RESERVED
from nearkin.index.index import Index
from nearkin.index.preparation import Document
from nearkin.server.routes.models import Model

SCOPE = RESERVED + "golden"
"""No request reaches it."""
MOST = 10_000


class GoldenPair(Model):
    """Two documents, and whether they are near-duplicates at the index' threshold."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    a: str | list[float]
    b: str | list[float]
    similar: bool = True


@dataclass(frozen=True)
class GoldenResult:
    """A round.

    Attributes:
        similar: Pairs that must be found.
        found: Of those.
        distinct: Pairs that must not.
        mistaken: Of those, found nevertheless.
        at: Seconds since 1970.
    """

    similar: int
    found: int
    distinct: int
    mistaken: int
    at: float

    @property
    def recall(self) -> float | None:
        """Share of the similar pairs that were found."""
        return self.found / self.similar if self.similar else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**asdict(self), "recall": self.recall}


def read_golden_pairs(path: Path) -> list[GoldenPair]:
    """JSON lines with a, b and similar (true unless said otherwise).

    Raises:
        UsageError: A line is none; or there are none, or too many.
    """
    pairs: list[GoldenPair] = []
    try:
        rows = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"the golden pairs {path} cannot be read: {error.strerror}") from error
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            pairs.append(GoldenPair.model_validate(orjson.loads(row)))
        except (orjson.JSONDecodeError, ValidationError) as error:
            raise UsageError(f'{path}:{number} is no pair like {{"a": text, "b": text, "similar": true}}') from error
    if not 1 <= len(pairs) <= MOST:
        raise UsageError(f"{path} has {len(pairs):,} pairs; 1 to {MOST:,} make a round")
    return pairs


def probe(index: Index, pairs: Sequence[GoldenPair]) -> GoldenResult:
    """A round: the first of each pair is there (put there if it is not), the second is asked for."""
    ids = [f"pair-{at}" for at in range(len(pairs))]
    most = index.settings.max_batch
    leaders: list[str] = []
    for start in range(0, len(pairs), most):
        documents: list[Document] = [pair.a for pair in pairs[start : start + most]]
        outcomes = index.upsert_many(SCOPE, documents, ids[start : start + most])
        leaders += [outcome.representative for outcome in outcomes]
    found = {True: 0, False: 0}
    for pair, name, leader in zip(pairs, ids, leaders, strict=True):
        matches = index.query(SCOPE, pair.b, top=index.settings.max_candidates)
        found[pair.similar] += any(match.id in (name, leader) for match in matches)
    similar = sum(pair.similar for pair in pairs)
    return GoldenResult(similar, found[True], len(pairs) - similar, found[False], index.now())
