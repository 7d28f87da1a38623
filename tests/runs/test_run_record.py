"""The run record: the content of run.json does not change, and is read as it was written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runs.reopen import audit_run
from nearkin.runs.run_record import RunRecord, read_run_record
from nearkin.runtime.progress import Silent
from nearkin.runtime.setting_names import SettingForm, settings_named_as

GOLDEN = Path(__file__).parent / "golden"
VARYING = frozenset(
    {
        "seconds",
        "build_latency",
        "signature_build_latency_p50",
        "signature_build_latency_p99",
        "peak_memory",
        "modified",
        "nearkin",
        "path",
        "out",
    }
)
"""The entries that differ between two runs of the same request, or between machines."""
TEXTS = [
    "the quick brown fox jumps over the lazy dog near the river bank today",
    "the quick brown fox jumps over the lazy dog near the river bank tonight",
    "an entirely different document about the price of copper in Chile",
    "an entirely different document about the price of copper in Chile",
    "",
    "short",
]


def without_varying(value: Any) -> Any:
    """Returns a JSON value in which the entries that vary are replaced by their type.

    Versions are left out, and so are seconds of compilation, which are recorded only if kernels
    were compiled.
    """
    if isinstance(value, list):
        return [without_varying(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: type(item).__name__ if name in VARYING else without_varying(item)
        for name, item in value.items()
        if name not in ("compile_seconds", "software")
    }


def read_golden(name: str) -> Any:
    """Returns a golden record, with values of their types for the entries that vary."""
    samples = {"float": 0.5, "int": 1}

    def with_values(value: Any) -> Any:
        if isinstance(value, list):
            return [with_values(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            name: samples.get(item, item)
            if name in VARYING and isinstance(item, str)
            else with_values(item)
            for name, item in value.items()
        }

    return with_values(json.loads((GOLDEN / f"{name}.json").read_bytes()))


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Returns a JSON Lines file with ids, of which one row is not valid, in a folder with a link
    and a folder that are skipped."""
    folder = tmp_path / "docs"
    folder.mkdir()
    rows = [json.dumps({"id": f"d{number}", "text": text}) for number, text in enumerate(TEXTS)]
    (folder / "part.jsonl").write_text("\n".join([*rows, '{"id": "d9", "text": null}']) + "\n")
    (folder / ".hidden").mkdir()
    (folder / "pipe").symlink_to(folder / "missing")
    return folder


def deduplicate(folder: Path, out: Path, **options: Any) -> Path:
    """Runs nearkin dedup over a folder, with signatures."""
    settings = RunOptions(threshold=0.6, **options)
    run_dedup(Job((str(folder),), out, Columns(id="id"), settings, save_signatures=True), Silent())
    return out


def require_golden(out: Path, name: str) -> None:
    """Requires that run.json of a folder is the golden one, apart from what varies."""
    text = (out / "run.json").read_text().replace(str(out.parent / "docs"), "DOCUMENTS")
    record = without_varying(json.loads(text))
    assert record == json.loads((GOLDEN / f"{name}.json").read_bytes())


def test_run_json_of_a_banded_run_is_unchanged(documents: Path, tmp_path: Path) -> None:
    with settings_named_as(SettingForm.OPTION):
        out = deduplicate(documents, tmp_path / "out", bands=20, rows=3, hot_bucket_size=2)
    require_golden(out, "run-banded")


def test_run_json_names_the_libraries_that_decide_the_result(
    documents: Path, tmp_path: Path
) -> None:
    out = deduplicate(documents, tmp_path / "out")
    software = json.loads((out / "run.json").read_text())["software"]
    assert list(software) == ["numba", "numpy", "pyarrow", "python"]
    assert software["numpy"] == np.__version__


def test_run_json_of_a_brute_force_run_with_an_audit_is_unchanged(
    documents: Path, tmp_path: Path
) -> None:
    with settings_named_as(SettingForm.OPTION):
        out = deduplicate(documents, tmp_path / "out")
        audit_run(out, Silent())
    require_golden(out, "run-audited")


def test_run_json_of_a_library_result_is_unchanged(tmp_path: Path) -> None:
    table = pa.table({"id": [f"d{number}" for number in range(len(TEXTS))], "text": TEXTS})
    nk.dedup(table, id="id", threshold=0.6).write(tmp_path / "out")
    require_golden(tmp_path / "out", "run-library")


@pytest.mark.parametrize("name", ["run-banded", "run-audited", "run-library"])
def test_a_run_record_is_restored_as_it_was_written(name: str) -> None:
    written = read_golden(name)
    assert json.loads(json.dumps(RunRecord.from_json(written).to_json())) == written


def test_a_run_record_declares_the_statistics_of_the_stages() -> None:
    record = RunRecord.from_json(read_golden("run-banded"))
    assert record.stats.candidates is not None
    assert record.stats.candidates.candidates == 1
    assert record.columns_of(Path("out")).id == "id"
    assert record.spec.fingerprint == record.require_files(Path("out")).spec_fingerprint


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "Expecting value"),
        ("[1, 2]", "is not the output of a run"),
        ("[" * 100_000, "is not the output of a run"),
        ("{}", "missing required field `nearkin`"),
        ('{"nearkin": "1", "spec": {}, "parameters": {}, "counts": {}, "stages": {}}',
         "missing required field `metrics`"),
        ('{"nearkin": "1", "spec": {}, "parameters": {}, "counts": {}, "stages": {}, '
         '"metrics": 5}', "is not the output of a run"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_a_run_record_is_an_error(
    content: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(UsageError, match=reason):
        read_run_record(tmp_path / "run.json")


def test_a_library_result_is_not_a_run_over_files() -> None:
    record = RunRecord.from_json(read_golden("run-library"))
    with pytest.raises(UsageError, match="not the output of nearkin dedup on files"):
        record.require_files(Path("out"))
