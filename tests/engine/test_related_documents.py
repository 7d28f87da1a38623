"""Related documents: linked below the threshold, and never removed because of it."""

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.stages.measures import measure_of

WORDS = {"shingle": "words:1", "threshold": 0.8, "id": "id"}
FLAGS = ["--id", "id", "--shingle", "words:1", "--threshold", "0.8", "--quiet"]
SWAPS = (0, 0, 1, 3, 6, 10, 20)
"""The number of words that each version of a text exchanges."""


def make_versions(seed: int, groups: int = 12) -> pa.Table:
    """Returns texts of 40 words in versions of many similarities, and an empty text."""
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(300)]
    texts = [""]
    for _ in range(groups):
        base = rng.sample(words, 40)
        for swaps in SWAPS:
            version = list(base)
            for place in rng.sample(range(40), swaps):
                version[place] = rng.choice(words)
            texts.append(" ".join(version))
    ids = [f"doc, '{number:03d}'" for number in range(len(texts))]
    return pa.table({"id": ids, "text": texts})


def compare_by_sets(table: pa.Table) -> dict[tuple[str, str], float]:
    """Returns the similarity of all pairs of different texts that share a word."""
    first: dict[str, str] = {}
    for name, text in zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True):
        first.setdefault(text, name)
    sets = {name: frozenset(text.split()) for text, name in first.items()}
    similarities = {
        (a, b): len(sets[a] & sets[b]) / max(len(sets[a] | sets[b]), 1)
        for a, b in itertools.combinations(sets, 2)
    }
    return {pair: similarity for pair, similarity in similarities.items() if similarity}


@pytest.mark.parametrize(
    "options",
    [{}, {"bands": 64, "rows": 2}, {"cluster": "components", "floor": 0.3}, {"keep_up_to": 2}],
    ids=["every pair", "bands", "components", "further copies"],
)
def test_related_pairs_are_all_pairs_of_different_clusters_by_brute_force(
    options: dict[str, Any],
) -> None:
    table = make_versions(1)
    result = nk.dedup(table, related=0.3, **WORDS, **options)
    clusters = {row["id"]: row for row in result.clusters.to_pylist()}
    expected = {
        pair: similarity
        for pair, similarity in compare_by_sets(table).items()
        if similarity >= 0.3 and clusters[pair[0]]["cluster"] != clusters[pair[1]]["cluster"]
    }
    assert len(expected) > 50
    rows = result.related.to_pylist()
    assert {(row["id_a"], row["id_b"]): row["similarity"] for row in rows} == expected
    for row in rows:
        for side in ("a", "b"):
            own = clusters[row[f"id_{side}"]]
            assert (row[f"kept_{side}"], row[f"cluster_{side}"]) == (own["kept"], own["cluster"])
    linked = {name for pair in expected for name in pair}
    for name, row in clusters.items():
        is_duplicate = row["kind"] in ("exact", "near", "further")
        outcome = "same" if is_duplicate else "related" if name in linked else "new"
        assert row["outcome"] == outcome
    assert {row["outcome"] for row in clusters.values()} == {"same", "related", "new"}
    assert result.statistics["related_pairs"] == len(rows)
    is_related = [row["outcome"] == "related" for row in clusters.values()]
    assert result.statistics["related"] == sum(is_related)
    assert f"{sum(is_related)} kept documents are related" in result.report_data.headline


CONDITIONS: dict[str, dict[str, Any]] = {
    "a condition": {"accept": "jaccard >= 0.7 and containment >= 0.9"},
    "a condition, bands": {
        "accept": "jaccard >= 0.7 and length_ratio <= 1",
        "bands": 64,
        "rows": 2,
    },
    "equal numbers": {"accept": "jaccard >= 0.5 and numbers_equal"},
    "equal values": {"accept": "jaccard >= 0.5 and same(part)", "bands": 64, "rows": 2},
    "a bound on the loss": {"threshold": 0.6, "max_lost": 0.1},
    "containment": {"accept": "containment >= 0.9", "bands": 64, "rows": 2},
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(name, marks=pytest.mark.full if name == "containment" else ())
        for name in CONDITIONS
    ],
)
def test_pairs_that_a_condition_does_not_accept_are_related(case: str) -> None:
    options = {"shingle": "words:1", "id": "id", **CONDITIONS[case]}
    table = make_versions(8)
    parts = pa.array([f"p{number % 2}" for number in range(len(table))])
    table = table.append_column("part", parts)
    plain = nk.dedup(table, **options)
    result = nk.dedup(table, related=0.4, **options)
    if "same" not in options.get("accept", ""):
        assert result.clusters.arrow.drop_columns(["outcome"]).equals(plain.clusters.arrow)
    clusters = {row["id"]: row for row in result.clusters.to_pylist()}
    texts = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
    related = {(row["id_a"], row["id_b"]): row["similarity"] for row in result.related.to_pylist()}
    expected = {
        pair: similarity
        for pair, similarity in compare_by_sets(table).items()
        if similarity >= 0.4 and clusters[pair[0]]["cluster"] != clusters[pair[1]]["cluster"]
    }
    assert len(expected) > 30
    # Exact duplicates that the condition keeps apart are pairs of their own.
    distinct = {pair for pair in related if texts[pair[0]] != texts[pair[1]]}
    if "equal values" not in case:
        assert {pair: related[pair] for pair in distinct} == expected
    else:
        assert expected.keys() <= distinct
    linked = {name for pair in related for name in pair}
    for name, row in clusters.items():
        outcome = "same" if not row["kept"] else "related" if name in linked else "new"
        assert row["outcome"] == outcome


