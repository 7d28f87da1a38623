import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearkin as nk
from nearkin.index.signatures import signature_index
from nearkin.stages.lsh.band_keys import slot_band_keys
from nearkin.stages.sketch.signature_file import SignatureWriter, read_signatures

SPEC = nk.Spec(n=1, k=64)


def sets_of(count: int, seed: int, size: int = 40) -> list[set[int]]:
    """Sets of which every second one is a copy of the one before with a few other elements."""
    rng = np.random.default_rng(seed)
    found: list[set[int]] = []
    for number in range(count):
        if number % 2:
            changed = rng.integers(0, 12)
            kept = list(found[-1])[changed:]
            found.append({*kept, *rng.integers(10**6, 10**9, changed).tolist()})
        else:
            found.append(set(rng.integers(0, 10**6, size).tolist()))
    return found


def brute_force(index: nk.SignatureIndex, queries: np.ndarray) -> list[list[tuple[Any, float]]]:
    """The matches by comparison of every query with every stored signature in plain Python."""
    stored = {id: np.asarray(index[id]) for id in index.ids}
    keys = {
        id: slot_band_keys(values[None], index.bands, index.rows)[0]
        for id, values in stored.items()
    }
    matches = []
    for query in queries:
        query_keys = slot_band_keys(query[None], index.bands, index.rows)[0]
        found = []
        for id, values in stored.items():
            agreeing = int((values == query).sum())
            meets = bool((keys[id] == query_keys).any())
            if meets and agreeing >= index._banding.margin:
                found.append((id, agreeing / len(values)))
        matches.append(sorted(found, key=lambda match: -match[1]))
    return matches


def test_matches_are_those_of_a_brute_force_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signature_index, "LEAST_ROWS", 16)
    monkeypatch.setattr(signature_index, "QUERIES", 50)
    monkeypatch.setattr(signature_index, "PAIRS_PER_BATCH", 7)
    sets = sets_of(300, seed=1)
    index = nk.SignatureIndex(0.6, SPEC)
    for start in range(0, 300, 37):
        part = sets[start : start + 37]
        index.add_many(range(start, start + len(part)), part)
    index.remove_many(range(0, 300, 3))
    queries = np.stack([nk.Signature.from_set(values, SPEC).values for values in sets])
    matches = index.query_many(queries)
    assert len(matches) == 300
    expected = brute_force(index, queries)
    assert [[tuple(match) for match in matches.of(query)] for query in range(300)] == expected
    assert sum(map(len, expected)) > 250
    # sets, lists of signatures and single calls find the same
    again = index.query_many(sets)
    np.testing.assert_array_equal(again.ids, matches.ids)
    signatures = [nk.Signature(row, SPEC) for row in queries]
    np.testing.assert_array_equal(index.query_many(signatures).estimates, matches.estimates)
    assert index.query(sets[7]) == index.query(signatures[7]) == matches.of(7)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 30), max_size=8, unique=True)),
        max_size=12,
    )
)
def test_any_order_of_additions_and_removals_is_that_of_a_dictionary(
    steps: list[tuple[bool, list[int]]],
) -> None:
    sets = sets_of(31, seed=3)
    index = nk.SignatureIndex(0.5, SPEC)
    model: dict[int, set[int]] = {}
    for adds, numbers in steps:
        if adds:
            new = [number for number in numbers if number not in model]
            index.add_many(new, [sets[number] for number in new])
            model.update({number: sets[number] for number in new})
        else:
            assert index.remove_many(numbers) == len([n for n in numbers if n in model])
            for number in numbers:
                model.pop(number, None)
    assert index.ids == list(model)
    direct = nk.SignatureIndex(0.5, SPEC)
    direct.add_many(list(model), list(model.values()))
    for number in range(31):
        assert sorted(index.query(sets[number])) == sorted(direct.query(sets[number]))


def test_recall_at_the_threshold_is_that_of_the_banding() -> None:
    # pairs with J = 80 / 120 exactly: two sets of 100 that share 80
    pairs = 600
    first = [set(range(n * 1000, n * 1000 + 100)) for n in range(pairs)]
    second = [set(range(n * 1000 + 20, n * 1000 + 120)) for n in range(pairs)]
    index = nk.SignatureIndex(80 / 120, nk.Spec(n=1, k=128), recall=0.9)
    index.add_many(range(pairs), first)
    matches = index.query_many(second)
    recall = np.mean([any(match.id == n for match in matches.of(n)) for n in range(pairs)])
    expected = index._banding.recall
    # four standard errors of a share of 600
    assert recall > expected - 4 * np.sqrt(expected * (1 - expected) / pairs)


