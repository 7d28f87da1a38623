"""Signatures that are given: the fingerprints of pictures, sounds and other documents."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from nearkin.settings.spec import Spec
from nearkin.stages.hashing.families import hash_rows
from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch.sketcher import EMPTY_STREAM, Sketches


class FingerprintSketcher:
    """A sketcher of fingerprints, which are their own signatures.

    Examples:
        >>> spec = Spec(measure="hamming", unit="fingerprint", n=64)
        >>> rows = pa.array([bytes(7) + bytes([255])], pa.binary(8))
        >>> FingerprintSketcher(spec).sketch(rows).signatures.tolist()
        [[255]]
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def sketch(
        self, documents: pa.Array, also: Callable[[Shingles], None] | None = None
    ) -> Sketches:
        """Returns the signatures of fingerprints."""
        is_compared = documents.is_valid().to_numpy(zero_copy_only=False)
        rows = rows_of(documents)
        words = rows.view(">u8").astype(np.uint64).reshape(len(rows), self.spec.signature_width)
        hashes = hash_rows(rows)
        hashes[~is_compared] = EMPTY_STREAM
        return Sketches(words, is_compared.astype(np.uint32), hashes)


def rows_of(documents: pa.Array) -> np.ndarray:
    """Returns fixed_size_binary values as rows of bytes, uint8 (n, width). A null has any bytes."""
    width = documents.type.byte_width
    content = documents.buffers()[1]
    if not len(documents):
        return np.zeros((0, width), np.uint8)
    first = documents.offset * width
    values = np.frombuffer(content, np.uint8)[first : first + len(documents) * width]
    return np.ascontiguousarray(values).reshape(len(documents), width)
