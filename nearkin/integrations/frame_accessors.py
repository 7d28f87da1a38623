"""Registration of `frame.nearkin` for frames of pandas and Polars.

It costs nothing: the methods are imported at their first use.
"""

import sys
from importlib import import_module
from typing import Any

ACCESSOR = "nearkin"


def register_loaded_libraries() -> None:
    """Registers the methods of the libraries of data frames that the process has imported."""
    for name, register in (("pandas", register_pandas), ("polars", register_polars)):
        # A library that is being imported has no frames yet.
        if hasattr(sys.modules.get(name), "DataFrame"):
            register(sys.modules[name])


def register_pandas(pandas: Any) -> None:
    """Adds `frame.nearkin` to the frames of pandas, unless they have it."""
    if not hasattr(pandas.DataFrame, ACCESSOR):
        pandas.api.extensions.register_dataframe_accessor(ACCESSOR)(_pandas_methods)


def register_polars(polars: Any) -> None:
    """Adds `frame.nearkin` to the frames of Polars, unless they have it."""
    if not hasattr(polars.DataFrame, ACCESSOR):
        polars.api.register_dataframe_namespace(ACCESSOR)(_polars_methods)


def _pandas_methods(frame: Any) -> Any:
    return import_module("nearkin.pandas").PandasMethods(frame)


def _polars_methods(frame: Any) -> Any:
    return import_module("nearkin.polars").PolarsMethods(frame)
