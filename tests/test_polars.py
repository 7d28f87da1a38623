"""Tests of the expressions for Polars."""

import polars as pl
import pytest

import nearkin as nk
import nearkin.polars

TEXTS = ["the cat sat on the mat", None, "the cat sat on the mat now", "a dog"]


def test_expressions_of_polars_work_in_lazy_frames() -> None:
    frame = pl.DataFrame({"body": TEXTS})
    spec = nk.Spec(k=16)
    shown = (
        frame.lazy()
        .select(
            nk.polars.minhash("body", spec).alias("signature"),
            nk.polars.band_keys(pl.col("body"), spec, threshold=0.5).alias("keys"),
            nk.polars.similarity("body", pl.lit("the cat sat on the mat")).alias("same"),
        )
        .collect()
    )
    assert shown["same"].to_list() == [1.0, None, 0.8, 0.0]
    texts = [text for text in TEXTS if text is not None]
    assert shown["signature"].drop_nulls().to_list() == nk.sketch(texts, spec).tolist()
    assert shown["keys"].dtype == pl.List(pl.UInt64)
    assert shown["signature"].dtype == pl.List(pl.UInt32)
    assert shown["keys"][1] is None
    with pytest.raises(nk.UsageError, match="5 is not a column of Polars"):
        nk.polars.minhash(5)


def test_a_frame_without_rows_has_no_similarities() -> None:
    frame = pl.DataFrame({"body": TEXTS}).clear()
    for pair in (("body", pl.lit("a dog")), (pl.lit("a dog"), "body"), ("body", "body")):
        shown = frame.select(nk.polars.similarity(*pair).alias("same"))
        assert shown["same"].to_list() == []
