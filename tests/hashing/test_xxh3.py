import random

import pytest
import xxhash

from nearkin.hashing.xxh3 import xxh3

SEEDS = [0, 1, 0x9E3779B97F4A7C15, 2**64 - 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_length_from_0_to_300(seed: int) -> None:
    draw = random.Random(seed)
    values = [draw.randbytes(size) for size in range(301) for _ in range(3)]
    assert xxh3(values, seed) == [xxhash.xxh3_64_intdigest(value, seed) for value in values]


@pytest.mark.parametrize("seed", SEEDS)
def test_long_inputs(seed: int) -> None:
    draw = random.Random(seed)
    sizes = [1023, 1024, 1025, 1088, 2048, 5000, *(draw.randrange(300, 100_000) for _ in range(30))]
    values = [draw.randbytes(size) for size in sizes]
    assert xxh3(values, seed) == [xxhash.xxh3_64_intdigest(value, seed) for value in values]
