"""Help pages and usage errors of every command."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from nearkin.cli import app, check, dedup, fit, frequencies, pairs, plan, sketch, split, tune
from nearkin.cli.commands import wrap_example
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.settings.spec import Spec
from scripts.reference_pages import leaf_commands
from tests.cli.conftest import run

ROOT = get_command(app.app)
CONTEXT: Any = typer.Context(ROOT, info_name="nearkin")  # type: ignore[arg-type]
COMMANDS = {
    context.command_path.removeprefix("nearkin "): command
    for command, context in leaf_commands(ROOT, CONTEXT)
}
GROUPS = ("", "index", "token")
SHORTENED = {
    "dedup": dedup.COMMON_OPTIONS,
    "pairs": pairs.COMMON_OPTIONS,
    "split": split.COMMON_OPTIONS,
    "check": check.COMMON_OPTIONS,
    "sketch": sketch.COMMON_OPTIONS,
    "fit": fit.COMMON_OPTIONS,
    "frequencies": frequencies.COMMON_OPTIONS,
    "plan": plan.COMMON_OPTIONS,
    "tune": tune.COMMON_OPTIONS,
}
NAMES = re.compile(r"--[a-z][a-z0-9-]*")


def page_of(
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str = "--help",
) -> str:
    """Returns the help page of a command on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    assert run(*name.split(), option) == 0
    return capsys.readouterr().out


def words_of(text: str) -> set[str]:
    """Returns the words of a text, without the frame of the panels."""
    return set(re.sub(r"[│╭╮╰╯─\\]", " ", text.replace("`", "")).split())


@pytest.mark.parametrize("option", ["--help", "--help-all"])
@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_help_fits_80_columns_without_broken_words(
    name: str, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = COMMANDS.get(name)
    all_names = [one.name for one in command.params] if command else []
    if option == "--help-all" and "help_all" not in all_names:
        pytest.skip("the page of this command is not shortened")
    page = page_of(name, monkeypatch, capsys, option)
    assert max(map(len, page.splitlines())) <= 80
    assert "…" not in page.replace("redis://…", "").replace("postgresql://…", "").replace(
        "aerospike://…", ""
    )
    shown = words_of(page)
    if command is not None and (option == "--help-all" or "help_all" not in all_names):
        for parameter in command.params:
            assert words_of(str(parameter.help or "")) <= shown


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_no_type_of_a_flag_and_a_placeholder_of_every_other_option(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of(name, monkeypatch, capsys)
    assert not re.search(r"<(bool|int|float|str|path|list)", page)
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name == "option" and not parameter.is_flag:
            assert parameter.metavar == parameter.metavar.strip() != ""


@pytest.mark.parametrize("name", SHORTENED)
def test_short_help_shows_the_ten_common_options_first(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    common = SHORTENED[name]
    assert len(common) == 10
    named = {one.name: max(one.opts, key=len) for one in COMMANDS[name].params}
    page = page_of(name, monkeypatch, capsys)
    options = re.findall(r"^│[ *]{1,5}(--[a-z-]+)", page, re.MULTILINE)
    assert options[:10] == [named[parameter] for parameter in common]
    assert options[10:] == ["--help-all", "--help"]
    assert f"more options: nearkin {name} --help-all" in page
    assert len(page.splitlines()) <= 60


@pytest.mark.parametrize("name", [*SHORTENED, "serve"])
def test_help_all_shows_every_option(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of(name, monkeypatch, capsys, "--help-all")
    shown = set(NAMES.findall(page.replace("--[no-]", "--")))
    expected = {
        name
        for parameter in COMMANDS[name].params
        if parameter.param_type_name == "option"
        for name in parameter.opts
        if name.startswith("--")
    }
    assert expected <= shown
    short = page_of(name, monkeypatch, capsys)
    counted = re.search(r"(\d+) more options", short)
    assert counted is not None
    rows = re.findall(r"^│[ *]{1,5}--", page, re.MULTILINE)
    assert int(counted[1]) == len(rows) - len(re.findall(r"^│[ *]{1,5}--", short, re.MULTILINE))


@pytest.mark.parametrize("name", ["", "dedup", "index", "index info", "serve"])
def test_short_flag_of_help_equals_the_long_one(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = page_of(name, monkeypatch, capsys)
    assert page_of(name, monkeypatch, capsys, "-h") == long


def test_help_groups_commands_into_panels(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of("", monkeypatch, capsys)
    titles = re.findall(r"^╭─ (.*?) ─", page, re.MULTILINE)
    assert titles[-4:] == ["Start", "Check and choose settings", "Index and service", "Laboratory"]


def test_short_flag_of_the_version_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-V") == 0
    assert capsys.readouterr().out.startswith("nearkin ")


def test_every_output_and_threshold_has_its_short_flag() -> None:
    short = {"out": "-o", "threshold": "-t"}
    for command in COMMANDS.values():
        for parameter in command.params:
            if parameter.name in short:
                assert short[parameter.name] in parameter.opts


def test_wrapped_examples_are_the_same_shell_words() -> None:
    import shlex

    for command in COMMANDS.values():
        for example in re.findall(r"^ *(nearkin .*)$", command.help or "", re.MULTILINE):
            wrapped = wrap_example(example)
            assert shlex.split(wrapped.replace("\\\n", "")) == shlex.split(example)
            assert max(map(len, wrapped.splitlines())) <= 80


def test_help_of_rebuild_names_the_index_as_the_default_of_its_settings() -> None:
    helps = {one.name: one.help for one in COMMANDS["index rebuild"].params}
    for name in ("threshold", "vector_threshold", "combine", "shingle", "k", "slot_bits"):
        assert helps[name].endswith("[default: that of the index]")


def test_new_index_and_new_blocklist_can_have_the_version_of_older_releases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one two three four"}\n')
    store = f"sqlite:///{tmp_path / 'kin.db'}"
    blocklist = tmp_path / "a.list"
    version = ("--spec-version", 1)
    assert run("index", "build", path, "--store", store, *version) == app.DONE
    assert run("block", "add", path, "--list", blocklist, *version) == app.DONE
    capsys.readouterr()
    assert run("index", "info", "--store", store, "--json") == app.DONE
    old = Spec(version=1)
    assert json.loads(capsys.readouterr().out)["spec_fingerprint"] == old.fingerprint
    assert Blocklist.open(blocklist).spec == old
