"""Tests of a corpus of files: errors, and files that change during a run."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nearkin.corpus import Columns, FileCorpus, TableCorpus
from nearkin.corpus.input_file import InputFile
from nearkin.engine.options import RunOptions
from nearkin.errors import RunError, UsageError
from nearkin.runs.job import Job
from nearkin.runs.pairs import run_pairs
from tests.corpus.samples import (
    FILE_WRITERS,
    SAMPLE_FILES,
    SAMPLE_TABLE,
    ActAtStage,
    lines_of,
    read_corpus,
    run_command,
    run_dedup_on,
    words_of,
)


def test_failure_names_file_row_and_value(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "x"}\n{"text": 5}\n')
    with pytest.raises(RunError, match=r"a\.jsonl, line 2: text is not a string .*\{"):
        read_corpus(FileCorpus.open([str(tmp_path)], on_error="fail"), Columns())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            Columns(text="body"),
            r"no column 'body' \(it has 'id', 'text', 'score', 'tags'\); choose one with `text`",
        ),
        (Columns(id="key"), "no column 'key'.*`id`"),
        (Columns(carried_columns=("source",)), "no column 'source'"),
        (Columns(text=None, tokens="words"), "no column 'words'.*`tokens`"),
    ],
)
def test_missing_column_is_an_error_before_reading(
    columns: Columns, message: str, tmp_path: Path
) -> None:
    (tmp_path / "a.parquet").write_bytes(SAMPLE_FILES["a.parquet"]())
    with pytest.raises(UsageError, match=message):
        FileCorpus.open([str(tmp_path)]).check(columns)
    with pytest.raises(UsageError, match="no column"):
        TableCorpus(SAMPLE_TABLE).check(columns)


def test_file_that_changes_between_readings_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x"}\n')
    corpus = FileCorpus.open([str(path)])
    read_corpus(corpus, Columns())
    path.write_text('{"text": "x"}\n{"text": "y"}\n')
    with pytest.raises(RunError, match="has changed while the run was reading it"):
        read_corpus(corpus, Columns())


@pytest.mark.parametrize("stage", ["sketch", "verify", "write"])
def test_input_that_is_rewritten_during_a_run_is_an_error(stage: str, tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text(lines_of(*range(50), *range(50)))

    def rewrite() -> None:
        source.write_text(lines_of(*range(50, 100), *range(50, 100)))
        os.utime(source, ns=(0, 10**18))

    with pytest.raises(RunError, match="has changed while the run was reading it"):
        run_dedup_on([str(source)], tmp_path / "out", ActAtStage(stage, rewrite))
    assert not (tmp_path / "out").exists()


def test_change_of_an_input_ends_pairs(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text(lines_of(*range(20)))
    job = Job((str(source),), tmp_path / "pairs.parquet", Columns(), RunOptions(workers=1))
    with pytest.raises(RunError, match="has changed"):
        run_pairs(job, ActAtStage("sketch", lambda: source.write_text(lines_of(*range(21)))))
    assert not (tmp_path / "pairs.parquet").exists()


@pytest.mark.parametrize("name", FILE_WRITERS)
def test_input_that_is_truncated_while_it_is_read_is_an_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    FILE_WRITERS[name](path, pa.table({"text": [words_of(i) for i in range(20_000)]}))
    corpus = FileCorpus.open([str(path)])
    batches = corpus.batches(Columns())
    next(batches)
    os.truncate(path, 100)
    with pytest.raises(RunError, match="has changed while the run was reading it"):
        list(batches)


def test_change_between_counting_and_reading_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text(lines_of(1, 2, 3))
    corpus = FileCorpus.open([str(source)])
    list(corpus.batches(Columns()))
    source.write_text(lines_of(4, 5, 6, 7))
    with pytest.raises(RunError, match="has changed"):
        run_dedup_on([str(source)], tmp_path / "out", corpus=corpus)


def test_rejection_of_all_rows_has_its_own_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text("one\ntwo\n")
    (tmp_path / "a.parquet").write_text("not parquet")
    for name in ("a.jsonl", "a.parquet"):
        for command in ("dedup", "pairs", "lab sketch"):
            suffix = {"dedup": "", "pairs": ".parquet", "lab sketch": ".arrow"}[command]
            out = tmp_path / f"{command.split()[-1]}-of-{name.replace('.', '-')}{suffix}"
            assert run_command(*command.split(), tmp_path / name, "--out", out) == 3, command
            assert "no document could be read" in capsys.readouterr().err
        out = tmp_path / f"dedup-of-{name.replace('.', '-')}"
        assert (out / "rejected.jsonl").read_text()
    (tmp_path / "empty.jsonl").write_text("")
    assert run_command("dedup", tmp_path / "empty.jsonl", "--out", tmp_path / "empty") == 0
    (tmp_path / "b.jsonl").write_text('one\n{"text": "two"}\n')
    assert run_command("dedup", tmp_path / "b.jsonl", "--out", tmp_path / "b") == 0


def test_columns_are_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,a\n")
    corpus = FileCorpus.open([str(tmp_path)])
    looks: list[str] = []
    names_of = FileCorpus._column_names

    def count(corpus: FileCorpus, file: InputFile, *rest: Any) -> list[str] | None:
        looks.append(file.name)
        return names_of(corpus, file, *rest)

    monkeypatch.setattr(FileCorpus, "_column_names", count)
    for _ in range(2):
        corpus.check(Columns(id="id"))
    with pytest.raises(UsageError, match="has no column 'body'"):
        corpus.check(Columns(text="body"))
    assert looks == ["a.csv", "a.csv"]
