"""Tests of the estimated similarity of two documents."""

import numpy as np
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.settings.spec import Spec


def test_estimate_takes_signatures_of_every_measure() -> None:
    texts = ["one two three four five six seven eight", "one two three four five six seven nine"]
    for spec in (
        Spec(),
        Spec(slot_bits=4),
        Spec(measure="weighted-jaccard"),
        Spec(measure="simhash", k=128),
    ):
        a, b = nk.sketch(texts, spec)
        assert 0.4 < nk.estimate(a, b, spec) < 1
        assert nk.estimate(a, a, spec) == 1
    cosine = Spec(measure="cosine", unit="vector", n=4)
    x, y = nk.sketch(np.array([[1, 2, 3, 4], [-1, -2, -3, -4]], np.float32), cosine)
    assert nk.estimate(x, y, cosine) == -1
    fingerprints = Spec(measure="hamming", unit="fingerprint", n=128)
    given = np.array([[1, 0], [0, 2**63]], np.uint64)
    assert nk.estimate(given[0], given[1], fingerprints) == 126 / 128
    with pytest.raises(UsageError, match=r"nearkin\.HammingIndex"):
        nk.SignatureIndex(0.8, fingerprints)
    with pytest.raises(UsageError, match="pass the Spec"):
        nk.estimate(x, y)
    with pytest.raises(UsageError, match=r"nk\.simhash"):
        nk.sketch(texts, Spec(measure="simhash", weights="given"))
    with pytest.raises(UsageError, match="weights='given', not 'simhash', 'tf'"):
        nk.simhash({"a": 1.0}, Spec(measure="simhash"))
    with pytest.raises(UsageError, match="weight of 'a' is nan"):
        nk.simhash({"a": float("nan")}, Spec(measure="simhash", weights="given"))
    with pytest.raises(UsageError, match="not valid Unicode"):
        nk.simhash({"\ud800": 1.0}, Spec(measure="simhash", weights="given"))
