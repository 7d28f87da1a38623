"""`nearkin dedup`: its outputs, its summary, and what is left after a failure."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.runtime.compilation import ANNOUNCEMENT
from tests.cli.conftest import SECRET, nearkin, run
from tests.corpus.samples import ActAtStage, lines_of


def test_dedup_writes_documents_and_a_report_without_external_resources(
    corpus: Path, tmp_path: Path
) -> None:
    ended = nearkin(
        "dedup", corpus / "documents", "--id", "id", "--source", "source", "--out", tmp_path / "out"
    )
    assert ended.stdout == ""
    assert "documents" in ended.stderr
    assert "report.html" in "".join(ended.stderr.split())
    assert "\x1b" not in ended.stderr
    assert {path.name for path in (tmp_path / "out/kept").iterdir()} == {
        "part-00000.parquet",
        "part-00001.parquet",
    }
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "<script src" not in page
    assert not re.findall(r"https?://|@import|url\(|\bsrc=", page.replace("http://www.w3.org", ""))


def test_json_is_the_only_thing_on_standard_output(corpus: Path, tmp_path: Path) -> None:
    ended = nearkin("dedup", corpus / "documents", "--out", tmp_path / "out", "--json")
    summary = json.loads(ended.stdout)
    # a first command on a machine announces the compilation of kernels
    assert [line for line in ended.stderr.splitlines() if ANNOUNCEMENT not in line] == []
    assert summary == json.loads((tmp_path / "out/run.json").read_bytes())
    counts = summary["counts"]
    assert counts["read"] == counts["kept"] + counts["removed"] + counts["rejected"] == 6000


def test_existing_output_needs_resume_or_overwrite(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run("dedup", corpus / "documents", "--out", out) == 0
    capsys.readouterr()
    assert run("dedup", corpus / "documents", "--out", out) == 2
    assert "exists; continue it with --resume" in capsys.readouterr().err
    assert run("dedup", corpus / "documents", "--out", out, "--resume") == 0
    assert run("dedup", corpus / "documents", "--out", out, "--overwrite", "--annotate") == 0
    assert len(pq.read_table(out / "kept")) == 5999


def test_saved_run_is_an_input(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved"
    pairs = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    assert run("dedup", corpus / "documents", "--out", saved, "--save-signatures") == 0
    for inputs, out in zip((saved, corpus / "documents"), pairs, strict=True):
        assert run("pairs", inputs, "--threshold", 0.6, "--out", out) == 0
    assert pairs[0].read_bytes() == pairs[1].read_bytes()
    capsys.readouterr()
    assert run("info", saved, "--json") == 0
    assert json.loads(capsys.readouterr().out)["signatures"] is True


def test_failed_run_leaves_nothing_so_that_the_command_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n{"text": \n')
    ended = nearkin(
        "dedup", tmp_path / "a.jsonl", "--out", tmp_path / "out", "--on-error", "fail", code=1
    )
    assert "a.jsonl, line 2: the row is not valid JSON" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n')
    assert run("dedup", tmp_path / "a.jsonl", "--out", tmp_path / "out") == 0


def test_changed_input_is_reported_with_the_only_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run over other texts than before cannot be resumed."""
    source = tmp_path / "a.jsonl"
    source.write_text(lines_of(1, 1))
    command = ("dedup", source, "--out", tmp_path / "out")
    change = ActAtStage("write", lambda: source.write_text(lines_of(2, 2, 3)))
    with monkeypatch.context() as changing:
        changing.setattr("nearkin.cli.options.open_progress", lambda **_: change)
        assert run(*command) == 1
    printed = " ".join(capfd.readouterr().err.split())
    assert printed.endswith("has changed while the run was reading it; run again with --overwrite")
    assert run(*command, "--resume") == 2
    assert "start again with --overwrite instead of --resume" in capfd.readouterr().err
    assert run(*command, "--overwrite") == 0


def test_unwritable_output_is_reported(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("dedup", corpus / "documents", "--out", "/proc/nearkin/out") == 1
    assert "cannot write in /proc" in capsys.readouterr().err


def test_progress_is_shown_on_a_terminal(corpus: Path, tmp_path: Path) -> None:
    reader, writer = pty.openpty()
    arguments = ["dedup", str(corpus / "documents"), "--out", str(tmp_path / "out")]
    line = [sys.executable, "-m", "nearkin", *arguments]
    running = subprocess.Popen(
        line, stderr=writer, stdout=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"}
    )
    os.close(writer)
    shown = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert running.wait() == 0
    assert all(
        stage in shown
        for stage in (
            b"Read documents",
            b"Find candidates",
            b"Compare candidates",
            b"Write results",
        )
    )


def test_run_record_and_json_output_contain_no_texts(
    documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert (
        run(
            "dedup",
            documents,
            "--source",
            "source",
            "--audit",
            "--save-signatures",
            "--out",
            out,
            "--json",
        )
        == 0
    )
    printed = capsys.readouterr().out
    record = (out / "run.json").read_text()
    for text in (printed, record):
        facts = json.loads(text)
        assert facts["counts"]["removed_near"] == 20
        assert SECRET not in text
    assert "audit" in json.loads(record)
    assert SECRET in (out / "report.json").read_text()
    assert json.loads((out / "report.json").read_bytes())["audit"] is not None
    for command in (("info", out), ("pairs", documents, "--out", tmp_path / "p.parquet")):
        assert run(*command, "--json") == 0
        assert SECRET not in capsys.readouterr().out, command


def test_report_can_be_written_again_from_its_data(documents: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("dedup", documents, "--out", out) == 0
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    nk.report(out)
    assert (out / "report.html").read_bytes() == page


def _write_texts(path: Path, texts: list[str]) -> None:
    rows = [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def test_reference_is_counted_apart_in_the_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_texts(tmp_path / "old.jsonl", ["a b c d e", "f g h i j"])
    _write_texts(tmp_path / "new.jsonl", ["a b c d e", "k l m n o", "k l m n o", "p q r s t"])
    arguments = ["dedup", str(tmp_path / "new.jsonl"), "--id", "id"]
    against = ["--against", str(tmp_path / "old.jsonl")]
    assert run(*arguments, *against, "--out", tmp_path / "out.jsonl") == 0
    summary = " ".join(capsys.readouterr().err.split())
    removed = "1 exact duplicate and 0 near-duplicates removed"
    assert f"{removed}, 1 more as duplicates of the reference" in summary
    kept = [json.loads(line)["id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert kept == ["d1", "d3"]
    assert run(*arguments, *against, "--only-against", "--out", tmp_path / "only") == 0
    assert len((tmp_path / "only" / "kept" / "new.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only-against"], "--only-against has no effect without --against"),
        (["--against", "OLD", "--audit"], "--audit cannot be combined with --against"),
        (["--against", "OLD", "--cluster", "components"], "give --cluster leaders"),
        (["--against", "OLD", "--across", "id"], "--against and --across id exclude each other"),
        (["--against", "absent.jsonl"], "absent.jsonl"),
        (["--against", "NEW"], "is both an input and a part of the reference"),
    ],
    ids=str,
)
def test_contradictory_reference_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    places = {"OLD": tmp_path / "old.jsonl", "NEW": tmp_path / "new.jsonl"}
    for path in places.values():
        _write_texts(path, ["a b c d e"])
    given = [str(places.get(option, option)) for option in options]
    inputs = ["dedup", str(places["NEW"]), "--id", "id"]
    assert run(*inputs, *given, "--out", tmp_path / "out") == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.jsonl", "old.jsonl"]
