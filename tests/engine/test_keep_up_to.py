"""Tests of runs that keep several documents of each cluster."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import UsageError
from nearkin.runs.reopen import audit_run
from nearkin.runtime.progress import Silent
from tests.engine.test_keep_criteria import WORDS, make_versions

FLAGS = ["--id", "id", "--shingle", "words:1", "--threshold", "0.5", "--max-removed", "1"]


def keep_by_oracle(single: list[dict[str, Any]], table: pa.Table, most: int) -> dict[str, str]:
    """Returns the kind of each document, from the clusters of a run that keeps one document each.

    The keep order is that of the default policy: the longest text, then the smallest id.
    """
    lengths = {row["id"]: len(row["text"]) for row in table.to_pylist()}
    members = defaultdict(list)
    for row in single:
        if row["id"] != row["cluster"]:
            members[row["cluster"]].append(row["id"])
    kinds = {row["id"]: row["kind"] for row in single}
    for names in members.values():
        in_order = sorted(names, key=lambda name: (-lengths[name], name))
        kinds.update(dict.fromkeys(in_order[: most - 1], "further"))
    return kinds


@pytest.mark.parametrize("most", [1, 2, 4, 1000])
@pytest.mark.parametrize("keep", ["length desc", "central"])
def test_next_documents_in_keep_order_are_kept(most: int, keep: str) -> None:
    table = make_versions(21)
    single = nk.dedup(table, keep=keep, **WORDS)
    result = nk.dedup(table, keep=keep, keep_up_to=most, **WORDS)
    kinds = keep_by_oracle(single.clusters.to_pylist(), table, most)
    for row, before in zip(result.clusters.to_pylist(), single.clusters.to_pylist(), strict=True):
        assert row["kind"] == kinds[row["id"]]
        assert row["kept"] == (before["kept"] or kinds[row["id"]] == "further")
        assert (row["cluster"], row["similarity"]) == (before["cluster"], before["similarity"])
    kept = Counter(row["cluster"] for row in result.clusters.to_pylist() if row["kept"])
    sizes = Counter(row["cluster"] for row in result.clusters.to_pylist())
    assert kept == {name: min(size, most) for name, size in sizes.items()}


def test_counts_and_report_agree_with_the_kept_documents(tmp_path: Path) -> None:
    table = make_versions(22)
    result = nk.dedup(table, keep_up_to=2, **WORDS)
    single = nk.dedup(table, **WORDS)
    kinds = Counter(result.clusters.arrow["kind"].to_pylist())
    counts = result.statistics
    assert kinds["further"] > 5
    assert counts["kept"] == sum(result.kept)
    assert counts["kept"] == single.statistics["kept"] + kinds["further"]
    assert counts["removed_exact"] == kinds["exact"]
    assert counts["removed_near"] == kinds["near"]
    assert counts["removed"] == kinds["exact"] + kinds["near"] == len(result.removed)
    assert counts["clusters"] == single.statistics["clusters"]
    assert result.stages["cluster"]["further"] == kinds["further"]
    assert "further" not in single.stages["cluster"]
    report = result.report_data
    assert report.counts.removed_empty == 0
    assert report.cluster_sizes == single.report_data.cluster_sizes
    folder = result.write(tmp_path / "out", sizes=True)
    written = pq.read_table(folder / "kept/documents.parquet")
    assert written["id"].to_pylist() == table.filter(pa.array(result.kept))["id"].to_pylist()
    assert json.loads((folder / "run.json").read_bytes())["parameters"]["keep_up_to"] == 2


def test_runs_without_the_option_do_not_record_it(tmp_path: Path) -> None:
    folder = nk.dedup(make_versions(23), **WORDS).write(tmp_path / "out")
    assert "keep_up_to" not in json.loads((folder / "run.json").read_bytes())["parameters"]


@pytest.mark.parametrize("texts", [[], ["a b"], ["", " "], ["a", "a", "a"]])
def test_few_documents_have_a_result(texts: list[str]) -> None:
    data = {"text": pa.array(texts, pa.string())}
    result = nk.dedup(data, keep_up_to=2)
    assert sum(result.kept) == min(2, len(texts))


def test_higher_threshold_keeps_several_documents_too() -> None:
    table = make_versions(24)
    raised = nk.dedup(table, keep_up_to=3, **WORDS).rethreshold(0.7)
    again = nk.dedup(table, keep_up_to=3, **{**WORDS, "threshold": 0.7})
    assert raised.clusters.to_pylist() == again.clusters.to_pylist()


def test_duplicates_of_a_reference_are_not_kept_as_further_copies() -> None:
    table = make_versions(25)
    old = table.slice(0, 30)
    result = nk.dedup(table.slice(30), against=old, keep_up_to=2, **WORDS)
    single = nk.dedup(table.slice(30), against=old, **WORDS)
    for row, before in zip(result.clusters.to_pylist(), single.clusters.to_pylist(), strict=True):
        if before["matched_in"] == "reference":
            assert row == before
    kept = Counter(row["cluster"] for row in result.clusters.to_pylist() if row["kept"])
    assert max(kept.values()) == 2
    assert all(row["duplicate_of"] is None for row in result.clusters.to_pylist() if row["kept"])


FAULTS = [
    (["--keep-up-to", "0"], "must be at least 1"),
    (["--keep-up-to", "2", "--annotate"], "--annotate and --keep-up-to 2 exclude each other"),
    (["--keep-up-to", "2", "--document-weights", "log"], "exclude each other: no document is"),
    (["--keep-up-to", "2", "--second-measure", "cosine:v:0.9"], "exclude each other: the second"),
    (["--keep-up-to", "2", "--audit"], "keeps duplicates on purpose"),
    (["--max-lost", "0.1", "--audit"], "an audit measures a threshold"),
]


@pytest.mark.parametrize(("options", "message"), FAULTS)
def test_contradictory_options_are_refused_before_anything_is_written(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(make_versions(26, 10), tmp_path / "in.parquet")
    command = ["dedup", str(tmp_path / "in.parquet"), *FLAGS, "--out", str(tmp_path / "out")]
    assert run([*command, *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_run_with_further_copies_is_not_audited_or_resumed_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(make_versions(27, 30), tmp_path / "in.parquet")
    command = ["dedup", str(tmp_path / "in.parquet"), *FLAGS, "--out", str(tmp_path / "out")]
    assert run([*command, "--keep-up-to", "2"]) == 0
    assert run([*command, "--keep-up-to", "2", "--resume"]) == 0
    assert run([*command, "--keep-up-to", "3", "--resume"]) == 2
    assert "--keep-up-to 2, and this run has --keep-up-to 3" in capsys.readouterr().err
    with pytest.raises(UsageError, match="keeps duplicates on purpose"):
        audit_run(tmp_path / "out", Silent())
