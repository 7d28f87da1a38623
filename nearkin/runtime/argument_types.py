"""The check of arguments and fields against their annotations.

Python does not check annotations, so that a text where a number is expected fails deep inside, or
is taken as it is. The public functions and settings are checked with what is in this module. It
raises one kind of error with one form of message.
"""

import builtins
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, TypeVar, Union, Unpack, get_args, get_origin

import numpy as np

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean

Function = TypeVar("Function", bound=Callable[..., Any])

MAX_SHOWN = 60
"""The number of characters of a value that a message shows."""
LARGEST = 10**300
"""The largest whole number that is accepted. Larger ones have no place in a float."""
PROTOCOLS = {"Store": ("claim", "apply", "entries", "postings", "close")}
"""Protocols that are imported for type checkers only, with methods that tell who implements them.
"""
SECRETS = frozenset({"key", "secret", "token"})
"""The names of arguments whose values no message shows."""
DESCRIPTIONS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    bytes: "bytes",
    NoneType: "None",
    Path: "a Path",
    np.ndarray: "an array of numbers",
    Callable: "a function",
}
"""How messages describe types. Other classes are described by their names."""
PLURALS: dict[Any, str] = {Any: "values", object: "values"}
"""How messages describe the elements of lists and the values of mappings."""


class _MismatchError(Exception):
    """A signal: a value is not of the expected type."""


def describe_as(kind: Any, description: str, plural: str) -> None:
    """Sets how messages describe a type."""
    DESCRIPTIONS[kind] = description
    PLURALS[kind] = plural


def check_arguments(function: Function) -> Function:
    """Makes a function refuse arguments that do not have the annotated types.

    Numbers of numpy become numbers of Python. An argument that is its own default is accepted. A
    parameter whose annotation is `Any` or a text alias is not checked, because its values need a
    check of their own.

    Examples:
        >>> @check_arguments
        ... def repeat(text: str, times: int = 2) -> str:
        ...     return text * times
        >>> repeat("ab", np.int32(3))
        'ababab'
        >>> repeat("ab", times="3")
        Traceback (most recent call last):
        ...
        nearkin.errors.UsageError: times='3' is of type str; give a whole number
    """

    @wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        types = _parameter_types(function)
        # Python says if these are too many
        for place, (value, plain) in enumerate(zip(arguments, types.plain_by_place, strict=False)):
            if plain is not None and type(value) not in plain:
                converted = types.check(types.positional[place], value)
                arguments = (*arguments[:place], converted, *arguments[place + 1 :])
        for name, value in keywords.items():
            keywords[name] = types.check(name, value)
        return function(*arguments, **keywords)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def checked_coroutine(*arguments: Any, **keywords: Any) -> Any:
            return await checked(*arguments, **keywords)

        return checked_coroutine  # type: ignore[return-value]
    return checked  # type: ignore[return-value]


def check_fields(instance: Any) -> None:
    """Checks the fields of a dataclass against their annotations.

    Numbers of numpy become numbers of Python, and lists become tuples where a tuple is annotated.
    A field that has its default is accepted.
    """
    form: type = type(instance)
    for name, kind, default in _field_types(form):
        value = getattr(instance, name)
        if value is default:
            continue
        converted = check_type(name, value, kind)
        if converted is not value:
            object.__setattr__(instance, name, converted)


def require_seed(name: str, seed: int) -> None:
    """Requires a random seed, or a seed of hashes."""
    if not 0 <= seed < 2**64:
        raise UsageError(
            f"{name_setting(name, seed)} is not an unsigned 64-bit number; give 0 to {2**64 - 1}"
        )


def check_type(name: str, value: Any, kind: Any) -> Any:
    """Returns a value if it is of a type."""
    try:
        return _convert_value(value, kind)
    except _MismatchError:
        expected = describe_type(kind)
    if isinstance(value, float) and math.isnan(value):
        raise UsageError(f"{name}=nan is not a number; give {expected}")
    if isinstance(value, Integral) and abs(int(value)) > LARGEST:
        raise UsageError(f"{name} is a number of more than 300 digits; give a smaller one")
    shown = f"{name}="
    if name not in SECRETS and not isinstance(value, bytes | bytearray | memoryview):
        text = _shorten_value(value)
        shown = f"{name}={text}" if text else shown
    raise UsageError(f"{shown} is of type {type(value).__name__}; give {expected}")


