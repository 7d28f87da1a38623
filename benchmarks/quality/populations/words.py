"""The words of the populations, and how often each is used."""

import random
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")

WORDS = tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf-8"))


def read_words(name: str) -> tuple[str, ...]:
    """Returns a list of `words.toml`, the most frequent words first.

    Args:
        name: Name of the list.
    """
    return tuple(word.replace("_", " ") for word in WORDS[name].split())


@lru_cache
def _sum_weights(count: int) -> tuple[float, ...]:
    """Returns the cumulative weights of Zipf's law in the form of Mandelbrot, float (count,).

    The shift makes the first of 300 names the name of 2 % of the people, as the most frequent
    surname is in many countries, and the first of ten the name of a quarter.
    """
    shift = 1 + count / 15
    return tuple(accumulate(1 / (rank + shift) for rank in range(count)))


def choose_by_rank(rng: random.Random, values: Sequence[Value]) -> Value:
    """Returns a value. The frequency of the values falls with their position by Zipf's law.

    Args:
        rng: Source of random numbers.
        values: Values, the most frequent ones first.
    """
    return rng.choices(values, cum_weights=_sum_weights(len(values)))[0]
