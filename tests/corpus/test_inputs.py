"""Tests of the search for inputs, and of the paths that it skips."""

import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.inputs import Selection, _InputSearch, find_inputs
from nearkin.errors import UsageError
from nearkin.runs.resolved_run import resolve_inputs
from nearkin.runtime.progress import Silent
from tests.corpus.samples import kept_texts, lines_of, names_of, run_dedup_on, words_of


def test_missing_inputs_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for given, message in (
        ("nowhere", "no such file"),
        ("*.nope", "no files match"),
        ("empty", "no files in the folder"),
    ):
        with pytest.raises(UsageError, match=message):
            FileCorpus.open([str(tmp_path / given)])
    with pytest.raises(UsageError, match="bogus"):
        FileCorpus.open(["bogus://bucket/key"])


def test_order_and_names_do_not_depend_on_how_inputs_are_given(tmp_path: Path) -> None:
    for name in ("b/1.jsonl", "a/2.jsonl", "a/10.jsonl", "é.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"text": "x"}\n')
    names = ["a/10.jsonl", "a/2.jsonl", "b/1.jsonl", "é.jsonl"]
    each = [str(tmp_path / name) for name in reversed(names)]
    for given in ([str(tmp_path)], each, [f"{tmp_path}/**/*.jsonl"], [f"file://{tmp_path}", *each]):
        assert FileCorpus.open(given).names == names


def test_two_spellings_of_a_path_are_one_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.jsonl").write_text(lines_of(1, 2, 3, 4, 5))
    monkeypatch.chdir(tmp_path)
    summary = run_dedup_on(
        ["a.jsonl", "sub/../a.jsonl", ".//a.jsonl", f"file://{tmp_path}/./a.jsonl"],
        tmp_path / "out",
    )
    assert summary["counts"]["read"] == summary["counts"]["kept"] == 5
    assert kept_texts(tmp_path / "out") == [words_of(i) for i in range(1, 6)]
    assert [entry["path"] for entry in summary["inputs"]] == [str(tmp_path / "a.jsonl")]


def test_parent_of_a_link_is_resolved_as_the_system_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "far" / "a.jsonl").write_text(lines_of(1))
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    monkeypatch.chdir(tmp_path)
    assert [file.path for file in find_inputs(["link/../a.jsonl"]).files] == [
        str(tmp_path / "far" / "a.jsonl")
    ]


def test_skipped_paths_are_listed_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "_old").mkdir(parents=True)
    (tmp_path / "far").mkdir()
    for path in (
        folder / "a.jsonl",
        folder / ".b.jsonl",
        folder / "_old" / "c.jsonl",
        tmp_path / "far" / "d.jsonl",
    ):
        path.write_text(lines_of(len(str(path))))
    (folder / "link").symlink_to(tmp_path / "far")
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    os.mkfifo(folder / "pipe")
    summary = run_dedup_on([str(folder)], tmp_path / "out")
    reasons = {Path(entry["path"]).name: entry["reason"] for entry in summary["skipped"]["first"]}
    assert reasons.keys() == {".b.jsonl", "_old", "link", "gone", "pipe"}
    assert "hidden=True" in reasons[".b.jsonl"]
    assert "hidden=True" in reasons["_old"]
    assert "follow_links=True" in reasons["link"]
    assert summary["skipped"]["count"] == 5
    warnings = "\n".join(summary["warnings"])
    assert "hidden=True" in warnings
    assert "follow_links=True" in warnings
    assert names_of(folder, hidden=True, follow_links=True) == [
        ".b.jsonl",
        "_old/c.jsonl",
        "a.jsonl",
        "link/d.jsonl",
    ]


