"""The preparation of texts by one kernel, against the stages of batch runs."""

from dataclasses import replace

import numpy as np
import pytest

from nearkin.index.word_preparation import WordPreparer
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.band_keys import slot_layout, write_band_keys
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.shingle import encode_texts
from nearkin.stages.sketch.resources import SpecResources
from nearkin.stages.sketch.sketcher import Sketcher
from nearkin.stages.verify.jaccard import distinct_sets

BANDING = Banding(bands=8, rows=4, k=64, margin=0, collision=0.8)
TEXTS = [
    "the cat sat on the mat, and the cat sat on the mat again",
    "",
    "one",
    "Ünïcödé Straße ﬁne 東京都の天気 привет мир",
    "word " * 400,
    " ".join(f"w{i}" for i in range(900)),
]


@pytest.mark.parametrize(
    "spec",
    [
        Spec(),
        Spec(k=64, n=2, seed=7),
        Spec(normalise=("nfkc",)),
        Spec(normalise=("nfkc", "lower", "digits")),
        Spec(base_hash="murmur3"),
    ],
    ids=str,
)
@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], TEXTS[1:2], TEXTS[3:4], []], ids=len)
def test_prepared_texts_equal_the_stages_of_batch_runs(spec: Spec, texts: list[str]) -> None:
    resources = SpecResources()
    data, offsets = encode_texts(texts)
    salt = np.uint64(12345678901234567)
    prepared = WordPreparer(spec, resources, BANDING).prepare(data, offsets, salt)

    sets = []
    sketches = Sketcher(spec, resources).sketch_texts(
        data,
        offsets,
        lambda shingles: sets.append(distinct_sets(shingles.hashes, shingles.offsets)),
    )
    keys = np.empty((BANDING.bands, len(texts)), np.uint64)
    salts = np.full(len(texts), salt, np.uint64)
    write_band_keys(slot_layout(BANDING.rows), sketches.signatures, salts, keys)
    assert np.array_equal(prepared.signatures, sketches.signatures)
    assert np.array_equal(prepared.keys, keys.T)
    assert prepared.sets.sizes.tolist() == [size for part in sets for size in part.sizes.tolist()]
    hashes = [part.hashes for part in sets]
    assert np.array_equal(prepared.sets.hashes, np.concatenate([np.empty(0, np.uint64), *hashes]))


def test_a_preparer_gives_the_same_results_again_after_other_texts() -> None:
    preparer = WordPreparer(Spec(), SpecResources(), BANDING)
    data, offsets = encode_texts(TEXTS)
    first = preparer.prepare(data, offsets, np.uint64(1))
    preparer.prepare(*encode_texts(["another text of some words"] * 9), np.uint64(2))
    second = preparer.prepare(data, offsets, np.uint64(1))
    assert np.array_equal(first.signatures, second.signatures)
    assert np.array_equal(first.keys, second.keys)
    assert np.array_equal(first.sets.hashes, second.sets.hashes)


@pytest.mark.parametrize(
    ("spec", "probes", "is_applicable"),
    [
        (Spec(), 0, True),
        (Spec(), 2, False),
        (Spec(slot_bits=8), 0, False),
        (Spec(unit="chars", n=5), 0, False),
        (Spec(scheme="classic"), 0, False),
        (Spec(measure="weighted-jaccard"), 0, False),
        (Spec(normalise=("nfkc", "lower", "markup")), 0, False),
        (Spec(stem="english"), 0, False),
    ],
    ids=str,
)
def test_only_plain_words_in_whole_binned_slots_are_prepared(
    spec: Spec, probes: int, is_applicable: bool
) -> None:
    banding = replace(BANDING, probes=probes)
    assert WordPreparer.is_applicable(spec, SpecResources(), banding) is is_applicable
