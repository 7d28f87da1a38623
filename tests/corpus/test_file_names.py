"""Tests of the names of inputs in outputs, records and messages."""

import json
import os
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from nearkin.cli import app
from nearkin.errors import UsageError
from tests.corpus.samples import ActAtStage, kept_texts, lines_of, names_of, run_dedup_on, words_of


def test_password_of_an_input_is_not_recorded(tmp_path: Path) -> None:
    """The run can be resumed, but its output cannot be an input, and the error gives the reason."""
    url = "memory://user:hunter2@bucket/data/b.jsonl"
    with fsspec.open(url, "w") as file:
        file.write(lines_of(2) * 2 + "broken")
    with fsspec.open("memory://user:hunter2@bucket/data/_hidden.jsonl", "w") as file:
        file.write(lines_of(2))
    (tmp_path / "a.jsonl").write_text(lines_of(1))
    inputs = [str(tmp_path / "a.jsonl"), "memory://user:hunter2@bucket/data"]
    out = tmp_path / "out"

    def everything() -> bytes:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return b"".join(str(path).encode() + path.read_bytes() for path in files)

    def interrupt() -> None:
        assert b"user:***@bucket" in everything()
        assert b"hunter2" not in everything()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_dedup_on(inputs, out, ActAtStage("collapse", interrupt), save_signatures=True)
    summary = run_dedup_on(inputs, out, resume=True, save_signatures=True)
    assert "memory://user:***@bucket/data/b.jsonl" in [entry["path"] for entry in summary["inputs"]]
    assert "hunter2" not in json.dumps(summary)
    assert b"hunter2" not in everything()
    assert (
        run_dedup_on(inputs, out, resume=True, save_signatures=True)["counts"] == summary["counts"]
    )
    with pytest.raises(UsageError, match="was given with a password, which is not recorded"):
        run_dedup_on([str(out)], tmp_path / "again")


def test_names_of_urls_do_not_lead_out_of_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["/jail/../../up.jsonl", "/jail/__/__/up.jsonl", "/jail/x//y.jsonl", "/jail/x/y.jsonl"]
    monkeypatch.setattr(MemoryFileSystem, "isdir", lambda *_: True)
    monkeypatch.setattr(MemoryFileSystem, "find", lambda *_: keys)
    names = names_of("memory://jail", hidden=True)
    assert names == ["__/__/up-2.jsonl", "__/__/up.jsonl", "x/y-2.jsonl", "x/y.jsonl"]


def test_names_that_differ_by_case_or_normalization_have_separate_copies(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    given = ("A.jsonl", "a.jsonl", "caf\u00e9.jsonl", "cafe\u0301.jsonl", "a-2.jsonl")
    for number, name in enumerate(given):
        (folder / name).write_text(lines_of(number))
    run_dedup_on([str(folder)], tmp_path / "out")
    copies = sorted(path.name for path in (tmp_path / "out" / "kept").iterdir())
    assert len({os.fsencode(name.lower()) for name in copies}) == len(given)
    assert kept_texts(tmp_path / "out") == sorted(words_of(i) for i in range(len(given)))


def test_name_that_is_not_utf8_is_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = os.fsencode(folder) + b"/caf\xe9.jsonl"
    with open(path, "w") as file:  # noqa: PTH123 (a name in bytes)
        file.write(lines_of(1, 1, 2) + "no json\n")
    summary = run_dedup_on([os.fsdecode(path)], tmp_path / "out")
    assert summary["counts"]["kept"] == 2
    assert kept_texts(tmp_path / "out") == [words_of(1), words_of(2)]
    record = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert os.fsencode(record["inputs"][0]["path"]) == path
    assert (
        json.loads((tmp_path / "out" / "rejected.jsonl").read_bytes())["file"] == "caf\\xe9.jsonl"
    )
    ids = pq.read_table(tmp_path / "out" / "clusters.parquet")["id"].to_pylist()
    assert ids[0] == "caf\\xe9.jsonl:0000000000"
    assert "caf\\xe9" in (tmp_path / "out" / "report.html").read_text("utf-8")


@pytest.mark.parametrize("command", ["dedup", "pairs", "lab sketch"])
def test_output_path_that_is_not_utf8_is_one_error_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text(lines_of(1))
    out = os.fsdecode(os.fsencode(tmp_path) + b"/out\xff")
    assert app.run([*command.split(), str(tmp_path / "a.jsonl"), "--out", out]) == app.USAGE
    assert capsys.readouterr().err.endswith(
        "out\\xff cannot be an output: its path is not UTF-8; choose another --out\n"
    )
