"""Options that contradict each other, and numbers that are too small."""

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from nearkin.cli import app
from nearkin.cli.contradictions import CONTRADICTIONS, LEAST
from scripts.reference_pages import leaf_commands
from tests.cli.conftest import run

ROOT = get_command(app.app)
CONTEXT: Any = typer.Context(ROOT, info_name="nearkin")  # type: ignore[arg-type]
COMMANDS = {
    context.command_path.removeprefix("nearkin "): {one.name: one for one in command.params}
    for command, context in leaf_commands(ROOT, CONTEXT)
    if context.command_path != "nearkin serve"
}
PAIRS = [
    (name, pair)
    for name, options in COMMANDS.items()
    for pair in CONTRADICTIONS
    if pair.first in options and pair.second in options
]
NUMBERS = [
    (name, number)
    for name, options in COMMANDS.items()
    for number in LEAST
    if number in options and options[number].type_descriptor.annotation is int
]


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
        if parameter.param_type_name == "argument" and parameter.required:
            line.append("nowhere")
        elif parameter.name in values or parameter.required:
            line.append(max(parameter.opts, key=len))
            if not parameter.is_flag:
                line.append(values.get(parameter.name, "out"))
    return line


def test_every_contradiction_is_one_of_some_command() -> None:
    named = {(pair.first, pair.second) for _, pair in PAIRS}
    assert named == {(pair.first, pair.second) for pair in CONTRADICTIONS}


@pytest.mark.parametrize(
    ("name", "pair"), PAIRS, ids=[f"{name} {pair.first} {pair.second}" for name, pair in PAIRS]
)
def test_contradictory_options_are_refused_before_anything_is_read_or_written(
    name: str,
    pair: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*line_of(name, (pair.first, "1"), (pair.second, "1"))) == app.USAGE
    message = capsys.readouterr().err
    assert f"exclude each other: {pair.reason}" in message
    assert message.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "number"), NUMBERS)
def test_numbers_that_are_too_small_are_refused_before_anything_is_read_or_written(
    name: str,
    number: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    least = LEAST[number]
    assert run(*line_of(name, (number, str(least - 1)))) == app.USAGE
    message = capsys.readouterr().err
    assert f"{least - 1} is too small; it must be at least {least}" in message
    assert list(tmp_path.iterdir()) == []


def test_default_of_an_option_contradicts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["dedup", tmp_path / "nowhere", "--distance", "3", "--measure", "simhash"]
    assert run(*line, "--out", tmp_path / "out") == app.USAGE
    assert "no such file or folder" in capsys.readouterr().err
