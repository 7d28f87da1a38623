import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.corpus import Columns
from nearkin.errors import UsageError
from nearkin.runs.matching import MatchOutput, add_files_with_matches, match_files
from tests.engine.reference_oracle import make_texts, share_texts, similarity_of

COLUMNS = Columns(id="id")


def write_table(path: Path, texts: list[str]) -> pa.Table:
    table = pa.table({"id": [f"d{number}" for number in range(len(texts))], "text": texts})
    pq.write_table(table, path)
    return table


@pytest.fixture
def store(tmp_path: Path) -> str:
    """An index with documents of two scopes."""
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    with nk.Index.open(url, threshold=0.6) as index:
        texts = make_texts(21, 60)
        index.upsert_many("web", texts, [f"s{number}" for number in range(len(texts))])
        index.upsert("other", "a document of another scope that nobody else has", id="x")
    return url


@pytest.fixture
def new(tmp_path: Path) -> pa.Table:
    """New documents in the file new.parquet, of which many resemble stored ones."""
    texts = share_texts(21, make_texts(21, 60), 40)
    return write_table(
        tmp_path / "new.parquet", [*texts, "a document of another scope that nobody else has"]
    )


def read_matches(out: Path) -> list[dict[str, Any]]:
    return pq.read_table(out / "matches.parquet").to_pylist()


def test_matches_are_the_best_answers_of_queries(tmp_path: Path, store: str, new: pa.Table) -> None:
    out = tmp_path / "out"
    counts = match_files((str(tmp_path / "new.parquet"),), COLUMNS, store, "web", MatchOutput(out))
    rows = read_matches(out)
    assert [row["id"] for row in rows] == new["id"].to_pylist()
    with nk.Index.open(store) as index:
        for row, text in zip(rows, new["text"].to_pylist(), strict=True):
            answers = index.query("web", text, 100)
            best = [match.id for match in answers if match.similarity == answers[0].similarity]
            assert row["kept"] == (not answers)
            if answers:
                assert row["duplicate_of"] in best
                assert row["similarity"] == answers[0].similarity
                stored = index.get("web", row["duplicate_of"])
                assert stored is not None
                assert row["cluster"] == stored.cluster
            else:
                assert row["duplicate_of"] is row["cluster"] is row["similarity"] is None
    assert not rows[-1]["duplicate_of"]
    kept = pq.read_table(out / "kept" / "new.parquet")
    assert kept["id"].to_pylist() == [row["id"] for row in rows if row["kept"]]
    assert counts.to_dict() == {
        "documents": 41,
        "kept": kept.num_rows,
        "matched": 41 - kept.num_rows,
        "rejected": 0,
    }
    assert 5 < kept.num_rows < 36


def test_matching_changes_nothing_in_the_store(tmp_path: Path, store: str, new: pa.Table) -> None:
    with nk.Index.open(store) as index:
        index.export(tmp_path / "before.parquet")
    match_files(
        (str(tmp_path / "new.parquet"),), COLUMNS, store, "web", MatchOutput(tmp_path / "out")
    )
    with nk.Index.open(store) as index:
        index.export(tmp_path / "after.parquet")
    before = pq.read_table(tmp_path / "before.parquet")
    assert pq.read_table(tmp_path / "after.parquet") == before


def test_scope_without_documents_is_warned_about(tmp_path: Path, store: str, new: pa.Table) -> None:
    inputs = (str(tmp_path / "new.parquet"),)
    counts = match_files(inputs, COLUMNS, store, "wbe", MatchOutput(tmp_path / "out"))
    assert counts.warnings[-1].startswith("the scope 'wbe' of sqlite:")
    assert "has no documents, so no document was compared with it" in counts.warnings[-1]
    counts = match_files(inputs, COLUMNS, store, "web", MatchOutput(tmp_path / "other"))
    assert counts.warnings == ()
    with pytest.raises(UsageError, match="scope"):
        match_files(inputs, COLUMNS, store, "a\0b", MatchOutput(tmp_path / "no"))
    assert not (tmp_path / "no").exists()


