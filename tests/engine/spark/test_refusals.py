"""Options that need the local engine are refused before anything is written or a session starts."""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

import nearkin as nk
from nearkin import spark as nks
from nearkin.cli.app import run
from nearkin.corpus import Columns
from nearkin.errors import UsageError
from nearkin.runtime.outputs import LOCK, MANIFEST
from nearkin.spark.frames import REFUSED_PARAMETERS, _with_dimensions

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "run-on-spark.md"
GIVEN: dict[str, Any] = {
    "workers": 2,
    "second_measure": "cosine:vector:0.9",
    "hidden": True,
    "follow_links": True,
    "include": ["*.txt"],
    "exclude": ["*.txt"],
}
FLAGS: dict[str, tuple[list[str], str]] = {
    "--second-measure": (["cosine:vector:0.9"], "run it there over the kept documents"),
    "--save-signatures": ([], "nearkin.spark.save saves signatures and band keys"),
    "--codec": (["zstd"], "copies of Parquet files have the codec of their inputs"),
    "--key-file": (["KEY"], "a hash key is not sent to the tasks of Spark"),
}


def listed_in_guide(heading: str) -> set[str]:
    """Returns the names in the first column of the table under a sentence of the guide."""
    table = GUIDE.read_text("utf-8").split(heading)[1].lstrip().split("\n\n")[0]
    cells = [row[1:].split("|")[0] for row in table.splitlines()[2:]]
    return {name for cell in cells for name in re.findall("`([^`]+)`", cell)}


@pytest.mark.parametrize("name", REFUSED_PARAMETERS)
def test_parameters_that_spark_cannot_follow_are_refused_with_the_reason(name: str) -> None:
    options: dict[str, Any] = {name: GIVEN.get(name, "value")}
    with pytest.raises(UsageError, match="is not possible with Spark") as refused:
        nks.dedup(cast(DataFrame, SimpleNamespace(sparkSession=None)), id="id", **options)
    assert REFUSED_PARAMETERS[name] in str(refused.value)


def test_every_parameter_of_the_local_engine_is_followed_or_refused_with_a_reason() -> None:
    local = set(inspect.signature(nk.dedup).parameters) - {"data"}
    assert local <= {*inspect.signature(nks.dedup).parameters, *REFUSED_PARAMETERS}


def test_the_guide_lists_all_refused_parameters() -> None:
    listed = listed_in_guide("These are refused:")
    assert listed == {*REFUSED_PARAMETERS, "key"}


@pytest.mark.parametrize("flag", FLAGS)
def test_options_of_files_that_need_the_local_engine_are_refused(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values, reason = FLAGS[flag]
    contents = {
        "KEY": "0" * 31 + "1",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    data = tmp_path / "texts.jsonl"
    data.write_text('{"id": 1, "text": "a text of some words", "vector": [1, 2]}\n')
    given = [str(tmp_path / value) if value in contents else value for value in values]
    command = ["dedup", str(data), "--id", "id", "--engine", "spark", flag, *given]
    assert run([*command, "-o", str(tmp_path / "out")]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["dedup", "decontaminate"])
def test_an_unfinished_run_is_not_resumed_but_started_again(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "texts.jsonl"
    data.write_text('{"id": 1, "text": "a text of some words", "question": "How many words?"}\n')
    line = [command, str(data), "--engine", "spark", "--resume", "-o", str(tmp_path / "out")]
    if command == "decontaminate":
        suite = tmp_path / "suite.jsonl"
        suite.write_bytes(data.read_bytes())
        line += ["--against", str(suite)]
    assert run(line) == 2
    errors = " ".join(capsys.readouterr().err.split())
    assert "a run with Spark cannot be resumed; leave --resume out to start it" in errors
    work_folder = tmp_path / "out.partial"
    assert not work_folder.exists()
    work_folder.mkdir()
    for name in (LOCK, MANIFEST):
        (work_folder / name).write_text("{}")
    assert run(line) == 2
    errors = " ".join(capsys.readouterr().err.split())
    assert "start it again with --overwrite in place of --resume" in errors


def test_the_guide_lists_all_refused_options_of_files() -> None:
    listed = listed_in_guide("On the command line, these are refused with `--engine spark`:")
    assert listed == {*FLAGS, "--resume"}


def test_vectors_that_are_not_arrays_are_refused() -> None:
    frame = SimpleNamespace(columns=["id", "v"], schema=StructType().add("v", "string"))
    with pytest.raises(UsageError, match="column 'v' is string, not an array of numbers"):
        _with_dimensions(cast(DataFrame, frame), Columns(text=None, vector="v", id="id"))


def test_earlier_rows_without_a_saved_run_are_refused() -> None:
    frame = cast(DataFrame, SimpleNamespace(sparkSession=None))
    with pytest.raises(UsageError, match="before= has no effect without extend="):
        nks.dedup(frame, id="id", before=frame)
    with pytest.raises(UsageError, match="before= is list, not a Spark DataFrame"):
        nks.dedup(frame, id="id", extend="saved", before=cast(DataFrame, []))
