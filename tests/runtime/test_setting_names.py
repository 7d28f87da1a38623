"""Settings in messages: keywords in Python, options on the command line, fields over HTTP."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.runtime.setting_names import SettingForm, name_setting, settings_named_as
from tests.cli.test_contradictions import COMMANDS

PACKAGE = Path(nk.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
COMMAND_LINE = re.compile(r"\b(nearkin [a-z-]+|zstd|tar)\b[^;,.]*$")
"""The beginning of a text that ends within a command line of nearkin or of another program, whose
options are named as such."""
FOR_COMMANDS = (
    *("cli/", "service/server/", "quality/lab/", "settings/table.py"),
    "reports/warning_choice.py",
)
"""The places whose messages only the commands show, or that call them. The table of settings names
options, which the help of the library shows as keywords."""
SHORT_TEXTS = [f"note number {number}" for number in range(40)]


def texts_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the texts of a module that are not docstrings, with their lines."""
    described = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    parts = {
        part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            shown = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield node.lineno, "".join(map(str, shown))
        elif isinstance(node, ast.Constant) and node not in parts and node not in described:
            yield node.lineno, str(node.value)


def test_no_message_of_the_library_names_an_option_of_the_command_line() -> None:
    named = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.as_posix().startswith(FOR_COMMANDS):
            continue
        for line, text in texts_of(ast.parse(path.read_text("utf-8"))):
            named += [
                f"{place}:{line}: {option[0]}"
                for option in OPTION.finditer(text)
                if option[0] != text and not COMMAND_LINE.search(text[: option.start()])
            ]
    assert named == []


KEYWORD = re.compile(r"(?<![\w.?&;\[-])([a-z_]+|…)=(?=…|'|True|False|\d)")
"""A keyword with a value. The name can be that of a variable, which is shown as an ellipsis."""
SHOW_KEYWORDS = (
    *("stages/sketch", "index/signatures", "spark", "integrations/text_columns.py"),
    *("service/server", "engine/settings_file.py", "runs/grid.py"),
    "stages/shingle/stemming.py:8",
)
"""Places whose messages no command shows, or that show assignments of a file or an option."""
SPEC_OF_VECTORS = "Spec(measure="
"""The beginning of a call that a message of the library shows, whose settings no command makes."""
SHOW_VARIABLES = (
    *("runtime/argument_types.py", "engine/parameters.py"),
    *("runs/grid.py", "engine/settings_file.py"),
    "index/settings.py",
)
"""Places that check arguments of Python, or show assignments of a file, a grid or a variable."""
SHOW_FIELDS = ("settings/spec.py", "stages/shingle/stemming.py")
"""Places that show the recorded fields of a Spec, or the requirement of a package."""


def names_of_options() -> set[str]:
    """Returns the names of the parameters of all commands."""
    return {name for options in COMMANDS.values() for name in options}


def test_no_error_that_a_command_shows_names_a_keyword() -> None:
    options = names_of_options()
    assert {"threshold", "second_measure", "combine", "postings"} <= options
    named = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Raise):
                continue
            named += [
                f"{place}:{line}: {text}"
                for line, text in texts_of(ast.Module([node], []))
                if any(match[1] in options for match in KEYWORD.finditer(text))
                and SPEC_OF_VECTORS not in text
                and not f"{place}:{line}".startswith(SHOW_KEYWORDS)
            ]
    assert named == []


def test_no_error_of_any_module_assigns_a_value_to_a_variable_name() -> None:
    assigned = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = str(path.relative_to(PACKAGE))
        if place.startswith((*SHOW_VARIABLES, *SHOW_FIELDS)):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise):
                assigned += [
                    f"{place}:{line}: {text}"
                    for line, text in texts_of(ast.Module([node], []))
                    if any(match[1] == "…" for match in KEYWORD.finditer(text))
                ]
    assert assigned == []


def test_warning_of_the_library_names_keywords() -> None:
    (warning,) = nk.dedup({"title": SHORT_TEXTS}, fields=["title:jaccard>=0.8"]).warnings
    assert "use shingle='chars:3' and lower limits in `fields`" in warning


def test_error_of_the_library_names_keywords() -> None:
    with pytest.raises(nk.UsageError, match=r"raise `k` or lower `recall`"):
        nk.dedup(SHORT_TEXTS, threshold=0.2, recall=0.999999, k=4)


def test_warning_and_error_of_the_command_line_name_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = tmp_path / "notes.jsonl"
    inputs.write_text("".join(json.dumps({"text": text}) + "\n" for text in SHORT_TEXTS))
    command = ["dedup", str(inputs), "--out", str(tmp_path / "out"), "--quiet"]
    assert run([*command, "--field", "text:jaccard>=0.8"]) == 0
    printed = " ".join(capsys.readouterr().err.split())
    assert "use --shingle chars:3 and lower limits in --field" in printed
    low = ["--overwrite", "--threshold", "0.2", "--recall", "0.999999", "--k", "4"]
    assert run([*command, *low]) == 2
    assert "raise --k or lower --recall" in capsys.readouterr().err


def test_form_of_the_library_returns_after_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "nowhere"]) == 2
    assert name_setting("threshold") == "`threshold`"


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        (SettingForm.KEYWORD, ("`key`", "exclude=['a b', 'c']", "k=8")),
        (SettingForm.OPTION, ("--key-file", "--exclude 'a b' --exclude c", "--k 8")),
        (SettingForm.FIELD, ('"key"', '"exclude": ["a b", "c"]', '"k": 8')),
    ],
)
def test_names_and_values_have_the_form_of_the_process(
    form: SettingForm, shown: tuple[str, str, str]
) -> None:
    with settings_named_as(form):
        assert name_setting("key") == shown[0]
        assert name_setting("exclude", ["a b", "c"]) == shown[1]
        assert name_setting("k", 8) == shown[2]


def test_servers_of_one_process_may_stop_in_the_order_in_which_they_started() -> None:
    first = settings_named_as(SettingForm.FIELD)
    second = settings_named_as(SettingForm.OPTION)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert name_setting("threshold") == "--threshold"
    second.__exit__(None, None, None)
    assert name_setting("threshold") == "`threshold`"
