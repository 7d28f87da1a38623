"""The signature and the help of functions that take the parameters of a run by keyword.

A `TypedDict` tells type checkers which keywords a function takes. `help` and notebooks see only
`**parameters`, so they are shown the keywords here.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from typing import Any, TypeVar

from nearkin.engine.options import RunOptions
from nearkin.engine.parameters import ReadKeywords, RunParameters, SpecOptionKeywords

Function = TypeVar("Function", bound=Callable[..., Any])

ENTRY = re.compile(r"^    (\w+): ", re.MULTILINE)
"""The beginning of an entry of a section of a docstring."""
COLLECTED = re.compile(r"^    \*\*parameters:.*?\n(?=\n)", re.MULTILINE | re.DOTALL)
"""The entry of a docstring for all keywords."""
DEFAULTS = {
    "on_error": "quarantine",
    "hidden": False,
    "follow_links": False,
    "main_text": False,
    "lines": False,
    "include": (),
    "exclude": (),
}


def show_parameters(function: Function, **changed_defaults: object) -> Function:
    """Shows the keywords of a run in the signature and in the help of a function."""
    shown: Any = function
    signature = inspect.signature(function)
    further_names = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    defaults = _default_values() | changed_defaults
    keywords = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(name),
            annotation=annotation,
        )
        for name, annotation in RunParameters.__annotations__.items()
    ]
    shown.__signature__ = signature.replace(parameters=[*further_names, *keywords])
    if function.__doc__ is not None:
        entries = _collect_entries()
        text = "".join(entries[name] for name in RunParameters.__annotations__)
        # Python 3.13 removes the indentation itself
        function.__doc__ = COLLECTED.sub(lambda _: text, inspect.cleandoc(function.__doc__))
    return function


def _default_values() -> dict[str, object]:
    """Returns the defaults of parameters that are not None."""
    values = {option.name: getattr(RunOptions, option.name, None) for option in fields(RunOptions)}
    values |= DEFAULTS
    return {
        name: str(value) if isinstance(value, StrEnum) else value
        for name, value in values.items()
        if name != "spec"
    }


def _collect_entries() -> dict[str, str]:
    """Returns the entries of docstrings for all parameters, as part of a section of arguments."""
    entries: dict[str, str] = {}
    for documented in (RunOptions, SpecOptionKeywords, ReadKeywords, RunParameters):
        docstring = inspect.getdoc(documented) or ""
        section = docstring.partition("Attributes:\n")[2].partition("\n\n")[0]
        starts = [match.start() for match in ENTRY.finditer(section)]
        for start, end in zip(starts, [*starts[1:], len(section)], strict=True):
            entry = section[start:end].rstrip("\n")
            name = entry.strip().partition(":")[0]
            entries[name] = f"{entry}\n"
    return entries
