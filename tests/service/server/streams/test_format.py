"""Tests of the time within which a line or a message of a stream must be complete."""

import pytest

from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.streams.format import MIN_BYTES_PER_SECOND, ProgressDeadline


@pytest.mark.parametrize("size", [0, 1, MIN_BYTES_PER_SECOND, 60 * MIN_BYTES_PER_SECOND])
def test_larger_lines_have_more_time(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 500.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    deadline = ProgressDeadline(10.0)
    now = 500.0 + 10.0 + size / MIN_BYTES_PER_SECOND
    deadline.check(size)
    now += 0.001
    with pytest.raises(ProblemError, match=f"only {size:,} bytes .* within 10 s") as late:
        deadline.check(size)
    assert late.value.code == "timeout"
    deadline.restart()
    deadline.check(0)
