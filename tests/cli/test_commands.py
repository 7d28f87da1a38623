"""Help pages and usage errors of every command."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from nearkin.cli import app
from nearkin.cli.app import NAMED_COMMANDS
from nearkin.cli.command_table import DESCRIPTIONS, START
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
GROUPS = ("", "index", "lab", "server", "server token")
SHORTENED = tuple(
    name
    for name, command in COMMANDS.items()
    if name != "serve" and "help_all" in [one.name for one in command.params]
)
COMMON_OF_DEDUP = (
    *("--text", "--id", "--against", "--threshold", "--preset", "--keep"),
    *("--out", "--overwrite", "--json", "--quiet", "--annotate", "--dry-run"),
)
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
        if parameter.param_type_name == "option" and not (parameter.is_flag or parameter.count):
            assert parameter.metavar == parameter.metavar.strip() != ""


@pytest.mark.parametrize("name", SHORTENED)
def test_short_help_shows_the_common_options_on_one_screen(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = vars(COMMANDS[name].callback)["settings"]
    page = page_of(name, monkeypatch, capsys)
    options = re.findall(r"^│[ *]{1,5}(--[a-z-]+)", page, re.MULTILINE)
    expected = {
        max(one.opts, key=len)
        for one in COMMANDS[name].params
        if one.param_type_name == "option"
        and (one.required or (one.name in settings and settings[one.name].common))
    }
    assert set(options) == expected
    assert f"more options: nearkin {name} --help-all" in page
    assert len(page.splitlines()) <= 42


def test_commands_with_many_options_have_a_short_help_page() -> None:
    many = {name for name, command in COMMANDS.items() if len(command.params) > 30}
    assert many - {"serve"} <= set(SHORTENED)


def test_short_help_of_dedup_shows_what_most_users_need(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of("dedup", monkeypatch, capsys)
    options = re.findall(r"^│[ *]{1,5}(--[a-z-]+)", page, re.MULTILINE)
    assert tuple(options) == COMMON_OF_DEDUP
    assert len(page.splitlines()) <= 40


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
    rows = re.compile(r"^│[ *]{1,5}--(?!help)", re.MULTILINE)
    assert int(counted[1]) == len(rows.findall(page)) - len(rows.findall(short))


@pytest.mark.parametrize("name", ["", "dedup", "index", "index info", "serve"])
def test_short_flag_of_help_equals_the_long_one(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = page_of(name, monkeypatch, capsys)
    assert page_of(name, monkeypatch, capsys, "-h") == long


def test_first_help_page_fits_a_terminal_of_24_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of("", monkeypatch, capsys)
    # The next prompt takes a line, too.
    assert page.count("\n") < 24
    assert re.findall(r"^│ ([a-z]+) ", page, re.MULTILINE) == list(DESCRIPTIONS[START])
    (line,) = [line for line in page.splitlines() if "nearkin help all" in line]
    assert {"fit", "tune", "audit"} <= set(NAMED_COMMANDS) <= {*COMMANDS, *GROUPS}
    assert all(f" {name}," in line for name in NAMED_COMMANDS)


def test_help_all_shows_the_whole_text_of_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("help", "all") == 0
    page = " ".join(capsys.readouterr().out.split())
    for option in get_command(app.app).params:
        assert " ".join(str(option.help).split()) in page


def test_help_all_lists_every_command_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("help", "all") == 0
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= 80
    listed = re.findall(r"^  ([a-z][a-z -]*?)  +[A-Z].*\.$", page, re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


@pytest.mark.parametrize("name", ["", "dedup", "index", "lab", "lab synth", "serve"])
def test_help_of_a_command_is_its_help_page(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of(name, monkeypatch, capsys)
    assert run("help", *name.split()) == 0
    assert capsys.readouterr().out == page


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("synth --out x", "unknown command 'synth'; use: nearkin lab synth"),
        ("token create me", "unknown command 'token'; use: nearkin server token"),
        ("add x", "unknown command 'add'; use: nearkin index add or nearkin block add"),
        ("lab dedup x", "unknown command 'dedup'; use: nearkin dedup"),
        ("dedupp x", "unknown command 'dedupp'; did you mean 'dedup'?"),
        ("help synth", "unknown command 'synth'; use: nearkin lab synth"),
        ("lab nothing", "unknown command 'nothing'; see nearkin lab --help"),
    ],
)
def test_unknown_command_says_where_a_command_of_its_name_is(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*line.split()) == app.USAGE
    assert capsys.readouterr().err == f"nearkin: {message}\n"


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


@pytest.mark.parametrize("command", ["dedup", "pairs", "tune", "check"])
def test_a_column_option_that_is_given_twice_is_refused(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last one would count, and rows would be compared by one of the columns alone."""
    line = [command, "a.csv", "b.csv", "--text", "name"]
    if command != "tune":
        line += ["--out", "out.csv"]
    assert run(*line, "--text=street") == 2
    message = capsys.readouterr().err
    assert "--text is given 2 times, and only the last one would count" in message
    assert "write --text a,b" in message
    assert run(*line) == 2
    assert "2 times" not in capsys.readouterr().err
