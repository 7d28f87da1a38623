"""Commands on a full disk.

They end with one sentence, leave no incomplete output, and succeed when there is room.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearkin.index.index import Index
from tests.disks import enlarge, fill, small_disk
from tests.prepared_process import prepared_line

PATIENCE = 300.0
"""Seconds after which a test stops waiting for a command. It does not decide a result."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "2m") as folder:
        yield folder


def nearkin(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    line = prepared_line("nearkin", *arguments)
    return subprocess.run(
        line, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def require_one_sentence(ended: "subprocess.CompletedProcess[str]", *words: str) -> None:
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    message = ended.stderr.strip().splitlines()[-1]
    assert message.startswith("nearkin: ")
    assert all(word in message for word in words), message


def rows(count: int) -> str:
    texts = (
        f"document {row} " + " ".join(str(row * 7919 + word) for word in range(200))
        for row in range(count)
    )
    return "".join(
        json.dumps({"id": str(row), "text": text}) + "\n" for row, text in enumerate(texts)
    )


@pytest.mark.parametrize("kept", ["room for a part", "no room at all"])
def test_run_on_a_full_disk_continues_when_there_is_room(
    disk: Path, tmp_path: Path, kept: str
) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text(rows(3000))
    filling = fill(disk) if kept == "no room at all" else None
    line = ("dedup", str(source), "--text", "text", "--out", str(disk / "out"))
    ended = nearkin(*line, folder=tmp_path)
    require_one_sentence(ended, "space")
    resumes = "--resume" in ended.stderr
    if filling is not None:
        filling.unlink()
    enlarge(disk, "60m")
    again = nearkin(*line, *(("--resume",) if resumes else ()), folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert sum(1 for _ in (disk / "out" / "kept" / "rows.jsonl").open()) == 3000


def test_export_to_a_full_disk_leaves_the_previous_one(disk: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'index.db'}"
    with Index.open(url) as index:
        index.upsert_many("a", [json.loads(line)["text"] for line in rows(200).splitlines()])
    export = disk / "index.parquet"
    assert (
        nearkin(
            "index", "export", "--store", url, "--out", str(export), "--overwrite", folder=tmp_path
        ).returncode
        == 0
    )
    before = export.read_bytes()
    fill(disk)
    ended = nearkin(
        "index", "export", "--store", url, "--out", str(export), "--overwrite", folder=tmp_path
    )
    require_one_sentence(ended, "space", str(export))
    assert export.read_bytes() == before
    assert {path.name for path in disk.iterdir()} == {"index.parquet", "filling"}


def test_unwritable_folder_does_not_advise_to_resume(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(rows(3))
    ended = nearkin("dedup", "rows.jsonl", "--text", "text", "--out", "/proc/x", folder=tmp_path)
    require_one_sentence(ended, "/proc")
    assert "--resume" not in ended.stderr
