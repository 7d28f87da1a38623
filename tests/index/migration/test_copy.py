"""Tests of copies of an index: what they take over from their source."""

from pathlib import Path

import pytest

import nearkin as nk
from nearkin.index.index import Index
from nearkin.index.maintenance import check_index
from nearkin.index.migration.cutover import fill_copy
from nearkin.runs.loading import migrate
from tests.index.conftest import (
    TEXT,
    Opener,
    corpus,
    empty_store,
    store_of,
)


@pytest.mark.promise("Other copies have the mark, too.")
def test_protection_survives_a_reopening_and_a_copy(
    opened: Opener, url: "str | list[str]", tmp_path: Path
) -> None:
    """The mark says that the index was served with tokens."""
    index = opened()
    assert not index.is_protected()
    index.upsert("a", TEXT, "x")
    for _ in range(2):
        index.protect()
    assert index.is_protected()
    if url != "memory://":
        index.close()
        index = opened()
        assert index.is_protected()
        assert index.get("a", "x") is not None
        assert index.stats()["records"] == 1
    with Index.open(f"sqlite:///{tmp_path}/copy.db", threshold=0.7, follow=False) as copy:
        assert not copy.is_protected()
        fill_copy(index, copy)
        assert copy.is_protected()


@pytest.mark.promise("A copy by migration has the mark of an index that was served with tokens.")
@pytest.mark.parametrize("way", ["store", "export"])
def test_protection_survives_a_migration(way: str, tmp_path: Path) -> None:
    url, target = (f"sqlite:///{tmp_path}/{name}.db" for name in ("kin", "copy"))
    export = tmp_path / "kin.parquet"
    with nk.Index.open(url, threshold=0.7) as index:
        index.export(tmp_path / "open.parquet")
        index.protect()
        index.export(export)
    migrate(url if way == "store" else str(export), target, None)
    migrate(str(tmp_path / "open.parquet"), f"sqlite:///{tmp_path}/open.db", None)
    with nk.Index.open(target) as copy, nk.Index.open(f"sqlite:///{tmp_path}/open.db") as other:
        assert copy.is_protected()
        assert not other.is_protected()


def test_a_refused_migration_does_not_protect_the_other_index(tmp_path: Path) -> None:
    url, target = (f"sqlite:///{tmp_path}/{name}.db" for name in ("kin", "other"))
    for name in (url, target):
        with nk.Index.open(name, threshold=0.7) as index:
            index.upsert("a", f"{TEXT} {name}", "x")
    with nk.Index.open(url) as index:
        index.protect()
    with pytest.raises(nk.UsageError, match="already has documents"):
        migrate(url, target, None)
    with nk.Index.open(target) as other:
        assert not other.is_protected()


def test_cluster_ids_are_kept_if_clusters_agree(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url, target = (empty_store("sqlite", request, tmp_path) for _ in range(2))
    texts = corpus(200, seed=3, share=0.6)
    with (
        nk.Index.open(url, threshold=0.7) as live,
        nk.Index.open(target, nk.Spec(seed=5), 0.7, follow=False) as new_index,
    ):
        live.upsert_many("a", texts, [f"d{i}" for i in range(200)])
        heads = [
            entry.id
            for entry in live.scan()
            if entry.is_leader and store_of(live).members("a", entry.id)
        ]
        for name in heads[:10]:
            live.remove("a", name)
        was = {entry.id: entry.cluster for entry in live.scan()}
        assert any(cluster in heads[:10] for cluster in was.values())
        counts = fill_copy(live, new_index)
        now = {entry.id: entry.cluster for entry in new_index.scan()}
        agreeing = sum(now[name] == cluster for name, cluster in was.items())
        assert counts["same_cluster"] == agreeing > 0.9 * len(was)
        leaders = [entry.cluster for entry in new_index.scan() if entry.is_leader]
        assert len(leaders) == len(set(leaders))
        assert check_index(new_index).sound
