"""Tests of the second reading of documents. They need no session."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.engine.spark import sketching
from nearkin.engine.spark.rereading import PayloadRows, Reread, move_copy
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.engine.spark.verification import Members
from nearkin.errors import RunError
from nearkin.stages.sketch.resources import NO_RESOURCES


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


def test_id_that_is_not_utf8_is_rejected() -> None:
    """Strings of Spark can have any bytes."""
    request = TaskRequest(Columns(id="id"), RunOptions(), NO_RESOURCES)
    ids = pa.array([b"a", b"\xff", None]).view(pa.string())
    batch = pa.record_batch({"id": ids, "text": pa.array(["x", "y", "z"])})
    (read,) = sketching.read_rows([batch], request)
    assert read.ids.to_pylist() == ["a"]
    places = [json.loads(place) for place in read.rejected["facts"].to_pylist()]
    assert places == [{"id": "\\xff"}, {"id": None}]


def test_repeated_task_replaces_the_copy_of_a_table(tmp_path: Path) -> None:
    for content in ("first", "second"):
        attempted = tmp_path / "attempt" / "a.lance"
        attempted.mkdir(parents=True)
        (attempted / "rows").write_text(content)
        move_copy(tmp_path / "attempt", "a.lance", tmp_path / "kept", "a.lance")
    assert (tmp_path / "kept" / "a.lance" / "rows").read_text() == "second"


def test_document_that_is_not_read_again_is_an_error() -> None:
    members = Members(np.array([7, 3]))
    assert members.places(np.array([3, 7, 3])).tolist() == [1, 0, 1]
    for docs in ([5], [3, 9]):
        with pytest.raises(RunError, match="1 document could not be read again"):
            members.places(np.array(docs))
    with pytest.raises(RunError, match="2 documents could not be read again"):
        Members(np.empty(0, np.int64)).places(np.array([3, 7]))
