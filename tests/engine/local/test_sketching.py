"""Tests of the sketch stage."""

from pathlib import Path

import pyarrow as pa
import pytest

import nearkin as nk


@pytest.mark.parametrize(
    "options",
    [{"keep": "date desc"}, {"keep": "newest:date"}]
    + [{name: "date"} for name in ("block_by", "across", "source", "split")],
)
def test_corpus_without_documents_may_have_carried_columns(
    options: dict[str, str], tmp_path: Path
) -> None:
    table = pa.table({"text": pa.array([], pa.string()), "date": pa.array([], pa.string())})
    result = nk.dedup(table, **options)
    assert len(result) == 0
    assert result.report_data.sources == ()
    (tmp_path / "in.jsonl").write_text('{"text": null, "date": "2024"}\n')
    assert len(nk.dedup(tmp_path / "in.jsonl", **options)) == 0
