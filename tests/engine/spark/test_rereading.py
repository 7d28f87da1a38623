"""Tests of the second reading of documents. They need no session."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.engine.spark import rereading
from nearkin.engine.spark.rereading import PayloadRows, Reread
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.sketch.resources import NO_RESOURCES


def test_documents_of_a_large_batch_become_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch could have more bytes of shingles than a column can have."""
    request = TaskRequest(Columns(id="id"), RunOptions(), NO_RESOURCES)
    texts = pa.array([f"one two three {word}" for word in ("four", "five", "six")] * 2)
    documents = pa.record_batch([texts.cast(pa.large_string())], [request.columns.content])
    read = SimpleNamespace(docs=np.arange(6), documents=documents)
    monkeypatch.setattr(rereading, "read_rows", lambda *_: iter([read]))
    whole = list(Reread(PayloadRows(request)).frame(iter(())))
    monkeypatch.setattr(rereading, "BYTES_AT_ONCE", documents.nbytes // 2)
    divided = list(Reread(PayloadRows(request)).frame(iter(())))
    assert len(whole) == 1 < len(divided)
    assert pa.Table.from_batches(divided).to_pylist() == whole[0].to_pylist()
