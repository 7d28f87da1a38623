"""Stores to run the contract over, each new and empty."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearkin as nk

STORES = ["memory", "sqlite"]
Opener = Callable[..., nk.Index]


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store of each kind."""
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/index.db"}[request.param]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(url: str, clock: Clock) -> Iterator[Opener]:
    """Opens indexes over the store, and closes them."""
    held: list[nk.Index] = []

    def open_index(**fields: Any) -> nk.Index:
        held.append(nk.Index.open(url, **{"threshold": 0.7, "clock": clock, **fields}))
        return held[-1]

    yield open_index
    for index in held:
        index.close()


def words(rng: np.random.Generator, count: int = 40) -> list[str]:
    return [f"w{number}" for number in rng.integers(0, 10**7, count)]


def near(text: list[str], rng: np.random.Generator, changes: int = 1) -> list[str]:
    """A copy with some words changed."""
    out = list(text)
    for at in rng.choice(len(out), changes, replace=False):
        out[at] = f"c{rng.integers(0, 10**7)}"
    return out


def corpus(documents: int, seed: int = 1, share: float = 0.4) -> list[str]:
    """Texts, a share of them near copies of earlier ones."""
    rng = np.random.Generator(np.random.PCG64(seed))
    made: list[list[str]] = []
    for _ in range(documents):
        if made and rng.random() < share:
            made.append(near(made[rng.integers(0, len(made))], rng, int(rng.integers(0, 4))))
        else:
            made.append(words(rng))
    return [" ".join(text) for text in made]
