"""Tests of files that contain one text each."""

import gzip
from pathlib import Path

import numpy as np

from nearkin.corpus import Columns, FileCorpus, write_kept
from tests.corpus.formats.test_delimited import MIXED_REMEDY
from tests.corpus.samples import read_corpus


def test_text_files_are_one_document_each(tmp_path: Path) -> None:
    for name, text in (
        ("b.txt", "second"),
        ("a/x.md", "first"),
        ("a/y.txt.gz", None),
        (".hidden", "no"),
        ("_SUCCESS", ""),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(
            gzip.compress("zipped é".encode()) if text is None else text.encode()
        )
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    corpus = FileCorpus.open([str(tmp_path)])
    rows, rejected = read_corpus(corpus, Columns())
    assert [(row["id"], row["text"]) for row in rows] == [
        ("a/x.md:0000000000", "first"),
        ("a/y.txt.gz:0000000000", "zipped é"),
        ("b.txt:0000000000", "second"),
    ]
    assert [(entry.file, entry.row, entry.reason) for entry in rejected] == [
        (3, 0, f"the text is not valid UTF-8: byte 1 is 0xFF; {MIXED_REMEDY}")
    ]
    (tmp_path / "out").mkdir()
    write_kept(corpus, Columns(), np.array([True, True, False]), tmp_path / "out")
    assert sorted(
        p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*")
    ) == [
        "a/x.md",
        "a/y.txt.gz",
    ]
    assert gzip.decompress((tmp_path / "out/a/y.txt.gz").read_bytes()).decode() == "zipped é"
