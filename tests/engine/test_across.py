"""Linkage of sources: only documents of different sources are compared, through every door."""

import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import UsageError
from nearkin.runs.reopen import shadow_run
from nearkin.runtime.progress import Silent

SOURCES = ("shop a", "shop b", "shop c", None)
WORDS = {"shingle": "words:1", "threshold": 0.5, "text": "text", "id": "id", "across": "shop"}
COMPLETE = {"bands": 64, "rows": 1, "k": 64}
"""Bands of one row: a pair at 0.5 is missed with a probability of 2^-64."""


def random_table(seed: int, documents: int = 90) -> pa.Table:
    """Texts of a small vocabulary in clumps, with exact copies in one source and in several."""
    rng = random.Random(seed)
    words = [f"word{number}" for number in range(400)]
    texts: list[str] = []
    for _ in range(documents):
        if texts and rng.random() < 0.3:
            texts.append(rng.choice(texts))
        elif texts and rng.random() < 0.6:
            text = rng.choice(texts).split()
            text[rng.randrange(len(text))] = rng.choice(words)
            texts.append(" ".join(text))
        else:
            texts.append(" ".join(rng.sample(words, rng.randint(3, 12))))
    shops = [rng.choice(SOURCES) for _ in texts]
    regions = [rng.choice(["north", "south"]) for _ in texts]
    ids = [f"d{number:03}" for number in range(documents)]
    return pa.table({"id": ids, "text": texts, "shop": shops, "region": regions})


def jaccard(first: str, second: str) -> float:
    a = set(first.split())
    b = set(second.split())
    return len(a & b) / len(a | b)


def pairs_oracle(table: pa.Table, threshold: float, block: str | None = None) -> dict[Any, float]:
    rows = table.to_pylist()
    return {
        (a["id"], b["id"]): jaccard(a["text"], b["text"])
        for a, b in combinations(rows, 2)
        if a["shop"] != b["shop"]
        and (block is None or a[block] == b[block])
        and jaccard(a["text"], b["text"]) >= threshold
    }


def leaders_oracle(table: pa.Table, similar: dict[Any, float]) -> dict[str, str]:
    """The kept document of each document: the most similar kept one before it in keep order."""
    rows = sorted(table.to_pylist(), key=lambda row: (-len(row["text"]), row["id"]))
    kept: list[str] = []
    leader = {}
    for row in rows:
        name = row["id"]
        scores = [similar.get((min(name, k), max(name, k)), 0.0) for k in kept]
        leader[name] = name
        if max(scores, default=0.0) > 0:
            leader[name] = kept[scores.index(max(scores))]
        else:
            kept.append(name)
    return leader


def found_pairs(pairs: Any) -> dict[Any, float]:
    rows = pairs.to_pylist()
    return {(min(r["id_a"], r["id_b"]), max(r["id_a"], r["id_b"])): r["similarity"] for r in rows}


FORMS: dict[str, dict[str, Any]] = {
    "brute force": {},
    "banded": COMPLETE,
    "probes": {**COMPLETE, "bands": 32, "rows": 2, "probes": 1, "recall": 0.5},
}


@pytest.mark.parametrize("form", ["brute force", "banded"])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("block", [None, "region"])
def test_pairs_and_clusters_match_plain_oracle(form: str, seed: int, block: str | None) -> None:
    table = random_table(seed)
    options = {**WORDS, **FORMS[form], "block_by": block}
    want = pairs_oracle(table, 0.5, block)
    assert want
    result = nk.pairs(table, **options)
    assert found_pairs(result.pairs.arrow) == pytest.approx(want)
    clusters = nk.dedup(table, **options).clusters.arrow.to_pylist()
    leader = leaders_oracle(table, want)
    assert {row["id"]: row["cluster"] for row in clusters} == leader
    texts = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
    for row in clusters:
        if row["id"] != leader[row["id"]]:
            is_copy = texts[row["id"]] == texts[row["cluster"]]
            assert row["kind"] == ("exact" if is_copy else "near")
    kinds = {row["kind"] for row in clusters}
    assert kinds == {"exact", "near", "kept", "unique"}


def test_probed_pairs_have_different_sources() -> None:
    table = random_table(3)
    found = found_pairs(nk.pairs(table, **WORDS, **FORMS["probes"]).pairs.arrow)
    assert found.items() <= pairs_oracle(table, 0.5).items()
    assert len(found) > 0.5 * len(pairs_oracle(table, 0.5))


@pytest.mark.parametrize("measure", ["weighted-jaccard", "idf-jaccard", "simhash"])
def test_pairs_of_every_measure_are_those_of_all_documents_between_sources(measure: str) -> None:
    table = random_table(4)
    shops = dict(zip(table["id"].to_pylist(), table["shop"].to_pylist(), strict=True))
    options = {**WORDS, "measure": measure, "threshold": 0.6}
    del options["across"]
    every = found_pairs(nk.pairs(table, expand_exact=True, **options).pairs.arrow)
    want = {pair: score for pair, score in every.items() if shops[pair[0]] != shops[pair[1]]}
    found = found_pairs(nk.pairs(table, across="shop", **options).pairs.arrow)
    assert 0 < len(want) < len(every)
    assert found == pytest.approx(want)


