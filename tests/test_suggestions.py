"""Suggestions for misspelt names."""

from pathlib import Path

import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.errors import UsageError
from nearkin.suggestions import did_you_mean
from tests.cli.conftest import run

MISSPELT = [
    (["--text", "boddy"], "body"),
    (["--id", "idd"], "id"),
    (["--measure", "jacard"], "jaccard"),
    (["--scheme", "clasic"], "classic"),
    (["--base-hash", "xxh33"], "xxh3"),
    (["--normalise", "uper,lowr"], "lower"),
    (["--on-error", "quarantene"], "quarantine"),
    (["--verify", "exakt"], "exact"),
    (["--cluster", "componets"], "components"),
    (["--empty", "kepp"], "keep"),
    (["--engine", "sparc"], "spark"),
    (["--readable-by", "everybody"], "everyone"),
    (["--measure", "simhash", "--weights", "tfdf"], "tfidf"),
    (["--keep", "bodi desc"], "body"),
]


@pytest.mark.parametrize(("options", "suggested"), MISSPELT, ids=lambda value: str(value))
def test_misspelt_value_or_column_suggests_the_right_one(
    options: list[str], suggested: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "a", "body": "one two three four five"}\n')
    named = ["--text", "body", *options] if "--text" not in options else options
    assert run("dedup", path, *named, "--out", tmp_path / "out") == app.USAGE
    message = capsys.readouterr().err
    assert f"did you mean {suggested!r}?" in message
    assert message.count("\n") == 1
    assert [one.name for one in tmp_path.iterdir()] == ["docs.jsonl"]


def test_misspelt_relation_suggests_the_right_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"text": "one two three four five"}\n')
    assert run("pairs", path, "--relation", "containmnt", "--out", tmp_path / "p.parquet") == 2
    assert "did you mean 'containment'?" in capsys.readouterr().err


def test_misspelt_column_of_a_table_and_keyword_of_the_library_suggest_the_right_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'text'"):
        nk.dedup([{"id": "a", "text": "one two three"}], text="texd")
    with pytest.raises(UsageError, match="did you mean 'shingle'"):
        nk.dedup(["one two three"], shingel="words:2")  # type: ignore[arg-type]


def test_nothing_is_suggested_for_a_name_that_resembles_none() -> None:
    assert did_you_mean("price", ["id", "body"]) == ""


def test_a_message_lists_some_columns_of_a_wide_table() -> None:
    table = pa.table({f"column{number}": ["text"] for number in range(3000)})
    with pytest.raises(UsageError, match=r"'column19' and 2,980 others\); did you mean") as raised:
        nk.dedup(table, text="colum7")
    assert len(str(raised.value)) < 600
