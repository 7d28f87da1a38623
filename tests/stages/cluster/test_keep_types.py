"""Tests of keep policies over columns whose values have several types."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import nearkin as nk
from tests.corpus.samples import NEAR_TEXTS

ANY_JSON_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(2**62, 2**66),
    st.floats(-2, 2),
    st.sampled_from(["n/a", "2", "b", ""]),
    st.just([1]),
    st.just({"a": 1}),
)


@hypothesis_settings(max_examples=8)
@given(
    st.lists(st.tuples(st.integers(0, 3), ANY_JSON_VALUE, ANY_JSON_VALUE), min_size=1, max_size=12),
    st.integers(1, 11),
)
def test_result_does_not_depend_on_how_rows_are_divided_into_files(
    rows: list[tuple[int, Any, Any]], cut: int
) -> None:
    """A riding column whose type varies, as JSON lines have them."""
    lines = [
        json.dumps({"text": NEAR_TEXTS[which], "id": f"d{at}", "rank": rank, "block": block}) + "\n"
        for at, (which, rank, block) in enumerate(rows)
    ]
    results = []
    for parts in ([lines], [lines[:cut], lines[cut:]], [[line] for line in lines]):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, part in enumerate(parts):
                paths.append(Path(folder, f"{number:02d}.jsonl"))
                paths[-1].write_text("".join(part))
            result = nk.dedup(paths, id="id", keep="rank desc", block_by="block", source="rank")
            results.append((result.clusters.to_pylist(), result.report_data.sources))
    assert results[0] == results[1] == results[2]


def test_one_word_in_a_column_of_numbers_sorts_all_values_as_text(tmp_path: Path) -> None:
    ranks: list[Any] = [9, 10, "n/a", 11]
    for name, rows in (("a.jsonl", (0, 1)), ("b.jsonl", (2, 3))):
        lines = [json.dumps({"text": NEAR_TEXTS[0], "rank": ranks[row]}) for row in rows]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    assert nk.dedup(tmp_path, keep="rank asc").kept.tolist() == [False, True, False, False]
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": NEAR_TEXTS[0], "rank": 11}))
    assert nk.dedup(tmp_path, keep="rank asc").kept.tolist() == [True, False, False]


def test_large_integers_are_sorted_by_all_their_digits() -> None:
    for first in (2**53, 2**63, -(2**63)):
        ranks = pa.array([first + 1, first], pa.uint64() if first > 2**62 else pa.int64())
        data = {"text": [NEAR_TEXTS[0], NEAR_TEXTS[0]], "rank": ranks}
        assert nk.dedup(data, keep="rank asc").kept.tolist() == [False, True]
        assert nk.dedup(data, keep="rank desc").kept.tolist() == [True, False]
