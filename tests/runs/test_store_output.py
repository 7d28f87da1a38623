"""Tests of outputs in object stores, over a local server of S3."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.corpus.inputs import OUTPUT
from nearkin.errors import UsageError
from nearkin.runs.store_output import StoreOutput
from nearkin.runtime.outputs import MARKER, UPLOAD_RECORD
from tests.cli.conftest import run
from tests.corpus.object_storage import Storage, serve_storage

URL = "s3://bucket/lake/clean"
TEXT = "the council approved the new budget on tuesday evening after a long debate"
PLACE = URL.removeprefix("s3://")
NAMES = ("news.jsonl", "with space/ä#?%20&=+.jsonl")


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Storage]:
    """A storage with an object of somebody else, and a folder with three documents."""
    rows = [{"id": "a", "text": TEXT}, {"id": "b", "text": TEXT}, {"id": "c", "text": "a dog ran"}]
    for name in NAMES:
        (tmp_path / "news" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "news" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    with serve_storage(monkeypatch) as served:
        served.objects["bucket/lake/clean-not"] = b"mine"
        yield served


def dedup(*options: object, out: str = URL) -> int:
    return run("dedup", "news", "--out", out, *options)


def uploaded(storage: Storage) -> dict[str, bytes]:
    """Returns the uploaded files by name. Objects that stand for folders are left out."""
    return {
        name.removeprefix(f"{PLACE}/"): content
        for name, content in storage.objects.items()
        if name.startswith(f"{PLACE}/") and not name.endswith("/")
    }


def local_files() -> dict[str, bytes]:
    folder = Path(PLACE)
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def require_complete(storage: Storage) -> None:
    files = uploaded(storage)
    record = json.loads(files.pop(UPLOAD_RECORD))
    assert record["files"].keys() == files.keys() - {MARKER}
    assert files == local_files()
    assert storage.objects["bucket/lake/clean-not"] == b"mine"


def note_writes(storage: Storage, refused: int | None = None) -> list[str]:
    """Returns a list that receives the written objects, the later ones of which are refused."""
    written: list[str] = []

    def refuse(path: str) -> int | None:
        if refused is not None and len(written) >= refused:
            return 403
        written.append(path.removeprefix(f"{PLACE}/"))
        return None

    storage.options["status_of_writes"] = refuse
    return written


def test_marker_is_written_last(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    written = note_writes(storage)
    assert dedup() == 0
    require_complete(storage)
    assert written[:2] == [UPLOAD_RECORD, UPLOAD_RECORD]
    assert written[-1] == MARKER
    assert f"kept/{NAMES[1]}" in uploaded(storage)
    assert f"uploaded {PLACE} to {URL}" in capsys.readouterr().err
    written.clear()
    assert dedup("--resume") == 0
    assert MARKER not in written or written == [UPLOAD_RECORD, UPLOAD_RECORD, MARKER]
    require_complete(storage)
    assert run("dedup", f"{URL}/kept", "--out", "again") == 0
    assert json.loads(Path("again/run.json").read_text())["counts"]["read"] == 2


def test_an_upload_that_is_refused_at_any_object_is_continued(storage: Storage) -> None:
    """Uploaded objects are not uploaded again, and the marker comes last."""
    assert dedup() == 0
    objects = dict(storage.objects)
    steps = len(uploaded(storage)) + 1
    for step in range(2, steps):
        for name in uploaded(storage):
            del storage.objects[f"{PLACE}/{name}"]
        first = note_writes(storage, refused=step)
        assert dedup("--resume") == 2
        assert MARKER not in uploaded(storage)
        second = note_writes(storage)
        assert dedup("--resume") == 0
        data = {name for name in first if name not in (UPLOAD_RECORD, MARKER)}
        assert data.isdisjoint(second), step
        require_complete(storage)
    assert {name for name in storage.objects if not name.endswith("/")} == objects.keys()


@pytest.mark.parametrize("step", [1, 2, 5, 9])
def test_a_killed_upload_is_incomplete_and_is_continued(step: int, storage: Storage) -> None:
    code = "import sys; from nearkin.cli.app import run; sys.exit(run(sys.argv[1:]))"
    written: list[str] = []
    process: list[subprocess.Popen[bytes]] = []

    def kill(path: str) -> int | None:
        written.append(path)
        if len(written) > step:
            os.kill(process[0].pid, signal.SIGKILL)
            return 503
        return None

    storage.options["status_of_writes"] = kill
    command = [sys.executable, "-c", code, "dedup", "news", "--out", URL]
    process.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    assert process[0].wait(60) == -signal.SIGKILL
    assert MARKER not in uploaded(storage)
    del storage.options["status_of_writes"]
    if step > 2:
        # The place is taken, and nobody knows whether the other run goes on.
        assert dedup(out=URL) == 2
    assert dedup("--resume") == 0
    require_complete(storage)


def test_overwrite_replaces_an_earlier_output_and_nothing_else(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dedup("--output", "ids") == 0
    assert "removed.parquet" in uploaded(storage)
    assert dedup() == 2
    assert f"{URL} has an output; replace it with --overwrite" in capsys.readouterr().err
    kept = uploaded(storage)["clusters.parquet"]
    written = note_writes(storage)
    assert dedup("--overwrite") == 0
    assert kept == uploaded(storage)["clusters.parquet"]
    assert "clusters.parquet" not in written, "it has not changed"
    require_complete(storage)
    storage.objects[f"{PLACE}/kept/notes.txt"] = b"mine"
    before = dict(storage.objects)
    assert dedup("--overwrite") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "'kept/notes.txt', which no nearkin run wrote" in error
    assert storage.objects == before


@pytest.mark.parametrize("step", range(1, 12))
def test_an_interrupted_replacement_is_finished(step: int, storage: Storage) -> None:
    assert dedup("--output", "ids") == 0
    note_writes(storage, refused=step)
    code = dedup("--overwrite")
    note_writes(storage)
    assert dedup("--overwrite") == 0
    require_complete(storage)
    assert code in (0, 2)


@pytest.mark.parametrize(
    ("options", "url", "message"),
    [
        ({"status_of_writes": 403}, URL, "check the policy of the bucket and the credentials"),
        ({"status": 403}, URL, "check the policy of the bucket and the credentials"),
        ({}, "s3://bucket/taken", "has 'a.txt', which no nearkin run wrote"),
        ({}, "s3://bucket/taken/a.txt", "exists; replace it"),
        ({}, "s3://bucket", "write s3://BUCKET/FOLDER"),
        ({}, "s3://bucket/../x", "write s3://BUCKET/FOLDER"),
        ({}, "s3://user:secret@bucket/x", "write s3://BUCKET/FOLDER"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_run(
    options: dict[str, object],
    url: str,
    message: str,
    storage: Storage,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    storage.objects["bucket/taken/a.txt"] = b"mine"
    storage.options.update(options)
    before = dict(storage.objects)
    assert dedup(out=url) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert message in error
    assert "secret" not in error
    assert storage.objects == before
    assert [path.name for path in tmp_path.iterdir()] == ["news"]
    with pytest.raises(UsageError):
        nk.dedup("news", out=url)


def test_two_runs_at_once_do_not_mix(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    """The later record belongs to the other run, so the marker is not written."""

    def take_over(path: str) -> None:
        if path.endswith("run.json"):
            storage.objects[f"{PLACE}/{UPLOAD_RECORD}"] = b'{"nearkin":1,"files":{"run.json":"0"}}'

    storage.options["status_of_writes"] = take_over
    assert dedup() == 1
    assert f"another run is writing to {URL}" in capsys.readouterr().err
    assert MARKER not in uploaded(storage)


def test_outputs_are_not_read_as_documents(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    storage.objects["bucket/lake/news.jsonl"] = Path("news/news.jsonl").read_bytes()
    assert run("dedup", "s3://bucket/lake", "--out", URL) == 0
    assert run("dedup", "s3://bucket/lake", "--out", "again") == 0
    record = json.loads(Path("again/run.json").read_text())
    assert record["counts"]["read"] == 4, "with the object of somebody else"
    assert record["skipped"]["first"] == [{"path": URL, "reason": OUTPUT}]
    assert run("dedup", URL, "--out", "third") == 2
    assert "is the output of a nearkin run; name its folder kept" in capsys.readouterr().err


def test_damaged_record_is_an_error(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    storage.objects[f"{PLACE}/{UPLOAD_RECORD}"] = b"{"
    assert dedup() == 2
    assert f"{UPLOAD_RECORD} is damaged" in capsys.readouterr().err


def test_one_file_is_uploaded(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pairs", "news", "--expand-exact", "--out", "s3://bucket/pairs.csv") == 0
    assert storage.objects["bucket/pairs.csv"] == Path("bucket/pairs.csv").read_bytes()
    assert run("pairs", "news", "--out", "s3://bucket/pairs.csv", "--overwrite") == 0
    assert dedup("--dry-run") == 0
    assert not Path(PLACE).exists()
    nk.pairs("news", out="s3://bucket/library.parquet")
    assert storage.objects["bucket/library.parquet"].startswith(b"PAR1")


def test_large_file_is_uploaded_in_parts(storage: Storage) -> None:
    content = os.urandom(23 << 20)
    Path("bucket").mkdir()
    Path("bucket/large.bin").write_bytes(content)
    StoreOutput.parse("s3://bucket/large.bin").publish(overwrite=False)
    assert storage.objects["bucket/large.bin"] == content


def test_the_library_uploads_a_folder(storage: Storage) -> None:
    result = nk.dedup("news", out=URL)
    require_complete(storage)
    with pytest.raises(UsageError, match="has an output; replace it with overwrite=True"):
        nk.dedup("news", out=URL)
    assert result.write(URL, overwrite=True, output="ids") == Path(PLACE)
    require_complete(storage)
    assert "removed.parquet" in uploaded(storage)


def test_a_folder_without_a_marker_gets_one(storage: Storage) -> None:
    assert run("lab", "synth", "--documents", "50", "--out", "s3://bucket/synth") == 0
    assert f"bucket/synth/{MARKER}" in storage.objects


def test_urls_of_accounts_have_local_places() -> None:
    url = "abfs://box@account.dfs.core.windows.net/a/b/"
    assert StoreOutput.parse(url).local == Path("box/a/b")
    assert StoreOutput.parse(url).url == url.rstrip("/")