def describe_type(kind: Any) -> str:
    """Returns how a message describes a type.

    Examples:
        >>> describe_type(str | Sequence[str] | None)
        'a text, a list of texts or None'
        >>> describe_type(Sequence[str | Path]), describe_type(Mapping[str, Any])
        ('a list of texts or Paths', 'a mapping of texts to values')
        >>> describe_type(Sequence[Sequence[float]])
        'a list of lists of numbers'
    """
    if kind in DESCRIPTIONS:
        return DESCRIPTIONS[kind]
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        described = list(dict.fromkeys(describe_type(option) for option in get_args(kind)))
        return " or ".join([", ".join(described[:-1]), described[-1]])
    if origin is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if origin in (Sequence, list, tuple, Iterable):
        elements = _describe_plural(get_args(kind)[0])
        return "a list" if elements is None else f"a list of {elements}"
    if origin is Callable:
        return DESCRIPTIONS[Callable]
    if origin in (Mapping, dict):
        keys, values = (_describe_plural(part) or "values" for part in get_args(kind))
        return f"a mapping of {keys} to {values}"
    name = kind.__forward_arg__ if isinstance(kind, ForwardRef) else getattr(kind, "__name__", "")
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}" if name else "another value"


def _describe_plural(kind: Any) -> str | None:
    """Returns how a message describes several values of a type, or None without a short form."""
    if kind in PLURALS:
        return PLURALS[kind]
    if get_origin(kind) in (Union, UnionType):
        options = [_describe_plural(option) for option in get_args(kind)]
        plurals = [option for option in options if option is not None]
        return " or ".join(plurals) if len(plurals) == len(options) else None
    element = describe_type(kind)
    if not element.startswith("a ") or " or " in element:
        return None
    noun, of, content = element.removeprefix("a ").partition(" of ")
    return f"{noun}s{of}{content}"


def _shorten_value(value: object) -> str:
    """Returns a value as a message shows it, or an empty text if it has no short form."""
    if not isinstance(value, str | Real | list | tuple | dict | NoneType | Path):
        return ""
    if isinstance(value, str | list | tuple) and len(value) > MAX_SHOWN:
        # a list of documents is not written out as a whole
        value = value[: MAX_SHOWN + 1]
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        # lists inside many lists, or whole numbers of thousands of digits
        return ""
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def _convert_value(value: Any, kind: Any) -> Any:
    """Returns a value as a type."""
    if kind in _CONVERSIONS:
        return _CONVERSIONS[kind](value)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _convert_to_any_of(value, get_args(kind))
    if origin in (Sequence, list, tuple):
        return _convert_elements(value, kind)
    if origin in (Mapping, dict):
        return _convert_entries(value, kind)
    if origin is Literal:
        matches = value in get_args(kind)
    elif isinstance(kind, ForwardRef):
        # The class is imported for type checkers only. It is loaded if the value is one of it.
        name = kind.__forward_arg__
        matches = any(base.__name__ == name for base in type(value).__mro__)
        if name in PROTOCOLS:
            # users implement it without deriving from it
            matches = all(callable(getattr(value, method, None)) for method in PROTOCOLS[name])
    elif origin is Iterable:
        matches = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    elif isinstance(origin or kind, type):
        matches = isinstance(value, origin or kind)
    else:
        matches = True
    if not matches:
        raise _MismatchError
    return value


def _convert_to_any_of(value: Any, kinds: Sequence[Any]) -> Any:
    """Returns a value as the first of several types that it is of."""
    for kind in kinds:
        try:
            return _convert_value(value, kind)
        except _MismatchError:
            continue
    raise _MismatchError


def _convert_elements(value: Any, kind: Any) -> Any:
    """Returns a sequence whose elements are of a type. A tuple is returned for a tuple."""
    is_sequence = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    if not is_sequence or isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        raise _MismatchError
    kinds = get_args(kind)
    if get_origin(kind) is tuple and kinds[-1] is not Ellipsis:
        if len(kinds) != len(value):
            raise _MismatchError
        return tuple(map(_convert_value, value, kinds))
    if not set(map(type, value)) <= _plain_types(kinds[0]):
        for element in value:
            _convert_value(element, kinds[0])
    return tuple(value) if get_origin(kind) is tuple else value


def _convert_entries(value: Any, kind: Any) -> Any:
    """Returns a mapping whose keys and values are of a type."""
    if not isinstance(value, get_origin(kind)):
        raise _MismatchError
    of_keys, of_values = get_args(kind)
    for entries, expected in ((value.keys(), of_keys), (value.values(), of_values)):
        if not set(map(type, entries)) <= _plain_types(expected):
            for entry in entries:
                _convert_value(entry, expected)
    return value


@cache
def _plain_types(kind: Any) -> frozenset[type]:
    """Returns the classes whose instances are of a type, without a look at the values.

    A number that is not finite is one of them: who takes many numbers says which one is wrong.
    """
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    plain = {option for option in options if isinstance(option, type)}
    return frozenset(plain | ({int} if float in plain else set()))


