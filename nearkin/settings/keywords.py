"""The keywords that runs and indexes share. `scripts/write_keywords.py` writes them.

`nearkin.settings.table` says what they mean.
"""

from collections.abc import Sequence
from typing import TypedDict


class ReadKeywords(TypedDict, total=False):
    """The reading of inputs."""

    hidden: bool
    follow_links: bool
    include: Sequence[str]
    exclude: Sequence[str]
    on_error: str
    delimiter: str | None
    encoding: str | None
    main_text: bool
    lines: bool


class SpecOptionKeywords(TypedDict, total=False):
    """The options of a Spec. A given Spec replaces them all, and None is not given."""

    shingle: str | None
    normalise: str | Sequence[str] | None
    stem: str | None
    scheme: str | None
    k: int | None
    slot_bits: int | None
    seed: int | None
    base_hash: str | None
    spec_version: int | None
    weights: str | None
    bits: int | None
