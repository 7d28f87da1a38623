"""Machine code of kernels that is installed with nearkin, so that nobody waits for its compilation.

Wheels of a release and the image contain it, a clone does not. `scripts/compile_kernels.py` writes
a folder for each level of processors. The folder is named by the level and by the hash of sources
and versions, so that code of other kernels, of another Numba or of another Python is not found.
"""

import hashlib
import platform
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import binding
from numba.core import config, types

PACKAGE = Path(__file__).parents[1]
CODE_FOLDER = PACKAGE / "compiled_kernels"
DIGEST_BYTES = 10


class Level(NamedTuple):
    """A level of processors: those that can run the machine code which is compiled for it."""

    name: str
    machine: str
    """The kind of processor, as `platform.machine` names it in lower case."""
    processor: str
    """The name for which LLVM compiles."""
    features: frozenset[str]
    """The features that a processor must have, by their names in LLVM."""


V2 = frozenset(("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"))
V3 = V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
LEVELS = (
    Level("x86-64-v3", "x86_64", "x86-64-v3", V3),
    # NEON belongs to every processor of ARM with 64 bits
    Level("armv8", "aarch64", "generic", frozenset()),
    Level("armv8", "arm64", "generic", frozenset()),
)
"""The levels that are compiled, the best first."""


@cache
def find_installed_code(source_hash: str) -> Path | None:
    """Returns the folder of the best machine code that this processor can run, or None.

    If an environment variable of Numba names another processor, installed code does not fit, and
    kernels are compiled for that one.
    """
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return None
    present = {name for name, has in binding.get_host_cpu_features().items() if has}
    for level in LEVELS:
        folder = CODE_FOLDER / f"{level.name}-{source_hash}"
        is_level = platform.machine().lower() == level.machine and level.features <= present
        if is_level and folder.is_dir():
            return folder
    return None


def read_machine_code(
    folder: Path | None, function: Callable[..., Any], signature: Sequence[types.Type]
) -> bytes | None:
    """Returns the stored machine code of a kernel for types of arguments, or None.

    A damaged file counts as missing: the compressed data end with a checksum.
    """
    if folder is None:
        return None
    try:
        return zlib.decompress((folder / name_file(function, signature)).read_bytes())
    except (OSError, zlib.error):
        return None


def name_file(function: Callable[..., Any], signature: Sequence[types.Type]) -> str:
    """Returns the name of the file with the machine code of a kernel for types of arguments."""
    kernel = f"{function.__module__}.{function.__qualname__}"
    unit = f"{kernel}({describe_types(signature)})"
    digest = hashlib.blake2b(unit.encode(), digest_size=DIGEST_BYTES).hexdigest()
    return f"{function.__name__}-{digest}.z"


def describe_types(signature: Sequence[types.Type]) -> str:
    """Returns types of arguments as an expression, which `kernel_list` reads.

    Examples:
        >>> describe_types([types.uint32, types.Array(types.uint8, 1, "C", readonly=True)])
        "uint32, readonly(uint8, 1, 'C')"
    """
    return ", ".join(map(_describe_type, signature))


def _describe_type(type_: types.Type) -> str:
    if isinstance(type_, types.Array) and type_.aligned:
        kind = "array" if type_.mutable else "readonly"
        return f"{kind}({type_.dtype}, {type_.ndim}, {type_.layout!r})"
    if isinstance(type_, types.BaseNamedTuple):
        named_tuple = type_.instance_class
        path = f"{named_tuple.__module__}.{named_tuple.__qualname__}"
        return f"{path}({describe_types(list(type_))})"
    if isinstance(type_, types.BaseTuple):
        return f"tuple({describe_types(list(type_))})"
    return str(type_)
