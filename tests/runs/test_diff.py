"""Tests of the differences between two runs, beside an oracle that compares sets of ids."""

import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.runs.diff import DiffResult
from nearkin.runs.extension import CLUSTERS
from nearkin.runs.run_record import RUN

Clusters = list[list[str]]
"""Clusters of a run, whose first document is kept."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a run."""
    folder = tmp_path_factory.mktemp("diff")
    write_documents(folder / "in.jsonl", {"a": "one two three four five"})
    deduplicate(folder / "in.jsonl", folder / "run")
    return folder / "run"


def write_documents(path: Path, texts: dict[str, str]) -> None:
    rows = [json.dumps({"id": id, "text": text}) for id, text in texts.items()]
    path.write_text("\n".join(rows) + "\n")


def deduplicate(path: Path, out: Path, *options: str) -> None:
    assert command(["dedup", str(path), "--id", "id", "--out", str(out), "-qq", *options]) == 0


def with_clusters(run: Path, out: Path, clusters: Clusters) -> Path:
    """Returns a copy of a run that has given clusters."""
    shutil.copytree(run, out)
    rows = [
        {"id": id, "cluster": cluster[0], "kept": id == cluster[0]}
        for cluster in clusters
        for id in cluster
    ]
    random.Random(len(rows)).shuffle(rows)
    schema = pa.schema([("id", pa.string()), ("cluster", pa.string()), ("kept", pa.bool_())])
    pq.write_table(pa.Table.from_pylist(rows, schema), out / CLUSTERS)
    record = json.loads((out / RUN).read_bytes())
    record["stages"]["sketch"]["documents"] = len(rows)
    (out / RUN).write_text(json.dumps(record))
    return out


def compare(run: Path, folder: Path, before: Clusters, after: Clusters) -> DiffResult:
    return nk.diff(
        with_clusters(run, folder / "before", before), with_clusters(run, folder / "after", after)
    )


def expected_documents(before: Clusters, after: Clusters) -> list[tuple[str, str, str | None]]:
    """The changed documents, by going through them one by one."""
    first = {id: cluster for cluster in before for id in cluster}
    second = {id: cluster for cluster in after for id in cluster}
    rows: list[tuple[str, str, str | None]] = []
    for id in sorted({*first, *second}):
        if id not in first:
            rows.append((id, "new", None))
        elif id not in second:
            rows.append((id, "withdrawn", None))
        elif first[id][0] == id != second[id][0]:
            reason = "unknown" if second[id][0] in first else "new document"
            rows.append((id, "became removed", reason))
        elif second[id][0] == id != first[id][0]:
            reason = "unknown" if first[id][0] in second else "withdrawn document"
            rows.append((id, "became kept", reason))
    return rows


def expected_clusters(
    own: Clusters, others: Clusters, changes: tuple[str, str, str]
) -> Counter[tuple[str, str, str | None, int]]:
    """The changes of clusters, by their intersections with those of the other run."""
    rows: Counter[tuple[str, str, str | None, int]] = Counter()
    for cluster in own:
        shared = [(other, len({*cluster} & {*other})) for other in others if len(other) > 1]
        partners = [(other[0], count) for other, count in shared if count]
        if len(cluster) < 2:
            continue
        if not partners:
            rows[changes[0], cluster[0], None, 0] += 1
        elif len(partners) > 1:
            for name, count in partners:
                rows[changes[2], cluster[0], name, count] += 1
        elif partners[0][1] < len(cluster):
            rows[changes[1], cluster[0], *partners[0]] += 1
    return rows


def draw_clusters(draw: random.Random, ids: list[str]) -> Clusters:
    ids = draw.sample(ids, draw.randrange(len(ids) + 1))
    clusters: Clusters = []
    while ids:
        size = min(draw.choice([1, 1, 2, 3, 6]), len(ids))
        clusters.append(ids[:size])
        ids = ids[size:]
    return clusters


