"""Options that contradict each other, or make each other ineffective."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from nearkin.cli import app
from nearkin.cli.contradictions import exclusions
from nearkin.runtime.setting_names import flag_of
from nearkin.settings.setting import Need
from nearkin.settings.table import SETTINGS
from scripts.reference_pages import leaf_commands
from tests.cli.conftest import run

ROOT = get_command(app.app)
CONTEXT: Any = typer.Context(ROOT, info_name="nearkin")  # type: ignore[arg-type]
COMMANDS = {
    context.command_path.removeprefix("nearkin "): {one.name: one for one in command.params}
    for command, context in leaf_commands(ROOT, CONTEXT)
    if context.command_path != "nearkin serve"
}
FACTS: dict[str, Any] = {
    context.command_path.removeprefix("nearkin "): vars(command.callback)
    for command, context in leaf_commands(ROOT, CONTEXT)
    if "settings" in vars(command.callback)
}
"""The settings of the options of each command, and what they need in it."""
PAIRS = [
    (name, conflict)
    for name, facts in FACTS.items()
    for conflict in exclusions(facts["settings"])
    if conflict.other in COMMANDS[name]
]
DEPENDENT = [
    (name, option, need)
    for name, facts in FACTS.items()
    for option, setting in facts["settings"].items()
    for need in (setting.need, facts["needs"].get(option))
    if need is not None and need.name in COMMANDS[name]
]


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run over four documents, with its signatures."""
    folder = tmp_path_factory.mktemp("saved")
    source = folder / "documents.jsonl"
    rows = [{"id": f"d{i}", "text": f"text {i // 2} of a document"} for i in range(4)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = folder / "run"
    assert run("dedup", source, "--id", "id", "--save-signatures", "--out", out, "-q") == 0
    return out


def valid_value(name: str, option: str) -> str:
    """Returns a value of an option that is in the range of a number."""
    annotation = COMMANDS[name][option].type_descriptor.annotation
    return {int: "2", float: "0.5"}.get(annotation, "1")


def line_of(name: str, *given: tuple[str, str]) -> list[str]:
    """Returns a command line with the required parameters and the given options.

    Args:
        name: The name of the command.
        *given: The name and the value of each further option; flags ignore the value.
    """
    options = COMMANDS[name]
    values = dict(given)
    line = name.split()
    for parameter in options.values():
        if parameter.param_type_name == "argument":
            if parameter.required or parameter.name in values:
                line.append("nowhere")
        elif parameter.name in values or parameter.required:
            line.append(max(parameter.opts, key=len))
            if not parameter.is_flag:
                line.append(values.get(parameter.name, "out"))
    return line


def test_every_exclusion_of_a_setting_is_one_of_some_command() -> None:
    named = {(pair.name, pair.other) for _, pair in PAIRS}
    for name, declared in SETTINGS.items():
        for other in declared.setting.excludes:
            assert (name, other) in named


@pytest.mark.parametrize(
    ("name", "pair"), PAIRS, ids=[f"{name} {pair.name} {pair.other}" for name, pair in PAIRS]
)
def test_contradictory_options_are_refused_before_anything_is_read_or_written(
    name: str,
    pair: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [(option, valid_value(name, option)) for option in (pair.name, pair.other)]
    assert run(*line_of(name, *given)) == app.USAGE
    message = capsys.readouterr().err
    assert pair.message in message
    assert message.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_option_with_a_help_of_its_own_excludes_and_needs_what_the_table_says() -> None:
    for name, facts in FACTS.items():
        for option in facts["settings"].keys() & SETTINGS.keys():
            setting, of_table = facts["settings"][option], SETTINGS[option].setting
            named = set(COMMANDS[name])
            assert of_table.excludes.keys() & named <= setting.excludes.keys(), (name, option)
            if of_table.need is not None and of_table.need.name in named:
                assert setting.need == of_table.need, (name, option)


def test_every_option_that_a_command_says_needs_another_is_one_of_it() -> None:
    for name, facts in FACTS.items():
        for option, need in facts["needs"].items():
            assert {option, need.name} <= set(COMMANDS[name]), (name, option)


@pytest.mark.parametrize(
    ("name", "option", "need"),
    DEPENDENT,
    ids=[f"{name} {option} {need.name}" for name, option, need in DEPENDENT],
)
def test_option_that_another_one_makes_ineffective_is_refused(
    name: str,
    option: str,
    need: Need,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [(option, valid_value(name, option))]
    if need.values and need.is_met(COMMANDS[name][need.name].default):
        given.append((need.name, "another"))
    assert run(*line_of(name, *given)) == app.USAGE
    message = capsys.readouterr().err
    flag = flag_of(option)
    assert f"{flag} has no effect with" in message
    assert "; leave it out, or give " in message
    assert message.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


READING = {
    "hidden": "--hidden",
    "include": "--include=*.csv",
    "encoding": "--encoding=utf-8",
}


@pytest.mark.parametrize("option", READING.values(), ids=READING)
@pytest.mark.parametrize("command", ["dedup", "pairs", "index build"])
def test_option_for_reading_is_refused_on_a_saved_run(
    command: str,
    option: str,
    saved_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = ["--store", "memory://"] if command == "index build" else ["--out", tmp_path / "out"]
    assert run(*command.split(), saved_run, option, *target) == app.USAGE
    flag = option.partition("=")[0]
    assert f"{flag} has no effect on the saved run {saved_run}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--threshold=0.9", "--memory=1GB"])
def test_options_of_files_are_refused_when_an_index_is_built_from_a_saved_run(
    option: str, saved_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("index", "build", saved_run, "--store", "memory://", option) == app.USAGE
    flag = option.partition("=")[0]
    assert f"{flag} has no effect on the saved run {saved_run}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--measure=simhash", "--encoding=utf-8", "--include=*.csv"])
def test_options_of_files_are_refused_when_one_run_is_measured(
    option: str, saved_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("id_a,id_b\nd0,d1\n")
    assert run("eval", saved_run, "--golden", labels, option) == app.USAGE
    flag = option.partition("=")[0]
    assert f"{flag} has no effect without --grid" in capsys.readouterr().err


def test_options_of_a_plan_are_refused_when_only_the_machine_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("plan", "--calibrate", "--threshold", "0.9") == app.USAGE
    assert "--threshold has no effect without --docs" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--tables=1,2", "--probes=0,2"])
def test_tables_and_probes_of_minhash_are_refused_for_other_signatures(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("tune", "--measure", "simhash", option) == app.USAGE
    assert "are only for MinHash; omit them" in capsys.readouterr().err


def test_default_of_an_option_contradicts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["dedup", tmp_path / "nowhere", "--distance", "3", "--measure", "simhash"]
    assert run(*line, "--out", tmp_path / "out") == app.USAGE
    assert "no such file or folder" in capsys.readouterr().err
