"""Tests of indexes that follow a folder or a table, beside what the source has."""

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import StoreError, UsageError
from nearkin.index.changes import Changes, observe_steps
from nearkin.index.maintenance import check_index
from nearkin.results import SyncResult
from tests.index.conftest import Opener, corpus

deltalake = pytest.importorskip("deltalake")

Rows = dict[str, str | None]
"""The texts of a source by their ids."""
POOL = corpus(60)
FEED = {"delta.enableChangeDataFeed": "true"}


def write_rows(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": id, "text": text}) for id, text in rows.items()]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def write_delta(path: Path, rows: Rows, **options: Any) -> Path:
    deltalake.write_deltalake(path, table_of(rows), **options)
    return path


def table_of(rows: Rows) -> pa.Table:
    columns = {"id": list(rows), "text": list(rows.values())}
    return pa.table(columns, pa.schema([("id", pa.string()), ("text", pa.string())]))


def stored(index: nk.Index, scope: str = "default") -> Rows:
    """Returns the digests of the texts of a scope. The texts of members are not kept."""
    return {entry.id: entry.digest.hex() for entry in index.scan(scope)}


def digests_of(rows: Rows) -> Rows:
    with nk.Index.open("memory://", threshold=0.7) as index:
        kept = {id: text for id, text in rows.items() if text is not None}
        index.upsert_many("default", list(kept.values()), list(kept))
        return stored(index)


def counts(result: SyncResult) -> tuple[int, int, int, int]:
    return result.inserted, result.updated, result.unchanged, result.removed


def change(rows: Rows, rng: random.Random) -> Rows:
    """Returns rows of which some are new, changed, or missing."""
    left = {id: text for id, text in rows.items() if rng.random() < 0.8}
    for _ in range(rng.randint(0, 8)):
        left[f"d{rng.randint(0, 30)}"] = rng.choice(POOL)
    return left


def expected(before: Rows, after: Rows) -> tuple[int, int, int, int]:
    common = before.keys() & after.keys()
    updated = sum(before[id] != after[id] for id in common)
    return len(after) - len(common), updated, len(common) - updated, len(before) - len(common)


@pytest.fixture
def histories(request: pytest.FixtureRequest) -> int:
    return 300 if request.config.getoption("--full") else 3


def test_index_has_the_rows_of_a_folder_after_each_of_random_changes(
    opened: Opener, histories: int, tmp_path: Path
) -> None:
    for seed in range(histories):
        rng = random.Random(seed)
        rows: Rows = {}
        index = opened()
        scope = f"scope{seed}"
        for _ in range(4):
            before, rows = rows, change(rows, rng)
            path = write_rows(tmp_path / "rows.jsonl", rows)
            options: dict[str, Any] = {"id": "id", "scope": scope, "max_removed": 1}
            if not rows:
                continue
            planned = nk.sync(index, path, dry_run=True, **options)
            assert stored(index, scope) == digests_of(before)
            result = nk.sync(index, path, **options)
            assert counts(result) == counts(planned) == expected(before, rows)
            assert stored(index, scope) == digests_of(rows)
            assert counts(nk.sync(index, path, **options)) == (0, 0, len(rows), 0)
        assert check_index(index).sound


def test_index_has_the_rows_of_a_delta_table_after_each_of_random_changes(
    histories: int, tmp_path: Path
) -> None:
    """Half of the tables record their changes, of which only these are read."""
    for seed in range(histories * 2):
        rng = random.Random(seed)
        rows = change({}, rng) | {"first": POOL[0], "last": POOL[1]}
        options = {"configuration": FEED} if seed % 2 else {}
        table = write_delta(tmp_path / f"lake{seed}", rows, **options)
        with nk.Index.open("memory://", threshold=0.7) as index:
            nk.sync(index, table, id="id")
            for _ in range(3):
                before = rows
                for _ in range(rng.randint(0, 2)):
                    rows = merge(table, rows, change(rows, rng) | {"first": POOL[0]})
                result = nk.sync(index, table, id="id", max_removed=1)
                assert stored(index) == digests_of(rows)
                inserted, updated, unchanged, removed = expected(before, rows)
                # Of recorded changes, only these are read.
                unchanged = result.unchanged if seed % 2 == 0 or before == rows else 0
                assert counts(result) == (inserted, updated, unchanged, removed)
                assert nk.sync(index, table, id="id") == SyncResult(warnings=result.warnings)
            result = nk.sync(index, table, id="id", full=True)
            assert counts(result) == (0, 0, len(rows), 0)


def merge(path: Path, before: Rows, after: Rows) -> Rows:
    """Makes a Delta table have other rows, in one commit of each kind, and returns them."""
    table = deltalake.DeltaTable(path)
    gone = sorted(before.keys() - after.keys())
    if gone:
        table.delete(f"id in ({', '.join(map(repr, gone))})")
    merging = table.merge(table_of(after), "s.id = t.id", source_alias="s", target_alias="t")
    merging.when_matched_update_all("s.text != t.text").when_not_matched_insert_all().execute()
    return after


def test_row_that_loses_its_text_is_removed(tmp_path: Path) -> None:
    rows: Rows = {f"d{number}": POOL[number] for number in range(6)}
    table = write_delta(tmp_path / "lake", rows, configuration=FEED)
    with nk.Index.open("memory://", threshold=0.7) as index:
        nk.sync(index, table, id="id")
        deltalake.DeltaTable(table).update(updates={"text": "NULL"}, predicate="id = 'd3'")
        result = nk.sync(index, table, id="id")
        assert (result.removed, result.rejected) == (1, 1)
        assert stored(index) == digests_of({id: rows[id] for id in rows if id != "d3"})


def test_changes_that_a_table_does_not_have_any_more_are_not_missed(tmp_path: Path) -> None:
    rows: Rows = {f"d{number}": POOL[number] for number in range(6)}
    table = write_delta(tmp_path / "lake", rows, configuration=FEED)
    with nk.Index.open("memory://", threshold=0.7) as index:
        nk.sync(index, table, id="id")
        deltalake.DeltaTable(table).delete("id = 'd3'")
        for path in (table / "_change_data").glob("*"):
            path.unlink()
        assert nk.sync(index, table, id="id").removed == 1
        assert "d3" not in stored(index)


def test_scope_that_was_emptied_or_followed_another_source_is_filled_again(tmp_path: Path) -> None:
    rows: Rows = {f"d{number}": POOL[number] for number in range(6)}
    table = write_delta(tmp_path / "lake", rows)
    folder = write_rows(tmp_path / "other" / "a.jsonl", {"d0": POOL[7]}).parent
    with nk.Index.open("memory://", threshold=0.7) as index:
        nk.sync(index, table, id="id")
        index.remove_scope("default")
        assert nk.sync(index, table, id="id").inserted == 6
        nk.sync(index, folder, id="id", max_removed=1)
        assert counts(nk.sync(index, table, id="id")) == (5, 1, 0, 0)
        assert stored(index) == digests_of(rows)


@pytest.mark.parametrize("kind", ["folder", "delta"])
def test_interrupted_call_is_completed_by_the_next_one(kind: str, tmp_path: Path) -> None:
    """Each step of the store is the last one of a call, and what follows is repeated."""
    before: Rows = {f"d{number}": POOL[number] for number in range(12)}
    after: Rows = {f"d{number}": POOL[number + number % 2] for number in range(4, 16)}
    steps = 0
    while True:
        source = tmp_path / f"{kind}{steps}"
        if kind == "folder":
            write_rows(source / "rows.jsonl", before)
        else:
            write_delta(source, before, configuration=FEED)
        with nk.Index.open("memory://", threshold=0.7, max_batch=5) as index:
            nk.sync(index, source, id="id")
            if kind == "folder":
                write_rows(source / "rows.jsonl", after)
            else:
                merge(source, before, after)
            is_complete = not interrupt(partial(nk.sync, index, source, id="id"), steps)
            nk.sync(index, source, id="id")
            assert stored(index) == digests_of(after)
            assert check_index(index).sound
        if is_complete:
            break
        steps += 1
    assert steps > 5


def interrupt(call: Callable[[], object], steps: int) -> bool:
    """Calls a function that fails after a number of steps, and returns whether it did."""
    left = steps

    def fail(changes: Changes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise StoreError("the process is killed here")

    try:
        with observe_steps(fail):
            call()
    except StoreError:
        return True
    return False


def test_nothing_is_changed_if_too_many_rows_are_missing(tmp_path: Path) -> None:
    rows: Rows = {f"d{number}": POOL[number] for number in range(10)}
    with nk.Index.open("memory://", threshold=0.7) as index:
        nk.sync(index, write_rows(tmp_path / "rows.jsonl", rows), id="id")
        path = write_rows(tmp_path / "rows.jsonl", {"d0": POOL[0], "new": POOL[20]})
        with pytest.raises(UsageError, match=r"9 of 10 documents would be removed.*example 'd1'"):
            nk.sync(index, path, id="id")
        assert stored(index) == digests_of(rows)
        assert counts(nk.sync(index, path, id="id", max_removed=0.9)) == (1, 0, 1, 9)


def test_documents_stay_while_a_row_cannot_be_read(tmp_path: Path) -> None:
    rows: Rows = {f"d{number}": POOL[number] for number in range(4)}
    path = write_rows(tmp_path / "rows.jsonl", rows)
    with nk.Index.open("memory://", threshold=0.7) as index:
        nk.sync(index, path, id="id")
        del rows["d3"]
        write_rows(path, rows)
        whole = path.read_text()
        path.write_text(whole + '{"id": "d3", "text": \n')
        result = nk.sync(index, path, id="id")
        assert (result.removed, result.left, result.rejected) == (0, 1, 1)
        assert "may be one of them" in result.warnings[-1]
        assert "d3" in stored(index)
        path.write_text(whole)
        assert counts(nk.sync(index, path, id="id")) == (0, 0, 3, 1)


def test_sources_that_do_not_say_which_document_is_meant_are_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", {"a": POOL[0]})
    with path.open("a") as file:
        file.write(json.dumps({"id": "a", "text": POOL[1]}) + "\n")
    with nk.Index.open("memory://", threshold=0.7) as index:
        with pytest.raises(UsageError, match="have the id 'a' more than once"):
            nk.sync(index, path, id="id")
        with pytest.raises(UsageError, match="is reserved for data"):
            nk.sync(index, path, id="id", scope="\x1fprogress:x")
        assert index.counts()["records"] == 0


def test_state_of_a_table_is_copied_with_the_index(tmp_path: Path) -> None:
    rows: Rows = {f"d{number}": POOL[number] for number in range(6)}
    table = write_delta(tmp_path / "lake", rows)
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with nk.Index.open(url, threshold=0.7) as index:
        nk.sync(index, table, id="id")
    moved = f"sqlite:///{tmp_path / 'b.db'}"
    assert command(["index", "migrate", "--store", url, "--to", moved]) == 0
    with nk.Index.open(moved) as index:
        assert nk.sync(index, table, id="id").unchanged == 0


def test_command_prints_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: Rows = {f"d{number}": POOL[number] for number in range(4)}
    write_rows(tmp_path / "docs" / "rows.jsonl", rows)
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    words = ["sync", str(tmp_path / "docs"), "--id", "id", "--store", url, "--json"]
    assert command([*words, "--dry-run"]) == 0
    assert not (tmp_path / "kin.db").exists()
    assert command(words) == 0
    planned, done = map(json.loads, capsys.readouterr().out.splitlines())
    assert planned == done
    assert (done["inserted"], done["removed"]) == (4, 0)
    assert command([word for word in words if word not in ("--id", "id")]) == 2
    assert "name their column with --id" in capsys.readouterr().err
    nowhere = f"sqlite:///{tmp_path / 'new.db'}"
    for line in (["nowhere", "--id", "id"], [str(tmp_path / "docs"), "--id", "nope"]):
        assert command(["sync", *line, "--store", nowhere]) == 2
    assert not (tmp_path / "new.db").exists()


def test_texts_and_vectors_are_followed_together(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    vectors = [[float(number), 1.0, -1.0, 0.5] for number in range(3)]
    table = pa.table({"id": ["a", "b", "c"], "text": POOL[:3], "vector": vectors})
    pq.write_table(table, path)
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    words = [str(path), "--id", "id", "--text", "text", "--vector", "vector", "--store", url]
    assert command(["index", "build", *words]) == 0
    with nk.Index.open(url) as index:
        result = nk.sync(index, path, id="id", text="text", vector="vector")
        assert counts(result) == (0, 0, 3, 0)
        pq.write_table(table.slice(0, 2), path)
        result = nk.sync(index, path, id="id", text="text", vector="vector")
        assert counts(result) == (0, 0, 2, 1)


def test_two_calls_at_once_have_the_effect_of_one(tmp_path: Path) -> None:
    """The copies among the rows make the processes write in steps of different sizes."""
    texts = corpus(2500, seed=4)
    rows: Rows = {f"d{number}": text for number, text in enumerate(texts)}
    path = write_rows(tmp_path / "rows.jsonl", rows)
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    with nk.Index.open(url, threshold=0.7) as one, nk.Index.open(url) as other:
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda index: nk.sync(index, path, id="id"), (one, other)))
        assert sum(result.inserted for result in results) <= len(rows)
        assert all(result.inserted + result.unchanged == len(rows) for result in results)
        assert stored(one).keys() == rows.keys()
        assert check_index(other).sound
