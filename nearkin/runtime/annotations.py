"""The types in the annotations of parameters and fields."""

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin


def plain_type(annotation: Any) -> Any:
    """Returns an annotation without what was added to its type.

    Examples:
        >>> plain_type(Annotated[int | None, "at least 1"]), plain_type(str)
        (int | None, <class 'str'>)
    """
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def is_optional(kind: object) -> bool:
    """Returns whether None is of a type."""
    return get_origin(kind) in (Union, UnionType) and type(None) in get_args(kind)
