"""Tests of stores that cannot be opened.

The error is one sentence with the address and a remedy.

The suite covers the index as a whole, over its stores, and not one module.
"""

import subprocess
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.index.stores import postgres
from tests.prepared_process import prepared_line
from tests.services import free_port


def test_unreachable_postgresql_is_one_sentence_without_the_password(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg_pool")
    monkeypatch.setattr(postgres, "TIMEOUT", 1.0)
    port = free_port()
    with pytest.raises(nk.NearkinError) as raised:
        nk.Index.open(f"postgresql://nearkin:s3cret@127.0.0.1:{port}/kin")
    message = str(raised.value)
    assert f"postgresql://127.0.0.1:{port}/kin: cannot connect: " in message
    assert "refused" in message
    assert "check the address" in message
    assert "s3cret" not in message
    assert "\n" not in message
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


@pytest.mark.parametrize("scheme", ["postgresql", "redis", "aerospike"])
@pytest.mark.parametrize("mark", [" ", "%zz", "@", "/", "#", "?", "[", "\t", ":", "'"])
def test_password_with_a_special_character_is_in_no_message(
    scheme: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers name the part of a URL that they cannot read, and take passwords for hosts."""
    monkeypatch.setattr(postgres, "TIMEOUT", 1.0)
    pytest.importorskip({"postgresql": "psycopg_pool"}.get(scheme, scheme))
    with pytest.raises(nk.NearkinError) as raised:
        nk.Index.open(f"{scheme}://user:left{mark}right@127.0.0.1:{free_port()}/0")
    assert "left" not in str(raised.value)
    assert "right" not in str(raised.value)


@pytest.mark.parametrize("scheme", ["redis", "aerospike"])
def test_other_unreachable_stores_are_one_sentence_without_the_password(
    scheme: str, tmp_path: Path
) -> None:
    pytest.importorskip(scheme)
    port = free_port()
    path = "0" if scheme == "redis" else "test"
    url = f"{scheme}://user:s3cret@127.0.0.1:{port}/{path}"
    line = prepared_line("nearkin", "index", "info", "--store", url)
    ended = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert f"127.0.0.1:{port}" in ended.stderr
    assert "s3cret" not in ended.stderr


def test_sqlite_in_a_folder_that_is_a_file_is_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "page.txt").write_text("text")
    url = f"sqlite:///{tmp_path}/file/kin.db"
    assert run(["index", "add", str(tmp_path / "page.txt"), "--store", url]) in (1, 2)
    shown = capfd.readouterr().err
    assert shown.count("\n") == 1
    assert str(tmp_path / "file") in shown
