"""The runs that two texts share, against a plain comparison of all pairs of positions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.stages.winnowing import kernels, matching_runs
from nearkin.stages.winnowing.matching_runs import find_matching_runs

TOKENS = st.lists(st.integers(0, 3), max_size=40)


def find_plainly(tokens: list[int], others: list[int], least: int) -> list[tuple[int, int, int]]:
    """Returns the matching runs by their definition, one window after another."""
    windows = [tuple(others[at : at + least]) for at in range(len(others) - least + 1)]
    found = []
    at = 0
    while at + least <= len(tokens):
        window = tuple(tokens[at : at + least])
        if window not in windows:
            at += 1
            continue
        other = windows.index(window)
        before = 0
        while before < min(at, other) and tokens[at - before - 1] == others[other - before - 1]:
            before += 1
        length = least
        while (
            at + length < len(tokens)
            and other + length < len(others)
            and tokens[at + length] == others[other + length]
        ):
            length += 1
        found.append((at - before, other - before, length + before))
        at += length - least + 1
    found.sort(key=lambda run: (run[0], -run[2]))
    kept: list[tuple[int, int, int]] = []
    for run in found:
        if not kept or run[0] + run[2] > kept[-1][0] + kept[-1][2]:
            kept.append(run)
    return kept


@given(TOKENS, TOKENS, st.integers(2, 6))
@settings(max_examples=300, deadline=None)
def test_runs_are_those_of_the_plain_comparison(
    tokens: list[int], others: list[int], least: int
) -> None:
    runs = find_matching_runs(np.array(tokens, np.uint64), np.array(others, np.uint64), least)
    assert [tuple(run) for run in runs.tolist()] == find_plainly(tokens, others, least)


@given(TOKENS, TOKENS, st.integers(2, 6))
@settings(max_examples=100, deadline=None)
def test_runs_cover_exactly_what_both_texts_have(
    tokens: list[int], others: list[int], least: int
) -> None:
    windows = {tuple(others[at : at + least]) for at in range(len(others) - least + 1)}
    expected = {
        position
        for at in range(len(tokens) - least + 1)
        if tuple(tokens[at : at + least]) in windows
        for position in range(at, at + least)
    }
    runs = find_matching_runs(np.array(tokens, np.uint64), np.array(others, np.uint64), least)
    covered = {
        position for first, _, length in runs.tolist() for position in range(first, first + length)
    }
    assert covered == expected
    for first, other, length in runs.tolist():
        assert tokens[first : first + length] == others[other : other + length]


def test_periodic_texts_share_one_run() -> None:
    tokens = np.full(200_000, 7, np.uint64)
    assert find_matching_runs(tokens, tokens[:150_000], 50).tolist()[0] == [0, 0, 150_000]
    assert find_matching_runs(tokens[:60], tokens, 50).tolist() == [[0, 0, 60]]


def test_kernels_receive_the_same_types_when_the_table_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Numba would compile them again for each other type."""
    received: list[list[type]] = []
    insert = kernels.insert_windows

    def record(*arguments: Any) -> Any:
        received.append([type(argument) for argument in arguments])
        return insert(*arguments)

    monkeypatch.setattr(matching_runs, "FIRST_SLOTS", 4)
    monkeypatch.setattr(kernels, "insert_windows", record)
    tokens = np.arange(100, dtype=np.uint64)
    find_matching_runs(tokens, tokens[50:], 2)
    assert len(received) > 2
    assert all(types == received[0] for types in received)
