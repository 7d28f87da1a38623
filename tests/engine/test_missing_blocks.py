"""Documents without a value in the column of blocks: compared with none, or with all."""

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.quality.evaluate.explain import find_reason_not_to_compare

BANDED: dict[str, Any] = {"bands": 64, "rows": 1, "k": 64}
"""Bands that find every pair at the threshold, but one in 2^64."""
OPTIONS: dict[str, Any] = {"id": "id", "shingle": "words:1", "threshold": 0.5, "block_by": "block"}


def make_rows(seed: int, documents: int = 80) -> list[dict[str, Any]]:
    """Returns versions and copies of a few texts in three blocks, many without a block."""
    rng = random.Random(seed)
    rows = []
    for number in range(documents):
        words = [f"w{rng.randrange(6)}x{at}" for at in range(8)]
        if rows and rng.random() < 0.8:
            words = rng.choice(rows)["text"].split()
            if rng.random() < 0.6:
                words[rng.randrange(8)] = f"new{rng.randrange(9)}"
        block = rng.choice(["a", "b", "", None, None])
        rows.append({"id": f"d{number:02}", "text": " ".join(words), "block": block})
    return rows


def compare(first: dict[str, Any], second: dict[str, Any], missing: str) -> bool:
    """Returns whether two rows are compared."""
    if not first["block"] or not second["block"]:
        return missing == "all"
    return bool(first["block"] == second["block"])


def similar_pairs(rows: list[dict[str, Any]], missing: str) -> set[tuple[str, str]]:
    pairs = set()
    for first, second in itertools.combinations(rows, 2):
        a, b = set(first["text"].split()), set(second["text"].split())
        if len(a & b) / len(a | b) >= 0.5 and compare(first, second, missing):
            pairs.add((first["id"], second["id"]))
    return pairs


def listed(table: Any) -> set[tuple[str, str]]:
    return {
        (min(pair), max(pair))
        for pair in zip(table["id_a"].to_pylist(), table["id_b"].to_pylist(), strict=True)
    }


@pytest.mark.parametrize("banding", [{}, BANDED, {**BANDED, "hot_bucket_size": 500}])
@pytest.mark.parametrize("missing", ["none", "all"])
def test_pairs_are_those_of_an_oracle(
    missing: str, banding: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if banding:
        monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 1)
    rows = make_rows(len(banding))
    options = {**OPTIONS, **banding, "missing_block": missing}
    result = nk.pairs(rows, expand_exact=True, **options)
    assert listed(result.pairs.arrow) == similar_pairs(rows, missing)


@pytest.mark.parametrize("banding", [{}, {**BANDED, "hot_bucket_size": 3, "fanout": 4}])
@pytest.mark.parametrize("cluster", ["leaders", "components"])
def test_removed_documents_were_compared_with_the_kept_one(
    cluster: str, banding: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if banding:
        monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 1)
    rows = {row["id"]: row for row in make_rows(7)}
    for missing in ("none", "all"):
        options = {**OPTIONS, **banding, "missing_block": missing, "cluster": cluster}
        result = nk.dedup(list(rows.values()), **options)
        pairs = similar_pairs(list(rows.values()), missing)
        for row in result.clusters.to_pylist():
            pair = (min(row["id"], row["cluster"]), max(row["id"], row["cluster"]))
            assert row["kept"] or cluster == "components" or pair in pairs
            if missing == "none" and not rows[row["id"]]["block"]:
                assert (row["kept"], row["kind"]) == (True, "unique")


def test_documents_without_a_block_are_compared_with_none_by_default() -> None:
    rows = [
        {"id": name, "text": "a b c d e", "block": block}
        for name, block in zip("abcdef", ["x", "x", None, None, "", "y"], strict=True)
    ]
    result = nk.dedup(rows, id="id", block_by="block")
    assert result.kept.tolist() == [True, False, True, True, True, True]
    assert "3 documents have no value in column 'block'" in str(result.warnings)
    assert "missing_block='all'" in str(result.warnings)
    same = nk.dedup(rows, id="id", block_by="block", same="text")
    assert same.kept.tolist() == result.kept.tolist()
    everybody = nk.dedup(rows, id="id", block_by="block", missing_block="all")
    # The last one is compared with those without a block, which the first one removes.
    assert everybody.kept.tolist() == [True, False, False, False, False, True]
    assert "no value in column" not in str(everybody.warnings)


