"""Tests of the forms of a table."""

import sys

import pyarrow as pa
import pytest

from nearkin.errors import MissingExtraError
from nearkin.runtime.table_forms import TableForms

ROWS = pa.table({"a_b": ["1 & 2", None, "\\{x}"], "n": [1, 2, 3]})


class Rows(TableForms):
    def to_arrow(self) -> pa.Table:
        return ROWS


def test_every_form_has_the_rows_of_the_arrow_table() -> None:
    assert pa.Table.from_pandas(Rows().to_pandas()).to_pylist() == ROWS.to_pylist()
    assert Rows().to_polars().to_dicts() == ROWS.to_pylist()
    assert Rows().to_dataset().to_list() == ROWS.to_pylist()


def test_numbers_have_four_digits_in_latex() -> None:
    class Scores(TableForms):
        def to_arrow(self) -> pa.Table:
            return pa.table({"score": [0.941747572815534, 12345.678, 1e-9, 0.5]})

    cells = [line.removesuffix(r" \\") for line in Scores().to_latex().splitlines()[4:8]]
    assert cells == ["0.9417", "12346", "1e-09", "0.5"]


@pytest.mark.parametrize(
    ("form", "library"), [("pandas", "pandas"), ("polars", "polars"), ("dataset", "datasets")]
)
def test_a_missing_library_is_named_with_its_extra(
    form: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"\.\[{library}\]"):
        getattr(Rows(), f"to_{form}")()


def test_a_table_is_written_as_latex() -> None:
    assert Rows().to_latex().splitlines() == [
        r"\begin{tabular}{lr}",
        r"\hline",
        r"a\_b & n \\",
        r"\hline",
        r"1 \& 2 & 1 \\",
        r" & 2 \\",
        r"\textbackslash{}\{x\} & 3 \\",
        r"\hline",
        r"\end{tabular}",
    ]
