"""Tests that copies of inputs stay inside the output folder."""

from pathlib import Path

import fsspec
import numpy as np
import pytest

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.input_file import InputFile
from nearkin.errors import RunError
from tests.corpus.samples import kept_texts, lines_of, run_dedup_on, words_of


def test_copies_of_inputs_above_the_current_folder_stay_inside_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "crawl").mkdir()
    (tmp_path / "crawl" / "a.jsonl").write_text(lines_of(1, 2))
    (work / "b.jsonl").write_text(lines_of(3))
    monkeypatch.chdir(work)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    run_dedup_on(["../crawl", "b.jsonl"], work / "out")
    assert sorted(
        str(path.relative_to(work / "out")) for path in (work / "out" / "kept").rglob("*.jsonl")
    ) == [
        "kept/crawl/a.jsonl",
        "kept/work/b.jsonl",
    ]
    assert {path: path.read_bytes() for path in before} == before
    outside = {
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and (work / "out") not in path.parents
    }
    assert outside == set(before)


def test_copies_of_a_local_file_and_a_url_stay_inside_the_output(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines_of(1))
    with fsspec.open("memory://bucket/b.jsonl", "w") as file:
        file.write(lines_of(2))
    run_dedup_on([str(tmp_path / "a.jsonl"), "memory://bucket/b.jsonl"], tmp_path / "out")
    assert (tmp_path / "a.jsonl").read_text() == lines_of(1)
    assert kept_texts(tmp_path / "out") == [words_of(1), words_of(2)]


@pytest.mark.parametrize("name", ["../a.jsonl", "/tmp/a.jsonl", "x/../../a.jsonl", ""])
def test_target_outside_the_output_is_an_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines_of(1))
    (tmp_path / "out").mkdir()
    corpus = FileCorpus([InputFile(str(tmp_path / "a.jsonl"), name)])
    with pytest.raises(RunError, match="leads out of"):
        write_kept(corpus, Columns(), np.ones(1, bool), tmp_path / "out")
    assert (tmp_path / "a.jsonl").read_text() == lines_of(1)