@pytest.mark.parametrize("small_corpus", [10, 10_000])
@pytest.mark.parametrize("kind", ["fingerprint", "vector"])
def test_documents_beyond_the_distance_are_related(
    kind: str, small_corpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", small_corpus)
    rng = random.Random(9)
    hashes = [rng.getrandbits(64) for _ in range(30)]
    for _ in range(90):
        copy = rng.choice(hashes)
        for bit in rng.sample(range(64), rng.randrange(9)):
            copy ^= 1 << bit
        hashes.append(copy)
    options: dict[str, Any] = {"fingerprint": "x", "related": 1 - 9 / 64}
    table = pa.table({"x": pa.array(hashes, pa.uint64())})
    if kind == "vector":
        vectors = [[1 if value >> bit & 1 else -1 for bit in range(64)] for value in hashes]
        table = pa.table({"x": pa.array(vectors, pa.list_(pa.float32()))})
        options = {"vector": "x", "k": 64, "related": 1 - 9 / 64}
    result = nk.dedup(table, distance=3, **options)
    plain = nk.dedup(table, distance=3, **{**options, "related": None})
    assert result.clusters.arrow.drop_columns(["outcome"]).equals(plain.clusters.arrow)
    close = nk.pairs(table, distance=9, **{**options, "related": None}).pairs.to_pylist()
    cluster_of = dict(
        zip(
            result.clusters["id"].to_pylist(),
            result.clusters["cluster"].to_pylist(),
            strict=True,
        )
    )
    expected = {
        (row["id_a"], row["id_b"]): row["similarity"]
        for row in close
        if cluster_of[row["id_a"]] != cluster_of[row["id_b"]]
    }
    found = {(row["id_a"], row["id_b"]): row["similarity"] for row in result.related.to_pylist()}
    assert found == expected
    assert len(found) > 20


def test_related_documents_change_no_cluster_of_a_complete_comparison() -> None:
    table = make_versions(2)
    plain = nk.dedup(table, **WORDS)
    linked = nk.dedup(table, related=0.5, **WORDS)
    assert linked.clusters.arrow.drop_columns(["outcome"]).equals(plain.clusters.arrow)
    assert linked.pairs.arrow.equals(plain.pairs.arrow)
    assert "related" not in plain.statistics
    with pytest.raises(UsageError, match="deduplicate again with related"):
        _ = plain.related


def test_bands_are_planned_for_the_lower_threshold() -> None:
    lower = RunOptions(threshold=0.6)
    both = RunOptions(threshold=0.8, related=0.6)
    banding = both.banding(measure_of(both.spec), 10_000)
    assert banding == lower.banding(measure_of(lower.spec), 10_000)
    assert banding.recall >= both.recall


def test_hot_buckets_remove_documents_at_the_threshold_only() -> None:
    rng = random.Random(3)
    common = [f"c{number}" for number in range(30)]
    texts = [" ".join([*common, *(f"r{rng.random()}" for _ in range(10))]) for _ in range(120)]
    texts += [f"{text} more" for text in texts[:40]]
    bands = {"bands": 64, "rows": 2, "hot_bucket_size": 5, "fanout": 3}
    result = nk.dedup(texts, threshold=0.8, related=0.4, shingle="words:1", **bands)
    assert result.stages["candidates"]["hot_buckets"] > 0
    assert result.report_data.counts.removed_near == 40
    removed = result.removed.to_pylist()
    assert all(row["similarity"] >= 0.8 and row["outcome"] == "same" for row in removed)
    assert min(result.related["similarity"].to_pylist()) < 0.8


def test_another_threshold_moves_pairs_between_same_and_related() -> None:
    table = make_versions(4)
    raised = nk.dedup(table, related=0.5, **WORDS).rethreshold(0.9)
    fresh = nk.dedup(table, related=0.5, **{**WORDS, "threshold": 0.9})
    assert raised.clusters.arrow.equals(fresh.clusters.arrow)
    assert raised.related.arrow.equals(fresh.related.arrow)


@pytest.mark.parametrize("texts", [[], ["one text"], ["", "  ", "!!"]])
def test_corpora_without_pairs_have_no_related_documents(texts: list[str]) -> None:
    result = nk.dedup(texts, related=0.5)
    assert len(result.related) == 0
    assert set(result.clusters["outcome"].to_pylist()) <= {"new"}


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"related": 0.8}, "related=0.8 is out of range; it must be above 0 and below the threshold"),
    ({"related": 0.0}, "related=0.0 is out of range"),
    ({"related": float("nan")}, "related=nan is not a number"),
    ({"related": 0.6, "verify": "none"}, "needs similarities of pairs"),
    ({"related": 1.5, "accept": "safe"}, "related=1.5 is out of range; it must be above 0"),
    ({"related": 0.97, "measure": "simhash", "distance": 3}, "below the threshold 0.953125"),
]


