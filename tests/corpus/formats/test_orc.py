"""ORC files."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from nearkin.corpus import Columns
from tests.corpus.formats.kept_copies import (
    deduplicate,
    deduplicate_to_lines,
    read_reasons,
    read_texts,
)
from tests.corpus.formats.record_files import TEXTS, write_orc


def test_kept_copies_have_the_schema_and_the_codec_of_the_input(tmp_path: Path) -> None:
    path = write_orc(tmp_path / "a.orc")
    copy = orc.ORCFile(deduplicate(path, "--id", "id"))
    given = orc.ORCFile(path)
    assert copy.compression == given.compression == "ZSTD"
    assert copy.read() == given.read().take([0, 2, 4])


def test_columns_are_added(tmp_path: Path) -> None:
    table = orc.read_table(deduplicate(write_orc(tmp_path / "a.orc"), "--id", "id", "--annotate"))
    assert table["cluster"].to_pylist() == ["d0", "d0", "d2", "d2", "d4", "d4"]
    assert table["kept"].to_pylist() == [True, False] * 3


def test_sizes_and_sources_are_added(tmp_path: Path) -> None:
    options = ("--id", "id", "--sizes", "--source", "id")
    table = orc.read_table(deduplicate(write_orc(tmp_path / "a.orc"), *options))
    assert table["cluster_size"].to_pylist() == [2, 2, 2]


def test_kept_documents_become_json_lines(tmp_path: Path) -> None:
    rows = deduplicate_to_lines(write_orc(tmp_path / "a.orc"))
    assert rows[1] == {"rank": 2, "id": "d2", "text": TEXTS[2]}


def test_columns_are_read_by_name(tmp_path: Path) -> None:
    assert read_texts(write_orc(tmp_path / "a.orc"), Columns(id="rank")) == TEXTS


def test_damaged_file_is_rejected(tmp_path: Path) -> None:
    path = write_orc(tmp_path / "a.orc")
    content = path.read_bytes()
    path.write_bytes(content[:300])
    assert read_texts(path) == []
    assert "cannot be read" in read_reasons(path)[0]
    path.write_bytes(content[:300] + bytes(400) + content[700:])
    assert read_texts(path) == []
    assert len(read_reasons(path)) == 1


def test_many_rows_of_few_bytes_are_not_decoded_if_columns_have_one_name(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    zeros = pa.nulls(1 << 20, pa.int64())
    columns = [pa.array(["a"] * (1 << 20)), zeros, zeros]
    orc.write_table(pa.Table.from_arrays(columns, ["text", "n", "n"]), path, compression="zstd")
    assert read_texts(path) == []
    assert "it claims 1,048,576 rows in" in read_reasons(path)[0]


def test_missing_rows_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_orc(tmp_path / "a.orc")
    footer = SimpleNamespace(nrows=7, schema=pa.schema([]))
    monkeypatch.setattr("nearkin.corpus.formats.orc._open_file", lambda _: footer)
    assert read_texts(path) == TEXTS
    assert read_reasons(path) == [
        "the file cannot be read from row 6: the footer states 7 rows, but the stripes have 6"
    ]
