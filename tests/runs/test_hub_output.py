"""Tests of outputs in repositories of the Hugging Face Hub, over a local server of its API."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearkin.errors import UsageError
from nearkin.runs.hub_output import HubOutput
from nearkin.runtime.outputs import MARKER
from tests.cli.conftest import run
from tests.hub_server import TOKEN, Hub, Repository, point_to, serve_hub

REPOSITORY = "hf://datasets/kin/clean"
TEXT = "the council approved the new budget on tuesday evening after a long debate"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub with a dataset of three documents, and a token that may write."""
    rows = [{"id": "a", "text": TEXT}, {"id": "b", "text": TEXT}, {"id": "c", "text": "a dog ran"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    with serve_hub() as served:
        point_to(served.address, monkeypatch, tmp_path / "home")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.chdir(tmp_path)
        served.add("kin/news", {"news.jsonl": lines.encode()})
        yield served


def dedup(*options: object, out: str = REPOSITORY) -> int:
    return run("dedup", "hf://datasets/kin/news", "--id", "id", "--out", out, *options)


def uploaded(hub: Hub) -> Repository:
    return hub.repositories["kin/clean"]


def test_an_output_is_uploaded_in_one_commit_with_a_card(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dedup() == 0
    repository = uploaded(hub)
    assert repository.private
    assert len(repository.commits) == 2, "the empty repository and the upload"
    folder = tmp_path / "clean"
    local = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    assert repository.files.keys() == {*local, "README.md", ".gitattributes"}
    assert all(repository.files[name] == path.read_bytes() for name, path in local.items())
    assert b'data_files: "kept/**"' in repository.files["README.md"]
    assert b"| Kept | 2 (66.7%) |" in repository.files["README.md"]
    commit = hub.repositories["kin/news"].branches["main"]
    [input_record] = json.loads((folder / "run.json").read_text())["inputs"]
    assert input_record["path"] == f"hf://datasets/kin/news@{commit}/news.jsonl"
    assert f"`hf://datasets/kin/news@{commit}`".encode() in repository.files["README.md"]
    printed = capsys.readouterr()
    assert f"commit {repository.branches['main']}" in printed.err
    assert TOKEN not in printed.err + printed.out
    assert not any(TOKEN.encode() in content for content in repository.files.values())
    # What was uploaded is a dataset for the next run.
    assert run("dedup", REPOSITORY, "--id", "id", "--out", "again") == 0
    assert json.loads(Path("again/run.json").read_text())["counts"]["read"] == 2


def test_one_file_and_a_folder_are_uploaded_beside_other_files(hub: Hub) -> None:
    before = hub.add("kin/clean", {"README.md": b"# Mine\n", "data/x.bin": b"0"}).files
    assert run("pairs", "hf://datasets/kin/news", "--out", f"{REPOSITORY}/pairs.csv", "-q") == 0
    assert dedup(out=f"{REPOSITORY}/deduped") == 0
    files = uploaded(hub).files
    assert files["pairs.csv"].startswith(b"id_a,id_b,")
    assert files["README.md"].startswith(b"# Mine\n\n<!-- nearkin card: begin -->")
    assert files["data/x.bin"] == before["data/x.bin"]
    assert f"deduped/{MARKER}" in files


def test_overwrite_replaces_an_earlier_output_and_nothing_else(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dedup("--output", "ids") == 0
    assert "removed.parquet" in uploaded(hub).files
    assert dedup() == 2
    assert "clean" in capsys.readouterr().err
    assert dedup("--overwrite") == 0
    repository = uploaded(hub)
    assert "removed.parquet" not in repository.files
    assert "kept/news.jsonl" in repository.files
    repository.commit({**repository.files, "notes.txt": b"mine"})
    before = repository.files
    assert dedup("--overwrite") == 2
    assert "'notes.txt', which no nearkin run wrote" in capsys.readouterr().err
    assert repository.files == before


def test_a_lost_answer_is_repeated_without_a_second_commit(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add("kin/clean", {".gitattributes": b""})
    hub.loses_next_answer = True
    assert dedup() == 1
    assert "clean is complete, but cannot be uploaded" in capsys.readouterr().err
    commits = len(uploaded(hub).commits)
    assert dedup("--resume") == 0
    assert len(uploaded(hub).commits) == commits


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (f"{REPOSITORY}@dev", "has no branch 'dev'; create it first"),
        (f"{REPOSITORY}/taken", "is not empty: it has 'taken/a.txt'"),
        (f"{REPOSITORY}/taken/a.txt", "is not empty: it has 'taken/a.txt'"),
        (REPOSITORY, "is not empty: it has 'taken/a.txt'"),
        ("hf://kin/model", "write hf://datasets/ORG/NAME"),
        ("hf://datasets/kin/../x", "write hf://datasets/ORG/NAME"),
        ("hf://datasets/kin/none@dev", "the repository does not exist"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_run(
    out: str, message: str, hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add("kin/clean", {"taken/a.txt": b"mine"})
    assert dedup(out=out) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "clean").exists()


def test_the_right_to_write_is_checked_before_the_run(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    hub.token_only_reads = True
    assert dedup() == 2
    assert "the token can only read" in capsys.readouterr().err
    monkeypatch.setenv("HF_TOKEN", "hf_" + "wrong" * 6)
    assert dedup() == 2
    error = capsys.readouterr().err
    assert "the token was refused" in error
    assert "wrongwrong" not in error
    monkeypatch.delenv("HF_TOKEN")
    assert dedup() == 2
    assert f"no credentials for {REPOSITORY}; set HF_TOKEN" in capsys.readouterr().err
    assert not (tmp_path / "clean").exists()


def test_files_that_the_repository_ignores_are_missed(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add("kin/clean", {".gitignore": b"*.parquet"}, ignored=("clusters.parquet",))
    assert dedup() == 1
    assert "lacks 'clusters.parquet' and 0 more files" in capsys.readouterr().err


def test_a_change_in_the_meantime_is_not_overwritten(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = hub.add("kin/clean", {".gitattributes": b""})

    def commit_first(place: HubOutput) -> dict[str, Path]:
        repository.commit({"pairs.parquet": b"of another process"})
        return files_to_upload(place)

    files_to_upload = HubOutput._files_to_upload
    monkeypatch.setattr(HubOutput, "_files_to_upload", commit_first)
    assert dedup() == 1
    assert "A commit has happened since" in capsys.readouterr().err
    assert repository.files == {"pairs.parquet": b"of another process"}


def test_urls_of_outputs_are_parsed() -> None:
    place = HubOutput.parse(Path(f"{REPOSITORY}@refs/pr/1/a/b.csv"))
    assert place == HubOutput("kin/clean", "refs/pr/1", "a/b.csv")
    assert place.local == Path("clean/a/b.csv")
    assert HubOutput.parse("s3://bucket/x") is None
    for name in ("alone", "kin/..@main/x", "kin/x/../y", "kin/x@.."):
        with pytest.raises(UsageError, match="cannot be an output; write"):
            HubOutput.parse(f"hf://datasets/{name}")
    for name in ("README.md", ".gitattributes/x", "LICENSE"):
        with pytest.raises(UsageError, match="belongs to the repository"):
            HubOutput.parse(f"{REPOSITORY}/{name}")
    assert HubOutput.parse(f"{REPOSITORY}/data/README.md") is not None


def test_card_that_the_hub_would_refuse_is_found_before_the_run(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add("kin/clean", {"README.md": b"# Caf\xe9"})
    assert dedup() == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "README.md of kin/clean is not valid UTF-8 (byte 5)" in error
    assert not (tmp_path / "clean").exists()