@pytest.mark.parametrize(
    ("spec", "documents"),
    [
        (nk.Spec(), pa.array(["one two three four", "five six seven eight", ""])),
        (nk.Spec(measure="weighted-jaccard"), ["one two three four", "five six seven eight", ""]),
        (nk.Spec(measure="simhash"), ["one two three four", "five six seven eight", ""]),
        (nk.Spec(n=2), [["one", "two"], ["three", "four"], []]),
    ],
    ids=["texts", "multisets", "signs", "tokens"],
)
def test_documents_of_every_kind_find_themselves(spec: nk.Spec, documents: Any) -> None:
    index = nk.SignatureIndex(0.95, spec)
    index.add_many(["a", "b", "empty"], documents)
    matches = index.query_many(documents)
    assert [[match.id for match in matches.of(n)] for n in range(3)] == [["a"], ["b"], []]
    assert matches.estimates.tolist() == [1.0, 1.0]


def test_vectors_find_themselves() -> None:
    vectors = np.random.default_rng(5).standard_normal((50, 16)).astype(np.float32)
    spec = nk.Spec(measure="cosine", unit="vector", n=16, k=256)
    index = nk.SignatureIndex(0.9, spec, documents=50)
    index.add_many(np.arange(50), vectors)
    matches = index.query_many(vectors * 2, top=1)
    assert matches.ids.tolist() == list(range(50))
    assert index.query(vectors[3], top=1)[0].id == 3


def test_top_and_at_least_bound_the_matches() -> None:
    index = nk.SignatureIndex(0.3, SPEC)
    base = set(range(100))
    index.add_many(range(8), [base - set(range(10 * n)) for n in range(8)])
    matches = index.query(base)
    assert [match.id for match in matches[:2]] == [0, 1]
    assert index.query(base, top=3) == matches[:3]
    assert index.query(base, at_least=0.85) == [m for m in matches if m.estimate >= 0.85]


def filled() -> nk.SignatureIndex:
    index = nk.SignatureIndex(0.6, SPEC, recall=0.9)
    index.add_many([f"id {n}" for n in range(40)], sets_of(40, seed=7))
    index.remove_many(["id 3", "id 4"])
    return index


def same(a: nk.SignatureIndex, b: nk.SignatureIndex) -> None:
    queries = sets_of(40, seed=7)
    assert a.ids == b.ids
    assert repr(a) == repr(b)
    found, expected = a.query_many(queries), b.query_many(queries)
    assert found.ids.tolist() == expected.ids.tolist()
    np.testing.assert_array_equal(found.estimates, expected.estimates)


def test_a_saved_index_is_loaded_as_it_was(tmp_path: Path) -> None:
    index = filled()
    index.save(tmp_path / "kin.arrow")
    same(nk.SignatureIndex.load(tmp_path / "kin.arrow"), index)
    other = nk.SignatureIndex.load(tmp_path / "kin.arrow", threshold=0.9)
    assert other.threshold == 0.9
    assert other.ids == index.ids
    numbers = nk.SignatureIndex(0.6, SPEC, bands=8, rows=2)
    numbers.add_many([5, 6], [{1}, {2}])
    numbers.save(tmp_path / "numbers.arrow")
    loaded = nk.SignatureIndex.load(tmp_path / "numbers.arrow")
    assert loaded.ids == [5, 6]
    assert (loaded.bands, loaded.rows) == (8, 2)


