import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.cli.app import run
from nearkin.errors import UsageError
from tests.engine.reference_oracle import make_texts, share_texts
from tests.engine.spark.conftest import ordered_pairs
from tests.engine.spark.test_files import same_outputs


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table]:
    """New documents and a reference, whose ids collide."""
    old = make_texts(31, 60)
    new = share_texts(31, old, 45)
    # Shingles that a text repeats count once.
    new += [f"{text} {text}" for text in old[:3]]
    return make_table(new), make_table(old)


def make_table(texts: list[str]) -> pa.Table:
    names = ["é", "#", "a#b:1", "n1", "r1", *(f"d{number}" for number in range(len(texts)))]
    blocks = [f"b{number % 3}" for number in range(len(texts))]
    keys = [None if number % 11 else f"{len(text) % 40}" for number, text in enumerate(texts)]
    links = [f"https://x.org/{text[:4]}#{number}" for number, text in enumerate(texts)]
    table = pa.table({"id": names[: len(texts)], "text": texts, "block": blocks})
    return table.append_column("key", pa.array(keys, pa.string())).append_column("link", [links])


def to_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table.to_pandas())


# the quick form has a reference of rows in test_blocking.py
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"block_by": "block"}, marks=pytest.mark.full),
        pytest.param({"only_against": True}, marks=pytest.mark.full),
        pytest.param(
            {"threshold": 0.9, "related": 0.2, "bands": 40, "rows": 2}, marks=pytest.mark.full
        ),
        pytest.param({"bands": 16, "rows": 3, "keep": "central"}, marks=pytest.mark.full),
        pytest.param(
            {"same": "key", "url": "link", "block_by": "block", "empty": "drop"},
            marks=pytest.mark.full,
        ),
        pytest.param(
            {"accept": "jaccard >= 0.3 and witness >= 12 and same(block)"}, marks=pytest.mark.full
        ),
        pytest.param(
            {"accept": "containment >= 0.8 and length_ratio <= 1", "bands": 16, "rows": 3},
            marks=pytest.mark.full,
        ),
    ],
    ids=str,
)
def test_rows_are_those_of_the_local_engine(
    spark: SparkSession, tables: tuple[pa.Table, pa.Table], options: dict[str, Any]
) -> None:
    new, old = tables
    options = {"id": "id", "threshold": 0.6, **options}
    if "accept" in options:
        del options["threshold"]
    local = nk.dedup(new, against=old, **options)
    want = {row["id"]: row for row in local.clusters.arrow.to_pylist()}
    with nks.dedup(to_frame(spark, new), against=to_frame(spark, old), **options) as result:
        rows = {row["id"]: row.asDict() for row in result.clusters.collect()}
        assert rows == want
        if "related" in options:
            related = [result.related.toArrow(), local.related.arrow]
            assert ordered_pairs(related[0]) == ordered_pairs(related[1])
            linked = [
                sorted(
                    tuple(row.values())
                    for row in table.to_pylist()
                    if row["matched_in"] == "reference"
                )
                for table in related
            ]
            assert linked[0] == linked[1]
            assert 0 < len(linked[0]) < len(related[0])
        assert result.statistics == local.statistics
        assert {row["id"] for row in result.kept.collect()} == {
            id for id, row in want.items() if row["kept"]
        }
        recorded = result.stages["against"]
        assert recorded["documents"] == old.num_rows
        with pytest.raises(UsageError, match="ids of clusters can be those of the reference"):
            result.cluster_columns()
    assert {"reference"} <= {row["matched_in"] for row in want.values()}


def write_inputs(folder: Path, tables: tuple[pa.Table, pa.Table]) -> None:
    """Writes new documents and references in files: ids occur on both sides and more than once."""
    new, old = tables
    for name in ("new", "old"):
        (folder / name).mkdir()
    halves = [old.slice(0, 30), old.slice(30)]
    pq.write_table(pa.concat_tables([new, new.slice(0, 3)]), folder / "new" / "new.parquet")
    pq.write_table(pa.concat_tables([halves[0], halves[0].slice(5, 4)]), folder / "old" / "a.pq")
    lines = [json.dumps(row) for row in halves[1].to_pylist()]
    (folder / "old" / "b.jsonl").write_text("\n".join([*lines, '{"id": "x"}', *lines[:2]]))
    renamed = halves[1].rename_columns(["name", "body", "block", "key", "link"])
    pq.write_table(renamed, folder / "renamed.parquet")


