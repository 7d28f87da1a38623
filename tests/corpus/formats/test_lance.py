"""Lance tables."""

import ast
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.formats import lance as lance_format
from nearkin.corpus.formats.base import Reading
from nearkin.errors import UsageError
from tests.cli.conftest import run
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


@pytest.mark.parametrize("deleted", [False, True])
def test_table_without_rows_has_no_documents(deleted: bool, tmp_path: Path) -> None:
    rows = pa.table({"text": TEXTS})
    lance.write_dataset(rows if deleted else rows.slice(0, 0), tmp_path / "a.lance")
    lance.dataset(tmp_path / "a.lance").delete("true")
    assert read_texts(tmp_path / "a.lance") == []
    assert lance.dataset(deduplicate(tmp_path / "a.lance")).count_rows() == 0
    assert len(nk.dedup(lance.dataset(tmp_path / "a.lance"))) == 0


def test_table_whose_columns_were_changed_is_read(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"text": TEXTS, "old": TEXTS}), tmp_path / "a.lance")
    dataset.add_columns(pa.field("n", pa.int64()))
    dataset.alter_columns({"path": "text", "name": "body"})
    dataset.drop_columns(["old"])
    lance.write_dataset(pa.table({"body": TEXTS}), tmp_path / "a.lance", mode="append")
    assert read_texts(tmp_path / "a.lance", Columns(text="body")) == TEXTS * 2
    copy = lance.dataset(deduplicate(tmp_path / "a.lance", "--text", "body"))
    assert copy.schema.names == ["body", "n"]
    with pytest.raises(UsageError, match=r"a\.lance has no column 'text' .*'body', 'n'"):
        FileCorpus.open([str(tmp_path / "a.lance")]).check(Columns())


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


def test_kept_copy_has_blobs(tmp_path: Path) -> None:
    blobs = [b"x" * i if i % 2 else None for i in range(len(TEXTS))]
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), lance.blob_field("page")])
    rows = [pa.array(range(len(TEXTS))), pa.array(TEXTS), lance.blob_array(blobs)]
    given = lance.write_dataset(
        pa.table(rows, schema=schema), tmp_path / "a.lance", data_storage_version="2.2"
    )
    copy = lance.dataset(deduplicate(tmp_path / "a.lance", "--id", "id"))
    assert copy.schema == given.schema
    pages = copy.scanner(blob_handling="all_binary").to_table()["page"].to_pylist()
    assert pages == [blobs[row] for row in copy.to_table(columns=["id"])["id"].to_pylist()]


def test_blobs_in_a_struct_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    field = lance.blob_field("page")
    pages = pa.StructArray.from_arrays([lance.blob_array([b"x"])], fields=[field])
    schema = pa.schema([("text", pa.string()), pa.field("nested", pages.type)])
    rows = pa.table([pa.array(["a text"]), pages], schema=schema)
    lance.write_dataset(rows, tmp_path / "a.lance", data_storage_version="2.2")
    assert run("dedup", tmp_path / "a.lance", "--out", tmp_path / "out") == app.USAGE
    assert "the nested column 'nested' has blobs" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("storage", ["2.0", "2.2"])
def test_batches_of_large_rows_have_few_rows(
    storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_format, "BATCH_BYTES", 1 << 16)
    rows = pa.table({"text": TEXTS[:1] * 64, "page": [bytes(1 << 13)] * 64})
    lance.write_dataset(rows, tmp_path / "a.lance", data_storage_version=storage)
    (file,) = FileCorpus.open([str(tmp_path / "a.lance")]).files
    slices = lance_format.Lance().read(file, Reading(Columns(), whole=True))
    assert [len(part.documents) for part in slices] == [7] * 9 + [1]


@pytest.mark.parametrize("storage", ["2.0", "2.2"])
@pytest.mark.parametrize("small", [9, 600])
def test_batches_follow_the_size_of_rows(
    storage: str, small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts of one letter take no space in the file, so only reading shows their size."""
    monkeypatch.setattr(lance_format, "BATCH_BYTES", 1 << 16)
    texts = ["a"] * small + ["b" * (1 << 15)] * 60 + ["c"] * 900
    lance.write_dataset(
        pa.table({"text": texts}), tmp_path / "a.lance", data_storage_version=storage
    )
    (file,) = FileCorpus.open([str(tmp_path / "a.lance")]).files
    slices = list(lance_format.Lance().read(file, Reading(Columns())))
    assert [text for part in slices for text in part.documents["text"].to_pylist()] == texts
    sizes = [part.documents["text"].nbytes for part in slices]
    # of the batch at which the size of rows changes, and of those after it
    too_large = [size for size in sizes if size > 1 << 18]
    assert len(too_large) <= 1
    assert len(slices) < 150


def test_table_with_a_backtick_in_the_name_of_a_column_is_refused(tmp_path: Path) -> None:
    """Lance writes such a table, but cannot read all of its columns."""
    lance.write_dataset(pa.table({"a`b": ["x", "y"], "text": TEXTS[:2]}), tmp_path / "a.lance")
    with pytest.raises(UsageError, match=r"a\.lance: .* backtick .*alter_columns") as caught:
        FileCorpus.open([str(tmp_path / "a.lance")]).check(Columns())
    with pytest.raises(UsageError) as of_library:
        nk.dedup(lance.dataset(tmp_path / "a.lance"))
    assert str(of_library.value) == str(caught.value)
    change = ast.literal_eval(str(caught.value).partition("alter_columns(")[2].rstrip(")"))
    lance.dataset(tmp_path / "a.lance").alter_columns(change)
    assert read_texts(tmp_path / "a.lance", Columns(id="NAME")) == TEXTS[:2]


def test_messages_name_the_table_and_not_its_manifest(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"text": TEXTS[:2]}), tmp_path / "a.lance")
    corpus = FileCorpus.open([str(tmp_path / "a.lance")])
    with pytest.raises(UsageError, match=r"a\.lance has no column 'body'"):
        corpus.check(Columns(text="body"))
    with pytest.raises(UsageError, match=r"because .*a\.lance has a column"):
        corpus.require_new_columns(["text"], Columns())


def test_library_writes_no_warnings(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_lance(tmp_path / "a.lance", data_storage_version="2.0")
    capfd.readouterr()
    deduplicate(path)
    assert "WARN" not in capfd.readouterr().err


def test_table_as_output_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lance(tmp_path / "a.lance")
    # a folder with this suffix would be taken for a table when it is read
    assert run("dedup", path, "--out", tmp_path / "kept.lance") == app.USAGE
    assert "does not write files with the suffix .lance" in capsys.readouterr().err
    assert not (tmp_path / "kept.lance").exists()
