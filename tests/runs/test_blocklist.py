"""Tests of the commands that change the file of a blocklist."""

import json
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.runtime.outputs import locked

TEXTS = ["the first document that was withdrawn by its author", "and the second one of the two"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two documents, which is the current one."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": text, "name": f"n{i}"} for i, text in enumerate(TEXTS)]
    Path("docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("key").write_text("00" * 16)
    return tmp_path


def test_documents_are_added_once_and_removed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for added in (2, 0):
        assert app.run(["block", "add", "docs.jsonl", "--id", "name", "--list", "l", "--json"]) == 0
        output = capsys.readouterr()
        assert json.loads(output.out)["changed"] == added
        assert "not keyed" in output.err
    assert nk.Blocklist.open("l").ids == ("n0", "n1")
    assert app.run(["block", "remove", "--entry", "n1", "--list", "l"]) == 0
    assert "1 entry removed" in capsys.readouterr().out
    assert app.run(["block", "remove", "docs.jsonl", "--list", "l"]) == 0
    assert len(nk.Blocklist.open("l")) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["docs.jsonl", "key", "l"]


@pytest.mark.usefixtures("folder")
def test_info_shows_the_spec_and_the_names_of_entries(capsys: pytest.CaptureFixture[str]) -> None:
    app.run(
        ["block", "add", "docs.jsonl", "--list", "l", "--key-file", "key", "--shingle", "words:2"]
    )
    capsys.readouterr()
    assert app.run(["block", "info", "l", "--json", "--entries"]) == 0
    facts = json.loads(capsys.readouterr().out)
    opened = nk.Blocklist.open("l")
    assert facts["entries"] == 2
    assert facts["shingle_hashes"] == opened.shingles
    assert facts["names"] == list(opened.ids)
    assert facts["key_id"] == nk.HashKey(bytes(16)).id
    assert facts["spec"]["n"] == 2
    assert app.run(["block", "info", "l", "--entries"]) == 0
    assert opened.ids[0] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "docs.jsonl", "--list", "docs.jsonl"], "is an input; choose another --list"),
        (["add", "key", "--list", "docs.jsonl"], "docs.jsonl is not a blocklist"),
        (["add", "docs.jsonl", "--list", "no/l"], "no such folder"),
        (["add", "docs.jsonl", "--list", "l", "--vector", "name"], "holds vectors"),
        (["add", "docs.jsonl", "--list", "l", "--text", "body"], "body"),
        (["add", "docs.jsonl", "--list", "keyed"], "pass the key"),
        (
            ["add", "docs.jsonl", "--list", "keyed", "--key-file", "key", "--k", "64"],
            "k is 128",
        ),
        (["remove", "docs.jsonl", "--list", "absent"], "no such blocklist"),
        (["remove", "--list", "keyed"], "nothing to remove"),
        (["remove", "--entry", "x", "--list", "keyed"], "no entry 'x'"),
    ],
)
def test_requests_that_are_not_valid_change_nothing(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app.run(["block", "add", "docs.jsonl", "--list", "keyed", "--key-file", "key"])
    Path("key").write_text("00" * 16)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    assert app.run(["block", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.usefixtures("folder")
def test_two_changes_at_a_time_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with locked(Path("l"), "another command"):
        assert app.run(["block", "add", "docs.jsonl", "--list", "l"]) == 2
    assert "another" in capsys.readouterr().err
    assert not Path("l").exists()


@pytest.mark.usefixtures("folder")
def test_rejected_rows_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with Path("docs.jsonl").open("a") as file:
        file.write('{"text": null}\n')
    assert app.run(["block", "add", "docs.jsonl", "--list", "l"]) == 0
    assert "because they were rejected: 1 row;" in capsys.readouterr().err
    assert app.run(["block", "add", "docs.jsonl", "--list", "m", "--on-error", "fail"]) != 0
    assert not Path("m").exists()