def test_a_block_that_is_not_a_number_is_missing() -> None:
    blocks = pa.array([1.0, 1.0, float("nan"), float("nan")], from_pandas=False)
    table = pa.table({"id": list("abcd"), "text": ["a b c d e"] * 4, "block": blocks})
    result = nk.dedup(table, id="id", block_by="block")
    assert result.kept.tolist() == [True, False, True, True]
    assert "2 documents have no value in column 'block'" in str(result.warnings)


@pytest.mark.parametrize(("missing", "removed"), [("none", "a"), ("all", "abcd")])
def test_references_and_checks_have_the_same_blocks(missing: str, removed: str) -> None:
    text = "a b c d e"
    near = f"{text} f"
    ours = {"id": list("abcd"), "text": [text, near, near, text], "block": ["x", "y", None, ""]}
    theirs = {"id": list("pqr"), "text": [text] * 3, "block": ["x", None, "z"]}
    options = {"id": "id", "block_by": "block", "missing_block": missing, "shingle": "words:1"}
    result = nk.dedup(ours, against=theirs, only_against=True, **options)
    assert "".join(row["id"] for row in result.clusters.to_pylist() if not row["kept"]) == removed
    checked = nk.check(ours, theirs, **options).pairs.to_pylist()
    assert {row["id_a"] for row in checked} == set(removed)


def test_given_fingerprints_of_all_blocks_are_compared() -> None:
    data = {
        "hash": ["0f" * 8, "0f" * 8, "0e" * 8, "0f" * 7 + "0e"],
        "block": ["x", "y", None, None],
    }
    options = {"fingerprint": "hash", "distance": 1, "block_by": "block", "expand_exact": True}
    assert len(nk.pairs(data, **options)) == 0
    assert listed(nk.pairs(data, missing_block="all", **options).pairs.arrow) == {
        ("0000000000", "0000000003"),
        ("0000000001", "0000000003"),
    }


@pytest.mark.parametrize("missing", ["none", "all"])
def test_contained_documents_of_all_blocks_are_found(missing: str) -> None:
    long = " ".join(f"w{number}" for number in range(40))
    short = " ".join(f"w{number}" for number in range(8))
    rows = {"text": [long, short, short + " w9"], "block": ["x", None, "y"]}
    options = {"relation": "containment", "threshold": 0.9, "shingle": "words:1"}
    found = nk.pairs(rows, block_by="block", missing_block=missing, **options)
    assert len(found) == (2 if missing == "all" else 0)


def test_contradictions_are_errors(tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> None:
    for options, message in (
        ({"missing_block": "all"}, "no effect without `block_by`"),
        (
            {"missing_block": "some", "block_by": "n"},
            "missing_block='some' is not one of none, all",
        ),
        (
            {"missing_block": "all", "block_by": "n", "accept": "jaccard >= 0.8 and same(n)"},
            "exclude each other",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            nk.dedup({"text": ["a", "b"], "n": [1, 2]}, **options)
    path = tmp_path / "rows.csv"
    path.write_text("text,n\na b c,1\n")
    command = ["dedup", str(path), "--out", str(tmp_path / "out"), "--missing-block", "all"]
    assert run(command) == 2
    assert "--missing-block has no effect without --block-by" in capfd.readouterr().err
    assert run([*command, "--block-by", "n", "--quiet"]) == 0
    assert '"missing_block": "all"' in (tmp_path / "out" / "run.json").read_text()


@pytest.mark.parametrize(
    ("blocks", "missing", "is_compared"),
    [
        (("x", "x"), "none", True),
        (("x", "y"), "all", False),
        ((None, ""), "none", False),
        ((None, "x"), "all", True),
    ],
)
def test_explanation_says_which_blocks_are_compared(
    blocks: tuple[str | None, str | None], missing: str, is_compared: bool
) -> None:
    settings = RunOptions(block_by="block", missing_block=missing)
    first, second = (SimpleNamespace(carried={"block": block}) for block in blocks)
    reason = find_reason_not_to_compare((first, second), settings)  # type: ignore[arg-type]
    assert (reason is None) == is_compared