@pytest.mark.parametrize(("options", "message"), FAULTS)
def test_contradictory_options_are_refused(options: dict[str, Any], message: str) -> None:
    if "distance" not in options and "accept" not in options:
        options = {"threshold": 0.8, **options}
    with pytest.raises(UsageError) as raised:
        nk.dedup(["a b c d", "a b c e"], **options)
    assert message in str(raised.value)


@pytest.mark.parametrize("function", ["pairs", "check", "split"])
def test_functions_without_clusters_refuse_related_documents(function: str) -> None:
    data = ["a b c d", "a b c e"]
    arguments: dict[str, Any] = {"pairs": (data,), "check": (data, data), "split": (data,)}
    extra: dict[str, Any] = {"groups": [0.5, 0.5]} if function == "split" else {}
    with pytest.raises(UsageError, match=r"related=0\.5"):
        getattr(nk, function)(*arguments[function], related=0.5, **extra)


def test_outputs_say_which_documents_are_related(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = make_versions(5)
    pq.write_table(table, tmp_path / "in.parquet")
    (tmp_path / "settings.toml").write_text("related = 0.4\n")
    command = ["dedup", str(tmp_path / "in.parquet"), *FLAGS]
    out = tmp_path / "out"
    settings = ["--settings", str(tmp_path / "settings.toml")]
    assert run([*command, *settings, "--annotate", "--out", str(out)]) == 0
    printed = " ".join(capsys.readouterr().err.split())
    result = nk.dedup(table, related=0.4, **WORDS)
    assert pq.read_table(out / "related.parquet").equals(result.related.arrow)
    assert pq.read_table(out / "clusters.parquet").equals(result.clusters.arrow)
    outcomes = pq.read_table(out / "kept" / "in.parquet")["outcome"]
    assert outcomes.to_pylist() == result.clusters["outcome"].to_pylist()
    record = json.loads((out / "run.json").read_bytes())
    assert record["parameters"]["related"] == 0.4
    assert record["counts"]["related"] == result.statistics["related"]
    sentence = result.report_data.counts.describe_related().strip()
    assert sentence in printed
    assert sentence in (out / "report.html").read_text()
    written = result.write(tmp_path / "written")
    assert pq.read_table(written / "related.parquet").equals(result.related.arrow)
    assert run([*command, "--related", "0.5", "--resume", "--annotate", "--out", str(out)]) == 2
    assert "--related 0.4, and this run has --related 0.5" in capsys.readouterr().err
    assert run([*command, "--related", "0.4", "--resume", "--annotate", "--out", str(out)]) == 0


def test_outputs_of_other_runs_have_no_trace_of_the_option(tmp_path: Path) -> None:
    pq.write_table(make_versions(6, 3), tmp_path / "in.parquet")
    out = tmp_path / "out"
    assert run(["dedup", str(tmp_path / "in.parquet"), *FLAGS, "--out", str(out)]) == 0
    assert not (out / "related.parquet").exists()
    assert b"related" not in (out / "run.json").read_bytes()
    assert b"related" not in (out / "report.json").read_bytes()
    assert "outcome" not in pq.read_schema(out / "clusters.parquet").names


@pytest.mark.full
def test_share_of_related_pairs_that_bands_find_is_the_requested_recall() -> None:
    table = make_versions(7, 800)
    # Texts of different groups share a seventh of their words.
    expected = {
        pair
        for start in range(1, len(table), len(SWAPS))
        for pair, value in compare_by_sets(table.slice(start, len(SWAPS))).items()
        if value >= 0.6
    }
    result = nk.dedup(table, related=0.6, recall=0.95, **WORDS)
    assert not result.stages["verify"]["brute_force"]
    pairs = [*result.related.to_pylist(), *result.pairs.to_pylist()]
    share = len({(row["id_a"], row["id_b"]) for row in pairs} & expected) / len(expected)
    # Pairs above the threshold are found with a higher probability than those at it. The standard
    # deviation of a share of m pairs is at most sqrt(0.95 * 0.05 / m).
    assert share >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / len(expected))
