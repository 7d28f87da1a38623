"""The kernels of the package."""

from importlib import import_module
from pathlib import Path
from typing import Any

from nearkin.runtime.jit import PACKAGE


def files_of_kernels() -> list[Path]:
    """Returns the files that compile functions."""
    return [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if b"from nearkin.runtime.jit import" in path.read_bytes()
    ]


def all_kernels() -> list[Any]:
    """Returns the functions that Numba compiles, inlined ones included."""
    kernels = []
    for path in files_of_kernels():
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for value in vars(import_module(name)).values():
            if hasattr(value, "py_func") and value.py_func.__module__ == name:
                kernels.append(value)
    return kernels
