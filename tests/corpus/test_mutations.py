"""A damaged file of any format loses nothing without a word, and stops nothing."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.corpus.mutations import FORMATS

COUNTS = {False: 1, True: 1000}
"""The number of mutations of each format in the quick and in the full form."""


@pytest.mark.parametrize("half", [0, 1])
def test_damaged_files_lose_no_row_without_a_word(
    half: int, full: bool, record_property: Callable[[str, object], None]
) -> None:
    """Kept rows are those of the format's own reader, and the process neither crashes nor hangs."""
    names = list(FORMATS)[half::2]
    record_property("attempts", COUNTS[full] * len(names))
    command = [sys.executable, "-m", "tests.corpus.mutations", "--count", str(COUNTS[full])]
    done = subprocess.run(
        [*command, "--format", *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
