"""Suggestions for misspelt names."""

from pathlib import Path

import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.errors import UsageError
from nearkin.runtime.suggestions import did_you_mean, require_choice
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
    (["--executor", "sparc"], "spark"),
    (["--readable-by", "everybody"], "everyone"),
    (["--measure", "simhash", "--weights", "tfdf"], "tfidf"),
    (["--keep", "bodi desc"], "body"),
    (["--keep", "lenght desc"], "length"),
    (["--keep", "most-complet"], "most-complete"),
    (["--color", "nevr"], "never"),
    (["--hash-inputs", "sampeld"], "sampled"),
    (["--document-weights", "sqr"], "sqrt"),
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
    with pytest.raises(UsageError, match=r"`keep` has the criteria length, most-complete, cent"):
        nk.dedup([{"text": "one two three"}], keep="longst")
    with pytest.raises(UsageError, match="did you mean 'central'"):
        nk.dedup([{"text": "one two three"}], keep="centrall")
    with pytest.raises(UsageError, match="did you mean 'shingle'"):
        nk.dedup(["one two three"], shingel="words:2")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("price", ["id", "body"]),
        ("text", ["id", "street", "city"]),
        ("out", ["fanout", "recall"]),
        ("--verbose", ["--rows", "--version", "--overwrite"]),
        ("--text", ["--store", "--scope"]),
        ("--from", ["--to", "--store"]),
        ("", ["id"]),
        ("id", []),
        ("od", ["id"]),
    ],
)
def test_nothing_is_suggested_for_a_name_that_resembles_none(name: str, valid: list[str]) -> None:
    assert did_you_mean(name, valid) == ""


def test_closest_name_is_suggested_whatever_its_case_and_hyphens() -> None:
    assert did_you_mean("TEXT", ["test", "text"]) == "; did you mean 'text'?"
    assert did_you_mean("-treshold", ["--tables", "--threshold"]) == "; did you mean '--threshold'?"


def test_column_that_resembles_none_is_answered_by_a_list_of_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id,street,city\n1,Elm 3,Rome\n")
    assert run("dedup", path, "--out", tmp_path / "out") == app.USAGE
    message = capsys.readouterr().err
    assert "no column 'text' (it has 'id', 'street', 'city'); choose one with --text" in message


@pytest.mark.parametrize("line", [[], ["index"], ["lab"], ["server", "token"], ["--no-config"]])
def test_missing_command_is_named(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*line) == app.USAGE
    path = " ".join(["nearkin", *(word for word in line if not word.startswith("-"))])
    assert capsys.readouterr().err == f"nearkin: missing command; see {path} --help\n"


def test_a_message_lists_some_columns_of_a_wide_table() -> None:
    table = pa.table({f"column{number}": ["text"] for number in range(3000)})
    with pytest.raises(UsageError, match=r"'column19' and 2,980 others\); did you mean") as raised:
        nk.dedup(table, text="colum7")
    assert len(str(raised.value)) < 600


COMMANDS = [
    (["index", "info", "--store", "redis://db/0?prefx=kin"], "prefix"),
    (["index", "info", "--store", "sqlight:///kin.db"], "sqlite"),
    (["index", "info", "--store", "postgresql://db/kin?shema=kin"], "schema"),
    (["index", "build", "DOCS", "--store", "sqlite:///kin.db?synchronus=full"], "synchronous"),
    (["index", "build", "DOCS", "--store", "sqlite:///kin.db?synchronous=norml"], "normal"),
    (["stream", "redis://db/0?steam=documents", "--store", "memory://"], "stream"),
    (["stream", "redis://db/0?stream=documents&daed=x", "--store", "memory://"], "dead"),
    (["stream", "reds://db/0?stream=documents", "--store", "memory://"], "redis"),
    (["eval", "DOCS", "--golden", "LABELS", "--grid", "treshold=0.7"], "threshold"),
    (["shadow", "run", "--against", "treshold=0.7"], "threshold"),
    (["plan", "--docs", "1M", "--engine", "index", "--store", "sqlte"], "sqlite"),
    (["plan", "--docs", "1M", "--engine", "indx"], "index"),
    (["lab", "synth", "--out", "out", "--format", "parket"], "parquet"),
    (["lab", "synth", "--out", "out", "--edits", "subsitute=1"], "substitute"),
    (["lab", "band"], "bands"),
]


@pytest.mark.parametrize(
    ("line", "suggested"), COMMANDS, ids=[" ".join(line) for line, _ in COMMANDS]
)
def test_misspelt_name_in_a_url_a_grid_or_a_list_suggests_the_right_one(
    line: list[str],
    suggested: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.jsonl").write_text('{"text": "one two three four five"}\n')
    (tmp_path / "labels.csv").write_text("id_a,id_b,label\na,b,1\n")
    files = {"DOCS": "docs.jsonl", "LABELS": "labels.csv"}
    assert run(*(files.get(word, word) for word in line)) == app.USAGE
    message = capsys.readouterr().err
    assert f"did you mean {suggested!r}?" in message
    assert message.count("\n") == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["docs.jsonl", "labels.csv"]


def test_store_without_options_names_the_unknown_one() -> None:
    with pytest.raises(UsageError, match="unknown option 'bound' of memory://; it has no options"):
        nk.Index.open("memory://?bound=3")


@pytest.mark.parametrize("name", ["id", "text", "quiet"])
def test_grid_refuses_names_that_are_not_settings_of_a_run(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("id_a,id_b,label\na,b,1\n")
    assert run("eval", labels, "--golden", labels, "--grid", f"{name}=x") == app.USAGE
    message = capsys.readouterr().err
    assert f"unknown setting {name!r} of the grid; " in message
    assert "; valid settings are accept, " in message


def test_a_value_that_a_setting_does_not_have_is_refused_with_those_that_it_has() -> None:
    require_choice("verify", "exact", ("exact", "none"))
    with pytest.raises(
        UsageError, match=r"^verify='exakt' is not one of exact, none; did you mean"
    ):
        require_choice("verify", "exakt", ("exact", "none"))
