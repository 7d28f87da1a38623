"""Functions that choose the kept document of each cluster."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.errors import RunError, UsageError
from tests.engine.test_related_documents import compare_by_sets, make_versions

WORDS = {"shingle": "words:1", "threshold": 0.6, "id": "id"}


def keep_shortest(rows: Any) -> Any:
    return min(rows, key=lambda row: (len(row["text"]), row["id"]))


def make_table(seed: int) -> pa.Table:
    """Returns versions of texts, with a score of each."""
    table = make_versions(seed)
    return table.append_column("score", pa.array([n * 7 % 11 for n in range(len(table))]))


@pytest.mark.parametrize("options", [{}, {"bands": 64, "rows": 2}, {"cluster": "components"}])
def test_kept_documents_are_those_that_a_function_chooses(options: dict[str, Any]) -> None:
    table = make_table(1)
    seen: list[list[dict[str, Any]]] = []

    def keep_best(rows: Any) -> Any:
        seen.append(list(rows))
        return max(rows, key=lambda row: (row["score"], row["id"]))

    result = nk.dedup(table, keep=keep_best, **WORDS, **options)
    plain = nk.dedup(table, **WORDS, **options)
    similarity = compare_by_sets(table)
    texts = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
    first_of = {text: name for name, text in reversed(texts.items())}

    def compare(a: str, b: str) -> float:
        first, second = sorted((first_of[texts[a]], first_of[texts[b]]))
        return 1.0 if first == second else similarity.get((first, second), 0.0)

    members: dict[str, list[str]] = defaultdict(list)
    for row in plain.clusters.to_pylist():
        members[row["cluster"]].append(row["id"])
    scores = dict(zip(table["id"].to_pylist(), table["score"].to_pylist(), strict=True))
    rows_by_id = {row["id"]: row for row in result.clusters.to_pylist()}
    expected_calls = []
    for leader, names in members.items():
        allowed = [
            name
            for name in names
            if all(compare(name, other) >= 0.6 for other in names if other != name)
        ]
        kept = leader
        if len(allowed) > 1:
            kept = max(allowed, key=lambda name: (scores[name], name))
            expected_calls.append(sorted(allowed, key=lambda name: (-len(texts[name]), name)))
        for name in names:
            row = rows_by_id[name]
            assert (row["cluster"], row["kept"]) == (kept, name == kept)
            if len(names) > 1 and len(allowed) > 1:
                assert row["similarity"] == compare(name, kept)
                is_copy = texts[name] == texts[kept]
                assert row["kind"] == ("kept" if name == kept else "exact" if is_copy else "near")
    assert [[row["id"] for row in rows] for rows in seen] == expected_calls
    assert len(seen) > 5
    assert set(seen[0][0]) == {"id", "text", "score"}
    assert result.statistics["kept"] == plain.statistics["kept"]


def test_function_may_return_an_id_or_a_row() -> None:
    table = make_table(2)
    by_row = nk.dedup(table, keep=keep_shortest, **WORDS)
    by_id = nk.dedup(table, keep=lambda rows: keep_shortest(rows)["id"], **WORDS)
    assert by_id.clusters.arrow.equals(by_row.clusters.arrow)
    texts = ["a b c d e f", "a b c d e f g", "x y z"]
    numbered = nk.dedup(texts, keep=lambda rows: "0000000000", threshold=0.6, shingle="words:1")
    assert numbered.kept.tolist() == [True, False, True]


def test_choice_changes_no_cluster_and_repeats() -> None:
    table = make_table(3)
    plain = nk.dedup(table, related=0.3, **WORDS)
    chosen = nk.dedup(table, related=0.3, keep=keep_shortest, **WORDS)
    again = nk.dedup(table, related=0.3, keep=keep_shortest, **WORDS)
    assert chosen.clusters.arrow.equals(again.clusters.arrow)
    groups = []
    for result in (plain, chosen):
        members = defaultdict(set)
        for row in result.clusters.to_pylist():
            members[row["cluster"]].add(row["id"])
        groups.append(sorted(map(sorted, members.values())))
    assert groups[0] == groups[1]
    assert len(chosen.related) == len(plain.related)
    raised = chosen.rethreshold(0.8)
    fresh = nk.dedup(table, related=0.3, keep=keep_shortest, **{**WORDS, "threshold": 0.8})
    assert raised.clusters.arrow.equals(fresh.clusters.arrow)


def test_written_result_names_the_function(tmp_path: Path) -> None:
    result = nk.dedup(make_table(4), keep=keep_shortest, **WORDS)
    folder = result.write(tmp_path / "out")
    recorded = json.loads((folder / "run.json").read_bytes())["parameters"]
    assert recorded["keep_function"] == "keep_shortest"
    plain = nk.dedup(make_table(4), **WORDS).write(tmp_path / "plain")
    assert b"keep_function" not in (plain / "run.json").read_bytes()


def test_errors_of_a_function_name_the_cluster() -> None:
    texts = {"id": ["a", "b", "c"], "text": ["q w e r t y", "q w e r t y u", "something else"]}

    def fail(rows: Any) -> Any:
        return rows[0]["no such column"]

    with pytest.raises(RunError) as raised:
        nk.dedup(texts, keep=fail, **WORDS)
    message = "failed for the cluster of document 'b' (2 documents): KeyError: 'no such column'"
    assert message in str(raised.value)
    for answer in (None, "c", 7, True, {"id": "a"}, 1.5):
        with pytest.raises(UsageError) as refused:
            nk.dedup(texts, keep=lambda rows, answer=answer: answer, **WORDS)
        assert f"returned {str(answer)!r} for the cluster of document 'b'" in str(refused.value)


def test_function_is_refused_where_it_cannot_be_called(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("id,text\na,one two\n")
    data = {"id": ["a"], "text": ["one two"]}
    for source, options, message in [
        (str(path), {}, "needs rows in memory, and the data are files"),
        (data, {"max_lost": 0.1}, "exclude each other"),
        (data, {"verify": "none"}, "needs verified pairs"),
        (data, {"second_measure": "cosine:v:0.9"}, "exclude each other"),
    ]:
        with pytest.raises(UsageError) as raised:
            nk.dedup(source, keep=keep_shortest, **{**WORDS, **options})
        assert message in str(raised.value)
    with pytest.raises(UsageError, match="keep= is of type function; give a text"):
        nk.dedup(data, settings={"keep": keep_shortest})
    with pytest.raises(UsageError, match="keep= is of type function; give a text"):
        nk.pairs(data, keep=keep_shortest)


@pytest.mark.parametrize("texts", [[], ["one text"], ["", ""]])
def test_function_is_not_called_without_clusters(texts: list[str]) -> None:
    result = nk.dedup(texts, keep=lambda rows: 1 / 0)
    assert result.kept.tolist() == [True] * len(texts)
