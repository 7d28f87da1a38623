"""The Spec and the banding of the index of a server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class IndexFacts:
    """The Spec and the banding of the index of a server.

    Attributes:
        spec: The Spec, as `Spec.to_json` writes it.
        fingerprint: The fingerprint of the Spec.
        threshold: The minimum similarity of a match.
        recall: The minimum share of the matches at the threshold that are found.
        bands: The number of bands.
        rows: The number of rows of a band.
        probes: The number of probes of a band.
        postings: `leaders` or `all`.
        version: The version of nearkin.
        vector: The Spec, the threshold and the banding of the vectors of an index of texts and
            vectors, otherwise None.
        combine: `either` or `both` in an index of texts and vectors, otherwise None.
        related: The minimum similarity of related documents, or None in an index without them.
        passages: The smallest number of words of a passage, or None in an index without them.
    """

    spec: Mapping[str, Any]
    fingerprint: str
    threshold: float
    recall: float
    bands: int
    rows: int
    probes: int
    postings: str
    version: str
    vector: Mapping[str, Any] | None = None
    combine: str | None = None
    related: float | None = None
    passages: int | None = None
