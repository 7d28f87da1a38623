"""Tests of Specs: the numbers of slots that signatures can have."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import SettingForm, settings_named_as
from nearkin.stages.measures import measure_of
from nearkin.stages.sketch.record import read_record, write_record
from nearkin.stages.sketch.resources import DocumentFrequencies

ODD_SIZES = (1, 3, 7, 13, 100, 101, 127, 1023)


def edited_texts(documents: int) -> list[str]:
    """Returns texts of 200 words. Each one is followed by a copy with eight changed words."""
    rng = np.random.Generator(np.random.PCG64(1))
    texts = []
    for number in range(documents):
        words = [f"w{word}" for word in rng.integers(0, 3000, 200)]
        texts.append(" ".join(words))
        for place in rng.choice(200, 8, replace=False):
            words[place] = f"e{number}x{place}"
        texts.append(" ".join(words))
    return texts


@pytest.mark.parametrize("k", ODD_SIZES)
@pytest.mark.parametrize("scheme", ["binned", "classic"])
def test_slots_of_any_number_agree_with_the_similarity(scheme: str, k: int) -> None:
    """The tolerance is four standard errors of the mean over 60 pairs."""
    spec = nk.Spec(n=1, k=k, scheme=scheme)
    texts = edited_texts(60)
    slots = measure_of(spec).sketcher().sketch(pa.array(texts, pa.large_string())).signatures
    assert slots.shape == (120, k)
    sets = [set(text.split()) for text in texts]
    true = [len(a & b) / len(a | b) for a, b in zip(sets[::2], sets[1::2], strict=True)]
    agreeing = (slots[::2] == slots[1::2]).mean()
    error = 4 * (np.mean(true) * (1 - np.mean(true)) / (k * 60)) ** 0.5
    assert agreeing == pytest.approx(np.mean(true), abs=error)
    record = write_record(slots[0], 7, spec)
    assert (read_record(record, spec).signature == slots[0]).all()


@pytest.mark.parametrize("k", [50, 100, 101])
def test_runs_and_indexes_accept_any_number_of_slots(k: int) -> None:
    texts = edited_texts(20)
    spec = nk.Spec(n=1, k=k)
    assert nk.dedup(texts, spec=spec, threshold=0.8).kept.sum() == 20
    banded = nk.pairs(texts, spec=spec, threshold=0.8, bands=10, rows=5)
    assert len(banded.pairs) >= 18
    with nk.Index.open("memory://", spec=spec) as index:
        outcomes = index.upsert_many("s", texts)
        assert sum(outcome.representative is not None for outcome in outcomes) >= 18


@pytest.mark.parametrize(("bits", "step"), [(16, 1), (8, 1), (4, 2), (2, 4), (1, 8)])
def test_truncated_slots_fill_whole_bytes(bits: int, step: int) -> None:
    spec = nk.Spec(k=5 * step, slot_bits=bits)
    assert spec.smallest_k == step
    assert spec.signature_width * 8 == spec.k * bits
    sketch = nk.sketch(["one two three four five"], spec=spec)
    assert sketch.shape == (1, spec.signature_width)
    if step > 1:
        with pytest.raises(UsageError, match=f"multiple of {step} .* fill whole bytes"):
            nk.Spec(k=5 * step + 1, slot_bits=bits)


@pytest.mark.parametrize("k", [0, -8, 1025])
def test_number_of_slots_outside_the_range_is_rejected(k: int) -> None:
    with pytest.raises(UsageError, match=f"k={k} is out of range; it must be from 1 to 1,024"):
        nk.Spec(k=k)


def test_number_of_signs_is_a_multiple_of_64() -> None:
    with pytest.raises(UsageError, match=r"k=100 is not a multiple of 64 .*; 64 and 128 are"):
        nk.Spec(measure="simhash", k=100)


@pytest.mark.parametrize("stemmer", ["3.1.1", "snowballstemmer", "snowballstemmer  3.1.1", 3])
def test_a_stemmer_that_is_not_a_package_and_a_release_is_refused(stemmer: Any) -> None:
    with pytest.raises(UsageError, match=r"is not a package and its release|give a text"):
        nk.Spec(stem="english", stemmer=stemmer)
    assert nk.Spec(stem="english", stemmer="snowballstemmer 0.1").stemmer == "snowballstemmer 0.1"


def test_specs_of_different_versions_are_not_comparable() -> None:
    with pytest.raises(
        nk.errors.IncompatibleError, match=r"version=1, this with 2.*version=1 keeps ver"
    ):
        nk.Spec().require(nk.Spec(version=1), "it")
    with (
        settings_named_as(SettingForm.OPTION),
        pytest.raises(nk.errors.IncompatibleError, match="--spec-version 1 keeps version 1"),
    ):
        nk.Spec().require(nk.Spec(version=1), "it")
    with pytest.raises(UsageError, match=r"version 3 is not one of 1, 2"):
        nk.Spec(version=3)


def test_vectors_and_fingerprints_keep_version_1() -> None:
    for fields in (
        {"measure": "cosine", "unit": "vector", "n": 3},
        {"measure": "hamming", "unit": "fingerprint", "n": 64},
    ):
        spec = nk.Spec(**fields)  # type: ignore[arg-type]
        assert spec.version == 1
        assert nk.Spec.from_json(spec.to_json()) == spec
        with pytest.raises(UsageError, match="version 2 is not one of 1"):
            nk.Spec(version=2, **fields)  # type: ignore[arg-type]


def test_frequencies_of_version_1_are_readable_and_named_in_the_error(tmp_path: Path) -> None:
    old = nk.Spec(measure="idf-jaccard", n=1, version=1)
    table = nk.frequencies(["one two", "two three", "C++"], spec=old)
    table.write(tmp_path / "table.arrow", old)
    read = DocumentFrequencies.read(tmp_path / "table.arrow", old)
    assert read.fingerprint == table.fingerprint
    with pytest.raises(
        nk.errors.IncompatibleError, match="reads texts in another way than version 1"
    ):
        DocumentFrequencies.read(tmp_path / "table.arrow", nk.Spec(measure="idf-jaccard", n=1))
