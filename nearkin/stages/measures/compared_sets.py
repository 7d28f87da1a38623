"""The sets of truncated shingle hashes that runs compare.

A run compares the highest 48 bits of shingle hashes, so that the hashes of the first reading can be
kept in less space than the texts take. Every path of a run uses these bits, whether it keeps hashes
or reads texts again, on one machine and over Spark. docs/explanation/why-verify.md says what they
mean for the result. An index stores and compares whole hashes.
"""

import numpy as np
import pyarrow as pa

from nearkin.stages.measures.base import Measure, Payload, PayloadBuilder
from nearkin.stages.measures.fields import FieldsMeasure
from nearkin.stages.verify import kernels

COMPARED_BITS = 64 - int(kernels.DROPPED_BITS)
"""The number of bits of a shingle hash that a run compares."""


class _TruncatedSets:
    """A builder of sets of truncated hashes."""

    def __init__(self, builder: PayloadBuilder) -> None:
        self._builder = builder

    def build(self, documents: pa.Array) -> Payload:
        """Returns the sets of a batch of documents, see `PayloadBuilder`."""
        return truncate_sets(self._builder.build(documents))


def truncate_sets(payload: Payload) -> Payload:
    """Returns sets of whole hashes as sets of truncated hashes."""
    whole = payload.columns[0]
    hashes = np.empty_like(whole)
    sizes = np.empty_like(payload.sizes)
    total = kernels.truncate_sets(whole, payload.sizes, hashes, sizes)
    return Payload(sizes, (hashes[:total],))


def compares_sets(measure: str) -> bool:
    """Returns whether documents are compared as sets of shingles without weights."""
    return measure == "jaccard"


def payload_builder_for_run(measure: Measure) -> PayloadBuilder:
    """Returns a new builder of what runs compare."""
    builder = measure.payload_builder()
    if isinstance(measure, FieldsMeasure):
        return builder
    return _TruncatedSets(builder) if compares_sets(measure.spec.measure) else builder
