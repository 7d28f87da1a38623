"""Files through the readers of the local engine: ids, quarantine, outputs.

And what goes wrong in a task.
"""

import gzip
import inspect
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.cli.app import run
from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.spark.session import from_task
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.engine.spark.sources import FrameSource
from nearkin.errors import RunError, UsageError
from nearkin.runtime.progress import Silent
from nearkin.settings.spec import Spec
from nearkin.stages.measures import Measure
from nearkin.stages.sketch.resources import NO_RESOURCES
from tests.counted_stages import CountedStages
from tests.engine.spark.conftest import rows_of

HOSTILE = [
    b'{"id": 1, "text": null}',
    b"not json",
    b'{"text": "no id here"}',
    b'{"id": "bad", "text": "\xff"}',
    b'{"id": 3}',
]
BANDED = ["--threshold", "0.7", "--bands", "20", "--rows", "5"]


@pytest.fixture(scope="module")
def mixed(code: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parquet, JSON lines and CSV, some of it damaged, with ids that occur more than once."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "a").mkdir()
    table = code.select(["id", "text", "package", "stamp"])
    part = 2 * len(table) // 5
    pq.write_table(table.slice(0, part), folder / "a" / "one.parquet", row_group_size=100)
    lines = [json.dumps(row).encode() for row in table.slice(part, part).to_pylist()]
    lines[100:100] = HOSTILE
    (folder / "two.jsonl.gz").write_bytes(gzip.compress(b"\n".join(lines)))
    pa.csv.write_csv(table.slice(2 * part), folder / "three.csv")
    (folder / "again.jsonl").write_bytes(b"\n".join(lines[:20]))
    (folder / "broken.parquet").write_bytes(b"PAR1 this is none")
    write_damaged_batch(folder / "damaged.arrow", table.slice(0, 20))
    doors = [
        {"id": f"t{number}", "text": f"user {number % 9} opened door {number % 4} at 10:{number}"}
        for number in range(20, 50)
    ]
    (folder / "doors.jsonl").write_text("\n".join(map(json.dumps, doors)))
    return folder


def write_damaged_batch(path: Path, table: pa.Table) -> None:
    """Writes rows twice, with a column that is only copied and is damaged the second time."""
    note = pa.array(["note"] * len(table))
    offsets = np.frombuffer(note.buffers()[1], np.int32).copy()
    offsets[3] = 1 << 30
    damaged = pa.Array.from_buffers(
        note.type, len(note), [None, pa.py_buffer(offsets), note.buffers()[2]]
    )
    schema = table.schema.append(pa.field("note", pa.string()))
    with pa.ipc.new_file(path, schema) as writer:
        for values in (note, damaged):
            columns = [*table.combine_chunks().to_batches()[0].columns, values]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def same_outputs(a: Path, b: Path) -> dict[str, Any]:
    """Runs two commands, the second over Spark, and returns its facts."""
    for name in ("clusters.parquet", "pairs.parquet"):
        assert pq.read_table(a / name).to_pylist() == pq.read_table(b / name).to_pylist(), name
    assert (a / "rejected.jsonl").read_bytes() == (b / "rejected.jsonl").read_bytes()
    names = [
        sorted(str(p.relative_to(x / "kept")) for p in (x / "kept").rglob("*") if p.is_file())
        for x in (a, b)
    ]
    assert names[0] == names[1]
    for name in names[0]:
        if not name.endswith(".gz"):
            assert (a / "kept" / name).read_bytes() == (b / "kept" / name).read_bytes(), name
    facts = [json.loads((x / "run.json").read_bytes()) for x in (a, b)]
    for name in ("counts", "spec", "bands", "rows", "inputs", "parameters"):
        assert facts[0][name] == facts[1][name], name
    reports = [json.loads((x / "report.json").read_bytes()) for x in (a, b)]
    for name in (
        "counts",
        "cluster_sizes",
        "verified",
        "sources",
        "rejected",
        "clusters",
        "parameters",
        "warnings",
    ):
        assert reports[0][name] == reports[1][name], name
    # a report without a sample, as that of a run with a reference, has none
    assert reports[0].get("templates") == reports[1].get("templates")
    assert not [p for p in (b, *b.rglob("*")) if p.stat().st_mode & 0o077]
    # Without verified pairs, neither report has a histogram.
    has_pairs = pq.read_metadata(a / "pairs.parquet").num_rows > 0
    charts = ["<svg" in (folder / "report.html").read_text("utf-8") for folder in (a, b)]
    assert charts == [has_pairs, has_pairs]
    return dict(facts[1])


@pytest.mark.parametrize(
    "options",
    [
        ("--sizes", "--keep-up-to", "2", "--keep", "most-complete, stamp desc"),
        pytest.param(
            ("--annotate", "--keep", "stamp desc, length asc", "--hot-bucket-size", "20"),
            marks=pytest.mark.full,
        ),
        pytest.param(
            ("--keep", "stamp desc, length asc", "--hot-bucket-size", "20"), marks=pytest.mark.full
        ),
    ],
)
def test_command_over_spark_writes_what_the_local_engine_writes(
    options: tuple[str, ...],
    spark: SparkSession,
    mixed: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = ["dedup", str(mixed), "--id", "id", "--source", "package", *BANDED, *options]
    assert run([*command, "--out", str(tmp_path / "local")]) == 0
    with monkeypatch.context() as patch:
        progress = CountedStages.replace_displays(patch)
        assert run([*command, "--engine", "spark", "-o", str(tmp_path / "spark"), "--json"]) == 0, (
            capfd.readouterr().err
        )
    assert list(progress.totals) == [
        *("sketch", "collapse", "candidates", "verify", "cluster", "write")
    ]
    assert progress.counted == progress.totals
    assert json.loads(capfd.readouterr().out)["engine"] == "spark"
    facts = same_outputs(tmp_path / "local", tmp_path / "spark")
    templates = json.loads((tmp_path / "spark" / "report.json").read_bytes())["templates"]
    assert templates["largest"][0]["texts"] == 30
    stages = facts["stages"]
    # an estimate, which counts rejected rows
    assert progress.totals["sketch"] == pytest.approx(stages["sketch"]["documents"], rel=0.1)
    assert stages["sketch"]["skew"] >= 1
    assert stages["candidates"]["shuffle_bytes"] > 0
    # nothing where an earlier test's worker had them
    longest, all_of_them = stages["sketch"]["kernels_loaded"]
    assert 0 <= longest <= all_of_them
    assert stages["candidates"]["bucket_sizes"][0][0] == 1
    assert facts["metrics"]["bucket_size_max"] >= 2
    assert facts["metrics"]["verify_drop_rate"] is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local", "spark"]
    given = tmp_path / "like.jsonl"
    given.write_text(json.dumps({"id": "x", "text": "user 2 opened door 0 at 10:20"}))
    purges = []
    for name in ("local", "spark"):
        out = str(tmp_path / f"{name}-purged")
        assert run(["purge", str(tmp_path / name), "--like", str(given), "--out", out, "-q"]) == 0
        purges.append(pq.read_table(Path(out) / "clusters.parquet"))
    assert purges[0] == purges[1]
    assert pc.equal(purges[0]["kind"].cast(pa.string()), "blocked").to_pylist().count(True) == 1
    # Looking back at it is as at any run.
    first = (
        pq.read_table(tmp_path / "spark" / "clusters.parquet")
        .filter(pc.field("kind") == "near")
        .to_pylist()[0]
    )
    assert run(["explain", first["id"], first["cluster"], "--run", str(tmp_path / "spark")]) == 0


def test_wrong_options_are_refused_and_nothing_is_written(
    spark: SparkSession, mixed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["dedup", str(mixed / "three.csv"), "--out", str(tmp_path / "out")]
    for more, message in (
        (["--engine", "hadoop"], "--engine hadoop is not one of local, spark"),
        (["--master", "local[2]"], "--master has no effect with --engine local"),
        (
            ["--engine", "spark", "--conf", "memory=2g"],
            "--conf memory=2g is not of the form spark.NAME=VALUE",
        ),
        (["--engine", "spark", "--second-measure", "cosine:v:0.9"], "needs the local engine"),
        (["--engine", "spark", "--text", "missing"], "no column 'missing'"),
        (["--engine", "spark", "--codec", "zstd"], "--codec zstd needs the local engine"),
        (["--engine", "spark", "--save-signatures"], "--save-signatures needs the local engine"),
    ):
        assert run([*command, *more]) == 2
        errors = capfd.readouterr().err
        assert message in errors
        assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()
    assert (
        run(
            [
                "dedup",
                str(mixed),
                "--engine",
                "spark",
                "--on-error",
                "fail",
                "--out",
                str(tmp_path / "out"),
            ]
        )
        == 1
    )
    errors = capfd.readouterr().err
    # Whichever file a task comes to first.
    assert "reject such rows with --on-error quarantine" in errors
    assert "Traceback" not in errors


def test_invalid_rows_of_a_frame_are_rejected(spark: SparkSession, frame: DataFrame) -> None:
    rows = [
        (1, "one two three four"),
        (2, None),
        (None, "five six"),
        (3, "one two three four"),
        (4, ""),
    ]
    some = spark.createDataFrame(rows, "id long, text string")
    with nks.dedup(some, id="id") as result:
        assert sorted((row.id, row.reason) for row in result.rejected.collect() if row.id) == [
            ("2", "text is null")
        ]
        assert result.stages["sketch"]["rejected"] == 2
        assert {row.id: row.kind for row in result.clusters.collect()} == {
            "1": "kept",
            "3": "exact",
            "4": "empty",
        }
        assert sorted(row.id for row in result.kept.collect()) == [1, 4]
    with pytest.raises(RunError, match="document 2: text is null"):
        nks.dedup(some.where("id = 2"), id="id", on_error="fail")
    with pytest.raises(UsageError, match="ids occur more than once in column 'id' \\('1'\\)"):
        nks.dedup(some.where("id = 1").union(some.where("id = 1")), id="id")
    with pytest.raises(UsageError, match="no column 'body'"):
        nks.dedup(some, id="id", text="body")
    with pytest.raises(UsageError, match="unknown setting 'colour'"):
        nks.dedup(some, id="id", colour="red")


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"include": ["*.csv"]}, "a DataFrame has no files"),
        ({"delimiter": ";"}, "a DataFrame has no files"),
        ({"second_measure": "cosine:vector:0.9"}, "needs the local engine"),
        ({"workers": 8}, "a setting of Spark"),
        ({"key": nk.HashKey(bytes(range(16)))}, "a hash key is not sent to the tasks of Spark"),
        ({"distance": 3, "threshold": 0.9, "measure": "simhash"}, "exclude each other"),
        ({"spec": Spec(), "k": 64}, "exclude each other"),
        ({"k": "64"}, "k='64' is of type str"),
        ({"settings": {"tresh": 0.9}}, "unknown setting 'tresh'"),
        ({"settings": {"second_measure": "cosine:vector:0.9"}}, "needs the local engine"),
        ({"settings": {"k": 64}, "spec": Spec()}, r"exclude each other.*\(k is set by settings"),
    ],
)
def test_parameters_that_spark_cannot_follow_are_refused(
    frame: DataFrame, parameters: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        nks.dedup(frame, id="id", **parameters)


def test_keywords_of_spark_are_those_of_the_local_engine() -> None:
    local = inspect.signature(nk.dedup).parameters
    spark = inspect.signature(nks.dedup).parameters
    common = set(local) & set(spark)
    assert set(local) - common == {"data", "scope"}
    assert set(spark) - common == {"frame", "merge_parts", "extend", "before"}
    assert all(spark[name].default == local[name].default for name in common - {"id"})
    assert "shingle: Unit and length of a shingle" in (nks.dedup.__doc__ or "")


@pytest.mark.parametrize(
    "options", [{"bands": 20, "rows": 5}, pytest.param({}, marks=pytest.mark.full)], ids=str
)
def test_empty_frame_gives_empty_results(
    options: dict[str, Any], spark: SparkSession, frame: DataFrame
) -> None:
    with nks.dedup(frame.limit(0), id="id", **options) as result:
        assert result.clusters.count() == result.pairs.count() == result.statistics["read"] == 0
        with pytest.raises(UsageError, match="nothing was cut; deduplicate again with passages=50"):
            _ = result.cuts
        with pytest.raises(UsageError, match="repeated lines were not searched for"):
            _ = result.repeated_lines


@dataclass(frozen=True)
class Killing(TaskRequest):
    """A request whose first task of each stage is killed at its first attempt."""

    @property
    def measure(self) -> Measure:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and context.partitionId() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().measure


def test_killed_tasks_are_repeated_with_the_same_result(
    spark: SparkSession, code: pa.Table, frame: DataFrame, tmp_path: Path
) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    settings = RunOptions(bands=20, rows=5, threshold=0.7, hot_bucket_size=10)
    request = Killing(Columns(id="id"), settings, NO_RESOURCES)
    killed = SparkRun(
        spark,
        FrameSource(frame.repartition(3), request),
        request,
        Silent(),
        IntermediateTables(spark, str(tmp_path / "t")),
    )
    killed.to_clusters()
    local = nk.dedup(code, id="id", bands=20, rows=5, threshold=0.7, hot_bucket_size=10)
    assert rows_of(killed.clusters.drop("doc").toArrow()) == rows_of(local.clusters.arrow)


def test_a_failed_task_names_its_document() -> None:
    converted = from_task(
        "Job aborted\n  File x\nnearkin.errors.RunError: document 'x7': ValueError: odd\n\n\tat "
        "org.apache.spark"
    )
    assert isinstance(converted, RunError)
    assert str(converted) == "document 'x7': ValueError: odd"
