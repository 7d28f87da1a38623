"""A setting is declared once, and every door has it."""

import subprocess
import sys
from pathlib import Path

from nearkin.corpus.corpus import ON_ERROR
from nearkin.corpus.formats.parquet import CODECS
from nearkin.corpus.input_manifest import HashedPart
from nearkin.runs.document_output import OUTPUTS
from nearkin.runs.pairs import Relation
from nearkin.runtime.dialect import DELIMITER_NAMES
from nearkin.runtime.files import Readers
from nearkin.settings.table import SETTINGS, ClusterSettings
from tests.cli.test_contradictions import FACTS

DECLARATION = """
    tint: int = setting(
        2,
        "Depth of the tint of the kept documents.",
        CLUSTERING,
        metavar="DEPTH",
        range=NumberRange(1, 9),
        values=("3", "5"),
        excludes={"related": "related documents have no tint"},
        recorded=Recorded.IF_CHANGED,
    )
"""
DOORS = r"""
import contextlib, io, os, sys, types
from pathlib import Path

import nearkin.settings

table = types.ModuleType("nearkin.settings.table")
sys.modules["nearkin.settings.table"] = table
exec(compile(sys.stdin.read(), "table.py", "exec"), table.__dict__)
nearkin.settings.table = table

import nearkin as nk
from nearkin.cli.app import app, run
from nearkin.engine.options import RunOptions
from nearkin.engine.parameter_help import describe_keyword
from nearkin.engine.settings_file import Settings
from scripts.write_keywords import keyword_modules


def shown(*line):
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        run(list(line))
    return output.getvalue()


help_page = shown("dedup", "--help-all")
assert "--tint" in help_page and "DEPTH" in help_page and "Depth of the tint" in help_page
assert "--tint 10 is out of range; it must be from 1 to 9" in shown(
    "dedup", "x", "--tint", "10", "--out", "y")
assert "--tint and --related exclude each other: related documents have no tint" in shown(
    "dedup", "x", "--tint", "3", "--related", "0.5", "--out", "y")
assert any("    tint: int" in text for text in keyword_modules().values())
assert describe_keyword("tint") == (
    "    tint: Depth of the tint of the kept documents. Default: 2.\n")
assert "tint" not in RunOptions().parameters()
assert RunOptions(tint=4).parameters()["tint"] == 4
try:
    RunOptions(tint=0)
except nk.UsageError as error:
    assert "tint=0 is out of range; it must be from 1 to 9" in str(error)
else:
    raise AssertionError("the library does not know the range")
Path("nearkin.toml").write_text("[dedup]\ntint = 11\n")
assert "--tint 11 is out of range" in shown("dedup", "x", "--out", "y")
print("every door has it")
"""


def test_a_setting_that_is_added_to_the_table_is_at_every_door(tmp_path: Path) -> None:
    table = Path(sys.modules[ClusterSettings.__module__].__file__ or "").read_text("utf-8")
    place = f'class ClusterSettings:\n    """{ClusterSettings.__doc__}"""\n'
    assert place in table
    script = tmp_path / "doors.py"
    script.write_text(DOORS)
    done = subprocess.run(
        [sys.executable, str(script)],
        input=table.replace(place, place + DECLARATION),
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "every door has it\n", done.stderr


def test_closed_sets_of_the_table_are_those_of_the_code() -> None:
    dedup = FACTS["dedup"]["settings"]
    assert SETTINGS["on_error"].setting.values == ON_ERROR
    assert SETTINGS["hash_inputs"].setting.values == tuple(part.value for part in HashedPart)
    assert SETTINGS["delimiter"].setting.values == tuple(DELIMITER_NAMES)
    assert SETTINGS["readable_by"].setting.values == tuple(reader.value for reader in Readers)
    assert dedup["output"].values == OUTPUTS
    assert dedup["codec"].values == ("same", *CODECS)
    assert FACTS["pairs"]["settings"]["relation"].values == tuple(Relation)
