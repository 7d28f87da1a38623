"""Tests of the methods of data frames of pandas and Polars."""

import inspect
import subprocess
import sys
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nearkin as nk
import nearkin.pandas
import nearkin.polars

ROWS = {
    "name": ["one", "two", "three", "four"],
    "body": ["the cat sat on the mat", None, "the cat sat on the mat now", "a dog"],
}
FRAMES = [pd.DataFrame(ROWS, index=[5, 5, 7, 9]), pl.DataFrame(ROWS)]


@pytest.mark.parametrize("frame", FRAMES, ids=["pandas", "polars"])
def test_methods_of_frames_return_what_the_library_returns(frame: Any) -> None:
    kept = frame.nearkin.dedup("body", threshold=0.7)
    assert type(kept) is type(frame)
    assert list(kept["name"]) == ["three", "four"]
    pairs = frame.nearkin.pairs("body", id="name", threshold=0.7)
    assert type(pairs) is type(frame)
    assert pa.table(pairs).select(["id_a", "id_b"]).to_pylist() == [
        {"id_a": "one", "id_b": "three"}
    ]


@pytest.mark.parametrize(
    "imports",
    [
        "import pandas, polars, nearkin",
        "import nearkin, pandas, polars",
        "import nearkin, pandas, polars, nearkin.pandas, nearkin.polars",
        pytest.param("import polars, nearkin, pandas", marks=pytest.mark.full),
        *(
            pytest.param(imports, marks=pytest.mark.full)
            for imports in (
                "import pandas, polars, nearkin, nearkin.pandas, nearkin.polars",
                "import nearkin.pandas, nearkin.polars, pandas, polars",
            )
        ),
    ],
)
def test_frames_have_methods_after_any_order_of_imports(imports: str) -> None:
    code = (
        "import sys, warnings\nwarnings.simplefilter('error', UserWarning)\n"
        f"{imports}\nwarnings.simplefilter('ignore')\n"
        "assert ('nearkin.runs.api' in sys.modules) == ('nearkin.pandas' in sys.modules)\n"
        "rows = {'text': ['one two three four', 'One two three four!', 'five']}\n"
        "for library in (pandas, polars):\n"
        "    assert len(library.DataFrame(rows).nearkin.dedup()) == 2\n"
    )
    line = [sys.executable, "-c", code]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_cluster_ids_have_a_value_for_each_row() -> None:
    of_pandas, of_polars = (
        frame.nearkin.cluster_ids("body", id="name", threshold=0.7) for frame in FRAMES
    )
    assert of_polars.to_list() == ["three", None, "three", "four"]
    assert of_pandas.index.equals(FRAMES[0].index)
    assert of_pandas.tolist() == of_polars.to_list()
    assert FRAMES[1].nearkin.cluster_ids("body").dtype == pl.String


def test_unknown_columns_and_parameters_are_refused() -> None:
    for frame in FRAMES:
        with pytest.raises(nk.UsageError, match="bodies"):
            frame.nearkin.dedup("bodies")
        with pytest.raises(nk.UsageError, match="treshold"):
            frame.nearkin.pairs("body", treshold=0.5)
        with pytest.raises(TypeError, match="multiple values for argument 'text'"):
            frame.nearkin.dedup("body", text="other")


def test_methods_name_the_common_parameters_of_the_library() -> None:
    named = list(inspect.signature(nk.dedup).parameters)[1:6]
    assert named == ["text", "id", "threshold", "preset", "keep"]
    methods = FRAMES[0].nearkin
    for method in (methods.dedup, methods.pairs, methods.cluster_ids):
        assert list(inspect.signature(method).parameters)[:5] == named


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"passages": 5}, r"passages` changes rows.*kept_documents"),
        ({"repeated_lines": 2}, r"repeated_lines` changes rows"),
        ({"merge_fields": "text:longest"}, r"merge_fields` changes rows.*merged_rows"),
    ],
)
def test_what_a_frame_cannot_return_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(nk.UsageError, match=message):
        pl.DataFrame({"body": ["a b c"], "other": ["d"]}).nearkin.dedup("body", **options)