def test_small_batches_give_the_same_matches(
    tmp_path: Path, store: str, new: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = (str(tmp_path / "new.parquet"),)
    match_files(inputs, COLUMNS, store, "web", MatchOutput(tmp_path / "one"))
    monkeypatch.setattr("nearkin.runs.matching._split_rows", lambda rows, _: _single_rows(rows))
    match_files(inputs, COLUMNS, store, "web", MatchOutput(tmp_path / "two"))
    assert read_matches(tmp_path / "one") == read_matches(tmp_path / "two")


def _single_rows(rows: int) -> list[slice]:
    return [slice(row, row + 1) for row in range(rows)]


def test_too_many_documents_of_a_search_are_refused() -> None:
    with nk.Index.open("memory://", max_batch=2) as index:
        assert index.match_many("s", []) == []
        with pytest.raises(UsageError, match="larger than max_batch=2"):
            index.match_many("s", ["a", "b", "c"])


def test_added_files_are_kept_if_they_are_not_resolved_to_others(
    tmp_path: Path, store: str, new: pa.Table
) -> None:
    inputs = (str(tmp_path / "new.parquet"),)
    out = tmp_path / "out"
    added = add_files_with_matches(inputs, COLUMNS, store, "web", MatchOutput(out))
    rows = read_matches(out)
    with nk.Index.open(store) as index:
        for row in rows:
            entry = index.get("web", row["id"])
            assert entry is not None
            assert row["duplicate_of"] == (None if row["kept"] else entry.leader)
            assert row["cluster"] == entry.cluster
    assert sum(row["kept"] for row in rows) == added.outcomes["new"]
    assert pq.read_table(out / "kept").num_rows == added.outcomes["new"]
    again = MatchOutput(out, overwrite=True)
    add_files_with_matches(inputs, COLUMNS, store, "web", again)
    names = ("id", "kept", "duplicate_of", "cluster")
    assert [[row[name] for name in names] for row in read_matches(out)] == [
        [row[name] for name in names] for row in rows
    ]


def test_kept_documents_of_an_index_need_ids(tmp_path: Path, store: str, new: pa.Table) -> None:
    with pytest.raises(UsageError, match="needs ids"):
        add_files_with_matches(
            (str(tmp_path / "new.parquet"),), Columns(), store, "web", MatchOutput(tmp_path / "out")
        )
    assert not (tmp_path / "out").exists()


def test_commands_write_kept_documents_and_matches(
    tmp_path: Path, store: str, new: pa.Table, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = [str(tmp_path / "new.parquet"), "--id", "id", "--store", store, "--scope", "web"]
    assert run(["index", "match", *shared, "--out", str(tmp_path / "out"), "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts["documents"] == counts["kept"] + counts["matched"] == 41
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "kept",
        "matches.parquet",
        "rejected.jsonl",
        ".nearkin-output.json",
    }
    assert run(["index", "add", *shared, "--kept", str(tmp_path / "added")]) == 0
    assert (tmp_path / "added" / "matches.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "match", "NEW", "--store", "STORE", "--out", "NEW"], "cannot be the output"),
        (["index", "match", "NEW", "--store", "STORE", "--out", "TAKEN"], "exists; replace"),
        (["index", "match", "NEW", "--store", "ABSENT", "--out", "OUT"], "there is no index"),
        (["index", "match", "NEW", "--store", "STORE", "--text", "b", "--out", "OUT"], "column"),
        (["index", "add", "NEW", "--store", "STORE", "--kept", "OUT"], "needs ids"),
        (["index", "add", "NEW", "--store", "STORE", "--overwrite"], "without --kept"),
        (["dedup", "NEW", "--against", "STORE", "-t", "0.5", "--out", "OUT"], "no similarities"),
    ],
    ids=str,
)
def test_invalid_requests_are_refused_before_anything_is_written(
    tmp_path: Path,
    store: str,
    new: pa.Table,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "taken").mkdir()
    places = {
        "NEW": str(tmp_path / "new.parquet"),
        "OUT": str(tmp_path / "out"),
        "TAKEN": str(tmp_path / "taken"),
        "STORE": store,
        "ABSENT": f"sqlite:///{tmp_path / 'absent.db'}",
    }
    assert run([places.get(argument, argument) for argument in arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "absent.db").exists()


def test_blocked_documents_are_neither_added_nor_kept(
    tmp_path: Path, store: str, new: pa.Table
) -> None:
    texts = new["text"].to_pylist()
    blocklist = nk.Blocklist()
    blocklist.add([texts[3]], ["req-7"])
    blocklist.save(tmp_path / "blocked.list")
    out = tmp_path / "out"
    path = str(tmp_path / "new.parquet")
    command = ["index", "add", path, "--id", "id", "--store", store, "--scope", "web"]
    blocked = ["--blocklist", str(tmp_path / "blocked.list")]
    assert run([*command, *blocked, "--kept", str(out), "--json"]) == 0
    rows = read_matches(out)
    row = rows[3]
    assert (row["kept"], row["duplicate_of"], row["blocked_by"]) == (False, None, "req-7")
    expected = blocklist.match(texts, 0.6)
    assert [row["blocked_by"] is not None for row in rows] == [one is not None for one in expected]
    with nk.Index.open(store) as index:
        assert index.get("web", "d3") is None
    kept = pq.read_table(out / "kept" / "new.parquet")["id"].to_pylist()
    assert kept == [row["id"] for row in rows if row["kept"]]
    save_other_spec(tmp_path / "blocked.list")
    assert run([*command, *blocked]) == 2


def save_other_spec(path: Path) -> None:
    nk.Blocklist(nk.Spec(n=5)).save(path)


@pytest.mark.parametrize("postings", ["leaders", "all"])
def test_outcomes_and_related_documents_are_those_of_brute_force(
    tmp_path: Path, postings: str
) -> None:
    url = f"sqlite:///{tmp_path / 'related.db'}"
    stored = {f"s{number}": text for number, text in enumerate(make_texts(31, 50))}
    settings = {"threshold": 0.85, "related": 0.3, "bands": 128, "rows": 1, "postings": postings}
    with nk.Index.open(url, **settings) as index:
        index.upsert_many("web", list(stored.values()), list(stored))
        entries = [index.get("web", id) for id in stored]
    leaders = [entry for entry in entries if entry is not None and entry.is_leader]
    new = write_table(tmp_path / "new.parquet", share_texts(31, list(stored.values()), 40))
    out = tmp_path / "out"
    counts = match_files((str(tmp_path / "new.parquet"),), COLUMNS, url, "web", MatchOutput(out))

    expected_links = []
    outcomes = []
    for row, text in zip(read_matches(out), new["text"].to_pylist(), strict=True):
        scored = [(leader, similarity_of(text, stored[leader.id])) for leader in leaders]
        # of equal similarities the older representative comes first
        scored.sort(key=lambda pair: -pair[1])
        related = [
            (row["id"], leader.id, leader.cluster, similarity)
            for leader, similarity in scored
            if similarity >= 0.3 and leader.cluster != row["cluster"]
        ]
        expected_links += related
        outcomes.append("same" if not row["kept"] else "related" if related else "new")
        assert row["outcome"] == outcomes[-1]
    links = pq.read_table(out / "related.parquet").to_pylist()
    assert [tuple(link.values()) for link in links] == expected_links
    assert set(outcomes) == {"same", "related", "new"}
    assert counts.to_dict()["related"] == outcomes.count("related")


@pytest.mark.parametrize("batch", [256, 7])
def test_outcomes_of_added_documents_are_those_of_brute_force(tmp_path: Path, batch: int) -> None:
    url = f"sqlite:///{tmp_path / 'related.db'}"
    stored = {f"s{number}": text for number, text in enumerate(make_texts(33, 40))}
    settings: dict[str, Any] = {"threshold": 0.85, "related": 0.3, "bands": 128, "rows": 1}
    with nk.Index.open(url, max_batch=batch, **settings) as index:
        for id, text in stored.items():
            index.upsert("web", text, id)
    new = write_table(tmp_path / "new.parquet", share_texts(33, list(stored.values()), 30))
    out = tmp_path / "out"
    inputs = (str(tmp_path / "new.parquet"),)
    add_files_with_matches(inputs, COLUMNS, url, "web", MatchOutput(out))
    texts = {**stored, **dict(zip(new["id"].to_pylist(), new["text"].to_pylist(), strict=True))}
    with nk.Index.open(url) as index:
        entries = [index.get("web", id) for id in texts]
    leaders = [entry for entry in entries if entry is not None and entry.is_leader]
    expected = set()
    rows = read_matches(out)
    for row in rows:
        related = {
            (
                row["id"],
                leader.id,
                leader.cluster,
                similarity_of(texts[row["id"]], texts[leader.id]),
            )
            for leader in leaders
            if leader.cluster != row["cluster"]
        }
        related = {link for link in related if link[3] >= 0.3}
        expected |= related
        outcome = "related" if related else "new"
        assert row["outcome"] == (outcome if row["kept"] else "same")
    assert {row["outcome"] for row in rows} == {"same", "related", "new"}
    links = pq.read_table(out / "related.parquet")
    assert {tuple(link.values()) for link in links.to_pylist()} == expected
    assert any(link[1].startswith("d") for link in expected)
    # a repetition, for example after a kill, finds the same
    add_files_with_matches(inputs, COLUMNS, url, "web", MatchOutput(out, overwrite=True))
    assert pq.read_table(out / "related.parquet") == links
    names = ["id", "kept", "cluster", "outcome"]
    assert [[row[name] for name in names] for row in read_matches(out)] == [
        [row[name] for name in names] for row in rows
    ]


def test_outcomes_are_those_of_an_upsert_of_each_document(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'related.db'}"
    stored = make_texts(32, 30)
    new = write_table(tmp_path / "new.parquet", share_texts(32, stored, 20))
    settings = {"threshold": 0.85, "related": 0.3}
    with nk.Index.open(url, **settings) as index:
        index.upsert_many("web", stored)
    out = tmp_path / "out"
    match_files((str(tmp_path / "new.parquet"),), COLUMNS, url, "web", MatchOutput(out))
    names = {"new": "new", "related": "related", "match": "same"}
    for row, text in zip(read_matches(out), new["text"].to_pylist(), strict=True):
        with nk.Index.open("memory://", **settings) as copy:
            copy.upsert_many("web", stored)
            assert row["outcome"] == names[copy.upsert("web", text, id=row["id"]).kind]


def test_matches_have_no_outcomes_without_the_setting(
    tmp_path: Path, store: str, new: pa.Table
) -> None:
    out = tmp_path / "out"
    counts = match_files((str(tmp_path / "new.parquet"),), COLUMNS, store, "web", MatchOutput(out))
    assert "outcome" not in pq.read_schema(out / "matches.parquet").names
    assert not (out / "related.parquet").exists()
    assert counts.related is None
