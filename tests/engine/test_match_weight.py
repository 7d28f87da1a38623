"""Runs whose condition adds weights of columns."""

import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine import pair_acceptance
from nearkin.engine.pair_acceptance import weigh_columns
from nearkin.errors import UsageError
from nearkin.settings.acceptance import MatchWeight
from nearkin.settings.acceptance.expression import ColumnWeights, WeightLevel
from nearkin.stages.verify.column_similarity import compare_values
from tests.stages.verify.test_column_similarity import compare_in_python

ACCEPT = (
    "jaccard >= 0.1 and match_weight(name 1:6 0.5:3.1 0:-2, city 1:2 0.3:0.5 0:-1.5, zip 1:1) >= 4"
)
LEVELS = {
    "name": [(1.0, 6.0), (0.5, 3.1), (0.0, -2.0)],
    "city": [(1.0, 2.0), (0.3, 0.5), (0.0, -1.5)],
    "zip": [(1.0, 1.0)],
}


def make_rows(count: int, seed: int) -> pa.Table:
    draw = random.Random(seed)

    def misspell(value: str) -> str | None:
        if draw.random() < 0.1:
            return None
        at = draw.randrange(len(value))
        return value[:at] + draw.choice("abcde") + value[at + 1 :] if draw.random() < 0.4 else value

    names = ["".join(draw.choices("abcdefgh", k=9)) for _ in range(12)]
    cities = ["".join(draw.choices("abcdefgh", k=7)) for _ in range(4)]
    rows: set[tuple[str | None, ...]] = set()
    while len(rows) < count:
        zipcode = draw.choice(["10", "20", "30"])
        rows.add((misspell(draw.choice(names)), misspell(draw.choice(cities)), zipcode))
    ordered = sorted(rows, key=str)
    return pa.Table.from_pylist(
        [
            {"id": f"{number:03d}", **dict(zip(LEVELS, row, strict=True))}
            for number, row in enumerate(ordered)
        ]
    )


def weigh(first: dict[str, str | None], second: dict[str, str | None]) -> float:
    total = 0.0
    for column, levels in LEVELS.items():
        similarity = compare_in_python(first[column], second[column])
        total += next((weight for least, weight in levels if similarity >= least), 0.0)
    return round(total, 6)


def shingle(row: dict[str, str | None]) -> set[str]:
    text = " ".join(value for name, value in row.items() if name != "id" and value)
    return {text[at : at + 3] for at in range(len(text) - 2)}


def test_values_that_are_compared_at_a_time_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(4)
    texts = ["".join(draw.choices("abcdef", k=draw.randrange(400))) for _ in range(300)]
    texts[7] = "abcdef" * 500
    values = {"name": pa.chunked_array([texts[:100], texts[100:]], pa.large_string())}
    first = np.array([draw.randrange(300) for _ in range(900)])
    second = (first + 1) % 300
    condition = MatchWeight((ColumnWeights("name", (WeightLevel(0.1, 2), WeightLevel(0, -1))),), 1)
    expected = weigh_columns(condition, values, first, second)
    sizes = []

    def compare(taken: pa.Array, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        sizes.append(sum(map(len, taken.to_pylist())))
        return compare_values(taken, one, other)

    monkeypatch.setattr(pair_acceptance, "VALUE_BYTES", 2000)
    monkeypatch.setattr(pair_acceptance, "compare_values", compare)
    assert np.array_equal(weigh_columns(condition, values, first, second), expected)
    assert len(sizes) > 100
    assert sum(size > 2000 for size in sizes) <= np.count_nonzero((first == 7) | (second == 7))


@pytest.mark.parametrize("workers", [1, 2])
def test_pairs_are_those_whose_weights_add_up_to_enough(workers: int) -> None:
    table = make_rows(120, 3)
    rows = table.to_pylist()
    expected = set()
    for first, second in combinations(rows, 2):
        one, other = shingle(first), shingle(second)
        if len(one & other) / len(one | other) >= 0.1 and weigh(first, second) >= 4:
            expected.add((first["id"], second["id"]))
    found = nk.pairs(
        table,
        id="id",
        text=["name", "city", "zip"],
        shingle="chars:3",
        accept=ACCEPT,
        workers=workers,
    ).to_arrow()
    pairs = zip(found["id_a"].to_pylist(), found["id_b"].to_pylist(), strict=True)
    assert {(min(pair), max(pair)) for pair in pairs} == expected
    assert len(expected) > 100


def test_rows_of_equal_text_are_copies_only_if_their_columns_are_equal() -> None:
    rows = [
        {"id": "a", "first": "anna maria", "last": "lee"},
        {"id": "b", "first": "anna", "last": "maria lee"},
        {"id": "c", "first": "anna", "last": "maria lee"},
    ]
    accept = "jaccard >= 0.5 and match_weight(first 1:3 0:-9, last 1:3 0:-9) >= 5"
    result = nk.dedup(rows, id="id", text=["first", "last"], shingle="chars:3", accept=accept)
    assert sorted(row["id"] for row in result.kept_rows) == ["a", "b"]


def test_explanation_shows_the_weight_of_each_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id,name,city\na,anna smith,rome\nb,ana smith,rome\nc,peter smith,rome\n")
    condition = "jaccard >= 0.2 and match_weight(name 1:6 0.7:4 0:-3, city 1:2 0:-1) >= 5"
    line = ["dedup", path, "--id", "id", "--text", "name,city", "--shingle", "chars:3"]
    out = tmp_path / "out"
    assert run([*map(str, line), "--accept", condition, "--out", str(out)]) == 0
    capsys.readouterr()
    assert run(["explain", "a", "b", "--run", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "match_weight(name, city) >= 5 holds" in shown
    assert "the weights add up to 6 of 5 (name +4, city +2)" in shown
    assert run(["explain", "a", "c", "--run", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "the weights add up to -1 of 5 (name -3, city +2)" in shown


def test_column_of_weights_must_exist() -> None:
    rows = [{"id": "a", "name": "anna", "city": "rome"}]
    with pytest.raises(UsageError, match="no column 'town'"):
        nk.dedup(rows, text=["name"], accept="jaccard >= 0.2 and match_weight(town 1:5) >= 5")


def test_weights_alone_find_no_candidates() -> None:
    with pytest.raises(UsageError, match=r"add a condition such as jaccard >= 0\.5"):
        nk.dedup([{"text": "anna"}], accept="match_weight(text 1:5) >= 5")
