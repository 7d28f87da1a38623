"""Tests of the warnings that the recall is lower than requested."""

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.engine import options
from nearkin.reports import run_warnings

RNG = np.random.default_rng(3)
COMMON = [f"common{i}" for i in range(20)]
TEXTS = [" ".join([*COMMON, *(f"own{i}x{j}" for j in range(20))]) for i in range(60)]
SIMHASH = nk.Spec(unit="words", n=1, measure="simhash")


def warnings_of(texts: list[str] | pa.Table, **settings: object) -> tuple[str, ...]:
    return nk.dedup(texts, **settings).report_data.all_warnings  # type: ignore[arg-type]


def test_hot_buckets_without_a_loss_cause_no_warning() -> None:
    """Most pairs that share a bucket are not compared, and yet one document of all is kept."""
    spec = nk.Spec(unit="words", n=1)
    result = nk.dedup(TEXTS, threshold=0.3, bands=64, rows=1, spec=spec, hot_bucket_size=10)
    assert result.stages["candidates"]["hot_buckets"] > 0
    assert result.kept.sum() == 1
    assert not [text for text in result.report_data.all_warnings if "bucket" in text]


@pytest.mark.parametrize(("threshold", "warned"), [(0.6, True), (0.79, True), (0.8, False)])
def test_simhash_at_a_low_cosine_causes_a_recall_warning(threshold: float, warned: bool) -> None:
    warnings = warnings_of(TEXTS, threshold=threshold, spec=SIMHASH, bands=16, rows=4)
    assert bool([warning for warning in warnings if "not independent" in warning]) == warned


def test_few_documents_with_long_fields_are_said_to_be_compared_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = pa.table({"title": TEXTS, "body": TEXTS})
    fields = {"fields": ["title:jaccard>=0.8", "body:jaccard>=0.8"]}
    assert not [text for text in warnings_of(table, **fields) if "recall" in text]
    for module in (options, run_warnings):
        monkeypatch.setattr(module, "MOST_FIELD_SHINGLES", 100)
    (warning,) = (text for text in warnings_of(table, **fields) if "recall" in text)
    assert "more than the 100 up to which all pairs are compared" in warning
    assert not [text for text in warnings_of(table, bands=20, rows=5, **fields) if "recall" in text]
    assert not [text for text in warnings_of(TEXTS) if "recall" in text]


def test_brute_force_causes_no_recall_warning() -> None:
    assert not [
        warning
        for warning in warnings_of(TEXTS, threshold=0.6, spec=SIMHASH)
        if "recall" in warning
    ]


def test_pairs_say_how_many_pairs_are_missing_beyond_the_budget() -> None:
    """A list of all pairs must say that some were not compared, however few they are."""
    spec = nk.Spec(unit="words", n=1)
    banded = {"threshold": 0.3, "bands": 64, "rows": 1, "spec": spec}
    result = nk.pairs(TEXTS, hot_bucket_size=10, pair_budget=45, **banded)  # type: ignore[arg-type]
    assert result.missing is not None
    warning = [text for text in result.warnings if "are missing" in text]
    assert len(warning) == 1
    assert "have more than 10 documents" in warning[0]
    assert f"An estimated {result.missing.pairs:,} pairs are missing" in warning[0]
    everything = nk.pairs(TEXTS, hot_bucket_size=10, **banded)  # type: ignore[arg-type]
    assert len(everything.pairs) > len(result.pairs)
    assert everything.missing is None
    assert not [text for text in everything.warnings if "missing" in text or "buckets" in text]
