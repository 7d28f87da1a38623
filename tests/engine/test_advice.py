"""Tests of advice: one function, whose commands and calls run as they are printed."""

import json
import shlex
from pathlib import Path

import fsspec
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.inputs import Selection
from nearkin.engine.advice import NextStep, advise, describe_advice, write_command
from nearkin.runtime.setting_names import SettingForm, settings_named_as

ROWS = [
    (f"{first} {last}", f"{number} {street} street")
    for number, (first, last, street) in enumerate(
        (first, last, street)
        for first in ("Anna", "Ben", "Carla", "Dora", "Emil", "Fritz")
        for last in ("Miller", "Novak", "Rossi", "Kim", "Weber")
        for street in ("Oak", "Elm", "Hill", "Mill")
    )
]


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a name that a shell must quote, columns and a delimiter of its own."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my people.csv"
    lines = [f"{number};{name};{street}" for number, (name, street) in enumerate(ROWS)]
    path.write_text("\n".join(["key;name;street", *lines]) + "\n", "utf-8")
    return path


def test_an_answer_decides_before_short_texts() -> None:
    assert advise("titles", are_short=True, have_gap=False).step is NextStep.ASK
    assert advise("titles", are_short=True).step is NextStep.CHOOSE
    assert advise("web", are_short=False).step is NextStep.DEDUP
    assert advise("code", are_short=False, have_gap=False).settings == {"preset": "code"}


def test_a_command_has_all_options_that_read_the_inputs(people: Path) -> None:
    selection = Selection(include=("*.csv", "*.tsv"), hidden=True)
    corpus = FileCorpus.open([people.name], selection=selection)
    columns = Columns("name", joined=("street",), id="key", delimiter="\t", lines=True)
    words = shlex.split(write_command("fit", corpus, columns, {"ask": 50})[:200].replace("$", ""))
    assert words[:3] == ["nearkin", "fit", "my people.csv"]
    text = " ".join(words)
    assert "--text name,street --id key" in text
    assert "--lines" in words
    assert "--hidden --include *.csv --include *.tsv --ask 50" in text


def test_an_advice_has_no_password_of_an_input() -> None:
    """Warnings are recorded in run.json and in the report."""
    with fsspec.open("memory://me:hunter2@host/titles.txt", "w") as file:
        file.write("one title\nanother title\n")
    corpus = FileCorpus.open(["memory://me:hunter2@host/titles.txt"])
    advice = advise(None, are_short=True)
    with settings_named_as(SettingForm.OPTION):
        command = describe_advice(advice, corpus, Columns())
    call = describe_advice(advice, corpus, Columns())
    assert "hunter2" not in command + call
    assert "me:***@host/titles.txt" in command
    assert "me:***@host/titles.txt" in call


def test_columns_are_named_unless_they_are_the_default() -> None:
    assert write_command("fit", None, Columns("text", id="text"), {}) == (
        "nearkin fit FILES --id text"
    )


def test_the_advice_of_a_run_of_tune_and_of_profile_is_the_same_and_runs(
    people: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    reading = ["--text", "name,street", "--id", "key"]
    expected = "nearkin fit 'my people.csv' --text name,street --id key --out settings.toml"
    assert run(["dedup", people.name, *reading, "--threshold", "0.8", "--out", "out"]) == 0
    capsys.readouterr()
    warnings = json.loads((tmp_path / "out" / "run.json").read_bytes())["warnings"]
    assert any(warning.endswith(f"\n  {expected}") for warning in warnings)
    assert run(["tune", people.name, "--text", "name,street"]) == 0
    printed = capsys.readouterr().out.splitlines()[-1].strip()
    assert printed == expected.replace(" --id key", "")
    with settings_named_as(SettingForm.OPTION):
        profile = nk.profile(people.name, text=["name", "street"], id="key")
    assert profile.call == expected
    assert run(shlex.split(printed)[1:]) == 0
    assert (tmp_path / "settings.toml").exists()


def test_a_call_of_a_profile_runs(people: Path) -> None:
    profile = nk.profile(people, text="name", id="key")
    assert profile.call == f"nk.choose({str(people)!r}, text='name', id='key')"
    chosen = eval(profile.call, {"nk": nk})
    assert set(chosen.settings) >= {"shingle", "threshold"}
    assert profile.documents == len(ROWS)
    assert "too short" in profile.warnings[0]
