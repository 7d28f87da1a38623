"""Tests of indexes that follow people's decisions."""

import itertools
import json
import random
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run as run_command
from nearkin.errors import UsageError
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.settings.decisions import Decision, Decisions, Verdict

SCOPE = "a"
WORDS = [f"word{number}" for number in range(12)]
IDS = [f"d{number}" for number in range(10)]


def decide(same: list[tuple[str, str]], different: list[tuple[str, str]]) -> Decisions:
    return Decisions.resolve(
        [Decision(a, b, Verdict.SAME) for a, b in same]
        + [Decision(a, b, Verdict.DIFFERENT) for a, b in different]
    )


def random_decisions(rng: random.Random) -> Decisions:
    pairs = list(itertools.combinations(IDS, 2))
    same = rng.sample(pairs, 3)
    groups = [{id} for id in IDS]
    for pair in same:
        touched = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if not group & set(pair)] + [set().union(*touched)]
    different = [
        pair for pair in rng.sample(pairs, 12) if not any(set(pair) <= group for group in groups)
    ]
    return decide(same, different)


def random_text(rng: random.Random) -> str:
    words = list(WORDS[:10]) if rng.random() < 0.6 else list(WORDS[2:])
    words[rng.randrange(len(words))] = rng.choice([*WORDS, "other"])
    return " ".join(words)


def open_index(url: str | list[str], decisions: Decisions | Path, **options: object) -> nk.Index:
    spec = nk.Spec(n=1)
    return nk.Index.open(url, spec, 0.6, decisions={SCOPE: decisions}, **options)  # type: ignore[arg-type]


def require_followed(index: nk.Index, decisions: Decisions) -> None:
    leaders = {entry.id: entry.leader for entry in index.scan() if entry.scope == SCOPE}
    clusters = {entry.id: entry.cluster for entry in index.scan() if entry.scope == SCOPE}
    for a, b in decisions.different:
        if a in leaders and b in leaders:
            assert leaders[a] != leaders[b]
            assert clusters[a] != clusters[b]
    for a, b in decisions.same:
        if a in leaders and b in leaders:
            assert leaders[a] == leaders[b]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "shards"])
@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.full) for seed in (3, 4, 5))]
)
def test_random_steps_follow_decisions(kind: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    decisions = random_decisions(rng)
    urls: dict[str, str | list[str]] = {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path}/index.db",
        "shards": [f"sqlite:///{tmp_path}/{name}.db" for name in "xy"],
    }
    joined = 0
    with open_index(urls[kind], decisions) as index:
        for _ in range(40):
            action = rng.random()
            if action < 0.25:
                index.remove(SCOPE, rng.choice(IDS))
            elif action < 0.6:
                index.upsert(SCOPE, random_text(rng), rng.choice(IDS))
            elif action < 0.95:
                ids = rng.sample(IDS, rng.randrange(2, 6))
                index.upsert_many(SCOPE, [random_text(rng) for _ in ids], ids)
            else:
                merge_clusters(index)
            require_followed(index, decisions)
            entries = list(index.scan())
            joined += len(entries) - sum(entry.is_leader for entry in entries)
    assert joined > 0


def test_different_documents_are_not_joined_through_a_third_one() -> None:
    text = " ".join(WORDS)
    with open_index("memory://", decide([], [("a", "c")])) as index:
        index.upsert(SCOPE, text, "kept")
        assert index.upsert(SCOPE, text, "a").representative == "kept"
        assert index.upsert(SCOPE, text, "c").kind == "new"
        assert index.upsert("other scope", text, "a").kind == "new"
        assert index.upsert("other scope", text, "c").representative == "a"


