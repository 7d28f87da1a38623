"""Documents at some places are read as a whole reading has them, and other parts are skipped."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearkin.corpus import Columns, FileCorpus, TableCorpus
from nearkin.corpus.batches import Batch, read_content
from nearkin.corpus.places import places_from, places_of
from nearkin.errors import RunError
from nearkin.stages.packed_pairs import isin_sorted
from tests.corpus.samples import FLAT_TABLE, SAMPLE_FILES, write_parquet

COLUMNS = Columns(id="id")


def describe(batches: Iterator[Batch]) -> tuple[list[Any], list[Any]]:
    """Returns the documents with their places, and the rejected rows, whatever batches they are in.

    The numbers of the documents must be consecutive.
    """
    documents: list[Any] = []
    rejected: list[Any] = []
    for batch in batches:
        assert batch.first == len(documents)
        places = places_of(batch.files, batch.rows).tolist()
        documents += zip(places, batch.documents.to_pylist(), strict=True)
        rejected += batch.rejected
    return documents, rejected


@pytest.fixture
def corpus(tmp_path: Path) -> FileCorpus:
    """A corpus of all formats, with rejected rows."""
    for number, (name, write) in enumerate(SAMPLE_FILES.items()):
        folder = tmp_path / f"{number:02d}"
        folder.mkdir()
        (folder / name).write_bytes(write())
    broken = ['{"id": "r", "text": 1}', "", '{"id": "s", "text": "a text"}', "no json"]
    (tmp_path / "90.jsonl").write_text("\n".join(broken))
    (tmp_path / "91.json").write_text("[" + ",\n".join([broken[2], broken[0], broken[2]]) + "]")
    return FileCorpus.open([str(tmp_path)])


@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_documents_at_places_are_those_of_a_whole_reading(corpus: FileCorpus, count: int) -> None:
    documents, rejected = describe(corpus.batches(COLUMNS))
    faults = [(int(places_of(np.array([r.file]), np.array([r.row]))[0]), r) for r in rejected]
    all_places = sorted([place for place, _ in documents] + [place for place, _ in faults])
    rng = np.random.default_rng(count)
    places = np.sort(rng.choice(np.array(all_places, np.uint64), count, replace=False))
    wanted = set(places.tolist())
    selected, faults_at = describe(corpus.batches_at(COLUMNS, places))
    assert selected == [entry for entry in documents if entry[0] in wanted]
    assert faults_at == [fault for place, fault in faults if place in wanted]
    contents = [row["text"] for _, row in describe(read_content(corpus, COLUMNS, places))[0]]
    assert contents == [row["text"] for _, row in selected]


def test_reading_at_places_begins_at_a_row(corpus: FileCorpus) -> None:
    documents, _ = describe(corpus.batches(COLUMNS))
    places = np.array([place for place, _ in documents], np.uint64)
    start = (3, 2)
    batches = corpus.batches_at(COLUMNS, places, start)
    assert describe(batches)[0] == describe(corpus.batches(COLUMNS, start))[0]
    assert len(places_from(places, start)) < len(places)


def test_rows_of_a_table_are_selected() -> None:
    corpus = TableCorpus(FLAT_TABLE)
    documents, _ = describe(corpus.batches(COLUMNS))
    places = np.array([place for place, _ in documents[3:40:6]], np.uint64)
    assert describe(corpus.batches_at(COLUMNS, places))[0] == documents[3:40:6]


def test_a_file_without_a_needed_row_is_not_opened(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_parquet(tmp_path / f"{name}.parquet")
    corpus = FileCorpus.open([str(tmp_path)])
    (tmp_path / "a.parquet").unlink()
    (tmp_path / "c.parquet").unlink()
    places = places_of(np.array([1, 1]), np.array([3, 44]))
    assert [place for place, _ in describe(corpus.batches_at(Columns(), places))[0]] == (
        places.tolist()
    )
    with pytest.raises(RunError, match="cannot read"):
        describe(corpus.batches_at(Columns(), places_of(np.array([0]), np.array([3]))))


def test_a_row_group_without_a_needed_row_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = write_parquet(path)
    content = path.read_bytes()
    first = content.index(b"document 20")
    status = path.stat()
    path.write_bytes(content.replace(content[first : first + 200], b"\xff" * 200))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    corpus = FileCorpus.open([str(path)])
    _, damage = describe(corpus.batches(Columns()))
    assert damage
    rows = np.array([2, 11, 33, 49])
    documents, rejected = describe(corpus.batches_at(Columns(), places_of(rows * 0, rows)))
    assert [row["text"] for _, row in documents] == table["text"].take(pa.array(rows)).to_pylist()
    assert not rejected


def test_membership_in_a_sorted_array() -> None:
    wanted = np.array([2, 3, 9])
    values = np.array([0, 2, 9, 10])
    assert isin_sorted(values, wanted).tolist() == [False, True, True, False]
    assert not isin_sorted(values, wanted[:0]).any()
