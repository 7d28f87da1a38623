"""Tests of the threads that run kernels."""

from typing import Any

import pytest

import nearkin as nk
from nearkin.runtime.threads import ordered_map


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2"])
def test_numbers_of_threads_out_of_range_are_refused(workers: Any) -> None:
    for call in (
        lambda: list(ordered_map(str, [1, 2], workers)),
        lambda: nk.sketch(["a text"], workers=workers),
        lambda: nk.frequencies(["a text of four words"], workers=workers),
        lambda: nk.dedup(["a text"], workers=workers),
    ):
        with pytest.raises(nk.UsageError, match=r"must be at least 1|give a whole number"):
            call()
