"""Tests of the modules that a command loads."""

import gc
import subprocess
import sys

import pytest

from nearkin.runtime.loading import UNUSED_BY_KERNELS, paused_collector

ONLY_WHERE_NEEDED = ("fsspec", "psutil", "rapidfuzz", "pyspark")
"""Libraries that a run over local files has no use for."""

LOAD = f"""
import sys
import nearkin.cli.app
import nearkin.runs.dedup
print([name for name in {ONLY_WHERE_NEEDED!r} if name in sys.modules])
"""

LOAD_PAUSED = """
import gc
from nearkin.runtime.loading import paused_collector
collections = []
gc.callbacks.append(lambda phase, facts: collections.append(phase))
with paused_collector():
    import nearkin.runs.dedup
print(collections, gc.isenabled(), gc.get_freeze_count() > 100_000)
"""


def output_of(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


def test_a_run_over_local_files_loads_no_library_for_other_ones() -> None:
    assert output_of(LOAD) == "[]"


def test_the_collector_is_paused_while_a_command_loads_its_libraries() -> None:
    assert output_of(LOAD_PAUSED) == "[] True True"


def test_the_collector_is_left_alone_in_a_process_that_has_loaded_them() -> None:
    import numba  # noqa: F401

    frozen = gc.get_freeze_count()
    with paused_collector():
        assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


@pytest.mark.parametrize("library", UNUSED_BY_KERNELS)
@pytest.mark.parametrize("imports", ["", "import {}"])
def test_a_library_is_hidden_from_numba_only_if_nobody_loaded_it_before(
    library: str, imports: str
) -> None:
    code = (
        f"import sys\n{imports.format(library)}\nloaded = {library!r} in sys.modules\n"
        "from nearkin.runtime.loading import hide_libraries_from_numba\n"
        "hide_libraries_from_numba()\nimport numba\n"
        f"print(loaded == ({library!r} in sys.modules))"
    )
    assert output_of(code) == "True"