def test_documents_without_content_stay_with_those_that_are_the_same() -> None:
    decisions = decide([("leader", "other"), ("other", "empty")], [])
    options = {"store_text": False, "member_content": True}
    with open_index("memory://", decisions, **options) as index:
        index.upsert(SCOPE, "one two three four", "leader")
        index.upsert(SCOPE, "one two three four five", "heir")
        index.upsert(SCOPE, "six seven eight nine", "other")
        index.upsert(SCOPE, "", "empty")
        assert {entry.leader for entry in index.scan()} == {"leader"}
        index.remove(SCOPE, "leader")
        require_followed(index, decisions)
        assert {entry.id: entry.leader for entry in index.scan()} == {
            "heir": "heir",
            "other": "other",
            "empty": "other",
        }
        assert not check_index(index).problems


def test_same_documents_are_joined_with_their_own_similarity() -> None:
    with open_index("memory://", decide([("a", "b"), ("b", "c")], [])) as index:
        index.upsert(SCOPE, "one two three four", "a")
        outcome = index.upsert(SCOPE, "four five six seven", "c")
        assert (outcome.representative, outcome.similarity) == ("a", pytest.approx(1 / 7))
        assert index.upsert(SCOPE, "", "b").representative == "a"
        batch = index.upsert_many("x", ["one", "two"], ["a", "b"])
        assert [outcome.kind for outcome in batch] == ["new", "new"]


def test_decisions_of_a_file_are_followed_and_checked_before_the_store_is_opened(
    tmp_path: Path,
) -> None:
    path = tmp_path / "decisions.csv"
    path.write_text("id_a,id_b,decision\na,b,same\n")
    with open_index("memory://", path) as index:
        index.upsert(SCOPE, "one", "a")
        assert index.upsert(SCOPE, "two", "b").representative == "a"
    path.write_text("id_a,id_b,decision\na,b,same\nb,c,same\na,c,different\n")
    with pytest.raises(UsageError, match="'a' = 'b' = 'c'"):
        open_index(f"sqlite:///{tmp_path}/index.db", path)
    assert not (tmp_path / "index.db").exists()


def test_clusters_of_different_documents_are_not_merged(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    text = " ".join(WORDS)
    with open_index(url, decide([], [("a", "b")])) as index:
        index.upsert_many(SCOPE, [text, text, text], ["a", "b", "c"])
        assert merge_clusters(index) == {"merged": 0, "moved": 0, "posted": 0}
    with nk.Index.open(url) as index:
        assert merge_clusters(index)["merged"] == 1


def test_commands_follow_decisions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = tmp_path / "in.jsonl"
    text = " ".join(WORDS)
    rows = [{"id": id, "text": text} for id in "abc"] + [{"id": "x", "text": "of its own"}]
    inputs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    decisions = tmp_path / "decisions.csv"
    decisions.write_text("id_a,id_b,decision\na,b,different\nx,a,same\n")
    store = ["--store", f"sqlite:///{tmp_path}/index.db"]
    decided = ["--decisions", str(decisions)]
    with nk.Index.open(store[1]):
        pass
    assert run_command(["index", "add", str(inputs), "--id", "id", *store, *decided]) == 0
    with nk.Index.open(store[1]) as index:
        leaders = {entry.id: entry.leader for entry in index.scan()}
    assert leaders == {"a": "a", "b": "b", "c": "a", "x": "a"}
    assert run_command(["index", "check", *store]) == 1
    assert run_command(["index", "check", *store, *decided]) == 0
    assert run_command(["index", "check", *store, "--scope", "default"]) == 2
    assert run_command(["index", "compact", *store, *decided, "--json"]) == 0
    assert run_command(["index", "remove", "a", *store, *decided]) == 0
    with nk.Index.open(store[1]) as index:
        leaders = {entry.id: entry.leader for entry in index.scan()}
    assert leaders["c"] == "b"
    capsys.readouterr()


def test_document_joins_the_cluster_of_the_smallest_number(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    with open_index(url, decide([], [])) as index:
        index.upsert_many(SCOPE, ["a b c d e", "v w x y z"], ["10", "9"])
    with open_index(url, decide([("x", "10"), ("x", "9")], [])) as index:
        assert index.upsert(SCOPE, "k l m n o", "x").representative == "9"
