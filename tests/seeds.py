"""The seeds of tests with random cases."""

import pytest


def list_seeds(request: pytest.FixtureRequest, count: int) -> list[int]:
    """Returns the seed that `--seed` gives, or the first ones.

    Args:
        request: The request of the test.
        count: Number of seeds if none is given.
    """
    given = request.config.getoption("--seed")
    return list(range(count)) if given is None else [given]