def test_pairs_within_a_distance_and_of_vectors_are_between_sources() -> None:
    rng = random.Random(6)
    base = [[rng.gauss(0, 1) for _ in range(8)] for _ in range(12)]
    rows = [
        {
            "id": f"v{n:02}",
            "v": [x + rng.gauss(0, 0.05) for x in base[n % 12]],
            "shop": str(n // 16),
        }
        for n in range(48)
    ]
    table = pa.table(
        {
            "id": [row["id"] for row in rows],
            "v": pa.array([row["v"] for row in rows], pa.list_(pa.float32(), 8)),
            "shop": [row["shop"] for row in rows],
        }
    )
    shops = {row["id"]: row["shop"] for row in rows}
    for options in ({"threshold": 0.95}, {"distance": 60}):
        every = found_pairs(nk.pairs(table, id="id", vector="v", **options).pairs.arrow)
        want = {pair: score for pair, score in every.items() if shops[pair[0]] != shops[pair[1]]}
        linked = nk.pairs(table, id="id", vector="v", across="shop", **options)
        assert 0 < len(want) < len(every)
        assert found_pairs(linked.pairs.arrow) == pytest.approx(want)


def test_contained_documents_are_between_sources() -> None:
    table = random_table(7)
    rows = table.to_pylist()
    long = [f"{row['text']} more words in one longer document" for row in rows[:30]]
    shops = [rows[number]["shop"] if number % 2 else "shop a" for number in range(30)]
    more = {"id": [f"l{n:02}" for n in range(30)], "text": long, "shop": shops}
    table = pa.concat_tables([table.drop_columns(["region"]), pa.table(more)])
    shop_of = dict(zip(table["id"].to_pylist(), table["shop"].to_pylist(), strict=True))
    text_of = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
    found = nk.pairs(table, relation="containment", **{**WORDS, "threshold": 1.0}).pairs.arrow
    found_ids = {frozenset((row["id_a"], row["id_b"])) for row in found.to_pylist()}
    want = set()
    for a, b in combinations(text_of, 2):
        first = set(text_of[a].split())
        second = set(text_of[b].split())
        if shop_of[a] != shop_of[b] and (first <= second or second <= first):
            want.add(frozenset((a, b)))
    assert found_ids == want


def test_pairs_of_one_source_do_not_use_up_the_pair_budget() -> None:
    """400 copies in one source and 2 in another have 800 pairs between them, not 80,601."""
    text = "one text that many rows of one shop repeat"
    ids = [f"d{number:03}" for number in range(402)]
    table = pa.table({"id": ids, "text": [text] * 402, "shop": ["a"] * 400 + ["b"] * 2})
    options = {**WORDS, **COMPLETE, "hot_bucket_size": 2}
    result = nk.pairs(table, pair_budget=800, **options)
    assert len(result.pairs.arrow) == 800
    assert result.stages["candidates"]["hot_buckets"] == 0
    cut = nk.pairs(table, pair_budget=779, **options)
    assert cut.stages["candidates"]["hot_buckets"] == 64


def test_copies_of_one_source_do_not_take_all_leaders_of_a_hot_bucket() -> None:
    rows = [("a", f"frequent phrase copy {'x' * 60}")] * 50
    rows += [("b", f"frequent phrase {n} other end") for n in range(3)]
    rows += [("a", f"frequent phrase {n} other end") for n in range(3)]
    ids = [f"d{n:03}" for n in range(len(rows))]
    table = pa.table(
        {"id": ids, "text": [text for _, text in rows], "shop": [shop for shop, _ in rows]}
    )
    result = nk.dedup(
        table,
        **{**WORDS, "threshold": 0.9},
        **COMPLETE,
        hot_bucket_size=3,
        pair_budget=0,
        fanout=8,
    )
    assert result.stages["candidates"]["hot_buckets"] > 0
    assert len(result.clusters.arrow) - sum(result.kept.tolist()) == 3


def test_exact_copies_of_one_source_are_all_kept() -> None:
    table = pa.table(
        {"id": ["a1", "a2", "b1"], "text": ["same words here"] * 3, "shop": ["a", "a", "b"]}
    )
    result = nk.dedup(table, **WORDS)
    assert result.clusters.arrow["kind"].to_pylist() == ["kept", "unique", "exact"]
    assert result.kept.tolist() == [True, True, False]
    assert found_pairs(nk.pairs(table, **WORDS).pairs.arrow) == {
        ("a1", "b1"): 1.0,
        ("a2", "b1"): 1.0,
    }


def test_components_may_join_documents_of_one_source_through_another_one() -> None:
    table = pa.table(
        {"id": ["a1", "a2", "b1"], "text": ["w1 w2 w3 w4 w5", "w1 w2 w3 w4", "w1 w2 w3 w4"]}
        | {"shop": ["a", "a", "b"]}
    )
    joined = nk.dedup(table, cluster="components", **WORDS).clusters.arrow
    assert joined["cluster"].to_pylist() == ["a1", "a1", "a1"]
    apart = nk.dedup(table, **WORDS).clusters.arrow
    assert apart["cluster"].to_pylist() == ["a1", "a2", "a2"]


def test_documents_without_a_source_are_one_source_and_are_counted() -> None:
    table = pa.table(
        {"id": ["a1", "n1", "n2"], "text": ["same words here"] * 3, "shop": ["a", None, None]}
    )
    result = nk.dedup(table, **WORDS)
    assert result.clusters.arrow["cluster"].to_pylist() == ["a1", "a1", "a1"]
    assert found_pairs(nk.pairs(table, **WORDS).pairs.arrow).keys() == {("a1", "n1"), ("a1", "n2")}
    assert result.stages["collapse"]["without_source"] == 2
    assert any(
        "2 documents have no value in column 'shop'" in warning for warning in result.warnings
    )
    complete = nk.dedup(table, **{**WORDS, "across": "id"})
    assert complete.stages["collapse"]["without_source"] == 0


def test_a_source_that_is_not_a_number_is_missing() -> None:
    shops = pa.array([1.0, float("nan"), None], from_pandas=False)
    table = pa.table({"id": ["a1", "n1", "n2"], "text": ["same words here"] * 3, "shop": shops})
    assert nk.dedup(table, **WORDS).stages["collapse"]["without_source"] == 2


def test_same_column_as_block_is_refused() -> None:
    table = random_table(1)
    with pytest.raises(UsageError, match="across='shop' and block_by='shop' exclude each other"):
        nk.dedup(table, block_by="shop", **WORDS)


def test_missing_column_is_refused() -> None:
    with pytest.raises(UsageError, match="shopp"):
        nk.dedup(random_table(1), **{**WORDS, "across": "shopp"})


def test_second_measure_joins_only_documents_of_different_sources() -> None:
    """b1 is removed for c1 by its vector; a2, its member, may not follow it to c1 of source a."""
    texts = ["w1 w2 w3 w4 w5 w6", "w1 w2 w3 w4 w5", "z1 z2 z3 z4 z5 z6 z7 z8"]
    table = pa.table(
        {
            "id": ["b1", "a2", "c1"],
            "text": texts,
            "shop": ["b", "a", "a"],
            "v": pa.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], pa.list_(pa.float32(), 2)),
        }
    )
    result = nk.dedup(table, second_measure="cosine:v:0.9", **WORDS)
    assert result.clusters.arrow["cluster"].to_pylist() == ["c1", "a2", "c1"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("across") / "shops.parquet"
    pq.write_table(random_table(11), path)
    return path


COMMAND = ("--id", "id", "--shingle", "words:1", "--threshold", "0.5", "--across", "shop")


def test_commands_saved_runs_audit_and_explain_agree(
    corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def summary(*arguments: str) -> Any:
        assert run([*arguments, "--json"]) == 0, capfd.readouterr().err
        return json.loads(capfd.readouterr().out)

    table = pq.read_table(corpus)
    want = pairs_oracle(table, 0.5)
    first = tmp_path / "first"
    record = summary("dedup", str(corpus), "--out", str(first), *COMMAND, "--save-signatures")
    assert record["parameters"]["across"] == "shop"
    clusters = pq.read_table(first / "clusters.parquet")
    leader = leaders_oracle(table, want)
    got = dict(zip(clusters["id"].to_pylist(), clusters["cluster"].to_pylist(), strict=True))
    assert got == leader
    pairs_file = tmp_path / "pairs.parquet"
    summary("pairs", str(corpus), "--out", str(pairs_file), *COMMAND)
    assert found_pairs(pq.read_table(pairs_file)) == pytest.approx(want)
    again = tmp_path / "again"
    summary("dedup", str(first), "--out", str(again), *COMMAND[4:])
    assert pq.read_table(again / "clusters.parquet").equals(clusters)
    audit = summary("audit", str(first), "--sample", "90")
    assert audit["recall"]["value"] == 1.0
    assert audit["recall"]["total"] == len(want)
    shadow = shadow_run(first, {"threshold": 0.6}, Silent())
    assert (shadow.live.pairs, shadow.shadow.pairs) == (len(want), len(pairs_oracle(table, 0.6)))
    assert {(pair.id_a, pair.id_b) for pair in shadow.disagreements} <= set(want)
    one_source = next(
        pair
        for pair in combinations(table.to_pylist(), 2)
        if pair[0]["shop"] == pair[1]["shop"] == "shop a" and pair[0]["text"] == pair[1]["text"]
    )
    explained = summary("explain", one_source[0]["id"], one_source[1]["id"], "--run", str(first))
    assert explained["verdict"] == "not compared"
    assert "both have the value 'shop a' in column 'shop'" in explained["why"]
    assert run(["index", "build", str(first), "--store", f"sqlite:///{tmp_path}/kin.db"]) == 2
    assert (
        "made with --across shop: it compared only documents of different" in capfd.readouterr().err
    )
    by_source = [*COMMAND[:-2], "--source", "shop"]
    assert run(["dedup", str(corpus), "--out", str(first), *by_source, "--resume"]) == 2
    assert "across" in capfd.readouterr().err
