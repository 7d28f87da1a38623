"""Tests of the second reading of documents. They need no session."""

import pyarrow as pa
import pytest

from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.engine.spark import sketching
from nearkin.engine.spark.rereading import PayloadRows, Reread
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.sketch.resources import NO_RESOURCES


def test_documents_of_a_large_batch_become_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch could have more bytes of shingles than a column can have."""
    reread = Reread(PayloadRows(TaskRequest(Columns(id="id"), RunOptions(), NO_RESOURCES)))
    texts = [f"one two three {number}" for number in range(6)]
    batch = pa.record_batch({"id": pa.array(list("abcdef")), "text": pa.array(texts)})
    (whole,) = reread.frame([batch])
    monkeypatch.setattr(sketching, "BYTES_AT_ONCE", batch.nbytes // 2)
    divided = list(reread.frame([batch]))
    assert len(divided) > 1
    assert pa.Table.from_batches(divided).to_pylist() == whole.to_pylist()
