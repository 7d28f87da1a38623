"""Sliding windows: values of the last minutes, by a clock that the tests move."""

from nearkin.runtime.sliding_window import SLICE_SECONDS, WINDOW_SECONDS, SlidingWindow


def test_values_leave_after_the_window() -> None:
    now = [0.0]
    window = SlidingWindow[list[int]](list, lambda: now[0])
    for minute in range(30):
        now[0] = 60.0 * minute
        window.current().append(minute)
    assert window.slices() == [[minute] for minute in range(19, 30)]
    now[0] += WINDOW_SECONDS + SLICE_SECONDS
    assert window.slices() == []


def test_clock_that_is_set_back_keeps_only_values_before_it() -> None:
    now = [600.0]
    window = SlidingWindow[list[str]](list, lambda: now[0])
    window.current().append("before")
    now[0] = 6000.0
    window.current().append("far ahead")
    now[0] = 660.0
    assert window.slices() == []
    window.current().append("now")
    assert window.slices() == [["now"]]
