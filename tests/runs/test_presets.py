"""Presets: named settings files of the package."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.options import RunOptions
from nearkin.engine.settings_file import PRESETS, Settings
from nearkin.errors import UsageError
from nearkin.settings.spec import Spec

PAGE = Path(__file__).parents[2] / "docs/contributing/measured-presets.md"
TEXTS = [
    "Anna Miller, 12 Hill Road, Springfield",
    "Ana Miler, 12 Hill Rd., Springfield",
    "Error 404 at 12:01:55 in worker 7",
    "Error 500 at 13:44:02 in worker 12",
    "An unrelated line about nothing else",
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("presets") / "corpus.parquet"
    pq.write_table(pa.table({"text": TEXTS}), path)
    return path


@pytest.mark.parametrize("name", PRESETS)
def test_preset_gives_the_result_of_its_plain_options(name: str) -> None:
    values: dict[str, Any] = dict(Settings.of_preset(name).values)
    by_preset = nk.dedup(TEXTS, preset=name)
    by_options = nk.dedup(TEXTS, **values)
    assert by_preset.clusters.arrow.equals(by_options.clusters.arrow)
    listed = nk.pairs(TEXTS, preset=name, expand_exact=True).pairs.arrow
    assert listed.num_rows >= len(TEXTS) - by_preset.kept.sum()


@pytest.mark.parametrize("name", PRESETS)
def test_run_record_has_the_plain_options_of_a_preset(
    name: str, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run(["dedup", str(corpus), "--preset", name, "--out", str(out)]) == 0
    record = json.loads((out / "run.json").read_text())
    values = Settings.of_preset(name).values
    assert record["parameters"]["threshold"] == values["threshold"]
    assert record["parameters"]["cluster"] == values["cluster"]
    assert record["spec"]["measure"] == values["measure"]
    assert record["spec"]["normalise"] == list(values["normalise"])  # type: ignore[call-overload]
    assert f"{record['spec']['unit']}:{record['spec']['n']}" == values["shingle"]
    assert "preset" not in record["parameters"]


def test_given_options_win_over_a_preset(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = ["--threshold", "0.9", "--shingle", "words:1"]
    assert run(["dedup", str(corpus), "--preset", "records", *given, "--out", str(out)]) == 0
    record = json.loads((out / "run.json").read_text())
    assert (record["parameters"]["threshold"], record["spec"]["unit"]) == (0.9, "words")
    assert record["spec"]["measure"] == "idf-jaccard"
    given_measure = nk.dedup(TEXTS, preset="records", measure="jaccard")
    plain = nk.dedup(TEXTS, shingle="chars:3", threshold=0.68)
    assert given_measure.clusters.arrow.equals(plain.clusters.arrow)


def test_pairs_take_a_preset(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "pairs.parquet"
    arguments = ["pairs", str(corpus), "--preset", "logs", "--expand-exact", "--out", str(out)]
    assert run(arguments) == 0
    listed = nk.pairs(TEXTS, preset="logs", expand_exact=True).pairs.arrow
    assert pq.read_table(out).num_rows == listed.num_rows > 0


def test_logs_may_remove_most_lines(tmp_path: Path) -> None:
    source = tmp_path / "lines.csv"
    events = ("opened", "closed", "refused", "moved", "found", "lost")
    lines = [f"user{number} {event} by host" for number in range(5) for event in events]
    source.write_text("\n".join(["text", *lines]))
    out = tmp_path / "out"
    options = ["--preset", "logs", "--threshold", "0.2", "--shingle", "words:1"]
    options += ["--quiet", "--out", str(out)]
    assert run(["dedup", str(source), *options]) == 0
    assert json.loads((out / "run.json").read_text())["counts"]["kept"] == 1


def test_unknown_preset_and_two_settings_are_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match=r"preset='record' is not one of .* did you mean.*records"):
        nk.dedup(TEXTS, preset="record")
    with pytest.raises(UsageError, match="exclude each other"):
        nk.dedup(TEXTS, preset="records", settings={"threshold": 0.5})
    out = tmp_path / "out"
    assert run(["dedup", str(corpus), "--preset", "log", "--out", str(out)]) == 2
    assert "--preset log is not one of" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


@pytest.mark.parametrize("name", PRESETS)
def test_page_lists_the_settings_of_each_preset(name: str) -> None:
    row = re.search(rf"^\| `{name}` \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert row is not None
    cells = [cell.strip() for cell in row[1].split("|")]
    values = Settings.of_preset(name).values
    options = RunOptions(
        spec=Spec(measure="jaccard"),
        threshold=float(str(values["threshold"])),
        cluster=str(values["cluster"]),
    )
    steps = ",".join(values["normalise"])  # type: ignore[arg-type]
    want = f"{values['shingle']}, {steps}, {values['measure']}, {options.threshold:g}"
    if options.cluster != "leaders":
        want += f", {options.cluster}"
    assert cells[1] == f"`{want}`"
