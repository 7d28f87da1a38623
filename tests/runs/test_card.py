"""Tests of the card of a finished run."""

import json
import stat
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.reports.card import BEGIN
from tests.cli.conftest import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the output of a run, and a file of pairs."""
    folder = tmp_path_factory.mktemp("card")
    rows = [{"id": name, "text": "one two three four five"} for name in "abc"]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for command, out in (("dedup", "run"), ("passages", "passages")):
        assert run(command, folder / "docs.jsonl", "--id", "id", "--out", folder / out) == 0
    return folder


def test_the_section_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("card", folder / "run") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(BEGIN)
    assert "1 of 3 documents kept" in printed
    assert "| Inputs | `docs.jsonl` |" in printed
    assert str(folder) not in printed


def test_a_result_of_the_library_has_a_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nk.dedup(["one two three four five"] * 3, out=tmp_path / "run")
    assert run("card", tmp_path / "run") == 0
    printed = capsys.readouterr().out
    assert "1 of 3 documents kept" in printed
    assert "Inputs" not in printed


def test_the_section_is_written_once_into_a_readme(folder: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# Mine\n")
    readme.chmod(0o664)
    (tmp_path / "link.md").symlink_to(readme)
    assert run("card", folder / "run", "--readme", tmp_path / "link.md") == 0
    first = readme.read_text()
    assert first.startswith(f"# Mine\n\n{BEGIN}\n## Deduplication\n")
    assert (tmp_path / "link.md").is_symlink()
    assert stat.S_IMODE(readme.stat().st_mode) == 0o664
    assert run("card", folder / "run", "--readme", readme) == 0
    assert readme.read_text() == first


def test_a_new_readme_has_metadata(folder: Path, tmp_path: Path) -> None:
    assert run("card", folder / "run", "--readme", tmp_path / "README.md") == 0
    assert (tmp_path / "README.md").read_text().startswith("---\ntags:\n- deduplicated\n")


@pytest.mark.parametrize(
    ("run_folder", "readme", "message"),
    [
        ("passages", "README.md", "is not the output of a run"),
        ("none", "README.md", "no such folder"),
        ("run", ".", "is a folder; give the path of a file"),
        ("run", "none/README.md", "no such folder"),
    ],
)
def test_a_card_that_cannot_be_written_is_an_error(
    run_folder: str,
    readme: str,
    message: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("card", folder / run_folder, "--readme", tmp_path / readme) == 2
    assert message in capsys.readouterr().err
