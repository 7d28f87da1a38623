"""The versions of nearkin, of Python and of the libraries that decide results and speed."""

import json
import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nearkin.runtime.cache_folder import user_folder
from nearkin.runtime.version import VERSION

LIBRARIES = ("numpy", "numba", "llvmlite", "pyarrow")
"""The libraries whose versions are shown. None of them is imported for that."""
COMPILERS = ("numba", "llvmlite")
"""The libraries whose versions machine code depends on."""
VERSIONS = "versions.json"
"""The file with the versions of the compilers of installed kernels."""
INSTALLED = Path(__file__).parents[1] / "compiled_kernels"
"""The folder with machine code that is installed with nearkin. A clone does not have it."""
MACHINE_CODE = ".nbc"
"""The suffix of the files in which Numba keeps machine code."""


def describe_versions() -> str:
    """Returns the versions in lines, of which the first is `nearkin VERSION`."""
    rows = {
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": f"{platform.system()} {platform.machine()}",
        **{name: _version_of(name) for name in LIBRARIES},
        "installed kernels": describe_installed_kernels(INSTALLED),
        "compiled kernels": describe_compiled_kernels(user_folder()),
    }
    width = max(map(len, rows))
    lines = [f"{name:<{width}}  {value}" for name, value in rows.items()]
    return "\n".join([f"nearkin {VERSION}", *lines, ""])


def describe_installed_kernels(folder: Path) -> str:
    """Returns the levels of processors for which kernels are installed, or why they are not used.

    Args:
        folder: A folder with a folder for each level, and the versions of the compilers.
    """
    versions = folder / VERSIONS
    if not versions.exists():
        return "none; releases and the image contain them"
    required = json.loads(versions.read_bytes())
    levels = ", ".join(sorted(path.name.rpartition("-")[0] for path in folder.glob("*-*/")))
    others = [name for name in COMPILERS if _version_of(name) != required[name]]
    if others:
        needed = " and ".join(f"{name} {required[name]}" for name in others)
        return f"{levels}, not used, because they need {needed}"
    return levels


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
