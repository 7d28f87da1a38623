"""The tables of the page of benchmarks about quality, from benchmarks/quality.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from nearkin.lab.bench import MachineFacts

RECORD = Path(__file__).parents[1] / "quality.json"
OWN_METHODS = ("default", "preset", "fitted")
TEXT_TOOLS = ("datasketch", "rensa", "gaoya", "text-dedup")
RECORD_TOOLS = ("splink", "dedupe", "recordlinkage")
LEVELS = ("verbatim", "light", "heavy", "paraphrase")


class MethodRecord(TypedDict):
    """A method over a set."""

    scores: Mapping[str, float] | None
    settings: Sequence[str]
    levels: Sequence[float]
    failed: str


class SearchRecord(TypedDict):
    """The best F1 of all single measures over a set."""

    transferred: float
    best: float
    settings: Sequence[str]


class SetRecord(TypedDict):
    """A set with all that was measured over it."""

    name: str
    kind: str
    documents: int
    clusters: int
    methods: dict[str, MethodRecord]
    search: SearchRecord | None
    search_with_containment: SearchRecord | None
    found_pairs: tuple[int, int] | None


class QualityRecord(TypedDict):
    """The file of all measured sets."""

    machine: MachineFacts
    sets: list[SetRecord]
