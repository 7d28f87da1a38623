"""Errors advise to resume a run only if the run can be resumed."""

from pathlib import Path

import pytest

from nearkin.cli import app
from nearkin.cli.app import with_clean_ending
from nearkin.corpus import FileCorpus
from nearkin.errors import RunError
from tests.services import free_port


def test_input_that_vanishes_is_an_error_without_advice_to_resume(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"text": "the cat sat on the mat"}\n')
    corpus = FileCorpus.open([str(path)])
    path.unlink()
    with pytest.raises(RunError) as raised:
        corpus.require_unchanged(0)
    assert "cannot read" in str(raised.value)
    assert "--resume" not in str(raised.value)


@pytest.mark.parametrize("is_resumable", [True, False])
def test_failed_command_advises_to_resume_only_if_a_run_can_be_resumed(
    is_resumable: bool, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    if is_resumable:
        work_folder = tmp_path / "out.partial"
        work_folder.mkdir()
        (work_folder / "manifest.json").write_text("{}")

    def fail(out: Path, resume: bool = False) -> None:
        raise RunError("cannot read docs.jsonl: gone; restore it, then run again")

    with pytest.raises(RunError) as raised:
        with_clean_ending(fail)(out=out)
    assert ("--resume" in str(raised.value)) == is_resumable


def test_sketch_over_an_unreachable_url_does_not_advise_to_resume(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("aiohttp")
    url = f"http://127.0.0.1:{free_port()}/docs.jsonl"
    assert app.run(["sketch", url, "--out", str(tmp_path / "s.arrow")]) in (1, 2)
    printed = capfd.readouterr().err
    assert "--resume" not in printed
    assert printed.count("\n") == 1
