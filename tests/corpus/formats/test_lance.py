"""Lance tables."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nearkin.corpus import Columns, FileCorpus
from tests.corpus.formats.kept_copies import (
    deduplicate,
    deduplicate_to_lines,
    read_reasons,
    read_texts,
)
from tests.corpus.formats.record_files import TEXTS

lance = pytest.importorskip("lance")


def write_lance(path: Path, **options: Any) -> Path:
    """Writes the texts with ids and numbers in two fragments, with a row more that is deleted."""
    rows = [{"rank": i, "id": f"d{i}", "text": text} for i, text in enumerate(TEXTS)]
    rows.insert(2, {"rank": -1, "id": "gone", "text": "removed"})
    lance.write_dataset(pa.Table.from_pylist(rows[:4]), path, **options)
    lance.write_dataset(pa.Table.from_pylist(rows[4:]), path, mode="append")
    lance.dataset(path).delete("rank = -1")
    return path


def test_rows_that_were_deleted_are_not_read(tmp_path: Path) -> None:
    path = write_lance(tmp_path / "a.lance")
    assert read_texts(path) == TEXTS
    assert read_texts(path, Columns(id="rank")) == TEXTS


def test_kept_copy_is_a_table_with_the_schema_of_the_input(tmp_path: Path) -> None:
    path = write_lance(tmp_path / "a.lance", data_storage_version="2.0")
    copy = lance.dataset(deduplicate(path, "--id", "id"))
    given = lance.dataset(path)
    assert copy.data_storage_version == given.data_storage_version == "2.0"
    assert copy.version == 1
    assert copy.to_table() == given.to_table().take([0, 2, 4])


def test_columns_are_added(tmp_path: Path) -> None:
    copy = lance.dataset(deduplicate(write_lance(tmp_path / "a.lance"), "--id", "id", "--annotate"))
    assert copy.to_table()["cluster"].to_pylist() == ["d0", "d0", "d2", "d2", "d4", "d4"]


def test_kept_documents_become_json_lines(tmp_path: Path) -> None:
    rows = deduplicate_to_lines(write_lance(tmp_path / "a.lance"))
    assert rows[1] == {"rank": 2, "id": "d2", "text": TEXTS[2]}


def test_reading_starts_at_any_row(tmp_path: Path) -> None:
    corpus = FileCorpus.open([str(write_lance(tmp_path / "a.lance"))])
    for start in range(len(TEXTS) + 1):
        texts = [
            text
            for batch in corpus.batches(Columns(), (0, start))
            for text in batch.documents["text"].to_pylist()
        ]
        assert texts == TEXTS[start:]


@pytest.mark.parametrize("is_missing", [False, True])
def test_damaged_fragment_is_rejected_from_there_on(is_missing: bool, tmp_path: Path) -> None:
    path = write_lance(tmp_path / "a.lance")
    fragment = lance.dataset(path).get_fragments()[1]
    data = path / "data" / fragment.data_files()[0].path
    if is_missing:
        data.unlink()
    else:
        data.write_bytes(bytes(data.stat().st_size))
    assert read_texts(path) == TEXTS[:3]
    assert "cannot be read from row 3" in read_reasons(path)[0]
