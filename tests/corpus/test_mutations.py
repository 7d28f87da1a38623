"""A damaged file of any format loses nothing without a word, and stops nothing."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.corpus.mutations import FORMATS

PIECE = 250
"""The number of mutations of a format in one test of the full form."""
LAST = 1000
"""The seed of the last mutation of each format in the full form."""


def mutate(names: list[str], seed: int, count: int) -> None:
    """Damages a file of each format, and fails with what went wrong."""
    command = [sys.executable, "-m", "tests.corpus.mutations", "--format", *names]
    done = subprocess.run(
        [*command, "--seed", str(seed), "--count", str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-4000:]}"


def test_damaged_files_lose_no_row_without_a_word(
    record_property: Callable[[str, object], None],
) -> None:
    """Kept rows are those of the format's own reader, and the process neither crashes nor hangs."""
    record_property("subject", "all formats")
    record_property("attempts", len(FORMATS))
    mutate(list(FORMATS), seed=0, count=1)


# all formats once, before the first one again: a run that is interrupted has tried each of them
@pytest.mark.full
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", range(1, LAST + 1, PIECE))
def test_many_damaged_files_lose_no_row_without_a_word(
    seed: int, name: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("subject", name)
    record_property("attempts", PIECE)
    mutate([name], seed, PIECE)
