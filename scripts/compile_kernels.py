"""Compiles the kernels of nearkin into the package, for the levels of this kind of processor.

Run: python scripts/compile_kernels.py [LEVEL ...]

The build of a wheel and that of the image run it. Machine code for a level is the same on every
processor, so a level that this one does not have can be compiled as well: nothing is run.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zlib
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
CHILD = "NEARKIN_COMPILED_LEVEL"
"""The environment variable that makes this script compile one level. Numba reads the names of
processors when it is imported, so each level needs a process of its own."""


def compile_level(name: str) -> None:
    """Compiles the kernels of the list, and writes them into the folder of a level."""
    from numba.core.serialize import dumps

    from nearkin.cli.progress_lines import PlainProgress
    from nearkin.runtime.installed_code import CODE_FOLDER, name_file
    from nearkin.runtime.jit import source_hash
    from nearkin.runtime.kernel_list import list_kernels
    from nearkin.runtime.warm_up import warm_up

    progress = PlainProgress(sys.stderr)
    warm_up(progress=progress)
    progress.close()
    folder = CODE_FOLDER / f"{name}-{source_hash()}"
    folder.mkdir()
    for kernel in list_kernels():
        cache = kernel.dispatcher._cache
        key = cache._index_key(kernel.signature, kernel.dispatcher.targetctx.codegen())
        code = dumps(cache._cache_file.load(key))
        path = folder / name_file(kernel.dispatcher.py_func, kernel.signature)
        path.write_bytes(zlib.compress(code, 9))
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder.relative_to(ROOT)}: {len(list_kernels())} kernels, {size / 1e6:.1f} MB")


def main() -> None:
    """Compiles all levels of this kind of processor, or those that are given."""
    from nearkin.cli.versions import COMPILERS, VERSIONS
    from nearkin.runtime.installed_code import CODE_FOLDER, LEVELS

    levels = {one.name: one for one in LEVELS if one.machine == platform.machine().lower()}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("levels", nargs="*", metavar="LEVEL", help=", ".join(levels))
    names = parser.parse_args().levels or list(levels)
    shutil.rmtree(CODE_FOLDER, ignore_errors=True)
    CODE_FOLDER.mkdir()
    versions = {name: version(name) for name in COMPILERS}
    (CODE_FOLDER / VERSIONS).write_text(json.dumps(versions))
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            variables = {
                CHILD: name,
                "NUMBA_CPU_NAME": levels[name].processor,
                "NUMBA_CPU_FEATURES": "",
                "NEARKIN_CACHE_DIR": cache,
            }
            command = [sys.executable, __file__]
            subprocess.run(command, env={**os.environ, **variables}, check=True)


if __name__ == "__main__":
    if CHILD in os.environ:
        compile_level(os.environ[CHILD])
    else:
        main()
