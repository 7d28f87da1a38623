"""The keywords of runs. `scripts/write_keywords.py` writes them.

`nearkin.settings.table` says what they mean.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nearkin.settings.keys import HashKey
from nearkin.settings.keywords import ReadKeywords, SpecOptionKeywords
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import DocumentFrequencies


class FurtherParameters(SpecOptionKeywords, ReadKeywords, total=False):
    """The keywords of a run that a function collects."""

    tokens: str | None
    vector: str | None
    fingerprint: str | None
    ignore_fingerprint: str | Sequence[str] | None
    fields: Sequence[str]
    measure: str | None
    max_df: float | None
    distance: int | None
    recall: float
    bands: int | None
    rows: int | None
    tables: int
    probes: int
    verify: str
    block_by: str | None
    missing_block: str
    across: str | None
    same: str | None
    url: str | None
    hot_bucket_size: int
    pair_budget: int | None
    fanout: int
    cluster: str
    floor: float | None
    keep_up_to: int
    empty: str
    accept: str
    max_lost: float | None
    related: float | None
    max_removed: float | str | None
    expect: str | None
    second_measure: str | None
    source: str | None
    split: str | None
    memory: int | str
    workers: int | None
    settings: str | Path | Mapping[str, object] | None
    spec: Spec | None
    key: HashKey | None
    frequencies: DocumentFrequencies | None
    cut: DocumentFrequencies | None


class RunParameters(FurtherParameters, total=False):
    """The keywords of a run, which compares one kind of content."""

    text: str | Sequence[str] | None
    threshold: float
    preset: str | None
    keep: str | Callable[..., object]
