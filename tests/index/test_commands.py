"""Tests of the commands `nearkin index`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.index.changes import Changes
from tests.index.conftest import (
    corpus,
    store_of,
    words,
)


def test_the_history_is_listed_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    with nk.Index.open(url) as index:
        index.upsert("a", "the cat sat on the mat", "one")

    def lines(*options: str) -> list[dict[str, Any]]:
        assert command(["index", "history", *options, "--store", url]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert command(["index", "history", "--store", url]) == 2
    assert "keeps no history; open it once with the setting --history" in capsys.readouterr().err
    assert lines("--history", "30d") == []
    assert command(["index", "remove", "one", "--scope", "a", "--store", url]) == 0
    with nk.Index.open(url) as index:
        index.upsert("b", "the dog sat on the mat", "two")
    capsys.readouterr()
    first, second = lines()
    assert (first["kind"], first["id"], first["actor"]) == ("erased", "one", "command line")
    assert first["at"].startswith("20")
    assert (second["kind"], second["id"], second["actor"]) == ("inserted", "two", "library")
    assert lines("two") == lines("--scope", "b") == lines("--after", first["cursor"]) == [second]
    assert lines("none") == []
    for name in ("changes.parquet", "changes.jsonl", "changes.csv"):
        assert lines("--out", str(tmp_path / name)) == []
    table = pq.read_table(tmp_path / "changes.parquet")
    assert table.column("id").to_pylist() == ["one", "two"]
    assert str(table.schema.field("at").type) == "timestamp[us, tz=UTC]"
    written = (tmp_path / "changes.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == [first, second]
    assert (
        command(["index", "history", "--out", str(tmp_path / "changes.csv"), "--store", url]) == 2
    )
    assert "exists" in capsys.readouterr().err
    assert lines("--history", "0s") == []
    assert command(["index", "history", "--store", url]) == 2


def test_the_commands_of_an_index_work_on_one_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = corpus(60)
    rows = [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)]
    (tmp_path / "docs.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows[:50]) + "broken\n"
    )
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[45:]))
    url = f"sqlite:///{tmp_path}/kin.db"

    def result_of(*line: str, code: int = 0) -> dict:
        assert command(["index", *line, "--json"]) == code
        out = capsys.readouterr().out
        return json.loads(out) if out else {}

    built = result_of(
        "build", str(tmp_path / "docs.jsonl"), "--id", "id", "--store", url, "--threshold", "0.7"
    )
    assert (built["documents"], built["rejected"]) == (50, 1)
    added = result_of("add", str(tmp_path / "more.jsonl"), "--id", "id", "--store", url)
    assert added["documents"] == 15
    assert added["records"] == 60
    assert sum(added.get(kind, 0) for kind in ("exact", "resolved")) == 5
    (tmp_path / "page.txt").write_text(texts[3] + " and more")
    matches = result_of("query", str(tmp_path / "page.txt"), "--store", url)["matches"]
    assert matches[0]["similarity"] >= 0.7
    assert result_of("query", str(tmp_path / "page.txt"), "--store", url, "--scope", "other") == {
        "matches": []
    }
    assert result_of("info", "--store", url)["records"] == 60
    assert result_of("remove", "d3", "none", "--store", url) == {"removed": 1, "not_there": 1}
    (tmp_path / "ids.txt").write_text("d4\nnone\nd4\n")
    ids = ("--ids-file", str(tmp_path / "ids.txt"))
    assert result_of("remove", *ids, "--store", url) == {"removed": 1, "not_there": 1}
    for line in ((), ("d5", "--all"), ("d5", *ids)):
        assert command(["index", "remove", *line, "--store", url]) == 2
        assert "give ids, a file of them" in capsys.readouterr().err
    assert command(["index", "remove", "--all", "--store", url]) == 2
    assert "--all deletes a whole scope; name it" in capsys.readouterr().err
    assert command(["index", "remove", "--ids-file", str(tmp_path / "d5"), "--store", url]) == 2
    assert "cannot read" in capsys.readouterr().err
    (tmp_path / "ids.txt").write_bytes(b"\xef\xbb\xbfd5\r\n\r\nd6\r\n")
    assert result_of("remove", *ids, "--store", url) == {"removed": 2, "not_there": 0}
    (tmp_path / "ids.csv").write_text("name,id\nx,d5\ny,d7\n")
    ids = ("--ids-file", str(tmp_path / "ids.csv"))
    assert result_of("remove", *ids, "--store", url) == {"removed": 1, "not_there": 1}
    nowhere = result_of("remove", "--all", "--scope", "other", "--store", url)
    assert nowhere == {"removed": 0, "not_there": 0}
    assert result_of("check", "--store", url)["sound"] is True
    assert result_of("compact", "--store", url)["moved"] >= 0
    assert result_of("expire", "--store", url, "--record-ttl", "1d") == {
        "postings": 0,
        "records": 0,
    }
    assert (
        result_of("export", "--store", url, "--out", str(tmp_path / "out.parquet"))["documents"]
        == 55
    )
    rebuilt = result_of(
        "rebuild",
        "--store",
        url,
        "--to",
        f"sqlite:///{tmp_path}/next.db",
        "--shingle",
        "chars:5",
        "--threshold",
        "0.6",
    )
    assert rebuilt["documents"] == 55
    assert rebuilt["spec_before"] != rebuilt["spec_after"]
    assert result_of("check", "--store", f"sqlite:///{tmp_path}/next.db")["sound"] is True
    for line in (
        ["query", str(tmp_path / "no.txt"), "--store", url],
        ["info", "--store", "ftp://x"],
        ["info", "--store", "sqlite://"],
    ):
        result_of(*line, code=2)
    assert command(["index", "info", "--store", f"sqlite:///{tmp_path}/kin.db"]) == 0
    assert "records: 55" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        ["info", "--store", "redis://127.0.0.1:abc/0"],
        ["check", "--store", "sqlite:///none.db"],
        ["export", "--store", "sqlite:///none.db", "--out", "x.parquet"],
        ["query", "none.txt", "--store", "sqlite:///none.db"],
    ],
)
def test_commands_do_not_create_a_missing_store(
    line: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(["index", *line]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_check_exits_with_1_for_a_damaged_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert("a", "one two three four five six", "x")
        entry = index.get("a", "x")
        assert entry is not None
        store_of(index).apply(Changes(changed=[entry._replace(leader="gone")]))
    assert command(["index", "check", "--store", url]) == 1
    assert "its representative does not exist" in capsys.readouterr().out


def test_query_with_members_prints_similar_members(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    text = " ".join(f"w{number}" for number in range(40))
    with nk.Index.open(url) as index:
        index.upsert("default", text, "one")
        index.upsert("default", f"{text} more", "two")
    path = tmp_path / "page.txt"
    path.write_text(f"{text} more")
    assert command(["index", "query", str(path), "--store", url]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["one"]
    assert command(["index", "query", str(path), "--store", url, "--members"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["two", "one"]


@pytest.mark.parametrize(("combine", "rejected"), [("either", 3), ("both", 5)])
def test_rows_without_a_text_and_a_vector_are_counted_once(
    combine: str, rejected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "docs.jsonl"
    lines = [
        '{"t": "one two three four", "v": [1, 2, 3]}',
        '{"broken',
        '{"t": null, "v": [3, 2, 1]}',
        '{"t": null, "v": "no vector"}',
        '{"t": "five six seven eight", "v": null}',
        '{"t": null, "v": null}',
    ]
    path.write_text("\n".join(lines))
    line = ["index", "build", str(path), "--text", "t", "--vector", "v", "--combine", combine]
    assert command([*line, "--store", f"sqlite:///{tmp_path}/kin.db", "--json"]) == 0
    built = json.loads(capsys.readouterr().out)
    assert (built["documents"], built["rejected"]) == (len(lines) - rejected, rejected)


def test_rows_with_one_invalid_value_are_counted_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "docs.jsonl"
    lines = [
        '{"t": "one two three four", "v": [1, 2, 3]}',
        '{"t": "five six seven eight", "v": [1, 2]}',
        '{"t": "nine ten eleven twelve", "v": null}',
        '{"t": "a b c d", "v": "no vector"}',
        '{"t": 7, "v": [3, 2, 1]}',
        '{"broken',
    ]
    path.write_text("\n".join(lines))
    line = ["index", "build", str(path), "--text", "t", "--vector", "v"]
    assert command([*line, "--store", f"sqlite:///{tmp_path}/kin.db", "--json"]) == 0
    printed = capsys.readouterr()
    built = json.loads(printed.out)
    assert (built["documents"], built["partial"], built["rejected"]) == (5, 3, 1)
    assert "3 documents have a text or a vector that is not valid, and were stored" in printed.err
    strict = [*line, "--combine", "both", "--store", f"sqlite:///{tmp_path}/both.db", "--json"]
    assert command(strict) == 0
    built = json.loads(capsys.readouterr().out)
    assert (built["documents"], built["rejected"]) == (1, 5)
    assert "partial" not in built


def test_query_takes_a_text_and_a_vector(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "a", "t": "one two three four", "v": [1, 2, 3]}')
    url = f"sqlite:///{tmp_path}/both.db"
    build = ["index", "build", str(path), "--id", "id", "--text", "t", "--vector", "v"]
    assert command([*build, "--combine", "both", "--store", url]) == 0
    text = tmp_path / "text.txt"
    text.write_text("one two three four")
    vector = tmp_path / "vector.json"
    vector.write_text("[1, 2, 3.5]")
    capsys.readouterr()
    assert command(["index", "query", str(text), "--vector", str(vector), "--store", url]) == 0
    assert capsys.readouterr().out.split()[1] == "a"
    assert command(["index", "query", str(text), "--store", url]) == 2
    assert "a document has no vector; give both" in capsys.readouterr().err
    assert command(["index", "query", "--store", url]) == 2
    assert "give a text file, or --vector FILE" in capsys.readouterr().err
    vector.write_text('{"x": 1}')
    assert command(["index", "query", "--vector", str(vector), "--store", url]) == 2
    assert "is not a list of numbers; give a file with a JSON list" in capsys.readouterr().err


def test_query_of_vectors_takes_a_vector_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "a", "v": [1, 2, 3]}')
    url = f"sqlite:///{tmp_path}/vectors.db"
    assert (
        command(["index", "build", str(path), "--id", "id", "--vector", "v", "--store", url]) == 0
    )
    vector = tmp_path / "vector.json"
    vector.write_text("[2, 4, 6]")
    capsys.readouterr()
    assert command(["index", "query", "--vector", str(vector), "--store", url]) == 0
    assert capsys.readouterr().out.split()[1] == "a"


def test_the_commands_read_columns_of_texts_and_of_vectors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    texts = [" ".join(words(rng)) for _ in range(4)]
    vectors = [rng.standard_normal(8).tolist() for _ in range(4)]
    rows = [
        {"id": "one", "text": texts[0], "v": vectors[0]},
        {"id": "same text", "text": texts[0], "v": vectors[1]},
        {"id": "same vector", "text": texts[2], "v": vectors[0]},
        {"id": "no vector", "text": texts[0], "v": None},
        {"id": "no text", "text": None, "v": vectors[0]},
        {"id": "nothing", "text": None, "v": None},
        {"id": "other", "text": texts[3], "v": vectors[3]},
    ]
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = ("--text", "text", "--vector", "v", "--id", "id")
    url = f"sqlite:///{tmp_path}/either.db"

    def run_json(*line: str) -> dict[str, Any]:
        assert command(["index", *line, "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    built = run_json(
        *("build", str(path), *columns, "--store", url),
        *("--threshold", "0.7", "--vector-threshold", "0.9"),
    )
    assert {name: built[name] for name in ("documents", "new", "match", "rejected")} == {
        "documents": 6,
        "new": 2,
        "match": 4,
        "rejected": 1,
    }
    facts = run_json("info", "--store", url)
    assert (facts["combine"], facts["vector_threshold"], facts["records"]) == ("either", 0.9, 6)
    again = run_json("add", str(path), *columns, "--store", url)
    assert (again["exact"], again["resolved"], again["records"]) == (2, 4, 6)
    (tmp_path / "page.txt").write_text(texts[0])
    (match,) = run_json("query", str(tmp_path / "page.txt"), "--store", url)["matches"]
    assert match["evidence"] == {
        "text": 1.0,
        "vector": None,
        "text_reached": True,
        "vector_reached": False,
    }
    assert run_json("check", "--store", url)["sound"] is True
    both = f"sqlite:///{tmp_path}/both.db"
    built = run_json("build", str(path), *columns, "--store", both, "--combine", "both")
    assert (built["documents"], built["new"], built["rejected"]) == (4, 4, 3)
    assert run_json("query", str(tmp_path / "page.txt"), "--store", url)["matches"] == [match]


def test_the_commands_refuse_columns_that_do_not_go_with_the_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text(json.dumps({"text": "one two three four", "v": [1.0, 2.0]}) + "\n")
    url = f"sqlite:///{tmp_path}/texts.db"
    line = ["index", "build", str(path), "--store", url]
    assert command([*line, "--combine", "both"]) == 2
    assert "--vector-threshold and --combine are for" in capsys.readouterr().err
    assert command(line) == 0
    assert command(["index", "add", str(path), "--text", "text", "--vector", "v", "--store", url])
    assert "are texts; name one column, not both" in capsys.readouterr().err.replace("\n", " ")
