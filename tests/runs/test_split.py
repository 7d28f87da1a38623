"""Splits keep near-duplicates in one group, through the library and the command."""

import json
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.split_groups import SplitGroups
from nearkin.errors import UsageError
from tests.engine.test_across import jaccard, random_table
from tests.engine.test_value_groups import canonical, is_value, table_with_values

WORDS: dict[str, Any] = {"shingle": "words:1", "threshold": 0.5, "id": "id"}
COMPLETE = {"bands": 256, "rows": 1, "k": 256, "scheme": "classic", "recall": 0.9999999}
"""Bands of one row of independent slots: a pair at 0.5 has no common band with a probability of
2^-256, and the prefilter, which the recall decides, drops one in ten million."""


def components_oracle(rows: list[dict[str, Any]], keys: Iterable[str] = ()) -> dict[str, set[str]]:
    """The documents that near-duplicates, copies and equal values join with each one."""
    joined = {row["id"]: {row["id"]} for row in rows}
    for a, b in combinations(rows, 2):
        is_near = a["text"] and b["text"] and jaccard(a["text"], b["text"]) >= 0.5
        if is_near or any(is_value(a[key]) and a[key] == b[key] for key in keys):
            both = joined[a["id"]] | joined[b["id"]]
            joined |= dict.fromkeys(both, both)
    return joined


def groups_by_id(result: nk.results.SplitResult) -> dict[str, str]:
    return {row["id"]: row["group"] for row in result.groups.arrow.to_pylist()}


@pytest.mark.parametrize("form", [{}, COMPLETE, {**COMPLETE, "pair_budget": 0}])
@pytest.mark.parametrize("shares", [(0.8, 0.1, 0.1), (0.5, 0.5)])
def test_no_pair_at_the_threshold_crosses_groups(form: dict[str, Any], shares: Any) -> None:
    table = random_table(3, 120)
    rows = table.to_pylist()
    result = nk.split(table, shares, **WORDS, **form)
    group = groups_by_id(result)
    near = [
        (a["id"], b["id"]) for a, b in combinations(rows, 2) if jaccard(a["text"], b["text"]) >= 0.5
    ]
    assert near
    assert not [pair for pair in near if group[pair[0]] != group[pair[1]]]
    assert result.facts["pairs"] == len(near)
    expected = len(near) * (1 - sum(share**2 for share in shares))
    assert abs(result.facts["pairs_of_random_split"] - expected) <= 0.5
    components = components_oracle(rows)
    clusters: dict[str, set[str]] = {}
    for row in result.groups.arrow.to_pylist():
        clusters.setdefault(row["cluster"], set()).add(row["id"])
    assert all(components[name] == clusters[head] for head in clusters for name in clusters[head])
    largest = result.facts["largest_cluster"]
    assert largest is not None
    assert largest["documents"] == max(map(len, components.values()))
    assert largest["group"] == group[largest["id"]]
    sizes = [group["documents"] for group in result.facts["groups"]]
    assert sizes == [list(group.values()).count(name) for name in result.names]
    assert sum(sizes) == len(table)


def test_equal_values_and_their_near_duplicates_stay_together() -> None:
    table = table_with_values(4)
    rows = table.to_pylist()
    for row in rows:
        row["link"] = canonical(row["link"])
    result = nk.split(table, (0.6, 0.4), same="doi", url="link", **WORDS)
    group = groups_by_id(result)
    components = components_oracle(rows, ["doi", "link"])
    assert all(len({group[name] for name in members}) == 1 for members in components.values())
    clusters = result.groups.arrow["cluster"].to_pylist()
    assert len(set(clusters)) == len({frozenset(members) for members in components.values()})


def test_groups_do_not_depend_on_order_or_threads_or_memory() -> None:
    table = random_table(5, 100)
    want = groups_by_id(nk.split(table, **WORDS, workers=1))
    order = np.random.default_rng(2).permutation(len(table))
    shuffled = table.take(pa.array(order))
    assert groups_by_id(nk.split(shuffled, **WORDS, workers=3, memory="512MiB")) == want
    assert groups_by_id(nk.split(table, **WORDS, group_seed=1)) != want


def test_most_documents_keep_their_group_when_others_are_added() -> None:
    """Ten of a hundred documents are added; about √n of them are not where their hash says."""
    table = random_table(6, 400)
    before = groups_by_id(nk.split(table.slice(0, 360), **WORDS))
    after = groups_by_id(nk.split(table, **WORDS))
    moved = sum(after[name] != group for name, group in before.items())
    # A random split would move 1 - 0.8^2 - 2 * 0.1^2 = 34 % of them: 122.
    assert moved < 70


def test_shares_are_met_by_single_documents() -> None:
    texts = [f"text {number} of a {number * 7} kind {number * 13}" for number in range(200)]
    result = nk.split(texts, shingle="words:1", threshold=0.9)
    assert [group["documents"] for group in result.facts["groups"]] == [160, 20, 20]
    assert result.names == ("train", "validation", "test")
    assert [len(result.select(texts, name)) for name in result.names] == [160, 20, 20]
    with pytest.raises(UsageError, match=r"there is no group 'tset'.*test"):
        result.select(texts, "tset")


def test_empty_documents_are_not_one_cluster() -> None:
    table = pa.table({"id": [f"d{number}" for number in range(300)], "text": [""] * 300})
    result = nk.split(table, (0.5, 0.5), id="id")
    assert [group["documents"] for group in result.facts["groups"]] == [150, 150]
    assert result.facts["clusters"] == 300
    assert result.facts["pairs"] == 0


