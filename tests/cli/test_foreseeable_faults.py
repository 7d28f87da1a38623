"""Faults that a first user meets: damaged inputs, missing permissions, other locales."""

import subprocess
import sys
from pathlib import Path

import pytest

from nearkin.cli import app
from tests.cli.conftest import run


def test_header_of_a_binary_file_is_shown_in_one_short_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "binary.csv"
    path.write_bytes(bytes(range(128, 256)) * 30)
    assert run("dedup", path, "--encoding", "utf-8", "--out", tmp_path / "out") == app.USAGE
    message = capsys.readouterr().err
    assert "has no column 'text'" in message
    assert len(message) < 300 + len(str(path))
    assert message.isascii() or message.encode()


@pytest.mark.parametrize(
    ("command", "out"), [("dedup", "out"), ("pairs", "out.csv"), ("sketch", "out.arrow")]
)
def test_empty_input_is_refused_instead_of_reading_the_current_folder(
    command: str,
    out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "private.txt").write_text("one two three")
    assert run(command, "", "--out", tmp_path / out) == app.USAGE
    assert "an input is the empty text ''; give a file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [folder]


def test_path_that_may_not_be_used_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    assert run("index", "info", "--store", url) == app.FAILED
    message = capsys.readouterr().err
    assert f"cannot use '{tmp_path / 'kin.db'}': Permission denied; correct the path" in message
    assert message.count("\n") == 1


def test_vocabulary_that_is_not_text_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(b"\xff\xfe\xfd")
    assert run("synth", "--vocabulary", path, "--out", tmp_path / "out") == app.USAGE
    message = capsys.readouterr().err
    assert f"cannot read the vocabulary {path}: it is not UTF-8; give a text file" in message


def test_standard_output_of_a_small_encoding_shows_escapes() -> None:
    script = (
        "from nearkin.cli.standard_streams import prepare_streams; prepare_streams(); "
        "print(chr(0x2026))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == b"\\u2026\n"
