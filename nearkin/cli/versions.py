"""The versions of nearkin, of Python and of the libraries that decide results and speed."""

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nearkin.runtime.cache_folder import user_folder
from nearkin.runtime.version import VERSION

LIBRARIES = ("numpy", "numba", "llvmlite", "pyarrow")
"""The libraries whose versions are shown. None of them is imported for that."""
MACHINE_CODE = ".nbc"
"""The suffix of the files in which Numba keeps machine code."""


def describe_versions() -> str:
    """Returns the versions in lines, of which the first is `nearkin VERSION`."""
    rows = {
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": f"{platform.system()} {platform.machine()}",
        **{name: _version_of(name) for name in LIBRARIES},
        "compiled kernels": describe_compiled_kernels(user_folder()),
    }
    width = max(map(len, rows))
    lines = [f"{name:<{width}}  {value}" for name, value in rows.items()]
    return "\n".join([f"nearkin {VERSION}", *lines, ""])


def describe_compiled_kernels(folder: Path | None) -> str:
    """Returns how much machine code is in the cache folder, of this version and of others."""
    if folder is None:
        return "not kept between processes, because neither HOME nor NEARKIN_CACHE_DIR is set"
    files = 0
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            if name.endswith(MACHINE_CODE):
                # Another process may replace the file meanwhile.
                with suppress(FileNotFoundError):
                    size += Path(parent, name).stat().st_size
                    files += 1
    if not files:
        return f"none in {folder}; the first run compiles them"
    return f"{files:,} in {folder} ({size / 1e6:,.1f} MB)"


def _version_of(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"
