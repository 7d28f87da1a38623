"""Tests of sizes of clusters that are summed over runs."""

import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.cli.app import run

FLAGS = [
    *("--id", "id", "--shingle", "words:1", "--threshold", "0.5", "--max-removed", "0.9"),
    *("--source", "site", "--sizes"),
]


def make_crawls(crawls: int) -> list[pa.Table]:
    """Returns crawls with copies of the same texts, also edited ones, which are far apart.

    Two versions of one text differ in at most two of twenty words, versions of different texts in
    all words. So every way of clustering finds the same clusters.
    """
    rng = random.Random(31)
    tables = []
    for crawl in range(crawls):
        rows = []
        for at in range(60):
            topic = rng.randrange(25)
            words = [f"t{topic}w{number}" for number in range(20)]
            words[rng.randrange(20)] = f"new{rng.randrange(3)}"
            site = rng.choice(["news", "blog", None])
            rows.append({"id": f"c{crawl}d{at:02}", "text": " ".join(words), "site": site})
        tables.append(pa.Table.from_pylist(rows))
    return tables


def write_crawl(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_sizes_over_runs_are_those_of_one_run_over_all(suffix: str, tmp_path: Path) -> None:
    tables = make_crawls(3)
    folders = []
    for number, table in enumerate(tables):
        path = tmp_path / f"crawl{number}{suffix}"
        write_crawl(table, path)
        folders.append(str(tmp_path / f"run{number}"))
        assert run(["dedup", str(path), *FLAGS, "--out", folders[-1]]) == 0
    merged_path = tmp_path / "sizes.parquet"
    assert run(["lab", "merge", *folders, "--out", str(merged_path)]) == 0
    whole = tmp_path / "all.parquet"
    pq.write_table(pa.concat_tables(tables), whole)
    assert run(["dedup", str(whole), *FLAGS, "--out", str(tmp_path / "one")]) == 0

    def sizes_of(path: Path) -> dict[str, tuple[int, dict[str, int]]]:
        rows = pq.read_table(path).to_pylist()
        return {row["id"]: (row["cluster_size"], dict(row["cluster_sources"])) for row in rows}

    assert run(["lab", "merge", *folders, "--out", str(tmp_path / "sizes.jsonl")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "sizes.jsonl").read_text().splitlines()]
    merged = sizes_of(merged_path)
    assert {row["id"]: (row["cluster_size"], row["cluster_sources"]) for row in lines} == merged
    assert merged == sizes_of(tmp_path / "one/kept/all.parquet")
    # An oracle: the topic of a text is its first word, or that of its second if it was replaced.
    topics: Counter[str] = Counter()
    for row in pa.concat_tables(tables).to_pylist():
        topics[next(w for w in row["text"].split() if w.startswith("t")).split("w")[0]] += 1
    assert sorted(size for size, _ in merged.values()) == sorted(topics.values())
    assert sum(size for size, _ in merged.values()) == 180


def finished_runs(folder: Path, *options: str) -> list[str]:
    """Returns the folders of two runs, the second one with further options."""
    outputs = []
    for number, table in enumerate(make_crawls(2)):
        pq.write_table(table, folder / f"crawl{number}.parquet")
        outputs.append(str(folder / f"run{number}"))
        further = list(options) if number else []
        flags = FLAGS[:-1] if "none" in further else FLAGS
        command = ["dedup", str(folder / f"crawl{number}.parquet"), *flags, *further]
        assert run([*command, "--out", outputs[-1]]) == 0
    return outputs


FAULTS: list[tuple[list[str], str]] = [
    (["--keep", "length asc"], "was made with other settings"),
    (["--keep-up-to", "2"], "did not write one document of each cluster with its size"),
    (["--document-weights", "log"], "did not write one document of each cluster with its size"),
    (["--output", "none"], "did not write one document of each cluster with its size"),
]


@pytest.mark.parametrize(("options", "message"), FAULTS)
def test_runs_that_cannot_be_merged_are_refused_before_anything_is_written(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = finished_runs(tmp_path, *options)
    out = tmp_path / "sizes.parquet"
    assert run(["lab", "merge", *folders, "--out", str(out)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_existing_file_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = finished_runs(tmp_path)
    out = tmp_path / "sizes.parquet"
    out.write_text("mine")
    assert run(["lab", "merge", *folders, "--out", str(out)]) == 2
    assert run(["lab", "merge", *folders, "--out", str(out), "--overwrite"]) == 2
    assert out.read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert (
        run(["lab", "merge", str(tmp_path / "empty"), "--out", str(tmp_path / "other.parquet")])
        == 2
    )
    assert "is not the output of a run" in " ".join(capsys.readouterr().err.split())


def test_run_that_is_given_twice_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = finished_runs(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(folders[0])
    copy = tmp_path / "copy"
    shutil.copytree(folders[0], copy)
    for repeated in (folders[0], f"{folders[0]}/", str(link), str(copy)):
        out = tmp_path / "sizes.parquet"
        assert run(["lab", "merge", *folders, repeated, "--out", str(out)]) == 2
        message = " ".join(capsys.readouterr().err.split())
        assert "so that its documents would count twice; give each run once" in message
        assert not out.exists()


@pytest.mark.parametrize("own_value", [1000, "big", None])
def test_sizes_that_do_not_add_up_to_the_documents_of_the_runs_are_refused(
    own_value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Rows after the first ones may have a field of the name of the added column.
    rows: list[dict[str, object]] = [{"id": f"d{i}", "text": f"a{i} b{i}"} for i in range(3000)]
    rows.append({"id": "last", "text": "other words", "cluster_size": own_value})
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ["--id", "id", "--shingle", "words:1", "--sizes"]
    folder = tmp_path / "run"
    assert run(["dedup", str(path), *flags, "--out", str(folder)]) == 0
    out = tmp_path / "sizes.parquet"
    assert run(["lab", "merge", str(folder), "--out", str(out)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "do not add up to the 3,001 documents of the runs" in message
    assert not out.exists()


@pytest.mark.parametrize(
    "own_value", [{"web": 1000}, {"web": "1"}, {"web": 3, "other": -2}, "big", 7, [], [7], None]
)
def test_sources_that_are_not_those_of_a_cluster_are_refused(
    own_value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[dict[str, object]] = [
        {"id": f"d{i}", "text": f"a{i} b{i}", "site": "web"} for i in range(3000)
    ]
    rows.append({"id": "last", "text": "other words", "site": "web", "cluster_sources": own_value})
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ["--id", "id", "--shingle", "words:1", "--sizes", "--source", "site"]
    folder = tmp_path / "run"
    assert run(["dedup", str(path), *flags, "--out", str(folder)]) == 0
    out = tmp_path / "sizes.parquet"
    capsys.readouterr()
    assert run(["lab", "merge", str(folder), "--out", str(out)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "of cluster_sources in a kept document does not add up to the 1 documents" in message
    assert not out.exists()
