"""The forms of a table: a frame, a dataset or LaTeX, made from its Arrow table."""

from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa

from nearkin.errors import MissingExtraError

LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\n": " ",
        "\r": " ",
    }
)
"""How characters are written in LaTeX that have a meaning there."""
FOUR_DIGITS = 1e4
"""The smallest number whose whole part has more than four digits."""


class TableForms(ABC):
    """A table in several forms, which are made from its Arrow table."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Returns the table as an Arrow table."""

    def to_pandas(self) -> Any:
        """Returns the table as a pandas DataFrame.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        try:
            return self.to_arrow().to_pandas()
        except ImportError as error:
            raise MissingExtraError.for_extra("to_pandas requires pandas", "pandas") from error

    def to_polars(self) -> Any:
        """Returns the table as a polars DataFrame.

        Raises:
            MissingExtraError: If polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise MissingExtraError.for_extra("to_polars requires polars", "polars") from error
        return polars.from_arrow(self.to_arrow())

    def to_dataset(self) -> Any:
        """Returns the table as a `datasets.Dataset`, which shares its memory.

        Raises:
            MissingExtraError: If datasets is not installed.
        """
        try:
            from datasets import Dataset
        except ImportError as error:
            raise MissingExtraError.for_extra("to_dataset requires datasets", "datasets") from error
        return Dataset(self.to_arrow())

    def to_latex(self) -> str:
        r"""Returns the table as a LaTeX tabular, with numbers on the right.

        Fractions have four digits.

        Examples:
            >>> class Pairs(TableForms):
            ...     def to_arrow(self) -> pa.Table:
            ...         return pa.table({"id_a": ["5%"], "similarity": [0.912345]})
            >>> print(Pairs().to_latex())
            \begin{tabular}{lr}
            \hline
            id\_a & similarity \\
            \hline
            5\% & 0.9123 \\
            \hline
            \end{tabular}
        """
        table = self.to_arrow()
        alignment = "".join(
            "r" if pa.types.is_integer(kind) or pa.types.is_floating(kind) else "l"
            for kind in table.schema.types
        )
        header, *rows = (
            " & ".join(_format_cell(value).translate(LATEX) for value in row)
            for row in [table.column_names, *zip(*table.to_pydict().values(), strict=True)]
        )
        body = "".join(f"{row} \\\\\n" for row in rows)
        return (
            f"\\begin{{tabular}}{{{alignment}}}\n\\hline\n{header} \\\\\n\\hline\n"
            f"{body}\\hline\n\\end{{tabular}}"
        )


def _format_cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < FOUR_DIGITS else f"{value:.0f}"
    return "" if value is None else str(value)