@pytest.mark.parametrize("command", ["pairs", "lab sketch"])
def test_commands_over_files_warn_of_skipped_paths(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    (folder / ".hidden").mkdir(parents=True)
    (folder / "a.jsonl").write_text(lines_of(1, 2))
    assert app.run([*command.split(), str(folder), "--out", str(tmp_path / "out")]) == 0
    assert "warning: skipped" in capsys.readouterr().err
    assert app.run([*command.split(), str(folder), "--hidden", "--out", str(tmp_path / "all")]) == 0
    assert "warning: skipped" not in capsys.readouterr().err


def test_index_commands_warn_of_skipped_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    (folder / ".hidden").mkdir(parents=True)
    (folder / "a.jsonl").write_text(lines_of(1, 2))
    store = f"sqlite:///{tmp_path}/kin.db"
    assert app.run(["index", "build", str(folder), "--store", store]) == 0
    assert "warning: skipped" in capsys.readouterr().err
    (folder / "a.jsonl").write_text("no json\n")
    assert app.run(["index", "add", str(folder), "--store", store]) == 3
    assert "no document could be read" in capsys.readouterr().err


def skipped_in(*inputs: str | Path, **selection: bool) -> dict[str, str]:
    return {
        Path(path).name: reason
        for path, reason in find_inputs(list(map(str, inputs)), Selection(**selection)).skipped
    }


def test_loop_of_links_is_followed_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jsonl").write_text(lines_of(1))
    (tmp_path / "sub" / "back").symlink_to(tmp_path)
    assert names_of(tmp_path, follow_links=True) == ["a.jsonl"]
    assert "already" in skipped_in(tmp_path, follow_links=True)["back"]
    assert names_of(f"{tmp_path}/**/*.jsonl") == ["a.jsonl"]


def test_folder_that_cannot_be_listed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.jsonl").write_text(lines_of(1))
    listed = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert names_of(tmp_path) == ["a.jsonl"]
    assert "Permission denied" in skipped_in(tmp_path)["closed"]
    with pytest.raises(UsageError, match=r"cannot list .*closed: Permission denied"):
        find_inputs([str(tmp_path / "closed")])


def test_folder_that_a_pattern_matches_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.jsonl").write_text(lines_of(1))
    assert "without a pattern" in skipped_in(f"{tmp_path}/*")["sub"]


def test_outputs_inside_an_input_folder_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines_of(1))
    for name, mark in (("out", ".nearkin-output.json"), ("out.partial", ".nearkin-lock")):
        (tmp_path / name / "kept").mkdir(parents=True)
        (tmp_path / name / mark).write_text("{}")
        (tmp_path / name / "kept" / "a.jsonl").write_text(lines_of(1))
    assert names_of(tmp_path) == ["a.jsonl"]
    assert set(skipped_in(tmp_path)) == {"out", "out.partial"}
    assert names_of(tmp_path / "out" / "kept") == ["a.jsonl"]
    with pytest.raises(UsageError, match="output of a nearkin run"):
        find_inputs([str(tmp_path / "out"), str(tmp_path / "a.jsonl")])


def test_pipe_is_not_a_valid_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        find_inputs([str(tmp_path / "pipe")])


def test_listing_of_remote_files_is_a_stage_of_progress() -> None:
    stages: list[str] = []

    class Looking(Silent):
        def stage(self, name: str, total: int | None = None) -> None:
            stages.append(name)

    with fsspec.open("memory://listed/a.jsonl", "w") as file:
        file.write(lines_of(1))
    resolve_inputs(("memory://listed/a.jsonl",), Columns(), {}, Path("out"), Looking())
    assert stages == ["list inputs"]


def test_parameters_of_a_url_are_not_part_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_InputSearch, "expand", lambda _, given: [given])
    first = "https://host/in/a.jsonl.gz?X-Sign=dir/x.y&Expires=1"
    second = "https://host/in/b.csv?v=2"
    files = find_inputs([second, first]).files
    assert [(file.path, file.name, file.suffix) for file in files] == [
        (first, "a.jsonl.gz", ".jsonl"),
        (second, "b.csv", ".csv"),
    ]
