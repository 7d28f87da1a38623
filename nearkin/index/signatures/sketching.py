"""Sketching of columns of documents in memory."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus.arrow_conversion import to_documents, to_vectors
from nearkin.errors import UsageError
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.spec import FINGERPRINT
from nearkin.stages.measures import Measure
from nearkin.stages.measures.base import DocumentSketcher

SKETCH_ROWS = 8192
"""The number of documents that a thread sketches at a time."""


class SketchedDocuments(NamedTuple):
    """The signatures of n documents."""

    signatures: np.ndarray
    """(n, w): The signatures, of the Spec's signature type."""
    shingles: np.ndarray
    """uint32 (n,): The number of shingles with repetitions; 0 for an empty document."""


def sketcher_pool(measure: Measure) -> ObjectPool[DocumentSketcher]:
    """Returns the sketchers of a measure, one for each thread that needs one."""
    return ObjectPool(measure.sketcher)


def sketch_documents(
    documents: Any, measure: Measure, sketchers: ObjectPool[DocumentSketcher], workers: int
) -> SketchedDocuments:
    """Returns the signatures of a column of texts, of token lists, or of vectors."""
    spec = measure.spec
    if spec.unit == FINGERPRINT:
        raise UsageError(
            "fingerprints are their own signatures; find their pairs with "
            "nearkin.pairs(fingerprint=...)"
        )
    chunks = to_vectors(documents, spec.n) if spec.unit == "vector" else to_documents(documents)
    parts = [
        chunk.slice(start, SKETCH_ROWS)
        for chunk in chunks
        for start in range(0, len(chunk), SKETCH_ROWS)
    ]

    def sketch_part(part: pa.Array) -> SketchedDocuments:
        sketches = sketchers.use(lambda sketcher: sketcher.sketch(part))
        return SketchedDocuments(sketches.signatures, sketches.shingles)

    sketched_parts = list(ordered_map(sketch_part, parts, workers))
    no_signatures = np.empty((0, spec.signature_width), spec.signature_type)
    return SketchedDocuments(
        np.concatenate([no_signatures, *(part.signatures for part in sketched_parts)]),
        np.concatenate([np.empty(0, np.uint32), *(part.shingles for part in sketched_parts)]),
    )
