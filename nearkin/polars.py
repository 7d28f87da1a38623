"""Methods and expressions for Polars: `import nearkin.polars` adds `frame.nearkin`.

`import nearkin` adds the methods of frames, too, before or after `import polars`. It needs the
extra `polars`.

Examples:
    >>> import polars
    >>> import nearkin.polars
    >>> frame = polars.DataFrame({"body": ["one two three four", "One two three four!", "five"]})
    >>> frame.nearkin.dedup("body")["body"].to_list()
    ['One two three four!', 'five']
    >>> frame.select(nearkin.polars.similarity("body", polars.lit("one two three"))).to_series()[0]
    0.5
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nearkin.errors import MissingExtraError, UsageError
from nearkin.integrations.frame_accessors import register_polars
from nearkin.integrations.frame_methods import FrameMethods
from nearkin.integrations.text_columns import TextColumns
from nearkin.runs.results import ResultTable
from nearkin.runtime.argument_types import check_arguments
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources

try:
    import polars
except ImportError as error:
    raise MissingExtraError.for_extra("nearkin.polars requires polars", "polars") from error

if TYPE_CHECKING:
    from polars import Expr, Series


class PolarsMethods(FrameMethods[Any, Any]):
    """The methods of a Polars frame."""

    def _to_frame(self, table: ResultTable) -> Any:
        return table.to_polars()

    def _to_series(self, column: pa.ChunkedArray) -> Any:
        return polars.Series("cluster", column)


register_polars(polars, PolarsMethods)


@check_arguments
def minhash(
    texts: Any, spec: Spec | None = None, *, resources: SpecResources = NO_RESOURCES
) -> "Expr":
    """Returns an expression for the signature of each text.

    Args:
        texts: Column of texts: its name, or an expression.
        spec: Spec of the signatures. The default is `Spec()`.
        resources: The hash key and the data that the Spec refers to.

    Returns:
        An expression of lists of numbers, as `nearkin.sketch` returns them. Null for null.

    Raises:
        UsageError: If the Spec is of vectors.
    """
    columns = TextColumns(spec or Spec(), resources)
    number = polars.UInt32 if columns.spec.signature_type.__name__ == "uint32" else polars.UInt64
    return _apply([texts], lambda series: columns.sketch(*series), polars.List(number))


@check_arguments
def band_keys(
    texts: Any,
    spec: Spec | None = None,
    *,
    threshold: float = 0.8,
    recall: float = 0.95,
    resources: SpecResources = NO_RESOURCES,
) -> "Expr":
    """Returns an expression for the band keys of each text.

    Texts that share the key of a band, at the same position of the list, are candidates.

    Args:
        texts: Column of texts: its name, or an expression.
        spec: Spec of the signatures. The default is `Spec()`.
        threshold: Smallest similarity of near-duplicates.
        recall: Required share of the pairs at the threshold that share a key.
        resources: The hash key and the data that the Spec refers to.

    Returns:
        An expression of lists of UInt64, one for each band. Null for null.

    Raises:
        UsageError: If the Spec is of vectors or of truncated slots.
    """
    columns = TextColumns(spec or Spec(), resources)
    return _apply(
        [texts],
        lambda series: columns.band_keys(series[0], threshold, recall),
        polars.List(polars.UInt64),
    )


@check_arguments
def similarity(
    first: Any,
    second: Any,
    spec: Spec | None = None,
    *,
    resources: SpecResources = NO_RESOURCES,
) -> "Expr":
    """Returns an expression for the exact similarity of the two texts of each row.

    Args:
        first: Column of texts: its name, or an expression.
        second: Column of texts: its name, or an expression, also of one text for all rows.
        spec: Spec of the similarity. The default is `Spec()`.
        resources: The hash key and the data that the Spec refers to.

    Returns:
        An expression of Float64. Null for null.

    Raises:
        UsageError: If the Spec is of vectors.
    """
    columns = TextColumns(spec or Spec(), resources)
    return _apply([first, second], lambda series: columns.compare(*series), polars.Float64)


def _apply(
    columns: Sequence[Any], function: Callable[[list["Series"]], pa.Array], returned: Any
) -> "Expr":
    """Returns an expression that applies a function to columns, row by row."""
    expressions = []
    for column in columns:
        if not isinstance(column, str | polars.Expr):
            raise UsageError(
                f"{column!r} is not a column of Polars; give the name of a column or an expression"
            )
        expressions.append(polars.col(column) if isinstance(column, str) else column)

    def apply_to(series: list["Series"]) -> "Series":
        # A literal has one row, also beside a column without rows.
        rows = next((len(one) for one in series if len(one) != 1), 1)
        same_length = [one if len(one) == rows else one.new_from_index(0, rows) for one in series]
        return polars.Series(series[0].name, function(same_length)).cast(returned)

    return polars.map_batches(expressions, apply_to, returned, is_elementwise=True)
