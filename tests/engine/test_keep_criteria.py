"""Tests of the criteria that choose the kept document after clustering, against a plain oracle."""

import random
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import UsageError
from nearkin.stages.cluster.keep import KeepPolicy
from nearkin.stages.cluster.kept_documents import ClusterCriterion, choose_kept_documents
from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs

WORDS: dict[str, Any] = {"text": "text", "id": "id", "shingle": "words:1", "threshold": 0.5}
Score = Callable[[set[str], set[str]], Fraction]


def make_versions(seed: int, documents: int = 120) -> pa.Table:
    """Returns texts in clusters of versions, with exact copies, in three blocks."""
    rng = random.Random(seed)
    texts: list[str] = []
    for _ in range(documents):
        if texts and rng.random() < 0.8:
            words = rng.choice(texts).split()
            if rng.random() < 0.8:
                words = rng.sample(words, rng.randint(max(1, len(words) - 2), len(words)))
                words += [f"new{rng.randrange(60)}" for _ in range(rng.randrange(3))]
            texts.append(" ".join(words))
        else:
            texts.append(" ".join(f"w{rng.randrange(2000)}" for _ in range(rng.randint(4, 12))))
    ids = [f"d{at:03}" for at in rng.sample(range(1000), documents)]
    dates = [rng.choice(["2024", "2023-05", None, "soon"]) for _ in texts]
    return pa.table({"id": ids, "text": texts, "date": dates})


def jaccard(a: set[str], b: set[str]) -> Fraction:
    return Fraction(len(a & b), len(a | b))


def containment_of_second(a: set[str], b: set[str]) -> Fraction:
    return Fraction(len(a & b), len(b))


SCORES: dict[str, Score] = {"central": jaccard, "most-complete": containment_of_second}


def keep_by_oracle(table: pa.Table, score: Score) -> dict[str, str]:
    """Returns the id of the kept document of each document, with the keep order `length desc`."""
    rows = sorted(table.to_pylist(), key=lambda row: (-len(row["text"]), row["id"]))
    groups: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        groups[row["text"]].append(row["id"])
    sets = {text: set(text.split()) for text in groups}
    half = Fraction(1, 2)
    clusters: dict[str, list[str]] = {}
    for text in groups:
        leaders = [leader for leader in clusters if jaccard(sets[leader], sets[text]) >= half]
        if leaders:
            nearest = max(leaders, key=lambda leader: jaccard(sets[leader], sets[text]))
            clusters[nearest].append(text)
        else:
            clusters[text] = [text]
    kept = {}
    for members in clusters.values():
        candidates = []
        for place, text in enumerate(members):
            others = [other for other in members if other != text]
            if all(jaccard(sets[text], sets[other]) >= half for other in others):
                total = sum(len(groups[other]) * score(sets[text], sets[other]) for other in others)
                candidates.append((-total - (len(groups[text]) - 1), place, text))
        best = min(candidates)[2]
        kept.update({id_: groups[best][0] for text in members for id_ in groups[text]})
    return kept