@pytest.mark.parametrize("seed", range(40))
def test_changes_are_those_of_an_oracle(seed: int, finished: Path, tmp_path: Path) -> None:
    draw = random.Random(seed)
    ids = [f"d{number}" for number in range(draw.choice([1, 5, 40]))]
    before, after = draw_clusters(draw, ids), draw_clusters(draw, ids)
    result = compare(finished, tmp_path, before, after)
    documents = result.documents.select(["id", "change", "reason"]).to_pylist()
    assert [tuple(row.values()) for row in documents] == expected_documents(before, after)
    found = [
        (row["change"], row["cluster_before"], row["cluster_after"], row["documents_shared"])
        for row in result.clusters.to_pylist()
    ]
    of_after = expected_clusters(after, before, ("formed", "grew", "merged"))
    of_before = expected_clusters(before, after, ("dissolved", "shrank", "split"))
    turned = Counter(
        {(change, other, own, count): n for (change, own, other, count), n in of_after.items()}
    )
    assert Counter(found) == turned + of_before
    sizes = {cluster[0]: len(cluster) for cluster in after}
    for row in result.clusters.to_pylist():
        if row["cluster_after"] is not None:
            assert row["documents_after"] == sizes[row["cluster_after"]]
    assert result.has_changes == bool(documents or found)


def test_a_merged_cluster_counts_once(finished: Path, tmp_path: Path) -> None:
    before = [["a", "b"], ["c", "d"], ["e"]]
    result = compare(finished, tmp_path, before, [["a", "b", "c", "d", "e"]])
    assert result.clusters["change"].to_pylist() == ["merged", "merged"]
    counts = {name: count for name, count in result.counts.items() if count}
    assert counts == {"became_removed": 2, "merged": 1}
    assert repr(result) == "<DiffResult: 2 became removed, 1 merged>"


def test_a_collection_that_grew_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "one two three four five six seven eight nine ten eleven twelve"
    write_documents(Path("old.jsonl"), {"a": text, "b": "a storm closed the harbour for days"})
    write_documents(
        Path("new.jsonl"),
        {"a": text, "b": "a storm closed the harbour for days", "c": f"{text} <b>thirteen</b>"},
    )
    deduplicate(Path("old.jsonl"), Path("old"))
    deduplicate(Path("new.jsonl"), Path("new"), "--threshold", "0.6")
    capsys.readouterr()
    line = ["diff", "old", "new"]
    assert command([*line, "--out", "d.csv", "--clusters", "c.jsonl", "--html", "d.html"]) == 3
    assert capsys.readouterr().err.splitlines() == [
        "Documents: 1 became removed, 1 new.",
        "Clusters: 1 formed.",
        "Settings that differ: threshold: 0.8 -> 0.6.",
        "The contents of the inputs differ.",
    ]
    assert Path("d.csv").read_text().splitlines() == [
        "id,change,reason,cluster_before,cluster_after,kept_before,kept_after",
        "a,became removed,new document,a,c,true,false",
        "c,new,,,c,,true",
    ]
    assert json.loads(Path("c.jsonl").read_text())["documents_after"] == 2
    page = Path("d.html").read_text()
    assert "became removed" in page
    assert command([*line, "--json"]) == 3
    facts = json.loads(capsys.readouterr().out)
    assert facts["settings"] == [{"setting": "threshold", "before": 0.8, "after": 0.6}]
    assert facts["same_inputs"] is False
    assert command(["diff", "old", "old", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert command([*line, "--out", "d.csv"]) == 2
    assert "d.csv exists" in capsys.readouterr().err
    assert command(["diff", "old", "old.jsonl"]) == 2
    assert "not the output folder of a run" in capsys.readouterr().err


def test_a_run_over_data_in_memory_has_unknown_inputs(tmp_path: Path) -> None:
    table = {"id": ["a", "b"], "text": ["one two three four", "five six seven eight"]}
    for name, threshold in (("old", 0.8), ("new", 0.7)):
        nk.dedup(table, id="id", threshold=threshold, out=tmp_path / name)
    result = nk.diff(tmp_path / "old", tmp_path / "new")
    assert result.same_inputs is None
    assert result.describe()[2:] == [
        "Settings that differ: threshold: 0.8 -> 0.7.",
        "It is unknown whether the contents of the inputs differ.",
    ]


def test_weights_that_follow_from_the_inputs_are_no_setting(tmp_path: Path) -> None:
    texts = {"a": "john smith london", "b": "jon smith london", "c": "mary jones leeds"}
    for name in ("old", "new"):
        write_documents(tmp_path / f"{name}.jsonl", texts)
        deduplicate(tmp_path / f"{name}.jsonl", tmp_path / name, "--preset", "records")
        texts["d"] = "peter miller york"
    result = nk.diff(tmp_path / "old", tmp_path / "new")
    assert result.settings == ()
    assert result.same_inputs is False


def test_runs_with_repeated_ids_are_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(nk.UsageError, match="'a' is the id of several documents"):
        compare(finished, tmp_path, [["a"], ["a"]], [["a"]])
