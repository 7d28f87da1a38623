"""Methods of pandas frames: `import nearkin.pandas` adds `frame.nearkin`.

`import nearkin` does so, too, before or after `import pandas`. It needs the extra `pandas`.

Examples:
    >>> import pandas
    >>> import nearkin.pandas
    >>> frame = pandas.DataFrame({"body": ["one two three four", "One two three four!", "five"]})
    >>> frame.nearkin.dedup("body").index.tolist()
    [1, 2]
    >>> frame.nearkin.cluster_ids("body").tolist()
    ['0000000001', '0000000001', '0000000002']
"""

from typing import Any

import pyarrow as pa

from nearkin.errors import MissingExtraError
from nearkin.integrations.frame_accessors import register_pandas
from nearkin.integrations.frame_methods import FrameMethods
from nearkin.runs.results import ResultTable

try:
    import pandas
except ImportError as error:
    raise MissingExtraError.for_extra("nearkin.pandas requires pandas", "pandas") from error


class PandasMethods(FrameMethods[Any, Any]):
    """The methods of a pandas frame, whose rows keep their index."""

    def _to_frame(self, table: ResultTable) -> Any:
        return table.to_pandas()

    def _to_series(self, column: pa.ChunkedArray) -> Any:
        return pandas.Series(column.to_pandas().to_numpy(), self._frame.index, name="cluster")


register_pandas(pandas, PandasMethods)
