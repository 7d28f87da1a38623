"""The Spec of given columns: what they hold decides about the measure and the unit."""

from typing import Any

from nearkin.corpus import Columns
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import FINGERPRINT, HAMMING, Spec


def resolve_spec(
    columns: Columns, measure: str | None, spec: Spec | None = None, **fields: Any
) -> Spec:
    """Returns a Spec that is compatible with the columns: the given one, or one of the measure."""
    has_vectors = columns.vector is not None
    if spec is None:
        if measure == HAMMING and columns.fingerprint is None:
            raise UsageError(
                "measure hamming compares fingerprints: name their column with "
                f"{name_setting('fingerprint')}"
            )
        if measure == "cosine" and not has_vectors:
            raise UsageError(
                f"measure cosine compares vectors: name their column with {name_setting('vector')}"
            )
        if has_vectors:
            fields = {**fields, "unit": "vector", "n": columns.dimensions}
        if columns.fingerprint is not None:
            fields = {**fields, "unit": FINGERPRINT, "n": columns.bits}
        spec = Spec(measure=measure or _default_measure(columns), **fields)
    if measure is not None and measure != spec.measure:
        raise UsageError(
            f"{name_setting('measure', measure)} contradicts the Spec's {spec.measure!r}"
        )
    if (columns.fingerprint is not None) != (spec.unit == FINGERPRINT):
        content = "fingerprints" if spec.unit == FINGERPRINT else "text or vectors"
        raise UsageError(f"measure {spec.measure} compares {content}")
    if has_vectors != (spec.unit == "vector"):
        content = "vectors: name their column" if spec.unit == "vector" else "text"
        raise UsageError(f"measure {spec.measure} compares {content}")
    if spec.unit == FINGERPRINT and columns.bits != spec.n:
        raise UsageError(
            f"the fingerprints have {columns.bits} bits, but the Spec requires {spec.n}"
        )
    if has_vectors and columns.dimensions != spec.n:
        raise UsageError(
            f"the vectors have {columns.dimensions} numbers, but the Spec requires {spec.n}"
        )
    return spec


def _default_measure(columns: Columns) -> str:
    """Returns the measure of the documents in the columns."""
    if columns.fingerprint is not None:
        return HAMMING
    return "jaccard" if columns.vector is None else "cosine"
