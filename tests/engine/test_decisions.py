"""Tests of runs with decisions."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.settings.decisions import Decision, Decisions, Verdict

WORDS = [f"word{number}" for number in range(30)]


def decide(same: list[tuple[str, str]], different: list[tuple[str, str]]) -> Decisions:
    return Decisions.resolve(
        [Decision(a, b, Verdict.SAME) for a, b in same]
        + [Decision(a, b, Verdict.DIFFERENT) for a, b in different]
    )


def near_texts(rng: np.random.Generator, count: int) -> dict[str, str]:
    """Texts of three families, with changed words and equal copies."""
    bases = [rng.choice(WORDS, 25).tolist() for _ in range(3)]
    texts = {}
    for number in range(count):
        words = list(bases[int(rng.integers(3))])
        if rng.random() < 0.6:
            words[int(rng.integers(len(words)))] = f"other{number}"
        texts[f"d{number:02}"] = " ".join(words)
    return texts


def clusters_of(texts: dict[str, str], decisions: Decisions, **options: object) -> dict[str, str]:
    table = {"id": list(texts), "text": list(texts.values())}
    result = nk.dedup(table, id="id", threshold=0.6, decisions=decisions, **options)  # type: ignore[arg-type]
    rows = result.clusters.arrow.select(["id", "cluster"]).to_pylist()
    return {row["id"]: row["cluster"] for row in rows}


@pytest.mark.parametrize("cluster", ["leaders", "components"])
@pytest.mark.parametrize("seed", range(3))
def test_decided_pairs_are_honoured_in_any_order_of_the_inputs(cluster: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = near_texts(rng, 24)
    ids = list(texts)
    pairs = list(itertools.combinations(ids, 2))
    same = [pairs[number] for number in rng.choice(len(pairs), 4, replace=False)]
    joined: list[set[str]] = [{id} for id in ids]
    for pair in same:
        touched = [group for group in joined if group & set(pair)]
        joined = [group for group in joined if not group & set(pair)] + [set().union(*touched)]
    different = [
        pair
        for pair in (pairs[number] for number in rng.choice(len(pairs), 40, replace=False))
        if not any(set(pair) <= group for group in joined)
    ]
    decisions = decide(same, different)
    clusters = clusters_of(texts, decisions, cluster=cluster)
    assert all(clusters[a] == clusters[b] for a, b in same)
    assert not any(clusters[a] == clusters[b] for a, b in different)
    assert len(set(clusters.values())) < len(ids) - len(same)
    shuffled = rng.permutation(ids).tolist()
    assert clusters_of({id: texts[id] for id in shuffled}, decisions, cluster=cluster) == clusters


def test_equal_copies_are_divided_and_dissimilar_documents_are_joined() -> None:
    texts = {"a": "one two three four", "b": "one two three four", "c": "one two three four"}
    texts["x"] = "nothing of it at all"
    decisions = decide([("x", "b")], [("a", "b")])
    table = {"id": list(texts), "text": list(texts.values())}
    result = nk.dedup(table, id="id", decisions=decisions)
    rows = {row["id"]: row for row in result.clusters.arrow.to_pylist()}
    assert rows["b"]["cluster"] == rows["x"]["cluster"] == "x"
    assert rows["b"]["kind"] == "same"
    assert rows["b"]["similarity"] is None
    assert rows["c"]["cluster"] == rows["a"]["cluster"] == "a"
    assert rows["c"]["kind"] == "exact"


@pytest.mark.parametrize("options", [{"bands": 20, "rows": 2, "hot_bucket_size": 2}, {}])
def test_banded_runs_and_keep_policies_honour_decisions(options: dict[str, object]) -> None:
    texts = near_texts(np.random.default_rng(9), 24)
    ids = list(texts)
    different = list(itertools.combinations(ids[:8], 2))
    for keep in ("central", "length desc"):
        clusters = clusters_of(texts, decide([], different), keep=keep, keep_up_to=2, **options)
        assert not any(clusters[a] == clusters[b] for a, b in different)


def test_divided_groups_of_equal_values_are_not_joined_through_a_chain() -> None:
    table = {
        "id": ["a", "b", "c"],
        "text": ["first text here", "second one there", "third of them everywhere"],
        "isbn": ["1", "1", None],
        "doi": [None, "2", "2"],
    }
    decisions = decide([], [("a", "c")])
    result = nk.dedup(table, id="id", same="isbn,doi", keep="id", decisions=decisions)
    clusters = zip("abc", result.clusters.arrow["cluster"].to_pylist(), strict=True)
    assert dict(clusters) == {"a": "a", "b": "a", "c": "c"}


def test_decisions_about_absent_ids_are_counted_and_said() -> None:
    table = {"id": ["a", "b"], "text": ["one two three", "four five six"]}
    decisions = decide([("a", "gone")], [("a", "b"), ("x", "y")])
    result = nk.dedup(table, id="id", decisions=decisions)
    assert [warning for warning in result.warnings if "decisions" in warning] == [
        "2 of 3 decisions have no effect, because the inputs do not have both ids, for example "
        "'gone', 'x', 'y'"
    ]


CHANGED = "'7' (the inputs have '007'); a spreadsheet changes such ids"


def test_ids_that_a_spreadsheet_changed_are_named_with_those_of_the_inputs() -> None:
    table = {"id": ["007", "8", "A"], "text": ["one two three", "four five six", "seven eight"]}
    result = nk.dedup(table, id="id", decisions=decide([("A", "8")], [("7", "8")]))
    assert "1 of 2 decisions has no effect" in result.warnings[0]
    assert CHANGED in result.warnings[0]
    with pytest.raises(UsageError, match="none is about two documents") as error:
        nk.dedup(table, id="id", decisions=decide([], [("7", "8")]))
    assert CHANGED in str(error.value)


def test_decisions_of_which_none_is_known_are_refused() -> None:
    table = {"id": ["a", "b"], "text": ["one two three", "four five six"]}
    with pytest.raises(UsageError, match=r"not have, for example, 'x'; their ids are such as 'a'"):
        nk.dedup(table, id="id", decisions=decide([], [("a", "x")]))
    with pytest.raises(UsageError, match="name the column of ids with `id`"):
        nk.dedup({"text": table["text"]}, decisions=decide([], [("a", "b")]))


@pytest.mark.parametrize("texts", [{}, {"a": "one"}, {"a": "", "b": "", "c": "x"}])
def test_small_and_empty_inputs_take_decisions(texts: dict[str, str]) -> None:
    clusters = clusters_of(texts, decide([("a", "b")], [("a", "c")]))
    assert len(set(clusters.values())) == max(len(texts) - 1, min(len(texts), 1))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"across": "source"}, "exclude each other: documents that are decided"),
        ({"second_measure": "cosine:v:0.9"}, "the second measure compares kept documents"),
        ({"against": ["a text"]}, "could repeat the same document of the reference"),
    ],
)
def test_options_that_exclude_decisions_are_refused(
    options: dict[str, object], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        nk.dedup({"text": ["a"], "source": ["s"]}, decisions=Decisions(), **options)  # type: ignore[arg-type]


def test_file_is_read_and_contradictions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    rows = [{"id_a": "a", "id_b": "b", "decision": "same"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = {"id": ["a", "b"], "text": ["one two three", "four five six"]}
    assert nk.dedup(table, id="id", decisions=path).kept.sum() == 1
    rows.append({"id_a": "b", "id_b": "a", "decision": "different"})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UsageError, match="neither is later"):
        nk.dedup(table, id="id", decisions=str(path))


@pytest.mark.parametrize(
    "options",
    [
        {"fields": ["title:jaccard>=0.5", "text:jaccard>=0.5"]},
        {"fingerprint": "hash", "distance": 2},
        {"threshold": 0.6, "related": 0.3},
        {"accept": "jaccard >= 0.6 and containment >= 0.6"},
        {"threshold": 0.6, "same": "title"},
        {"threshold": 0.6, "block_by": "title"},
    ],
    ids=lambda options: next(reversed(options)),
)
def test_decisions_hold_with_other_ways_of_finding_duplicates(options: dict[str, object]) -> None:
    text = " ".join(WORDS[:12])
    table = {
        "id": ["a", "b", "c", "x"],
        "text": [text, f"{text} more", f"{text} than", "nothing of this here"],
        "title": ["one equal title", "one equal title", "one equal title", "another"],
        "hash": ["00000000000000ff", "00000000000000fe", "00000000000000fd", "ffffffffffffffff"],
    }
    plain = nk.dedup(table, id="id", **options)  # type: ignore[arg-type]
    assert plain.kept.sum() == 2
    decisions = decide([("a", "x")], [("b", "c")])
    result = nk.dedup(table, id="id", decisions=decisions, **options)  # type: ignore[arg-type]
    rows = {row["id"]: row["cluster"] for row in result.clusters.arrow.to_pylist()}
    assert rows["b"] != rows["c"]
    assert rows["a"] == rows["x"]
