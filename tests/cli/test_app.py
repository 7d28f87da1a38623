"""The command line as a whole: what it loads before a command runs."""

import subprocess
import sys

LAZY_MODULES = ("numpy", "pyarrow", "numba", "concurrent.futures", "socket", "tempfile", "json")
LOADED_BY_NEARKIN = f"""
import sys
import typer.rich_utils

before = set(sys.modules)
import nearkin.cli.app

print(*sorted((set(sys.modules) - before).intersection({LAZY_MODULES})))
"""


def test_help_does_not_load_what_only_commands_need() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", LOADED_BY_NEARKIN], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []
