import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.engine import reference, reference_sides
from nearkin.errors import RunError, UsageError
from tests.engine.reference_oracle import (
    dedup_by_oracle,
    make_texts,
    read_rows,
    share_texts,
    similarity_of,
)

BANDS: dict[str, Any] = {"bands": 64, "rows": 2}
"""Bands that find a pair of similarity 0.6 with a probability above 1 - 1e-12."""


def make_tables(seed: int, new: int = 90, old: int = 120) -> tuple[pa.Table, pa.Table]:
    """Returns new documents and a reference, whose ids collide and are hostile."""
    old_texts = make_texts(seed, old)
    new_texts = share_texts(seed, old_texts, new)
    ids = ["", "#", "a#b:1", "é", "\u00e9\u0301", "reference", "0000000001", " x ", "a\nb"]
    names = [*ids, *(f"d{number}" for number in range(max(new, old)))]

    def table(texts: list[str]) -> pa.Table:
        blocks = [f"b{number % 3}" for number in range(len(texts))]
        return pa.table({"id": names[: len(texts)], "text": texts, "block": blocks})

    return table(new_texts), table(old_texts)


@pytest.mark.parametrize("bands", [{}, BANDS], ids=["all pairs", "bands"])
@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize("block_by", [None, "block"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_result_equals_brute_force(
    seed: int, block_by: str | None, only: bool, bands: dict[str, Any]
) -> None:
    new, old = make_tables(seed)
    result = nk.dedup(
        new,
        id="id",
        against=old,
        only_against=only,
        threshold=0.6,
        block_by=block_by,
        **bands,
    )
    want = dedup_by_oracle(new, old, 0.6, only=only, block_by=block_by)
    assert read_rows(result.clusters.arrow) == want
    removed = [row.matched_in for row in want if row.matched_in]
    assert {"reference"} <= set(removed) <= {"reference", "this run"}
    assert result.statistics["removed_reference"] == removed.count("reference")
    in_run = result.statistics["removed_exact"] + result.statistics["removed_near"]
    assert in_run == removed.count("this run")
    assert result.kept.tolist() == [row.kept for row in want]


def find_firsts(table: pa.Table, *, longest: bool, block_by: str | None) -> set[str]:
    """Returns the ids that represent groups of exact duplicates: the longest, or the smallest."""
    groups: dict[tuple[str, ...], tuple[int, bytes, str]] = {}
    for row in table.to_pylist():
        key = (row[block_by] if block_by else "", *row["text"].lower().split())
        size = -len(row["text"].encode()) if longest else 0
        entry = (size, row["id"].encode(), row["id"])
        groups[key] = min(groups.get(key, entry), entry)
    return {id for _, _, id in groups.values()}


def relate_by_oracle(
    new: pa.Table, old: pa.Table, clusters: list[dict[str, Any]], related: float, **options: Any
) -> list[tuple[str, str, float, str, str, str]]:
    """Returns the rows of related documents: ids, similarity, place, and the clusters of both."""
    only, block_by = options["only"], options["block_by"]
    rows = {row["id"]: row for row in clusters}
    firsts = set(rows) if only else find_firsts(new, longest=True, block_by=block_by)
    open_rows = [row for row in new.to_pylist() if rows[row["id"]]["matched_in"] != "reference"]
    open_rows = [row for row in open_rows if row["id"] in firsts]
    known = find_firsts(old, longest=False, block_by=block_by)
    links = []
    for number, a in enumerate(open_rows):
        cluster = rows[a["id"]]["cluster"]
        in_run = [] if only else open_rows[number + 1 :]
        pairs = [(b, "this run", rows[b["id"]]["cluster"]) for b in in_run]
        # An id can be that of a cluster of the run, and of another document of the reference.
        pairs = [pair for pair in pairs if pair[2] != cluster]
        pairs += [(b, "reference", b["id"]) for b in old.to_pylist() if b["id"] in known]
        for b, place, other_cluster in pairs:
            similarity = similarity_of(a["text"], b["text"])
            if similarity >= related and (block_by is None or a[block_by] == b[block_by]):
                links.append((a["id"], b["id"], similarity, place, cluster, other_cluster))
    return links


@pytest.mark.parametrize("bands", [{}, {"bands": 128, "rows": 1}], ids=["all pairs", "bands"])
@pytest.mark.parametrize(
    ("only", "block_by"),
    [(False, None), pytest.param(True, None, marks=pytest.mark.full), (False, "block")],
)
def test_related_documents_of_the_reference_are_those_of_brute_force(
    only: bool, block_by: str | None, bands: dict[str, Any]
) -> None:
    new, old = make_tables(5)
    options: dict[str, Any] = {"id": "id", "against": old, "threshold": 0.85, "block_by": block_by}
    plain = nk.dedup(new, only_against=only, **options, **bands)
    result = nk.dedup(new, only_against=only, related=0.2, **options, **bands)
    clusters = result.clusters.arrow.to_pylist()
    assert result.clusters.arrow.drop_columns("outcome") == plain.clusters.arrow
    expected = relate_by_oracle(new, old, clusters, 0.2, only=only, block_by=block_by)
    names = ["id_a", "id_b", "similarity", "matched_in", "cluster_a", "cluster_b"]
    links = result.related.arrow
    found = [tuple(row[name] for name in names) for row in links.to_pylist()]
    assert sorted(found) == sorted(expected)
    linked = {link[0] for link in expected}
    linked |= {link[1] for link in expected if link[3] == "this run"}
    is_kept = {row["id"]: row["kept"] for row in clusters}
    for row in clusters:
        outcome = "related" if row["id"] in linked else "new"
        assert row["outcome"] == (outcome if row["kept"] else "same")
    for row in links.to_pylist():
        assert row["kept_a"] == is_kept[row["id_a"]]
        assert row["kept_b"] == (row["matched_in"] == "reference" or is_kept[row["id_b"]])
    places = {"reference"} if only else {"reference", "this run"}
    assert {link[3] for link in expected} == places
    assert {row["outcome"] for row in clusters} == {"same", "related", "new"}
    assert result.statistics["related_pairs"] == len(expected)


def test_related_vectors_of_the_reference_are_found() -> None:
    old = {"id": ["r"], "v": [[1.0, 0.0]]}
    new = {"id": ["same", "related", "new"], "v": [[1.0, 0.01], [1.0, 0.7], [0.0, 1.0]]}
    options: dict[str, Any] = {"measure": "cosine", "vector": "v", "threshold": 0.95, "id": "id"}
    result = nk.dedup(new, against=old, only_against=True, related=0.75, **options)
    assert result.clusters["outcome"].to_pylist() == ["same", "related", "new"]
    assert result.related["id_b"].to_pylist() == ["r"]


def test_result_depends_on_neither_threads_nor_memory_nor_portions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new, old = make_tables(3)
    options: dict[str, Any] = {"id": "id", "against": old, "threshold": 0.6, **BANDS}
    want = nk.dedup(new, workers=1, **options).clusters.arrow
    monkeypatch.setattr(reference_sides, "DOCUMENTS_AT_ONCE", 7)
    monkeypatch.setattr(reference_sides, "MEMORY_SHARE", 1 << 22)
    assert nk.dedup(new, workers=3, **options).clusters.arrow == want


@pytest.mark.parametrize(
    "options",
    [
        {"shingle": "chars:5"},
        {"measure": "weighted-jaccard"},
        {"measure": "idf-jaccard"},
        {"measure": "simhash", "distance": 6},
        {"verify": "estimate", "k": 512},
        {"slot_bits": 8, **BANDS},
        {"probes": 1, "bands": 32, "rows": 3},
        {"keep": "most-complete"},
    ],
    ids=str,
)
def test_copies_in_the_reference_are_removed_by_every_measure(options: dict[str, Any]) -> None:
    new, old = make_tables(4)
    result = nk.dedup(new, id="id", against=old, **options)
    rows = {row["id"]: row for row in result.clusters.arrow.to_pylist()}
    ids = dict(zip(old["text"].to_pylist()[::-1], old["id"].to_pylist()[::-1], strict=True))
    copies = [row for row in new.to_pylist() if row["text"] and row["text"] in ids]
    assert len(copies) > 5
    for copy in copies:
        row = rows[copy["id"]]
        assert (row["kept"], row["matched_in"], row["kind"]) == (False, "reference", "exact")


@pytest.mark.parametrize(
    "options",
    [{"fingerprint": "image", "distance": 4}, {"fields": ["image:hamming<=4"]}],
    ids=["fingerprint", "field"],
)
@pytest.mark.parametrize("small_corpus", [0, 10_000])
def test_fingerprints_of_large_corpora_are_compared_with_a_reference(
    options: dict[str, Any], small_corpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", small_corpus)
    monkeypatch.setattr(reference, "SMALL_CORPUS", small_corpus)
    draw = random.Random(1)
    old = [draw.getrandbits(64) for _ in range(60)]
    new = [draw.choice(old) for _ in range(60)]
    for number in range(len(new)):
        for bit in draw.sample(range(64), number % 8):
            new[number] ^= 1 << bit

    def table(letter: str, images: list[int]) -> pa.Table:
        ids = [f"{letter}{number}" for number in range(len(images))]
        return pa.table({"id": ids, "image": pa.array(images, pa.uint64())})

    found = nk.dedup(
        table("n", new), id="id", against=table("o", old), only_against=True, **options
    )
    similar = [any((image ^ other).bit_count() <= 4 for other in old) for image in new]
    assert found.kept.tolist() == [not is_similar for is_similar in similar]
    assert 20 < sum(similar) < 50


def test_vectors_are_held_against_vectors() -> None:
    random = np.random.default_rng(5)
    old = random.normal(size=(40, 8)).astype(np.float32)
    new = random.normal(size=(30, 8)).astype(np.float32)
    new[:10] = old[5:15] + random.normal(scale=1e-3, size=(10, 8)).astype(np.float32)

    def table(vectors: np.ndarray) -> pa.Table:
        return pa.table({"v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 8)})

    result = nk.dedup(table(new), against=table(old), vector="v", threshold=0.99)
    assert result.kept.tolist() == [False] * 10 + [True] * 20
    matched = result.clusters.arrow["duplicate_of"].to_pylist()[:10]
    assert matched == [f"{number:010}" for number in range(5, 15)]


def test_reference_wins_over_a_more_similar_document_of_the_run() -> None:
    text = "a b c d e f g h i j"
    new = {"id": ["1", "2"], "text": [f"{text} x y", f"{text} x z"]}
    result = nk.dedup(new, id="id", against={"id": ["2"], "text": [f"{text} z"]}, threshold=0.5)
    rows = result.clusters.arrow.to_pylist()
    assert [row["duplicate_of"] for row in rows] == ["2", "2"]
    assert [row["matched_in"] for row in rows] == ["reference", "reference"]


def test_removed_document_removes_no_other_one() -> None:
    a = "a b c d e f g h i j k l"
    b = "a b c d e f g h i j k l m n o"
    c = "d e f g h i j k l m n o p q"
    against = {"text": [a]}
    assert nk.dedup([b, c], threshold=0.6).kept.tolist() == [True, False]
    assert nk.dedup([b, c], against=against, threshold=0.6).kept.tolist() == [False, True]


def test_crowded_buckets_of_a_reference_are_reported() -> None:
    words = " ".join(f"w{number}" for number in range(60))
    old = [f"{words} old{number}" for number in range(40)]
    new = [f"{words} new{number}" for number in range(40)]
    result = nk.dedup(
        new, against=old, hot_bucket_size=2, pair_budget=1, fanout=1, threshold=0.9, **BANDS
    )
    assert not result.kept.any()
    assert "duplicates of the reference may be missing" in result.warnings[1]


def test_reference_without_documents_is_warned_about() -> None:
    empty = pa.table({"text": pa.array([], pa.string())})
    result = nk.dedup(["a b c", "a b c"], against=empty)
    assert "the reference has no documents" in result.warnings[0]
    assert result.clusters.arrow["matched_in"].to_pylist() == [None, "this run"]


def test_no_new_documents_give_an_empty_result() -> None:
    empty = pa.table({"text": pa.array([], pa.string())})
    result = nk.dedup(empty, against=["a b c"])
    assert result.clusters.arrow.column_names[-2:] == ["duplicate_of", "matched_in"]
    assert len(result.clusters) == 0


def test_rows_of_a_reference_that_cannot_be_read_are_warned_about() -> None:
    reference_table = pa.table({"text": ["a b c", None]})
    result = nk.dedup(["a b c"], against=reference_table)
    assert "1 row was rejected among those of the reference" in result.warnings[0]
    assert result.kept.tolist() == [False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": "components"}, "must be similar to the document of the reference itself"),
        ({"across": "id"}, "whatever their source is"),
        ({"second_measure": "cosine:v:0.9"}, "run twice"),
        ({"accept": "jaccard >= 0.5 and same(lang)"}, "has no column 'lang'"),
        ({"same": "isbn"}, "has no column 'isbn'"),
        ({"url": "link"}, "has no column 'link'"),
    ],
    ids=str,
)
def test_options_without_a_meaning_are_refused(options: dict[str, Any], message: str) -> None:
    new, old = make_tables(1, 10, 10)
    with pytest.raises(UsageError, match=message):
        nk.dedup(new, id="id", against=old, **options)


def test_reference_without_a_compared_column_is_named() -> None:
    new, old = make_tables(1, 10, 10)
    message = "the reference cannot be compared: the table has no column 'block'.*add it to the"
    for options in ({"same": "block"}, {"accept": "jaccard >= 0.8 and same(block)"}):
        with pytest.raises(UsageError, match=message):
            nk.dedup(new, id="id", against=old.drop_columns("block"), **options)


def test_only_against_needs_a_reference() -> None:
    with pytest.raises(UsageError, match="no effect without `against`"):
        nk.dedup(["a"], only_against=True)


def test_result_with_a_reference_has_no_other_threshold() -> None:
    result = nk.dedup(["a b c"], against=["a b c"])
    with pytest.raises(UsageError, match="pairs with documents of the reference are not kept"):
        result.rethreshold(0.9)
    assert result.report_data.what_if == ()
    assert "1 more as duplicates of the reference" in result.report_data.headline


def test_sizes_of_clusters_do_not_count_duplicates_of_a_reference() -> None:
    texts = ["a b c d e", "f g h i j", "f g h i j"]
    result = nk.dedup(texts, against=["a b c d e"])
    assert result.cluster_columns()["cluster_size"].to_pylist() == [1, 2, 2]
    assert result.report_data.lost is not None
    assert result.report_data.lost.total.removed == 2


def test_limit_of_removals_counts_duplicates_of_a_reference() -> None:
    new = {"text": ["a b c d e", "f g h i j"], "source": ["x", "x"]}
    reference_table = {"text": ["a b c d e"]}
    assert nk.dedup(new, against=reference_table, max_removed="source:0.5").kept.sum() == 1
    message = r"nothing was written\. Of the reference, '0000000000' removes 1\. Look at them"
    with pytest.raises(RunError, match=message):
        nk.dedup(new, against=reference_table, max_removed="source:0.4")
    new = {"text": [*new["text"], "f g h i j", "f g h i j"], "source": ["x"] * 4}
    message = r"Of the kept documents, '0000000001' removes 2\. Of the reference, '0000000000'"
    with pytest.raises(RunError, match=message):
        nk.dedup(new, against=reference_table, max_removed="source:0.4")


def test_limit_of_removals_names_no_document_for_empty_ones() -> None:
    new = {"text": ["", ""], "source": ["x", "x"]}
    with pytest.raises(RunError, match=r"nothing was written\. Restrict `accept`"):
        nk.dedup(new, empty="drop", max_removed="source:0.4")


def test_result_with_a_reference_is_written(tmp_path: Path) -> None:
    new, old = make_tables(6)
    result = nk.dedup(new, id="id", against=old)
    folder = result.write(tmp_path / "out")
    assert pa.parquet.read_table(folder / "clusters.parquet") == result.clusters.arrow
    assert pa.parquet.read_table(folder / "kept").num_rows == int(result.kept.sum())