def test_signature_files_of_the_command_are_loaded(tmp_path: Path) -> None:
    texts = ["one two three four", "five six seven eight"]
    with SignatureWriter(tmp_path / "s.arrow", nk.Spec()) as writer:
        ids = pa.array(["a", "b"], pa.large_string())
        writer.add(ids, nk.sketch(texts), np.ones(2, np.uint32))
    index = nk.SignatureIndex.load(tmp_path / "s.arrow")
    assert [match.id for match in index.query(texts[1])] == ["b"]
    # and files of indexes are signature files
    index.save(tmp_path / "again.arrow")
    assert read_signatures(tmp_path / "again.arrow").ids.to_pylist() == ["a", "b"]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    filled().save(tmp_path / "kin.arrow")
    data = bytearray((tmp_path / "kin.arrow").read_bytes())
    (tmp_path / "short.arrow").write_bytes(data[: len(data) // 2])
    with pytest.raises(nk.errors.WireError, match="damaged"):
        nk.SignatureIndex.load(tmp_path / "short.arrow")
    with pytest.raises(nk.UsageError, match="no such file"):
        nk.SignatureIndex.load(tmp_path / "none.arrow")


@pytest.mark.parametrize("settings", [b"{", b"[]", b'{"later": 1}', b"[" * 100_000])
def test_damaged_settings_are_refused(settings: bytes, tmp_path: Path) -> None:
    with SignatureWriter(
        tmp_path / "kin.arrow", nk.Spec(), {signature_index.METADATA: settings}
    ) as writer:
        ids = pa.array(["a"], pa.large_string())
        writer.add(ids, nk.sketch(["one two three four"]), np.ones(1, np.uint32))
    with pytest.raises(
        nk.errors.WireError, match=r"cannot read the settings of the index .*kin\.arrow"
    ):
        nk.SignatureIndex.load(tmp_path / "kin.arrow")


def test_pickled_index_is_independent_and_has_the_same_documents() -> None:
    index = filled()
    again = pickle.loads(pickle.dumps(index))
    same(again, index)
    again.add("new", {1, 2, 3})
    assert "new" in again
    assert "new" not in index


def test_a_pickled_index_holds_no_key() -> None:
    key, _ = nk.HashKey.generate()
    spec = nk.Spec(n=1, k=64).keyed_with(key)
    index = nk.SignatureIndex(0.6, spec, resources=nk.SpecResources(key))
    index.add("a", {"one"})
    again = pickle.loads(pickle.dumps(index))
    assert again.resources.secret is None
    assert again.query(index["a"])[0].id == "a"
    with pytest.raises(nk.errors.KeyRequiredError, match="this Spec is keyed"):
        again.add("b", {"two"})


def test_merged_indexes_hold_the_signatures_of_both() -> None:
    sets = sets_of(40, seed=9)
    whole = nk.SignatureIndex(0.6, SPEC)
    whole.add_many(range(40), sets)
    first = nk.SignatureIndex(0.6, SPEC)
    first.add_many(range(20), sets[:20])
    second = nk.SignatureIndex(0.9, SPEC)
    second.add_many(range(20, 40), sets[20:])
    first.merge(second)
    assert first.query_many(sets).ids.tolist() == whole.query_many(sets).ids.tolist()
    with pytest.raises(nk.UsageError, match="a signature is stored under the id 20 already"):
        first.merge(second)
    with pytest.raises(nk.errors.IncompatibleError, match="k=128"):
        first.merge(nk.SignatureIndex(0.6, nk.Spec(n=1, k=128)))


def test_refused_additions_leave_the_index_unchanged() -> None:
    index = filled()
    cases: list[tuple[Any, Any, str]] = [
        (["a", "a"], [{1}, {2}], "an id is given more than once"),
        (["id 1"], [{1}], "a signature is stored under the id 'id 1' already"),
        (["a"], [{1}, {2}], "there are 1 ids and 2 documents"),
        ([0.5], [{1}], "the id 0.5 is a float; give texts or whole numbers"),
        (["a"], np.zeros((1, 8), np.uint32), r"are uint32 \(n, 64\), not uint32 \(1, 8\)"),
        (["a"], [None], "text"),
        (["a", "b"], [__file__, "/"], "the texts are paths of existing files"),
    ]
    for ids, documents, message in cases:
        with pytest.raises(nk.UsageError, match=message):
            index.add_many(ids, documents)
    with pytest.raises(nk.errors.IncompatibleError):
        index.add("a", nk.Signature.from_set({1}, nk.Spec(n=1, k=128)))
    same(index, filled())
    assert not index.remove("unknown")
    for wrong in ({"threshold": 0.0}, {"bands": 3}, {"spec": nk.Spec(slot_bits=8)}):
        with pytest.raises(nk.UsageError):
            nk.SignatureIndex(**wrong)


def test_an_empty_index_answers() -> None:
    index = nk.SignatureIndex(0.6, SPEC)
    assert index.query({1}) == []
    assert len(index.query_many([])) == 0
    index.add_many([], [])
    assert len(index) == 0


@pytest.mark.parametrize(
    "ids",
    [
        ["1", "2"],
        [1, 2],
        [np.int64(1), np.str_("b")],
        np.array([1, 2]),
        pa.array(["a", "b"]),
        pa.chunked_array([["a"], ["b"]]),
        pd.Series([1, 2]),
        pl.Series(["a", "b"]),
        range(2),
        iter("ab"),
    ],
)
def test_ids_of_every_library_are_added_and_removed(ids: Any) -> None:
    index = nk.SignatureIndex(0.5, SPEC)
    index.add_many(ids, ["one text", "another"])
    assert {type(id) for id in index.ids} <= {str, int}
    assert index.remove_many(index.ids if hasattr(ids, "__next__") else ids) == 2


@pytest.mark.parametrize("ids", ["ab", b"ab", {"a": 1, "b": 2}, [True, False], [None, "b"], [1.0]])
def test_ids_that_are_not_texts_or_numbers_are_refused(ids: Any) -> None:
    index = nk.SignatureIndex(0.5, SPEC)
    with pytest.raises(nk.UsageError, match=r"not a list of ids|give texts or whole numbers"):
        index.add_many(ids, ["one text", "another"])
    assert len(index) == 0
    if not isinstance(ids, list):
        with pytest.raises(nk.UsageError, match="not a list of ids"):
            index.remove_many(ids)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"top": -1}, "top=-1 is out of range; it must be at least 0"),
        ({"top": 1.5}, "top=1.5 is of type float"),
        ({"at_least": float("nan")}, "at_least=nan is not a number"),
        ({"at_least": 2}, "at_least=2 is out of range"),
    ],
)
def test_limits_of_a_query_out_of_range_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(nk.UsageError, match=message):
        nk.SignatureIndex(0.5, SPEC).query("a text", **limits)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"workers": 0}, "workers=0 is out of range"),
        ({"workers": 1.5}, "workers=1.5 is of type float"),
        ({"documents": 0}, "documents=0 is out of range"),
        ({"documents": float("nan")}, "documents=nan is not a number"),
        ({"bands": -1, "rows": -1}, "must both be at least 1"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(nk.UsageError, match=message):
        nk.SignatureIndex(0.5, SPEC, **wrong)


def test_matches_of_an_unknown_query_are_an_error() -> None:
    matches = nk.SignatureIndex(0.5, SPEC).query_many(["a text", "another"])
    for query in (-1, 2):
        with pytest.raises(IndexError, match="outside 0 to 1"):
            matches.of(query)


def test_an_index_is_not_saved_where_no_file_can_be(tmp_path: Path) -> None:
    index = nk.SignatureIndex(0.5, SPEC)
    index.save(tmp_path / "empty")
    assert len(nk.SignatureIndex.load(tmp_path / "empty")) == 0
    with pytest.raises(nk.UsageError, match="is a folder"):
        index.save(tmp_path)
    with pytest.raises(nk.UsageError, match="no such folder"):
        index.save(tmp_path / "none" / "index")
    index.add("\ud800", "a text")
    with pytest.raises(nk.UsageError, match="lone surrogate"):
        index.save(tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_texts_that_are_paths_name_a_way_that_works(tmp_path: Path) -> None:
    index = nk.SignatureIndex(0.5, SPEC)
    paths = [str(tmp_path), str(tmp_path.parent)]
    with pytest.raises(nk.UsageError, match=r"pass pyarrow.array\(paths\)"):
        index.add_many(["a", "b"], paths)
    index.add_many(["a", "b"], pa.array(paths))
    assert nk.sketch(pa.array(paths)).shape == (2, 128)
    with pytest.raises(nk.UsageError, match=r"pass pyarrow.array\(paths\)"):
        nk.sketch(paths)


def test_nothing_is_removed_if_a_value_cannot_be_an_id() -> None:
    index = nk.SignatureIndex(0.5, SPEC)
    index.add("a", {"cat", "dog", "cow"})
    with pytest.raises(TypeError):
        index.remove_many(["a", ["b"]])  # type: ignore[list-item]
    assert "a" in index
    assert index.remove_many(["a", "a", "b"]) == 1
    assert index.query({"cat", "dog", "cow"}) == []
