"""The list of the kernels that Python calls, with the types of their arguments.

It says what is compiled before anybody waits for it: for wheels and for the image, and by
`nearkin warm-up`. A kernel that is called with other types is compiled at its first call.
`scripts/list_kernels.py` writes the list from runs of all kinds.
"""

import ast
import json
from collections.abc import Iterable
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from numba.core import types

LIST = Path(__file__).with_name("kernels.json")
ALL = "all"
USES = (ALL, "dedup", "index")
"""The purposes for which kernels are prepared: everything, runs over files, or an online index."""


class ListedKernel:
    """A kernel of the list, with the types of the arguments of one call.

    Attributes:
        name: The path of its module, and its name.
        types: Its types, as `describe_types` writes them.
    """

    def __init__(self, name: str, types: str) -> None:
        self.name = name
        self.types = types

    @cached_property
    def dispatcher(self) -> Any:
        """The function that Numba compiles."""
        module, _, function = self.name.rpartition(".")
        return getattr(import_module(module), function)

    @cached_property
    def signature(self) -> tuple[types.Type, ...]:
        """The types of Numba."""
        return parse_types(self.types)

    @property
    def is_compiled(self) -> bool:
        """True if its machine code is installed, in the cache, or loaded."""
        dispatcher = self.dispatcher
        return self.signature in dispatcher.overloads or dispatcher._cache.has_overload(
            self.signature, dispatcher.targetctx
        )

    def load(self) -> None:
        """Loads its machine code, or compiles it."""
        self.dispatcher.compile(self.signature)


def list_kernels(use: str = ALL) -> list[ListedKernel]:
    """Returns the kernels of the list.

    Args:
        use: What they are for: one of `USES`.
    """
    content: dict[str, dict[str, list[str]]] = json.loads(LIST.read_bytes())
    return [
        ListedKernel(name, described)
        for name, calls in content.items()
        for described, uses in calls.items()
        if use == ALL or use in uses
    ]


def write_list(kernels: Iterable[tuple[str, str, str]]) -> None:
    """Writes the list.

    Args:
        kernels: The name of each kernel, its types, and what it is for.
    """
    content: dict[str, dict[str, list[str]]] = {}
    for name, described, use in sorted(set(kernels)):
        content.setdefault(name, {}).setdefault(described, []).append(use)
    LIST.write_text(json.dumps(content, indent=1) + "\n")


def parse_types(described: str) -> tuple[types.Type, ...]:
    """Returns the types that `describe_types` has written.

    Examples:
        >>> parse_types("uint32, readonly(uint8, 1, 'C')")
        (uint32, Array(uint8, 1, 'C', True, aligned=True))
    """
    expression = ast.parse(f"({described},)", mode="eval").body
    assert isinstance(expression, ast.Tuple)
    return tuple(map(_build_type, expression.elts))


def _build_type(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return getattr(types, node.id)
    assert isinstance(node, ast.Call)
    parts = list(map(_build_type, node.args))
    module, _, name = ast.unparse(node.func).rpartition(".")
    if module:
        return types.BaseTuple.from_types(parts, getattr(import_module(module), name))
    if name == "tuple":
        return types.Tuple(parts)
    dtype, dimensions, layout = parts
    return types.Array(dtype, dimensions, layout, readonly=name == "readonly")
