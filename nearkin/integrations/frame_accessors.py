"""Registration of `frame.nearkin` for frames of pandas and Polars."""

from collections.abc import Callable
from typing import Any

ACCESSOR = "nearkin"


def register_pandas(pandas: Any, methods: Callable[[Any], Any]) -> None:
    """Adds `frame.nearkin` to the frames of pandas, unless they have it."""
    if not hasattr(pandas.DataFrame, ACCESSOR):
        pandas.api.extensions.register_dataframe_accessor(ACCESSOR)(methods)


def register_polars(polars: Any, methods: Callable[[Any], Any]) -> None:
    """Adds `frame.nearkin` to the frames of Polars, unless they have it."""
    if not hasattr(polars.DataFrame, ACCESSOR):
        polars.api.register_dataframe_namespace(ACCESSOR)(methods)
