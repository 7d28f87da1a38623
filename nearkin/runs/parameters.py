"""The parameters that `nearkin.dedup`, `nearkin.pairs` and `nearkin.spark.dedup` share."""

from collections.abc import Mapping
from typing import Any

from nearkin.corpus import Columns
from nearkin.engine.options import RunOptionKeywords
from nearkin.errors import UsageError
from nearkin.keys import HashKey
from nearkin.sketch.resources import DocumentFrequencies, SpecResources
from nearkin.spec import Spec


class RunParameters(RunOptionKeywords, total=False):
    """The keyword parameters of a run in the library.

    At most one of `text`, `tokens` and `vector` is given. `nearkin.engine.options.RunOptions`
    documents the further parameters: recall, bands, rows, tables, probes, verify, cluster, floor,
    keep, empty, block_by, source, split, second_measure, hot_bucket_size, fanout, memory and
    workers.

    Attributes:
        text: Column of texts. The default is `text`.
        tokens: Column of token lists, instead of texts.
        vector: Column of vectors, instead of texts.
        measure: `jaccard`, `weighted-jaccard`, `simhash`, or `cosine` for vectors. The default is
            the measure of the Spec, or `cosine` for vectors, or `jaccard`.
        threshold: Minimum similarity of two near-duplicates, in (0, 1]. The default is 0.8.
        distance: Maximum Hamming distance of two near-duplicates in bits (simhash and cosine
            only). Replaces `threshold`.
        spec: The Spec of the signatures. The default is that of the measure.
        key: The hash key, if the Spec requires one.
        frequencies: Document frequencies, if the Spec has tf-idf weights.
        cut: The shingles that are removed, if the Spec has a frequency cut.
        max_df: Share of the documents, in (0, 1), above which a shingle is removed.
    """

    text: str | None
    tokens: str | None
    vector: str | None
    measure: str | None
    threshold: float
    distance: int | None
    spec: Spec | None
    key: HashKey | None
    frequencies: DocumentFrequencies | None
    cut: DocumentFrequencies | None
    max_df: float | None


OPTIONS_OF_RUN = frozenset(RunOptionKeywords.__annotations__) | {"threshold", "distance"}
"""The parameters that are fields of RunOptions."""


def require_known(parameters: Mapping[str, Any]) -> None:
    """Requires that the names of parameters are known.

    Raises:
        UsageError: If one is unknown. The message lists the valid ones.
    """
    valid = RunParameters.__annotations__
    for name in parameters:
        if name not in valid:
            raise UsageError(f"unknown setting {name!r}; valid settings are {', '.join(valid)}")


def columns_of(parameters: RunParameters, id: str | None) -> Columns:
    """Returns the columns that parameters name.

    Args:
        parameters: The parameters of a run.
        id: Column of ids, or None.

    Raises:
        UsageError: If several kinds of content are named.
    """
    contents = {name: parameters.get(name) for name in ("text", "tokens", "vector")}
    given = {name: value for name, value in contents.items() if value is not None}
    if len(given) > 1:
        named = " and ".join(f"{name}={value!r}" for name, value in given.items())
        raise UsageError(f"{named} exclude each other")
    text = parameters.get("text")
    if not given:
        text = "text"
    return Columns(
        text=text, tokens=parameters.get("tokens"), vector=parameters.get("vector"), id=id
    )


def resources_of(parameters: RunParameters) -> SpecResources:
    """Returns the hash key and the data that the Spec refers to."""
    return SpecResources(
        parameters.get("key"), parameters.get("frequencies"), parameters.get("cut")
    )


def options_of(parameters: RunParameters) -> dict[str, Any]:
    """Returns the parameters that are fields of `RunOptions`."""
    return {name: value for name, value in parameters.items() if name in OPTIONS_OF_RUN}
