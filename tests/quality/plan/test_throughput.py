"""Tests of the work of sketching."""

import numpy as np
import pytest

from nearkin.quality.plan.throughput import binned_updates


@pytest.mark.parametrize(("n", "k"), [(5, 16), (20, 128), (300, 128)])
def test_updates_of_binned_sketches_agree_with_a_simulation(n: int, k: int) -> None:
    rng, empty = np.random.Generator(np.random.PCG64(n)), []
    for _ in range(400):
        empty.append(k - len(np.unique(rng.integers(0, k, 4 * n))))
    assert binned_updates(n, k, 4) == pytest.approx(4 * n + np.mean(empty) * n, rel=0.05)