@pytest.mark.parametrize(
    "options",
    [
        [
            *("--annotate", "--block-by", "block", "--blocklist", "blocked.list"),
            *("--related", "0.3", "--same", "key"),
        ],
        pytest.param(["--max-lost", "0.4"], marks=pytest.mark.full),
        pytest.param(
            ["--annotate", "--accept", "containment >= 0.7 and length_ratio <= 1.1"],
            marks=pytest.mark.full,
        ),
        pytest.param(["--annotate", "--block-by", "block"], marks=pytest.mark.full),
        pytest.param(["--only-against", "--against", "table.lance"], marks=pytest.mark.full),
        pytest.param(
            ["--only-against", "--threshold", "0.9", "--related", "0.2"], marks=pytest.mark.full
        ),
        pytest.param(["--bands", "16", "--rows", "3"], marks=pytest.mark.full),
    ],
    ids=str,
)
def test_files_are_those_of_the_local_engine(
    spark: SparkSession,
    tables: tuple[pa.Table, pa.Table],
    options: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_inputs(tmp_path, tables)
    monkeypatch.chdir(tmp_path)
    blocklist = nk.Blocklist()
    blocklist.add(tables[0]["text"].to_pylist()[1:4], ["req-1", "req-2", "req-3"])
    blocklist.save("blocked.list")
    if "table.lance" in options:
        lance = pytest.importorskip("lance")
        lance.write_dataset(tables[1].slice(10, 5), "table.lance")
    finished = ["dedup", str(tmp_path / "renamed.parquet"), "--id", "name", "--text", "body"]
    assert run([*finished, "--block-by", "block", "-o", str(tmp_path / "finished")]) == 0
    command = ["dedup", str(tmp_path / "new"), "--id", "id", *options]
    if not {"--threshold", "--accept"} & set(options):
        command += ["--threshold", "0.6"]
    for reference in ("old", "finished"):
        command += ["--against", str(tmp_path / reference)]
    assert run([*command, "--out", str(tmp_path / "local")]) == 0
    assert run([*command, "--engine", "spark", "--out", str(tmp_path / "spark")]) == 0
    facts = same_outputs(tmp_path / "local", tmp_path / "spark")
    if "--related" in options:
        related = [
            pq.read_table(tmp_path / engine / "related.parquet").to_pylist()
            for engine in ("local", "spark")
        ]
        assert related[0] == related[1]
        in_reference = [row for row in related[0] if row["matched_in"] == "reference"]
        assert len({row["id_a"] for row in in_reference}) > 2
    local = json.loads((tmp_path / "local" / "run.json").read_bytes())
    assert facts["information_lost"] == local["information_lost"]
    assert facts["against"] == local["against"]
    assert ("tables" in facts["against"]) == ("table.lance" in options)
    assert facts["counts"]["removed_reference"] > 0
    if "--blocklist" in options:
        assert facts["counts"]["removed_blocked"] > 0
    for name in ("references", "documents", "rejected", "exact", "near"):
        assert facts["stages"]["against"][name] == local["stages"]["against"][name], name


def test_a_run_without_copies_is_refused_as_a_reference(
    tables: tuple[pa.Table, pa.Table], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_inputs(tmp_path, tables)
    saved = str(tmp_path / "saved")
    reference = ["dedup", str(tmp_path / "old"), "--id", "id", "--save-signatures"]
    assert run([*reference, "--output", "ids", "-o", saved]) == 0
    command = ["dedup", str(tmp_path / "new"), "--id", "id", "--against", saved]
    assert run([*command, "--engine", "spark", "-o", str(tmp_path / "out")]) == 2
    assert "the engine sketches each reference, and its kept documents cannot be" in (
        capfd.readouterr().err.replace("\n", " ")
    )
    assert not (tmp_path / "out").exists()


def test_contradictory_references_are_refused(
    spark: SparkSession, tables: tuple[pa.Table, pa.Table]
) -> None:
    frame = to_frame(spark, tables[0])
    refused: list[tuple[dict[str, Any], str]] = [
        ({"only_against": True}, "no effect without against="),
        ({"against": frame, "extend": "saved"}, "cannot be combined with extend="),
        ({"against": frame, "merge_parts": True}, "cannot be combined with extend="),
        ({"against": frame, "across": "block"}, "whatever their source is"),
        ({"against": frame.drop("text")}, "has no column 'text'"),
        ({"against": tables[1]}, "not a Spark DataFrame"),
    ]
    for options, message in refused:
        with pytest.raises(UsageError, match=message):
            nks.dedup(frame, id="id", **options)
