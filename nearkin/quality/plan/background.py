"""The similarities of texts that have nothing to do with each other, fitted to real text.

How many candidates a document has by chance follows from them. `python -m benchmarks.background`
measures the pairs of texts of different projects and writes `background.json`, which has a few
quantiles of their similarities for each kind of shingles.
"""

import json
import math
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from nearkin.settings.spec import Spec
from nearkin.stages.lsh.curve import UNRELATED_BETA

BACKGROUND_FILE = "background.json"
BIN_EDGES = np.union1d(np.arange(401) / 400, np.geomspace(1e-4, 2e-3, 20))
"""The edges of the bins of similarity, float64. Most pairs are near 0."""
BIN_CENTERS = (BIN_EDGES[1:] + BIN_EDGES[:-1]) / 2


class Background(NamedTuple):
    """The share of the pairs of unrelated documents at each similarity."""

    similarities: np.ndarray
    """Similarities in ascending order, float64 (m,)."""
    shares: np.ndarray
    """Shares of the pairs, float64 (m,). They add up to 1."""
    source: str
    """The origin of the shares, in words."""

    @classmethod
    def from_quantiles(cls, quantiles: list[list[float]], source: str) -> "Background":
        """Returns the shares that follow from quantiles."""
        above = share_above(BIN_EDGES, quantiles)
        similarities = np.concatenate([[0.0], BIN_CENTERS])
        return cls(similarities, np.concatenate([[1 - above[0]], -np.diff(above)]), source)


def background_of(spec: Spec) -> Background:
    """Returns the similarities of unrelated documents."""
    kind = _nearest_kind(spec)
    if kind is not None:
        quantiles = read_background()["kinds"][kind]
        return Background.from_quantiles(quantiles, f"unrelated texts, {kind}")
    above = (1 - BIN_EDGES) ** UNRELATED_BETA
    return Background(BIN_CENTERS, -np.diff(above), "unrelated documents, Beta(1, 20)")


@cache
def read_background() -> dict[str, Any]:
    """Returns the content of the measurement of unrelated texts."""
    text = files("nearkin.quality.plan").joinpath(BACKGROUND_FILE).read_text("utf-8")
    record: dict[str, Any] = json.loads(text)
    return record


def share_above(similarities: np.ndarray, quantiles: list[list[float]]) -> np.ndarray:
    """Returns the share of pairs that are more similar than each similarity, float64 (m,).

    A quantile is a similarity with the share of the pairs above it; they ascend from similarity 0.
    Between two quantiles, the share falls exponentially. It is 0 from the last one on.

    Examples:
        >>> quantiles = [[0.0, 0.5], [0.1, 0.005], [0.2, 0.0005]]
        >>> share_above(np.array([0.0, 0.05, 0.1, 0.2]), quantiles).round(4).tolist()
        [0.5, 0.05, 0.005, 0.0]
    """
    places, shares = np.array(quantiles).T
    logarithms = np.interp(similarities, places, np.log(shares))
    return np.where(similarities < places[-1], np.exp(logarithms), 0.0)


def _nearest_kind(spec: Spec) -> str | None:
    """Returns the measure and the shingles that are nearest to a Spec, or None for vectors."""
    if not spec.has_shingles:
        return None
    measure = "simhash" if spec.measure == "simhash" else "jaccard"
    names = [
        name for name in read_background()["kinds"] if name.startswith(f"{measure} {spec.unit}:")
    ]
    return min(names, key=lambda name: abs(math.log(int(name.rpartition(":")[2]) / spec.n)))
