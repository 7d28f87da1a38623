"""Tests of the fields of JSON files: missing, misspelt, late and empty ones."""

import json
from pathlib import Path

import pytest

from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus
from nearkin.errors import UsageError
from tests.corpus.samples import run_command


def sparse(path: Path, rows: int, at: int) -> Path:
    """Writes objects of which only one, late in the file, has the field `quality`."""
    lines = [
        json.dumps({"text": f"t{i}", **({"quality": 1} if i == at else {})}) for i in range(rows)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "option",
    [
        ("--keep", "qualty desc"),
        ("--block-by", "qualty"),
        ("--source", "qualty"),
        ("--split", "qualty"),
    ],
)
def test_misspelt_field_is_an_error(
    option: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sparse(tmp_path / "a.jsonl", 5, 3)
    assert run_command("dedup", path, *option, "--out", tmp_path / "out") == app.USAGE
    assert (
        "no object of the inputs has the field 'qualty' (they have 'text', 'quality')"
        in capsys.readouterr().err
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_field_of_a_late_object_is_valid(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a.jsonl", 3000, 2999)
    FileCorpus.open([str(path)]).check(Columns(carried_columns=("quality",)))
    with pytest.raises(UsageError, match="has the field 'qualty'"):
        FileCorpus.open([str(path)]).check(Columns(carried_columns=("qualty",)))


def test_field_can_be_missing_in_the_first_object(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"other": 1}\n{"text": "a"}\n')
    FileCorpus.open([str(tmp_path / "a.jsonl")]).check(Columns())


def test_column_without_any_value_causes_a_warning(tmp_path: Path) -> None:
    # long texts, because short ones cause a warning of their own
    texts = [" ".join(f"{letter}{number}" for number in range(100)) for letter in "ab"]
    lines = [json.dumps({"text": text, "quality": None}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert (
        run_command(
            "dedup", tmp_path / "a.jsonl", "--keep", "quality desc", "--out", tmp_path / "out"
        )
        == 0
    )
    warnings = json.loads((tmp_path / "out" / "run.json").read_bytes())["warnings"]
    assert warnings == [
        "no document has a value in column 'quality', which the settings refer to; check its name"
    ]
