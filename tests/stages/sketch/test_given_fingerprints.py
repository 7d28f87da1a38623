"""Tests of signatures that are given."""

import numpy as np
import pyarrow as pa

from nearkin.settings.spec import Spec
from nearkin.stages.sketch.given_fingerprints import FingerprintSketcher


def test_words_are_those_of_the_bytes_and_equal_fingerprints_have_equal_hashes() -> None:
    rows = [bytes(range(16)), bytes(reversed(range(16))), bytes(range(16)), bytes(16)]
    spec = Spec(measure="hamming", unit="fingerprint", n=128)
    for start in (0, 1):
        sketches = FingerprintSketcher(spec).sketch(pa.array(rows, pa.binary(16)).slice(start))
        words = [[int.from_bytes(row[:8]), int.from_bytes(row[8:])] for row in rows[start:]]
        assert sketches.signatures.tolist() == words
        assert sketches.shingles.tolist() == [1] * len(words)
        assert len(np.unique(sketches.fingerprints, axis=0)) == len({*rows[start:]})


def test_no_fingerprints_have_no_signatures() -> None:
    spec = Spec(measure="hamming", unit="fingerprint", n=64)
    assert FingerprintSketcher(spec).sketch(pa.array([], pa.binary(8))).signatures.shape == (0, 1)
