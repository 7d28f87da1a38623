"""Tests of the threads that run kernels."""

from typing import Any

import pytest

import nearkin as nk
from nearkin.runtime.threads import beside, ordered_map


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2"])
def test_numbers_of_threads_out_of_range_are_refused(workers: Any) -> None:
    for call in (
        lambda: list(ordered_map(str, [1, 2], workers)),
        lambda: nk.sketch(["a text"], workers=workers),
        lambda: nk.frequencies(["a text of four words"], workers=workers),
        lambda: nk.dedup(["a text"], workers=workers),
    ):
        with pytest.raises(nk.UsageError, match=r"it must be at least 1|give a whole number"):
            call()


def fail() -> None:
    raise nk.NearkinError("failed")


@pytest.mark.parametrize("workers", [1, 2])
def test_work_beside_a_block_is_done_and_its_errors_are_raised(workers: int) -> None:
    done = []
    with beside(lambda: done.append("beside"), workers):
        done.append("body")
    assert sorted(done) == ["beside", "body"]
    with pytest.raises(nk.NearkinError, match="failed"), beside(fail, workers):
        done.append("body")
    assert len(done) == 3
