"""Tests of the file of answers."""

from pathlib import Path

import pytest

from nearkin.errors import UsageError
from nearkin.evaluate.golden import read_golden_set
from nearkin.fit.answer_file import Answer, AnswerFile


def test_each_answer_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
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


@pytest.mark.parametrize("content", ["id,cluster\na,1\n", "a,b,1\n", "id_a,id_b\na,b\n", "\x00\n"])
def test_other_files_are_refused_and_not_changed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(content)
    with pytest.raises(UsageError, match="does not begin with id_a,id_b,label"):
        AnswerFile.open(path)
    assert path.read_text() == content
