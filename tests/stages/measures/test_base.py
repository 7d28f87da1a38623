"""Tests of payloads, and of the layouts by which signatures are compared."""

import numpy as np
import pytest

from nearkin.settings.spec import Spec
from nearkin.stages.lsh.kernels import SignLayout, SlotLayout, TruncatedLayout
from nearkin.stages.measures import BandingRequest, measure_of
from nearkin.stages.measures.base import (
    Payload,
    as_stored,
    band_layout_of,
    concatenate_payloads,
    row_starts,
)

PARTS = [
    Payload(np.array([2, 0]), (np.array([5, 6], np.uint64), np.array([0.5, 1.5]))),
    Payload(np.array([], np.int64), (np.empty(0, np.uint64), np.empty(0))),
    Payload(np.array([1]), (np.array([9], np.uint64), np.array([2.5]))),
]


def test_payloads_are_one_after_the_other() -> None:
    whole = concatenate_payloads(PARTS)
    assert whole.sizes.tolist() == [2, 0, 1]
    assert [column.tolist() for column in whole.columns] == [[5, 6, 9], [0.5, 1.5, 2.5]]
    assert whole.columns[0].dtype == np.uint64


def test_stored_documents_are_found_by_their_positions() -> None:
    whole = concatenate_payloads(PARTS)
    assert row_starts(whole).tolist() == [0, 2, 2, 3]
    stored = as_stored(whole)
    hashes = stored.columns[0]
    rows = [hashes[stored.starts[at] : stored.starts[at + 1]].tolist() for at in stored.place]
    assert rows == [[5, 6], [], [9]]
    assert row_starts(PARTS[1]).tolist() == [0]


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (Spec(), SlotLayout),
        (Spec(measure="weighted-jaccard"), SlotLayout),
        (Spec(slot_bits=4), TruncatedLayout),
        (Spec(measure="simhash", k=128), SignLayout),
        (Spec(measure="cosine", unit="vector", n=3, k=64), SignLayout),
    ],
    ids=lambda value: value.fingerprint if isinstance(value, Spec) else value.__name__,
)
def test_layout_is_that_of_the_words_of_signatures(spec: Spec, kind: type) -> None:
    banding = measure_of(spec).banding(BandingRequest(0.8, 0.9, documents=100))
    keys = np.zeros((1, banding.bands), np.uint64)
    layout = band_layout_of(spec, banding, keys)
    assert isinstance(layout.layout, kind)
    if kind is TruncatedLayout:
        assert layout.masks_or_keys is keys
