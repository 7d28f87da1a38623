"""Tests of the file of answers."""

import errno
import os
from pathlib import Path

import pytest

from nearkin.errors import UsageError
from nearkin.quality.evaluate.golden import read_golden_set
from nearkin.quality.fit.answer_file import Answer, AnswerFile


def test_each_answer_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id_a,id_b,label\n\n")
    assert AnswerFile.open(path).earlier == []
    path.unlink()
    answers = AnswerFile.open(path)
    assert answers.earlier == []
    assert not path.exists()
    answers.append(Answer("a", "b", is_duplicate=True))
    assert path.read_text() == "id_a,id_b,label\na,b,1\n"
    answers.append(Answer("a", 'c,"d"', is_duplicate=False))
    golden = read_golden_set(path)
    assert golden.ids == ("a", "b", 'c,"d"')
    assert sorted(AnswerFile.open(path).earlier) == [
        Answer("a", "b", is_duplicate=True),
        Answer("a", 'c,"d"', is_duplicate=False),
    ]


def test_last_answers_are_removed_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id_a,id_b,label\nx,y,0")
    answers = AnswerFile.open(path)
    answers.append(Answer("a", "b", is_duplicate=True))
    answers.append(Answer("a", "c", is_duplicate=True))
    assert path.read_text() == "id_a,id_b,label\nx,y,0\na,b,1\na,c,1\n"
    answers.remove_last()
    answers.append(Answer("a", "d", is_duplicate=False))
    answers.remove_last()
    answers.remove_last()
    assert path.read_text() == "id_a,id_b,label\nx,y,0\n"


def test_answers_of_another_process_are_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    answers = AnswerFile.open(path)
    answers.append(Answer("a", "b", is_duplicate=True))
    AnswerFile.open(path).append(Answer("c", "d", is_duplicate=False))
    content = path.read_text()
    with pytest.raises(UsageError, match="another process has changed"):
        answers.remove_last()
    assert path.read_text() == content == "id_a,id_b,label\na,b,1\nc,d,0\n"


@pytest.mark.parametrize("content", ["id,cluster\na,1\n", "a,b,1\n", "id_a,id_b\na,b\n", "\x00\n"])
def test_other_files_are_refused_and_not_changed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(content)
    with pytest.raises(UsageError, match="does not begin with id_a,id_b,label"):
        AnswerFile.open(path)
    assert path.read_text() == content


@pytest.mark.parametrize("id", ["a\rb", "a\nb", "a\r\nb", 'a"\nb', "a\x1b[31m", " a ", ""])
def test_hostile_ids_are_read_again(tmp_path: Path, id: str) -> None:
    answer = Answer(*sorted([id, "z"]), is_duplicate=True)
    AnswerFile.open(tmp_path / "labels.csv").append(answer)
    assert AnswerFile.open(tmp_path / "labels.csv").earlier == [answer]


def test_many_ids_with_line_feeds_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    long_id = "\n".join(["line"] * 1000)
    rows = [f'"{long_id}{number}",b,1\n' for number in range(400)]
    path.write_text("id_a,id_b,label\n" + "".join(rows))
    assert len(read_golden_set(path).ids) == 401


@pytest.mark.parametrize("header", ["id_a,id_b,label", "id_a,id_b,label\n", "id_a,id_b,label\r\n"])
def test_file_without_answers_is_continued(tmp_path: Path, header: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(header.encode())
    answers = AnswerFile.open(path)
    assert answers.earlier == []
    answers.append(Answer("a", "b", is_duplicate=True))
    assert AnswerFile.open(path).earlier == [Answer("a", "b", is_duplicate=True)]


def test_answer_that_is_not_written_leaves_no_part_of_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "labels.csv"
    answers = AnswerFile.open(path)
    answers.append(Answer("a", "b", is_duplicate=True))
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            answers.append(Answer("a", "c", is_duplicate=True))
    assert path.read_bytes() == before
    answers.append(Answer("a", "c", is_duplicate=False))
    assert len(AnswerFile.open(path).earlier) == 2


def test_paths_that_cannot_be_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        AnswerFile.open(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        AnswerFile.open(tmp_path / "absent" / "labels.csv")
