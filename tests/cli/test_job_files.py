"""Tests of the files that start a run and its workers."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from nearkin.cli.executor_options import PRINTED
from nearkin.cli.job_files import FORMS, JobFiles
from tests.cli.conftest import run
from tests.services import program

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "scale-out.md"
OUT = "de'd up $(x)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the current folder, which has documents."""
    (tmp_path / "docs.jsonl").write_text(json.dumps({"text": "one text"}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def print_file(form: str, capfd: pytest.CaptureFixture[str]) -> str:
    """Returns the file that the command prints, and requires that it writes nothing else."""
    before = sorted(Path().iterdir())
    line = ("dedup", "docs.jsonl", "--out", OUT, "--executor", "jobs", "--jobs", "3")
    assert run(*line, "--print", form) == 0
    printed, messages = capfd.readouterr()
    assert not messages
    assert sorted(Path().iterdir()) == before
    assert run(*line, f"--print={form}") == 0
    assert capfd.readouterr().out == printed
    return printed


def commands(folder: Path) -> list[list[str]]:
    """Returns the words of the commands that a file starts."""
    line = ["dedup", "docs.jsonl", "--out", OUT, "--executor", "jobs", "--jobs", "3"]
    return [["nearkin", *line], ["nearkin", "work", str(folder / f"{OUT}.partial")]]


def write_program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)


def test_slurm_gets_the_run_and_workers_that_start_after_it(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = print_file("slurm", capfd)
    subprocess.run(["bash", "-n"], input=printed, text=True, check=True)
    write_program(folder, "sbatch", 'printf "%s\\0" "$@" >> options; bash; echo "7;here"')
    write_program(folder, "nearkin", 'printf "%s\\0" nearkin "$@" >> words; echo >> words')
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    subprocess.run(["bash"], input=printed, text=True, check=True)
    started = [line.split("\0")[:-1] for line in (folder / "words").read_text().splitlines()]
    assert started == commands(folder)
    options = (folder / "options").read_text().split("\0")
    assert {"1-3", "after:7"} <= set(options)


def test_kubernetes_gets_a_job_for_the_run_and_one_for_the_workers(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    driver, workers = yaml.safe_load_all(print_file("k8s", capfd))
    assert (driver["kind"], workers["kind"]) == ("Job", "Job")
    assert workers["spec"]["parallelism"] == 3
    for job, words in zip((driver, workers), commands(folder), strict=True):
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert [word.replace("$$(", "$(") for word in container["command"]] == words
        assert container["workingDir"] == str(folder)
        (mount,) = container["volumeMounts"]
        assert Path(mount["mountPath"]) == Path(*folder.parts[:2])


def test_make_starts_the_run_and_the_workers(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = program("make")
    (folder / "jobs.mk").write_text(print_file("make", capfd))
    shown = subprocess.run(
        [make, "-n", "-j", "4", "-f", "jobs.mk"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.count("nearkin work ") == 3
    write_program(folder, "nearkin", 'printf "%s\\0" nearkin "$@" >> words; echo >> words')
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    subprocess.run([make, "-f", "jobs.mk"], check=True)
    started = [line.split("\0")[:-1] for line in (folder / "words").read_text().splitlines()]
    driver, worker = commands(folder)
    assert started == [driver, worker, worker, worker]


def test_another_form_or_executor_is_refused(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = ("dedup", "docs.jsonl", "--out", "out", "--print", "slum")
    assert run(*line, "--executor", "jobs") == 2
    assert "--print slum is not one of slurm, k8s, make; did you mean 'slurm'?" in (
        capfd.readouterr().err
    )
    assert run(*line) == 2
    assert tuple(FORMS) == PRINTED


@pytest.mark.parametrize("form", ["slurm"])
def test_page_shows_what_is_printed(form: str) -> None:
    line = "nearkin dedup /shared/crawl --out /shared/deduped --executor jobs --jobs 64"
    work = ["nearkin", "work", "/shared/deduped.partial"]
    page = PAGE.read_text()
    assert f"{line} --print {form}" in page
    assert FORMS[form](JobFiles(line.split(), work, 64, Path("/shared"))) in page