@pytest.mark.parametrize("criterion", SCORES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_kept_documents_are_those_of_an_oracle(criterion: str, seed: int) -> None:
    table = make_versions(seed)
    result = nk.dedup(table, keep=criterion, **WORDS)
    chosen = {row["id"]: row["cluster"] for row in result.clusters.to_pylist()}
    assert chosen == keep_by_oracle(table, SCORES[criterion])


@pytest.mark.parametrize("criterion", SCORES)
def test_banding_and_brute_force_keep_the_same_documents(criterion: str) -> None:
    table = make_versions(4)
    # A pair at the threshold is missed with a probability of 2^-64.
    banded = nk.dedup(table, keep=criterion, bands=64, rows=1, k=64, **WORDS)
    assert (
        banded.clusters.to_pylist() == nk.dedup(table, keep=criterion, **WORDS).clusters.to_pylist()
    )


@pytest.mark.parametrize("cluster", ["leaders", "components"])
@pytest.mark.parametrize("criterion", ["central", "most-complete, newest:date", "central, id desc"])
def test_removed_documents_were_verified_against_the_kept_one(criterion: str, cluster: str) -> None:
    table = make_versions(5)
    floor = {"floor": 0.2} if cluster == "components" else {}
    result = nk.dedup(table, keep=criterion, cluster=cluster, **floor, **WORDS)
    sets = {row["id"]: set(row["text"].split()) for row in table.to_pylist()}
    least = Fraction(1, 5) if cluster == "components" else Fraction(1, 2)
    kept = {row["id"] for row in result.clusters.to_pylist() if row["kept"]}
    for row in result.clusters.to_pylist():
        similarity = jaccard(sets[row["id"]], sets[row["cluster"]])
        assert row["similarity"] == pytest.approx(float(similarity))
        assert row["cluster"] in kept
        assert similarity >= least
    kinds = result.clusters.arrow["kind"].to_pylist()
    assert result.statistics["clusters"] == kinds.count("kept")


def test_copies_count_in_the_mean() -> None:
    """Three copies of one text outweigh a longer text, which the longest one contains."""
    data = {
        "id": list("abcde"),
        "text": ["p q r s t u v", "p q r s t u w", *["p q r s t"] * 3],
    }
    assert nk.dedup(data, **WORDS).kept.tolist() == [True, False, False, False, False]
    central = nk.dedup(data, keep="central", **WORDS)
    assert central.kept.tolist() == [False, False, True, False, False]


def test_document_that_contains_the_others_is_kept_although_another_is_longer() -> None:
    data = {"id": list("abc"), "text": ["p q r extraordinarily", "p q r s t", "q r s t"]}
    assert nk.dedup(data, **WORDS).kept.tolist() == [True, False, True]
    data["text"][0] = "q r s extraordinarily"
    assert nk.dedup(data, **WORDS).kept.tolist() == [True, False, False]
    complete = nk.dedup(data, keep="most-complete", **WORDS)
    assert complete.kept.tolist() == [False, True, False]


def test_equal_scores_are_decided_by_the_keep_order() -> None:
    data = {"id": list("ab"), "text": ["p q r", "p q s"], "date": ["2023", "2024"]}
    for criterion in SCORES:
        assert nk.dedup(data, keep=criterion, **WORDS).kept.tolist() == [True, False]
        newest = nk.dedup(data, keep=f"{criterion}, newest:date", **WORDS)
        assert newest.kept.tolist() == [False, True]


def test_central_works_for_every_measure() -> None:
    table = make_versions(6, 40)
    for measure in ("weighted-jaccard", "idf-jaccard", "simhash"):
        result = nk.dedup(table, keep="central", measure=measure, **WORDS)
        kept = result.clusters.arrow.filter(result.clusters.arrow["kept"])
        assert set(result.clusters.arrow["cluster"].to_pylist()) == set(kept["id"].to_pylist())
    assert len(nk.dedup(table, keep="central", verify="estimate", bands=16, rows=4, **WORDS)) == 40


def test_sources_are_not_mixed_by_a_criterion() -> None:
    table = make_versions(7)
    sources = ["web" if at % 2 else "books" for at in range(len(table))]
    table = table.append_column("source", pa.array(sources))
    result = nk.dedup(table, keep="central", across="source", **WORDS)
    source_of = dict(zip(table["id"].to_pylist(), sources, strict=True))
    for row in result.clusters.to_pylist():
        assert row["kept"] or source_of[row["id"]] != source_of[row["cluster"]]


@pytest.mark.parametrize("texts", [[], ["a b c"], ["", " "], ["a", "a"]])
def test_few_documents_have_a_result(texts: list[str]) -> None:
    data = {"id": [str(at) for at in range(len(texts))], "text": pa.array(texts, pa.string())}
    for criterion in SCORES:
        result = nk.dedup(data, keep=criterion, **WORDS)
        assert result.clusters.to_pylist() == nk.dedup(data, **WORDS).clusters.to_pylist()


def test_column_with_the_name_of_a_criterion_is_ordered_with_a_direction() -> None:
    policy = KeepPolicy.parse("central asc, most-complete desc")
    assert policy.columns == ("central", "most-complete")
    assert policy.cluster_criterion is None


FAULTS = [
    ({"keep": "length desc, central"}, "central is only possible as the first criterion"),
    ({"keep": "most-complete, central"}, "central is only possible as the first criterion"),
    ({"keep": "most-complete", "measure": "simhash"}, "needs the measure jaccard"),
    ({"keep": "most-complete", "verify": "estimate"}, "verification is estimate"),
    ({"keep": "central", "verify": "none"}, "needs verified pairs"),
    ({"keep": "central", "second_measure": "cosine:v:0.9"}, "exclude each other"),
]


@pytest.mark.parametrize(("options", "message"), FAULTS)
def test_contradictory_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nk.dedup({"text": ["a"]}, **options)


def test_contradiction_on_the_command_line_writes_nothing(tmp_path: Any) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a b"}\n')
    arguments = ["dedup", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out")]
    assert run([*arguments, "--keep", "most-complete", "--verify", "none"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    assert run([*arguments, "--keep", "most-complete"]) == 0


@pytest.mark.parametrize("criterion", SCORES)
def test_result_does_not_depend_on_the_order_of_rows(criterion: str) -> None:
    table = make_versions(8, 60)
    results = []
    for seed in range(3):
        rows = random.Random(seed).sample(range(len(table)), len(table))
        clusters = nk.dedup(table.take(rows), keep=criterion, **WORDS).clusters.to_pylist()
        results.append(sorted(clusters, key=lambda row: row["id"]))
    assert results[0] == results[1] == results[2]


def test_mean_of_48_55ths_is_a_tie_whatever_its_shares_are() -> None:
    """The shares of a are 9/11, 8/10 and 10/10 of the others, those of b 9/11, 9/10 and 9/10."""
    data = {
        "id": list("abcd"),
        "text": [
            "w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 x0",
            "w0 w1 w2 w3 w4 w6 w7 w8 w9 x1 x2",
            "w0 w1 w2 w3 w4 w5 w6 w7 x1 x2",
            "w0 w1 w2 w3 w4 w5 w6 w7 w8 w9",
        ],
    }
    result = nk.dedup(data, keep="most-complete", **WORDS)
    assert result.kept.tolist() == [True, False, False, False]


def test_similarities_are_not_rounded_before_they_are_summed() -> None:
    """Beside their own pair, document 0 has the scores 8/10 and 1, and document 1 twice 9/10."""
    similarities = {(0, 1): 7, (0, 2): 8, (0, 3): 10, (1, 2): 9, (1, 3): 9, (2, 3): 5}
    pairs = pack_pairs(*np.array(list(similarities)).T)
    scored = ScoredPairs(pairs, np.array(list(similarities.values())), np.full(len(pairs), 10))
    leader = np.zeros(4, np.uint32)
    rank = np.arange(4, dtype=np.uint32)
    for order, best in ((rank, 0), (rank[::-1], 1)):
        chosen = choose_kept_documents(
            scored, leader, order, np.ones(4, np.int64), ClusterCriterion.CENTRAL, np.zeros(4)
        )
        assert chosen.tolist() == [best] * 4
