"""The signature and the help of functions that take the parameters of a run by keyword.

A `TypedDict` tells type checkers which keywords a function takes. `help` and notebooks see only
`**parameters`, so they are shown the keywords here.
"""

import inspect
import re
import textwrap
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

from nearkin.engine.keywords import RunParameters
from nearkin.runtime.setting_names import flag_of
from nearkin.settings.setting import ADVANCED
from nearkin.settings.table import FIRST_KEYWORDS, KEYWORDS, SPEC_KEYWORDS

Function = TypeVar("Function", bound=Callable[..., Any])

COLLECTED = re.compile(r"^    \*\*further:.*?\n(?=\n)", re.MULTILINE | re.DOTALL)
"""The entry of a docstring for all keywords."""
OPTION = re.compile(r"(--[a-z][a-z-]*)(?: ([a-z]+))?")
"""An option that the help of a setting names, and the word after it."""
CODE = re.compile(r"`[^`]*`")
WIDTH = 100


def show_parameters(function: Function, **changed_defaults: object) -> Function:
    """Shows the keywords of a run in the signature and in the help of a function."""
    shown: Any = function
    signature = inspect.signature(function)
    named = [
        parameter.replace(default=default_of(name)) if name in FIRST_KEYWORDS else parameter
        for name, parameter in signature.parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    collected = collected_keywords()
    keywords = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=changed_defaults.get(name, default_of(name)),
            annotation=RunParameters.__annotations__[name],
        )
        for name in collected
    ]
    shown.__signature__ = signature.replace(parameters=[*named, *keywords])
    if function.__doc__ is not None:
        text = "".join(map(describe_keyword, collected))
        # Python 3.13 removes the indentation itself
        function.__doc__ = COLLECTED.sub(lambda _: text, inspect.cleandoc(function.__doc__))
    return function


def collected_keywords() -> list[str]:
    """Returns the keywords that a function collects, in the order of the table.

    Those that most users never need come last.
    """
    names = [name for name in KEYWORDS if name not in FIRST_KEYWORDS]
    return sorted(names, key=lambda name: KEYWORDS[name].setting.panel == ADVANCED)


def default_of(name: str) -> object:
    """Returns the default of a keyword. None stands for a value that follows from others."""
    declared = KEYWORDS[name]
    if name in SPEC_KEYWORDS:
        return None
    if declared.setting.keyword.startswith("Sequence"):
        return ()
    default: object = declared.default
    return str(default) if isinstance(default, StrEnum) else default


def describe_keyword(name: str) -> str:
    """Returns the entry of a keyword in the section of arguments of a docstring."""
    declared = KEYWORDS[name]
    setting = declared.setting
    text = setting.keyword_help or OPTION.sub(_name_keyword, setting.help)
    default = (
        setting.shown_default or default_of(name) or (name in SPEC_KEYWORDS and declared.default)
    )
    if default and "default" not in text:
        text = f"{text} Default: {default}."
    # code is not divided between lines
    text = CODE.sub(lambda code: code[0].replace(" ", "\0"), text)
    entry = textwrap.fill(
        f"{name}: {text}",
        WIDTH,
        initial_indent="    ",
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return entry.replace("\0", " ") + "\n"


def _name_keyword(option: re.Match[str]) -> str:
    """Returns the keyword of an option that a help text names, with its value if it has one."""
    flag, word = option.groups()
    name = NAMES_OF_OPTIONS.get(flag)
    if name is None or word is None:
        return option[0] if name is None else f"`{name}`"
    if word in KEYWORDS[name].setting.known_values():
        return f'`{name}="{word}"`'
    return f"`{name}` {word}"


NAMES_OF_OPTIONS = {flag_of(name): name for name in KEYWORDS}