def _to_array(value: Any) -> np.ndarray:
    """Returns an array of numbers, which may be given as a list."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise _MismatchError from error
    if (array.dtype.kind not in "uif" and array.size) or not array.ndim:
        raise _MismatchError
    return array


def _to_bool(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise _MismatchError
    return bool(value)


def _to_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or abs(int(value)) > LARGEST:
        raise _MismatchError
    # A subclass of int, such as a memory bound of the machine, keeps what it says besides.
    return value if isinstance(value, int) else int(value)


def _to_float(value: Any) -> float:
    """Returns a number. A whole number stays one."""
    if isinstance(value, Integral):
        return _to_int(value)
    if not isinstance(value, Real) or math.isnan(value):
        raise _MismatchError
    return float(value)


_CONVERSIONS: dict[Any, Callable[[Any], Any]] = {
    bool: _to_bool,
    int: _to_int,
    float: _to_float,
    np.ndarray: _to_array,
    Any: lambda value: value,
    object: lambda value: value,
}
"""The conversions of values to types that are not plain instances of a class."""


@dataclass(frozen=True)
class _ParameterTypes:
    """The types of the parameters of a function.

    Attributes:
        positional: The names of the parameters that can be given by place, in order.
        kinds: The annotated types, by name. Parameters that are not checked are left out.
        plain: The classes whose instances are accepted as they are, by name.
        plain_by_place: The same for the positional parameters; None for one that is not checked.
        defaults: The defaults, by name.
        collected: The names that a keyword may have, or None if the function has no `**keywords`
            or takes any.
    """

    positional: tuple[str, ...]
    kinds: Mapping[str, Any]
    plain: Mapping[str, frozenset[type]]
    plain_by_place: tuple[frozenset[type] | None, ...]
    defaults: Mapping[str, Any]
    collected: tuple[str, ...] | None

    def check(self, name: str, value: Any) -> Any:
        """Returns an argument if it is of its type."""
        if type(value) in self.plain.get(name, ()):
            return value
        kind = self.kinds.get(name, Any)
        if kind is Any:
            if self.collected is not None and name not in self.defaults:
                raise UsageError(
                    f"unknown setting {name!r}{did_you_mean(name, self.collected)}; valid settings "
                    f"are {', '.join(self.collected)}"
                )
            return value
        if value is self.defaults.get(name, _MISSING):
            return value
        return check_type(name, value, kind)


_MISSING = object()


@cache
def _parameter_types(function: Callable[..., Any]) -> _ParameterTypes:
    """Returns the types of the parameters of a function."""
    names = _LazyNames(getattr(function, "__globals__"))  # noqa: B009
    positional: list[str] = []
    kinds: dict[str, object] = {}
    defaults: dict[str, object] = {}
    collected: tuple[str, ...] | None = None
    for name, parameter in inspect.signature(function).parameters.items():
        kind = _evaluate(parameter.annotation, names)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            options = get_args(kind)[0].__annotations__ if get_origin(kind) is Unpack else {}
            kinds |= {option: _evaluate(kind, names) for option, kind in options.items()}
            optional = (
                name for name, value in defaults.items() if value is not inspect.Parameter.empty
            )
            collected = (*optional, *options) if options else None
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        defaults[name] = parameter.default
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            positional.append(name)
        if kind is not inspect.Parameter.empty and not isinstance(kind, str):
            kinds[name] = kind
    # a single number may be nan or too large
    plain = {name: _plain_types(kind) - {float, int} for name, kind in kinds.items()}
    return _ParameterTypes(
        positional=tuple(positional),
        kinds=kinds,
        plain=plain,
        plain_by_place=tuple(
            None if kinds.get(name, Any) is Any else plain[name] for name in positional
        ),
        defaults=defaults,
        collected=collected,
    )


@cache
def _field_types(form: type) -> tuple[tuple[str, Any, Any], ...]:
    """Returns the name, the type and the default of each field of a dataclass."""
    names = _LazyNames(vars(inspect.getmodule(form)))
    return tuple(
        (declared.name, kind, declared.default)
        for declared in fields(form)
        if not isinstance(kind := _evaluate(declared.type, names), str)
    )


def _evaluate(annotation: Any, names: "_LazyNames") -> Any:
    """Returns the type of an annotation, which can be a text, or have facts beside the type."""
    kind = eval(annotation, {}, names) if isinstance(annotation, str) else annotation
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


class _LazyNames(Mapping[str, Any]):
    """The names that an annotation can use. A class that only type checkers import has its name."""

    def __init__(self, module: Mapping[str, Any]) -> None:
        self._module = module

    def __getitem__(self, name: str) -> Any:
        if name in self._module:
            return self._module[name]
        return getattr(builtins, name, None) or ForwardRef(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._module)

    def __len__(self) -> int:
        return len(self._module)
