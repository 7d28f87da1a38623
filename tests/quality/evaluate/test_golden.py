"""Tests of scores against golden sets, which agree with their definitions."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.cli.app import run
from nearkin.errors import UsageError
from nearkin.quality.evaluate.golden import (
    Labelled,
    Scores,
    golden_set_from_clusters,
    golden_set_from_pairs,
    read_golden_set,
    score_clusters,
)

labels = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=25)


@given(labels)
def test_pairwise_scores_agree_with_counting(both: list[tuple[int, int]]) -> None:
    true = {f"d{i}": str(a) for i, (a, _) in enumerate(both)}
    found = {f"d{i}": str(b) for i, (_, b) in enumerate(both)}
    pairs = list(combinations(sorted(true), 2))
    actual = {p for p in pairs if true[p[0]] == true[p[1]]}
    predicted = {p for p in pairs if found[p[0]] == found[p[1]]}
    scores = score_clusters(golden_set_from_clusters(true), found)
    assert (scores.precision.hits, scores.precision.total) == (
        len(actual & predicted),
        len(predicted),
    )
    assert (scores.recall.hits, scores.recall.total) == (len(actual & predicted), len(actual))


@given(labels)
def test_bcubed_agrees_with_its_definition(both: list[tuple[int, int]]) -> None:
    true, found = (np.array(x) for x in zip(*both, strict=True))
    n = range(len(true))
    precision = np.mean(
        [np.mean([true[j] == true[i] for j in n if found[j] == found[i]]) for i in n]
    )
    recall = np.mean([np.mean([found[j] == found[i] for j in n if true[j] == true[i]]) for i in n])
    scores = score_partitions(true.tolist(), found.tolist())
    assert scores.bcubed_precision.value == pytest.approx(precision)
    assert scores.bcubed_recall.value == pytest.approx(recall)


def score_partitions(true: list[int], found: list[int]) -> Scores:
    """Scores the found clusters of documents, all of whose true clusters are known."""
    golden = golden_set_from_clusters({f"d{i:04d}": str(name) for i, name in enumerate(true)})
    return score_clusters(golden, {f"d{i:04d}": str(name) for i, name in enumerate(found)})


def test_rand_index_agrees_with_published_values() -> None:
    # Hubert and Arabie's measure, values as sklearn.metrics.adjusted_rand_score documents them.
    assert score_partitions([0, 0, 1, 1], [1, 1, 0, 0]).rand.value == 1
    assert score_partitions([0, 0, 1, 2], [0, 0, 1, 1]).rand.value == pytest.approx(
        0.5714, abs=1e-4
    )
    assert score_partitions([0, 0, 0, 0], [0, 1, 2, 3]).rand.value == 0
    rng = np.random.default_rng(1)
    chance = score_partitions(*rng.integers(0, 5, (2, 5000)).tolist()).rand
    assert abs(chance.value) < 0.01
    assert chance.low <= chance.value <= chance.high


def test_documents_beside_whole_labelled_clusters_are_errors() -> None:
    """A labelled cluster lists all its documents, so that others in its predicted one are wrong."""
    true = {"a": "x", "b": "x", "c": "y", "d": "y"}
    result = {"a": "1", "b": "1", "c": "2", "d": "3", "e": "1", "f": "1", "g": "4"}
    scores = score_clusters(golden_set_from_clusters(true), result)
    assert scores.outside == 2
    # one pair of duplicates; of the four pairs of a and b with e and f, half counts for a and b
    assert scores.precision.value == 1 / (1 + 4 / 2)
    assert (scores.precision.hits, scores.precision.total) == (1, 5)
    assert scores.bcubed_precision.value == (2 / 4 + 2 / 4 + 1 + 1) / 4
    assert scores.recall.value == 0.5
    sampled = score_clusters(golden_set_from_clusters(true), result, labelled=Labelled.DOCUMENTS)
    assert (sampled.outside, sampled.precision.value) == (2, 1.0)
    assert sampled.bcubed_precision.value == 1.0
    with pytest.raises(UsageError, match=r"labelled='document' .* did you mean 'documents'"):
        score_clusters(golden_set_from_clusters(true), result, labelled="document")


def test_precision_of_a_sample_of_clusters_is_that_of_all() -> None:
    """The mean over samples is the precision of all. Counting the sampled pairs overstates it."""
    rng = np.random.default_rng(4)
    true = np.repeat(np.arange(400), rng.integers(1, 6, 400))
    # half of the clusters are merged with another one
    found = np.where(true % 4 == 1, true - 1, true)
    names = [f"d{i:04d}" for i in range(len(true))]
    result = {name: str(cluster) for name, cluster in zip(names, found.tolist(), strict=True)}
    whole = score_partitions(true.tolist(), found.tolist()).precision.value
    unbiased = []
    naive = []
    for _ in range(60):
        chosen = set(rng.choice(400, 80, replace=False).tolist())
        labels = {n: str(t) for n, t in zip(names, true.tolist(), strict=True) if t in chosen}
        golden = golden_set_from_clusters(labels)
        unbiased.append(score_clusters(golden, result).precision.value)
        among = score_clusters(golden, {n: result[n] for n in labels})
        naive.append(among.precision.value)
    # the error of the mean is 0.01
    assert np.mean(unbiased) == pytest.approx(whole, abs=0.04)
    assert np.mean(naive) > whole + 0.1


def test_labelled_negatives_decide_precision() -> None:
    golden = golden_set_from_pairs([("a", "b"), ("a", "c"), ("x", "y")], [True, False, True])
    scores = score_clusters(golden, {"a": "1", "b": "1", "c": "1", "x": "2", "y": "3"})
    assert (scores.precision.hits, scores.precision.total) == (1, 2)
    assert (scores.recall.hits, scores.recall.total) == (1, 2)
    assert scores.f1 is not None
    assert scores.f1.value == 0.5


def test_labelled_pairs_are_judged_as_pairs() -> None:
    """200 labelled pairs, 95 of the 104 duplicates in one cluster: the recall is 95/104.

    Chains of duplicates add pairs that nobody labelled. They do not change the recall.
    """
    chains = [(f"c{i}-{j}", f"c{i}-{j + 1}") for i in range(26) for j in range(4)]
    negatives = [(f"n{i}", f"m{i}") for i in range(96)]
    labels = [True] * len(chains) + [False] * len(negatives)
    golden = golden_set_from_pairs(chains + negatives, labels)
    found = {name: name.split("-")[0] for pair in chains for name in pair}
    # Nine of the chains are cut in the middle of their last pair.
    found.update({f"c{i}-4": f"alone {i}" for i in range(9)})
    found.update({name: name[1:] for pair in negatives[:5] for name in pair})
    scores = score_clusters(golden, found)
    assert (scores.recall.hits, scores.recall.total) == (95, 104)
    assert scores.precision is not None
    assert (scores.precision.hits, scores.precision.total) == (95, 100)
    assert (scores.duplicates, scores.distinct) == (104, 96)
    assert scores.unlabelled == 17 * 6 + 9 * 3
    assert scores.rand is None
    assert scores.bcubed_recall is None
    closed = score_clusters(golden_set_from_pairs(chains + negatives, labels, closure=True), found)
    assert (closed.recall.hits, closed.recall.total) == (17 * 10 + 9 * 6, 26 * 10)
    assert closed.is_closed
    assert closed.unlabelled == 0
    assert closed.rand is not None


def test_pairs_without_labels_have_no_precision() -> None:
    """All listed pairs are duplicates; what is not listed is not known to be distinct."""
    pairs = [("a", "b"), ("c", "d")]
    found = {"a": "1", "b": "1", "c": "1", "d": "2"}
    scores = score_clusters(golden_set_from_pairs(pairs, None), found)
    assert scores.precision is None
    assert scores.f1 is None
    assert scores.recall.value == 0.5
    assert scores.unlabelled == 2
    closed = score_clusters(golden_set_from_pairs(pairs, None, closure=True), found)
    assert closed.precision is not None
    assert (closed.precision.hits, closed.precision.total) == (1, 3)
    assert (closed.distinct, closed.unlabelled) == (4, 0)


def test_repeated_pairs_count_once_and_contradictions_are_rejected() -> None:
    golden = golden_set_from_pairs([("a", "b"), ("b", "a"), ("c", "d")], [True, True, False])
    assert golden.duplicates is not None
    assert golden.duplicates.tolist() == [[0, 1]]
    with pytest.raises(UsageError, match="labelled as duplicates and as distinct"):
        golden_set_from_pairs([("a", "b"), ("b", "a")], [True, False])
    with pytest.raises(UsageError, match="a document with itself"):
        golden_set_from_pairs([("a", "a")], None)
    chain = [("a", "b"), ("b", "c"), ("a", "c")]
    assert golden_set_from_pairs(chain, [True, True, False]).clusters is None
    with pytest.raises(UsageError, match=r"'a', 'c' is labelled as distinct.*omit closure=True"):
        golden_set_from_pairs(chain, [True, True, False], closure=True)


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] < pair[1]),
        st.booleans(),
        min_size=1,
    ),
    st.lists(st.integers(0, 3), min_size=7, max_size=7),
)
def test_pair_scores_agree_with_counting(
    labelled: dict[tuple[int, int], bool], clusters: list[int]
) -> None:
    pairs = [(str(a), str(b)) for a, b in labelled]
    scores = score_clusters(
        golden_set_from_pairs(pairs, list(labelled.values())),
        {str(i): str(cluster) for i, cluster in enumerate(clusters)},
    )
    together = {pair for pair in labelled if clusters[pair[0]] == clusters[pair[1]]}
    positives = {pair for pair, label in labelled.items() if label}
    documents = sorted({document for pair in labelled for document in pair})
    everything = {p for p in combinations(documents, 2) if clusters[p[0]] == clusters[p[1]]}
    recall = (scores.recall.hits, scores.recall.total)
    assert recall == (len(together & positives), len(positives))
    assert scores.unlabelled == len(everything - set(labelled))
    if len(positives) < len(labelled):
        assert scores.precision is not None
        precision = (scores.precision.hits, scores.precision.total)
        assert precision == (len(together & positives), len(together))
    else:
        assert scores.precision is None


def test_intervals_contain_the_scores() -> None:
    rng = np.random.default_rng(2)
    true = {f"d{i}": str(i // 2) for i in range(400)}
    found = {
        name: cluster if rng.random() < 0.8 else f"alone {name}" for name, cluster in true.items()
    }
    scores = score_clusters(golden_set_from_clusters(true), found)
    for one in (scores.rand, scores.bcubed_precision, scores.bcubed_recall):
        assert one.low <= one.value <= one.high
    assert scores.bcubed_precision.value == 1
    # that of a proportion of 0.82 in 200 clusters is 0.106
    assert 0.02 < scores.bcubed_recall.high - scores.bcubed_recall.low < 0.12
    assert score_clusters(golden_set_from_clusters(true), found) == scores
    alone = score_clusters(golden_set_from_clusters({"a": "1"}), {})
    assert alone.rand.value == alone.bcubed_recall.value == 1


def test_golden_sets_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("id_a,id_b,label\n1,2,1\n2,3,yes\n1,9,no\n")
    golden = read_golden_set(tmp_path / "pairs.csv")
    assert golden.ids == ("1", "2", "3", "9")
    assert golden.distinct is not None
    for name in ("c.parquet", "c.PQ"):
        pq.write_table(pa.table({"id": [1, 2, 3], "cluster": [7, 7, 8]}), tmp_path / name)
        assert read_golden_set(tmp_path / name).clusters.tolist() == [0, 0, 1]
    (tmp_path / "bad.csv").write_text("x,y\n1,2\n")
    with pytest.raises(UsageError, match="has the columns x, y"):
        read_golden_set(tmp_path / "bad.csv")
    (tmp_path / "label.csv").write_text("id_a,id_b,label\n1,2,maybe\n")
    with pytest.raises(UsageError, match="'maybe'"):
        read_golden_set(tmp_path / "label.csv")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1nothing")
    with pytest.raises(UsageError, match="neither CSV nor parquet"):
        read_golden_set(tmp_path / "broken.parquet")
    with pytest.raises(UsageError, match="no such file"):
        read_golden_set(tmp_path / "none.csv")
    (tmp_path / "empty.csv").write_text("id_a,id_b,label\n")
    with pytest.raises(UsageError, match="has no rows, so that nothing is labelled"):
        read_golden_set(tmp_path / "empty.csv")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UsageError, match="has no decisions, so that nothing is labelled"):
        read_golden_set(tmp_path / "empty.jsonl")


@pytest.mark.parametrize("values", ["1,0", "True,False", "duplicate,duplicate"])
def test_labels_under_another_name_are_refused(values: str, tmp_path: Path) -> None:
    first, second = values.split(",")
    path = tmp_path / "pairs.csv"
    path.write_text(f"id_a,id_b,is_copy\n1,2,{first}\n2,3,{second}\n")
    with pytest.raises(UsageError, match=r"column 'is_copy' of .* rename it to label"):
        read_golden_set(path)
    # a list of pairs of nearkin has other columns, which are not labels
    path.write_text("id_a,id_b,similarity\n1,2,0.91\n2,3,1\n")
    assert len(read_golden_set(path).ids) == 3


def test_eval_command_scores_runs_and_grids(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", "synth", "--documents", "400", "--out", str(tmp_path / "c")]) == 0
    truth = pq.read_table(tmp_path / "c" / "truth.parquet").to_pylist()
    rows = [f"{r['id_a']},{r['id_b']}" for r in truth if r["similarity"] >= 0.8]
    (tmp_path / "golden.csv").write_text("id_a,id_b\n" + "\n".join(rows) + "\n")
    documents, golden = (
        str(tmp_path / "c" / "documents"),
        ["--golden", str(tmp_path / "golden.csv")],
    )
    assert (
        run(
            [
                "dedup",
                documents,
                "--id",
                "id",
                "--threshold",
                "0.75",
                "--out",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )
    capfd.readouterr()
    assert run(["eval", str(tmp_path / "out"), *golden, "--json"]) == 0
    output = json.loads(capfd.readouterr().out)["results"][0]
    assert output["recall"]["hits"] / output["recall"]["total"] > 0.6
    assert output["recall"]["total"] == len(rows)
    assert output["precision"] is None
    plot = ["--plot", str(tmp_path / "p.svg")]
    assert run(["eval", str(tmp_path / "out"), *golden, *plot]) == 2
    assert "no precision to draw" in capfd.readouterr().err
    assert run(["eval", str(tmp_path / "out"), *golden]) == 0
    printed = capfd.readouterr().out
    assert "pairs of duplicates, 0 pairs of distinct documents; " in printed.splitlines()[0]
    assert "precision needs pairs of distinct documents" in " ".join(printed.split())
    golden.append("--closure")
    assert run(["eval", str(tmp_path / "out"), *golden]) == 0
    assert "duplicates of duplicates included" in " ".join(capfd.readouterr().out.split())
    grid = ["--grid", "threshold=0.6,0.9", *plot]
    assert run(["eval", documents, "--id", "id", *golden, *grid]) == 0
    assert "threshold=0.9" in capfd.readouterr().out
    assert "<svg" in (tmp_path / "p.svg").read_text()
    assert run(["eval", documents, *golden]) == 2
    assert run(["eval", str(tmp_path / "out"), *golden, "--labelled", "documents"]) == 2
    assert "--labelled has no effect because" in capfd.readouterr().err
    assert run(["eval", documents, "--id", "id", *golden, "--grid", "nothing=1"]) == 2
    assert "unknown setting 'nothing'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("id,cluster\na,1\na,2\n", "has the document 'a' in the clusters '1' and '2'"),
        ("id,id,cluster\na,b,1\n", "has two columns 'id'"),
        ("id_a,id_b,label,label\na,b,1,1\n", "has two columns 'label'"),
    ],
)
def test_contradictory_files_are_refused(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "golden.csv").write_text(lines)
    with pytest.raises(UsageError, match=message):
        read_golden_set(tmp_path / "golden.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("first", ["", "sep=;\r\n"])
def test_csv_is_read_in_the_dialects_of_inputs(encoding: str, first: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(f"{first}id;cluster\r\nKöln;1\r\nMünchen;1\r\n".encode(encoding))
    assert read_golden_set(path).ids == ("Köln", "München")


def test_other_columns_may_have_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "golden.csv").write_text("id_a,id_b,note,note\na,b,x,y\n")
    assert read_golden_set(tmp_path / "golden.csv").ids == ("a", "b")


def test_missing_values_are_no_cluster(tmp_path: Path) -> None:
    """Documents without a cluster would be duplicates of each other."""
    table = pa.table({"id": ["a", "b", "c"], "cluster": ["1", None, None]})
    pq.write_table(table, tmp_path / "golden.parquet")
    with pytest.raises(UsageError, match=r"row 2 of .* has no value in the column 'cluster'"):
        read_golden_set(tmp_path / "golden.parquet")
    numbers = table.set_column(1, "cluster", pa.array([1.0, float("nan"), 2.0]))
    pq.write_table(numbers, tmp_path / "golden.parquet")
    with pytest.raises(UsageError, match=r"row 2 of .* has no value in the column 'cluster'"):
        read_golden_set(tmp_path / "golden.parquet")
    (tmp_path / "golden.csv").write_text("id,cluster\na,1\nb,\nc,\n")
    with pytest.raises(UsageError, match=r"row 2 of .* has no value in the column 'cluster'"):
        read_golden_set(tmp_path / "golden.csv")


def test_ids_of_bytes_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "golden.parquet"
    ids = pa.array([b"a", "é".encode()])
    pq.write_table(pa.table({"id": ids, "cluster": ids.dictionary_encode()}), path)
    assert read_golden_set(path).ids == ("a", "é")
    pq.write_table(pa.table({"id": pa.array([b"\xff"]), "cluster": ["1"]}), path)
    with pytest.raises(UsageError, match=r"column 'id' of .* has bytes that are not UTF-8"):
        read_golden_set(path)


def test_one_long_name_does_not_widen_the_others() -> None:
    """An array of texts of fixed width would take 40 GB."""
    clusters = {str(number): str(number // 2) for number in range(10_000)}
    clusters["0"] = "long" * 250_000
    scores = score_clusters(golden_set_from_clusters(clusters), clusters)
    assert scores.recall.value == 1.0


@pytest.mark.parametrize("name", ["decisions.jsonl", "decisions.csv", "decisions.parquet"])
def test_decisions_are_labels_of_pairs(name: str, tmp_path: Path) -> None:
    rows = [
        {"id_a": "a", "id_b": "b", "decision": "different", "at": "2026-05-01T10:00:00Z"},
        {"id_a": "b", "id_b": "a", "decision": "same", "at": "2026-05-02T10:00:00Z"},
        {"id_a": "a", "id_b": "c", "decision": "different", "at": "2026-05-02T10:00:00Z"},
    ]
    path = tmp_path / name
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        path.write_text("\n".join(",".join(row) for row in [[*rows[0]], *map(dict.values, rows)]))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    golden = read_golden_set(path)
    assert golden.ids == ("a", "b", "c")
    assert golden.duplicates is not None
    assert golden.distinct is not None
    assert golden.duplicates.tolist() == [[0, 1]]
    assert golden.distinct.tolist() == [[0, 2]]
    assert score_clusters(golden, {"a": "1", "b": "1", "c": "1"}).precision is not None


def test_labelled_documents_that_a_result_does_not_have_are_named() -> None:
    golden = golden_set_from_pairs([("7", "8"), ("7", "A")], [True, False])
    unknown = golden.describe_unknown({"007": "x", "A": "y"})
    assert unknown is not None
    assert unknown.startswith("2 of 3 labelled documents are not in the inputs, for example '7' (")
    assert golden.describe_unknown(["7", "8", "A"]) is None
    assert score_clusters(golden, {"7": "x", "A": "x"}).documents == 3
    with pytest.raises(UsageError, match=r"3 of 3 labelled .* '7' \(the inputs have '007'\)"):
        score_clusters(golden, {"007": "x"})