@pytest.mark.parametrize("documents", [0, 1, 2])
def test_few_documents_are_split(documents: int) -> None:
    result = nk.split(random_table(1).slice(0, documents), **WORDS)
    assert len(result.groups.arrow) == documents
    assert len(result.rows) == documents


def test_rejected_rows_are_in_no_group() -> None:
    result = nk.split({"text": ["one two", None, "three four"]}, (0.5, 0.5))
    assert result.rows[1] == -1
    assert sorted(result.rows.tolist()) == [-1, 0, 1]


@pytest.mark.parametrize(
    ("shares", "names", "message"),
    [
        ("0.8,0.1", None, "groups='0.8,0.1' adds up to 0.9; the shares must add up to 1"),
        ("1", None, "give the shares of two or more groups"),
        ("1.5,-0.5", None, "each share must be above 0 and below 1"),
        ("nan,0.5", None, "each share must be above 0 and below 1"),
        ("80%,20%", None, "is not of the form 0.8,0.1,0.1"),
        ("0.5,0.5", "a", "names='a' names 1 groups, but there are 2"),
        ("0.5,0.5", "a,A", "the names must differ, not only by case"),
        ("0.5,0.5", "a,../b", "a name consists of up to 60 letters, digits, _ and -"),
        ("0.5,0.5", "a,", "a name consists of up to 60 letters, digits, _ and -"),
        ("0.5,0.5", "a," + "b" * 61, "a name consists of up to 60 letters, digits, _ and -"),
    ],
)
def test_invalid_groups_are_refused(shares: str, names: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SplitGroups.parse(shares, names, 0)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seed_of_groups_is_an_unsigned_number(seed: int) -> None:
    with pytest.raises(UsageError, match=f"group_seed={seed} is not an unsigned 64-bit number"):
        SplitGroups((0.5, 0.5), seed=seed)


@pytest.mark.parametrize("option", [{"block_by": "shop"}, {"across": "shop"}])
def test_options_that_leave_pairs_out_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="leaves pairs out, which a split would separate"):
        nk.split(random_table(1), **WORDS, **option)
    with pytest.raises(UsageError, match="cannot be combined with a split"):
        nk.split(random_table(1), id="id", accept="safe")


COMMAND = ("--id", "id", "--shingle", "words:1", "--threshold", "0.5")


def test_command_writes_a_folder_of_each_group_in_the_format_of_the_inputs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = random_table(7, 60)
    folder = tmp_path / "inputs"
    (folder / "sub").mkdir(parents=True)
    pq.write_table(table.slice(0, 30), folder / "a.parquet")
    lines = [orjson.dumps(row) for row in table.slice(30).to_pylist()]
    (folder / "sub" / "b.jsonl").write_bytes(b"\n".join([*lines, b"broken"]) + b"\n")
    out = tmp_path / "sets"
    command = ["split", str(folder), "--groups", "0.7,0.3", "--out", str(out), *COMMAND]
    assert run([*command, "--json"]) == 0
    record = json.loads(capfd.readouterr().out)
    want = groups_by_id(nk.split(table, (0.7, 0.3), **WORDS))
    groups = pq.read_table(out / "groups.parquet").to_pylist()
    assert {row["id"]: row["group"] for row in groups} == want
    for name in ("train", "test"):
        rows = pq.read_table(out / name / "a.parquet").to_pylist()
        text = (out / name / "sub" / "b.jsonl").read_bytes()
        rows += [orjson.loads(line) for line in text.splitlines()]
        assert rows == [row for row in table.to_pylist() if want[row["id"]] == name]
    assert record["rejected"] == 1
    assert (out / "rejected.jsonl").read_text().count("\n") == 1
    recorded = json.loads((out / "split.json").read_text())
    assert recorded["facts"] == record["facts"]
    assert recorded["parameters"]["recall"] == 0.99
    assert run(command) == 2
    assert "exists; continue it with --resume, replace it" in capfd.readouterr().err
    assert run([*command, "--resume", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["facts"] == record["facts"]
    assert run([*command, "--resume", "--group-seed", "2"]) == 2
    assert "made with --group-seed 0, and this run has --group-seed 2;" in capfd.readouterr().err
    assert run([*command, "--overwrite", "--names", "x,y"]) == 0
    assert "none of them between groups" in capfd.readouterr().err
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == ["x", "y"]
    assert run(["split", str(folder), "--groups", "0.7,0.2", "--out", "o", *COMMAND]) == 2
    assert "--groups 0.7,0.2 adds up to 0.9" in capfd.readouterr().err


def test_one_pair_is_named_in_the_singular(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = pa.table({"id": ["a", "b", "c"], "text": ["one two", "one two", "three four five"]})
    pq.write_table(table, tmp_path / "a.parquet")
    command = ["split", str(tmp_path / "a.parquet"), "--groups", "0.5,0.5", *COMMAND]
    assert run([*command, "--out", str(tmp_path / "sets")]) == 0
    assert "\n1 pair of near-duplicates, none of them" in capfd.readouterr().err


def test_saved_signatures_are_split_again(tmp_path: Path) -> None:
    table = random_table(8, 60)
    pq.write_table(table, tmp_path / "a.parquet")
    saved = tmp_path / "saved"
    line = ["dedup", str(tmp_path / "a.parquet"), "--out", str(saved), "--save-signatures"]
    assert run([*line, *COMMAND, "--quiet"]) == 0
    out = tmp_path / "sets"
    again = ["split", str(saved), "--groups", "0.7,0.3", "--out", str(out), *COMMAND[4:]]
    assert run([*again, "--quiet"]) == 0
    groups = pq.read_table(out / "groups.parquet").to_pylist()
    want = groups_by_id(nk.split(table, (0.7, 0.3), **WORDS))
    assert {row["id"]: row["group"] for row in groups} == want
